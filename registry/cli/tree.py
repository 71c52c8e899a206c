"""``reckon tree``: what an artifact was made from, or what was made from it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from registry.cli import adopted, adopting, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Mark, Tone, Tree, emit
from registry.cli.words import full_option
from registry.core.lineage import Role
from registry.core.names import Name
from registry.core.resolving import artifact
from registry.workflows.tree import Branch
from registry.workflows.tree import Mark as Known


@click.command(epilog=example("reckon tree export", "reckon tree shards --down", "reckon tree marin/hero"))
@click.argument("name", type=NameType(wiring.names))
@click.option("--down", is_flag=True, help="What was made from it, instead of what it was made from.")
@full_option
@json_option
def command(name: Name, down: bool, full: bool, as_json: bool) -> None:
    """Draw the lineage of NAME, from the records alone.

    Everything shown is claimed: 'reckon verify' is what looks at bytes. What is reached twice is drawn once.
    """
    foreign = adopting.shelf_with(name.stage)
    if foreign is not None:
        adopted.tree(foreign, name, down=down, as_json=as_json)
        return
    grower = wiring.grower(wiring.root())
    held = artifact(grower.ledger, name)
    branch = grower.downwards(held) if down else grower.upwards(held)
    emit({"name": str(name), "down": down, "tree": branch}, _tree(branch, full), as_json=as_json)


def _tree(branch: Branch, full: bool) -> Tree:
    return Tree(label=_label(branch, full), branches=[_tree(one, full) for one in branch.branches])


def _label(branch: Branch, full: bool) -> Mark | str:
    digest = "" if branch.digest is None else str(branch.digest) if full else branch.digest.short
    words = [
        "parent" if branch.role is Role.PARENT else "",
        branch.name,
        digest,
        f"steps {branch.steps}" if branch.steps else "",
        branch.mark.value,
        f"({branch.note})" if branch.note else "",
        *_happened(branch),
    ]
    text = "  ".join(word for word in words if word)
    if branch.mark is Known.MISSING or branch.taints:
        return Mark(text, Tone.BAD)
    return Mark(text, Tone.DOUBT) if branch.incidents else text


def _happened(branch: Branch) -> Iterator[str]:
    """Incidents with their steps, and where taints come from."""
    yield from dict.fromkeys(f"[{event.label}]" for event in branch.incidents)
    yield from dict.fromkeys(f"[tainted by {taint.via[0]}]" for taint in branch.taints if len(taint.via) > 1)
