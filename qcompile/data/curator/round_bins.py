"""Bins of equal width on round numbers, from a smallest and a largest value alone."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from fractions import Fraction

MOST_BINS = 20

ROUND = (1, 2, 5)
"""Widths are these times a power of ten."""

LARGEST = 1e300
"""Beyond it, the edges might not be finite."""

SMALLEST = Fraction(1, 10**300)
"""No width is smaller."""


def round_edges(low: float, high: float) -> tuple[float, ...] | None:
    """Return at most `MOST_BINS` bins that hold ``low`` and ``high``, with round edges at multiples of their width.

    The narrowest that fit; None where doubles cannot tell the edges apart, or could not hold them.

    Args:
      low: the smallest value, finite.
      high: the largest value, finite, not below ``low``.
    """
    if max(-low, high) > LARGEST:
        return None
    start, end = Fraction(low), Fraction(high)
    # A single value gets one bin of a width in proportion to it.
    spread = end - start or max(Fraction(1), abs(end))
    first, last, width = next(_fitting_widths(start, end, max(spread / MOST_BINS, SMALLEST)))
    edges = tuple(float(width * k) for k in range(first, last + 1))
    distinct = all(a < b for a, b in itertools.pairwise(edges))
    return edges if distinct and edges[0] <= low and high <= edges[-1] else None


def _fitting_widths(start: Fraction, end: Fraction, least: Fraction) -> Iterator[tuple[int, int, Fraction]]:
    """Yield first and last edge as multiples of a width, and the width, from ``least`` on; only few enough bins."""
    exponent = math.floor(math.log10(least))
    for power in itertools.count(exponent):
        for digit in ROUND:
            width = digit * Fraction(10) ** power
            first = math.floor(start / width)
            last = max(math.ceil(end / width), first + 1)
            if width >= least and last - first <= MOST_BINS:
                yield first, last, width
