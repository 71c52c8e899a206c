"""A hub as a place to read from: what a revision is now, the files at a commit, and ranges of their bytes.

Every address after the first names the 40-digit commit, so a tag or branch that moves meanwhile changes nothing. A
range is fetched in blocks, so a killed process loses a block of a file at most. Refuses answers that are not the JSON
that was asked for, pages that lead to another host, and bytes that the hub itself says are of another commit, size or
digest than it listed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from requests import Response

from registry.adapters.hub_read.wire import Passing, Wire, count, is_address, online
from registry.core import pulling
from registry.core.digests import Algorithm, Digest
from registry.core.pulling import Kind, Listing, Reference, RemoteFile, Resolved
from registry.errors import DoesNotHold, MalformedRecord, OutsideFailed, Refused

BLOCK_BYTES: Final = 16 * 2**20
_ANSWER_BYTES: Final = 64 * 2**20
_MOST_PAGES: Final = 5_000
_NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
_SPAN = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubReader:
    """Repositories at an endpoint."""

    wire: Wire
    _links: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def at(cls, endpoint: str | None = None, token: str | None = None) -> HubReader:
        """The hub at ``endpoint``, by default that of HF_ENDPOINT. Raises ``Refused`` when that is no address."""
        from huggingface_hub import constants

        online()
        address = (endpoint or constants.ENDPOINT).rstrip("/")
        if not is_address(address):
            raise Refused(f"{address[:80]!r} is no hub's address.", remedy="Set HF_ENDPOINT to http(s)://HOST[:PORT].")
        return cls(wire=Wire(endpoint=address, token=token))

    @property
    def where(self) -> str:
        """The endpoint."""
        return self.wire.where

    def resolve(self, reference: Reference) -> Resolved:
        """The commit of a revision, and whether it is a tag."""
        told = self._json(self._api(reference, "revision", reference.revision))
        commit = told.get("sha") if isinstance(told, dict) else None
        if not isinstance(commit, str):
            raise MalformedRecord(f"{self.where} does not say which commit {reference} is.")
        if reference.pinned and commit != reference.revision:
            raise DoesNotHold(f"Asked for commit {reference.revision}, {self.where} answers with {commit[:40]}.")
        return Resolved(commit=commit, tag=not reference.pinned and reference.revision in self.refs(reference)[1])

    def refs(self, reference: Reference) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Branches and tags with their commits."""
        told = self._json(self._api(reference, "refs"))
        fields = told if isinstance(told, dict) else {}
        return _refs(fields.get("branches")), _refs(fields.get("tags"))

    def listing(self, reference: Reference, commit: str) -> Listing:
        """All files at a commit."""
        address: str | None = self._api(reference, "tree", commit) + "?recursive=true"
        files: list[RemoteFile] = []
        for _ in range(_MOST_PAGES):
            if address is None:
                return pulling.listing(reference, commit, files)
            body, headers = self.wire.small(address, _ANSWER_BYTES)
            files += _files(_decoded(body))
            address = self._following(headers.get("Link", ""))
            if len(files) > pulling.MOST_FILES:
                break
        raise MalformedRecord(f"{self.where} lists more files of {reference.repository} than a repository can have.")

    def read(self, listing: Listing, file: RemoteFile, start_byte: int, stop_byte: int) -> Iterator[bytes]:
        """The bytes of a range, a block a request. A block that is cut goes on where it was cut.

        Tries count anew once the peer brought as much as it must within a window.
        """
        position, failures, came_bytes = start_byte, 0, 0
        while position < stop_byte:
            try:
                for piece in self._block(listing, file, position, stop_byte):
                    yield piece
                    position, came_bytes = position + len(piece), came_bytes + len(piece)
                    failures = 0 if came_bytes >= self.wire.least_bytes else failures
            except Passing as trouble:
                failures, came_bytes = failures + 1, 0
                self.wire.wait(trouble, failures)

    def _block(self, listing: Listing, file: RemoteFile, start_byte: int, last_byte: int) -> Iterator[bytes]:
        """A block that starts there; all up to ``last_byte`` from a hub that sends whole files only."""
        stop_byte = min(start_byte + BLOCK_BYTES, last_byte)
        whole = start_byte == 0 and stop_byte == file.size_bytes
        span = {} if whole else {"Range": f"bytes={start_byte}-{stop_byte - 1}"}
        with closing(self._opened(listing, file, span)) as answer:
            left_out = self._left_out(answer, file, start_byte, stop_byte)
            stop_byte = stop_byte if answer.status_code == 206 else last_byte
            came = 0
            for piece in self.wire.pieces(answer, file.size_bytes):
                wanted = piece[max(left_out - came, 0) : left_out + stop_byte - start_byte - came]
                came += len(piece)
                if wanted:
                    yield wanted
                if came >= left_out + stop_byte - start_byte:
                    return
        raise Passing(f"it ends {file.path} early")

    def _opened(self, listing: Listing, file: RemoteFile, span: Mapping[str, str]) -> Response:
        """The answer with the bytes; large files are sent by another host, whose address is kept for the next block."""
        key = (listing.commit, file.path)
        link = self._links.pop(key, None)
        if link is not None:
            with suppress(Refused, OutsideFailed):  # its life may have ended
                answer = self.wire.get(link, span)
                self._links[key] = link
                return answer
        prefix = "" if listing.reference.kind is Kind.MODEL else f"{listing.reference.kind}/"
        path = f"{prefix}{listing.reference.repository}/resolve/{listing.commit}/{quote(file.path)}"
        answer = self.wire.get(f"{self.wire.endpoint}/{path}", span, lambda told: _check(told, listing, file))
        if urlsplit(answer.url).netloc != urlsplit(self.wire.endpoint).netloc:
            self._links[key] = answer.url
        return answer

    def _left_out(self, answer: Response, file: RemoteFile, start_byte: int, stop_byte: int) -> int:
        """Bytes to skip at the beginning: none, or all before the range where the hub sends whole files only."""
        span = _SPAN.fullmatch(answer.headers.get("Content-Range", ""))
        length = answer.headers.get("Content-Length", "")
        if answer.status_code == 206:
            found = tuple(map(int, span.groups())) if span else ()
            if found[2:] not in ((), (file.size_bytes,)):
                raise self._other_size(file, found[2])
            if found != (start_byte, stop_byte - 1, file.size_bytes):
                raise OutsideFailed(f"{self.where} sends another range of {file.path} than was asked for.")
            return 0
        if length and count(length) is None:
            raise OutsideFailed(f"{self.where} sends {file.path} with a length that is no number.")
        if length and count(length) != file.size_bytes:
            raise self._other_size(file, int(length))
        return start_byte

    def _other_size(self, file: RemoteFile, size_bytes: int) -> DoesNotHold:
        return DoesNotHold(f"{self.where} lists {file.path} with {file.size_bytes} bytes, but has {size_bytes} of it.")

    def _api(self, reference: Reference, *parts: str) -> str:
        tail = "/".join(quote(part, safe="") for part in parts)
        return f"{self.wire.endpoint}/api/{reference.kind}/{reference.repository}/{tail}"

    def _json(self, address: str) -> object:
        return _decoded(self.wire.small(address, _ANSWER_BYTES)[0])

    def _following(self, link: str) -> str | None:
        """The address of the next page. Raises ``MalformedRecord`` when it is not one of this hub."""
        match = _NEXT.search(link)
        if match is None:
            return None
        if not match[1].startswith(f"{self.wire.endpoint}/api/"):
            raise MalformedRecord(f"{self.where} names a next page that is not its own.")
        return match[1]


def _check(told: Mapping[str, str], listing: Listing, file: RemoteFile) -> None:
    """Hold what the hub says of a file now against what it listed."""
    commit = told.get("X-Repo-Commit", listing.commit)
    if commit != listing.commit:
        raise DoesNotHold(f"{file.path} comes from commit {commit[:40]}, not {listing.commit}: revisions are mixed.")
    digest = told.get("X-Linked-Etag", "").strip('"')
    if digest and file.large and digest != file.claimed.hex:
        raise DoesNotHold(f"{file.path} is listed with the digest {file.claimed.hex}, but sent with {digest[:64]}.")
    size = told.get("X-Linked-Size", "")
    if size and size != str(file.size_bytes):
        raise DoesNotHold(f"{file.path} is listed with {file.size_bytes} bytes, but sent with {size[:20]}.")


def _decoded(body: bytes) -> object:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedRecord("The hub answers with something that is no JSON.") from error


def _refs(value: object) -> Mapping[str, str]:
    """Names with their commits. Raises ``OutsideFailed`` for rows of another form; no rows at all are none."""
    named: dict[str, str] = {}
    for row in value if isinstance(value, list) else []:
        name, commit = (row.get("name"), row.get("targetCommit")) if isinstance(row, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(commit, str) or not pulling.is_commit(commit):
            raise OutsideFailed("The hub lists a branch or tag without its name or commit.")
        named[name] = commit
    return named


def _files(value: object) -> Iterator[RemoteFile]:
    if not isinstance(value, list) or not all(isinstance(row, dict) for row in value):
        raise MalformedRecord("The hub's list of files is no list.")
    for row in value:
        if row.get("type") == "file":
            yield _file(row)
        elif row.get("type") != "directory":
            raise MalformedRecord(f"The hub lists {str(row.get('path'))[:80]!r}, which is neither a file nor a folder.")


def _file(row: Mapping[str, object]) -> RemoteFile:
    large = row.get("lfs")
    path, size, blob = row.get("path"), row.get("size"), row.get("oid")
    if large is not None:
        if not isinstance(large, dict):
            raise MalformedRecord("The hub lists a large file without its digest.")
        size = large.get("size")
    if not isinstance(path, str) or type(size) is not int or not isinstance(blob, str):
        raise MalformedRecord("The hub lists a file without path, size or digest.")
    claimed = Digest(Algorithm.GIT, blob) if large is None else Digest(Algorithm.SHA256, str(large.get("oid")))
    return RemoteFile(path=path, size_bytes=size, claimed=claimed)
