"""The declared pipeline: ``dvc.yaml`` and ``params.yaml`` as stages with their command, inputs, settings and outputs.

Understands the part of DVC's language that this pipeline uses: plain stages, ``foreach`` over a mapping, a list or a
``${params key}``, and ``${key}``, ``${item}``, ``${item.x}`` and ``${params.key}`` in strings. Anything else is
refused, so that a record never describes a stage that DVC would run differently.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from registry.core.canonical import Json
from registry.core.names import stage_of_dvc
from registry.errors import Refused

_HOLE = re.compile(r"\$\{\s*([A-Za-z0-9_.-]+)\s*\}")
_KNOWN = {"cmd", "deps", "params", "outs", "desc", "always_changed", "meta"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSpec:
    """One stage as declared. ``config`` holds the declared parameters by key, decimals as strings."""

    name: str
    command: str
    code: tuple[str, ...]
    inputs: tuple[str, ...]
    config: Mapping[str, Json]
    outputs: tuple[str, ...]


def resolve(document: object, params: object) -> dict[str, StageSpec]:
    """All stages of a parsed ``dvc.yaml`` by name, in its order. Raises ``Refused`` for what it does not understand."""
    settings = _mapping(params, "params.yaml")
    stages = _mapping(_mapping(document, "dvc.yaml").get("stages"), "the stages of dvc.yaml")
    resolved: dict[str, StageSpec] = {}
    for name, body in stages.items():
        for dvc_name, scope, stage in _instances(name, _mapping(body, f"the stage {name}"), settings):
            spec = _spec(stage_of_dvc(dvc_name), stage, {**settings, **scope}, settings)
            resolved[spec.name] = spec
    return resolved


def decimals(value: object) -> Json:
    """``value`` with every float as its shortest decimal string, so that it has one canonical form.

    Raises ``Refused`` for what neither YAML's nor JSON's plain types hold, and for NaN and infinities.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Refused(
                f"A setting cannot be {value}.",
                remedy="Write a finite number in params.yaml.",
            )
        return repr(value)
    if isinstance(value, Mapping):
        return {str(key): decimals(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [decimals(item) for item in value]
    raise Refused(
        f"A setting cannot be a {type(value).__name__}.",
        remedy="Quote it in params.yaml.",
    )


def lookup(settings: Mapping[str, object], key: str) -> object:
    """The value at a dotted key. Raises ``Refused`` when there is none."""
    value: object = settings
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise Refused(f"The setting {key!r} does not exist.", remedy="Add it to params.yaml.")
        value = value[part]
    return value


def _instances(
    name: str, body: Mapping[str, object], settings: Mapping[str, object]
) -> Iterator[tuple[str, Mapping[str, object], Mapping[str, object]]]:
    if "foreach" not in body:
        yield name, {}, body
        return
    items = body["foreach"]
    if isinstance(items, str):
        items = _substitute(items, settings)
    stage = _mapping(body.get("do"), f"the 'do' of {name}")
    keys = items if isinstance(items, Mapping | list) else ()
    if not all(isinstance(key, str) or (isinstance(items, list) and type(key) is int) for key in keys):
        raise Refused(
            f"The stage {name} loops over keys that are not words; DVC leaves such stages out without a word.",
            remedy="Quote them: '1', not 1.",
        )
    if isinstance(items, Mapping):
        yield from ((f"{name}@{key}", {"key": str(key), "item": item}, stage) for key, item in items.items())
    elif isinstance(items, list):
        yield from ((f"{name}@{item}", {"item": item}, stage) for item in items)
    else:
        raise Refused(f"The stage {name} loops over something that is neither a mapping nor a list.")


def _spec(
    name: str,
    body: Mapping[str, object],
    scope: Mapping[str, object],
    settings: Mapping[str, object],
) -> StageSpec:
    unknown = set(body) - _KNOWN
    if unknown:
        raise Refused(f"The stage {name} uses {', '.join(sorted(unknown))}, which reckon cannot record.")
    command = body.get("cmd")
    if not isinstance(command, str):
        raise Refused(f"The command of {name} must be one line.")
    deps = _strings(body.get("deps", []), scope, f"the deps of {name}")
    keys = _strings(body.get("params", []), scope, f"the params of {name}")
    return StageSpec(
        name=name,
        command=str(_substitute(command, scope)),
        code=tuple(sorted(path for path in deps if _is_code(path))),
        inputs=tuple(path for path in deps if not _is_code(path)),
        config={key: decimals(lookup(settings, key)) for key in sorted(keys)},
        outputs=_strings(body.get("outs", []), scope, f"the outs of {name}"),
    )


def _is_code(path: str) -> bool:
    return path.endswith(".py")


def _strings(value: object, scope: Mapping[str, object], where: str) -> tuple[str, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise Refused(f"A list is expected for {where}.")
    return tuple(_path(item, scope, where) for item in value)


def _path(item: object, scope: Mapping[str, object], where: str) -> str:
    if isinstance(item, Mapping) and len(item) == 1:
        item = next(iter(item))
    if not isinstance(item, str):
        raise Refused(f"A string is expected in {where}.")
    return str(_substitute(item, scope))


def _substitute(text: str, scope: Mapping[str, object]) -> object:
    whole = _HOLE.fullmatch(text)
    if whole:
        return lookup(scope, whole[1])
    filled = _HOLE.sub(lambda hole: _spelled(lookup(scope, hole[1]), hole[1]), text)
    if "${" in filled:
        raise Refused(f"{text!r} uses a form of substitution that reckon cannot record.")
    return filled


def _spelled(value: object, key: str) -> str:
    """A value inside a longer string, as DVC writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise Refused(f"The setting {key!r} cannot stand inside a string.", remedy="Give it as a parameter instead.")


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise Refused(
            f"{where} must be a mapping.",
            remedy="Compare it with the committed version.",
        )
    return value
