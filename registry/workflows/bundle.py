"""Gathering a bundle: everything that an audit of an artifact reads at the depth ``records``, with small files beside.

The audit itself is run, and what it reads is kept, so that the same audit of the bundle finds the same evidence. Added
are the small files of the lineage and the source files of its recipes. Weights and data never go in. Refuses nothing
that the audit does not refuse: a lineage that does not hold makes a bundle that does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from registry.core import kinds
from registry.core.audit.evidence import Evidence, Node, Surveyed
from registry.core.bundle import Cover
from registry.core.digests import Digest, FileEntry
from registry.core.ledger import KINDS
from registry.core.names import Name
from registry.core.notices import Notice
from registry.core.pointers import Pointer
from registry.core.publications import Publication, Subject
from registry.core.records import Environment, Execution, Product, Recipe
from registry.core.release import Release
from registry.core.resolving import Held, root_of
from registry.errors import ReckonError
from registry.ports import Columns, Commits, Papers, RecordStore

SMALL_BYTES = 64 * 2**10
MOST_SMALL_FILES = 2000


class Reader(Protocol):
    """The audit at the depth ``records``: reads what it needs of one artifact, through the ports that it was given."""

    def read(self, name: Name) -> tuple[Held, Evidence]:
        """The artifact and the evidence of its lineage, judged once so that everything needed has been read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """What goes into a bundle. ``absent`` counts small artifacts that do not lie here and are not in it."""

    cover: Cover
    members: Mapping[str, bytes]
    absent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundler:
    """Gathers bundles of one archive. ``table`` gives the bytes of a table; ``reading`` the audit over given ports."""

    records: RecordStore
    columns: Columns
    papers: Papers
    commits: Commits
    table: Callable[[str], bytes | None]
    reading: Callable[[Columns, Papers, Commits], Reader]

    def bundle(self, name: Name) -> Bundle:
        """The bundle of an artifact. Raises what the audit raises when nothing is recorded under ``name``."""
        kept = _Kept()
        columns, papers = _Columns(self.columns, self.table, kept), _Papers(self.papers, kept)
        commits = _Commits(self.commits, kept)
        held, evidence = self.reading(columns, papers, commits).read(name)
        for node in evidence.nodes.values():
            self._small_files(node, papers)
            for file in node.recipe.source if node.recipe and commits.here else ():
                commits.read(file.blob)
        own = root_of(held.output)
        columns.count_leaves([own] if own else [])  # with its leaves a single tensor of it can be proved
        kept.members.update(self._records(evidence))
        cover = Cover(name=held.output.name, product=held.product_digest)
        return Bundle(cover=cover, members=kept.members, absent=kept.absent)

    def _small_files(self, node: Node, papers: Papers) -> None:
        for output in node.own:
            try:
                entries = self.columns.files(output.digest)
            except ReckonError:
                continue
            for entry in _small(entries):
                paths = [f"{output.path}/{entry.path}", *([output.path] if output.files == 1 else [])]
                for path in paths:
                    with suppress(ReckonError):
                        papers.read(path, entry.digest)
                        break

    def _records(self, evidence: Evidence) -> Iterator[tuple[str, bytes]]:
        """Records of the lineage, all attempts of its recipes, and every record of the rarer kinds."""
        wanted = _lineage(evidence)
        executions = wanted[Execution.KIND]
        for kind in self.records.kinds():
            for digest in self.records.digests(kind):
                with suppress(ReckonError):
                    data = self.records.get(kind, digest)
                    chosen = digest in wanted[kind] if kind in wanted else _speaks_of(kind, data, executions)
                    if chosen:
                        yield f"manifests/{kind}s/{digest.hex}.json", data


@dataclass(slots=True)
class _Kept:
    members: dict[str, bytes] = field(default_factory=dict)
    absent: int = 0


@dataclass(frozen=True, slots=True)
class _Columns:
    """Tables, each kept as it is read."""

    inner: Columns
    table: Callable[[str], bytes | None]
    kept: _Kept

    def files(self, tree: Digest) -> Sequence[FileEntry]:
        self._keep("objects", [tree])
        return self.inner.files(tree)

    def survey(self, wanted: Mapping[Digest, Sequence[str]]) -> Mapping[Digest, Surveyed | ReckonError]:
        self._keep("objects", wanted)
        return self.inner.survey(wanted)

    def count_leaves(self, roots: Collection[Digest]) -> Mapping[Digest, int | ReckonError]:
        self._keep("tensors", roots)
        return self.inner.count_leaves(roots)

    def _keep(self, folder: str, digests: Collection[Digest]) -> None:
        for digest in digests:
            name = f"{folder}/{digest.hex}.parquet"
            data = self.table(name)
            if data is not None:
                self.kept.members[f"manifests/{name}"] = data


@dataclass(frozen=True, slots=True)
class _Papers:
    """Small artifacts, each kept as it is read."""

    inner: Papers
    kept: _Kept

    def read(self, path: str, digest: Digest) -> bytes:
        try:
            data = self.inner.read(path, digest)
        except ReckonError:
            self.kept.absent += 1
            raise
        self.kept.members[f"bytes/{digest.hex}"] = data
        return data


@dataclass(frozen=True, slots=True)
class _Commits:
    """Git's objects, each kept as it is read."""

    inner: Commits
    kept: _Kept

    @property
    def here(self) -> bool:
        return self.inner.here

    def read(self, name: Digest) -> bytes | None:
        data = self.inner.read(name)
        if data is not None:
            self.kept.members[f"git/{name.hex}"] = data
        return data

    def additions(self, folder: str) -> Mapping[str, str]:
        return self.inner.additions(folder)

    def precedes(self, earlier: str, later: str) -> bool:
        return self.inner.precedes(earlier, later)


def _lineage(evidence: Evidence) -> Mapping[str, set[Digest]]:
    """The records of the lineage by kind: every attempt of its recipes, and the products that contradict it."""
    products = set(evidence.nodes)
    recipes = {node.product.recipe for node in evidence.nodes.values()}
    told = {digest: one for digest, one in evidence.ledger.executions.items() if one.recipe in recipes}
    products |= {one.product for one in told.values() if one.product is not None}
    environments = {one.environment for one in told.values() if one.environment is not None}
    found = {Recipe.KIND: recipes, Product.KIND: products, Execution.KIND: set(told), Environment.KIND: environments}
    return {kind: found[kind] for kind in KINDS}


def _speaks_of(kind: str, data: bytes, executions: set[Digest]) -> bool:
    """Whether a record of a rarer kind goes in: pointers of the lineage's executions, and whatever may be evidence.

    What was made of an artifact later, and where that was put, is no evidence of how it came to be.
    """
    if kind in (Release.KIND, Notice.KIND):
        return False
    record = kinds.read(kind, data) if kind in (Pointer.KIND, Publication.KIND) else None
    if isinstance(record, Publication):
        return record.subject is Subject.CHECKPOINT
    return not isinstance(record, Pointer) or record.execution in executions


def _small(entries: Sequence[FileEntry]) -> Iterator[FileEntry]:
    """The first small files of a tree that are not in a checkpoint."""
    chosen = (entry for entry in entries if entry.size_bytes <= SMALL_BYTES)
    for count, entry in enumerate(entry for entry in chosen if not entry.path.startswith("checkpoints/")):
        if count == MOST_SMALL_FILES:
            return
        yield entry
