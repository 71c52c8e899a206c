"""Notices: a published release was taken back (yanked) or replaced (superseded), with the reason.

The old revision stays as it was; tag and commit still lead to every signed byte. What changes is ``main``: it carries
``notices.json``, and the card there begins with what the notices say. That text follows from the notices alone, so a
reader takes it off again and has the signed card, byte for byte. A notice can carry a signature over all that it says;
who may sign is for a trust policy to say. Refuses notices that are not canonical, too many of them, an envelope that
says something else than its notice, and cards whose banner is not the one that the notices make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final, Self

from registry.core import canonical
from registry.core.canonical import Json
from registry.core.codec import Reader, opened, record_bytes
from registry.core.digests import Digest
from registry.core.dsse import IN_TOTO, Envelope, pae
from registry.core.publications import Place
from registry.core.release import Identity
from registry.core.statement import Statement, Subject
from registry.errors import DoesNotHold, MalformedRecord, Refused

FILE: Final = "notices.json"
PREDICATE_TYPE: Final = "urn:deadreckon:notice:v1"
LONGEST_TEXT: Final = 4000
MOST_NOTICES: Final = 1000
MOST_BYTES: Final = 2**20
_FENCE: Final = b"---\n"
_OPEN: Final = "<!-- notices -->\n"
_CLOSE: Final = "<!-- end of notices -->\n"


class Change(StrEnum):
    """What became of a release."""

    YANK = "yank"
    SUPERSEDE = "supersede"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One release was yanked or superseded. ``commit`` is the one its tag names, ``successor`` another version.

    ``erratum`` says what is wrong with the release and since when, for those who already use it. ``envelope`` is the
    signed :attr:`statement`, None where nobody signed; its signature is checked elsewhere.
    """

    KIND: ClassVar[str] = "notice"
    SCHEMA: ClassVar[int] = 1

    notice: Change
    identity: Identity
    release: Digest
    endpoint: str
    commit: str
    successor: str | None
    reason: str
    erratum: str | None
    time: str
    envelope: Envelope | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Place(endpoint=self.endpoint, repository=self.identity.repository)
        _check_version(self.identity, self.successor)
        if self.notice is Change.SUPERSEDE and self.successor in (None, self.identity.version):
            raise MalformedRecord("A superseded release names the version that replaces it.")
        for text in (self.reason, self.erratum):
            if text is not None and (not 0 < len(text.strip()) <= LONGEST_TEXT or not all(map(_printable, text))):
                raise MalformedRecord(f"Reason and erratum are 1 to {LONGEST_TEXT} printable characters.")
        if self.envelope is not None and self.envelope.signed != pae(IN_TOTO, self.statement.encode()):
            raise MalformedRecord("The signature of a notice is over something else than the notice.")

    @property
    def kind(self) -> str:
        return self.KIND

    @property
    def statement(self) -> Statement:
        """What is signed: all that it says, about the release by its digest."""
        subject = Subject.of_bytes(str(self.identity), self.release)
        told = replace(self, envelope=None).to_json()
        return Statement(subjects=(subject,), predicate_type=PREDICATE_TYPE, predicate=told)

    @property
    def sentence(self) -> str:
        """What it says, as one line."""
        what = "was yanked" if self.notice is Change.YANK else "is superseded"
        instead = f"; use {self.successor} instead" if self.successor else ""
        more = f" Erratum: {self.erratum}" if self.erratum else ""
        reason = self.reason.strip().rstrip(".")
        text = f"{self.identity.name} {self.identity.version} {what} on {self.time[:10]}: {reason}{instead}.{more}"
        return " ".join(text.split())

    def to_json(self) -> dict[str, Json]:
        signed: dict[str, Json] = {} if self.envelope is None else {"envelope": self.envelope.to_json()}
        return {
            **signed,
            **self.extra,
            "kind": self.KIND,
            "schema": self.SCHEMA,
            "notice": self.notice.value,
            "name": self.identity.name,
            "version": self.identity.version,
            "repository": self.identity.repository,
            "release": str(self.release),
            "endpoint": self.endpoint,
            "commit": self.commit,
            "successor": self.successor,
            "reason": self.reason,
            "erratum": self.erratum,
            "time": self.time,
        }

    @classmethod
    def from_json(cls, value: Json) -> Self:
        reader = opened(value, cls.KIND, cls.SCHEMA)
        signed = isinstance(value, Mapping) and "envelope" in value
        return cls(
            notice=_change(reader),
            identity=Identity(
                name=reader.text("name"), version=reader.text("version"), repository=reader.text("repository")
            ),
            release=reader.digest("release"),
            endpoint=reader.text("endpoint"),
            commit=reader.text("commit"),
            successor=reader.optional("successor", reader.text),
            reason=reader.text("reason"),
            erratum=reader.optional("erratum", reader.text),
            time=reader.text("time"),
            envelope=Envelope.from_json(reader.raw("envelope")) if signed else None,
            extra=reader.rest(),
        )


def encode(notices: Iterable[Notice]) -> bytes:
    """The bytes of ``notices.json``: the canonical list of notices, oldest first, each once."""
    unique = {record_bytes(one): one for one in notices}
    ordered = sorted(unique.values(), key=lambda one: (one.time, record_bytes(one)))
    return canonical.encode([one.to_json() for one in ordered])


def decode(data: bytes) -> tuple[Notice, ...]:
    """The notices in ``notices.json``. Raises ``MalformedRecord`` unless :func:`encode` would write these bytes."""
    if len(data) > MOST_BYTES:
        raise MalformedRecord(f"{FILE} has {len(data)} bytes; the limit is {MOST_BYTES}.")
    value = canonical.decode(data)
    if not isinstance(value, Sequence) or isinstance(value, str) or not 0 < len(value) <= MOST_NOTICES:
        raise MalformedRecord(f"{FILE} is a list of 1 to {MOST_NOTICES} notices.")
    found = tuple(Notice.from_json(one) for one in value)
    if encode(found) != data:
        raise MalformedRecord(f"{FILE} is not in its one form.")
    return found


def about(notices: Iterable[Notice], release: Digest) -> tuple[Notice, ...]:
    """The notices about one release, by its release digest. ``pull`` and ``audit`` say their sentences as warnings."""
    return tuple(one for one in notices if one.release == release)


def annotated(card: bytes, notices: Iterable[Notice]) -> bytes:
    """The card as it stands on ``main``: what the notices say goes first, after the metadata block."""
    head, body = _split(card)
    return head + _banner(tuple(notices)) + body


def original(card: bytes, notices: Iterable[Notice]) -> bytes:
    """The signed card behind one that :func:`annotated` wrote. Raises ``DoesNotHold`` when it is not one."""
    head, body = _split(card)
    banner = _banner(tuple(notices))
    if not body.startswith(banner):
        raise DoesNotHold(
            f"The card does not say what {FILE} says.", remedy="Pull the release by its tag or commit instead of main."
        )
    return head + body[len(banner) :]


def _banner(notices: tuple[Notice, ...]) -> bytes:
    """The same notices make the same bytes. Nothing in it can end the comment or begin another block."""
    if not notices:
        return b""
    ordered = decode(encode(notices))
    lines = "".join(f"> **{one.notice.value.upper()}** {_escaped(one.sentence)}\n>\n" for one in ordered)
    return f"{_OPEN}{lines}{_CLOSE}\n".encode()


def _escaped(text: str) -> str:
    return "".join(f"&#{ord(char)};" if char in "<>&`*_[]()!\\|#" else char for char in text)


def _split(card: bytes) -> tuple[bytes, bytes]:
    """The metadata block with both its fences, and the rest."""
    if not card.startswith(_FENCE):
        return b"", card
    end = card.find(b"\n" + _FENCE, len(_FENCE) - 1)
    cut = end + 1 + len(_FENCE)
    return (card[:cut], card[cut:]) if end >= 0 else (b"", card)


def _check_version(identity: Identity, version: str | None) -> None:
    try:
        replace(identity, version=version or identity.version)
    except Refused as error:
        raise MalformedRecord(error.message, remedy=error.remedy) from error


def _change(reader: Reader) -> Change:
    text = reader.text("notice")
    if text not in set(Change):
        raise MalformedRecord(f"{text!r} is no notice; known are {', '.join(Change)}.")
    return Change(text)


def _printable(char: str) -> bool:
    return char.isprintable() or char == "\n"
