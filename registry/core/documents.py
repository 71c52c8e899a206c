"""Documents: their text form, their id, and where they go. All of it depends on the text alone.

A document's id is the SHA-256 of its normalised text. Whether it is held out and which shard it falls into follow from
the id, so adding or removing a document moves no other one across the split. Refuses nothing silently: a text that is
no document is named with its reason.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from enum import StrEnum

from registry.errors import MalformedRecord

ID_DIGITS = 64
MAXIMUM_SHARDS = 2**20


class Split(StrEnum):
    """The two parts of a domain. Held-out documents are never trained on."""

    TRAIN = "train"
    HELDOUT = "heldout"


class Drop(StrEnum):
    """Why a member of a package gave no document."""

    NOT_UTF8 = "not UTF-8"
    CONTROL = "control characters"
    UNPARSED = "not parsed"
    SHORT = "too short"
    LONG = "too long"
    RUN = "a run without a break"
    DUPLICATE = "exact duplicate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One text with where it came from. ``id`` is the hex SHA-256 of ``text``; ``path`` is the path in the package."""

    id: str
    source: str
    version: str
    path: str
    licence: str
    domain: str
    text: str

    def __post_init__(self) -> None:
        if self.id != document_id(self.text):
            raise MalformedRecord(f"The text of {self.source}:{self.path} is not the one that its id names.")

    @property
    def facts(self) -> tuple[str, ...]:
        """Everything but the text, in the order of :data:`COLUMNS`."""
        return (self.id, self.source, self.version, self.path, self.licence, self.domain)


COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(Document))


def normalised(data: bytes) -> str | Drop:
    """The text of ``data``: strict UTF-8, no byte order mark, LF line ends, no empty lines at either end, one LF last.

    Returns the reason instead when the bytes are not UTF-8 or hold control characters other than TAB, LF and form feed.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Drop.NOT_UTF8
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n") + "\n"
    if any(ord(char) < 32 and char not in "\t\n\f" for char in set(text)) or "\x7f" in text:
        return Drop.CONTROL
    return text


def document_id(text: str) -> str:
    """The hex SHA-256 of the UTF-8 bytes of ``text``."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def split_of(identity: str, heldout_per_10000: int) -> Split:
    """The split of a document: held out when the last eight hex digits of its id, as a fraction, lie below the share.

    The last digits are used because the first ones order the documents and place them in shards.
    """
    return Split.HELDOUT if int(identity[-8:], 16) * 10_000 < heldout_per_10000 * 2**32 else Split.TRAIN


def sampled(identity: str, per_10000: int) -> bool:
    """Whether a document is in a sample of ``per_10000``: by eight hex digits of its id that decide nothing else."""
    return int(identity[16:24], 16) * 10_000 < per_10000 * 2**32


def shard_count(text_bytes: int, shard_bytes: int) -> int:
    """The smallest power of two of shards that keeps their mean text at or below ``shard_bytes``."""
    count = 1
    while count * shard_bytes < text_bytes and count < MAXIMUM_SHARDS:
        count *= 2
    return count


def shard_of(identity: str, count: int) -> int:
    """The shard, of ``count`` (a power of two), that a document falls into: the leading bits of its id."""
    return int(identity[:8], 16) * count >> 32
