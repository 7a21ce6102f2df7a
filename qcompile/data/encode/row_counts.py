"""The count of a row: from a number in the column of counts to a whole number of steps, as an Ibis expression.

A count goes through the same function whatever the other rows hold, and comes out between 0 and the largest that was
declared. So a row of the data adds at most that many steps to one cell, which is all that the guarantee needs. Weights
are rounded to the nearest step: rounded down, 0.29 would be 28 hundredths, as no double is 29 hundredths.
"""

from __future__ import annotations

from typing import Any

from qcompile.privacy.unit import CountColumn

LARGEST_TOTAL = 2**53
"""Sums below are exact in 64-bit integers and in doubles alike."""


def count_steps(number: Any, counted: CountColumn, leave_out: bool) -> Any:
    """Return a row's count in steps, as a double; null where it is refused.

    Args:
      number: the column as doubles, null where there is no number.
      counted: says what the steps are, and the largest count.
      leave_out: whether what is no count counts nothing, and fractions of a step are rounded, instead of refused.
    """
    import ibis

    most = LARGEST_TOTAL if counted.most is None else counted.steps
    refused, nothing = ibis.null("float64"), ibis.literal(0.0)
    bad = nothing if leave_out else refused
    steps = number if counted.step is None else number / float(counted.step)
    # Not all engines evaluate the branch that is taken only, and the whole part of a large number is an error.
    small = ibis.ifelse((steps >= 0) & (steps < most), steps, 0.0)
    whole = small.floor().cast("float64")
    rounded = whole + ibis.ifelse(small - whole >= 0.5, 1.0, 0.0)  # small + 0.5 may be rounded up itself
    nearest = ibis.ifelse(small == whole, whole, rounded if leave_out or counted.step is not None else refused)
    top = float(most) if leave_out or counted.most is not None else refused
    return ibis.cases((steps < 0, bad), (steps >= most, top), (steps.notnull(), nearest), else_=bad)
