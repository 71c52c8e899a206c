"""``reckon rederive``: make something on record again, from its recorded commit, and say whether it is the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from registry.cli import rederiving, wiring
from registry.cli.options import example, json_option
from registry.cli.rederived import Meter, facts, plan_facts, plan_views, views
from registry.cli.references import ReferenceType
from registry.cli.render import conclude, emit, say, talk
from registry.core.distances import decimal
from registry.core.resolving import Reference
from registry.errors import Refused

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(
    epilog=example(
        "reckon rederive rung/d32",
        "reckon rederive hero/2 --yes",
        "reckon rederive hero/2 --from hero/1@step-450 --steps 20 --yes",
        "reckon rederive rung/d32 --env NPROC=1 --tolerance 0.01 --yes",
    )
)
@click.argument("name", type=ReferenceType(wiring.names))
@click.option("--from", "start", metavar="PARENT", help="A kept checkpoint of its stage, its parent, or 'scratch'.")
@click.option("--steps", type=click.IntRange(min=1), help="Replay so many steps only.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Another setting of params.yaml, on purpose.")
@click.option("--env", "envs", multiple=True, metavar="NAME=VALUE", help="Another variable, such as NPROC=1.")
@click.option("--tolerance", metavar="D", help="T3: tensors relatively, losses absolutely within D.")
@click.option("--noise", metavar="D", help="T4: the macro held-out loss within D nats.")
@click.option("--patch", type=_FILE, help="The changes that a dirty execution ran with.")
@click.option("--keep", type=click.Path(path_type=Path), metavar="FOLDER", help="Keep what was made there.")
@click.option("--yes", is_flag=True, help="Run the recorded code.")
@json_option
def command(name: Reference, **how: Any) -> None:
    """Make NAME again: recorded commit in a worktree of its own, recorded inputs by digest, recorded command.

    Shows commit, command and how this setup differs first. Runs with --yes, or when the commit is one of, or comes
    before one of, those that 'git config --add reckon.trust COMMIT' allows; else it ends with status 2. What came of
    it is recorded as an execution: a witness, a contradiction, or a mismatch of setups. Status 1 when it differs.
    """
    archive = wiring.root()
    plans = rederiving.planner(archive).plans(request(name, how))
    shown = [view for plan in plans for view in plan_views(plan)]
    if not how["yes"] and not all(plan.trusted for plan in plans):
        emit({"plans": [plan_facts(plan) for plan in plans], "ran": False}, *shown, as_json=how["as_json"])
        talk("Nothing was run. Look at the commit and the command, then run it with --yes.")
        click.get_current_context().exit(Refused.exit_code)
    say(*shown)
    work, done = rederiving.rederiver(archive), []
    for plan in plans:
        done.append(work.carry_out(plan, Meter(plan)))
        if not done[-1].judgement.holds:
            break
    told = [facts(one) for one in done]
    emit({"rederived": told, "ran": True}, *(view for one in done for view in views(one)), as_json=how["as_json"])
    conclude(holds=len(done) == len(plans) and all(one.judgement.holds for one in done))


def request(name: Reference, how: dict[str, Any]) -> Any:
    """The command line as a request."""
    from registry.workflows.rederive import Request

    return Request(
        reference=name,
        start=how["start"],
        steps=how["steps"],
        changes=pairs(how["sets"]),
        variables=pairs(how["envs"]),
        patch=how["patch"],
        keep=how["keep"],
        tolerance=None if how["tolerance"] is None else decimal(how["tolerance"], "tolerance"),
        noise=None if how["noise"] is None else decimal(how["noise"], "noise"),
    )


def pairs(texts: Sequence[str]) -> dict[str, str]:
    """``KEY=VALUE`` words. Raises ``Refused`` for one without both."""
    split = [text.partition("=") for text in texts]
    for key, equals, _ in split:
        if not key or not equals:
            raise Refused(f"{key!r} is no KEY=VALUE.", remedy="Write it like determinism.nproc=1.")
    return {key: value for key, _, value in split}
