"""``reckon root``: the identity of the tensors at a path, whatever container holds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from registry.cli import wiring
from registry.cli.options import example, json_option
from registry.cli.render import Cell, Fields, Table, View, emit, progress
from registry.cli.words import amount, count
from registry.core.digests import Digest
from registry.core.tensors import Leaf, TensorSpec, tensor_root
from registry.errors import Refused
from registry.ports import Tensors


@click.command(
    epilog=example(
        "reckon root artifacts/hero/1/checkpoints/step-450",
        "reckon root model.safetensors --leaves",
        "reckon root checkpoints/step-450 --tensor 'model/*' --json",
    )
)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--leaves", "every", is_flag=True, help="Print every tensor with its digest.")
@click.option("--tensor", "pattern", metavar="GLOB", help="Hash only tensors of these names, and print them; no root.")
@json_option
def command(path: Path, every: bool, pattern: str | None, as_json: bool) -> None:
    """Hash the tensors at PATH and print their root.

    PATH is a safetensors file, a folder of them, a Levanter checkpoint or a tree of zarr arrays. The root depends on
    names, dtypes, shapes and values alone: the same tensors have it in every container.
    """
    tensors = wiring.tensors(path)
    specs = _chosen(path, tensors.specs, pattern)
    with progress("Hashing", _bytes(specs), in_bytes=True) as advance:
        leaves = tensors.leaves(specs, advance)
    root = tensor_root(leaves) if pattern is None else None
    shown = leaves if every or pattern is not None else None
    emit(_facts(path, tensors, leaves, root, shown), *_views(tensors, leaves, root, shown), as_json=as_json)


def _chosen(path: Path, specs: Sequence[TensorSpec], pattern: str | None) -> Sequence[TensorSpec]:
    chosen = [spec for spec in specs if pattern is None or fnmatchcase(spec.name, pattern)]
    if not chosen:
        raise Refused(
            f"No tensor of {path} is called {pattern!r}.", remedy=f"'reckon root {path} --leaves' lists the names."
        )
    return chosen


def _facts(
    path: Path, tensors: Tensors, leaves: Sequence[Leaf], root: Digest | None, shown: Sequence[Leaf] | None
) -> dict[str, object]:
    facts: dict[str, object] = {
        "path": path,
        "root": root,
        "container": tensors.container,
        "tensors": len(leaves),
        "size_bytes": _bytes([leaf.spec for leaf in leaves]),
    }
    return facts if shown is None else {**facts, "leaves": shown}


def _views(
    tensors: Tensors, leaves: Sequence[Leaf], root: Digest | None, shown: Sequence[Leaf] | None
) -> Iterator[View]:
    size = amount(_bytes([leaf.spec for leaf in leaves]))
    holds = f"{count(len(leaves), 'tensor')}, {size}, in {tensors.container}"
    if root is not None:
        yield Fields(values={"root": str(root), "holds": holds})
    if shown is not None:
        yield Table(columns=("tensor", "dtype", "shape", "leaf"), rows=[_row(leaf) for leaf in shown])


def _row(leaf: Leaf) -> Sequence[Cell]:
    return leaf.name, leaf.dtype, "x".join(map(str, leaf.shape)) or "scalar", str(leaf.digest)


def _bytes(specs: Sequence[TensorSpec]) -> int:
    return sum(spec.size_bytes for spec in specs)
