"""Real MLflow stores for tests: a copy of an empty one, and a client that dies before a chosen call."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from registry.adapters.mlflow_store.client import Connection

STORE = "artifacts/mlflow/mlflow.db"


class Killed(BaseException):
    """Stands for ``kill -9``: nothing in the code may catch it."""


class DyingClient:
    """Passes calls on to a client, and dies before call number ``last`` + 1."""

    def __init__(self, client: object, last: int) -> None:
        self._client = client
        self.left = last

    def __getattr__(self, method: str):
        def call(*arguments, **named):
            if self.left == 0:
                raise Killed(method)
            self.left -= 1
            return getattr(self._client, method)(*arguments, **named)

        return call


def place(root: Path) -> Path:
    """Put an empty store where the repository ``root`` has its own, and return ``root``."""
    (root / STORE).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(Path(_empty().name) / STORE, root / STORE)
    return root


@cache
def _empty() -> tempfile.TemporaryDirectory[str]:
    """A folder with an empty store, made once: the schema takes seconds."""
    folder = tempfile.TemporaryDirectory()
    connection = Connection(Path(folder.name), None)
    with connection.writing():
        connection.call("search_experiments")
    return folder
