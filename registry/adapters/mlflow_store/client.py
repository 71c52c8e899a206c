"""Talking to MLflow: one ``MlflowClient`` object, bounded waiting, one publisher at a time, errors without secrets.

MLflow's global state is never touched and its telemetry is off. A busy store is asked again after a pause; a server
that does not take connections is known in seconds. Refuses to wait past a deadline.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from registry.core.pointers import public_uri, scrubbed
from registry.errors import OutsideFailed, ReckonError, UnknownName, Unreachable

FOLDER: Final = "artifacts/mlflow"
EXISTS: Final = "RESOURCE_ALREADY_EXISTS"
ABSENT: Final = "RESOURCE_DOES_NOT_EXIST"
_BUSY = frozenset({"TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED", "RESOURCE_EXHAUSTED"})
_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
_LOCK_SECONDS, _WORK_SECONDS, _CONNECT_SECONDS, _POLL_SECONDS = 120.0, 300.0, 5.0, 0.1
_RESULTS_A_PAGE = 1000
_SECRETS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_SETTINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "GIT_PYTHON_REFRESH": "quiet",
}


def default_uri(root: Path) -> str:
    """The store of the repository: a sqlite file under ``artifacts/``."""
    return f"sqlite:///{root.resolve() / FOLDER / 'mlflow.db'}"


def connect(uri: str) -> Any:
    """A client of the server or store at ``uri``. May create the schema of a new store."""
    from mlflow.tracking import MlflowClient

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


class Connection:
    """A client that is made when it is first needed. ``make`` makes it, once."""

    def __init__(self, root: Path, uri: str | None, make: Callable[[str], Any] = connect) -> None:
        self.root = root.resolve()
        self.uri = uri or default_uri(root)
        self._make = make
        self._client: Any = None
        self._deadline = 0.0

    @property
    def own(self) -> bool:
        """Whether this is the repository's own store."""
        return self.uri == default_uri(self.root)

    @property
    def untouched(self) -> bool:
        """Whether it is the repository's own store and nobody has written to it yet."""
        return self.own and not (self.root / FOLDER / "mlflow.db").exists()

    @property
    def address(self) -> str:
        """The address without secrets and machine paths."""
        return public_uri(self.uri, str(self.root))

    def call(self, method: str, *arguments: Any, **named: Any) -> Any:
        """Call a method of the client, again after a pause while the store is busy.

        Raises ``UnknownName`` for what MLflow does not know, ``Unreachable`` when it does not answer and
        ``OutsideFailed`` when it refuses.
        """
        return self._patiently(method, None, arguments, named)

    def make(self, method: str, *arguments: Any, **named: Any) -> Any:
        """As ``call``, for something that may be there already: then the answer is None."""
        return self._patiently(method, EXISTS, arguments, named)

    def pages(self, method: str, *arguments: Any) -> list[Any]:
        """All results of a search."""
        found: list[Any] = []
        token = None
        while True:
            page = self.call(method, *arguments, max_results=_RESULTS_A_PAGE, page_token=token)
            found.extend(page)
            token = page.token
            if not token:
                return found

    @contextmanager
    def reading(self) -> Iterator[None]:
        """A stretch of calls with one deadline."""
        self._deadline = time.monotonic() + _WORK_SECONDS
        yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A stretch of calls with one deadline that no other process of this repository shares.

        The kernel drops the lock of a killed process. Raises ``OutsideFailed`` after two minutes of waiting.
        """
        file = self._lock_file()
        try:
            _take(file)
            with self.reading():
                yield
        finally:
            file.close()

    def _lock_file(self) -> TextIO:
        folder = self.root / FOLDER
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return (folder / "publish.lock").open("a", encoding="utf-8")
        except OSError as error:
            raise self._failure(error) from error

    def _patiently(self, method: str, accepted: str | None, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        _settle_environment()
        self._probe()
        errors = _errors()
        pauses = iter(_PAUSES)
        while True:
            try:
                return getattr(self._connected(), method)(*arguments, **named)
            except errors as error:
                if accepted is not None and _code(error) == accepted:
                    return None
                pause = next(pauses, None)
                if pause is None or not _busy(error) or time.monotonic() + pause > self._deadline:
                    raise self._failure(error) from error
                time.sleep(pause)

    def _connected(self) -> Any:
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"{_WORK_SECONDS:.0f} seconds have passed")
        if self._client is None:
            self._client = self._make(self.uri)
        return self._client

    def _probe(self) -> None:
        """Before anything else, connect to a server's port: one that is down is known in seconds."""
        if self._client is not None or not self.uri.lower().startswith(("http:", "https:")):
            return
        try:
            parts = urlsplit(self.uri)
            host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
            if parts.scheme not in getproxies() or proxy_bypass(host):
                socket.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
        except (OSError, ValueError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> ReckonError:
        said = scrubbed(str(error), self._secrets())
        if _code(error) == ABSENT:
            return UnknownName(
                f"MLflow at {self.address} does not know it: {said}", remedy="See 'reckon sync --recheck'."
            )
        if _silent(error):
            remedy = "Nothing is lost: run 'reckon sync' when it answers again."
            return Unreachable(f"MLflow at {self.address} does not answer: {said}", remedy=remedy)
        remedy = "Nothing is lost: mend that, then run 'reckon sync'."
        return OutsideFailed(f"MLflow at {self.address} refused: {said}", remedy=remedy)

    def _secrets(self) -> list[str]:
        """What a message must not hold, the longest first. Users of addresses are removed by their place."""
        password = self.uri.partition("//")[2].partition("/")[0].rpartition("@")[0].partition(":")[2]
        words = {password, unquote(password), *(os.environ.get(name, "") for name in _SECRETS)}
        return sorted(words, key=len, reverse=True)


def _settle_environment() -> None:
    """Telemetry off; short patience over HTTP unless the user has set another. Read by MLflow when it is imported."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)


def _errors() -> tuple[type[Exception], ...]:
    """What the client raises when the outside fails. Raises ``OutsideFailed`` when MLflow is not installed.

    Over a server that answers with something else, MLflow's client stumbles with plain errors of Python.
    """
    try:
        from google.protobuf.json_format import Error  # type: ignore[import-untyped]
        from mlflow.exceptions import MlflowException
        from sqlalchemy.exc import SQLAlchemyError
    except ModuleNotFoundError as error:
        remedy = "Install deadreckon with its extra 'lab', then run 'reckon sync'."
        raise OutsideFailed(f"{error.name} is not installed.", remedy=remedy) from error
    return (MlflowException, SQLAlchemyError, Error, OSError, ValueError, TypeError, LookupError, AttributeError)


def _take(file: TextIO) -> None:
    until = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > until:
                raise OutsideFailed(
                    f"Another process has been publishing to MLflow for {_LOCK_SECONDS:.0f} seconds.",
                    remedy="Wait for it to end, then run 'reckon sync'.",
                ) from error
            time.sleep(_POLL_SECONDS)


def _code(error: Exception) -> str:
    return str(getattr(error, "error_code", ""))


def _busy(error: Exception) -> bool:
    return _code(error) in _BUSY or "database is locked" in str(error)


def _silent(error: Exception) -> bool:
    """Whether there was no answer at all. MLflow wraps the errors of ``requests`` in its own."""
    import requests

    causes = (error, error.__cause__, error.__context__)
    return any(
        isinstance(one, ConnectionError | TimeoutError | socket.gaierror | requests.RequestException) for one in causes
    )
