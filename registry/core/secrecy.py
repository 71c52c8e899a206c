"""Secrets that must not leave with a release: patterns of tokens and private keys, found in any bytes.

Looked for in a stream of pieces, so that a file of any size costs the memory of one piece, and a secret across the
border of two pieces is found. Every kind has words that any secret of it holds; only where one of them stands is the
pattern tried. What is found is told by kind and place, never shown. Refuses nothing itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

OVERLAP: Final = 512
_BEFORE, _AFTER = 96, 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """Something that looks like a secret: what it is, and the byte where it begins."""

    kind: str
    at: int


_PATTERNS: Final = (
    ("a private key", (b"PRIVATE KEY",), rb"-----BEGIN (?:[A-Z0-9]{2,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"),
    ("a Hugging Face token", (b"hf_",), rb"(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{30,64}(?![A-Za-z0-9])"),
    ("a GitHub token", (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"(?<!\w)gh[pousr]_[A-Za-z0-9]{36,255}"),
    ("a GitHub token", (b"github_pat_",), rb"(?<!\w)github_pat_[A-Za-z0-9_]{60,255}"),
    ("a GitLab token", (b"glpat-",), rb"(?<!\w)glpat-[\w-]{20,200}"),
    ("an AWS key", (b"AKIA", b"ASIA"), rb"(?<![A-Za-z0-9])(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])"),
    ("a Google key", (b"AIza",), rb"(?<![\w-])AIza[\w-]{35}(?![\w-])"),
    ("a Slack token", (b"xox",), rb"(?<!\w)xox[abprs]-[0-9A-Za-z-]{20,200}"),
    ("an OpenAI or Anthropic key", (b"sk-",), rb"(?<!\w)sk-(?:ant-|proj-)?[\w-]{40,200}"),
    ("a package index token", (b"pypi-AgEI",), rb"(?<!\w)pypi-AgEI[\w-]{50,250}"),
    (
        "a W&B key",
        (b"wandb", b"WANDB"),
        rb"(?i:wandb[._-](?:api[._-])?key)[\"' ]{0,3}[:=][\"' ]{0,3}[0-9a-f]{40}(?![0-9a-f])",
    ),
    (
        "a bearer token",
        (b"earer ", b"BEARER "),
        rb"(?i:authorization)[\"' ]{0,3}:[\"' ]{0,3}(?i:bearer) [\w.~+/-]{20,300}",
    ),
    ("an address with a password", (b"://",), rb"[a-z][a-z0-9+.-]{1,20}://[\w.%+-]{1,64}:[^\s@/\"'<>{}$:]{3,128}@"),
)
_COMPILED: Final = tuple((kind, words, re.compile(pattern)) for kind, words, pattern in _PATTERNS)


def secrets_in(pieces: Iterable[bytes]) -> Iterator[Secret]:
    """What looks like a secret in the joined pieces, each once."""
    kept, start, told = b"", 0, set[Secret]()
    for piece in pieces:
        window = kept + piece
        for found in _in(window):
            here = Secret(kind=found.kind, at=start + found.at)
            if here not in told:
                told.add(here)
                yield here
        kept = window[-OVERLAP:]
        start += len(window) - len(kept)


def _in(window: bytes) -> Iterator[Secret]:
    for kind, words, pattern in _COMPILED:
        for word in words:
            at = window.find(word)
            while at >= 0:
                match = pattern.search(window, max(0, at - _BEFORE), at + _AFTER)
                if match is not None and match.start() <= at < match.end():
                    yield Secret(kind=kind, at=match.start())
                at = window.find(word, at + len(word))
