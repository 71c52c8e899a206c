"""One value, one spelling; arithmetic that no host's libm can change."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.core import decimals
from registry.errors import MalformedRecord

FINITE = st.decimals(
    allow_nan=False, allow_infinity=False, min_value=Decimal("-1e30"), max_value=Decimal("1e30"), places=12
)


@given(FINITE)
def test_what_is_written_reads_back_as_the_same_value(value: Decimal) -> None:
    assert decimals.read(decimals.write(value)) == value


@given(FINITE, st.integers(min_value=0, max_value=6))
def test_equal_values_have_one_spelling(value: Decimal, zeros: int) -> None:
    padded = Decimal(f"{value:f}{'0' * zeros}")
    assert decimals.write(padded) == decimals.write(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "0"),
        ("-0.0", "0"),
        ("0.950", "0.95"),
        ("100", "100"),
        ("1E+5", "100000"),
        ("-0.00000012", "-1.2e-7"),
        ("0.000001", "0.000001"),
        ("1.034019935E-15", "1.034019935e-15"),
        ("1e30", "1e+30"),
    ],
)
def test_spellings(value: str, text: str) -> None:
    assert decimals.write(Decimal(value)) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.0",
        "01",
        "+1",
        " 1",
        "1_0",
        "1E5",
        "1e5",
        ".5",
        "-0",
        "nan",
        "inf",
        "1e999999999",
        "١",
        "0x1",
        None,
        1,
        1.5,
        "1" * 70,
    ],
)
def test_a_second_spelling_is_refused(text: object) -> None:
    with pytest.raises(MalformedRecord):
        decimals.read(text)


@pytest.mark.parametrize("value", [Decimal("nan"), Decimal("inf"), Decimal("1e-500"), Decimal("0." + "1" * 60)])
def test_what_no_record_can_hold_is_refused(value: Decimal) -> None:
    with pytest.raises(MalformedRecord):
        decimals.write(value)


def test_a_float_rounds_as_the_binary_number_that_it_is() -> None:
    assert decimals.round_places(2.675, 2) == Decimal("2.67")
    assert decimals.round_places(0.1, 3) == Decimal("0.100")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e300])
def test_a_float_without_that_many_decimals_is_refused(value: float) -> None:
    with pytest.raises(MalformedRecord):
        decimals.round_places(value, 6)


def test_powers_are_right_to_the_last_working_digit() -> None:
    assert decimals.power(2, Decimal("0.5")) == Decimal("1.4142135623730950488016887242096980785696718753769")
