"""What incidents say of each product: those that are about it, and taints that reach it from what it was made of.

A taint on a shard, a tokenizer or some steps flows on to all that descends from it. Pure. It follows the recorded
lineage, so it errs on the side of too much: a product that was given a folder with a tainted file in it is tainted.
(``reckon seen`` says what a run was really fed.) Refuses nothing; what is on record nowhere taints nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from registry.core.canonical import Json
from registry.core.digests import Digest
from registry.core.incidents import Event, Incident, Incidents, Kind, belongs
from registry.core.ledger import Ledger
from registry.core.lineage import Artifact, FileTable, Lineage, Link, Role
from registry.core.names import Name
from registry.core.records import Output, Product
from registry.core.resolving import digest_inside
from registry.errors import ReckonError


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """One incident that reaches a product. ``via`` are the names on the way, the tainted one first, the product last.

    ``from_step``: checkpoints of the product before that step are free; None when all of it is tainted. ``path``: only
    that file or folder of the product is; None when all of it is.
    """

    incident: Digest
    text: str
    via: tuple[str, ...]
    from_step: int | None = None
    path: str | None = None

    def to_json(self) -> dict[str, Json]:
        """The taint as plain facts."""
        return {
            "incident": str(self.incident),
            "text": self.text,
            "via": list(self.via),
            "from_step": self.from_step,
            "path": self.path,
        }

    def reaches(self, output: Output) -> bool:
        """Whether it reaches an output of the product: a checkpoint before the tainted steps is free."""
        step = Name.parse(output.name).step
        return self.from_step is None or step is None or step >= self.from_step


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Events and taints by product."""

    events: Mapping[Digest, tuple[Event, ...]] = field(default_factory=dict)
    taints: Mapping[Digest, tuple[Taint, ...]] = field(default_factory=dict)

    def events_of(self, product: Digest, output: Output) -> tuple[Event, ...]:
        """What happened to an output of a product; to a checkpoint, what happened up to its step."""
        step = Name.parse(output.name).step
        found = self.events.get(product, ())
        return tuple(one for one in found if step is None or one.first_step is None or one.first_step <= step)

    def taints_of(self, product: Digest, output: Output) -> tuple[Taint, ...]:
        """The taints that reach an output of a product."""
        return tuple(one for one in self.taints.get(product, ()) if one.reaches(output))


def happened(ledger: Ledger, lineage: Lineage, files: FileTable, incidents: Incidents) -> Happened:
    """What incidents say of every product."""
    records = dict(incidents.records)
    recipes = {digest: one.recipe for digest, one in ledger.executions.items()}
    events: dict[Digest, tuple[Event, ...]] = {}
    for digest, product in ledger.products.items():
        near = incidents.of(product.stage)
        steps = _steps(product, lineage.links(digest)) if near else range(0)
        mine = tuple(
            event
            for event in near
            if (
                recipes.get(event.origin) == product.recipe
                if event.automatic
                else _is_meant(records[event.origin], product, files)
                and (event.first_step is None or event.meets(steps))
            )
        )
        if mine:
            events[digest] = mine
    return Happened(events=events, taints=taints(ledger, lineage, files, incidents.records))


def taints(
    ledger: Ledger, lineage: Lineage, files: FileTable, incidents: Iterable[tuple[Digest, Incident]]
) -> Mapping[Digest, tuple[Taint, ...]]:
    """For every product that tainted data reaches: the taints, one an incident, by the shortest way.

    ``files`` gives the file table of a tree; where it cannot, a product of the stage counts as tainted.
    """
    found: dict[Digest, tuple[Taint, ...]] = {}
    children: Mapping[Digest, Sequence[tuple[Digest, Link]]] | None = None
    for digest, incident in incidents:
        if incident.incident is Kind.DATA_TAINT:
            children = lineage.downwards() if children is None else children
            sources = {
                product: _source(digest, incident)
                for product, record in ledger.products.items()
                if _is_meant(incident, record, files)
            }
            for product, taint in _flow(sources, ledger, children).items():
                found[product] = (*found.get(product, ()), taint)
    return found


def _source(digest: Digest, incident: Incident) -> Taint:
    name = Name.parse(incident.about)
    return Taint(
        incident=digest,
        text=incident.text,
        via=(incident.about,),
        from_step=incident.first_step if name.step is None else name.step,
        path=name.path,
    )


def _is_meant(incident: Incident, product: Product, files: FileTable) -> bool:
    """Whether a product holds what an incident is about: its digest, or where it names none, steps of that run."""
    name = Name.parse(incident.about)
    if not belongs(name.stage, product.stage):
        return False
    if incident.digest is None:
        steps = [step for step in (Name.parse(output.name).step for output in product.outputs) if step is not None]
        return incident.first_step is None or not steps or incident.first_step <= max(steps)
    output = product.output(name.artifact)
    if name.path is None or output is None:
        return output is not None and output.digest == incident.digest
    try:
        return digest_inside(files(output.digest), name.path) == incident.digest
    except ReckonError:
        return True


def _steps(product: Product, links: Iterable[Link]) -> range:
    """The updates that a product made: after its parent's step, up to the last one kept."""
    kept = [step for step in (Name.parse(output.name).step for output in product.outputs) if step is not None]
    begun = [Name.parse(link.name).step or 0 for link in links if link.role is Role.PARENT and _is_name(link.name)]
    return range(max(begun, default=0) + 1, max(kept, default=0) + 1)


def _is_name(text: str) -> bool:
    try:
        return Name.parse(text).step is not None
    except ReckonError:
        return False


def _flow(
    sources: dict[Digest, Taint], ledger: Ledger, children: Mapping[Digest, Sequence[tuple[Digest, Link]]]
) -> dict[Digest, Taint]:
    """Breadth first, so that the way that is told is a shortest one."""
    reached = dict(sources)
    pending = deque(sources)
    while pending:
        product = pending.popleft()
        for child, link in children.get(product, ()):
            if child not in reached and _carries(reached[product], link):
                record = ledger.products.get(child)
                via = (*reached[product].via, record.stage if record else str(child))
                reached[child] = Taint(incident=reached[product].incident, text=reached[product].text, via=via)
                pending.append(child)
    return reached


def _carries(taint: Taint, link: Link) -> bool:
    """Whether a product that was made from this link got something of what is tainted."""
    if not isinstance(link.source, Artifact) or not taint.reaches(link.source.output):
        return False
    if taint.path is None or link.source.path is None:
        return True
    inner, outer = f"{taint.path}/", f"{link.source.path}/"
    return inner.startswith(outer) or outer.startswith(inner)
