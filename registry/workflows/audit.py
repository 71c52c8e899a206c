"""Auditing an artifact: gather the evidence of its whole lineage, then judge every edge.

The evidence comes from an archive or from a bundle; the rules (``registry.core.audit``) see no difference. At the depth
``records`` only records, tables and small artifacts are read; at ``bytes`` every byte that lies here is hashed again
and every witness that is at hand is asked. One that is not at hand is told as not consulted: neither for nor against.
Refuses names that nothing is recorded under and files inside artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from registry.core import kinds
from registry.core.audit import custody, gathering
from registry.core.audit.evidence import Copy, Custody, Evidence, Node, ReadSettings
from registry.core.audit.judging import Audit, Looked, edges_of, marks, reproduced
from registry.core.audit.walk import newest, walk
from registry.core.comparison import file_changes
from registry.core.digests import Digest
from registry.core.findings import Finding, Tally, Trouble, of_file
from registry.core.forecast import Forecast
from registry.core.gitobjects import GitTrees
from registry.core.happened import Happened, happened
from registry.core.incidents import Incident, Incidents
from registry.core.ledger import Ledger
from registry.core.lineage import Lineage
from registry.core.names import Name
from registry.core.pointers import Pointer
from registry.core.records import Output, Product
from registry.core.resolving import Held, artifact, root_of
from registry.core.tensors import tensor_root
from registry.core.withheld import Withheld
from registry.errors import ReckonError, Refused
from registry.ports import Bytes, Cache, Columns, Commits, Observer, Papers, RecordStore, Repository

RARER = (Forecast.KIND, Withheld.KIND, Incident.KIND, Pointer.KIND)
MOST_EVENTS = 10_000
_WITNESSES = ("dvc.lock", "DVC cache", "mlflow", "wandb")


class Depth(StrEnum):
    """How far an audit looks: at all bytes, or at records, tables and small artifacts only."""

    BYTES = "bytes"
    RECORDS = "records"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtHand:
    """The audited artifact itself in some folder: ``path`` as ``disk`` and ``observer`` know it."""

    disk: Bytes
    observer: Observer
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """What only a working archive has. ``hash_product`` hashes all outputs of a product, ``hash_output`` one of them.

    ``copies`` asks the trackers about executions: what they hold, and what came of asking each of them. ``consulted``
    says of DVC's lock and cache whether they are here.
    """

    repository: Repository
    hash_product: Callable[[Product, Tally], None]
    hash_output: Callable[[Held, Tally], None]
    cache: Cache | None
    consulted: Mapping[str, str]
    copies: Callable[[Ledger, Collection[Digest]], tuple[Mapping[Digest, tuple[Copy, ...]], Mapping[str, str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Auditor:
    """Audits the artifacts of one archive or bundle. ``commits`` is None where there is no git to ask.

    ``live`` is None for a bundle; ``at_hand`` is the artifact itself when somebody names its folder.
    """

    records: RecordStore
    ledger: Ledger
    columns: Columns
    papers: Papers
    settings: ReadSettings
    commits: Commits | None = None
    with_history: bool = True
    live: Live | None = None
    at_hand: AtHand | None = None

    def audit(self, name: Name, depth: Depth) -> tuple[Audit, Evidence]:
        """Audit what ``name`` means: the outcome, and what it rests on. Raises ``UnknownName`` when there is none."""
        held, evidence = self.gather(name)
        looking = _Looking(auditor=self, held=held, evidence=evidence)
        if depth is Depth.BYTES or self.at_hand is not None:
            looking.hash(depth)
        if depth is Depth.BYTES:
            looking.ask()
        judged = looking.complete()
        audit = Audit(
            name=str(name),
            product=held.product_digest,
            depth=depth.value,
            edges=edges_of(judged),
            looked=looking.looked(),
            reproduced=reproduced(judged),
            consulted=looking.consulted,
            marks=tuple(marks(judged)),
        )
        return audit, judged

    def read(self, name: Name) -> tuple[Held, Evidence]:
        """Gather, and judge once at the depth ``records``, so that everything which that needs has been read."""
        held, evidence = self.gather(name)
        edges_of(evidence)
        return held, evidence

    def gather(self, name: Name) -> tuple[Held, Evidence]:
        """The artifact and the evidence that records, tables and git give of its lineage; no bytes are hashed."""
        if name.path is not None:
            raise Refused(
                f"{name} is a file.", remedy=f"Audit {name.artifact}; see 'reckon prove {name}' for the file."
            )
        held = artifact(self.ledger, name)
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
            damages=tuple(_damages(rarer)),
            altered=() if self.live is None or git is None else tuple(self.live.repository.altered("manifests")),
        )
        return held, evidence

    def _happened(self, lineage: Lineage, incidents: Incidents) -> Happened:
        """Events and taints by product. Without any there is nothing to look up; a flood of them is not looked up."""
        if not 0 < len(incidents.events) <= MOST_EVENTS:
            return Happened()
        return happened(self.ledger, lineage, self.columns.files, incidents)

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


@dataclass(slots=True, kw_only=True)
class _Looking:
    """One audit while it looks at bytes and asks witnesses."""

    auditor: Auditor
    held: Held
    evidence: Evidence
    tally: Tally = field(default_factory=Tally)
    custody: dict[Digest, Custody] = field(default_factory=dict)
    copies: Mapping[Digest, tuple[Copy, ...]] = field(default_factory=dict)
    consulted: dict[str, str] = field(default_factory=dict)

    def hash(self, depth: Depth) -> None:
        """Hash what lies here: of every product at the depth ``bytes``, else only the artifact that is at hand."""
        live = self.auditor.live if depth is Depth.BYTES else None
        for node in self.evidence.nodes.values():
            subject = node.digest == self.held.product_digest
            if subject and self.auditor.at_hand is not None:
                self._keep(node, [self.held.output.name], self._at_hand(self.auditor.at_hand))
            elif live is not None and node.digest in self.evidence.current:
                self._present(node, live, subject)
            elif live is not None:
                self._replaced(node, live)

    def ask(self) -> None:
        """Ask the trackers about every execution of the lineage."""
        if self.auditor.live is not None:
            executions = [digest for node in self.evidence.nodes.values() for digest, _ in node.executions]
            self.copies, told = self.auditor.live.copies(self.auditor.ledger, executions)
            self.consulted.update({**self.auditor.live.consulted, **told})

    def complete(self) -> Evidence:
        """The evidence with what was found."""
        git = "consulted" if self.evidence.additions is not None else "the objects in the bundle, without history"
        self.consulted["git"] = "not consulted: no repository here" if self.evidence.git is None else git
        for system in _WITNESSES:
            self.consulted.setdefault(system, "not consulted: only records were read")
        return replace(self.evidence, custody=self.custody, copies=self.copies)

    def looked(self) -> Looked:
        """Counts of what was looked at."""
        ledger = self.auditor.ledger
        records = (ledger.recipes, ledger.products, ledger.executions, ledger.environments, self.evidence.forecasts)
        return Looked(
            files=self.tally.files,
            size_bytes=self.tally.size_bytes,
            tensors=self.tally.tensors,
            records=sum(map(len, records)),
            tables=len(self.evidence.surveyed) + len(self.evidence.leaves),
        )

    def _present(self, node: Node, live: Live, subject: bool) -> None:
        tally = Tally()
        if subject and "step" in self.held.output.contents:
            live.hash_output(self.held, tally)
            looked = [self.held.output.name]
        else:
            live.hash_product(node.product, tally)
            looked = [output.name for output in node.product.outputs]
        found = [*tally.findings, *self._cached(node, live.cache)]
        self._count(tally)
        self._keep(node, looked, found)

    def _replaced(self, node: Node, live: Live) -> None:
        """A product that a newer one replaced: only DVC's cache can still have its bytes."""
        found: list[Finding] = []
        for output in node.own:
            held = self._in_cache(output, live.cache)
            text = f"A newer product of {node.product.stage} lies at {output.path}, and DVC's cache lacks this one."
            gone = Finding(
                subject=output.name,
                trouble=Trouble.MISSING,
                path=output.path,
                recorded=str(output.digest),
                text=text,
            )
            found += [gone] if held is None else held
        self._keep(node, [one.name for one in node.product.outputs], found)

    def _in_cache(self, output: Output, cache: Cache | None) -> list[Finding] | None:
        """What differs between the record and the cached bytes; None when the cache has not all of them."""
        if cache is None or output.locator is None:
            return None
        try:
            found = cache.files(output.locator, _base(output.path))
            recorded = self.auditor.columns.files(output.digest)
        except ReckonError:
            return None
        changes = file_changes(recorded, found)
        if any(change.found is None for change in changes):
            return None
        self.tally.files += len(found)
        self.tally.size_bytes += sum(entry.size_bytes for entry in found)
        return [of_file(output.name, f"{output.path}/{change.key}", change) for change in changes]

    def _cached(self, node: Node, cache: Cache | None) -> Iterator[Finding]:
        """DVC's copies that have other bytes. A copy that is not there says nothing."""
        for output in node.own if cache is not None else ():
            if cache is None or output.locator is None:
                continue
            try:
                recorded = self.auditor.columns.files(output.digest)
            except ReckonError:
                continue  # Told with the records.
            try:
                found = cache.files(output.locator, _base(output.path))
            except Refused:
                continue
            except ReckonError as error:
                yield Finding(subject=output.name, trouble=Trouble.CACHE, path=output.path, text=error.message)
                continue
            self.tally.files += len(found)
            self.tally.size_bytes += sum(entry.size_bytes for entry in found)
            yield from custody.cached(output, recorded, found)

    def _at_hand(self, place: AtHand) -> Iterator[Finding]:
        """The artifact in another folder. Files beside it that no record knows are not its business."""
        output = self.held.output
        found = place.disk.files(place.path)
        self.tally.files += len(found)
        self.tally.size_bytes += sum(entry.size_bytes for entry in found)
        for change in file_changes(self.auditor.columns.files(output.digest), found):
            if change.recorded is not None:
                yield of_file(output.name, f"{output.path}/{change.key}", change)
        yield from self._tensors(place, output)

    def _tensors(self, place: AtHand, output: Output) -> Iterator[Finding]:
        root = root_of(output)
        if root is None:
            return
        try:
            found = place.observer.tensors(place.path)
        except ReckonError as error:
            yield Finding(subject=output.name, trouble=Trouble.UNREADABLE, part="tensors", text=error.message)
            return
        self.tally.tensors += len(found)
        if tensor_root(found) != root:
            text = f"The tensors of {output.name} have another root than recorded."
            yield Finding(
                subject=output.name,
                trouble=Trouble.TENSOR,
                text=text,
                recorded=str(root),
                found=str(tensor_root(found)),
            )

    def _count(self, tally: Tally) -> None:
        self.tally.files += tally.files
        self.tally.size_bytes += tally.size_bytes
        self.tally.tensors += tally.tensors

    def _keep(self, node: Node, looked: Iterable[str], found: Iterable[Finding]) -> None:
        self.custody[node.digest] = custody.custody_of(node.product, looked, found, self.evidence.withheld)


def _damages(records: Mapping[str, Collection[tuple[Digest, object]]]) -> Iterator[str]:
    """What is wrong with records of the rarer kinds. A damaged declaration excuses nothing, but it is told."""
    for kind, found in records.items():
        for digest, one in found:
            if isinstance(one, ReckonError):
                yield f"the {kind} record {digest}: {one.message}"


def _never(_earlier: str, _later: str) -> bool:
    return False


def _base(path: str) -> str:
    return path.rpartition("/")[2]
