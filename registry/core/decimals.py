"""Decimals in records: one value, one string, the same on every host.

A record holds no floats. A rate or a loss is an exact decimal, written positionally when it is of ordinary size and as
``d.ddde-15`` otherwise, never with a trailing zero. Refuses any second spelling, infinities and not-a-number.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction

from registry.errors import MalformedRecord

WORKING_DIGITS = 50
CONTEXT = Context(prec=WORKING_DIGITS, rounding=ROUND_HALF_EVEN)
_LONGEST = 64
_SMALLEST_POSITIONAL = -6
_LARGEST_POSITIONAL = 20
_LARGEST_EXPONENT = 400


def write(value: Decimal | int) -> str:
    """Return the one spelling of ``value``. Raises ``MalformedRecord`` when it is not finite or too long."""
    exact = _bounded(Decimal(value))
    sign, digits, exponent = CONTEXT.normalize(exact).as_tuple()
    mantissa = "".join(map(str, digits))
    text = _spell(mantissa, int(exponent)) if mantissa != "0" else "0"
    if len(text) > _LONGEST or _read_loosely(text) != exact.copy_abs():
        raise MalformedRecord(f"A decimal of {len(exact.as_tuple().digits)} digits is too long for a record.")
    return f"-{text}" if sign and text != "0" else text


def read(text: object) -> Decimal:
    """Return the decimal that ``text`` spells. Raises ``MalformedRecord`` for what ``write`` would not write."""
    if not isinstance(text, str) or len(text) > _LONGEST + 1:
        raise MalformedRecord(f"{str(text)[:_LONGEST]!r} is not a decimal string.")
    value = _read_loosely(text)
    if write(value) != text:
        raise MalformedRecord(f"{text!r} has another spelling: write {write(value)!r}.")
    return value


def round_digits(value: Decimal, digits: int) -> Decimal:
    """``value`` to ``digits`` significant digits, half to even."""
    return Context(prec=digits, rounding=ROUND_HALF_EVEN).plus(value)


def round_places(value: Decimal | float, places: int) -> Decimal:
    """``value`` to ``places`` decimals, half to even; a float is taken as the exact binary number that it is."""
    exact = _bounded(Decimal(value))
    if exact.adjusted() + places >= WORKING_DIGITS:
        raise MalformedRecord(f"{exact:.3e} with {places} decimals has too many digits for a record.")
    return exact.quantize(Decimal(1).scaleb(-places), context=CONTEXT)


def power(base: Decimal | int, exponent: Decimal) -> Decimal:
    """``base ** exponent`` to ``WORKING_DIGITS`` digits. Decimal arithmetic: no libm, so no host differs."""
    return CONTEXT.power(Decimal(base), exponent)


def divide(value: Fraction) -> Decimal:
    """A fraction as a decimal of ``WORKING_DIGITS`` digits."""
    return CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def ratio(value: Decimal, by: Decimal) -> Decimal:
    """``value / by`` to ``WORKING_DIGITS`` digits."""
    return CONTEXT.divide(value, by)


def subtract(value: Decimal, less: Decimal) -> Decimal:
    """``value - less``, exact up to ``WORKING_DIGITS`` digits whatever the surrounding decimal context is."""
    return CONTEXT.subtract(value, less)


def multiply(*factors: Decimal) -> Decimal:
    """The product of ``factors``, rounded to ``WORKING_DIGITS`` digits at every step, from left to right."""
    product = Decimal(1)
    for factor in factors:
        product = CONTEXT.multiply(product, factor)
    return product


def _read_loosely(text: str) -> Decimal:
    try:
        return _bounded(Decimal(text))
    except InvalidOperation as error:
        raise MalformedRecord(f"{text!r} is not a decimal string.") from error


def _bounded(value: Decimal) -> Decimal:
    if not value.is_finite() or (value and abs(value.adjusted()) > _LARGEST_EXPONENT):
        raise MalformedRecord(f"{str(value)[:_LONGEST]} is not a finite number of a size that a record can hold.")
    return value


def _spell(mantissa: str, exponent: int) -> str:
    point = len(mantissa) + exponent
    if not _SMALLEST_POSITIONAL < point <= _LARGEST_POSITIONAL + 1:
        fraction = f".{mantissa[1:]}" if len(mantissa) > 1 else ""
        return f"{mantissa[0]}{fraction}e{point - 1:+d}"
    if exponent >= 0:
        return mantissa + "0" * exponent
    if point > 0:
        return f"{mantissa[:point]}.{mantissa[point:]}"
    return f"0.{'0' * -point}{mantissa}"
