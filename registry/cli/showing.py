"""Views of what ``reckon show`` found: long lists are cut, digests are whole where they name the thing shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from registry.cli.render import Cell, Fields, Mark, Table, Tone, View
from registry.cli.words import amount, cause, commit, count, cut, flat, outcome, steps
from registry.core.records import Execution, Output, Recipe
from registry.workflows.show import Shown, ShownArtifact, ShownFiles, ShownRecord


def views(shown: Shown, full: bool) -> Iterator[View]:
    """Everything that is shown of a name or digest."""
    if isinstance(shown, ShownArtifact):
        yield from _artifact(shown, full)
    elif isinstance(shown, ShownFiles):
        yield from _files(shown, full)
    else:
        yield from _record(shown, full)


def _artifact(shown: ShownArtifact, full: bool) -> Iterator[View]:
    output = shown.output
    yield Fields(title=output.name, values=_identity(output, shown))
    yield _witnessed(shown)
    yield from _other_outputs(shown, full)
    if shown.recipe is None:
        yield Mark(f"The recipe {shown.product.recipe} cannot be read: reckon verify --all", Tone.BAD)
    else:
        yield from _recipe(shown.recipe, str(shown.product.recipe), full)
    yield from _executions(shown, full)
    yield from _trackers(shown, full)
    yield from _happened(shown, full)


def _identity(output: Output, shown: ShownArtifact) -> dict[str, Cell]:
    return {
        "path": output.path,
        "digest": str(output.digest),
        "size": f"{amount(output.size_bytes)} in {count(output.files, 'file')}",
        **flat(output.contents),
        "product": str(shown.product_digest),
        "recipe": str(shown.product.recipe),
        "tier": shown.standing.label,
    }


def _witnessed(shown: ShownArtifact) -> Cell:
    """How many executions gave this product, and whether any gave another."""
    others = [one for one in shown.witnesses if one.product != shown.product_digest]
    witnesses = count(shown.standing.witnesses, "witness", "witnesses")
    if not others:
        return Mark(f"{witnesses}, no contradiction", Tone.GOOD)
    told = ", ".join(f"{one.product.short} ({count(len(one.executions), 'execution')})" for one in others)
    return Mark(f"{witnesses}, contradicted by {told}", Tone.BAD)


def _other_outputs(shown: ShownArtifact, full: bool) -> Iterator[View]:
    others = [one for one in shown.product.outputs if one != shown.output]
    rows: list[Sequence[Cell]] = [
        (one.name, str(one.digest) if full else one.digest.short, amount(one.size_bytes), str(one.files))
        for one in others
    ]
    if rows:
        columns = ("name", "digest", "size", "files")
        yield Table(title="also of this product", columns=columns, rows=cut(rows, full), right=("size", "files"))


def _recipe(recipe: Recipe, digest: str, full: bool) -> Iterator[View]:
    facts: dict[str, Cell] = {
        "digest": digest,
        "command": " ".join(recipe.command),
        "code": count(len(recipe.source), "file"),
        "lock": str(recipe.lock),
        **{f"determinism.{key}": value for key, value in flat(recipe.determinism).items()},
    }
    yield Fields(title="recipe", values=facts)
    settings: list[Sequence[Cell]] = list(flat(recipe.config).items())
    if settings:
        yield Table(title="settings", columns=("key", "value"), rows=cut(settings, full))
    inputs: list[Sequence[Cell]] = [(one.name, str(one.digest) if full else one.digest.short) for one in recipe.inputs]
    if inputs:
        yield Table(title="inputs", columns=("name", "digest"), rows=cut(inputs, full))
    if full and recipe.source:
        yield Table(title="code", columns=("file", "blob"), rows=[(one.path, str(one.blob)) for one in recipe.source])


def _executions(shown: ShownArtifact, full: bool) -> Iterator[View]:
    columns = ("started", "outcome", "steps", "product", "attempt", "commit", "host", "cores", "resumed from", "cause")
    rows: list[Sequence[Cell]] = [
        (
            one.started[:19] + "Z",
            outcome(one),
            steps(one),
            "" if one.product is None else "this" if one.product == shown.product_digest else one.product.short,
            one.attempt,
            commit(one, full),
            str(one.host.get("name", "")),
            str(one.host.get("cores", "")),
            _resumed(one),
            cause(one),
        )
        for _, one in shown.executions
    ]
    yield Table(title="executions", columns=columns, rows=cut(rows, full), right=("cores",))
    hypothesis = next((one.hypothesis for _, one in shown.executions if one.hypothesis), None)
    if hypothesis:
        came_out = {f"came out: {key}": value for key, value in flat(shown.output.contents).items() if "loss" in key}
        yield Fields(title="expected before it ran", values={**flat(hypothesis), **came_out})


def _resumed(execution: Execution) -> str:
    if execution.resumed is not None:
        return f"{execution.resumed.get('attempt')} at step {execution.resumed.get('step')}"
    if execution.parent is not None:
        return f"{execution.parent.get('name')}@step-{execution.parent.get('step')}"
    return ""


def _trackers(shown: ShownArtifact, full: bool) -> Iterator[View]:
    attempts = {digest: one.attempt for digest, one in shown.executions}
    rows: list[Sequence[Cell]] = [
        (one.attempt, *(str(told.get(key) or "") for key in ("system", "state", "run_id", "location", "reason")))
        for _, one in shown.executions
        for told in one.trackers
    ]
    rows += [
        (attempts[one.execution], one.system, one.state.value, one.run_id or "", one.uri or "", one.reason or "")
        for one in shown.pointers
    ]
    if rows:
        columns = ("attempt", "system", "state", "run", "where", "reason")
        yield Table(title="trackers", columns=columns, rows=cut(rows, full))


def _happened(shown: ShownArtifact, full: bool) -> Iterator[View]:
    rows: list[Sequence[Cell]] = [
        (event.time[:19] + "Z", event.about, Mark(event.incident, Tone.DOUBT), event.steps, event.text)
        for event in shown.incidents
    ]
    if rows:
        yield Table(title="incidents", columns=("when", "about", "kind", "steps", "text"), rows=cut(rows, full))
    for taint in shown.taints:
        yield Mark(f"Tainted: {' → '.join(taint.via)}: {taint.text}", Tone.BAD)


def _files(shown: ShownFiles, full: bool) -> Iterator[View]:
    yield Fields(
        title=f"{shown.output.name}:{shown.path}",
        values={
            "path": f"{shown.output.path}/{shown.path}",
            "of": f"{shown.output.name} {shown.output.digest}",
            "product": str(shown.product_digest),
            "witnesses": str(len(shown.executions)),
        },
    )
    rows: list[Sequence[Cell]] = [(one.path, amount(one.size_bytes), str(one.digest)) for one in shown.files]
    yield Table(columns=("file", "size", "digest"), rows=cut(rows, full), right=("size",))


def _record(shown: ShownRecord, full: bool) -> Iterator[View]:
    facts = flat(shown.record.to_json())
    yield Fields(
        title=f"{shown.kind} {shown.digest}",
        values={key: value if full or len(value) <= 200 else f"{value[:200]} …" for key, value in facts.items()},
    )
    rows: list[Sequence[Cell]] = [(kind, str(digest)) for kind, digest in shown.spoken_of]
    if rows:
        yield Table(title="spoken of by", columns=("kind", "digest"), rows=cut(rows, full))
