"""``trust.toml``: which keys may sign which names, from when until when.

A signature shows that nothing was altered since a key signed; this says whose key it is and what it may vouch for::

    schema = 1

    [[key]]
    who = "Open Lab, release key of 2026"
    public_key = '''
    -----BEGIN PUBLIC KEY-----
    …
    -----END PUBLIC KEY-----
    '''
    releases = ["pocket", "pocket-*"]
    attests = ["*"]
    valid_from = 2026-01-01
    end = 2027-01-01

Patterns are globs over whole names; ``*`` matches ``/`` too. A key speaks for what it signed from ``valid_from`` until
before ``end``, by the time that stands in what it signed. Whoever holds a key can write any time there: a key that was
lost or stolen is ``revoked = "why"``, and then nothing of it counts, whenever it says that it signed, but the digests
in ``keeps`` (releases or attestations that were known before). Refuses keys without a name, keys that may do nothing,
unknown settings, and the same key twice.
"""

from __future__ import annotations

import datetime as dt
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, Self

from registry.core.digests import Digest
from registry.core.publickeys import PublicKey
from registry.errors import MalformedRecord

LARGEST_POLICY: Final = 2**20
_MOST_KEYS: Final = 1000
_MOST_PATTERNS: Final = 1000
_LONGEST_TEXT: Final = 2000
_TIME: Final = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]{6})?Z")
_REMEDY: Final = "See the example at the top of registry/core/trust.py, and 'reckon keys show FILE --who …'."


class Act(StrEnum):
    """What a key may do with a name: sign releases of it, or attest that it was derived again."""

    RELEASE = "release"
    ATTEST = "attestation"


class Trust(StrEnum):
    """How a policy sees a signature. Unknown is only said where there is no policy."""

    TRUSTED = "trusted"
    UNKNOWN = "unknown"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The outcome for one signature, with a sentence. ``who`` is whose key it is, empty where nobody knows."""

    trust: Trust
    who: str
    text: str

    @property
    def accepted(self) -> bool:
        """Whether nothing speaks against the signature; where there is no policy, nothing speaks for it either."""
        return self.trust is not Trust.REFUSED


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A key of a policy. Times are text as records spell them; ``revoked`` is the reason, None while it is not."""

    who: str
    public_key: PublicKey
    releases: tuple[str, ...]
    attests: tuple[str, ...]
    valid_from: str | None
    end: str | None
    revoked: str | None
    keeps: frozenset[Digest]

    def may(self, act: Act, name: str) -> bool:
        """Whether the key may do this with that name, at any time."""
        return any(fnmatchcase(name, pattern) for pattern in (self.releases if act is Act.RELEASE else self.attests))

    def objection(self, act: Act, name: str, time: str, subject: Digest | None) -> str | None:
        """Why the key does not count here; None where it does."""
        if self.revoked is not None and (subject is None or subject not in self.keeps):
            return f"was revoked: {self.revoked}"
        if not self.may(act, name):
            return f"may sign no {act} of {name}"
        match = _TIME.fullmatch(time)
        if match is None:
            return f"signed at {time[:40]!r}, which is no time"
        moment = f"{match[1]}{match[2] or '.000000'}Z"
        if self.valid_from is not None and moment < self.valid_from:
            return f"is valid from {self.valid_from}, and this says that it was signed at {time}"
        if self.end is not None and moment >= self.end:
            return f"ended at {self.end}, and this says that it was signed at {time}"
        return None

    def state(self, now: str) -> str:
        """What the key is now, in a word or two."""
        if self.revoked is not None:
            return "revoked"
        if self.end is not None and now >= self.end:
            return "ended"
        return "not yet valid" if self.valid_from is not None and now < self.valid_from else "valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustPolicy:
    """The keys that somebody trusts, by their ids."""

    keys: Mapping[str, TrustedKey]

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the bytes of a ``trust.toml``. Raises ``MalformedRecord``."""
        if len(data) > LARGEST_POLICY:
            raise MalformedRecord(f"A trust policy of {len(data)} bytes is over the limit of {LARGEST_POLICY}.")
        try:
            document = tomllib.loads(data.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise MalformedRecord(f"trust.toml is not TOML: {str(error)[:200]}", remedy=_REMEDY) from error
        table = _Table(document, "trust.toml")
        if table.take("schema", int) != 1:
            raise MalformedRecord("trust.toml needs 'schema = 1'; this version of reckon reads no other.")
        keys = [_key(_Table(one, f"key {number}")) for number, one in enumerate(table.tables("key"), start=1)]
        table.close()
        found = {key.public_key.id: key for key in keys}
        if len(found) != len(keys):
            raise MalformedRecord("trust.toml names a key twice.", remedy="Give each key one entry.")
        return cls(keys=found)

    def judge(
        self, key_id: str, name: str, time: str, act: Act = Act.RELEASE, subject: Digest | None = None
    ) -> Judgement:
        """Whether a key may have signed this. ``subject`` is the payload's digest, for what a revoked key keeps."""
        key = self.keys.get(key_id)
        if key is None:
            text = f"The key {key_id[:12]} is not in the trust policy."
            return Judgement(trust=Trust.REFUSED, who="", text=text)
        objection = key.objection(act, name, time, subject)
        if objection is not None:
            return Judgement(trust=Trust.REFUSED, who=key.who, text=f"The key {key_id[:12]} of {key.who} {objection}.")
        return Judgement(trust=Trust.TRUSTED, who=key.who, text=f"attested by {key.who} (key {key_id[:12]})")


def without_policy(key_id: str) -> Judgement:
    """What is said of a signature where nobody said whom to trust."""
    text = f"attested by unknown key {key_id[:12]}"
    return Judgement(trust=Trust.UNKNOWN, who="", text=text)


class _Table:
    """A TOML table, read setting by setting, with nothing left over."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise MalformedRecord(f"{where} of a trust policy must be a table.", remedy=_REMEDY)
        self._value = dict(value)
        self._where = where

    def take(self, name: str, kind: type[int] | type[str]) -> int | str | None:
        """A setting, None when it is not there."""
        value = self._value.pop(name, None)
        if value is not None and type(value) is not kind:
            raise self._wrong(name, "text" if kind is str else "a whole number")
        return value

    def text(self, name: str) -> str | None:
        """A text that is not blank, None when it is not there."""
        value = self.take(name, str)
        if value is None:
            return None
        text = str(value)
        if not text.strip() or len(text) > _LONGEST_TEXT or not text.replace("\n", " ").isprintable():
            raise self._wrong(name, "a short text")
        return text

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts, empty when it is not there."""
        values = self._value.pop(name, [])
        good = isinstance(values, list) and len(values) <= _MOST_PATTERNS
        if not good or not all(isinstance(one, str) and 0 < len(one) <= 200 for one in values):
            raise self._wrong(name, "a list of short texts")
        return tuple(values)

    def time(self, name: str) -> str | None:
        """A day (its beginning) or a moment with its offset, as records spell it: UTC with microseconds."""
        value = self._value.pop(name, None)
        if value is None:
            return None
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            moment = value.astimezone(dt.UTC)
        elif isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            moment = dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
        else:
            raise self._wrong(name, "a day, or a moment with its offset (2026-01-01T00:00:00Z)")
        return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}Z"

    def tables(self, name: str) -> Iterable[object]:
        """A list of tables, empty when it is not there."""
        values = self._value.pop(name, [])
        if not isinstance(values, list) or len(values) > _MOST_KEYS:
            raise self._wrong(name, "a list of tables")
        return values

    def close(self) -> None:
        """Refuse what nobody asked for: a misspelled limit must not be no limit."""
        if self._value:
            names = ", ".join(sorted(self._value))[:200]
            raise MalformedRecord(f"{self._where} of a trust policy has unknown settings: {names}.", remedy=_REMEDY)

    def _wrong(self, name: str, wanted: str) -> MalformedRecord:
        return MalformedRecord(f"{self._where} of a trust policy: {name!r} must be {wanted}.", remedy=_REMEDY)


def _key(table: _Table) -> TrustedKey:
    who, pem = table.text("who"), table.text("public_key")
    if who is None or pem is None:
        raise MalformedRecord("A key of a trust policy needs 'who' and 'public_key'.", remedy=_REMEDY)
    key = TrustedKey(
        who=who,
        public_key=PublicKey.parse(pem),
        releases=table.texts("releases"),
        attests=table.texts("attests"),
        valid_from=table.time("valid_from"),
        end=table.time("end"),
        revoked=table.text("revoked"),
        keeps=frozenset(map(Digest.parse, table.texts("keeps"))),
    )
    table.close()
    if not key.releases and not key.attests:
        raise MalformedRecord(f"The key of {who} may sign nothing.", remedy="Give it 'releases' or 'attests'.")
    if key.valid_from is not None and key.end is not None and key.end <= key.valid_from:
        raise MalformedRecord(f"The key of {who} ends before it is valid.")
    return key
