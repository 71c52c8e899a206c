"""One GET request to a hub: the token, redirects, patience, and errors as words.

The client's own session is used, so its proxies and certificates count. Redirects are followed here, a few and never
from HTTPS to HTTP, and the token goes to the hub's own scheme, host and port only. A peer that sends next to nothing is
given up as one that falls silent. Refuses encoded bodies, answers that are longer than they may be, and an environment
that says it is offline.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias
from urllib.parse import urljoin, urlsplit

from huggingface_hub import constants
from huggingface_hub.utils._headers import build_hf_headers
from huggingface_hub.utils._http import get_session
from requests import PreparedRequest, RequestException, Response
from urllib3.exceptions import HTTPError

from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed, Refused, UnknownName, Unreachable

PIECE_BYTES: Final = 2**20
MOST_REDIRECTS: Final = 5
MOST_TRIES: Final = 5
LONGEST_WAIT_SECONDS: Final = 30.0
LEAST_BYTES: Final = 2**14  # that a body brings within a window, in time that was spent waiting for it
PATIENCES_A_WINDOW: Final = 6
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_WAIT = "Wait a while, then run the same command again; it goes on where it stopped."
_REACH = (
    "Check the network, and that HF_ENDPOINT is the hub that you mean; then run the same command again: it goes on "
    "where it stopped."
)
_MISSING = {
    "RepoNotFound": "The hub has no such repository, or shows it to members only",
    "RevisionNotFound": "The repository has no such revision",
    "EntryNotFound": "The repository has no such file at this revision",
}
Headers: TypeAlias = Mapping[str, str]
NONE: Final[Headers] = {}


class Passing(Exception):
    """What may be gone at the next try. ``unreached`` is the address that did not answer at all, if one did not."""

    def __init__(self, reason: str, *, wait_seconds: float = 0.0, unreached: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_seconds = wait_seconds
        self.unreached = unreached


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """Requests to the hub at ``endpoint``. ``token`` is the client's own unless given; "" is none.

    Silence of ``patience_seconds`` ends a try, and so do fewer than ``least_bytes`` within ``window_seconds``.
    """

    endpoint: str
    token: str | None = None
    patience_seconds: float = field(default_factory=lambda: float(constants.HF_HUB_DOWNLOAD_TIMEOUT))
    window_seconds: float = field(default_factory=lambda: PATIENCES_A_WINDOW * float(constants.HF_HUB_DOWNLOAD_TIMEOUT))
    least_bytes: int = LEAST_BYTES

    def get(self, address: str, headers: Headers = NONE, look: Callable[[Headers], None] | None = None) -> Response:
        """An answer with its body still to be read; ``look`` sees the headers of every answer on the way to it.

        Raises ``Passing`` for what a later try may mend; ``UnknownName``, ``Refused`` or ``OutsideFailed`` for the
        hub's own refusals.
        """
        for _ in range(MOST_REDIRECTS + 1):
            answer = self._ask(address, headers)
            if look is not None and answer.status_code < 400:
                _looked(answer, look)
            if answer.status_code not in (301, 302, 303, 307, 308):
                return self._accepted(answer)
            answer.close()
            address = self._next(address, answer.headers.get("Location", ""))
        raise OutsideFailed(f"{self.where} sends from one address to the next without an end.")

    @property
    def where(self) -> str:
        """The hub's address without a user or password."""
        return _place(self.endpoint) + urlsplit(self.endpoint).path

    def small(self, address: str, most_bytes: int) -> tuple[bytes, Headers]:
        """The whole body of an answer, and its headers. Raises ``MalformedRecord`` when it has over ``most_bytes``."""
        failures = 0
        while True:
            try:
                with closing(self.get(address)) as answer:
                    return b"".join(self.pieces(answer, most_bytes)), answer.headers
            except Passing as trouble:
                failures += 1
                self.wait(trouble, failures)

    def pieces(self, answer: Response, most_bytes: int) -> Iterator[bytes]:
        """The body in pieces, as they come.

        Raises ``Passing`` when it is cut or comes too slowly, ``MalformedRecord`` when it goes on for too long.
        """
        came, pace = 0, Pace(window_seconds=self.window_seconds, least_bytes=self.least_bytes)
        while piece := pace.timed(lambda: self._piece(answer)):
            came += len(piece)
            if came > most_bytes:
                raise MalformedRecord(f"{self.where} sends more than the {most_bytes} bytes that it may.")
            yield piece
            pace.check()

    def wait(self, trouble: Passing, failures: int) -> None:
        """Wait before the next try. Raises ``OutsideFailed`` after too many failures in a row, else it may go on."""
        if failures >= MOST_TRIES:
            told = f"{trouble.reason}, {failures} times in a row."
            if trouble.unreached:
                raise Unreachable(f"{trouble.unreached} cannot be reached: {told}", remedy=_REACH) from trouble
            raise OutsideFailed(f"{self.where} does not get on: {told}", remedy=_WAIT) from trouble
        time.sleep(min(max(trouble.wait_seconds, 0.25 * 2**failures), LONGEST_WAIT_SECONDS))

    def _ask(self, address: str, headers: Headers) -> Response:
        own = same_origin(address, self.endpoint)
        token = (None if self.token is None else self.token or False) if own else False
        every = build_hf_headers(token=token, library_name="deadreckon") | {"Accept-Encoding": "identity"} | headers
        try:
            return get_session().get(
                address,
                headers=every,
                auth=_unchanged,
                stream=True,
                allow_redirects=False,
                timeout=self.patience_seconds,
            )
        except (RequestException, HTTPError) as error:
            raise Passing(_reason(error), unreached=_place(address)) from error
        except ValueError as error:  # the session reads the next address even where it is not to follow it
            raise self._astray() from error

    def _accepted(self, answer: Response) -> Response:
        status = answer.status_code
        if status in (200, 206) and answer.headers.get("Content-Encoding", "identity") == "identity":
            return answer
        answer.close()
        if status in _BUSY:
            raise Passing(f"it answers {status}", wait_seconds=_seconds(answer.headers.get("Retry-After", "")))
        if status in (401, 403):
            raise Refused(
                f"{self.where} does not let you read this ({status}).",
                remedy="Log in with 'hf auth login', or set HF_TOKEN to a token that may read it.",
            )
        if status == 404:
            what = _MISSING.get(answer.headers.get("X-Error-Code", ""), "The hub has nothing at this address")
            raise UnknownName(f"{what}: {urlsplit(answer.url).path}.", remedy=f"The hub asked was {self.where}.")
        if status == 416:
            raise DoesNotHold(f"{urlsplit(answer.url).path} is shorter than {self.where} lists it.")
        raise OutsideFailed(f"{self.where} answers in a way that was not asked for ({status}).", remedy=_WAIT)

    def _next(self, address: str, location: str) -> str:
        with suppress(ValueError):
            target = urljoin(address, location)
            parts = urlsplit(target)
            plain = parts.scheme == "http" and urlsplit(self.endpoint).scheme != "http"
            if location and is_address(target, query=True) and not plain and not parts.username:
                return target
        raise self._astray()

    def _astray(self) -> OutsideFailed:
        return OutsideFailed(f"{self.where} sends to an address that is not followed.", remedy=_WAIT)

    def _piece(self, answer: Response) -> bytes:
        try:
            piece: bytes = answer.raw.read1(PIECE_BYTES, decode_content=False) or b""
        except (HTTPError, OSError) as error:
            raise Passing(_reason(error)) from error
        return piece


@dataclass(slots=True, kw_only=True)
class Pace:
    """How a body comes: bytes, and the time that was spent waiting for them and for nothing else."""

    window_seconds: float
    least_bytes: int
    waited_seconds: float = 0.0
    came_bytes: int = 0

    def timed(self, read: Callable[[], bytes]) -> bytes:
        """What ``read`` gives, counted."""
        began = time.monotonic()
        piece = read()
        self.waited_seconds += time.monotonic() - began
        self.came_bytes += len(piece)
        return piece

    def check(self) -> None:
        """Raises ``Passing`` when a window is over in which too little came."""
        if self.waited_seconds < self.window_seconds:
            return
        if self.came_bytes < self.least_bytes:
            raise Passing(f"it sends less than {self.least_bytes} bytes in {self.window_seconds:.3g} seconds")
        self.waited_seconds, self.came_bytes = 0.0, 0


def online() -> None:
    """Raises ``Refused`` when the environment forbids the network to the client."""
    if constants.HF_HUB_OFFLINE:
        raise Refused(
            "HF_HUB_OFFLINE is set, so no hub is asked.",
            remedy="Unset it, or pull with --offline from a mirror or the client's cache.",
        )


def _looked(answer: Response, look: Callable[[Headers], None]) -> None:
    try:
        look(answer.headers)
    except DoesNotHold:
        answer.close()
        raise


def _place(address: str) -> str:
    """Scheme, host and port of an address, without a user or password."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def same_origin(one: str, other: str) -> bool:
    """Whether two addresses have the same scheme, host and port, so that a token of the one may go to the other."""
    return _origin(one) == _origin(other)


def _origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _unchanged(request: PreparedRequest) -> PreparedRequest:
    """No credentials but those that we give: not the ones of a netrc file either."""
    return request


def _seconds(text: str) -> float:
    return float(text) if count(text) is not None and len(text) < 5 else 0.0


def count(text: str) -> int | None:
    """A number in a header, in digits of ASCII; None for anything else, and for what no file has in bytes."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 16 else None


def is_address(text: str, *, query: bool = False) -> bool:
    """Whether this is an address with a host that can be asked, with a query only where it may have one."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return good and (query or not parts.query)


def _reason(error: Exception) -> str:
    name = type(error).__name__
    told = {
        "ReadTimeout": "it falls silent",
        "ReadTimeoutError": "it falls silent",
        "TimeoutError": "it falls silent",
        "ConnectTimeout": "it does not answer",
        "ConnectionError": "no connection to it comes about",
        "IncompleteRead": "the connection is cut",
        "ProtocolError": "the connection is cut",
    }
    return told.get(name, f"the connection fails ({name})")
