"""Views of programs: a fingerprint with what it is of, the difference between two, and a history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from registry.cli.render import Cell, Fields, Mark, Table, Tone, View
from registry.cli.words import amount, count
from registry.core.writing import FORM

if TYPE_CHECKING:
    from registry.core.canonical import Json
    from registry.core.digests import Digest
    from registry.core.program import Lowered, Program, Programs
    from registry.core.programdiff import Line, ProgramDiff
    from registry.workflows.program import Compared, Moment

_MOST_LINES = 40
_MOST_PLACES = 3
# Of what one device holds, in this order.
_HELD = ("parameters", "optimizer", "gradients", "working_copy")


def facts(found: Lowered, known: Programs) -> Mapping[str, object]:
    """A program, for JSON."""
    return {
        **found.facts,
        "commit": found.commit,
        "program": found.digest,
        "form": FORM,
        "operations": found.operations,
        "recorded": [one.to_json() for one in recorded(found, known)],
    }


def recorded(found: Lowered, known: Programs) -> Sequence[Program]:
    """Records of the same stage, platform and number of devices."""
    wanted = tuple(found.facts.get(name) for name in ("stage", "platform", "devices"))
    every = (one for many in known.of_recipe.values() for one in many)
    return [one for one in every if (one.stage, one.platform, one.devices) == wanted]


def views(found: Lowered, known: Programs) -> Iterator[View]:
    """A program for people."""
    told = found.facts
    mesh, libraries = told.get("mesh"), told.get("libraries")
    yield Fields(
        values={
            "run": str(told.get("stage")),
            "commit": found.commit or "the working tree",
            "lowered for": f"{told.get('platform')}, {count(_number(told.get('devices')), 'device')}",
            "mesh": _pairs(mesh, " × "),
            "on a device": _held(told.get("device_bytes")),
            "libraries": _pairs(libraries, ", "),
            "operations": str(found.operations),
            "took": f"{_number(told.get('elapsed_milliseconds')) / 1000:.1f} s",
            "memory": amount(_number(told.get("peak_bytes"))),
            "program": str(found.digest),
        }
    )
    for one in recorded(found, known):
        if one.form != FORM:
            yield Mark(f"The record of {one.commit[:12]} has another form: {one.form}.", Tone.DOUBT)
        elif one.program == found.digest:
            yield Mark(f"The same as recorded at {one.commit[:12]}.", Tone.GOOD)
        else:
            yield Mark(f"Another than recorded at {one.commit[:12]}: {one.program}.", Tone.DOUBT)


def _held(value: object) -> str:
    """What one device holds of the run. An older commit does not tell."""
    if not isinstance(value, Mapping):
        return "not told"
    parts = {name: _number(value.get(name)) for name in _HELD}
    told = ", ".join(f"{name.replace('_', ' ')} {amount(size)}" for name, size in parts.items())
    return f"{amount(sum(parts.values()))} and activations: {told}"


def diff_facts(done: Compared) -> Mapping[str, object]:
    """A comparison, for JSON."""
    before, after = done.before, done.after
    return {
        "same": done.same,
        "before": {"commit": before.commit, "program": before.digest},
        "after": {"commit": after.commit, "program": after.digest},
        "difference": done.diff,
    }


def diff_views(done: Compared) -> Iterator[View]:
    """A comparison for people."""
    for side, found in (("before", done.before), ("after", done.after)):
        yield f"{side.ljust(6)} {found.digest}  {found.commit or 'the working tree'}"
    if done.same:
        yield Mark("The same program.", Tone.GOOD)
        return
    diff = done.diff
    for sign, texts in (("-", diff.header_removed), ("+", diff.header_added)):
        yield from (Mark(f"{sign} {text[:400]}", _tone(sign)) for text in texts)
    yield from _lines("-", diff.removed)
    yield from _lines("+", diff.added)
    if diff.reordered:
        yield "The same operations, on other values: something is combined in another order."
    yield _follows(diff)
    yield Mark("Another program.", Tone.BAD)


def moment_facts(one: Moment) -> Mapping[str, Json | Digest | None]:
    """A commit of a history, for JSON."""
    return {
        "commit": one.commit,
        "subject": one.subject,
        "program": one.program,
        "changed": one.changed,
        "reason": one.reason or None,
    }


def moment_views(moments: Sequence[Moment]) -> Iterator[View]:
    """A history for people."""
    rows: list[Sequence[Cell]] = []
    for one in moments:
        told = one.reason if one.program is None else one.program.short
        state: Cell = (
            Mark("changed", Tone.DOUBT) if one.changed else Mark("same" if one.subject else "begins", Tone.GOOD)
        )
        rows.append(
            [one.commit[:12], Mark("none", Tone.FAINT) if one.program is None else state, told, one.subject[:70]]
        )
    yield Table(columns=("commit", "program", "fingerprint", "subject"), rows=rows)
    changes = sum(one.changed for one in moments)
    yield f"The program changed at {count(changes, 'commit')} of the {len(moments)} that touch what it is made from."


def _lines(sign: str, lines: Sequence[Line]) -> Iterator[View]:
    for line in lines[:_MOST_LINES]:
        times = f" ({line.times} times)" if line.times > 1 else ""
        yield Mark(f"{sign} {line.operation[:300]}{times}", _tone(sign))
        yield from (Mark(f"    {place}", Tone.FAINT) for place in line.places[:_MOST_PLACES])
    if len(lines) > _MOST_LINES:
        yield Mark(f"{sign} … and {len(lines) - _MOST_LINES} more: --json", _tone(sign))


def _follows(diff: ProgramDiff) -> str:
    begun = sum(line.times for line in (*diff.removed, *diff.added))
    gone, new = sum(diff.gone.values()), sum(diff.new.values())
    kinds = ", ".join(f"{name} {diff.gone.get(name, 0)}→{diff.new.get(name, 0)}" for name in _frequent(diff))
    if not gone + new:
        return "Every operation is in both; what the program gives, or the facts of its module, are others."
    begins = f"The difference begins at {count(begun, 'operation')}"
    return f"{begins}; with what follows {gone} are gone and {new} new: {kinds}."


def _frequent(diff: ProgramDiff) -> list[str]:
    names = {*diff.gone, *diff.new}
    return sorted(names, key=lambda name: (-diff.gone.get(name, 0) - diff.new.get(name, 0), name))[:6]


def _tone(sign: str) -> Tone:
    return Tone.BAD if sign == "-" else Tone.GOOD


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _pairs(value: object, between: str) -> str:
    return between.join(f"{name} {one}" for name, one in value.items()) if isinstance(value, Mapping) else ""
