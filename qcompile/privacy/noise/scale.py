"""The scale of a Gaussian, found exactly: the smallest double that a cost allows, and its grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from qcompile.errors import BudgetError

GRID_BITS = 9
"""The grid g is the power of two with 2^8 <= sigma / g < 2^9."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The noise of every node of a class.

    Attributes:
      sigma: standard deviation of the Gaussian.
      grid: the power of two to whose multiples measurements are rounded.
      cost: the privacy cost beta of one node, exactly.
    """

    sigma: float
    grid: float
    cost: Fraction

    @property
    def variance(self) -> float:
        """Variance of a measurement, sigma^2 + grid^2 / 12, in counts**2; 0 for a public node."""
        return self.sigma**2 + self.grid**2 / 12 if self.sigma else 0.0


PUBLIC = Scale(sigma=0.0, grid=2.0**-8, cost=Fraction(0))
"""The scale of a public node: its answers, multiples of the number of rows, are the same on all neighbouring tables."""


def measurement_scale(beta: Fraction, sensitivity_squared: Fraction) -> Scale:
    """The noise of a measurement that may cost ``beta``; arguments and errors as of `smallest_sigma`."""
    sigma = smallest_sigma(beta, sensitivity_squared)
    return Scale(sigma, grid(sigma), sensitivity_squared / Fraction(sigma) ** 2)


def smallest_sigma(beta: Fraction, sensitivity_squared: Fraction) -> float:
    """The smallest double whose square times ``beta`` is at least ``sensitivity_squared``, decided exactly.

    Args:
      beta: the cost that the mechanism may spend, > 0 (rho is half of it).
      sensitivity_squared: the squared L2 sensitivity, > 0, in counts**2.

    Returns:
      The standard deviation of the noise, in counts.

    Raises:
      BudgetError: an argument is not > 0, or the result is no normal double.
    """
    if not (beta > 0 and sensitivity_squared > 0):
        received = f"beta={beta}, sensitivity_squared={sensitivity_squared}"
        raise BudgetError(f"a noise scale needs both > 0, got {received}; a node without sensitivity needs no noise")
    return root_up(Fraction(sensitivity_squared) / beta)


def root_up(square: Fraction) -> float:
    """The smallest double whose square is at least ``square``.

    Raises:
      BudgetError: it is no normal double.
    """
    # With square * 4^e in [2^104, 2^106) its root lies in [2^52, 2^53): there the doubles times 2^e are the integers.
    # The difference d of the bit lengths has 2^(d-1) < square < 2^(d+1), so the first e is right or one too small.
    e = (105 - (square.numerator.bit_length() - square.denominator.bit_length())) // 2
    if square * Fraction(4) ** e < 2**104:
        e += 1
    scaled = square * Fraction(4) ** e
    root = math.isqrt(math.floor(scaled))
    if root * root < scaled:
        root += 1
    if not -900 < e < 1000:
        raise BudgetError("the noise scale is beyond the range of doubles; choose a budget nearer to 1")
    return math.ldexp(root, -e)


def grid(sigma: float) -> float:
    """The power of two g with ``256 <= sigma / g < 512``: the granularity of every measurement.

    Raises:
      BudgetError: sigma is not a finite number > 0 with a normal grid.
    """
    if not 1e-290 < sigma < 1e290:
        raise BudgetError(f"the noise scale {sigma!r} is too extreme to be drawn; choose a budget nearer to 1")
    _, exponent = math.frexp(sigma)
    return math.ldexp(1.0, exponent - GRID_BITS)
