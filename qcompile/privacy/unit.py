"""The privacy unit: which tables are neighbours, and how far apart a strategy's exact answers on them can be.

- "add-remove": one table has the rows of one unit more than the other, up to k of them. The answers differ by ``B h``
  with ``h >= 0`` a histogram of at most k rows, a convex function of h, largest at k rows in one cell.
- "replace-one": the rows of one unit, up to k, are replaced by up to k others: ``B (h - h')``, convex in each of the
  two histograms, hence largest where each is empty or has all k rows in one cell. With k = 1 and no row that may leave
  the counts, neither is empty: only pairs of cells matter, and the number of rows is the same in both tables, public.

A column of counts has each row of the data stand for several in the histogram, of which there are two readings.

- Without a largest count a unit of the column is a row: all of the above holds for the table with one row per unit.
- With a largest count m the row of the data is the row: it stands for 0 to m rows of one cell, so that k of them change
  the histogram by at most k m rows, and rows that replace each other need not be as many. The histogram counts steps
  (of 1, or of a hundredth where weights have two decimals), hence everything below does, predictions apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from qcompile.errors import BudgetError, OptionError
from qcompile.lattice.lattice import Lattice, Problem
from qcompile.privacy.exact_numbers import Number, exact, exact_text
from qcompile.privacy.joint_distance import JointDistance
from qcompile.queries.schema import Schema
from qcompile.strategy import Strategy

NEIGHBOURS = ("add-remove", "replace-one")

COUNTED = "each unit of the count column"
"""The privacy unit of counts without a maximum, in ledgers; the name of the column follows."""

MOST_CONTRIBUTIONS = 10**9
"""Rows of one unit at most: beyond, no release says anything."""


@dataclass(frozen=True)
class CountColumn:
    """The column with the number of rows that each row of the data stands for.

    Attributes:
      name: of the column.
      most: the largest count of a row of the data, which is then the row that neighbouring tables differ in; None where
        each unit of the column is such a row.
      step: counts are rounded to multiples of it; None where they are whole numbers.
    """

    name: str
    most: Fraction | None = None
    step: Fraction | None = None

    @staticmethod
    def of(name: object, most: Number | None = None, step: Number | None = None) -> CountColumn | None:
        """The options of a run, checked; None without a column.

        Args:
          name: of the column, or None.
          most: the largest count, a multiple of the step.
          step: of weights; 1 where None.

        Raises:
          OptionError: an option has a value it cannot take, or lacks the other that it needs.
        """
        if name is None:
            _require_none(most, step)
            return None
        if not (isinstance(name, str) and name):
            raise OptionError(f"count_column must be the name of the column that holds the counts, got {name!r}")
        column = CountColumn(name, _number("max_count", most), _number("count_step", step))
        column._require_steps()
        return column

    @property
    def charged_unit(self) -> str | None:
        """The privacy unit of a charge where it is a unit of this column; None where it is a row of the data."""
        return str(self) if self.most is None else None

    @property
    def size(self) -> Fraction:
        """The step, in counts."""
        return Fraction(1) if self.step is None else self.step

    @property
    def steps(self) -> int:
        """The largest number of steps that a row in which neighbouring tables differ can count."""
        return 1 if self.most is None else int(self.most / self.size)

    def _require_steps(self) -> None:
        if self.most is None:
            if self.step is not None:
                raise OptionError(
                    "count_step rounds weights, and the noise follows the largest weight of a row; give max_count, too"
                )
            return
        steps, unit = self.most / self.size, exact_text(self.size)
        if steps > MOST_CONTRIBUTIONS:
            raise OptionError(f"max_count can be at most {MOST_CONTRIBUTIONS:,} times the step {unit}; give less")
        if steps < 1 or steps.denominator > 1:
            near = exact_text(max(1, int(steps)) * self.size)
            raise OptionError(
                f"max_count must be a multiple of the step of counts, {unit}; give for instance max_count={near}, or "
                "another count_step"
            )

    def __str__(self) -> str:
        """The part of a row, for people: ``up to 3.5 (in steps of 0.01) by column 'w'``."""
        if self.most is None:
            return f"{COUNTED} {self.name!r}"
        steps = "" if self.step is None else f" (in steps of {exact_text(self.step)})"
        return f"up to {exact_text(self.most)}{steps} by column {self.name!r}"


def _require_none(most: object, step: object) -> None:
    for name, value in {"max_count": most, "count_step": step}.items():
        if value is not None:
            raise OptionError(f"{name} is about a column of counts, and none is named; give count_column, too")


def _number(name: str, value: Number | None) -> Fraction | None:
    try:
        return None if value is None else exact(name, value)
    except BudgetError as e:  # worded for a budget, and as good for any number above 0
        raise OptionError(str(e)) from None


@dataclass(frozen=True, kw_only=True)
class PrivacyUnit:
    """The largest change that one privacy unit can make.

    Attributes:
      neighbours: "add-remove" or "replace-one".
      contributions: rows of one unit, at most.
      fixed_rows: whether a replaced row always leaves another in the counts.
      counted: the column of counts; None where each row of the data is one row.
    """

    neighbours: str
    contributions: int
    fixed_rows: bool
    counted: CountColumn | None = None

    @staticmethod
    def of(neighbours: str, contributions: int, schema: Schema, counted: CountColumn | None = None) -> PrivacyUnit:
        """The unit of a plan; where an attribute drops rows, a row may be replaced by one that does not count.

        Raises:
          OptionError: a unit can have too many rows, each counted up to a maximum.
        """
        never_dropped = all(a.policy.kind != "drop" for a in schema)
        bounded = counted is not None and counted.most is not None
        unit = PrivacyUnit(
            neighbours=neighbours,
            contributions=contributions,
            fixed_rows=never_dropped and not bounded,
            counted=counted,
        )
        if unit.steps > MOST_CONTRIBUTIONS:
            raise OptionError(
                f"contributions={contributions} times max_count is beyond {MOST_CONTRIBUTIONS:,} steps; give a smaller "
                "max_count, or a larger count_step"
            )
        return unit

    @property
    def _size(self) -> Fraction:
        return Fraction(1) if self.counted is None else self.counted.size

    @property
    def step(self) -> float:
        """The size of a step of the histogram, in counts."""
        return float(self._size)

    @property
    def steps(self) -> int:
        """The largest number of steps by which one side of two neighbouring tables can exceed the other."""
        return self.contributions * (1 if self.counted is None else self.counted.steps)

    @property
    def largest(self) -> float:
        """`steps`, in counts."""
        return float(self.steps * self._size)

    @property
    def public_total(self) -> bool:
        """True if all neighbouring tables have the same number of counted rows."""
        return self.neighbours == "replace-one" and self.contributions == 1 and self.fixed_rows

    @property
    def most_rows(self) -> int:
        """The largest number of steps in which two neighbouring tables differ, both sides together."""
        return self.steps * (1 if self.neighbours == "add-remove" else 2)

    @property
    def is_joint(self) -> bool:
        """True if a plan can be charged by its worst pair of rows, which is not the worst for every node."""
        return self.neighbours == "replace-one"

    def joint_distance(self, closure: Lattice, strategies: Sequence[Strategy]) -> JointDistance:
        """The squared distances of all measurements together, for one row replaced; `steps` squared times for more."""
        return JointDistance.of(closure, strategies, may_leave=not self.public_total)

    def sensitivity_squared(self, strategy: Strategy) -> Fraction:
        """An exact upper bound of the largest ``|B (x - x')|^2`` over neighbouring tables, tight to rounding.

        It is in steps of the histogram, squared.
        """
        return self._one_row(strategy) * self.steps**2

    def _one_row(self, strategy: Strategy) -> Fraction:
        if self.neighbours == "add-remove":
            return strategy.sensitivity_squared
        if self.public_total:
            return strategy.pair_sensitivity_squared
        return max(strategy.sensitivity_squared, strategy.pair_sensitivity_squared)

    def predicted(self, strategy: Strategy) -> float:
        """`sensitivity_squared` in counts^2, for predictions: strategies have unit column norms up to rounding."""
        if self.neighbours == "add-remove":
            return self.largest**2
        return float(self.sensitivity_squared(strategy) * self._size**2)

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
        rows = self.largest**2
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
        k, rows = self.contributions, self._rows_text()
        if self.neighbours == "add-remove":
            return f"{rows} added or removed"
        if k > 1:
            return f"{rows} replaced by up to {k} others"
        return f"{rows} replaced by another" + ("" if self.fixed_rows else ", or by one that is dropped")

    def _rows_text(self) -> str:
        k, counted = self.contributions, self.counted
        if counted is None:
            return "one row" if k == 1 else f"up to {k} rows"
        if counted.most is None:
            return f"{'one unit' if k == 1 else f'up to {k} units'} of the count column {counted.name!r}"
        if k == 1:
            return f"one row of the data, which counts for {counted},"
        return f"up to {k} rows of the data, each of which counts for {counted},"
