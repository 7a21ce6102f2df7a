"""Options of reading: the privacy unit, its contributions, and the number of rows that each row stands for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from qcompile.errors import OptionError
from qcompile.privacy.exact_numbers import Number
from qcompile.privacy.unit import CountColumn
from qcompile.support.options import bool_option, whole

MOST = 2**62
"""A larger number of rows per unit is no limit."""


@dataclass(frozen=True)
class Reading:
    """The options of reading a table.

    Attributes:
      unit: the column with the ids of the privacy unit; None when every unit is known to have few enough rows.
      contributions: the rows of a unit that count at most; without a unit nothing is cut.
      leave_out: rows with a null in a clipped column, or with no count, are left out, instead of refused.
      count_column: the column with the number of rows that each row stands for.
      max_count: the largest such number; larger ones are cut to it.
      count_step: the step to whose multiples they are rounded.

    Raises:
      OptionError: a field has a value it cannot take, or a count column is named together with a unit.
    """

    unit: str | None = None
    contributions: int = 1
    leave_out: bool = False
    count_column: str | None = None
    max_count: Number | None = None
    count_step: Number | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "contributions", require_unit(self.unit, self.contributions))
        bool_option("leave_out", self.leave_out)
        counted = self.counted
        if counted is not None and self.unit is not None:
            raise OptionError(
                f"count_column={counted.name!r} cannot be used with unit={self.unit!r}: a cell holds rows of many "
                "units, so they cannot be cut any more; give the rows themselves, or leave out the unit"
            )

    @cached_property
    def counted(self) -> CountColumn | None:
        """The column of counts; None without one."""
        return CountColumn.of(self.count_column, self.max_count, self.count_step)


def require_unit(unit: object, contributions: int) -> int:
    """Check the unit, and return the number of rows that it may contribute.

    Raises:
      OptionError: the unit is no column name, or contributions is not a whole number from 1.
    """
    if unit is not None and not (isinstance(unit, str) and unit):
        raise OptionError(f"unit must be the name of the column that says whose row it is, got {unit!r}")
    return min(whole("contributions", contributions, 1), MOST)
