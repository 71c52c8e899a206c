"""``dvc.yaml``, ``params.yaml`` and ``dvc.lock`` of a working tree, read as plain YAML.

DVC itself is not imported: reading its files takes milliseconds, and its Python interface is not public.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from registry.core.names import stage_of_dvc
from registry.core.pipeline import StageSpec, resolve
from registry.errors import Refused

_MAXIMUM_BYTES = 32 * 2**20


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
        if not (self._root / "dvc.lock").is_file():
            return {}
        document = self._read("dvc.lock")
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
            return yaml.safe_load(path.read_bytes())
        except yaml.YAMLError as error:
            raise Refused(
                f"{name} is not YAML: {error}",
                remedy="Compare it with the committed version.",
            ) from error


def _outputs(body: object) -> dict[str, str]:
    outs = body.get("outs", []) if isinstance(body, dict) else []
    return {
        str(out["path"]): str(out["md5"]) for out in outs if isinstance(out, dict) and {"path", "md5"} <= out.keys()
    }
