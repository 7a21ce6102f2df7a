"""Rigorous real arithmetic: a thin layer over Arb (python-flint), whose numbers are balls that contain the true value.

A comparison of balls is true only if it holds for every point of them, whatever the working precision; precision only
decides how often the answer is "cannot tell". Arb's precision is one setting of the process: threads take turns here,
and whatever else changed it could make the work slower, never wrong.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

from qcompile.errors import BudgetError

DOUBLE_BITS = 53

_TURN = threading.RLock()


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Work with ``bits`` bits inside the block; other threads wait for its end."""
    import flint

    with _TURN:
        before = flint.ctx.prec
        flint.ctx.prec = bits
        try:
            yield
        finally:
            flint.ctx.prec = before


def ball(value: Fraction | int) -> Any:
    """A rational number as a ball of the current precision."""
    import flint

    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def rounded_down(value: Any) -> Fraction:
    """The lower end of a ball, rounded down to 53 significant bits.

    Raises:
      BudgetError: the ball is unbounded.
    """
    mantissa, exponent = _parts(value, value.lower())
    shift = max(0, mantissa.bit_length() - DOUBLE_BITS)
    return _scaled(mantissa >> shift, exponent + shift)


def rounded_up(value: Any) -> Fraction:
    """The upper end of a ball, rounded up to 53 significant bits.

    Raises:
      BudgetError: the ball is unbounded.
    """
    return -rounded_down(-value)


def _parts(value: Any, end: Any) -> tuple[int, int]:
    if not value.is_finite():
        raise BudgetError("a privacy parameter is too extreme to be converted; give rho instead of epsilon and delta")
    mantissa, exponent = end.man_exp()
    return int(mantissa), int(exponent)


def _scaled(mantissa: int, exponent: int) -> Fraction:
    return Fraction(mantissa << exponent) if exponent >= 0 else Fraction(mantissa, 1 << -exponent)
