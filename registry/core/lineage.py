"""The lineage of artifacts: which recorded output each input of a recipe is, and which checkpoint a segment began from.

A link is found by digest, among the products that a complete execution gave; the name only chooses between outputs of
equal bytes, and among those the newest that was there before it was used. What cannot be found is a :class:`Missing`
with its reason, never left out. Refuses cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import TypeAlias

from registry.core.canonical import Json
from registry.core.digests import Digest, FileEntry
from registry.core.ledger import Ledger
from registry.core.names import Name
from registry.core.records import Input, Output
from registry.core.resolving import digest_inside, root_of
from registry.errors import DoesNotHold, ReckonError

_MOST_CANDIDATES = 1000
_NEVER = "~"
FileTable: TypeAlias = Callable[[Digest], Sequence[FileEntry]]


class Role(StrEnum):
    """What one product is to another."""

    INPUT = "input"
    PARENT = "parent"


class Gap(StrEnum):
    """Why a link leads nowhere."""

    NO_PRODUCT = "no complete execution on record gave these bytes"
    NO_STEP = "no complete execution on record gave a checkpoint of this step with these tensors"
    NO_RECIPE = "the recipe cannot be read"
    MALFORMED = "the link itself cannot be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An output of a recorded product; ``path`` when the link is to one file or folder in it."""

    output: Output
    product: Digest
    path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Bytes that no stage makes: they stand in the repository."""

    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A link that leads nowhere, and why."""

    gap: Gap


Source: TypeAlias = Artifact | Given | Missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """From a product to what it was made from: as the recipe or the execution calls it, and what that is on record.

    ``digest`` is that of the file or tree, and for a parent the tensor root.
    """

    role: Role
    name: str
    digest: Digest | None
    source: Source


class Lineage:
    """Links between the products of a ledger, found when they are asked for.

    ``files`` gives the file table of a tree and raises a :class:`ReckonError` when it cannot.
    """

    def __init__(self, ledger: Ledger, files: FileTable) -> None:
        self._ledger = ledger
        self._files = files
        self._links: dict[Digest, tuple[Link, ...]] = {}
        self._by_digest: dict[Digest, list[Artifact]] = {}
        self._exact: dict[tuple[str, Digest], list[Artifact]] = {}
        self._by_name: dict[str, list[Artifact]] = {}
        self._executions: dict[Digest, list[Digest]] = {}
        self._ends: dict[Digest, str] = {}
        self._index()

    def links(self, product: Digest) -> tuple[Link, ...]:
        """What a product was made from: parents first, then the inputs in the recipe's order."""
        if product not in self._links:
            self._links[product] = (*self._parents(product), *self._inputs(product))
        return self._links[product]

    def upwards(self, product: Digest) -> Mapping[Digest, tuple[Link, ...]]:
        """The links of a product and of all that it descends from; each product once, itself first.

        Raises ``DoesNotHold`` when something descends from itself.
        """
        found: dict[Digest, tuple[Link, ...]] = {}
        open_ones: dict[Digest, None] = {}
        stack: list[Digest | None] = [product]
        while stack:
            one = stack.pop()
            if one is None:
                open_ones.popitem()
            elif one in open_ones:
                raise DoesNotHold(f"The product {one} descends from itself.", remedy="Its records are not honest.")
            elif one not in found:
                found[one] = self.links(one)
                open_ones[one] = None
                stack.extend([None, *reversed(sources(found[one]))])
        return found

    def downwards(self) -> Mapping[Digest, tuple[tuple[Digest, Link], ...]]:
        """For every product, those that were made from it, oldest first, with the link that says so."""
        found: dict[Digest, list[tuple[Digest, Link]]] = {}
        for product in sorted(self._executions, key=self._newest):
            for link in self.links(product):
                if isinstance(link.source, Artifact):
                    found.setdefault(link.source.product, []).append((product, link))
        return {product: tuple(links) for product, links in found.items()}

    def _index(self) -> None:
        """Products that an execution claims, newest first, so that among equals the newest is found."""
        for digest, execution in self._ledger.executions.items():
            if execution.witnesses and execution.product is not None:
                self._executions.setdefault(execution.product, []).append(digest)
        newest = sorted(self._executions, key=self._newest, reverse=True)
        for product in newest:
            record = self._ledger.products.get(product)
            for output in record.outputs if record else ():
                artifact = Artifact(output=output, product=product)
                self._by_digest.setdefault(output.digest, []).append(artifact)
                self._exact.setdefault((output.name, output.digest), []).append(artifact)
                self._by_name.setdefault(output.name, []).append(artifact)

    def _newest(self, product: Digest) -> tuple[str, Digest]:
        return max(self._ledger.executions[one].attempt for one in self._executions[product]), product

    def _inputs(self, product: Digest) -> Iterator[Link]:
        record = self._ledger.products.get(product)
        recipe = None if record is None else self._ledger.recipes.get(record.recipe)
        if recipe is None:
            named = str(record.recipe if record else product)
            yield Link(role=Role.INPUT, name=named, digest=None, source=Missing(gap=Gap.NO_RECIPE))
            return
        for one in recipe.inputs:
            yield Link(role=Role.INPUT, name=one.name, digest=one.digest, source=self._source(one, product))

    def _source(self, one: Input, product: Digest) -> Source:
        if one.name == one.path:
            return Given(path=one.path)
        try:
            name = Name.parse(one.name)
        except ReckonError:
            return Missing(gap=Gap.MALFORMED)
        if name.path is None:
            whole = self._exact.get((one.name, one.digest)) or self._by_digest.get(one.digest, [])
            return next(self._usable(whole, product), None) or self._single(name, one.digest, product)
        return self._part(name, one.digest, product)

    def _usable(self, candidates: Iterable[Artifact], product: Digest) -> Iterator[Artifact]:
        """Candidates that were made before the product's first execution began, newest first; then the others."""
        began = min((self._ledger.executions[one].started for one in self._executions.get(product, [])), default="")
        later = []
        for artifact in islice(candidates, _MOST_CANDIDATES):
            if self._made(artifact.product) <= began:
                yield artifact
            else:
                later.append(artifact)
        yield from later

    def _made(self, product: Digest) -> str:
        """When a product was there for the first time; later than any time if no execution says."""
        if product not in self._ends:
            ends = (self._ledger.executions[one].ended for one in self._executions[product])
            self._ends[product] = min((end for end in ends if end is not None), default=_NEVER)
        return self._ends[product]

    def _part(self, name: Name, digest: Digest, product: Digest) -> Source:
        """A file or folder inside an output of that name."""
        path = name.path or ""
        for artifact in self._usable(self._by_name.get(name.artifact, []), product):
            if digest_inside(self._table(artifact), path) == digest:
                return Artifact(output=artifact.output, product=artifact.product, path=path)
        return Missing(gap=Gap.NO_PRODUCT)

    def _single(self, name: Name, digest: Digest, product: Digest) -> Source:
        """An output that is one file: inputs name the file's digest, outputs the digest of the tree of one file."""
        for artifact in self._usable(self._by_name.get(name.artifact, []), product):
            if artifact.output.files == 1 and any(entry.digest == digest for entry in self._table(artifact)):
                return artifact
        return Missing(gap=Gap.NO_PRODUCT)

    def _table(self, artifact: Artifact) -> Sequence[FileEntry]:
        try:
            return self._files(artifact.output.digest)
        except ReckonError:
            return ()

    def _parents(self, product: Digest) -> Iterator[Link]:
        """Checkpoints that executions of the product say they began from; several when they disagree."""
        told = {_parent(self._ledger.executions[one].parent) for one in self._executions.get(product, [])}
        for name, root in sorted(pair for pair in told if pair is not None):
            yield self._parent_link(name, root, product)

    def _parent_link(self, name: str, root: str, product: Digest) -> Link:
        try:
            digest = Digest.parse(root)
        except ReckonError:
            return Link(role=Role.PARENT, name=name, digest=None, source=Missing(gap=Gap.MALFORMED))
        for artifact in self._usable(self._by_name.get(name, []), product):
            if root_of(artifact.output) == digest:
                return Link(role=Role.PARENT, name=name, digest=digest, source=artifact)
        return Link(role=Role.PARENT, name=name, digest=digest, source=Missing(gap=Gap.NO_STEP))


def sources(links: Sequence[Link]) -> list[Digest]:
    """The products that links lead to, each once, in their order."""
    return list(dict.fromkeys(link.source.product for link in links if isinstance(link.source, Artifact)))


def _parent(facts: Mapping[str, Json] | None) -> tuple[str, str] | None:
    """The name and the tensor root of a parent. Odd facts become a link that cannot be found, not an error."""
    if facts is None:
        return None
    return f"{facts.get('name')}@step-{facts.get('step')}", str(facts.get("root"))
