"""``reckon verify``: hash every byte again and say what is not as recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from registry.cli import adopting, wiring
from registry.cli.options import NameType, example, json_option
from registry.cli.render import Mark, Tone, View, conclude, emit, progress
from registry.cli.words import amount, count, full_option
from registry.core.findings import Finding, Tally
from registry.core.names import Name
from registry.workflows.verify import bytes_ahead

_MOST = 20


@click.command(
    epilog=example("reckon verify rung/d48", "reckon verify hero/1@step-450 --cache", "reckon verify --all"),
)
@click.argument("name", type=NameType(wiring.names), required=False)
@click.option("--all", "everything", is_flag=True, help="Every stage, and every record.")
@click.option("--cache", is_flag=True, help="DVC's cached copies too, which DVC itself does not look at again.")
@full_option
@json_option
def command(name: Name | None, everything: bool, cache: bool, full: bool, as_json: bool) -> None:
    """Hash every byte of NAME again, and compare files, tensors and counts with the record.

    With --all, the records themselves are verified too: their bytes, form, tables, and what they say of each other.
    Ends with status 1 when something is not as recorded, and when there was nothing to check.
    """
    if (name is None) != everything:
        raise click.UsageError("Give a NAME or --all, not both." if everything else "Give a NAME or --all.")
    if name is not None:
        adopting.refuse_foreign(name)
    archive = wiring.root()
    ledger, tally = wiring.ledger(archive), Tally()
    with progress("Verifying", bytes_ahead(ledger, name), in_bytes=True) as advance:
        verifier = wiring.verifier(archive, advance, with_cache=cache)
        if name is None:
            verifier.everything(ledger, tally)
            wiring.record_verifier(archive).verify(tally)
        else:
            verifier.name(ledger, name, tally)
    emit(_facts(tally), *_views(tally, full), as_json=as_json)
    conclude(holds=tally.verdict.holds)


def _facts(tally: Tally) -> dict[str, object]:
    verdict = tally.verdict
    checked = {
        "files": tally.files,
        "size_bytes": tally.size_bytes,
        "tensors": tally.tensors,
        "facts": tally.facts,
        "records": tally.records,
    }
    return {"holds": verdict.holds, "checked": checked, "findings": verdict.findings}


def _views(tally: Tally, full: bool) -> Iterator[View]:
    findings = tally.findings if full else tally.findings[:_MOST]
    for finding in findings:
        yield from _told(finding)
    if len(findings) < len(tally.findings):
        yield Mark(f"… {count(len(tally.findings) - len(findings), 'finding')} more: --full", Tone.FAINT)
    yield _conclusion(tally)
    if any(finding.path.startswith("artifacts/") for finding in findings):
        yield "Remove what is altered and run 'dvc checkout' or 'dvc pull'; the evidence is worth a copy first."
    if any(finding.path.startswith("manifests/") for finding in findings):
        yield "Records that were committed come back with 'git checkout -- manifests'."


def _told(finding: Finding) -> Sequence[View]:
    sides = [("recorded", finding.recorded), ("found", finding.found)]
    lines = [f"  {side.ljust(8)} {value}" for side, value in sides if value is not None]
    where = f"  {'file'.ljust(8)} {finding.path}" if finding.path and finding.path not in finding.text else ""
    return [
        Mark(f"{finding.subject}: {finding.trouble}: {finding.text}", Tone.BAD),
        *([where] if where else []),
        *lines,
    ]


def _conclusion(tally: Tally) -> Mark:
    checked = ", ".join(
        [
            f"{count(tally.files, 'file')} ({amount(tally.size_bytes)})",
            count(tally.tensors, "tensor"),
            count(tally.facts, "fact"),
            count(tally.records, "record"),
        ]
    )
    if tally.verdict.holds:
        return Mark(f"Holds: {checked} are as recorded.", Tone.GOOD)
    if not tally.verdict.checked:
        return Mark("Does not hold: nothing is recorded, so nothing was checked. Run 'dvc repro' first.", Tone.BAD)
    return Mark(f"Does not hold: {count(len(tally.findings), 'finding')} among {checked}.", Tone.BAD)
