"""Answers about the hub and its repositories as wholes: who am I, create, delete, list, settings, cards."""

from __future__ import annotations

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registry.adapters.hub_server import bodies, cards
from registry.adapters.hub_server.context import Hub, address
from registry.adapters.hub_server.history import resolve
from registry.adapters.hub_server.information import information
from registry.adapters.hub_server.naming import Kind, RepositoryName, text
from registry.adapters.hub_server.problems import Conflict, Problem, RepositoryMissing
from registry.adapters.hub_server.repositories import MAIN
from registry.adapters.hub_server.settings import MOST_A_PAGE
from registry.adapters.hub_server.tokens import USER, Right


class RepositoryRoutes:
    """Handlers for whole repositories."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[Route]:
        """What is answered here."""
        return [
            Route("/api/whoami-v2", self.whoami),
            Route("/api/validate-yaml", self.validate, methods=["POST"]),
            Route("/api/repos/create", self.create, methods=["POST"]),
            Route("/api/repos/delete", self.delete, methods=["DELETE"]),
            Route("/api/{kind:kind}", self.every),
            Route("/api/{kind:kind}/{owner}/{name}/settings", self.settings, methods=["PUT"]),
            Route("/api/{kind:kind}/{owner}/{name}/auth-check", self.check),
        ]

    def whoami(self, request: Request) -> Response:
        """The user behind the token, and what the token may do."""
        right = self._hub.right(request, Right.READ)
        role = "write" if right is Right.WRITE else "read"
        access = {"displayName": role, "role": role, "createdAt": "1970-01-01T00:00:00.000Z"}
        facts = {"type": "user", "id": USER, "name": USER, "fullname": USER, "isPro": False, "orgs": []}
        return JSONResponse(facts | {"auth": {"type": "access_token", "accessToken": access}})

    async def validate(self, request: Request) -> Response:
        """Check the metadata block of a card: 400 with the errors, or 200 with warnings."""
        content = (await bodies.mapping(request)).get("content")
        if not isinstance(content, str):
            raise Problem("'content' is the text of a card.")
        errors, warnings = await run_in_threadpool(_validated, content)
        answer = {
            name: [{"message": one} for one in many] for name, many in (("errors", errors), ("warnings", warnings))
        }
        return JSONResponse(answer, status_code=400 if errors else 200)

    async def create(self, request: Request) -> Response:
        """Make a repository; 409 with its address when it is there."""
        self._hub.right(request, Right.WRITE)
        body = await bodies.mapping(request)
        name = _stated(body)
        answer = {"url": address(request, name.page), "name": name.id}
        try:
            await run_in_threadpool(self._hub.repositories.create, name, private=bool(body.get("private")))
        except Conflict as error:
            headers = {"X-Error-Message": error.message}
            return JSONResponse(answer | {"error": error.message}, status_code=409, headers=headers)
        return JSONResponse(answer)

    async def delete(self, request: Request) -> Response:
        """Remove a repository."""
        self._hub.right(request, Right.WRITE)
        await run_in_threadpool(self._hub.repositories.delete, _stated(await bodies.mapping(request)))
        return Response("OK", media_type="text/plain")

    async def settings(self, request: Request) -> Response:
        """Show or hide a repository."""
        opened = self._hub.repository(request, Right.WRITE)
        body = await bodies.mapping(request)
        if not isinstance(body.get("private"), bool) or set(body) != {"private"}:
            raise Problem("The one setting of this hub's repositories is 'private'.")
        await run_in_threadpool(self._hub.repositories.set_private, opened.name, private=body["private"])
        return JSONResponse({"private": body["private"]})

    def check(self, request: Request) -> Response:
        """Whether the caller may read a repository."""
        self._hub.repository(request)
        return Response("OK", media_type="text/plain")

    def every(self, request: Request) -> Response:
        """The repositories of a kind that the caller may see, those of ``author`` when it is given."""
        right = self._hub.right(request)
        author = request.query_params.get("author")
        found: list[dict[str, Any]] = []
        for name in self._hub.repositories.names(Kind(request.path_params["kind"])):
            if author in (None, name.owner) and len(found) < MOST_A_PAGE:
                found += self._summary(name, right)
        return JSONResponse(found)

    def _summary(self, name: RepositoryName, right: Right) -> list[dict[str, Any]]:
        try:
            opened = self._hub.repositories.open(name)
        except RepositoryMissing:  # removed since it was listed
            return []
        if opened.facts.private and right is Right.NONE:
            return []
        facts = information(opened, resolve(opened.git, MAIN), with_blobs=False)
        return [{key: value for key, value in facts.items() if key not in ("siblings", "cardData")}]


def _validated(content: str) -> tuple[list[str], list[str]]:
    try:
        return cards.findings(cards.read_card(content))
    except Problem as error:
        return [error.message], []


def _stated(body: dict[str, Any]) -> RepositoryName:
    """The repository that a body names by ``organization`` (the user when left out), ``name`` and ``type``."""
    owner = text(body.get("organization") or USER, "organization", 96)
    name = text(body.get("name"), "name", 96)
    return RepositoryName(kind=Kind.of_type(body.get("type")), owner=owner, name=name)
