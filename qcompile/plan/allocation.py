"""Division of the budget over the nodes, in real numbers for predictions and exactly for a run.

With L_A the loss of a node at unit noise and c_A its squared sensitivity, sigma_A^2 = sqrt(c_A / L_A) S / beta with
S = sum_B sqrt(c_B L_B) minimises the total weighted squared error at cost beta; the total is then S^2 / beta
(QuerySmasher, arXiv 2604.00868, section 6.4, where every c_A is 1). A node with c_A = 0 is public and has no noise.

Where one row is replaced the cost is the largest of several sums of x_A = 1 / sigma_A^2, ``max_D (C x)_D``, see
`qcompile.privacy.joint_distance`. Minimising sum_A L_A / x_A under C x <= 1 is convex; for any weights w of the sums,
x_A proportional to sqrt(L_A / (C' w)_A) is best under the one constraint w' C x <= 1, whose least error

    (sum_A sqrt(L_A (C' w)_A))^2

is a lower bound of the least error under all of them. The weights follow the sums: w_D <- w_D ((C x)_D)^p.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from qcompile.errors import BudgetError, InternalError
from qcompile.privacy.joint_distance import JointDistance
from qcompile.privacy.noise.scale import PUBLIC, Scale, measurement_scale
from qcompile.support.arrays import Array, IntArray

GAP = 1e-4
"""Relative, of the squared error: what the division of the budget over joint costs may leave undecided."""

ITERATIONS = 3000

MOST_WORK = 3e9
"""Multiplications of a division, at most: some seconds, whatever the gap is then."""

FASTEST = 3.0
"""Largest exponent of the weights' steps."""

DIGITS = 60
"""Bits of a precision that a cost is recomputed from."""

RESERVE = Fraction(1, 2**40)
"""Share of the budget that rounding in a recomputation may take."""


def root_total(losses: Array, members: IntArray) -> float:
    """``sum_A sqrt(L_A)`` over all nodes, from one loss (times its squared sensitivity) per class."""
    return float(members @ np.sqrt(losses))


def unit_variances(losses: Array, members: IntArray, sensitivities: Array) -> Array:
    """sigma_A^2 at cost 1, one per class."""
    return np.asarray(root_total(losses * sensitivities, members) * np.sqrt(sensitivities / losses))


def least_precisions(losses: Array, sums: Array) -> tuple[Array, Array]:
    """The precisions x that minimise ``sum L / x`` under ``C x <= 1``, to `GAP`, and the weights w that prove it.

    Args:
      losses: L of all nodes of a class together, > 0, ``(classes,)``.
      sums: C, not negative, ``(sums, classes)``. A class that no sum has a part of is public.

    Returns:
      x, 0 for public classes, scaled so that the largest sum is 1, and w, of sum 1.
    """
    noisy = sums.any(axis=0)
    precisions = np.zeros(len(losses))
    if not noisy.any():
        return precisions, np.full(len(sums), 1 / len(sums))
    distinct, place = np.unique(sums[:, noisy], axis=0, return_index=True)
    weights = np.zeros(len(sums))
    precisions[noisy], weights[place] = _multiplicative(np.sqrt(losses[noisy]), distinct)
    return precisions, weights


def joint_error(losses: Array, precisions: Array, sums: Array) -> float:
    """The total error at cost 1 of a division, arguments as of `least_precisions`."""
    noisy = precisions > 0
    return float((losses[noisy] / precisions[noisy]).sum() * (sums @ precisions).max())


def _multiplicative(roots: Array, sums: Array) -> tuple[Array, Array]:
    """`least_precisions` where all is noisy; roots: of the losses."""
    weights, exponent, last = np.full(len(sums), 1 / len(sums)), FASTEST, 0.0
    best, least, proof, proven = roots, math.inf, weights, 0.0
    for _ in range(min(ITERATIONS, 1 + int(MOST_WORK / sums.size))):
        costs = roots * np.sqrt(weights @ sums)
        bound, x = float(costs.sum()) ** 2, roots**2 / (costs * costs.sum())
        levels = sums @ x
        if bound * levels.max() < least:
            best, least = x / levels.max(), bound * float(levels.max())
        if bound > proven:
            proof, proven = weights, bound
        if least <= proven * (1 + GAP):
            break
        # A fall of the bound says that the step was too long; of exponent 1 it never falls.
        exponent = 1.0 if bound < last else min(FASTEST, exponent + 0.5)
        weights, last = weights * levels**exponent, bound
        weights /= weights.sum()
    return best, proof


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


def joint_scales(
    precisions: Sequence[float], sensitivities: Sequence[Fraction], joint: JointDistance, steps: int, charge: Fraction
) -> tuple[Scale, ...]:
    """The scales of a run whose cost is that of the worst pair of rows for all nodes together, one per class.

    Args:
      precisions: 1/sigma^2 up to a common factor, 0 for public classes only.
      sensitivities: as of `exact_scales`: each gives its node's own cost.
      joint: the costs of the pairs.
      steps: rows of one unit.
      charge: rho, exactly.

    Raises:
      BudgetError: as of `exact_scales`.
      InternalError: the cost recomputed from the scales is not the charge; nothing may be drawn.
    """
    exact = [Fraction(x) for x in precisions]
    peak = joint.largest(exact) * steps**2 / (2 * charge * (1 - RESERVE))
    scales = []
    for x, s in zip(exact, sensitivities, strict=True):
        scales.append(measurement_scale(s * x / peak, s) if s else PUBLIC)
    check_joint_cost(scales, joint, steps, charge)
    return tuple(scales)


def check_joint_cost(scales: Sequence[Scale], joint: JointDistance, steps: int, charge: Fraction) -> None:
    """Recompute the cost of the worst pair of rows from what will be measured.

    Raises:
      InternalError: it is above twice the charge, or below by more than 1e-9.
    """
    precisions = [Fraction(0) if not s.sigma else _above(1 / Fraction(s.sigma) ** 2) for s in scales]
    total = joint.largest(precisions) * steps**2
    if not 2 * charge * (1 - Fraction(1, 10**9)) <= total <= 2 * charge:
        raise InternalError(f"the plan costs {float(total)!r}, its budget is {float(2 * charge)!r}")


def _above(value: Fraction) -> Fraction:
    """A number of few digits that is at least the value, and hardly above it."""
    unit = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() - DIGITS)
    return math.ceil(value / unit) * unit


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
