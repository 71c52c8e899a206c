"""Claims: what agrees at its printed precision, and what stands against what."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core.adopted.absence import Asserted, Lost, Withheld, read_absence
from registry.core.adopted.claims import Claim, Said, agree, camps, number, sides
from registry.core.codec import Reader
from registry.core.digests import sha256
from registry.errors import MalformedRecord


def said(value: str, quantity: str = "tokens", **more: object) -> Said:
    return Said(quantity=quantity, value=value, source=f"where {value} stands", label=value, **more)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("18.0e12", "18.005e12", True),
        ("18.005e12", "18.75e12", False),
        ("390251", "390139", False),
        ("390251", "390252", False),
        ("926e9", "926.1e9", True),
        ("0.00329", "0.003290470163", True),
        ("0.00329", "0.0032955", False),
        ("704", "704", True),
        ("11.520e9", "11.5e9", True),
        ("5.36 TB", "5.36 TB", True),
        ("5.36 TB", "5.36e12", False),
        ("store_81e7e39a", "store_4d2e363d", False),
        ("NaN", "NaN", True),
        ("1" * 60, "1" * 60, True),
    ],
)
def test_printed_figures_agree_when_one_number_rounds_to_both(one: str, other: str, same: bool) -> None:
    assert agree(said(one), said(other)) is same
    assert agree(said(other), said(one)) is same


def test_about_gives_room_and_no_more() -> None:
    about = said("741e9", about=True)
    assert agree(about, said("741104910336"))
    assert agree(about, said("742e9"))
    assert not agree(about, said("926.1e9"))
    assert not agree(said("741e9"), said("742e9"))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0908920c86", "0908920c86" + "a" * 30, True),
        ("0908920c86", "0908920c87" + "a" * 30, False),
        ("0908920", "0908920", True),
        ("0908", "09081", False),
    ],
)
def test_a_commit_cut_short_agrees_with_what_begins_so(one: str, other: str, same: bool) -> None:
    assert agree(said(one, "commit"), said(other, "commit")) is same


def test_only_commits_may_be_cut_short() -> None:
    assert not agree(said("0908920c86", "run"), said("0908920c86aaaa", "run"))


def test_camps_name_each_side_with_its_sources() -> None:
    groups = camps([said("390251"), said("390139"), said("390251", derived=True)])
    assert [[one.value for one in group] for group in groups] == [["390251", "390251"], ["390139"]]
    assert sides(groups[1]) == "390139 (390139)"
    assert len(camps([said("1"), said("1")])) == 1


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_is_none(text: str) -> None:
    found = number(text)
    assert found is None or found.is_finite()
    assert agree(said(text or "x"), said(text or "x"))


@pytest.mark.parametrize("value", ["", "  ", "a\nb", "a\x1b[31m", "\u202ex", "x" * 4001])
def test_values_that_say_nothing_or_could_move_a_cursor_are_refused(value: str) -> None:
    with pytest.raises(MalformedRecord):
        Claim(quantity="q", value=value, source="s", about=False, note="")


@pytest.mark.parametrize(
    "absence",
    [
        Lost(reason="deleted in a clean-up"),
        Withheld(reason="licence", digest=None),
        Withheld(reason="licence", digest=sha256(b"data")),
        Asserted(by="an issue"),
    ],
)
def test_an_absence_is_read_back_with_its_reason(absence: Lost | Withheld | Asserted) -> None:
    assert read_absence(Reader(absence.to_json(), "an absence")) == absence
    assert absence.reason


@pytest.mark.parametrize(
    "value",
    [
        {"absence": "lost", "reason": " "},
        {"absence": "gone", "reason": "x"},
        {"absence": "withheld", "reason": "x"},
        {"absence": "withheld", "reason": "x", "digest": "md5:0"},
        {"absence": "asserted", "by": ""},
        {"absence": "lost", "reason": "x", "more": 1},
        "lost",
    ],
)
def test_an_absence_without_a_reason_or_of_another_kind_is_refused(value: object) -> None:
    with pytest.raises(MalformedRecord):
        read_absence(Reader(value, "an absence"))
