"""Which licences the corpus may hold, and how a wheel's metadata spells them.

A wheel states its licence in ``License-Expression``, ``License`` or classifiers. Every statement must be a spelling of
the licence that the settings give. Refuses a licence that is not in the table, a wheel that states none, and one that
states anything else beside it.
"""

from __future__ import annotations

from collections.abc import Iterable
from email.message import Message

from registry.errors import DoesNotHold, Refused

_CLASSIFIER = "license :: "

SPELLINGS: dict[str, frozenset[str]] = {
    "MIT": frozenset({"mit", "mit license", "the mit license", "osi approved :: mit license"}),
    "BSD-2-Clause": frozenset({"bsd-2-clause", "bsd 2-clause license", "osi approved :: bsd license"}),
    "BSD-3-Clause": frozenset({"bsd-3-clause", "bsd 3-clause license", "bsd", "osi approved :: bsd license"}),
    "Apache-2.0": frozenset(
        {
            "apache-2.0",
            "apache 2.0",
            "apache 2.0 license",
            "apache license 2.0",
            "apache license, version 2.0",
            "osi approved :: apache software license",
        }
    ),
    "PSF-2.0": frozenset({"psf-2.0", "psf", "osi approved :: python software foundation license"}),
}


def check_permitted(licence: str) -> str:
    """Return ``licence`` (an SPDX id) when the corpus may hold it; raises ``Refused`` otherwise."""
    if licence not in SPELLINGS:
        raise Refused(
            f"{licence!r} is not a licence that the corpus takes.", remedy=f"It takes {', '.join(sorted(SPELLINGS))}."
        )
    return licence


def check_stated(metadata: Message, licence: str, wheel: str) -> None:
    """Raise ``DoesNotHold`` unless every licence that the wheel's metadata states is a spelling of ``licence``."""
    stated = sorted(set(_statements(metadata)))
    foreign = [words for words in stated if words.casefold() not in SPELLINGS[check_permitted(licence)]]
    if not stated or foreign:
        words = " and ".join(repr(item) for item in foreign) or "no licence"
        raise DoesNotHold(
            f"The metadata of {wheel} states {words}, not {licence}.",
            remedy="Correct the licence in params.yaml, or take another wheel.",
        )


def _statements(metadata: Message) -> Iterable[str]:
    for key in ("License-Expression", "License"):
        yield from (" ".join(str(value).split()) for value in metadata.get_all(key, []))
    for value in metadata.get_all("Classifier", []):
        if str(value).casefold().startswith(_CLASSIFIER):
            yield str(value)[len(_CLASSIFIER) :].strip()
