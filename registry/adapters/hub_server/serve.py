"""Runs the hub: one process for one folder, on an address that is known before the first request.

Refuses a folder that another server holds and a port that is taken. It ends on SIGINT or SIGTERM, after the requests
that are under way; killed at any moment, it leaves every branch at a commit that is whole.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from registry.adapters.hub_server.app import application
from registry.adapters.hub_server.context import Hub
from registry.adapters.hub_server.settings import Settings
from registry.errors import OutsideFailed, Refused

GRACE_SECONDS: Final = 5
IDLE_SECONDS: Final = 75
MOST_CONNECTIONS: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Where a hub listens, and where the token that may write lies."""

    endpoint: str
    token: Path


class _Server(uvicorn.Server):
    """Ends quietly: a signal is how one ends a server, not a failure."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit
        self.should_exit = True


def serve(
    root: Path,
    *,
    at: tuple[str, int],
    ready: Callable[[Ready], None],
    settings: Settings | None = None,
    around: Callable[[ASGIApp, Hub], ASGIApp] | None = None,
) -> None:
    """Serve the hub in ``root`` at host and port ``at`` (port 0: any free one) until a signal comes.

    ``ready`` is called once the address takes connections. ``around`` may wrap the application; tests put faults there.
    Raises ``Refused`` when the folder is held by another server, ``OutsideFailed`` when the address is not to be had.
    """
    with _held(root):
        hub = Hub.of(root, settings or Settings())
        app = application(hub)
        listener = _listen(*at)
        config = uvicorn.Config(
            around(app, hub) if around else app,
            http="h11",  # bounds what it keeps of a request's head
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            limit_concurrency=MOST_CONNECTIONS,
            timeout_keep_alive=IDLE_SECONDS,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        ready(Ready(endpoint=_address(listener), token=root / "tokens/write"))
        _Server(config).run(sockets=[listener])


@contextmanager
def _held(root: Path) -> Iterator[None]:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(root / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise Refused(f"Another hub serves {root}.", remedy="Stop it, or name another folder.") from error
    try:
        yield
    finally:
        os.close(handle)


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=512
        )
    except (OSError, OverflowError) as error:
        raise OutsideFailed(
            f"The address {host} port {port} is not to be had: {error}.",
            remedy="Choose another port; 0 takes a free one.",
        ) from error


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
