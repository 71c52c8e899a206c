"""The hub as a process for tests: ``hub_process.py DIR PORT PART_BYTES PAGE FILE_LIMIT FREE_BYTES``.

It is the server of ``reckon hub serve`` with faults around it, which a test sets through ``/_test``. ``FILE_LIMIT`` is
the most bytes that the process may write into one file, a disk that fills up without a disk; ``FREE_BYTES`` is what it
is told of the disk's room. Both may be empty.
"""

from __future__ import annotations

import dataclasses
import json
import resource
import shutil
import sys
from pathlib import Path

import pygit2

from registry.adapters.hub_server.context import Hub
from registry.adapters.hub_server.faults import Fault, Faulty
from registry.adapters.hub_server.naming import Kind, RepositoryName
from registry.adapters.hub_server.serve import Ready, serve
from registry.adapters.hub_server.settings import Settings


class Controlled:
    """``/_test/faults`` replaces the faults, ``/_test/seen`` tells the requests; all else goes to the hub."""

    def __init__(self, app, hub: Hub) -> None:
        self._faulty = Faulty(app, lambda page, ref, commit: move(hub, page, ref, commit))

    async def __call__(self, scope, receive, send) -> None:
        path = scope["raw_path"].decode()
        if not path.startswith("/_test/"):
            await self._faulty(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if path == "/_test/faults":
            self._faulty.faults = [Fault(**one) for one in json.loads(body)]
            self._faulty.seen = []
        answer = json.dumps([dataclasses.asdict(one) for one in self._faulty.seen]).encode()
        headers = [(b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


def move(hub: Hub, page: str, ref: str, commit: str) -> None:
    """Move a ref as the owner of a repository can, and as a reader must notice."""
    kind, owner, name = (["models"] * (page.count("/") == 1)) + page.split("/")
    git = hub.repositories.open(RepositoryName(kind=Kind(kind), owner=owner, name=name)).git
    git.references.create(ref, pygit2.Oid(hex=commit), force=True)


def main(root: str, port: str, part_bytes: str, page: str, file_limit: str, free_bytes: str) -> None:
    """Serve until a signal comes; the address is the one line on stdout."""
    if file_limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_limit), resource.RLIM_INFINITY))
    if free_bytes:
        usage = shutil.disk_usage(".")._replace(free=int(free_bytes))
        shutil.disk_usage = lambda _path: usage
    settings = Settings(
        part_bytes=int(part_bytes),
        multipart_from_bytes=2 * int(part_bytes),
        entries_a_page=int(page),
        commits_a_page=int(page),
    )

    def ready(here: Ready) -> None:
        print(here.endpoint, flush=True)

    serve(Path(root), at=("127.0.0.1", int(port)), ready=ready, settings=settings, around=Controlled)


if __name__ == "__main__":
    main(*sys.argv[1:])
