"""Randomness as a run uses it: the noise of a batch, and that and the selections of an adaptive run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from qcompile.privacy.noise.exponential_mechanism import make_select, selection_scale
from qcompile.privacy.noise.opendp_gaussian import enlarged_sigma, opendp_gaussian
from qcompile.privacy.noise.random_bytes import ByteSource, SeededSource, SystemSource
from qcompile.privacy.noise.rounded_gaussian import rounded_gaussian
from qcompile.privacy.noise.scale import Scale
from qcompile.release.values import NodeValues
from qcompile.strategy import Strategy
from qcompile.support.arrays import Array, IntArray

FEW_OPEN = 1.0
"""Entries that may need an exact center before bounds for each entry are computed, which takes another product."""


class Noise(Protocol):
    """Adds noise to one node."""

    def __call__(self, strategy: Strategy, x: IntArray, scale: Scale, node: str) -> NodeValues:
        """Measurements of counts ``x`` (axes in the strategy's order) on the node of that name."""


def rounded(sources: Callable[[str], ByteSource]) -> Noise:
    """The exactly rounded Gaussian.

    Args:
      sources: the random source of each node, by its name.
    """

    def add(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> NodeValues:
        grid = scale.grid
        floats = x.astype(np.float64)
        scaled = strategy.apply(floats) / grid  # exact: the grid is a power of two
        if scale.sigma == 0:  # no neighbouring table changes it: public
            return np.rint(scaled).astype(np.int64)
        exactly = strategy.exact_entries(x)

        def exact(rows: IntArray) -> list[Fraction]:
            return [value / Fraction(grid) for value in exactly(rows)]

        error = _center_error(strategy, floats, grid)
        return rounded_gaussian(scaled, error, scale.sigma / grid, exact, sources(node))

    return add


def _center_error(strategy: Strategy, floats: Array, grid: float) -> Array | float:
    """A bound of the error of ``B x`` in grid steps: one for all entries where it leaves hardly any of them open."""
    error = strategy.rounding_error(floats) / grid
    if 2 * error * strategy.rows <= FEW_OPEN:
        return error
    return strategy.rounding_errors(floats) / grid


def opendp(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> NodeValues:
    """OpenDP's Gaussian on floats: slow, the cross-check."""
    values = strategy.apply(x.astype(np.float64))
    if scale.sigma == 0:
        return values
    noisy, _ = opendp_gaussian(values, scale.sigma, _sensitivity_squared(scale), scale.cost / 2)
    return noisy


def delivered_scales(kind: str, scales: tuple[Scale, ...]) -> tuple[Scale, ...]:
    """The scales that a kind of noise really has: OpenDP's are a little larger and not rounded to a grid."""
    if kind != "opendp":
        return scales
    return tuple(_enlarged(s) if s.sigma > 0 else s for s in scales)


def _enlarged(scale: Scale) -> Scale:
    sigma = enlarged_sigma(scale.sigma, _sensitivity_squared(scale), scale.cost / 2)
    return replace(scale, sigma=sigma, grid=0.0)


def _sensitivity_squared(scale: Scale) -> Fraction:
    return scale.cost * Fraction(scale.sigma) ** 2


def none(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> NodeValues:
    """No noise: for tests."""
    return strategy.apply(x.astype(np.float64))


def make_noise(kind: str, test_seed: int | None) -> Noise:
    """The noise called ``kind``; rounded noise from the operating system, or from a seed that is NOT PRIVATE."""
    if kind == "none":
        return none
    if kind == "opendp":
        return opendp
    if test_seed is None:
        return rounded(lambda node: SystemSource())
    return rounded(lambda node: SeededSource(int(test_seed), node))


class Chance:
    """Noise and selections of one kind, for `qcompile.adaptive.aim.Chance`.

    Args:
      kind: "rounded", "opendp" or "none".
      test_seed: of deterministic noise and selections: NOT PRIVATE.
    """

    def __init__(self, kind: str, test_seed: int | None) -> None:
        self._kind = kind
        self._noise, self._select = make_noise(kind, test_seed), make_select(kind, test_seed)

    def noise(self, strategy: Strategy, x: IntArray, scale: Scale, label: str) -> npt.NDArray[Any]:
        """Measurements of counts x: multiples of the grid as int64 with rounded noise, doubles otherwise."""
        return self._noise(strategy, x, scale, label)

    def delivered(self, scale: Scale) -> Scale:
        """The scale that the noise really has."""
        return delivered_scales(self._kind, (scale,))[0]

    def selection_scale(self, sensitivity: int, rho: Fraction) -> float:
        """The noise scale of a selection that costs at most rho."""
        return selection_scale(sensitivity, rho)

    def select(self, scores: IntArray, scale: float, label: str) -> int:
        """The place of a score that is probably near the largest."""
        return self._select(scores, scale, label)
