"""A real hub for tests: the embedded server in a process of its own, and the unmodified client pointed at it.

``hub`` is shared by all tests of a session and handed out clean: no faults, no log, an own client cache::

    def test_push(hub):
        repo = hub.new_repo()
        hub.faults.set(act="status", status=503, pattern="/commit/", method="POST")
        hub.api().upload_file(...)
        assert [one["status"] for one in hub.faults.seen()] == [...]

``hub_process`` makes further ones that a test may kill, restart or starve of disk.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

PROCESS = Path(__file__).with_name("hub_process.py")
ROOT = Path(__file__).resolve().parents[2]
PART_BYTES = 128 * 1024
PAGE = 8

_numbers = itertools.count(1)


class Faults:
    """Faults of a running hub; see ``registry.adapters.hub_server.faults.Fault`` for the fields."""

    def __init__(self, hub: HubProcess) -> None:
        self._hub = hub

    def set(self, *faults: dict[str, Any], **fault: Any) -> None:
        """Replace all faults, and forget the requests seen so far. Give one by keywords, or several as mappings."""
        self._hub.control("faults", [*faults, *([fault] if fault else [])])

    def clear(self) -> None:
        """No faults, nothing seen."""
        self.set()

    def seen(self, pattern: str = "") -> list[dict[str, Any]]:
        """Requests since the faults were set: method, address, span, status, received_bytes, sent_bytes."""
        return [one for one in self._hub.control("seen") if pattern in one["address"]]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A bare HTTP answer."""

    status: int
    headers: Message
    body: bytes


class HubProcess:
    """A hub that serves ``root``. ``endpoint`` stays the same over restarts."""

    def __init__(self, root: Path, *, part_bytes: int = PART_BYTES, page: int = PAGE) -> None:
        self.root = root
        self.endpoint = ""
        self.faults = Faults(self)
        self._sizes = [str(part_bytes), str(page)]
        self._process: subprocess.Popen[str] | None = None

    def start(self, *, file_limit: int | None = None, free_bytes: int | None = None) -> HubProcess:
        """Start the server, on the same port as before if it ran before, and wait until it takes connections.

        ``file_limit`` is the most bytes that it can write into one file; ``free_bytes`` what it believes the disk has.
        """
        port = self.endpoint.rpartition(":")[2] or "0"
        bounds = ["" if bound is None else str(bound) for bound in (file_limit, free_bytes)]
        self._process = subprocess.Popen(
            [sys.executable, str(PROCESS), str(self.root), port, *self._sizes, *bounds],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.endpoint = self._process.stdout.readline().strip()
        assert self.endpoint, "the hub did not start"
        return self

    def object_path(self, oid: str) -> Path:
        """Where the hub keeps a large file."""
        return self.root / "objects" / oid[:2] / oid

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None
        return self._process.pid

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the server and return how it ended."""
        assert self._process is not None
        if self.alive:
            self._process.send_signal(how)
        status = self._process.wait(timeout=20)
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status

    def kill(self) -> None:
        """End the server as a loss of power would."""
        self.end(signal.SIGKILL)

    @property
    def token(self) -> str:
        """The token that may write."""
        return (self.root / "tokens/write").read_text().strip()

    @property
    def read_token(self) -> str:
        """The token that only reads."""
        return (self.root / "tokens/read").read_text().strip()

    def api(self, token: str | None = None) -> Any:
        """The unmodified client; by default it may write. ``token=""`` is nobody."""
        from huggingface_hub import HfApi

        return HfApi(endpoint=self.endpoint, token=self.token if token is None else token or False)

    def new_repo(self, *, private: bool = False, kind: str = "model") -> str:
        """A new repository with a name of its own."""
        name = f"lab/test-{next(_numbers)}"
        self.api().create_repo(name, private=private, repo_type=kind)
        return name

    def environment(self, home: Path, token: str | None = None) -> dict[str, str]:
        """What a process of the client's command line needs to speak with this hub and with nothing else."""
        ours = {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(home),
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": self.token if token is None else token,
            "TRANSFORMERS_OFFLINE": "0",
        }
        return {key: value for key, value in (os.environ | ours).items() if value}

    def request(self, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
        """One request with exactly this target, which no client library puts right. ``x_y`` is the header ``x-y``."""
        host, _, port = self.endpoint.removeprefix("http://").partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=20)
        try:
            connection.request(method, target, body, {key.replace("_", "-"): value for key, value in headers.items()})
            answer = connection.getresponse()
            return Answer(status=answer.status, headers=answer.headers, body=answer.read())
        finally:
            connection.close()

    def control(self, what: str, value: object = None) -> Any:
        """Speak with the process behind the hub's back."""
        data = None if value is None else json.dumps(value).encode()
        return json.loads(self.request("POST", f"/_test/{what}", data).body)


@pytest.fixture
def client_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Let the client in this process reach the network, with an empty cache and no token of its own."""

    def point(endpoint: str) -> None:
        from huggingface_hub import constants, file_download
        from huggingface_hub.utils import disable_progress_bars, reset_sessions

        # As HF_ENDPOINT does before the first import: with `HfApi(endpoint=…)` alone this client fails on some answers.
        template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(file_download, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "client-cache"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        disable_progress_bars()
        reset_sessions()

    yield point
    if "huggingface_hub" in sys.modules:
        from huggingface_hub.utils import reset_sessions

        reset_sessions()  # the next session is offline again


@pytest.fixture(scope="session")
def hub_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """One hub for the session."""
    server = HubProcess(tmp_path_factory.mktemp("hub")).start()
    yield server
    server.end()


@pytest.fixture
def hub(hub_server: HubProcess, client_at: Callable[[str], None]) -> HubProcess:
    """The session's hub, running and without faults."""
    if not hub_server.alive:
        hub_server.start()
    hub_server.faults.clear()
    client_at(hub_server.endpoint)
    return hub_server


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's seconds of waiting between two tries are hundredths."""
    monkeypatch.setattr("time.sleep", lambda seconds, sleep=time.sleep: sleep(seconds / 100))


@pytest.fixture
def hub_process(tmp_path: Path, client_at: Callable[[str], None]) -> Iterator[Callable[..., HubProcess]]:
    """Make further hubs: ``hub_process()`` starts one; the arguments are those of :class:`HubProcess`."""
    made: list[HubProcess] = []

    def make(**sizes: int) -> HubProcess:
        server = HubProcess(tmp_path / f"hub-{len(made)}", **sizes).start()
        made.append(server)
        client_at(server.endpoint)
        return server

    yield make
    for server in made:
        server.end()
