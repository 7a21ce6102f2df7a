"""How the budget is divided over the nodes, in real numbers for predictions and exactly for a run.

With L_A the loss of a node at unit noise and c_A its squared sensitivity, sigma_A^2 = sqrt(c_A / L_A) S / beta with
S = sum_B sqrt(c_B L_B) minimises the total weighted squared error at cost beta; the total is then S^2 / beta
(QuerySmasher, arXiv 2604.00868, section 6.4, where every c_A is 1). A node with c_A = 0 is public and has no noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from qcompile.arrays import Array, IntArray
from qcompile.errors import BudgetError, InternalError

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
        """Of a measurement: sigma^2 + grid^2 / 12; 0 for a node that is public."""
        return self.sigma**2 + self.grid**2 / 12 if self.sigma else 0.0


PUBLIC = Scale(sigma=0.0, grid=2.0**-8, cost=Fraction(0))
"""Of a node whose answers no neighbouring table changes: multiples of the number of rows, without noise."""


def root_total(losses: Array, members: IntArray) -> float:
    """``sum_A sqrt(L_A)`` over all nodes, from one loss (times its squared sensitivity) per class."""
    return float(members @ np.sqrt(losses))


def unit_variances(losses: Array, members: IntArray, sensitivities: Array) -> Array:
    """sigma_A^2 at cost 1, one per class."""
    return np.asarray(root_total(losses * sensitivities, members) * np.sqrt(sensitivities / losses))


def exact_scales(
    losses: Sequence[float], members: Sequence[int], sensitivities: Sequence[Fraction], charge: Fraction
) -> tuple[Scale, ...]:
    """The scales of a run that spends ``charge``, one per class.

    Args:
      losses: L per class.
      members: number of nodes per class.
      sensitivities: exact upper bound of the squared sensitivity of one node of each class.
      charge: rho, exactly.

    Raises:
      BudgetError: there is nothing to spend a budget on, as no neighbouring table changes any answer.
      InternalError: the costs recomputed from the scales do not add up to the charge; nothing may be drawn.
    """
    weights = [_root(Fraction(loss) * s) for loss, s in zip(losses, sensitivities, strict=True)]
    total = sum((w * m for w, m in zip(weights, members, strict=True)), Fraction(0))
    if weights and not total:
        raise BudgetError("no neighbouring table changes any answer: publish them without a budget")
    scales = []
    for w, s in zip(weights, sensitivities, strict=True):
        scales.append(measurement_scale(2 * charge * w / total, s) if s else PUBLIC)
    check_cost(scales, members, charge)
    return tuple(scales)


def measurement_scale(beta: Fraction, sensitivity_squared: Fraction) -> Scale:
    """The noise of a measurement that may cost ``beta``; arguments and errors as of `smallest_sigma`."""
    sigma = smallest_sigma(beta, sensitivity_squared)
    return Scale(sigma, grid(sigma), sensitivity_squared / Fraction(sigma) ** 2)


def _root(square: Fraction) -> Fraction:
    """A double near the root, as a fraction: weights need not be exact, only add up exactly."""
    return Fraction(math.sqrt(square))


def check_cost(scales: Sequence[Scale], members: Sequence[int], charge: Fraction) -> None:
    """Recompute the total cost from what will be measured.

    Raises:
      InternalError: it is above twice the charge, or below by more than 1e-9.
    """
    total = sum((s.cost * m for s, m in zip(scales, members, strict=True)), Fraction(0))
    if scales and not 2 * charge * (1 - Fraction(1, 10**9)) <= total <= 2 * charge:
        raise InternalError(f"the plan costs {float(total)!r}, its budget is {float(2 * charge)!r}")


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
        given = f"beta={beta}, sensitivity_squared={sensitivity_squared}"
        raise BudgetError(f"a noise scale needs both > 0, got {given}; a node without sensitivity needs no noise")
    return root_up(Fraction(sensitivity_squared) / beta)


def root_up(square: Fraction) -> float:
    """The smallest double whose square is at least ``square``.

    Raises:
      BudgetError: it is no normal double.
    """
    # With square * 4^e in [2^104, 2^106) its root lies in [2^52, 2^53): there the doubles times 2^e are the integers.
    e = (105 - (square.numerator.bit_length() - square.denominator.bit_length())) // 2
    if square * Fraction(4) ** e >= 2**106:
        e -= 1
    elif square * Fraction(4) ** e < 2**104:
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
