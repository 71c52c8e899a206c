"""A second digest of the large files of a signed folder: BLAKE3 beside the SHA-256 that its signature lists.

``provenance/blake3.txt`` lists large files as ``b3sum`` writes and checks them. The signature covers it as any other
file, so that one key answers for both digests of a file, and whoever verifies may take the one that all cores take at
once. It proves what the SHA-256 proves if the signer took both of the same bytes; taking the SHA-256 finds out.
Refuses a list that is not what was signed, is spelled otherwise, names a file twice, or one that is not signed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from registry.core.digests import Algorithm, Digest, sha256
from registry.core.names import checked_path
from registry.errors import DoesNotHold, MalformedRecord

FILE: Final = "provenance/blake3.txt"
LEAST_BYTES: Final = 16 * 2**20
MOST_LINES: Final = 10_000
LONGEST: Final = 16 * 2**20

_LINE: Final = re.compile(r"([0-9a-f]{64})  (.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Twin:
    """Both digests of a file, as they were signed."""

    sha256: Digest
    blake3: Digest


def encode(digests: Mapping[str, Digest]) -> bytes:
    """The bytes of the list, from BLAKE3 by path. Raises ``Refused`` for a path that leaves the folder."""
    return "".join(f"{digests[path].hex}  {checked_path(path)}\n" for path in sorted(digests)).encode()


def parse(data: bytes) -> Mapping[str, Digest]:
    """Read the list. Raises ``MalformedRecord`` or, for a path that leaves the folder, ``Refused``."""
    if len(data) > LONGEST:
        raise MalformedRecord(f"{FILE} has {len(data)} bytes, too many for a list of digests.")
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise MalformedRecord(f"{FILE} is not UTF-8.") from error
    if lines.pop() or len(lines) > MOST_LINES:
        raise MalformedRecord(f"{FILE} must be at most {MOST_LINES} lines, each ended.")
    rows = [_row(line) for line in lines]
    if any(path >= following for (path, _), (following, _) in pairwise(rows)):
        raise MalformedRecord(f"{FILE} must name each file once, in order.")
    return dict(rows)


def signed_twins(read: Callable[[str], bytes], signed: Mapping[str, Digest]) -> Mapping[str, Twin]:
    """What the signer says of large files, by path; ``signed`` are all files of a signature that was checked.

    ``read`` gives the bytes of a file. Empty where there is no such list. Raises ``DoesNotHold`` for a list that is not
    the one that was signed, ``MalformedRecord`` for one that is malformed or names a file that is not signed.
    """
    if FILE not in signed:
        return {}
    data = read(FILE)
    if sha256(data) != signed[FILE]:
        raise DoesNotHold(f"{FILE} has other bytes than were signed.")
    told = parse(data)
    unsigned = sorted(told.keys() - signed.keys())
    if unsigned:
        raise MalformedRecord(f"{FILE} names {unsigned[0][:200]!r}, which is not signed.")
    return {path: Twin(sha256=signed[path], blake3=digest) for path, digest in told.items()}


def _row(line: str) -> tuple[str, Digest]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise MalformedRecord(f"{FILE} has a line that is no digest and path: {line[:100]!r}.")
    return checked_path(match[2]), Digest(Algorithm.BLAKE3, match[1])
