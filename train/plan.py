"""What a training stage is to do, from ``params.yaml`` alone: no JAX, no files but the settings.

A rung is one segment from its first step to its last. The hero is a chain of segments, each with its parent and the
changes that its recipe makes to the common settings. Refuses segments that leave a gap, change what is not there, or
begin anew although they name a parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from registry.core.canonical import Json
from registry.core.family import Family
from registry.core.ladder import Rung, Shape, derive
from registry.core.names import Name
from registry.core.pipeline import decimals
from registry.errors import Refused
from train import settings
from train.settings import mapping, text, whole

COMMON: Final = ("determinism", "evaluation", "family", "model", "order", "training")

Sections = Mapping[str, Mapping[str, Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One segment to train. ``parent`` is the checkpoint that it continues, None for the first segment of a run.

    ``declared`` are the parameters by key as ``dvc.yaml`` declares them; ``sections`` the same with the segment's
    changes. Steps count completed updates: the segment begins after ``first_step`` and ends after ``last_step``.
    """

    stage: str
    parent: Name | None
    first_step: int
    last_step: int
    family: Family
    rung: Rung
    sections: Sections
    declared: Mapping[str, Json]
    reason: str

    @property
    def kept(self) -> tuple[int, ...]:
        """Steps whose checkpoints are outputs: every ``training.keep_every_steps`` and the last one."""
        every = whole(self.sections["training"], "keep_every_steps", least=1)
        inner = range(self.first_step // every * every + every, self.last_step, every)
        return (*inner, self.last_step)

    @property
    def run(self) -> str:
        """The run that the segment belongs to: a rung's own stage, or ``hero``."""
        return "hero" if self.stage.startswith("hero/") else self.stage


def rung_plan(name: str) -> Plan:
    """The plan of the rung ``name``. Raises ``Refused`` for an unknown one and for settings that make no sense."""
    rungs = settings.section("rungs")
    if name not in rungs:
        raise Refused(f"There is no rung {name!r}.", remedy=f"Known are: {', '.join(sorted(rungs))}.")
    sections = {key: settings.section(key) for key in COMMON}
    shape = mapping(rungs, name)
    family, rung = _derived(sections, shape)
    return Plan(
        stage=f"rung/{name}",
        parent=None,
        first_step=0,
        last_step=rung.steps,
        family=family,
        rung=rung,
        sections=sections,
        declared={**{key: decimals(sections[key]) for key in COMMON}, f"rungs.{name}": decimals(shape)},
        reason="",
    )


def segment_plan(number: str) -> Plan:
    """The plan of segment ``number`` of the hero.

    Raises ``Refused`` for an unknown segment, a segment that does not begin where its parent ends, and a first segment
    with a parent or a later one without.
    """
    segments = settings.section("segments")
    if number not in segments:
        raise Refused(f"The hero has no segment {number!r}.", remedy=f"Known are: {', '.join(sorted(segments))}.")
    common, shape, segment = {key: settings.section(key) for key in COMMON}, settings.section("hero"), segments[number]
    chosen = cast(Mapping[str, Json], segment if isinstance(segment, dict) else {})
    sections = _changed(common, mapping(chosen, "changes"))
    family, rung = _derived(sections, shape)
    last = rung.steps if chosen.get("last_step") == "end" else whole(chosen, "last_step", least=1)
    parent = None if chosen.get("parent") is None else Name.parse(text(chosen, "parent"))
    first = _first_step(number, parent)
    if not first < last <= rung.steps:
        raise Refused(
            f"Segment {number} goes from step {first} to {last} of a run of {rung.steps} steps.",
            remedy="Correct segments in params.yaml.",
        )
    declared = {**{key: decimals(common[key]) for key in COMMON}, "hero": decimals(shape)}
    return Plan(
        stage=f"hero/{number}",
        parent=parent,
        first_step=first,
        last_step=last,
        family=family,
        rung=rung,
        sections=sections,
        declared={**declared, f"segments.{number}": decimals(chosen)},
        reason=text(chosen, "reason"),
    )


def _derived(sections: Sections, shape: Mapping[str, Json]) -> tuple[Family, Rung]:
    family = Family.from_settings(sections["family"])
    return family, derive(family, Shape.from_settings(shape))


def _first_step(number: str, parent: Name | None) -> int:
    """Where a segment begins: at zero without a parent, which only the first may lack."""
    if (number == "1") != (parent is None):
        raise Refused(
            f"Segment {number} of the hero {'has no parent' if parent is None else 'names a parent'}.",
            remedy="The first segment begins from fresh parameters, every later one from a named checkpoint.",
        )
    if parent is None:
        return 0
    if parent.step is None or parent.path is not None or parent.stage != f"hero/{int(number) - 1}":
        raise Refused(
            f"{parent} is no parent of segment {number} of the hero.",
            remedy=f"Name the last checkpoint of the segment before, such as hero/{int(number) - 1}@step-100.",
        )
    return parent.step


def _changed(common: Sections, changes: Mapping[str, Json]) -> dict[str, Mapping[str, Json]]:
    """The common sections with a segment's changes, each of which must replace something that is there."""
    changed: dict[str, Mapping[str, Json]] = dict(common)
    for name, section in changes.items():
        if not isinstance(section, dict) or name not in changed or not set(section) <= set(changed[name]):
            raise Refused(
                f"The changes of a segment name the section {name!r} or a key that it lacks.",
                remedy=f"A segment can change keys of: {', '.join(COMMON)}.",
            )
        changed[name] = {**changed[name], **section}
    return changed
