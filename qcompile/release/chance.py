"""The randomness of an adaptive run: noise as in batch, and private selection."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy.typing as npt

from qcompile.allocation import Scale
from qcompile.arrays import IntArray
from qcompile.privacy.selection import make_select, selection_scale
from qcompile.release.measure import delivered_scales, make_noise
from qcompile.strategy import Strategy


class Chance:
    """Noise and selections of one kind, as `qcompile.adaptive.aim.Chance` asks for.

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
