"""Results of a question to a release: one answer, or a table of cells."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qcompile.errors import OptionError
from qcompile.release.answers import intervals
from qcompile.release.answers.tables import cells_table
from qcompile.support.arrays import Array

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
      estimate: unbiased, or the best.
      std_error: the standard deviation of an unbiased estimate; NaN for the best, which is biased.
      method: of the interval, for people.
      notes: remarks on the query, for people; for instance that a value it names is outside of the domain.
    """

    estimate: float
    std_error: float
    method: str = "pointwise"
    notes: tuple[str, ...] = ()

    def interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """The interval that covers the true answer with probability 1 - alpha.

        Raises:
          OptionError: the estimate is biased, so that no interval holds.
        """
        intervals.check_alpha(alpha)
        if math.isnan(self.std_error):
            raise OptionError("no interval holds for a best estimate, which is biased; ask for estimate='unbiased'")
        half = intervals.upper_quantile(alpha / 2) * self.std_error
        return self.estimate - half, self.estimate + half


@dataclass(frozen=True, eq=False, repr=False)
class Marginal:
    """An estimated contingency table.

    Attributes:
      attributes: the axes.
      array: the estimates; where they are unbiased, small counts may come out negative.
      std_error: of each cell; NaN for best estimates, which are biased.
      estimate: "unbiased" or "best".
      processing: what was done to best estimates, see `qcompile.estimates.best.PROCESSING`.
      labels: per axis, those of its cells.
    """

    attributes: tuple[str, ...]
    array: Array
    std_error: Array
    estimate: str
    processing: str
    labels: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        shape = " x ".join(str(n) for n in self.array.shape)
        return f"<Marginal of {', '.join(self.attributes) or 'total'}: {shape or 1} cells, {self.estimate}>"

    def table(self) -> pa.Table:
        """One row per cell, the last axis fastest: label columns (text), estimate, std_error (null where biased)."""
        return cells_table(self.attributes, self.labels, self.array, self.std_error)
