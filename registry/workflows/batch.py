"""What one step was fed: the documents of its batch, in batch order, from recorded facts and offsets alone.

No token is read. Refuses runs and steps that are not on record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from registry.core.course import Leg, Navigator


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A piece of a document in a batch.

    ``position`` is that of the sequence in the batch, ``component`` its domain and ``sequence`` its index there;
    ``first_token`` and ``stop_token`` count in the document. ``source`` is None where the shard lies nowhere here.
    """

    position: int
    component: str
    sequence: int
    document: str
    source: str | None
    shard: str
    row: int
    first_token: int
    stop_token: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The batch that made update ``step`` of a run, in the segment ``stage``."""

    run: str
    stage: str
    step: int
    sequences: int
    sequence_tokens: int
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batcher:
    """Tells batches of one archive."""

    navigator: Navigator

    def batch(self, run: str, step: int) -> Batch:
        """The batch of a step. Raises ``UnknownName`` and ``Refused``, ``DoesNotHold`` for altered facts."""
        leg = self.navigator.course(run).leg(step)
        facts = leg.order.facts
        return Batch(
            run=run,
            stage=leg.stage,
            step=step,
            sequences=facts.batch,
            sequence_tokens=facts.sequence_tokens,
            rows=tuple(self._rows(leg, step)),
        )

    def _rows(self, leg: Leg, step: int) -> Iterator[Row]:
        ids, facts = leg.order.ids(step), leg.order.facts
        names = [facts.names[number] for number, _ in ids]
        documents = {name: leg.documents(name) for name in dict.fromkeys(names)}
        cut = facts.sequence_tokens
        pieces = [tuple(documents[name].pieces(one, cut)) for name, (_, one) in zip(names, ids, strict=True)]
        packages = {
            name: self.navigator.packages(
                leg.source(name),
                held,
                [one.index for own, found in zip(names, pieces, strict=True) if own == name for one in found],
            )
            for name, held in documents.items()
        }
        for position, (name, (_, sequence), found) in enumerate(zip(names, ids, pieces, strict=True)):
            held = documents[name]
            for piece in found:
                yield Row(
                    position=position,
                    component=name,
                    sequence=sequence,
                    document=held.ids[piece.index],
                    source=packages[name][piece.index],
                    shard=held.shards[piece.index],
                    row=held.rows[piece.index],
                    first_token=piece.first,
                    stop_token=piece.stop,
                )
