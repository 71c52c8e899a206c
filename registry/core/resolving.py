"""From what a person types to what is on record: a name, or the digest of a record or of an artifact, cut short or not.

A name means the newest complete execution of its stage. Refuses what is not there, what is ambiguous, and a digest cut
to fewer than ``SHORTEST`` digits.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from registry.core.digests import Digest, FileEntry, tree_digest
from registry.core.ledger import Ledger
from registry.core.names import Name, dvc_stage, known
from registry.core.records import Execution, Output, Product
from registry.errors import DoesNotHold, MalformedRecord, Refused, UnknownName

SHORTEST = 8
_HEX = re.compile(rf"(?:sha256:)?([0-9a-f]{{{SHORTEST},64}})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefix:
    """The first hex digits of a SHA-256, at least ``SHORTEST``."""

    digits: str

    def __str__(self) -> str:
        return f"sha256:{self.digits}"


Reference: TypeAlias = "Name | Prefix"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """An artifact on record: the output, its product, and the newest execution that gave it."""

    output: Output
    product_digest: Digest
    product: Product
    execution_digest: Digest
    execution: Execution


def reference(text: str, stages: Iterable[str]) -> Reference:
    """Read a name or a digest. A stage's name comes first: ``deadbeef`` is a digest only if no stage is called so.

    Raises ``Refused`` when it is neither, and when a digest is cut too short.
    """
    match = _HEX.fullmatch(text)
    if match is not None and text not in set(stages):
        return Prefix(digits=match[1])
    if text.startswith("sha256:"):
        raise Refused(
            f"{text!r} is not a digest.", remedy=f"Write 'sha256:' and {SHORTEST} to 64 lower-case hex digits."
        )
    return Name.parse(text)


def head(ledger: Ledger, stage: str) -> Held:
    """The stage's own output by its newest complete execution.

    Raises ``UnknownName`` when there is none, ``DoesNotHold`` when there is one but its product cannot be read.
    """
    found = ledger.head(stage)
    if found is None:
        raise UnknownName(f"The stage {stage} has no complete execution on record.", remedy=_advice(ledger, stage))
    digest, execution = found
    return _held(ledger, (digest, execution), stage)


def artifact(ledger: Ledger, name: Name) -> Held:
    """The output that ``name`` means, its file aside. Raises like :func:`head`, and ``UnknownName`` for other steps."""
    own = head(ledger, name.stage)
    if name.step is None:
        return own
    known(name.artifact, [output.name for output in own.product.outputs])
    return _held(ledger, (own.execution_digest, own.execution), name.artifact)


def file_in(entries: Sequence[FileEntry], path: str) -> Sequence[FileEntry]:
    """The file at ``path`` of a tree, or the files of a folder there. Raises ``UnknownName`` with the nearest paths.

    ``entries`` are sorted by path, here and below, so that a folder is found without reading the others.
    """
    found = _file_at(entries, path) or folder_in(entries, path)
    if not found:
        known(path, [entry.path for entry in entries])
    return found


def folder_in(entries: Sequence[FileEntry], folder: str) -> Sequence[FileEntry]:
    """The files in a folder of a tree, with their paths in the tree."""
    return entries[bisect_left(entries, f"{folder}/", key=_path) : bisect_left(entries, f"{folder}0", key=_path)]


def relative(entries: Iterable[FileEntry], folder: str) -> tuple[FileEntry, ...]:
    """Files in a folder, with paths relative to it."""
    cut = len(folder) + 1
    return tuple(
        FileEntry(path=entry.path[cut:], size_bytes=entry.size_bytes, digest=entry.digest) for entry in entries
    )


def digest_inside(entries: Sequence[FileEntry], path: str) -> Digest | None:
    """SHA-256 of the file at ``path``, tree digest of the folder there, or None when a tree has neither."""
    found = _file_at(entries, path)
    if found:
        return found[0].digest
    inside = relative(folder_in(entries, path), path)
    return tree_digest(inside) if inside else None


def one_of(prefix: Prefix, candidates: Mapping[str, Iterable[Digest]]) -> tuple[str, Digest]:
    """The one (kind, digest) that a prefix means. Raises ``UnknownName`` for none and ``Refused`` for several."""
    found = sorted(
        {(kind, digest) for kind, digests in candidates.items() for digest in digests if _begins(digest, prefix)}
    )
    if not found:
        raise UnknownName(
            f"No record and no artifact has a digest that begins with {prefix}.", remedy="See 'reckon log'."
        )
    if len(found) > 1:
        listed = ", ".join(f"{kind} {digest.hex[: len(prefix.digits) + 6]}" for kind, digest in found[:5])
        raise Refused(f"{len(found)} digests begin with {prefix}: {listed}.", remedy="Write more of its digits.")
    return found[0]


def artifacts_with(ledger: Ledger, digest: Digest) -> tuple[tuple[Digest, Output], ...]:
    """The outputs with that tree digest or tensor root, each with the digest of its product."""
    return tuple(
        (product_digest, output)
        for product_digest, product in sorted(ledger.products.items(), key=lambda pair: pair[0])
        for output in product.outputs
        if digest in (output.digest, root_of(output))
    )


def root_of(output: Output) -> Digest | None:
    """The tensor root among the contents of an output; None when there is none that can be read."""
    try:
        return Digest.parse(output.contents.get("tensors"))
    except MalformedRecord:
        return None


def _path(entry: FileEntry) -> str:
    return entry.path


def _file_at(entries: Sequence[FileEntry], path: str) -> Sequence[FileEntry]:
    at = bisect_left(entries, path, key=_path)
    return entries[at : at + 1] if at < len(entries) and entries[at].path == path else ()


def _begins(digest: Digest, prefix: Prefix) -> bool:
    return digest.hex.startswith(prefix.digits)


def _held(ledger: Ledger, of: tuple[Digest, Execution], name: str) -> Held:
    execution_digest, execution = of
    if execution.product is None:
        raise DoesNotHold(f"The execution {execution_digest} of {execution.stage} has no product.")
    product = ledger.products.get(execution.product)
    if product is None:
        raise DoesNotHold(
            f"The product {execution.product} of {execution.stage} is not readable on record.",
            remedy="See 'reckon verify --all'; restore it with 'git checkout -- manifests'.",
        )
    output = product.output(name)
    if output is None:
        raise DoesNotHold(f"The product {execution.product} of {execution.stage} has no output called {name}.")
    return Held(
        output=output,
        product_digest=execution.product,
        product=product,
        execution_digest=execution_digest,
        execution=execution,
    )


def _advice(ledger: Ledger, stage: str) -> str:
    damaged = " Some records are damaged: see 'reckon verify --all'." if ledger.damages else ""
    return f"Run 'dvc repro {dvc_stage(stage)}', or see 'reckon status'.{damaged}"
