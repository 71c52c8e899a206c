"""Marin's own sidecars: ``.artifact.json`` beside an output, and ``.executor_info`` of its older executor.

An artifact record has ``name``, ``version``, ``fingerprint``, ``deps`` (``name@version``), ``config``, ``result`` and
``provenance``; an old one is the bare result. An executor's file tells of one step, or of a launch with ``steps``. The
file that a step runner writes when it *schedules* a step is a plan: nothing in it says that anything ran, and it is
adopted as planned. A success marker proves nothing about bytes. Refuses files of another shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from registry.core.adopted.foreign import claims, clean, read_json, slug
from registry.core.adopted.record import Adopted, Bond, Ended, Link, Origin, Role
from registry.core.canonical import Json
from registry.core.digests import sha256
from registry.errors import Refused

SYSTEM: Final = "marin"
STUB: Final = "step_runner"
_SOURCE = "sidecar"
_PRIVATE: Final = ("user", "command_line", "caller_path", "ray_job_id", "git_branch")
_ARTIFACT = frozenset(("name", "version", "fingerprint", "result_type", "output_path", "deps", "result", "provenance"))
_STEP = frozenset(("fn_name", "dependencies", "executor_version", "override_output_path"))
_ENDINGS: Final = {"SUCCESS": Ended.COMPLETE, "FAILED": Ended.FAILED, "RUNNING": Ended.UNKNOWN}
_MOST_STEPS: Final = 1000


def records(data: bytes, status: bytes | None, time: str) -> tuple[Adopted, ...]:
    """The records that a sidecar tells of; ``status`` is the file of the older executor beside it, if any.

    Raises ``Refused`` when the bytes have no shape of Marin's.
    """
    value = read_json(data, "the sidecar")
    if not isinstance(value, Mapping):
        raise Refused("A sidecar of Marin is a JSON object, and this is none.")
    ended = _ending(status)
    if isinstance(value.get("steps"), list):
        return tuple(_launch(value, data, time))
    if _STEP & value.keys():
        return (_step(value, {}, data, ended, time),)
    if _ARTIFACT & value.keys():
        return (_artifact(value, data, time),)
    raise Refused(
        "This JSON is no document of facts and no sidecar of Marin.",
        remedy="See registry/README.md, 'Foreign records', for what can be adopted.",
    )


def _artifact(value: Mapping[str, Json], data: bytes, time: str) -> Adopted:
    genuine = any(value.get(key) for key in ("name", "fingerprint", "result_type"))
    facts = _facts(value) if genuine else {"result": _facts(value)}
    provenance = value.get("provenance")
    commit = provenance.get("git_commit") if isinstance(provenance, Mapping) else None
    name = f"{_text(value, 'name') or 'unnamed'}/{_text(value, 'version') or 'no-version'}" if genuine else "unnamed"
    deps = value.get("deps")
    return _record(
        name, {**facts, "commit": commit if isinstance(commit, str) else None}, (data, Ended.COMPLETE, time), deps
    )


def _launch(value: Mapping[str, Json], data: bytes, time: str) -> Iterator[Adopted]:
    """A launch file lists what was to be done: whether a step ended stands beside its own output, not here."""
    steps = value["steps"]
    shared = {key: one for key, one in value.items() if key not in ("steps", *_PRIVATE)}
    if not isinstance(steps, list) or len(steps) > _MOST_STEPS or not all(isinstance(one, Mapping) for one in steps):
        raise Refused(f"The steps of a launch are a list of at most {_MOST_STEPS} objects.")
    for step in steps:
        yield _step(step, shared, data, Ended.PLANNED, time)


def _step(value: Mapping[str, Json], launch: Mapping[str, Json], data: bytes, ended: Ended, time: str) -> Adopted:
    planned = value.get("executor_version") == STUB
    commit = launch.get("git_commit")
    facts = {**_facts(value), "launch": dict(launch), "commit": commit if isinstance(commit, str) else None}
    name = _text(value, "output_path") or _text(value, "name") or "unnamed"  # Others depend on it by its output path.
    return _record(name, facts, (data, Ended.PLANNED if planned else ended, time), value.get("dependencies"))


def _record(name: str, facts: Mapping[str, Json], told: tuple[bytes, Ended, str], deps: Json) -> Adopted:
    data, ended, time = told
    stage = f"{SYSTEM}/artifact/{slug(name)}"
    given = [one for one in deps if isinstance(one, str)] if isinstance(deps, list) else []
    links = [_link(one) for one in given[:_MOST_STEPS]]
    return Adopted(
        name=stage,
        role=Role.ARTIFACT,
        ended=ended,
        origin=Origin(system=SYSTEM, id=stage, digest=sha256(data)),
        sources={_SOURCE: f"a sidecar of Marin for {clean(name, 200)}"},
        claims=claims(facts, _SOURCE),
        links=tuple(dict.fromkeys(links)),
        absence=None,
        time=time,
    )


def _link(dependency: str) -> Link:
    return Link(
        bond=Bond.INPUT,
        name=f"{SYSTEM}/artifact/{slug(dependency)}",
        step=None,
        source=_SOURCE,
        kept="",
        absence=None,
    )


def _facts(value: Mapping[str, Json]) -> dict[str, Json]:
    """What may be told again: nobody's account, command line or place on a disk."""
    return {
        key: _facts(one) if key == "provenance" and isinstance(one, Mapping) else one
        for key, one in value.items()
        if key not in (*_PRIVATE, "deps", "dependencies", "fingerprint_payload")
    }


def _text(value: Mapping[str, Json], key: str) -> str:
    one = value.get(key)
    return one if isinstance(one, str) else ""


def _ending(status: bytes | None) -> Ended:
    """What the status file says: its last word of state. Absent, nothing is known."""
    if status is None:
        return Ended.UNKNOWN
    words = [word for word in _ENDINGS if word in status.decode("utf-8", "replace")[-4000:].upper()]
    return _ENDINGS[words[0]] if len(words) == 1 else Ended.UNKNOWN
