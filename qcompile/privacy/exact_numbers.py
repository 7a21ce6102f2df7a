"""Privacy parameters as exact fractions: what may be written, how it is read, how it is shown.

A float is read by its shortest repr, so 0.1 is 1/10 and ten of them are one. Everything that is not a finite number
above zero is refused by name: no comparison here can be passed by a NaN, and no text can make the reader hang.
"""

from __future__ import annotations

import math
import numbers
import re
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from qcompile.errors import BudgetError

Number: TypeAlias = int | float | str | Fraction | Decimal | np.integer[Any] | np.floating[Any]
"""Accepted types of a privacy parameter."""

SMALLEST, LARGEST = Fraction(1, 10**100), Fraction(10**100)
"""The range of every parameter: squares and ratios of two of them are still normal doubles."""

_LONGEST_TEXT = 2000
_SHOWN_BITS = 400
_MOST_BITS = 3000  # of a denominator: exact text of every accepted number is then short enough to be read again
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_RATIO = re.compile(r"([+-]?[0-9]+) */ *([0-9]+)")
_SHORT_BITS, _SHORT_TEXT = 256, 20
_WAYS = "give a number > 0 such as 1, 0.1, 1e-9 or 1/49"


def exact(name: str, value: object) -> Fraction:
    """``value`` as a fraction.

    Args:
      name: the parameter's name, for the message.
      value: int, Fraction, Decimal, float, NumPy scalar of those kinds, or text ("1", "0.1", "1/49", "1e-9").

    Returns:
      The exact value, in ``[1e-100, 1e100]``; a float counts as the decimal number that it prints as.

    Raises:
      BudgetError: not a number, not finite, not > 0, out of that range, or of more than about 900 digits.
    """
    number = finite(name, value)
    if not number > 0:
        raise BudgetError(f"{name}={shown(value)} must be > 0; {_WAYS}")
    if not SMALLEST <= number <= LARGEST:
        raise BudgetError(f"{name}={shown(value)} is outside 1e-100..1e100; give a value within that range")
    return number


def finite(name: str, value: object) -> Fraction:
    """``value`` as a fraction, of any sign and size.

    Raises:
      BudgetError: it is not a finite number, or has more than about 900 digits.
    """
    number = None if _is_long(value) else _read(value)
    if _is_long(value) or _is_long(number):
        raise BudgetError(f"{name}={shown(value)} has more than 900 digits; give a number of fewer digits")
    if number is None:
        raise BudgetError(f"{name}={shown(value)} is not a finite number; {_WAYS}")
    return number


def exact_text(value: Fraction) -> str:
    """A fraction as the shortest text that reads back exactly: a decimal where it is short, else ``a/b``."""
    text = _decimal_text(value, Context(prec=17))
    return text if Fraction(text) == value else str(value)


def rounded_text(value: Fraction, *, up: bool = False, down: bool = False) -> str:
    """A fraction in six significant digits, to the nearest or, for claims that must hold, upwards or downwards."""
    rounding = ROUND_CEILING if up else ROUND_FLOOR if down else ROUND_HALF_EVEN
    return _decimal_text(value, Context(prec=6, rounding=rounding))


def amount_text(value: Fraction) -> str:
    """A fraction exactly where that is short, else in six digits."""
    # Sums of unrelated fractions may have more digits than Python turns into text.
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    text = str(value) if bits < _SHORT_BITS else ""
    return text if text and len(text) <= _SHORT_TEXT else rounded_text(value)


def shown(value: object) -> str:
    """A value as a message quotes it: as it was written, cut when long."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"(an integer of {value.bit_length()} bits)"
    if isinstance(value, Fraction) and max(map(int.bit_length, (value.numerator, value.denominator))) > _SHOWN_BITS:
        return f"(a fraction of {value.denominator.bit_length()} bits below the line)"
    if isinstance(value, np.generic):
        return str(value)
    text = str(value) if isinstance(value, Fraction | Decimal) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _decimal_text(value: Fraction, context: Context) -> str:
    if not value:
        return "0"
    # The operands are exact whatever the context; the quotient is rounded once.
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    if not 1e-4 <= quotient < 10**15:
        return f"{context.normalize(quotient):e}".replace("e+", "e")
    text = f"{quotient:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _is_long(value: object) -> bool:
    """True if a number has too many digits to be read, or printed exactly, in short time."""
    if isinstance(value, Decimal):
        return value.is_finite() and len(value.as_tuple().digits) > _LONGEST_TEXT
    if isinstance(value, Fraction):
        return value.denominator.bit_length() > _MOST_BITS
    return isinstance(value, str) and len(value) > _LONGEST_TEXT


def _read(value: object) -> Fraction | None:
    if isinstance(value, bool | np.bool_ | np.timedelta64):  # NumPy counts durations among its integers
        return None
    if isinstance(value, str):
        return _read_text(value)
    if isinstance(value, float | np.floating):
        # str of a NumPy scalar is the shortest text of its own width: float32(0.1) is 1/10 too.
        return _read_text(str(value)) if math.isfinite(value) else None
    if isinstance(value, Decimal):
        # Not by comparing: a signalling NaN would raise. A huge exponent would become as many digits.
        usable = value.is_finite() and (value.is_zero() or abs(value.adjusted()) < 400)
        return Fraction(0 if value.is_zero() else value) if usable else None
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return None


def _read_text(text: str) -> Fraction | None:
    text = text.strip()
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    ratio = _RATIO.fullmatch(text)
    if ratio is None or int(ratio[2]) == 0:
        return None
    return Fraction(int(ratio[1]), int(ratio[2]))
