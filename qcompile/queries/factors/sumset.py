"""The values that a sum of multiples of integers takes, without listing the combinations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qcompile.support.arrays import IntArray, require_memory

MOST_BYTES = 2**29
"""Memory for values, and for all steps together: a few seconds of work."""

REMEDY = "use bins or smaller domains"


def sumset(what: str, terms: Sequence[range]) -> IntArray:
    """The distinct values of a sum with one summand from each term, ascending.

    Args:
      what: whose values they are, for messages.
      terms: ascending, none of them empty.

    Raises:
      SizeError: they are too many, or take too many steps to find.
    """
    start, others = _progression(sorted(terms, key=lambda t: t.step))
    require_memory(f"the values of {what}", len(start), REMEDY, limit=MOST_BYTES)
    values = np.arange(start.start, start.stop, start.step, dtype=np.int64)
    steps = 0
    for term in others:
        span = int(values[-1]) - int(values[0]) + term[-1] - term[0] + 1
        pairs = len(values) * len(term)
        steps += min(span, pairs)
        require_memory(f"the values of {what}", steps, REMEDY, limit=MOST_BYTES)
        values = _marked(values, term, span) if span <= pairs else distinct(np.add.outer(values, np.array(term)))
    return values


def distinct(values: IntArray) -> IntArray:
    """The distinct values, ascending; by sorting: NumPy's hash table takes up to a hundred times as long."""
    ordered = np.sort(values, axis=None)
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]


def _progression(terms: Sequence[range]) -> tuple[range, list[range]]:
    """The sum of the terms, finest first, that leave no gaps between equal steps; and the terms that would.

    A progression of n values with step s, repeated at multiples of s no further apart than n s, is one again.
    """
    total, others = range(1), []
    for term in terms:
        first, last = total[0] + term[0], total[-1] + term[-1]
        if len(term) == 1:
            total = range(first, last + 1, total.step)
        elif len(total) == 1:
            total = range(first, last + 1, term.step)
        elif term.step % total.step == 0 and term.step <= total.step * len(total):
            total = range(first, last + 1, total.step)
        else:
            others.append(term)
    return total, others


def _marked(values: IntArray, term: range, span: int) -> IntArray:
    """The sums of values and a term, marked in an array of ``span`` flags; copies are doubled, not added singly."""
    low = int(values[0])
    flags = np.zeros(span, dtype=np.bool_)
    flags[values - low] = True
    copies = 1
    while copies < len(term):
        more = min(copies, len(term) - copies)
        shift = more * term.step
        flags[shift:] |= flags[:-shift].copy()
        copies += more
    return np.flatnonzero(flags) + (low + term[0])
