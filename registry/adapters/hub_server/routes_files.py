"""Answers that carry files: by repository, revision and path, or large ones by their digest under a signed address."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from registry.adapters.hub_server import history, trees
from registry.adapters.hub_server.bodies import bytes_answer
from registry.adapters.hub_server.context import Hub, other_host, part
from registry.adapters.hub_server.problems import EntryMissing
from registry.adapters.hub_server.store import checked_oid


class FileRoutes:
    """Handlers for downloads."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route("/{kind:kind}/{owner}/{name}/resolve/{revision}/{path:path}", self.resolve),
            Route("/{owner}/{name}/resolve/{revision}/{path:path}", self.resolve),
            Route("/lfs/content/{oid}", self.content),
        ]

    def resolve(self, request: Request) -> Response:
        """A file at a revision. A large one is sent from under another name of this host, if it has one."""
        opened = self._hub.repository(request)
        commit = history.resolve(opened.git, part(request, "revision"))
        entry = trees.find_file(opened.git, commit, part(request, "path"))
        headers = _headers(entry, str(commit.id))
        if entry.pointer is None:
            data = trees.content(opened.git, entry)
            return bytes_answer(request, data, len(data), headers)
        if other_host(request) is None:
            return self._object(request, entry.pointer.oid, headers)
        link = self._hub.link(request, f"/lfs/content/{entry.pointer.oid}", elsewhere=True)
        return RedirectResponse(link, status_code=302, headers=headers)

    def content(self, request: Request) -> Response:
        """A large file by its digest."""
        self._hub.require_link(request)
        oid = checked_oid(part(request, "oid"))
        return self._object(request, oid, {"ETag": f'"{oid}"'})

    def _object(self, request: Request, oid: str, headers: dict[str, str]) -> Response:
        size_bytes = self._hub.store.size(oid)
        if size_bytes is None:
            raise EntryMissing("The hub no longer holds this large file.")
        return bytes_answer(request, self._hub.store.path(oid), size_bytes, headers)


def _headers(entry: trees.Entry, commit: str) -> dict[str, str]:
    name = quote(entry.path.rpartition("/")[2], safe="")
    headers = {
        "X-Repo-Commit": commit,
        "ETag": f'"{entry.tag}"',
        "Content-Disposition": f"inline; filename*=UTF-8''{name}",
    }
    if entry.pointer:
        headers |= {"X-Linked-Etag": f'"{entry.tag}"', "X-Linked-Size": str(entry.size_bytes)}
    return headers
