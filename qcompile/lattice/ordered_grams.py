"""Grams of prefixes and ranges on a long axis, centred uniformly, in closed form: the matrix is not written out.

An interval of L of n cells has the power ``sin^2(pi k L / n) / (n sin^2(pi k / n))`` at frequency k, and its part of
the trace is ``L - L^2 / n``. So spectrum and trace follow from the number of queries of each length, and the diagonal
from the number of queries that hold each cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TypeGuard

import numpy as np

from qcompile.lattice.gram import REMEDY, Gram
from qcompile.queries.factors.base import Key
from qcompile.queries.factors.prefix import Prefix
from qcompile.queries.factors.range import Range
from qcompile.support.arrays import Array, require_memory

WRITTEN_CELLS = 4096
"""Cells up to which a Gram is written out at once (128 MB): dense routes are tried there."""

LARGEST_CELLS = 2**18
"""Cells up to which it is not written out: prefixes of as many take a minute or two to compile."""

CENTRED = ((True, ""),)
"""The last part of the key of a Gram on one axis, centred uniformly."""


def is_centred_prefix(gram: Gram) -> bool:
    """Also beside an ``other`` cell: as the last of the order it would add one query, the total, centred 0."""
    return gram.key in ((Prefix.kind, gram.cells, CENTRED), (Prefix.kind, gram.cells, "other", CENTRED))


def has_closed_gram(factor: object) -> TypeGuard[Prefix | Range]:
    """True if a factor's Gram is never written out where it is centred uniformly."""
    return isinstance(factor, Prefix | Range) and WRITTEN_CELLS < factor.size <= LARGEST_CELLS


class OrderedGram(Gram):
    """The Gram of a factor of `has_closed_gram`; the matrix is written out only where it is asked for.

    Args:
      key: what its numbers depend on.
      factor: the prefixes or ranges.
    """

    def __init__(self, key: Key, factor: Prefix | Range) -> None:
        super().__init__(key, (factor.size,))
        self.factor = factor

    @cached_property
    def matrix(self) -> Array:
        """The matrix, written out.

        Raises:
          SizeError: it does not fit in memory.
        """
        require_memory(f"the Gram matrix of {self.cells:,} cells", 2 * self.cells**2, REMEDY)
        gram = self.factor.gram()
        mean = gram.mean(axis=0)
        gram -= mean[:, None]
        gram -= mean - mean.mean()
        return gram

    @cached_property
    def diagonal(self) -> Array:
        """``sum_q (q_j - L/n)^2`` for every cell j: the queries that hold it, less twice their mean, plus means."""
        n = self.cells
        held, mean = self._held(), self.factor.gram_times(np.full(n, 1 / n))
        return np.asarray(held - 2 * mean + mean.mean())

    def _held(self) -> Array:
        """The number of queries that hold each cell."""
        ordered = self.factor.ordered
        from_end = np.arange(ordered, 0, -1, dtype=np.float64)
        counts = np.zeros(self.cells)
        counts[:ordered] = from_end if isinstance(self.factor, Prefix) else from_end * from_end[::-1]
        return counts

    @cached_property
    def trace(self) -> float:
        """``L - L^2 / n`` for every query."""
        lengths, n = np.arange(1.0, self.cells + 1), self.cells
        return float(self.factor.length_counts() @ (lengths - lengths * lengths / n))

    def apply(self, x: Array, axes: Sequence[int]) -> Array:
        """Centre, apply the queries and their adjoint in closed form, centre again; see `Gram.apply`."""
        (axis,) = axes
        moved = np.moveaxis(x, axis, 0)
        flat = (moved - moved.mean(axis=0)).reshape(self.cells, -1)
        product = np.stack([self.factor.gram_times(column) for column in flat.T], axis=1)
        product -= product.mean(axis=0)
        return np.moveaxis(product.reshape(moved.shape), 0, axis)

    @cached_property
    def spectrum(self) -> Array:
        """From the sums over all lengths of ``1 - cos(2 pi k L / n)``; see `Gram.spectrum`."""
        n = self.cells
        values = np.zeros(n)
        frequency = np.arange(1, n)
        counts = self.factor.length_counts().astype(np.float64)
        by_length = counts.sum() - np.fft.fft(np.roll(counts, 1)).real[1:]
        values[1:] = by_length / (2 * n * np.sin(np.pi * frequency / n) ** 2)
        return values
