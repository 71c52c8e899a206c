"""Which bytes of recorded products are still reached, and why: from releases, handoffs, milestones and the rest.

A root is an artifact that stays for a reason of its own; what it was made from stays with it. A trained product that
nothing reaches keeps its papers (everything but checkpoints) as long as it has a witness, since a witness without its
transcript proves nothing. Pure. It errs on the side of keeping: a record of a kind that is not known here keeps what it
names. Refuses nothing; a table that cannot be read is for the caller to ask about.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import Final

from registry.core.canonical import Json
from registry.core.digests import Algorithm, Digest, FileEntry
from registry.core.happened import Happened
from registry.core.incidents import Event, Kind
from registry.core.ledger import Ledger
from registry.core.lineage import Artifact, FileTable, Lineage, Link, Role
from registry.core.names import Name
from registry.core.records import Output, Product
from registry.core.resolving import root_of
from registry.core.retention import Class, Marks, Policy
from registry.errors import ReckonError

PAPERS: Final = "*"
LINEAGE: Final = frozenset(
    {"recipe", "product", "execution", "environment", "opening", "pointer", "withheld", "incident", "retention"}
)
_CHECKPOINTS: Final = "checkpoints/"
_HEX: Final = re.compile(r"(?:sha256:)?([0-9a-f]{64})")
_PASSING: Final = frozenset({Kind.RESTART.value, Kind.INTERRUPTION.value})


class Ground(StrEnum):
    """Why something stays, the strongest first."""

    RELEASE = "release"
    HANDOFF = "handoff"
    MILESTONE = "milestone"
    FORECAST = "forecast"
    INCIDENT = "incident"
    NAMED = "named"  # by a record of another kind
    CURRENT = "current"
    CONTRADICTION = "contradiction"
    WITNESS = "witness"
    YOUNG = "young"


_RANK: Final = {ground: rank for rank, ground in enumerate(Ground)}
_ALONE: Final = frozenset({Ground.CONTRADICTION, Ground.WITNESS, Ground.YOUNG})
_OF_MARKS: Final = {
    Class.RELEASE: Ground.RELEASE,
    Class.MILESTONE: Ground.MILESTONE,
    Class.HANDOFF: Ground.HANDOFF,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why something stays: in one word and in a sentence."""

    ground: Ground
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A part of a product that stays: a path in the archive with all below it, or its papers."""

    product: Digest
    part: str
    reason: Reason


@dataclass(frozen=True, kw_only=True)
class Known:
    """Everything that is needed to tell what is reached.

    ``declared`` are the stages of the pipeline; ``tracked`` DVC locators with who tracks them; ``mentions`` the values
    of records that are no part of the lineage, with their kind and digest; ``young`` products that are not old enough.
    """

    ledger: Ledger
    lineage: Lineage
    files: FileTable
    happened: Happened = field(default_factory=Happened)
    marks: Marks = field(default_factory=Marks)
    policy: Policy = field(default_factory=Policy)
    declared: frozenset[str] = frozenset()
    tracked: Mapping[str, str] = field(default_factory=dict)
    mentions: Sequence[tuple[str, Digest, Json]] = ()
    young: frozenset[Digest] = frozenset()

    def table(self, output: Output) -> Sequence[FileEntry] | None:
        """The files of an output, None where its table cannot be read."""
        try:
            return self.files(output.digest)
        except ReckonError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What stays of every product, by part, with the strongest reason."""

    parts: Mapping[Digest, Mapping[str, Reason]]

    def reason(self, product: Digest, own: Output, path: str) -> Reason | None:
        """Why a file of an output stays, None when nothing reaches it. ``path`` is relative to the output."""
        parts = self.parts.get(product, {})
        found = [parts[part] for part in _upwards(f"{own.path}/{path}") if part in parts]
        if PAPERS in parts and not path.startswith(_CHECKPOINTS):
            found.append(parts[PAPERS])
        return min(found, key=lambda reason: _RANK[reason.ground], default=None)


def _upwards(path: str) -> Iterator[str]:
    """A path and the folders that it lies in, without looking at a disk."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def reach(known: Known) -> Reached:
    """Follow all roots, the strongest first, to what they were made from."""
    parts: dict[Digest, dict[str, Reason]] = {}
    for root in sorted(roots(known), key=lambda root: _RANK[root.reason.ground]):
        _follow(known, root, parts)
    return Reached(parts=parts)


def roots(known: Known) -> Iterator[Root]:
    """Everything that stays for a reason of its own."""
    yield from _Mentions(known).roots()
    yield from _marked(known)
    for digest, product in known.ledger.products.items():
        links = known.lineage.links(digest)
        yield from _handoffs(product, links)
        yield from _milestones(known, digest, product)
        yield from _around_incidents(known, digest, product)
        yield from _current(known, digest, product)
        yield from _proofs(known, digest, product)


def young_products(ledger: Ledger, now: str, days: int) -> frozenset[Digest]:
    """Products that an execution gave within so many days before ``now``; those whose time cannot be read too."""
    limit = datetime.fromisoformat(now) - timedelta(days=days)
    pairs = ((one.product, one.ended or one.started) for one in ledger.executions.values())
    return frozenset(product for product, when in pairs if product is not None and not _before(when, limit))


def _before(text: str, limit: datetime) -> bool:
    try:
        return datetime.fromisoformat(text) < limit
    except (ValueError, TypeError):
        return False


def own_outputs(product: Product) -> tuple[Output, ...]:
    """The outputs that are not checkpoints inside another."""
    return tuple(output for output in product.outputs if Name.parse(output.name).step is None)


def _follow(known: Known, root: Root, parts: dict[Digest, dict[str, Reason]]) -> None:
    pending = deque([root])
    while pending:
        one = pending.popleft()
        mine = parts.setdefault(one.product, {})
        if one.part in mine:
            continue
        mine[one.part] = one.reason
        if root.reason.ground not in _ALONE:
            mine.setdefault(PAPERS, one.reason)
            pending.extend(_beyond(known, one, root))


def _beyond(known: Known, one: Root, root: Root) -> Iterator[Root]:
    """What a part was made from; the first step away from the root says what that is."""
    product = known.ledger.products.get(root.product)
    stage = str(root.product) if product is None else product.stage
    why = f"{stage} was made from it, and stays: {root.reason.why}"
    for link in known.lineage.links(one.product):
        if isinstance(link.source, Artifact):
            part = link.source.output.path + (f"/{link.source.path}" if link.source.path else "")
            reason = Reason(ground=root.reason.ground, why=why)
            yield Root(product=link.source.product, part=part, reason=reason)


def _handoffs(product: Product, links: Sequence[Link]) -> Iterator[Root]:
    for link in links:
        if link.role is Role.PARENT and isinstance(link.source, Artifact):
            reason = Reason(ground=Ground.HANDOFF, why=f"{product.stage} began from it")
            yield Root(product=link.source.product, part=link.source.output.path, reason=reason)


def _marked(known: Known) -> Iterator[Root]:
    for (digest, name), record in known.marks.current.items():
        product = known.ledger.products.get(digest)
        output = None if product is None else product.output(name)
        ground = _OF_MARKS.get(record.holds)
        if output is not None and ground is not None:
            reason = Reason(ground=ground, why=f"it is marked: {record.text}")
            yield Root(product=digest, part=output.path, reason=reason)


def _milestones(known: Known, digest: Digest, product: Product) -> Iterator[Root]:
    every = known.policy.milestone_every_steps
    for step, output in _kept(product) if every else ():
        mark = known.marks.of(digest, output.name)
        if step % every == 0 and (mark is None or mark.holds is not Class.SCRATCH):
            reason = Reason(ground=Ground.MILESTONE, why=f"every {every} steps a checkpoint is a milestone")
            yield Root(product=digest, part=output.path, reason=reason)


def _around_incidents(known: Known, digest: Digest, product: Product) -> Iterator[Root]:
    for event in known.happened.events.get(digest, ()):
        if event.automatic and event.incident in _PASSING:
            continue
        reason = Reason(ground=Ground.INCIDENT, why=f"an incident is about it: {event.label}")
        for part in _parts_about(event, product):
            yield Root(product=digest, part=part, reason=reason)


def _parts_about(event: Event, product: Product) -> Iterator[str]:
    """The last checkpoint before the steps of an incident and the first after them; or the artifact that it names."""
    if event.first_step is not None and event.last_step is not None:
        before = [output for step, output in _kept(product) if step < event.first_step]
        after = [output for step, output in _kept(product) if step >= event.last_step]
        yield PAPERS
        yield from (output.path for output in (*before[-1:], *after[:1]))
        return
    name = Name.parse(event.about)
    output = product.output(name.artifact)
    if output is not None:
        yield output.path + (f"/{name.path}" if name.path else "")


def _current(known: Known, digest: Digest, product: Product) -> Iterator[Root]:
    head = known.ledger.head(product.stage) if product.stage in known.declared else None
    newest = head is not None and head[1].product == digest
    for own in own_outputs(product):
        who = known.tracked.get((own.locator or "").removeprefix("md5:"))
        if newest or who is not None:
            why = f"it is the newest product of {product.stage}" if newest else f"{who} tracks it"
            yield Root(product=digest, part=own.path, reason=Reason(ground=Ground.CURRENT, why=why))


def _proofs(known: Known, digest: Digest, product: Product) -> Iterator[Root]:
    """Both sides of a contradiction, the papers of witnesses, and what is not old enough to go."""
    gave = known.ledger.witnesses(product.recipe)
    if len(gave) > 1:
        reason = Reason(ground=Ground.CONTRADICTION, why=f"its recipe gave {len(gave)} products")
        yield from (Root(product=digest, part=own.path, reason=reason) for own in own_outputs(product))
    mine = next((one for one in gave if one.product == digest), None)
    if mine is not None and _kept(product):
        reason = Reason(ground=Ground.WITNESS, why=f"papers of {len(mine.executions)} executions that made it")
        yield Root(product=digest, part=PAPERS, reason=reason)
    if digest in known.young:
        reason = Reason(ground=Ground.YOUNG, why=f"made within {known.policy.superseded_days} days")
        yield from (Root(product=digest, part=own.path, reason=reason) for own in own_outputs(product))


@dataclass(frozen=True)
class _Mentions:
    """Records that name products, outputs, tensor roots or files by digest."""

    known: Known

    def roots(self) -> Iterator[Root]:
        for kind, digest, value in self.known.mentions:
            ground = {"release": Ground.RELEASE, "forecast": Ground.FORECAST}.get(kind, Ground.NAMED)
            reason = Reason(ground=ground, why=f"the {kind} record {digest.short} names it")
            for named in sorted(set(_digests(value))):
                yield from self._named(named, reason)

    def _named(self, named: Digest, reason: Reason) -> Iterator[Root]:
        for product, output in self._outputs.get(named, ()):
            yield Root(product=product, part=output.path, reason=reason)
        execution = self.known.ledger.executions.get(named)
        whole = named if execution is None or execution.product is None else execution.product
        record = self.known.ledger.products.get(whole)
        for own in own_outputs(record) if record is not None else ():
            yield Root(product=whole, part=own.path, reason=reason)
        for product in self._papers.get(named, ()):
            last = _kept(self.known.ledger.products[product])[-1:]
            yield Root(product=product, part=PAPERS, reason=reason)
            yield from (Root(product=product, part=output.path, reason=reason) for _, output in last)

    @cached_property
    def _outputs(self) -> Mapping[Digest, list[tuple[Digest, Output]]]:
        found: dict[Digest, list[tuple[Digest, Output]]] = {}
        for digest, product in self.known.ledger.products.items():
            for output in product.outputs:
                for named in {output.digest, root_of(output) or output.digest}:
                    found.setdefault(named, []).append((digest, output))
        return found

    @cached_property
    def _papers(self) -> Mapping[Digest, list[Digest]]:
        """Products by the digests of their papers."""
        found: dict[Digest, list[Digest]] = {}
        for digest, product in self.known.ledger.products.items():
            for own in own_outputs(product) if _kept(product) else ():
                for entry in self.known.table(own) or ():
                    if not entry.path.startswith(_CHECKPOINTS):
                        found.setdefault(entry.digest, []).append(digest)
        return found


def _kept(product: Product) -> list[tuple[int, Output]]:
    """Checkpoints by step, ascending."""
    steps = ((Name.parse(output.name).step, output) for output in product.outputs)
    return sorted(((step, one) for step, one in steps if step is not None), key=lambda pair: pair[0])


def _digests(value: Json) -> Iterator[Digest]:
    """Every SHA-256 that a value names, however deep."""
    pending: list[Json] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            match = _HEX.fullmatch(one)
            if match is not None:
                yield Digest(Algorithm.SHA256, match[1])
        elif isinstance(one, Mapping):
            pending.extend((*one.keys(), *one.values()))
        elif isinstance(one, Sequence):
            pending.extend(one)
