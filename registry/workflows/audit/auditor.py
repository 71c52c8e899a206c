"""Auditing an artifact: gather the evidence of its whole lineage, then judge every edge.

The evidence comes from an archive or from a bundle; the rules (``registry.core.audit``) see no difference. At the depth
``records`` only records, tables and small artifacts are read; at ``bytes`` every byte that lies here is hashed again
and every witness that is at hand is asked. One that is not at hand is told as not consulted: neither for nor against.
Refuses names that nothing is recorded under and files inside artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from registry.core import kinds
from registry.core.attestation import Attestation, Attested
from registry.core.audit import gathering
from registry.core.audit.evidence import Evidence, Node, ReadSettings
from registry.core.audit.judging import Audit, attested, edges_of, marks, reproduced
from registry.core.audit.walk import newest, walk
from registry.core.digests import Digest
from registry.core.dsse import Envelope
from registry.core.forecast import Forecast
from registry.core.gitobjects import GitTrees
from registry.core.happened import Happened, happened
from registry.core.incidents import Incident, Incidents
from registry.core.ledger import Ledger
from registry.core.lineage import Lineage
from registry.core.names import Name
from registry.core.pointers import Pointer
from registry.core.program import Program, Relowered
from registry.core.resolving import Held, artifact
from registry.core.withheld import Withheld
from registry.errors import DoesNotHold, ReckonError, Refused, UnknownName
from registry.ports import Columns, Commits, Papers, RecordStore
from registry.workflows.audit.looking import AtHand, Live, Looking

RARER = (Forecast.KIND, Withheld.KIND, Incident.KIND, Pointer.KIND, Attestation.KIND, Program.KIND)
MOST_EVENTS = 10_000


class Depth(StrEnum):
    """How far an audit looks: at all bytes, or at records, tables and small artifacts only."""

    BYTES = "bytes"
    RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Audits the artifacts of one archive or bundle. ``commits`` is None where there is no git to ask.

    ``signed`` checks the signature of an attestation; without it none counts.
    ``relower`` lowers a recorded program again, here or elsewhere; without it programs are not looked at.
    ``live`` is None for a bundle; ``at_hand`` is the artifact itself when somebody names its folder.
    """

    records: RecordStore
    ledger: Ledger
    columns: Columns
    papers: Papers
    settings: ReadSettings
    commits: Commits | None = None
    with_history: bool = True
    signed: Callable[[str, Envelope], Attested] | None = None
    live: Live | None = None
    at_hand: AtHand | None = None
    relower: Callable[[Program], tuple[Relowered, ...]] | None = None

    def audit(self, name: Name, depth: Depth) -> tuple[Audit, Evidence]:
        """Audit what ``name`` means: the outcome, and what it rests on. Raises ``UnknownName`` when there is none."""
        held, evidence = self.gather(name)
        live = self.live if depth is Depth.BYTES else None
        looking = Looking(held=held, evidence=evidence, columns=self.columns, live=live, at_hand=self.at_hand)
        looking.hash()
        looking.ask()
        judged = replace(looking.complete(), relowered=self._relowered(evidence))
        audit = Audit(
            name=str(name),
            product=held.product_digest,
            depth=depth.value,
            edges=edges_of(judged),
            looked=looking.looked(),
            reproduced=reproduced(judged),
            consulted=looking.consulted,
            marks=tuple(marks(judged)),
            attested=tuple(attested(judged)),
        )
        return audit, judged

    def read(self, name: Name) -> tuple[Held, Evidence]:
        """Gather, and judge once at the depth ``records``, so that everything which that needs has been read."""
        held, evidence = self.gather(name)
        edges_of(evidence)
        return held, evidence

    def _held(self, name: Name) -> Held:
        """What a name means. Raises ``DoesNotHold`` when nothing does and a damaged record may be what told it."""
        try:
            return artifact(self.ledger, name)
        except UnknownName as error:
            if not self.ledger.damages:
                raise
            first, *others = self.ledger.damages
            which = f"{first.kind} {first.name.removeprefix('sha256:')[:12]}"
            if others:
                which += f", like {len(others)} more,"
            raise DoesNotHold(
                f"{error.message} The {which} is damaged, and may be what told of it.",
                remedy="'reckon verify --all' names what is damaged; get those records again from where they came.",
            ) from error

    def gather(self, name: Name) -> tuple[Held, Evidence]:
        """The artifact and the evidence that records, tables and git give of its lineage; no bytes are hashed."""
        if name.path is not None:
            raise Refused(
                f"{name} is a file.", remedy=f"Audit {name.artifact}; see 'reckon prove {name}' for the file."
            )
        held = self._held(name)
        lineage = Lineage(self.ledger, self.columns.files)
        nodes = walk(self.ledger, lineage, held.product_digest)
        rarer = {kind: tuple(self._read(kind)) for kind in RARER}
        incidents = Incidents.build(self._raw(Incident.KIND), self.ledger)
        surveyed = self.columns.survey(gathering.wanted(nodes.values(), self.ledger))
        git = self.commits if self.commits is not None and self.commits.here else None
        additions = git.additions("manifests") if git is not None and self.with_history else None
        evidence = Evidence(
            ledger=self.ledger,
            nodes=nodes,
            current=newest(self.ledger, nodes.values()),
            surveyed=surveyed,
            leaves=self.columns.count_leaves(gathering.tabled_roots(nodes.values())),
            paper=self.papers.read,
            settings=self.settings,
            git=None if git is None else GitTrees(git.read),
            additions=additions,
            precedes=_never if git is None or additions is None else git.precedes,
            forecasts={digest: one for digest, one in rarer[Forecast.KIND] if isinstance(one, Forecast | ReckonError)},
            sealed=gathering.sealed(self.ledger, surveyed),
            withheld={one.digest: one for _, one in rarer[Withheld.KIND] if isinstance(one, Withheld)},
            incidents=incidents,
            happened=self._happened(lineage, incidents),
            attested=self._attested(rarer[Attestation.KIND]),
            programs=_programs(nodes.values(), rarer[Program.KIND]),
            damages=tuple(_damages(rarer)),
            altered=() if self.live is None or git is None else tuple(self.live.repository.altered("manifests")),
        )
        return held, evidence

    def _happened(self, lineage: Lineage, incidents: Incidents) -> Happened:
        """Events and taints by product. Without any there is nothing to look up; a flood of them is not looked up."""
        if not 0 < len(incidents.events) <= MOST_EVENTS:
            return Happened()
        return happened(self.ledger, lineage, self.columns.files, incidents)

    def _relowered(self, evidence: Evidence) -> Mapping[Digest, tuple[Relowered, ...]]:
        if self.relower is None:
            return {}
        return {
            recipe: tuple(found for one in recorded for found in self.relower(one))
            for recipe, recorded in evidence.programs.items()
        }

    def _attested(self, records: Collection[tuple[Digest, object]]) -> Mapping[Digest, tuple[Attested, ...]]:
        """Attestations by the recipe that they speak of, each with its signature checked."""
        found: dict[Digest, tuple[Attested, ...]] = {}
        for digest, record in records:
            if isinstance(record, Attestation) and self.signed is not None:
                one = self.signed(digest.short, record.envelope)
                recipe = one.rederivation.recipe
                found[recipe] = (*found.get(recipe, ()), one)
        return found

    def _read(self, kind: str) -> Iterator[tuple[Digest, object]]:
        """Records of a kind, or what is wrong with them."""
        for digest, data in self._raw(kind):
            try:
                yield digest, data if isinstance(data, ReckonError) else kinds.read(kind, data)
            except ReckonError as error:
                yield digest, error

    def _raw(self, kind: str) -> Iterator[tuple[Digest, bytes | ReckonError]]:
        for digest in self.records.digests(kind):
            try:
                yield digest, self.records.get(kind, digest)
            except ReckonError as error:
                yield digest, error


def _programs(
    nodes: Collection[Node], records: Collection[tuple[Digest, object]]
) -> Mapping[Digest, tuple[Program, ...]]:
    """Program records by the recipe that they belong to, of the recipes of a lineage."""
    wanted: dict[Digest, tuple[Program, ...]] = {node.product.recipe: () for node in nodes}
    for _, record in records:
        if isinstance(record, Program) and record.recipe in wanted:
            wanted[record.recipe] += (record,)
    return {recipe: found for recipe, found in wanted.items() if found}


def _damages(records: Mapping[str, Collection[tuple[Digest, object]]]) -> Iterator[str]:
    """What is wrong with records of the rarer kinds. A damaged declaration excuses nothing, but it is told."""
    for kind, found in records.items():
        for digest, one in found:
            if isinstance(one, ReckonError):
                yield f"the {kind} record {digest}: {one.message}"


def _never(_earlier: str, _later: str) -> bool:
    return False
