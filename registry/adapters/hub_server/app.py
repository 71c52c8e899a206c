"""The hub as an ASGI application.

Addresses are matched before their escapes are undone: a revision such as ``refs%2Fpr%2F1`` is one part of an address,
and a ``%2F`` can never pretend to be a boundary. What is not spoken here is answered 404, as a missing repository
where the client asks for one.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Final

import pygit2
from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registry.adapters.hub_server.bodies import Cut
from registry.adapters.hub_server.context import Hub
from registry.adapters.hub_server.lfs import LfsRoutes
from registry.adapters.hub_server.problems import Full, Problem, RepositoryMissing, is_full
from registry.adapters.hub_server.routes_commits import CommitRoutes
from registry.adapters.hub_server.routes_files import FileRoutes
from registry.adapters.hub_server.routes_repositories import RepositoryRoutes
from registry.adapters.hub_server.routes_revisions import RevisionRoutes
from registry.adapters.hub_server.settings import DRAIN_BYTES, STALL_SECONDS

_GROUPS: Final = (RepositoryRoutes, RevisionRoutes, CommitRoutes, LfsRoutes, FileRoutes)


class _KindConvertor(Convertor[str]):
    """The part of an address that says what a repository holds."""

    regex = "models|datasets"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


def application(hub: Hub) -> ASGIApp:
    """The application that serves ``hub``."""
    register_url_convertor("kind", _KindConvertor())
    handlers = {
        Problem: _problem,
        Cut: _cut,
        OSError: _disk,
        pygit2.GitError: _disk,
        404: _unknown,
        405: _unknown,
    }
    routes = [route for group in _GROUPS for route in group(hub).routes()]
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]  # handlers of narrower errors
    app.router.redirect_slashes = False
    return _Frame(app)


class _Frame:
    """Hands on the address as it came, escapes and all, and reads on after a refusal so that the sender can hear it.

    A sender that is still writing when the connection closes sees a reset instead of the reason.
    """

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = _Body(receive)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
                await body.drain()
            await send(message)

        raw = {**scope, "path": scope["raw_path"].decode("latin-1"), "root_path": ""}
        await self._inner(raw, body.receive, answer)


class _Body:
    """The body of a request, and whether it came to its end."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ended = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._ended = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def drain(self) -> None:
        """Read and drop what is left, within bounds."""
        left = DRAIN_BYTES
        while not self._ended and left > 0:
            try:
                message = await asyncio.wait_for(self.receive(), STALL_SECONDS)
            except TimeoutError:
                return
            left -= len(message.get("body", b""))


def _problem(_request: Request, error: Problem) -> Response:
    told = "".join(char if 32 <= ord(char) < 127 else "?" for char in error.message)
    coded = {"X-Error-Code": error.code} if error.code else {}
    headers = {"X-Error-Message": told, **coded, **error.headers}
    return JSONResponse(
        {"error": error.message.encode(errors="replace").decode()}, status_code=error.status, headers=headers
    )


def _cut(_request: Request, _error: Cut) -> Response:
    return JSONResponse({"error": "The body broke off."}, status_code=408, headers={"Connection": "close"})


def _disk(request: Request, error: OSError | pygit2.GitError) -> Response:
    if is_full(error):
        return _problem(request, Full())
    raise error


def _unknown(request: Request, _error: Exception) -> Response:
    if request.url.path.startswith(("/api/models/", "/api/datasets/", "/api/spaces/")):
        return _problem(request, RepositoryMissing())
    return JSONResponse({"error": "Sorry, we can't find the page you are looking for."}, status_code=404)
