"""Large files: what to upload and where, in one piece or in parts, each checked before it counts.

Addresses of uploads are signed, as the client sends no token with them. A cut upload goes on where it ended: of one
piece at the byte that ``Upload-Offset`` of a HEAD tells, of parts with those that are not here yet. Refuses objects
whose number of bytes or SHA-256 is not the announced one.
"""

from __future__ import annotations

import re
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from registry.adapters.hub_server import bodies
from registry.adapters.hub_server.context import Hub, address, number, part
from registry.adapters.hub_server.parts import Plan
from registry.adapters.hub_server.problems import Full, Problem
from registry.adapters.hub_server.settings import BATCH_OBJECTS
from registry.adapters.hub_server.store import checked_oid, checked_size
from registry.adapters.hub_server.tokens import Right

_MEDIA_TYPE = "application/vnd.git-lfs+json"
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")


class LfsRoutes:
    """Handlers for the LFS protocol."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def routes(self) -> list[Route]:
        """What is answered here."""
        bases = ("/{kind:kind}/{owner}/{name}.git/info/lfs/objects", "/{owner}/{name}.git/info/lfs/objects")
        found = [Route(f"{base}/batch", self.batch, methods=["POST"]) for base in bases]
        found += [Route(f"{base}/verify", self.verify, methods=["POST"]) for base in bases]
        return [
            *found,
            Route("/lfs/objects/{oid}/{size}", self.put, methods=["PUT"]),
            Route("/lfs/objects/{oid}/{size}", self.offset, methods=["HEAD"]),
            Route("/lfs/parts/{oid}/{size}/{cut}/{number}", self.put_part, methods=["PUT"]),
            Route("/lfs/parts/{oid}/{size}/{cut}/{number}", self.part_here, methods=["HEAD"]),
            Route("/lfs/complete/{oid}/{size}/{cut}", self.complete, methods=["POST"]),
        ]

    async def batch(self, request: Request) -> Response:
        """For each object: nothing to do, an upload in one piece or in parts, a download, or an error."""
        body = await bodies.mapping(request)
        upload = body.get("operation") == "upload"
        self._hub.repository(request, Right.WRITE if upload else Right.NONE)
        objects = _mappings(body.get("objects"), "objects")
        if len(objects) > BATCH_OBJECTS:
            raise Problem(f"At most {BATCH_OBJECTS} objects.")
        if body.get("hash_algo", "sha256") != "sha256":
            raise Problem("Objects are named by their SHA-256.")
        transfers = body.get("transfers")
        in_parts = isinstance(transfers, list) and "multipart" in transfers
        answers = [self._answer(request, one, upload=upload, in_parts=in_parts) for one in objects]
        transfer = "multipart" if any("chunk_size" in _header(one) for one in answers) else "basic"
        return JSONResponse({"transfer": transfer, "objects": answers, "hash_algo": "sha256"}, media_type=_MEDIA_TYPE)

    def _answer(self, request: Request, stated: dict[str, Any], *, upload: bool, in_parts: bool) -> dict[str, Any]:
        oid, size_bytes = checked_oid(stated.get("oid")), checked_size(stated.get("size"))
        answer: dict[str, Any] = {"oid": oid, "size": size_bytes}
        found = self._hub.store.size(oid)
        if found is not None and found != size_bytes:
            return answer | _error(422, f"The object has {found} bytes.")
        if not upload:
            if found is None:
                return answer | _error(404, "The object is not here.")
            return answer | {"actions": {"download": {"href": self._hub.link(request, f"/lfs/content/{oid}")}}}
        if found is not None:
            return answer
        try:
            self._hub.store.require_room(size_bytes)
        except Full as error:
            return answer | _error(error.status, error.message)
        return answer | {"actions": self._upload(request, oid, size_bytes, in_parts=in_parts)}

    def _upload(self, request: Request, oid: str, size_bytes: int, *, in_parts: bool) -> dict[str, Any]:
        verify = {"href": address(request, request.url.path.lstrip("/").removesuffix("batch") + "verify")}
        plan = Plan.of(oid, size_bytes, self._hub.settings) if in_parts else None
        if plan is None:
            return {"upload": {"href": self._hub.link(request, f"/lfs/objects/{oid}/{size_bytes}")}, "verify": verify}
        place = f"{oid}/{size_bytes}/{plan.part_bytes}"
        which = range(1, plan.count + 1)
        header = {str(one): self._hub.link(request, f"/lfs/parts/{place}/{one}") for one in which}
        header["chunk_size"] = str(plan.part_bytes)
        return {
            "upload": {"href": self._hub.link(request, f"/lfs/complete/{place}"), "header": header},
            "verify": verify,
        }

    async def verify(self, request: Request) -> Response:
        """Whether an object is here with the stated size."""
        self._hub.repository(request, Right.WRITE)
        body = await bodies.mapping(request)
        oid, size_bytes = checked_oid(body.get("oid")), checked_size(body.get("size"))
        await run_in_threadpool(self._hub.store.require, oid, size_bytes)
        return JSONResponse({"oid": oid, "size": size_bytes}, media_type=_MEDIA_TYPE)

    async def put(self, request: Request) -> Response:
        """Take an object in one piece, or the rest of one that was cut."""
        self._hub.require_link(request)
        oid, size_bytes = part(request, "oid"), checked_size(number(request, "size"))
        store = self._hub.store
        offset = _offset(request, size_bytes)
        with await run_in_threadpool(store.receive, checked_oid(oid), size_bytes, offset) as arriving:
            try:
                await bodies.take(request, arriving)
            except bodies.Cut:
                arriving.set_aside(store.partial(oid))
                raise
            await run_in_threadpool(store.admit, oid, size_bytes, arriving)
        store.partial(oid).unlink(missing_ok=True)
        return Response(headers={"ETag": f'"{oid}"'})

    def offset(self, request: Request) -> Response:
        """How far an upload came."""
        self._hub.require_link(request)
        oid = checked_oid(part(request, "oid"))
        found = self._hub.store.size(oid)
        return Response(headers={"Upload-Offset": str(self._hub.store.partial_bytes(oid) if found is None else found)})

    async def put_part(self, request: Request) -> Response:
        """Take one part."""
        self._hub.require_link(request)
        plan, which = _plan(request), number(request, "number")
        with self._hub.parts.receive(plan, which) as arriving:
            await bodies.take(request, arriving)
            tag = await run_in_threadpool(self._hub.parts.keep, plan, which, arriving)
        return Response(headers={"ETag": f'"{tag}"'})

    def part_here(self, request: Request) -> Response:
        """The tag of a part that is here: the SHA-256 of its bytes. 404 when there is none."""
        self._hub.require_link(request)
        tags = self._hub.parts.tags(_plan(request), number(request, "number"))
        return Response(headers={"ETag": f'"{tags[0]}"'}) if len(tags) == 1 else Response(status_code=404)

    async def complete(self, request: Request) -> Response:
        """Put the parts together. The body names their tags in order."""
        self._hub.require_link(request)
        plan = _plan(request)
        body = await bodies.mapping(request)
        await run_in_threadpool(self._hub.parts.complete, plan, _tags(body))
        return JSONResponse({"success": True, "oid": plan.oid})


def _plan(request: Request) -> Plan:
    return Plan(oid=part(request, "oid"), size_bytes=number(request, "size"), part_bytes=number(request, "cut"))


def _tags(body: dict[str, Any]) -> list[str]:
    parts = _mappings(body.get("parts"), "parts")
    if [one.get("partNumber") for one in parts] != list(range(1, len(parts) + 1)):
        raise Problem("Parts are named in order, each once.")
    return [str(one.get("etag")).strip('"') for one in parts]


def _offset(request: Request, size_bytes: int) -> int:
    """Where the body begins in the object. Raises ``Problem`` when its length does not lead to the object's end."""
    header = request.headers.get("content-range")
    if header is None:
        start = 0
    else:
        match = _CONTENT_RANGE.fullmatch(header)
        if match is None or (int(match[2]) + 1, int(match[3])) != (size_bytes, size_bytes):
            raise Problem("Content-Range must reach to the end of the object.")
        start = int(match[1])
    announced = bodies.announced(request)
    if announced is not None and announced != size_bytes - start:
        raise Problem(f"The body has {announced} bytes, not {size_bytes - start}.")
    return start


def _mappings(value: object, what: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise Problem(f"{what!r} is a list of objects.")
    return value


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _header(answer: dict[str, Any]) -> dict[str, Any]:
    header: dict[str, Any] = answer.get("actions", {}).get("upload", {}).get("header", {})
    return header
