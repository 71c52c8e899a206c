"""``reckon log``: what was run, newest first."""

from __future__ import annotations

import click

from registry.cli import adopted, adopting, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Cell, Table, emit, talk
from registry.cli.words import cause, commit, full_option, outcome, steps
from registry.core.digests import Digest
from registry.core.names import Name
from registry.core.records import Execution

_COLUMNS = ("started", "stage", "outcome", "steps", "product", "recipe", "commit", "host", "execution", "cause")


@click.command(epilog=example("reckon log", "reckon log rung/d48 -n 5"))
@click.argument("name", type=NameType(wiring.names), required=False)
@click.option("-n", "--number", type=click.IntRange(min=1), default=20, show_default=True, help="How many to show.")
@full_option
@json_option
def command(name: Name | None, number: int, full: bool, as_json: bool) -> None:
    """List executions, newest first: of the stage of NAME, or of all stages.

    Every attempt that was recorded is told, the failed and interrupted ones with their cause.
    """
    foreign = None if name is None else adopting.shelf_with(name.stage)
    if foreign is not None and name is not None:
        adopted.log(foreign, name, as_json=as_json)
        return
    ledger = wiring.ledger(wiring.root())
    found = ledger.newest() if name is None else ledger.executions_of(name.stage)
    shown = found if full else found[:number]
    for damage in ledger.damages:
        talk(f"The {damage.kind} record {damage.name} is damaged: {damage.reason}")
    rows = [_row(digest, execution, full) for digest, execution in shown]
    views = (
        [Table(columns=_COLUMNS, rows=rows)] if rows else ["No execution is recorded. Run a stage with 'dvc repro'."]
    )
    more = [f"{len(found) - len(shown)} older: -n {len(found)}"] if len(shown) < len(found) else []
    facts = [{"digest": digest, **execution.to_json()} for digest, execution in shown]
    emit({"executions": facts, "recorded": len(found)}, *views, *more, as_json=as_json)


def _row(digest: Digest, execution: Execution, full: bool) -> tuple[Cell, ...]:
    product = execution.product
    return (
        execution.started[:19] + "Z",
        execution.stage,
        outcome(execution),
        steps(execution),
        "" if product is None else str(product) if full else product.short,
        str(execution.recipe) if full else execution.recipe.short,
        commit(execution, full),
        str(execution.host.get("name", "")),
        str(digest) if full else digest.short,
        cause(execution),
    )
