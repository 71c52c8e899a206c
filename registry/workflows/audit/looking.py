"""Looking at bytes and asking witnesses, for one audit.

Hashes what lies here: outputs in the working tree, replaced products in DVC's cache, and the audited artifact itself
wherever somebody has it. What is not here is a finding only where it should be. Refuses nothing: whatever is wrong
becomes a finding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from registry.core.audit import custody
from registry.core.audit.evidence import Copy, Custody, Evidence, Node
from registry.core.audit.judging import Looked
from registry.core.comparison import file_changes
from registry.core.digests import Digest
from registry.core.findings import Finding, Tally, Trouble, of_file
from registry.core.ledger import Ledger
from registry.core.records import Output, Product
from registry.core.resolving import Held, root_of
from registry.core.tensors import tensor_root
from registry.errors import ReckonError, Refused
from registry.ports import Bytes, Cache, Columns, Observer, Repository

_WITNESSES = ("dvc.lock", "DVC cache", "mlflow", "wandb")


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


@dataclass(slots=True, kw_only=True)
class Looking:
    """One audit while it looks at bytes and asks witnesses."""

    held: Held
    evidence: Evidence
    columns: Columns
    live: Live | None
    at_hand: AtHand | None
    tally: Tally = field(default_factory=Tally)
    custody: dict[Digest, Custody] = field(default_factory=dict)
    copies: Mapping[Digest, tuple[Copy, ...]] = field(default_factory=dict)
    consulted: dict[str, str] = field(default_factory=dict)

    def hash(self) -> None:
        """Hash what lies here: of every product in a working archive, else only the artifact that is at hand."""
        live = self.live
        for node in self.evidence.nodes.values():
            subject = node.digest == self.held.product_digest
            if subject and self.at_hand is not None:
                self._keep(node, [self.held.output.name], self._at_hand(self.at_hand))
            elif live is not None and node.digest in self.evidence.current:
                self._present(node, live, subject)
            elif live is not None:
                self._replaced(node, live)

    def ask(self) -> None:
        """Ask the trackers about every execution of the lineage."""
        if self.live is not None:
            executions = [digest for node in self.evidence.nodes.values() for digest, _ in node.executions]
            self.copies, told = self.live.copies(self.evidence.ledger, executions)
            self.consulted.update({**self.live.consulted, **told})

    def complete(self) -> Evidence:
        """The evidence with what was found."""
        git = "consulted" if self.evidence.additions is not None else "the objects in the bundle, without history"
        self.consulted["git"] = "not consulted: no repository here" if self.evidence.git is None else git
        for system in _WITNESSES:
            self.consulted.setdefault(system, "not consulted: only records were read")
        return replace(self.evidence, custody=self.custody, copies=self.copies)

    def looked(self) -> Looked:
        """Counts of what was looked at."""
        ledger = self.evidence.ledger
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
            recorded = self.columns.files(output.digest)
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
                recorded = self.columns.files(output.digest)
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
        for change in file_changes(self.columns.files(output.digest), found):
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


def _base(path: str) -> str:
    return path.rpartition("/")[2]
