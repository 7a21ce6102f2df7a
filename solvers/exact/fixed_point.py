"""The multiplicative fixed point: cheap steps that never need more than the certificate itself.

mu_j <- mu_j (v_j / S)^p is the multiplicative algorithm for optimal designs (Yu 2010), monotone in S for exponents up
to 1. Larger exponents need half to a third of the iterations; they are tried first and taken back when S falls.
"""

from __future__ import annotations

from typing import Protocol

from qcompile.solvers.exact.certificate import DualPoint, Incumbent
from qcompile.support.arrays import Array

FASTEST = 3.0
"""Largest exponent: 4 was seen to cycle."""

PATIENCE = 20
"""Iterations without any improvement before double precision is taken to be exhausted."""


class Dual(Protocol):
    """A dual problem: dense in blocks, or of a structure of its own."""

    @property
    def sizes(self) -> Array:
        """Number of cells per orbit."""

    def evaluate(self, mu: Array) -> DualPoint:
        """The certificate at ``mu``."""


def fixed_point(problem: Dual, start: DualPoint, best: Incumbent, gap: float, iterations: int) -> DualPoint:
    """Iterate until the certified gap is at most ``gap``, the iterations are used up, or nothing improves.

    Args:
      problem: gives the certificate at any weights.
      start: where to begin; its weights must be positive wherever the optimum's may be.
      best: updated with every point.
      gap: relative, of the squared error.
      iterations: the most eigendecompositions.

    Returns:
      The last point.
    """
    point, exponent, stalled = start, FASTEST, 0
    for _ in range(iterations):
        if best.gap <= gap or stalled > PATIENCE:
            break
        mu = point.mu * (point.variances / point.value) ** exponent
        following = problem.evaluate(mu / (problem.sizes @ mu))
        if following.value < point.value and exponent > 1:
            exponent = 1.0  # the step was too long: back to the monotone one, from the same point
            continue
        stalled = 0 if best.add(following) else stalled + 1
        point, exponent = following, min(FASTEST, exponent + 0.5)
    return point
