"""When a document, a shard or a package was trained on: steps, segments, kept checkpoints, and which of them are free.

From recorded facts and offsets alone; no token is read. Refuses what no recorded run can have been fed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from registry.core.course import Course, Leg, Navigator
from registry.core.documents import Split
from registry.core.names import Name, known
from registry.core.resolving import SHORTEST
from registry.core.spans import Documents, ranges
from registry.errors import Refused, UnknownName


class What(StrEnum):
    """What is looked for."""

    DOCUMENT = "document"
    SHARD = "shard"
    SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class Visits:
    """How often a segment was fed it: sequences that hold some of it, its tokens in them, and the steps in runs."""

    stage: str
    first_step: int
    last_step: int
    sequences: int
    tokens: int
    steps: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A kept checkpoint, and how many sequences that hold some of it were fed before."""

    name: str
    sequences: int

    @property
    def free(self) -> bool:
        """Whether it was never trained on it."""
        return self.sequences == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenIn:
    """What one run was fed of it."""

    run: str
    segments: tuple[Visits, ...]
    checkpoints: tuple[Checkpoint, ...]

    @property
    def free(self) -> tuple[str, ...]:
        """The kept checkpoints that were never trained on it."""
        return tuple(one.name for one in self.checkpoints if one.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The answer: how many documents it is, how many of them are held out of training, and what each run was fed."""

    what: What
    name: str
    documents: int
    heldout: int
    tokens: int
    runs: tuple[SeenIn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finder:
    """Looks through the runs of one archive."""

    navigator: Navigator

    def seen(self, what: What, name: str, run: str | None) -> Seen:
        """Where ``name`` was seen, in one run or in all. Raises ``UnknownName`` when no run has it among its data."""
        _check(what, name)
        courses = [self.navigator.course(one) for one in ([run] if run else self.navigator.runs())]
        if not courses:
            raise UnknownName("No run is on record.", remedy="Train one: 'dvc repro'. See 'reckon status'.")
        looked = [self._look(course, what, name) for course in courses]
        documents = {identity: tokens for _, found, _ in looked for identity, tokens in found.items()}
        heldout = {identity for _, _, held in looked for identity in held}
        if not documents and not heldout:
            self._unknown(courses, what, name)
        if what is What.DOCUMENT and len({*documents, *heldout}) > 1:
            raise Refused(f"{len({*documents, *heldout})} documents begin with {name}.", remedy="Write more of its id.")
        return Seen(
            what=what,
            name=next(iter({*documents, *heldout})) if what is What.DOCUMENT else name,
            documents=len({*documents, *heldout}),
            heldout=len(heldout),
            tokens=sum(documents.values()),
            runs=tuple(seen for seen, _, _ in looked),
        )

    def _look(self, course: Course, what: What, name: str) -> tuple[SeenIn, dict[str, int], set[str]]:
        """What a run was fed; the tokens of the documents meant among its training data, and those held out."""
        documents: dict[str, int] = {}
        heldout: set[str] = set()
        visits: list[Visits] = []
        fed: list[list[int]] = []
        for leg in course.legs:
            steps: list[int] = []
            tokens = 0
            for number, component in enumerate(leg.order.facts.names):
                held = leg.documents(component)
                meant = self._meant(leg, component, Split.TRAIN, (what, name))
                documents.update((held.ids[index], held.tokens[index]) for index in meant)
                out = leg.documents(component, Split.HELDOUT)
                heldout.update(out.ids[index] for index in self._meant(leg, component, Split.HELDOUT, (what, name)))
                weights = _weights(held, meant, leg.order.facts.sequence_tokens)
                for place, sequence in leg.order.places(number, weights, leg.steps):
                    steps.append(leg.order.step_of(place))
                    tokens += weights[sequence]
            steps.sort()
            fed.append(steps)
            visits.append(_visits(leg, steps, tokens))
        checkpoints = tuple(_checkpoints(course, fed))
        return SeenIn(run=course.run, segments=tuple(visits), checkpoints=checkpoints), documents, heldout

    def _meant(self, leg: Leg, component: str, split: Split, query: tuple[What, str]) -> Sequence[int]:
        """The documents of a split that are meant, by their index."""
        what, name = query
        held = leg.documents(component, split)
        if what is What.DOCUMENT:
            return held.beginning(name)
        if what is What.SHARD:
            return [index for index, shard in enumerate(held.shards) if shard == name]
        packages = self.navigator.packages(leg.source(component), held, range(len(held.ids)))
        return [index for index, package in packages.items() if package == name]

    def _unknown(self, courses: Sequence[Course], what: What, name: str) -> None:
        """Raises ``UnknownName`` with what is near."""
        if what is What.DOCUMENT:
            raise UnknownName(f"No document among the data of these runs has an id that begins with {name}.")
        names: set[str | None] = set()
        for leg in (leg for course in courses for leg in course.legs):
            for component in leg.order.facts.names:
                held = leg.documents(component)
                everything = range(len(held.ids))
                packages = self.navigator.packages(leg.source(component), held, everything).values()
                names.update(held.shards if what is What.SHARD else packages)
        known(name, [one for one in names if one is not None])


def _check(what: What, name: str) -> None:
    if what is What.DOCUMENT and (not SHORTEST <= len(name) <= 64 or name.strip("0123456789abcdef")):
        raise Refused(f"{name!r} is not the id of a document.", remedy=f"Write {SHORTEST} to 64 lower-case hex digits.")


def _weights(held: Documents, meant: Sequence[int], length: int) -> Mapping[int, int]:
    """How many tokens of the documents that are meant lie in each sequence that holds some."""
    wanted = frozenset(meant)
    weights: dict[int, int] = {}
    for index in meant:
        for sequence in held.sequences(index, length):
            if sequence not in weights:
                pieces = held.pieces(sequence, length)
                weights[sequence] = sum(one.stop - one.first for one in pieces if one.index in wanted)
    return weights


def _visits(leg: Leg, steps: Sequence[int], tokens: int) -> Visits:
    return Visits(
        stage=leg.stage,
        first_step=leg.steps.start,
        last_step=leg.steps.stop - 1,
        sequences=len(steps),
        tokens=tokens,
        steps=tuple(ranges(sorted(set(steps)))),
    )


def _checkpoints(course: Course, fed: Sequence[Sequence[int]]) -> Iterator[Checkpoint]:
    """The kept checkpoints of the run with what was fed up to them."""
    before = 0
    for leg, steps in zip(course.legs, fed, strict=True):
        for kept in leg.kept:
            if kept in leg.steps:
                times = before + sum(step <= kept for step in steps)
                yield Checkpoint(name=str(Name(stage=leg.stage, step=kept)), sequences=times)
        before += len(steps)
