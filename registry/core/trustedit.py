"""Entries of ``trust.toml`` as text: a new one to append, and an old one that is revoked.

A person keeps the file and its comments, so one entry is changed in place and nothing else. Refuses a change that would
alter anything but the entry that was named, whatever the file's spelling is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from registry.core.digests import Digest
from registry.core.trust import TrustedKey, TrustPolicy
from registry.errors import MalformedRecord, Refused, UnknownName

_ENTRY: Final = re.compile(r"^\[\[key\]\][ \t]*(?:#.*)?\n", re.MULTILINE)
_REMEDY: Final = "Write it by hand: 'revoked = \"why\"' in the entry of the key."


def entry(key: TrustedKey) -> str:
    """An entry to append to a ``trust.toml``. Raises ``Refused`` when it could not be read back."""
    lines = [
        "",
        "[[key]]",
        f"# {key.public_key.id}",
        f"who = {_text(key.who)}",
        f"public_key = '''\n{key.public_key.pem}'''",
    ]
    for name, patterns in (("releases", key.releases), ("attests", key.attests)):
        if patterns:
            lines.append(f"{name} = [{', '.join(map(_text, patterns))}]")
    lines += [f"{name} = {time}" for name, time in (("valid_from", key.valid_from), ("end", key.end)) if time]
    text = "\n".join(lines) + "\n"
    if TrustPolicy.parse(f"schema = 1\n{text}".encode()).keys != {key.public_key.id: key}:
        raise Refused("The entry is not read back as it was meant.", remedy="Use plain text and times in UTC.")
    return text


def find(policy: TrustPolicy, text: str) -> str:
    """The id of the one key whose id begins so (eight digits or more). Raises ``UnknownName``."""
    found = [key_id for key_id in policy.keys if key_id.startswith(text)] if len(text) >= 8 else []
    if len(found) != 1:
        known = ", ".join(key_id[:12] for key_id in policy.keys) or "none"
        raise UnknownName(f"{text[:80]!r} names no key of the trust policy.", remedy=f"Known are: {known}.")
    return found[0]


def revoked(data: bytes, key_id: str, reason: str, keeps: Sequence[Digest]) -> bytes:
    """The file with one key revoked. Raises ``Refused`` when it is already, or the entry cannot be changed in place."""
    key = TrustPolicy.parse(data).keys[key_id]
    if key.revoked is not None:
        raise Refused(f"The key {key_id[:12]} of {key.who} is revoked already: {key.revoked}")
    if not reason.strip():
        raise Refused("A key is revoked for a reason.", remedy="Give it with --reason.")
    lines = [f"revoked = {_text(reason)}"]
    if keeps:
        lines.append(f"keeps = [{', '.join(_text(str(one)) for one in keeps)}]")
    return _with_lines(data, key_id, lines, replace(key, revoked=reason, keeps=frozenset(keeps)))


def _with_lines(data: bytes, key_id: str, lines: Sequence[str], wanted: object) -> bytes:
    """The file with lines at the head of one entry; the outcome must be the same policy but for that key."""
    before = TrustPolicy.parse(data)
    for candidate in _candidates(data.decode(), "\n".join(lines) + "\n"):
        try:
            after = TrustPolicy.parse(candidate)
        except MalformedRecord:
            continue
        if after.keys == {**before.keys, key_id: wanted}:
            return candidate
    raise Refused("The entry of the key cannot be changed in place.", remedy=_REMEDY)


def _candidates(text: str, lines: str) -> Iterator[bytes]:
    """The file with the lines at the head of each entry in turn."""
    for match in _ENTRY.finditer(text):
        yield (text[: match.end()] + lines + text[match.end() :]).encode()


def _text(value: str) -> str:
    """A basic string of TOML, which for printable text is spelled as JSON spells it."""
    return json.dumps(value, ensure_ascii=False)
