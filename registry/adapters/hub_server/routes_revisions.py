"""Answers about a repository at a revision: information, files, log; and its branches and tags."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any
from urllib.parse import urlencode

import pygit2
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registry.adapters.hub_server import bodies, history, information, trees
from registry.adapters.hub_server.context import Hub, address, flag, part
from registry.adapters.hub_server.naming import text
from registry.adapters.hub_server.problems import EntryMissing, Problem
from registry.adapters.hub_server.repositories import MAIN, Repository
from registry.adapters.hub_server.settings import EXPANDED_ENTRIES_A_PAGE, MOST_A_PAGE
from registry.adapters.hub_server.tokens import Right

_CURSOR = re.compile(r"([0-9a-f]{40})\.([0-9]{1,9})")
_ALWAYS = ("_id", "id")


class RevisionRoutes:
    """Handlers for revisions and refs."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[Route]:
        """What is answered here."""
        base = "/api/{kind:kind}/{owner}/{name}"
        return [
            Route(base, self.information),
            Route(f"{base}/revision/{{revision}}", self.information),
            Route(f"{base}/refs", self.refs),
            Route(f"{base}/commits/{{revision}}", self.commits),
            Route(f"{base}/tree/{{revision}}", self.tree),
            Route(f"{base}/tree/{{revision}}/{{path:path}}", self.tree),
            Route(f"{base}/paths-info/{{revision}}", self.paths, methods=["POST"]),
            Route(f"{base}/branch/{{ref}}", self.create_branch, methods=["POST"]),
            Route(f"{base}/branch/{{ref}}", self.delete_branch, methods=["DELETE"]),
            Route(f"{base}/tag/{{ref}}", self.create_tag, methods=["POST"]),
            Route(f"{base}/tag/{{ref}}", self.delete_tag, methods=["DELETE"]),
        ]

    def information(self, request: Request) -> Response:
        """Commit, files, card and dates of a revision; ``expand`` asks for some of it only."""
        opened = self._hub.repository(request)
        commit = history.resolve(opened.git, part(request, "revision") or MAIN)
        facts = information.information(opened, commit, with_blobs=flag(request.query_params.get("blobs")))
        wanted = request.query_params.getlist("expand") + request.query_params.getlist("expand[]")
        if wanted:
            facts = {key: value for key, value in facts.items() if key in wanted or key in _ALWAYS}
        return JSONResponse(facts)

    def refs(self, request: Request) -> Response:
        """Branches and tags."""
        return JSONResponse(history.refs(self._hub.repository(request).git))

    def commits(self, request: Request) -> Response:
        """The log of a revision, a page at a time."""
        opened = self._hub.repository(request)
        commit, skip = self._position(opened, request)
        count = _limit(request, self._hub.settings.commits_a_page, MOST_A_PAGE)
        page = history.page_of_log(opened.git, commit, skip, count + 1)
        formatted = "formatted" in request.query_params.getlist("expand[]")
        rows = [information.logged(past, formatted=formatted) for past in page[:count]]
        return JSONResponse(rows, headers=_next(request, commit, skip + count if len(page) > count else None))

    def tree(self, request: Request) -> Response:
        """Files and folders below a path, a page at a time."""
        opened = self._hub.repository(request)
        commit, skip = self._position(opened, request)
        path, expand = part(request, "path"), flag(request.query_params.get("expand"))
        top = trees.find(commit, path)
        if not isinstance(top, pygit2.Tree):
            raise EntryMissing(f"{path} is not a folder", commit=str(commit.id))
        usual = EXPANDED_ENTRIES_A_PAGE if expand else self._hub.settings.entries_a_page
        count = _limit(request, usual, usual)
        every = trees.walk(
            opened.git, top, prefix=f"{path}/" if path else "", recursive=flag(request.query_params.get("recursive"))
        )
        page = list(islice(every, skip, skip + count + 1))
        rows = _rows(opened, commit, [trees.entry(opened.git, *one) for one in page[:count]], expand=expand)
        return JSONResponse(rows, headers=_next(request, commit, skip + count if len(page) > count else None))

    async def paths(self, request: Request) -> Response:
        """What lies at each of some paths; those with nothing are left out."""
        opened = self._hub.repository(request)
        fields = bodies.form(await bodies.small(request))
        paths = fields.get("paths", [])
        if len(paths) > MOST_A_PAGE:
            raise Problem(f"At most {MOST_A_PAGE} paths.")
        expand = flag(fields.get("expand", [""])[-1])
        return JSONResponse(await run_in_threadpool(_found, opened, part(request, "revision"), paths, expand=expand))

    async def create_branch(self, request: Request) -> Response:
        """Make a branch."""
        opened = self._hub.repository(request, Right.WRITE)
        start = (await bodies.mapping(request)).get("startingPoint")
        start = None if start is None else text(start, "starting point", 1024)
        return await self._changed(history.create_branch, opened, part(request, "ref"), start)

    async def delete_branch(self, request: Request) -> Response:
        """Remove a branch."""
        opened = self._hub.repository(request, Right.WRITE)
        return await self._changed(history.delete_ref, opened, "heads", part(request, "ref"))

    async def create_tag(self, request: Request) -> Response:
        """Tag the revision of the address; the body names the tag."""
        opened = self._hub.repository(request, Right.WRITE)
        body = await bodies.mapping(request)
        tag = text(body.get("tag"), "tag", 255)
        message = text(body.get("message") or "", "message", 65536)
        return await self._changed(history.create_tag, opened, tag, part(request, "ref"), message)

    async def delete_tag(self, request: Request) -> Response:
        """Remove a tag."""
        opened = self._hub.repository(request, Right.WRITE)
        return await self._changed(history.delete_ref, opened, "tags", part(request, "ref"))

    async def _changed(self, change: Callable[..., None], *arguments: object) -> Response:
        await run_in_threadpool(change, *arguments)
        return Response("OK", media_type="text/plain")

    def _position(self, opened: Repository, request: Request) -> tuple[pygit2.Commit, int]:
        """Where a page begins. A cursor names its commit, so that the pages of a list never mix two revisions."""
        cursor = request.query_params.get("cursor")
        if cursor is None:
            return history.resolve(opened.git, part(request, "revision")), 0
        match = _CURSOR.fullmatch(cursor)
        if match is None:
            raise Problem("This cursor was not made by the hub.")
        return history.resolve(opened.git, match[1]), int(match[2])


def _limit(request: Request, usual: int, most: int) -> int:
    asked = request.query_params.get("limit", "")
    return min(int(asked), most) if re.fullmatch(r"[1-9][0-9]{0,5}", asked) else usual


def _next(request: Request, commit: pygit2.Commit, position: int | None) -> dict[str, str]:
    if position is None:
        return {}
    kept = [(key, value) for key, value in request.query_params.multi_items() if key != "cursor"]
    query = urlencode([*kept, ("cursor", f"{commit.id}.{position}")])
    return {"Link": f'<{address(request, request.url.path.lstrip("/"))}?{query}>; rel="next"'}


def _rows(
    opened: Repository, commit: pygit2.Commit, entries: Sequence[trees.Entry], *, expand: bool
) -> list[dict[str, Any]]:
    rows = [information.listed(entry) for entry in entries]
    if expand:
        last = trees.last_commits(opened.git, commit, [entry.path for entry in entries])
        for row in rows:
            row["lastCommit"] = last[row["path"]]
    return rows


def _found(opened: Repository, revision: str, paths: Sequence[str], *, expand: bool) -> list[dict[str, Any]]:
    commit = history.resolve(opened.git, revision)
    entries = []
    for path in dict.fromkeys(path.strip("/") for path in paths if path.strip("/")):
        try:
            entries.append(trees.entry(opened.git, path, trees.find(commit, path)))
        except EntryMissing:
            continue
    return _rows(opened, commit, entries, expand=expand)
