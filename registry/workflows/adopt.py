"""Adopting foreign records: what others told is kept as claims, each with its source, and never as a witness.

What is already on record in the same words is not written again; what changed is written beside it, and the newest
counts. Refuses a name that an own stage has: a foreign claim cannot stand under it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from registry.core import canonical
from registry.core.adopted.record import Adopted
from registry.core.codec import name_of, record_bytes
from registry.core.digests import Digest
from registry.errors import ReckonError, Refused
from registry.ports import RecordStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One record of an adoption; ``new`` unless it was there in the same words."""

    digest: Digest
    record: Adopted
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopter:
    """Adopts records into one archive. ``stages`` are the names of the archive's own stages."""

    records: RecordStore
    stages: frozenset[str]

    def adopt(self, found: Iterable[Adopted]) -> tuple[Taken, ...]:
        """Keep records. Raises ``Refused`` for a name of the archive's own, before anything is written."""
        wanted = tuple(found)
        for record in wanted:
            own = [stage for stage in self.stages if stage == record.name or stage.startswith(f"{record.name}/")]
            if own:
                raise Refused(
                    f"{record.name} is a name of this archive's own stages.", remedy="Choose another with --as."
                )
        held = self._held()
        return tuple(self._take(record, held) for record in wanted)

    def _take(self, record: Adopted, held: dict[tuple[str, str, str], Adopted]) -> Taken:
        there = held.get(record.place)
        if there is not None and there.says_as(record):
            return Taken(digest=name_of(there), record=there, new=False)
        return Taken(digest=self.records.put(record.kind, record_bytes(record)), record=record, new=True)

    def _held(self) -> dict[tuple[str, str, str], Adopted]:
        """The newest readable record of each place."""
        found: dict[tuple[str, str, str], Adopted] = {}
        for digest in self.records.digests(Adopted.KIND):
            try:
                record = Adopted.from_json(canonical.decode(self.records.get(Adopted.KIND, digest)))
            except ReckonError:
                continue  # For 'verify' and 'audit' to tell.
            there = found.get(record.place)
            if there is None or there.time < record.time:
                found[record.place] = record
        return found
