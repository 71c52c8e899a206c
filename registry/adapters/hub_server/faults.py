"""Faults for tests: what networks, disks and people do to a hub, done at a chosen request.

A fault waits for its request (method, a pattern in the address, and which of those that match) and then acts. No
command leads here; a test wraps the application with :class:`Faulty` in a server process of its own.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Act(StrEnum):
    """What a fault does."""

    STATUS = "status"  # answer `status` instead, with `headers`
    DROP_REQUEST = "drop_request"  # close the connection after `after_bytes` of the request's body
    DROP_ANSWER = "drop_answer"  # do as asked, then close the connection after `after_bytes` of the answer's body
    FLIP = "flip"  # change one bit of the byte at `after_bytes` of the answer's body
    STALL = "stall"  # fall silent for `seconds` after `after_bytes` of the answer's body
    DRIP = "drip"  # send a byte every `seconds` after `after_bytes` of the answer's body
    STALL_REQUEST = "stall_request"  # stop reading for `seconds` after `after_bytes` of the request's body
    MOVE_REF = "move_ref"  # before the request is seen, move `ref` of `repository` (its page) to `commit`
    KILL_REQUEST = "kill_request"  # SIGKILL the server after `after_bytes` of the request's body
    KILL_ANSWER = "kill_answer"  # SIGKILL the server when the answer begins


@dataclass(kw_only=True)
class Fault:
    """One fault. ``skip`` requests that match are left alone first; then ``times`` are hit (0: every one)."""

    act: Act
    method: str = ""
    pattern: str = ""
    skip: int = 0
    times: int = 1
    after_bytes: int = 0
    seconds: float = 0.0
    status: int = 503
    headers: dict[str, str] = field(default_factory=dict)
    repository: str = ""
    ref: str = ""
    commit: str = ""

    def __post_init__(self) -> None:
        self.act = Act(self.act)  # it comes from JSON

    def hits(self, method: str, address: str) -> bool:
        """Whether the fault acts on this request; counts it."""
        if self.method not in ("", method) or not re.search(self.pattern, address) or self.times < 0:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times:
            self.times = self.times - 1 or -1
        return True


@dataclass(kw_only=True)
class Seen:
    """A request as it went by: the address with its query but without signatures, and bytes of both bodies."""

    method: str
    address: str
    span: str = ""
    status: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0


class Faulty:
    """An application with faults. ``mover`` moves a ref: repository page, full ref, commit."""

    def __init__(self, inner: ASGIApp, mover: Any) -> None:
        self._inner = inner
        self._mover = mover
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, with the first fault that hits it."""
        address = _address(scope)
        span = dict(scope["headers"]).get(b"range", b"").decode("latin-1")
        seen = Seen(method=scope["method"], address=address, span=span)
        self.seen.append(seen)
        fault = next((one for one in self.faults if one.hits(scope["method"], address)), None)
        if fault and fault.act is Act.MOVE_REF:
            self._mover(fault.repository, fault.ref, fault.commit)
        wires = _Wires(receive, send, fault, seen)
        try:
            if fault and fault.act is Act.STATUS:
                await _refuse(fault, wires)
            else:
                await self._inner(scope, wires.receive, wires.send)
        except _Dropped:
            return


class _Dropped(Exception):
    """The connection was closed by a fault."""


class _Wires:
    """Both directions of one request, with the fault between."""

    def __init__(self, receive: Receive, send: Send, fault: Fault | None, seen: Seen) -> None:
        self._receive = receive
        self._send = send
        self._fault = fault
        self._seen = seen

    def _is(self, *acts: Act) -> bool:
        return self._fault is not None and self._fault.act in acts

    async def receive(self) -> Message:
        message = await self._receive()
        before = self._seen.received_bytes
        self._seen.received_bytes += len(message.get("body", b""))
        if self._fault and before <= self._fault.after_bytes <= self._seen.received_bytes:
            if self._is(Act.KILL_REQUEST):
                os.kill(os.getpid(), signal.SIGKILL)
            if self._is(Act.DROP_REQUEST):
                self._drop()  # what follows is a disconnect
                return {**message, "body": message["body"][: self._fault.after_bytes - before], "more_body": True}
            if self._is(Act.STALL_REQUEST):
                await self._stall()
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._seen.status = message["status"]
            if self._is(Act.KILL_ANSWER):
                os.kill(os.getpid(), signal.SIGKILL)
        elif self._fault and self._is(Act.DROP_ANSWER, Act.FLIP, Act.STALL, Act.DRIP):
            message = await self._bent(message, self._fault.after_bytes - self._seen.sent_bytes)
        self._seen.sent_bytes += len(message.get("body", b""))
        await self._send(message)

    async def _bent(self, message: Message, position: int) -> Message:
        """The message with the fault in it, if the fault lies in its bytes or at its end."""
        body = message.get("body", b"")
        if self._is(Act.DRIP):
            return await self._dripped(message, max(position, 0))
        if not 0 <= position < max(len(body), 1):
            return message
        if self._is(Act.FLIP) and body:
            return {**message, "body": body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]}
        self._seen.sent_bytes += position
        await self._send({**message, "body": body[:position], "more_body": True})
        if self._is(Act.DROP_ANSWER):
            await asyncio.sleep(0.05)  # let the bytes before the cut leave
            self._drop()
            raise _Dropped
        await self._stall()
        return {**message, "body": body[position:]}

    async def _dripped(self, message: Message, position: int) -> Message:
        """Send the message byte by byte from a position on; what is left of it is its end."""
        body = message.get("body", b"")
        pieces = [body[:position], *(body[at : at + 1] for at in range(position, len(body)))]
        for piece in filter(None, pieces):
            if self._owner.transport.is_closing():  # nobody is left who waits for it
                raise _Dropped
            self._seen.sent_bytes += len(piece)
            await self._send({**message, "body": piece, "more_body": True})
            await self._stall()
        return {**message, "body": b""}

    async def _stall(self) -> None:
        await asyncio.sleep(self._fault.seconds if self._fault else 0)

    def _drop(self) -> None:
        """Close the connection without a word."""
        self._owner.transport.abort()

    @property
    def _owner(self) -> Any:
        """The server's own object behind ``send``: ASGI has no way to a connection."""
        return getattr(self._send, "__self__", None)


async def _refuse(fault: Fault, wires: _Wires) -> None:
    """Take the body, as servers do, and answer with the fault's status."""
    while (await wires.receive()).get("more_body", False):
        pass
    named = {"content-length": "0", **fault.headers}
    headers = [(key.lower().encode(), value.encode()) for key, value in named.items()]
    await wires.send({"type": "http.response.start", "status": fault.status, "headers": headers})
    await wires.send({"type": "http.response.body", "body": b""})


def _address(scope: Scope) -> str:
    query = re.sub(r"(?:^|&)(?:expires|signature)=[^&]*", "", scope["query_string"].decode("latin-1"))
    path: str = scope["raw_path"].decode("latin-1")
    return f"{path}?{query}" if query else path
