"""Answers to uploads of regular files: what goes where, and the commit itself."""

from __future__ import annotations

import tempfile
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registry.adapters.hub_server import bodies, history, preupload
from registry.adapters.hub_server.commits import Committer
from registry.adapters.hub_server.context import Hub, flag, part
from registry.adapters.hub_server.problems import Full, Problem, TooLarge, is_full
from registry.adapters.hub_server.settings import COMMIT_BYTES
from registry.adapters.hub_server.tokens import Right


class CommitRoutes:
    """Handlers for pre-uploads and commits."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[Route]:
        """What is answered here."""
        base = "/api/{kind:kind}/{owner}/{name}"
        return [
            Route(f"{base}/preupload/{{revision}}", self.preupload, methods=["POST"]),
            Route(f"{base}/commit/{{revision}}", self.commit, methods=["POST"]),
        ]

    async def preupload(self, request: Request) -> Response:
        """The mode of each file, and what is there now."""
        opened = self._hub.repository(request, Right.WRITE)
        _no_pull_request(request)
        payload = await bodies.mapping(request)
        commit = history.resolve(opened.git, part(request, "revision"))
        files = await run_in_threadpool(preupload.plan, opened.git, commit, payload)
        return JSONResponse({"files": files, "commitOid": str(commit.id)})

    async def commit(self, request: Request) -> Response:
        """Move a branch to a new commit; 412 when it is not where the sender saw it."""
        opened = self._hub.repository(request, Right.WRITE)
        _no_pull_request(request)
        committer = Committer(opened, self._hub.store)
        with tempfile.TemporaryFile(dir=self._hub.store.arrivals) as body:
            await _spool(request, body)
            oid = await run_in_threadpool(committer.commit, part(request, "revision"), body)
        # The client takes the repository's name from this address, and understands no host here but its own default.
        page = f"hf://{opened.name.page}/commit/{oid}"
        return JSONResponse({"success": True, "commitOid": oid, "commitUrl": page, "hookOutput": ""})


async def _spool(request: Request, body: BinaryIO) -> None:
    """Put the body on disk, so that however many files a commit brings, one is in memory at a time."""
    received_bytes = 0
    try:
        async for block in bodies.blocks(request):
            received_bytes += len(block)
            if received_bytes > COMMIT_BYTES:
                raise TooLarge(f"A commit has at most {COMMIT_BYTES} bytes; upload large files as LFS objects.")
            await run_in_threadpool(body.write, block)
        await run_in_threadpool(body.seek, 0)
    except OSError as error:
        if is_full(error):
            raise Full from error
        raise


def _no_pull_request(request: Request) -> None:
    if flag(request.query_params.get("create_pr")):
        raise Problem("This hub has no pull requests.")
