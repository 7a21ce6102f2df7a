"""The log-linear model without the interaction of all attributes of a node, by iterative proportional fitting.

Of all tables with given marginals on all but one attribute it is the one of maximum entropy: what the smaller marginals
say, and nothing else (Deming, Stephan 1940; Bishop, Fienberg, Holland 1975).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qcompile.estimates.forest import ratio
from qcompile.support.arrays import Array

SWEEPS = 8
"""Passes over all marginals at most: noisy marginals contradict each other, and four passes do what thirty do."""

TOLERANCE = 1e-3
"""Largest distance in L1 to the given marginals, relative to their sum, at which fitting stops."""


def conditional_start(covers: Sequence[Array], i: int, j: int) -> Array:
    """The table in which attributes i and j are independent given all others.

    Args:
      covers: entry a is the marginal on all attributes but number a, non-negative.
      i: an axis.
      j: another axis, j > i.
    """
    without_i, without_j = covers[i], covers[j]
    rest = without_i.sum(axis=j - 1)
    scaled = ratio(without_i, np.expand_dims(rest, j - 1))
    return np.expand_dims(without_j, j) * np.expand_dims(scaled, i)


def fit(covers: Sequence[Array], start: Array, sweeps: int = SWEEPS, tolerance: float = TOLERANCE) -> Array:
    """Scale a table until its marginals are those given.

    Args:
      covers: entry a is the marginal on all attributes but number a, non-negative.
      start: where to begin; its interactions are kept. It is written over.
      sweeps: passes at most.
      tolerance: of the marginals, in L1, relative; where they contradict each other it is not reached.

    Returns:
      The table.
    """
    for _ in range(sweeps):
        off = 0.0
        for axis, wanted in enumerate(covers):
            held = start.sum(axis=axis)
            off = max(off, float(np.abs(held - wanted).sum()))
            start *= np.expand_dims(ratio(wanted, held), axis)
        if off <= tolerance * float(covers[0].sum()):
            break
    return start
