"""How the budget is divided over the nodes, in real numbers for predictions and exactly for a run.

sigma_A^2 = sum_B sqrt(L_B) / (beta sqrt(L_A)) minimises the total weighted squared error at cost beta; the total is
then (sum_A sqrt(L_A))^2 / beta (QuerySmasher, arXiv 2604.00868, section 6.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from qcompile.arrays import Array, IntArray
from qcompile.errors import IntegrityError

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
        """Of a measurement: sigma^2 + grid^2 / 12."""
        return self.sigma**2 + self.grid**2 / 12


def root_total(losses: Array, members: IntArray) -> float:
    """``sum_A sqrt(L_A)`` over all nodes, from one loss per class."""
    return float(members @ np.sqrt(losses))


def unit_variances(losses: Array, members: IntArray) -> Array:
    """sigma_A^2 at cost 1, one per class."""
    return np.asarray(root_total(losses, members) / np.sqrt(losses))


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
      IntegrityError: the costs recomputed from the scales do not add up to the charge; nothing may be drawn.
    """
    weights = [Fraction(math.sqrt(loss)) for loss in losses]
    total = sum((w * m for w, m in zip(weights, members, strict=True)), Fraction(0))
    scales = []
    for w, s in zip(weights, sensitivities, strict=True):
        sigma = smallest_sigma(2 * charge * w / total, s)
        scales.append(Scale(sigma, grid(sigma), s / Fraction(sigma) ** 2))
    check_cost(scales, members, charge)
    return tuple(scales)


def check_cost(scales: Sequence[Scale], members: Sequence[int], charge: Fraction) -> None:
    """Recompute the total cost from what will be measured.

    Raises:
      IntegrityError: it is above twice the charge, or below by more than 1e-9.
    """
    total = sum((s.cost * m for s, m in zip(scales, members, strict=True)), Fraction(0))
    if scales and not 2 * charge * (1 - Fraction(1, 10**9)) <= total <= 2 * charge:
        raise IntegrityError(f"internal error: the plan costs {float(total)!r}, its budget is {float(2 * charge)!r}")


def smallest_sigma(beta: Fraction, sensitivity_squared: Fraction) -> float:
    """The smallest double sigma with ``sigma^2 beta >= sensitivity^2``, decided in rational arithmetic."""
    target = sensitivity_squared / beta
    try:
        sigma = math.sqrt(target)
    except OverflowError:
        raise IntegrityError("the budget is so small that the noise does not fit into a double") from None
    while Fraction(sigma) ** 2 < target:
        sigma = math.nextafter(sigma, math.inf)
    while Fraction(below := math.nextafter(sigma, 0.0)) ** 2 >= target:
        sigma = below
    return sigma


def grid(sigma: float) -> float:
    """The power of two g with 256 <= sigma / g < 512."""
    _, exponent = math.frexp(sigma)  # sigma = m 2^exponent, 0.5 <= m < 1
    return math.ldexp(1.0, exponent - GRID_BITS)
