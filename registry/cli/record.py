"""``reckon record``: write down what a stage is asked, and afterwards what every attempt of it came to."""

from __future__ import annotations

import click

from registry.cli import planning, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Fields, conclude, emit, talk
from registry.core.names import Name


@click.command(
    epilog=example(
        "reckon record rung/d48 --begin && python -m train.rung d48; reckon record rung/d48 --status $?",
    )
)
@click.argument("name", type=NameType(wiring.names))
@click.option("--begin", is_flag=True, help="Before the stage: write its recipe and where the code stands.")
@click.option(
    "--status", type=click.IntRange(0, 255), default=0, show_default=True, help="How the stage's process ended."
)
@json_option
def command(name: Name, begin: bool, status: int, as_json: bool) -> None:
    """Record a stage: the first and the last command of every DVC stage.

    The outputs are hashed, opened and counted; the stage's own word is not taken for any of it. Attempts that were
    killed or failed are recorded too. The status of the stage is handed on: a failed stage fails here.
    """
    archive = wiring.root()
    recorder = wiring.recorder(archive)
    if begin:
        opening = recorder.begin(name.stage, wiring.hypothesis(archive, name.stage))
        emit(opening, f"{name.stage}: recipe {opening.recipe.short}", as_json=as_json)
        return
    recorded = recorder.record(name.stage, status, wiring.ledger(archive))
    made = [digest for digest, _ in recorded.executions]
    wiring.publish(archive, made, talk)
    planning.record_programs(archive, made, talk, anywhere=True)
    rows = {f"execution {digest.short}": f"{one.outcome}, attempt {one.attempt}" for digest, one in recorded.executions}
    emit(recorded, Fields(values=rows, title=name.stage), as_json=as_json)
    if status:
        talk(f"The stage {name.stage} failed with status {status}; its attempts are recorded.")
    conclude(holds=status == 0)
