"""What commands about the order of data share: ranges of steps, names of runs, and how proofs are shown."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem

from registry.cli import charting
from registry.cli.render import Cell, Fields, Mark, Tone, View
from registry.cli.words import count
from registry.core.findings import Finding
from registry.core.orderproof import Proof
from registry.errors import ReckonError
from registry.workflows.order import Proven

_STEPS = re.compile(r"([1-9][0-9]{0,14})(?::([1-9][0-9]{0,14}))?")


class StepsType(click.ParamType[range]):
    """Steps as ``A:B``, first and last included, or ``A`` for one."""

    name = "steps"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> range:
        """Read a range. Fails for anything else, and where the last step comes before the first."""
        match = _STEPS.fullmatch(str(value))
        found = range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
        if not found:
            self.fail(f"{value!r} is no range of steps; write it like 1:50.", param, ctx)
        return found


class RunType(click.ParamType[str]):
    """A run: a rung, a segment, or a chain of segments under their common name."""

    name = "run"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Any text; what it means is found in the records."""
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The runs that begin as typed. Outside of an archive there are none, and that is no error here."""
        try:
            return [CompletionItem(run) for run in charting.runs() if run.startswith(incomplete)]
        except (ReckonError, OSError):
            return []


def spelled(steps: range) -> str:
    """Steps as they are typed."""
    return f"{steps.start}:{steps.stop - 1}"


def proven(proof: Proven) -> Iterator[View]:
    """A proof: its steps and digests, and every finding."""
    for one in proof.proofs:
        yield Fields(title=f"{one.stage}, steps {spelled(one.steps)}", values=_witness(one))
        yield from (told(finding) for finding in one.findings)
    steps = sum(one.agreed for one in proof.proofs)
    if proof.holds:
        yield Mark(
            f"Holds: {count(steps, 'batch was', 'batches were')} made again with the recorded digests.", Tone.GOOD
        )
    else:
        asked = sum(len(one.steps) for one in proof.proofs)
        yield Mark(f"Does not hold: {steps} of {count(asked, 'step')} could be made again.", Tone.BAD)


def told(finding: Finding) -> Mark:
    """A finding in one line."""
    return Mark(f"{finding.subject}: {finding.trouble}: {finding.text}", Tone.BAD)


def as_facts(proof: Proven) -> dict[str, object]:
    """A proof as plain facts."""
    return {"run": proof.run, "holds": proof.holds, "segments": [_facts(one) for one in proof.proofs]}


def _facts(proof: Proof) -> dict[str, object]:
    return {
        "stage": proof.stage,
        "first_step": proof.steps.start,
        "last_step": proof.steps.stop - 1,
        "agreed": proof.agreed,
        "before": proof.before,
        "after": proof.after,
        "findings": proof.findings,
    }


def _witness(proof: Proof) -> dict[str, Cell]:
    return {
        "made again": f"{proof.agreed} of {len(proof.steps)}",
        "order before": proof.before,
        "order after": proof.after,
    }
