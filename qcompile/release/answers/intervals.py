"""Half-widths of confidence intervals, pointwise or for a whole family at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from qcompile.errors import OptionError
from qcompile.queries.factors.explicit import hash64
from qcompile.support.arrays import Array

SIMULATED_QUERIES = 10_000
"""Queries up to which the maximum of |z| is simulated, in seconds; beyond it Bonferroni's bound is nearly as sharp."""

SIMULATED_NUMBERS = 2 * 10**8
"""Normal numbers that a simulation may take: some seconds."""

SIMULATIONS = 2000


@dataclass(frozen=True)
class Width:
    """Half-width of an interval, in standard errors.

    Attributes:
      quantile: of |z|.
      method: for people, e.g. "pointwise 95 %".
    """

    quantile: float
    method: str


def check_alpha(alpha: float) -> None:
    """Refuse anything but a probability strictly between 0 and 1.

    Raises:
      OptionError: names the value.
    """
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 < alpha < 1:
        raise OptionError(f"alpha must be between 0 and 1 (0.05 means 95 % intervals), got {alpha!r}")


def pointwise(alpha: float) -> Width:
    """Each interval covers its own answer with probability 1 - alpha."""
    return Width(upper_quantile(alpha / 2), f"pointwise {100 * (1 - alpha):g} %")


def upper_quantile(p: float) -> float:
    """The standard normal's upper p-quantile."""
    from scipy.special import ndtri

    return -float(ndtri(p))


def bonferroni(alpha: float, queries: int) -> Width:
    """All intervals cover together with probability at least 1 - alpha, whatever the correlation."""
    return Width(upper_quantile(alpha / 2 / queries), f"simultaneous {100 * (1 - alpha):g} %, Bonferroni")


def simulated(alpha: float, draw: Callable[[int, int], Array]) -> Width:
    """All intervals cover together with probability 1 - alpha, from simulated errors of known covariance.

    Args:
      alpha: of the joint interval.
      draw: ``(first, count)`` to ``max |z|`` of the simulations with these numbers, shape ``(count,)``.
    """
    batch = 50
    maxima = np.sort(np.concatenate([draw(i, min(batch, SIMULATIONS - i)) for i in range(0, SIMULATIONS, batch)]))
    rank = min(SIMULATIONS, math.ceil((1 - alpha) * (SIMULATIONS + 1)))
    return Width(float(maxima[rank - 1]), f"simultaneous {100 * (1 - alpha):g} %, simulated")


def normals(stream: int, first: int, shape: Sequence[int]) -> Array:
    """Standard normal numbers from a fixed counter-based hash: a quadrature rule, not noise; no generator is involved.

    Args:
      stream: distinguishes nodes.
      first: number of the first simulation.
      shape: ``(rows, simulations)``.
    """
    from scipy.special import ndtri

    rows, count = shape
    numbers = np.add.outer(np.arange(rows, dtype=np.uint64) * np.uint64(SIMULATIONS), first + np.arange(count))
    uniform = ((hash64(stream, numbers.astype(np.uint64)) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(ndtri(uniform))
