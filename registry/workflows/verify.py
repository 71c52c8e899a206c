"""Verifying artifacts: every byte that lies here against the record, and every tensor and count read back from them.

Files are compared one by one with the recorded table, checkpoints tensor by tensor, other contents fact by fact, and
DVC's lock and cache with the record. Memory is bounded by the file table of one stage. Refuses to hold when nothing
was checked; a name that has no record is an error of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from registry.core.canonical import Json
from registry.core.comparison import fact_changes, file_changes, leaf_changes
from registry.core.digests import Digest, FileEntry, tree_digest
from registry.core.findings import Finding, Tally, Trouble, of_fact, of_file, of_tensor
from registry.core.ledger import Damage, Ledger
from registry.core.names import Name
from registry.core.records import Output, Product
from registry.core.resolving import Held, file_in, folder_in, relative
from registry.core.resolving import artifact as resolve
from registry.core.tensors import Leaf, tensor_root
from registry.errors import ReckonError, Refused, UnknownName
from registry.ports import Bytes, Cache, Observer, Pipeline, TableStore

_TENSORS, _STEP = "tensors", "step"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifier:
    """Verifies products against the working tree. With ``cache``, DVC's copies are verified too.

    ``advance`` is told of bytes as they have been hashed, for a progress bar.
    """

    disk: Bytes
    observer: Observer
    tables: TableStore
    pipeline: Pipeline
    cache: Cache | None
    advance: Callable[[int], None]

    def product(self, product: Product, tally: Tally) -> None:
        """Verify all outputs of a product into ``tally``. What lies inside a folder that is gone is not told again."""
        hashed: dict[str, Sequence[FileEntry]] = {}
        lost: list[str] = []
        for output in product.outputs:
            if _holder(output.path, lost):
                continue
            findings = tuple(self._output(product, output, hashed, tally))
            if output.path not in hashed and not _holder(output.path, hashed):
                lost.append(output.path)
            tally.add(findings)

    def everything(self, ledger: Ledger, tally: Tally) -> None:
        """Verify the newest product of every stage. One that cannot be read is for the records' own check to tell."""
        for stage in ledger.stages():
            product = ledger.product_of(stage)
            if product is not None:
                self.product(product, tally)

    def name(self, ledger: Ledger, name: Name, tally: Tally) -> None:
        """Verify what a name means: all of a stage, a checkpoint or a file. Damaged records count against it.

        Raises ``UnknownName`` when nothing is recorded under it.
        """
        held = resolve(ledger, name)
        tally.add(_damaged(damage) for damage in ledger.damages)
        if name.path is not None:
            self.file(held, name.path, tally)
        elif name.step is not None:
            self.artifact(held, tally)
        else:
            self.product(held.product, tally)

    def artifact(self, held: Held, tally: Tally) -> None:
        """Verify one output, such as a checkpoint, into ``tally``."""
        tally.add(self._output(held.product, held.output, {}, tally))

    def file(self, held: Held, path: str, tally: Tally) -> None:
        """Verify one file or folder of an output into ``tally``. Raises ``UnknownName`` when the record has none."""
        output = held.output
        for entry in file_in(self.tables.get_files(output.digest), path):
            where = self._where(output, entry.path)
            here = self.disk.files(where) if self.disk.exists(where) else ()
            found = [FileEntry(path=entry.path, size_bytes=one.size_bytes, digest=one.digest) for one in here]
            self._count(found, tally)
            tally.add(of_file(output.name, where, change) for change in file_changes([entry], found))

    def _output(
        self, product: Product, output: Output, hashed: dict[str, Sequence[FileEntry]], tally: Tally
    ) -> Iterator[Finding]:
        """All that is wrong with an output. ``hashed`` holds the folders that were read, and takes this one in."""
        try:
            if self.disk.exists(output.path):
                yield from self._present(product, output, self._found(output.path, hashed, tally), tally)
            else:
                yield _missing(output)
        except Refused as error:
            yield _unreadable(output, error.message)
        if output.locator is not None:
            yield from self._lock(product, output)
            yield from self._cached(output, output.locator, tally)

    def _found(self, path: str, hashed: dict[str, Sequence[FileEntry]], tally: Tally) -> Sequence[FileEntry]:
        """The files at ``path``; what lies in a folder that was hashed before is not read again."""
        folder = _holder(path, hashed)
        if folder is not None:
            inside = path[len(folder) + 1 :]
            return relative(folder_in(hashed[folder], inside), inside)
        hashed[path] = sorted(self.disk.files(path))
        self._count(hashed[path], tally)
        return hashed[path]

    def _present(self, product: Product, output: Output, found: Sequence[FileEntry], tally: Tally) -> Iterator[Finding]:
        yield from self._files(product, output, found)
        try:
            yield from self._contents(product, output, tally)
        except (ReckonError, OSError) as error:
            yield _unreadable(output, str(error))

    def _files(self, product: Product, output: Output, found: Sequence[FileEntry]) -> Iterator[Finding]:
        """Each file against the table; without a readable table, the whole against its digest."""
        if tree_digest(found) == output.digest:
            return
        try:
            recorded = self.tables.get_files(output.digest)
        except ReckonError as error:
            yield Finding(
                subject=output.name,
                trouble=Trouble.ALTERED,
                path=output.path,
                recorded=str(output.digest),
                found=str(tree_digest(found)),
                text=f"{output.path} has other bytes than recorded; which file cannot be told: {error.message}",
            )
            return
        for change in file_changes(recorded, found):
            path = self._where(output, change.key)
            yield of_file(_owner(product, output, path), path, change)

    def _contents(self, product: Product, output: Output, tally: Tally) -> Iterator[Finding]:
        """Identities and counts, recomputed from the bytes that lie here."""
        observed: Mapping[str, Json] = {}
        if _TENSORS in output.contents:
            leaves = self.observer.tensors(output.path)
            tally.tensors += len(leaves)
            yield from self._tensors(output, leaves)
            observed = {_TENSORS: str(tensor_root(leaves)), "leaves": len(leaves)}
        if _STEP not in output.contents:
            observed = {**self.observer.contents(product.stage, output.path), **observed}
        tally.facts += len(observed)
        recorded = {key: value for key, value in output.contents.items() if key != _STEP}
        yield from (of_fact(output.name, output.path, change) for change in fact_changes(recorded, observed))

    def _tensors(self, output: Output, found: Sequence[Leaf]) -> Iterator[Finding]:
        """Each tensor against the leaf table. Without one, the root among the contents still tells that they differ."""
        with suppress(UnknownName):
            recorded = self.tables.get_leaves(Digest.parse(output.contents[_TENSORS]))
            yield from (of_tensor(output.name, output.path, change) for change in leaf_changes(recorded, found))

    def _lock(self, product: Product, output: Output) -> Iterator[Finding]:
        try:
            locked = self.pipeline.locked().get(product.stage, {}).get(output.path)
        except Refused as error:
            yield Finding(subject="dvc.lock", trouble=Trouble.LOCK, path="dvc.lock", text=error.message)
            return
        if locked is not None and locked != output.locator:
            yield Finding(
                subject=output.name,
                trouble=Trouble.LOCK,
                path="dvc.lock",
                part=output.path,
                recorded=output.locator,
                found=locked,
                text=f"dvc.lock has the md5 {locked} for {output.path}; {output.locator} is recorded.",
            )

    def _cached(self, output: Output, locator: str, tally: Tally) -> Iterator[Finding]:
        if self.cache is None:
            return
        try:
            found = self.cache.files(locator, _base(output.path))
            recorded = self.tables.get_files(output.digest)
        except ReckonError as error:
            yield _cache_finding(output, locator, f"The DVC cache of {output.path} does not hold: {error.message}")
            return
        self._count(found, tally)
        for change in file_changes(recorded, found):
            said = "lacks" if change.found is None else "has other bytes of"
            yield _cache_finding(output, change.key, f"The DVC cache {said} {self._where(output, change.key)}.")

    def _where(self, output: Output, path: str) -> str:
        """Where a file of an output lies: in its folder, or the output is that file itself."""
        single = output.files == 1 and not self.disk.is_folder(output.path) and path == _base(output.path)
        return output.path if single else f"{output.path}/{path}"

    def _count(self, found: Sequence[FileEntry], tally: Tally) -> None:
        tally.files += len(found)
        size_bytes = sum(entry.size_bytes for entry in found)
        tally.size_bytes += size_bytes
        self.advance(size_bytes)


def _owner(product: Product, output: Output, path: str) -> str:
    """The name of the innermost output that ``path`` lies in: a checkpoint rather than its stage."""
    holders = [one for one in product.outputs if path.startswith(f"{one.path}/")]
    return max(holders, key=lambda one: len(one.path), default=output).name


def _damaged(damage: Damage) -> Finding:
    text = f"The {damage.kind} record {damage.name} is damaged, and may be of this artifact: {damage.reason}"
    return Finding(subject=f"{damage.kind} {damage.name}", trouble=Trouble.RECORD, text=text)


def bytes_ahead(ledger: Ledger, name: Name | None) -> int:
    """The recorded bytes of what a name means, or of all stages: what there is to hash. Raises ``UnknownName``."""
    if name is not None:
        return resolve(ledger, name).output.size_bytes
    products = (ledger.product_of(stage) for stage in ledger.stages())
    outputs = [output for product in products if product for output in product.outputs]
    return sum(output.size_bytes for output in outputs if _STEP not in output.contents)


def _missing(output: Output) -> Finding:
    return Finding(
        subject=output.name,
        trouble=Trouble.MISSING,
        path=output.path,
        recorded=str(output.digest),
        text=f"{output.path} is recorded and not there.",
    )


def _unreadable(output: Output, reason: str) -> Finding:
    text = f"{output.name} cannot be opened: {reason}"
    return Finding(subject=output.name, trouble=Trouble.UNREADABLE, path=output.path, text=text)


def _holder(path: str, folders: Iterable[str]) -> str | None:
    """The folder that holds ``path``, or None."""
    return next((folder for folder in folders if path.startswith(f"{folder}/")), None)


def _cache_finding(output: Output, key: str, text: str) -> Finding:
    return Finding(subject=output.name, trouble=Trouble.CACHE, path=output.path, part=key, text=text)


def _base(path: str) -> str:
    return path.rpartition("/")[2]
