"""Division of the budget over the nodes, in real numbers for predictions and exactly for a run.

With L_A the loss of a node at unit noise and c_A its squared sensitivity, sigma_A^2 = sqrt(c_A / L_A) S / beta with
S = sum_B sqrt(c_B L_B) minimises the total weighted squared error at cost beta; the total is then S^2 / beta
(QuerySmasher, arXiv 2604.00868, section 6.4, where every c_A is 1). A node with c_A = 0 is public and has no noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from qcompile.errors import BudgetError, InternalError
from qcompile.privacy.noise.scale import PUBLIC, Scale, measurement_scale
from qcompile.support.arrays import Array, IntArray


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
