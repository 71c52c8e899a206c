"""``dvc.yaml``, ``params.yaml`` and ``dvc.lock`` of a working tree, read as plain YAML.

DVC itself is not imported: reading its files takes milliseconds, and its Python interface is not public. DVC reads YAML
1.2 and this library YAML 1.1. What the two read differently (``1e-3``, ``yes``, ``010``, ``12:30``) is refused, so that
a record and a run never mean different settings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from registry.core.names import stage_of_dvc
from registry.core.pipeline import StageSpec, resolve
from registry.errors import Refused

_MAXIMUM_BYTES = 32 * 2**20
_LOCK = "dvc.lock"
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"


class DvcPipeline:
    """The pipeline of a repository by its root folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stages: dict[str, StageSpec] | None = None

    def stages(self) -> Mapping[str, StageSpec]:
        """All declared stages by name. Raises ``Refused`` when the files are missing or malformed."""
        if self._stages is None:
            self._stages = resolve(self._read("dvc.yaml"), self.params())
        return self._stages

    def params(self) -> Mapping[str, object]:
        """All of ``params.yaml``."""
        params = self._read("params.yaml")
        if not isinstance(params, dict):
            raise Refused(
                "params.yaml must be a mapping.",
                remedy="Compare it with the committed version.",
            )
        return params

    def locked(self) -> Mapping[str, Mapping[str, str]]:
        """Output path → DVC md5 by stage, as ``dvc.lock`` says; empty when there is no lock."""
        if not (self._root / _LOCK).is_file():
            return {}
        document = self._read(_LOCK)
        stages = document.get("stages") if isinstance(document, dict) else None
        if not isinstance(stages, dict):
            raise Refused(
                "dvc.lock is malformed.",
                remedy="Restore it with git, or run 'dvc repro'.",
            )
        return {stage_of_dvc(str(name)): _outputs(body) for name, body in stages.items()}

    def _read(self, name: str) -> object:
        path = self._root / name
        if not path.is_file():
            raise Refused(
                f"There is no {name} here.",
                remedy="Run reckon in the root of the repository.",
            )
        if path.stat().st_size > _MAXIMUM_BYTES:
            raise Refused(f"{name} is over {_MAXIMUM_BYTES} bytes.")
        try:
            data = path.read_bytes()
            if name != _LOCK:
                _check_scalars(name, data)
            return yaml.CSafeLoader(data).get_single_data()
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
            raise Refused(
                f"{name} is not YAML: {error}",
                remedy="Compare it with the committed version.",
            ) from error


def _check_scalars(name: str, data: bytes) -> None:
    """Raises ``Refused`` for the first plain scalar that YAML 1.1 and 1.2 read differently."""
    old = yaml.resolver.Resolver()
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        if not isinstance(event, yaml.ScalarEvent) or event.tag is not None or not event.implicit[0]:
            continue
        kind = old.resolve(yaml.ScalarNode, event.value, (True, False)).removeprefix(_TAG)  # type: ignore[no-untyped-call]
        if kind not in ("merge", "value", _kind(event.value)):
            line = event.start_mark.line + 1 if event.start_mark else 0
            raise Refused(
                f"{name}, line {line}: {event.value!r} is read differently by YAML 1.1 and 1.2.",
                remedy="Quote it if it is a word; write numbers like 10 and 0.001.",
            )


def _kind(value: str) -> str:
    """What a plain scalar is by the core schema of YAML 1.2."""
    kinds = {"null": _NULL, "bool": _BOOL, "int": _INT, "float": _FLOAT}
    return next((kind for kind, pattern in kinds.items() if pattern.fullmatch(value)), "str")


def _outputs(body: object) -> dict[str, str]:
    outs = body.get("outs", []) if isinstance(body, dict) else []
    return {
        str(out["path"]): str(out["md5"]) for out in outs if isinstance(out, dict) and {"path", "md5"} <= out.keys()
    }
