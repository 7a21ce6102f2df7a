"""The privacy unit: which tables are neighbours, and how far apart a strategy's exact answers on them can be.

- "add-remove": one table has the rows of one unit more than the other, up to k of them. The answers differ by ``B h``
  with ``h >= 0`` a histogram of at most k rows, a convex function of h, largest at k rows in one cell.
- "replace-one": the rows of one unit, up to k, are replaced by up to k others: ``B (h - h')``, convex in each of the
  two histograms, hence largest where each is empty or has all k rows in one cell. With k = 1 and no row that may leave
  the counts, neither is empty: only pairs of cells matter, and the number of rows is the same in both tables, public.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from qcompile.lattice.lattice import Problem
from qcompile.queries.schema import Schema
from qcompile.strategy import Strategy

NEIGHBOURS = ("add-remove", "replace-one")

MOST_CONTRIBUTIONS = 10**9
"""Rows of one unit at most: beyond, no release says anything."""


@dataclass(frozen=True, kw_only=True)
class PrivacyUnit:
    """The largest change that one privacy unit can make.

    Attributes:
      neighbours: "add-remove" or "replace-one".
      contributions: rows of one unit, at most.
      fixed_rows: whether a replaced row always leaves another in the counts.
    """

    neighbours: str
    contributions: int
    fixed_rows: bool

    @staticmethod
    def of(neighbours: str, contributions: int, schema: Schema) -> PrivacyUnit:
        """The unit of a plan; where an attribute drops rows, a row may be replaced by one that does not count."""
        never_dropped = all(a.policy.kind != "drop" for a in schema)
        return PrivacyUnit(neighbours=neighbours, contributions=contributions, fixed_rows=never_dropped)

    @property
    def public_total(self) -> bool:
        """True if all neighbouring tables have the same number of counted rows."""
        return self.neighbours == "replace-one" and self.contributions == 1 and self.fixed_rows

    @property
    def most_rows(self) -> int:
        """The largest number of rows in which two neighbouring tables differ, both sides together."""
        return self.contributions * (1 if self.neighbours == "add-remove" else 2)

    def sensitivity_squared(self, strategy: Strategy) -> Fraction:
        """An exact upper bound of the largest ``|B (x - x')|^2`` over neighbouring tables, tight to rounding."""
        return self._one_row(strategy) * self.contributions**2

    def _one_row(self, strategy: Strategy) -> Fraction:
        if self.neighbours == "add-remove":
            return strategy.sensitivity_squared
        if self.public_total:
            return strategy.pair_sensitivity_squared
        return max(strategy.sensitivity_squared, strategy.pair_sensitivity_squared)

    def predicted(self, strategy: Strategy) -> float:
        """`sensitivity_squared` for predictions: strategies have unit column norms up to rounding."""
        if self.neighbours == "add-remove":
            return float(self.contributions**2)
        return float(self.sensitivity_squared(strategy))

    def certified(self, problem: Problem, bound: float, centred: bool) -> float:
        """A lower bound of squared sensitivity times loss, over all strategies of a problem.

        Args:
          problem: of the class.
          bound: of its loss where one row is added or removed.
          centred: whether it is a node of the closure rather than a block.

        A node's B is 0 on the centring weights u: every column is the u-average of its differences to the others, so
        the largest difference is no shorter than the longest column, and ``bound`` holds for replaced rows as it is.
        The average over all pairs gives ``max_ij |b_i - b_j|^2 >= 2 n / (n - 1) mean_i |b_i|^2`` for uniform u: so much
        times the SVD bound, which bounds the loss at unit mean, holds too. Nothing is proven for a block, which is not
        centred; a public node costs nothing.
        """
        rows = self.contributions**2
        if problem.cells == 1:
            return 0.0 if self.public_total else bound * rows
        if self.neighbours == "add-remove":
            return bound * rows
        if not centred:
            return 0.0
        from qcompile.solvers.bounds.lower_bound import lower_bound

        n = problem.cells
        averaged = 2 * n / (n - 1) * lower_bound(problem) if problem.uniform else 0.0
        return max(bound, averaged) * rows

    def __str__(self) -> str:
        k = self.contributions
        if self.neighbours == "add-remove":
            return f"{'one row' if k == 1 else f'up to {k} rows'} added or removed"
        if k == 1:
            return "one row replaced by another" + ("" if self.fixed_rows else ", or by one that is dropped")
        return f"up to {k} rows replaced by up to {k} others"
