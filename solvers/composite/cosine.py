"""Centred prefixes of a long axis: the optimum's square root in the cosine basis, corrected where the axis ends.

At equal weights mu the optimal V is diagonal in the cosine basis, the singular values of the prefixes its weights;
but its diagonal rises by the logarithm of the distance to an end. Scaling the cells to a diagonal of 1 leaves 0.3 % of
loss. What is left, V_opt relative to V, is the identity but for a few directions that live at the two ends: stretched
by the roots of their eigenvalues, 24 of them bring the loss to within 2e-5 of the optimum at 1,000 cells, 4e-4 at
10,000 and 9e-4 at 100,000. The optimum and its lower bound come from `PrefixLadder`, in time linear in the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from qcompile.lattice.lattice import Problem
from qcompile.lattice.ordered_grams import is_centred_prefix
from qcompile.solvers.exact.bridge import BridgeRoot
from qcompile.solvers.exact.certificate import Incumbent
from qcompile.solvers.exact.fixed_point import fixed_point
from qcompile.solvers.exact.ladder import PrefixLadder
from qcompile.solvers.route import Route
from qcompile.solvers.solution import Solution
from qcompile.strategy import CosineStrategy
from qcompile.support.arrays import Array, bytes_text
from qcompile.support.memory import has_room

LONG_CELLS = 512
"""Cells from which the route is taken: below, the dense optimum is quick and has all its digits."""

COARSE_CELLS = 256
"""Cells of the coarsest grid at most."""

RATIO = 4
"""From one grid to the next finer one."""

ITERATIONS = 100
"""Of the fixed point on a grid; 10 to 25 are usual."""

SHARE = 0.2
"""Of the tolerance, for the dual weights: the bound is then within a hundredth of it."""

DIRECTIONS = (24, 48)
"""How many are corrected, until the loss is certified to `SAFE` of the tolerance."""

SAFE = 0.9

FINEST = 2e-4
"""Smallest tolerance for which the route is taken where the dense optimum is possible, too."""

SCALINGS = 8
"""Rounds that bring all columns to norm 1; each divides what is missing by 10 or more."""

ABOVE = 2
"""Directions in which the optimum gives more: the lowest frequencies."""

DIGITS = 1e-3
"""Relative error of the directions' eigenvalues: the strategy's own loss is what counts."""

NUMBERS = 450
"""Numbers per cell that live at once: directions, their search, and a piece of the ladder's poles."""


@dataclass(frozen=True, eq=False)
class LongPrefix(Route):
    """The near-optimal strategy of centred prefixes on many cells.

    Attributes:
      gap: relative tolerance of the certified gap.
    """

    name: ClassVar[str] = "cosine basis"

    gap: float = 1e-3

    def why_not(self, problem: Problem) -> str | None:
        """A reason unless the problem is a long centred prefix alone."""
        groups = [g for t in problem.terms for g in t.groups]
        if not (len(problem.terms) == len(groups) == 1 and is_centred_prefix(groups[0].gram)):
            return "no centred prefix alone"
        if problem.cells < LONG_CELLS:
            return f"{problem.cells} cells, from {LONG_CELLS} on"
        need = 8 * NUMBERS * problem.cells
        return None if has_room(need) else f"it needs {bytes_text(float(need))} of memory"

    def solve(self, problem: Problem) -> Solution:
        """The strategy with its own loss, and the bound of the dual weights."""
        self.require(problem)
        (term,) = problem.terms
        best = dual_weights(problem.cells, SHARE * self.gap)
        bound, strategy = term.weighted * best.bound, plain_strategy(problem.cells)
        loss, directions = np.inf, 0
        for count in DIRECTIONS:
            corrected = correct(strategy, best.point.mu, count)
            found = term.weighted * corrected.trace(term.groups)
            if found < loss:
                chosen, loss, directions = corrected, found, count
            if loss <= bound * (1 + SAFE * self.gap):
                break
        return Solution(chosen, loss, bound, f"{self.name}, {directions} directions at the ends")


def dual_weights(cells: int, gap: float) -> Incumbent:
    """The optimal mu of centred prefixes, from coarse grids to fine ones."""
    sizes = [cells]
    while sizes[-1] > COARSE_CELLS:
        sizes.append(sizes[-1] // RATIO)
    mu = np.full(sizes[-1], 1 / sizes[-1])
    for n in reversed(sizes):
        ladder = PrefixLadder(np.full(n, 1 / n))
        point = ladder.evaluate(stretch(mu, n))
        best = Incumbent(point)
        fixed_point(ladder, point, best, gap, ITERATIONS)
        mu = best.point.mu
    return best


def stretch(mu: Array, cells: int) -> Array:
    """Weights on another grid: a function of ``log (x / (1 - x))``, which keeps the first cell the first; mirrored."""
    if len(mu) == cells:
        return mu
    coarse, fine = _places(len(mu)), _places(cells)
    values = np.exp(np.interp(fine / fine[-1], coarse / coarse[-1], np.log(mu)))
    values += values[::-1]
    return np.asarray(values / values.sum())


def _places(n: int) -> Array:
    x = np.arange(n) + 0.5
    return np.asarray(np.log(x / x[::-1]))


def plain_strategy(cells: int) -> CosineStrategy:
    """The root of the prefixes' Gram in the cosine basis, columns scaled to norm 1."""
    frequency = np.arange(1, cells)
    levels = np.zeros(cells + 1)
    levels[1:-1] = np.sqrt(0.5 / np.sin(frequency * np.pi / (2 * cells)))
    half = np.fft.irfft(levels, 2 * cells)[: cells + 1]
    return scaled(CosineStrategy(half, np.ones(cells), np.zeros((cells, 0)), np.zeros(0)))


def scaled(strategy: CosineStrategy) -> CosineStrategy:
    """The same filter and directions, the cells' weights such that all columns have norm 1, the largest exactly."""
    weights = strategy.weights
    for last in [False] * SCALINGS + [True]:
        norms = strategy.column_norms()
        weights = weights / np.sqrt(norms.max() if last else norms)
        strategy = CosineStrategy(strategy.half, weights, strategy.directions, strategy.gains)
    return strategy


def correct(strategy: CosineStrategy, mu: Array, count: int) -> CosineStrategy:
    """Stretch a strategy along the directions in which the optimum at mu asks for less than it gives, or for more."""
    relative = Relative(strategy, BridgeRoot(mu))
    low, directions = relative.extremes(count, "SA")
    high, others = relative.extremes(ABOVE, "LA")
    directions = np.concatenate([directions, others], axis=1)
    directions -= directions.mean(axis=0)
    gains = np.sqrt(np.concatenate([low, high])) - 1
    return scaled(CosineStrategy(strategy.half, strategy.weights, directions, gains))


class Relative:
    """V_opt relative to a strategy's V, in the space of its measurements: symmetric, its bulk scaled to 1.

    Args:
      strategy: B.
      root: V_opt, up to its scale.
    """

    def __init__(self, strategy: CosineStrategy, root: BridgeRoot) -> None:
        self.strategy, self.root, self.level = strategy, root, 1.0
        spread = _spread(strategy.rows)
        self.level = float(spread @ self(spread) / (spread @ spread))

    def __call__(self, y: Array) -> Array:
        """``B^+' V_opt B^+ y``; constants, which B does not measure, stay what they are: no extreme is one of them."""
        mean = y.mean()
        image = self.strategy.represent(self.root.apply(self.strategy.solve(y.reshape(-1, 1) - mean)))[:, 0]
        return np.asarray(image / self.level + mean)

    def extremes(self, count: int, end: Literal["SA", "LA"]) -> tuple[Array, Array]:
        """Eigenvalues at one end of the spectrum, and their vectors, ``(n, count)``, to a few digits."""
        from scipy.sparse.linalg import LinearOperator, eigsh

        n = self.strategy.rows
        operator: Any = LinearOperator((n, n), matvec=self, dtype=np.float64)
        values, vectors = eigsh(operator, k=count, which=end, tol=DIGITS, v0=_spread(n), ncv=2 * count + 20)
        return values, vectors


def _spread(n: int) -> Array:
    """A vector of all frequencies, the same in every run."""
    y = np.sin(np.arange(n) ** 2 + 0.5)
    return np.asarray(y - y.mean())
