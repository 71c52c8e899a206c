"""Request bodies within bounds, and answers that carry a range of a file.

Nothing is read whole that has no small bound: large bodies go to disk as they arrive, large files leave in blocks. A
sender that falls silent is given up.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Message

from registry.adapters.hub_server.incoming import Incoming
from registry.adapters.hub_server.problems import Problem, RangeOutside, TooLarge
from registry.adapters.hub_server.settings import CHUNK_BYTES, JSON_BYTES, STALL_SECONDS

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Cut(Exception):
    """The sender went away, or was silent for too long, before the end of its body."""


async def blocks(request: Request) -> AsyncIterator[bytes]:
    """The body in blocks of about a mebibyte. Raises ``Cut`` when it breaks off, after the last block that came."""
    waiting = bytearray()
    more = True
    while more:
        try:
            message = await _next(request)
        except Cut:
            yield bytes(waiting)
            raise
        waiting += message.get("body", b"")
        more = message.get("more_body", False)
        if len(waiting) >= CHUNK_BYTES or not more:
            yield bytes(waiting)
            waiting.clear()


async def _next(request: Request) -> Message:
    try:
        message = await asyncio.wait_for(request.receive(), STALL_SECONDS)
    except TimeoutError as error:
        raise Cut from error
    if message["type"] == "http.disconnect":
        raise Cut
    return message


async def take(request: Request, arriving: Incoming) -> None:
    """Write the body into ``arriving`` as it comes."""
    async for block in blocks(request):
        await run_in_threadpool(arriving.write, block)


def announced(request: Request) -> int | None:
    """The length that the request announces, if it does."""
    length = request.headers.get("content-length", "")
    return int(length) if re.fullmatch(r"[0-9]{1,18}", length) else None


async def small(request: Request, limit_bytes: int = JSON_BYTES) -> bytes:
    """A body that fits in memory. Raises ``TooLarge`` beyond the limit."""
    if (announced(request) or 0) > limit_bytes:
        raise TooLarge(f"Such a request has at most {limit_bytes} bytes.")
    body = bytearray()
    async for block in blocks(request):
        body += block
        if len(body) > limit_bytes:
            raise TooLarge(f"Such a request has at most {limit_bytes} bytes.")
    return bytes(body)


async def mapping(request: Request) -> dict[str, Any]:
    """A JSON object, or a form with one value a field; empty for an empty body."""
    body = await small(request)
    if request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {key: values[-1] for key, values in form(body).items()}
    try:
        value = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Problem("The body is not JSON.") from error
    if not isinstance(value, dict):
        raise Problem("The body is not an object.")
    return value


def form(body: bytes) -> dict[str, list[str]]:
    """The fields of a form. Raises ``Problem`` for one that is none."""
    try:
        return parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=10_000, errors="strict")
    except ValueError as error:
        raise Problem("The body is not a form.") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes ``start`` to ``end`` (not included) of ``total``; ``partial`` when the caller asked for a range."""

    start: int
    end: int
    total: int
    partial: bool

    @classmethod
    def asked(cls, header: str | None, total: int) -> Span:
        """What a ``Range`` header asks for. Several ranges, or words we do not know, mean the whole file.

        Raises ``RangeOutside`` when no byte of the range exists.
        """
        match = _RANGE.fullmatch(header.replace(" ", "").lower()) if header else None
        if match is None or match[0] == "bytes=-":
            return cls(start=0, end=total, total=total, partial=False)
        first, last = match[1], match[2]
        start = int(first) if first else max(0, total - int(last))
        end = min(total, int(last) + 1) if first and last else total
        if start >= end:
            raise RangeOutside("The range is outside of the file.", headers={"Content-Range": f"bytes */{total}"})
        return cls(start=start, end=end, total=total, partial=True)

    def headers(self) -> dict[str, str]:
        """The headers of an answer that carries these bytes."""
        ranged = {"Content-Range": f"bytes {self.start}-{self.end - 1}/{self.total}"} if self.partial else {}
        return {"Accept-Ranges": "bytes", "Content-Length": str(self.end - self.start), **ranged}


def bytes_answer(request: Request, content: bytes | Path, total: int, headers: Mapping[str, str]) -> Response:
    """Answer with the asked range of ``content``; a path is read in blocks while it is sent. HEAD sends no body."""
    span = Span.asked(request.headers.get("range"), total)
    status = 206 if span.partial else 200
    every = {"Content-Type": "application/octet-stream", **headers, **span.headers()}
    if request.method == "HEAD":
        return Response(status_code=status, headers=every)
    if isinstance(content, bytes):
        return Response(content[span.start : span.end], status_code=status, headers=every)
    return StreamingResponse(_read(content, span), status_code=status, headers=every)


async def _read(path: Path, span: Span) -> AsyncIterator[bytes]:
    with path.open("rb", buffering=0) as file:
        file.seek(span.start)
        left = span.end - span.start
        while left:
            block = await run_in_threadpool(file.read, min(left, CHUNK_BYTES))
            if not block:  # the file became shorter: the sender breaks off, the receiver sees too few bytes
                raise OSError(f"{path.name} ended early.")
            left -= len(block)
            yield block
