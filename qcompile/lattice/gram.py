"""The Gram of some queries on some axes, held as a matrix or as the rows it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from qcompile.queries.factors.base import Key, row_blocks
from qcompile.support.arrays import Array, along, cells, require_memory

RANK_TOLERANCE = 1e-10
"""Singular values below this share of the largest count as zero; decided per factor, before weighting."""

DECOMPOSED = 5
"""Matrices as large as the decomposed one that live at once: its copy, the vectors and the work space."""

REMEDY = "use fewer or coarser cells, or raise the limit (--max-memory, max_memory=...)"


class Gram:
    """``W' W`` of projected queries W on a group of axes, as a matrix or as rows.

    Attributes:
      key: what its numbers depend on.
      shape: the group's axis sizes.
    """

    def __init__(
        self, key: Key, shape: tuple[int, ...], matrix: Array | None = None, rows: Array | None = None
    ) -> None:
        self.key, self.shape = key, shape
        self._matrix, self._rows = matrix, rows

    @staticmethod
    def of_rows(key: Key, x: Array) -> Gram:
        """From queries ``(count, *shape)``, held as rows while that is smaller than the square matrix."""
        shape = x.shape[1:]
        flat = x.reshape(x.shape[0], cells(shape))
        if flat.shape[0] < flat.shape[1]:
            return Gram(key, shape, rows=flat)
        require_memory(f"the Gram matrix of {cells(shape):,} cells", cells(shape) ** 2, REMEDY)
        return Gram(key, shape, matrix=flat.T @ flat)

    @property
    def cells(self) -> int:
        """Number of cells of the group."""
        return cells(self.shape)

    @property
    def rows(self) -> Array | None:
        """Queries ``(count, cells)`` where the Gram is held that way."""
        return self._rows

    @cached_property
    def matrix(self) -> Array:
        """The matrix, ``(cells, cells)``."""
        if self._matrix is not None:
            return self._matrix
        assert self._rows is not None
        require_memory(f"the Gram matrix of {self.cells:,} cells", self.cells**2, REMEDY)
        return self._rows.T @ self._rows

    @property
    def diagonal(self) -> Array:
        """Its diagonal, ``(cells,)``."""
        return np.diagonal(self.matrix) if self._rows is None else np.einsum("ij,ij->j", self._rows, self._rows)

    @cached_property
    def trace(self) -> float:
        """Sum of the squared norms of the projected queries."""
        return float(np.trace(self._matrix)) if self._matrix is not None else float((self.root_rows**2).sum())

    @property
    def root_rows(self) -> Array:
        """Some R with ``R' R`` the Gram, of whatever rank."""
        return self._rows if self._rows is not None else self.root

    @cached_property
    def root(self) -> Array:
        """R of full row rank with ``R' R`` the Gram: shape ``(rank, cells)``.

        Raises:
          SizeError: the decomposition does not fit in memory.
        """
        require_memory(
            f"decomposing queries on {self.cells:,} cells", DECOMPOSED * self.rank_bound * self.cells, REMEDY
        )
        if self._rows is not None:
            _, s, vt = np.linalg.svd(self._rows, full_matrices=False)
            keep = s > RANK_TOLERANCE * s[0]
            return np.ascontiguousarray(s[keep, None] * vt[keep])
        values, vectors = np.linalg.eigh(self.matrix)
        keep = values > RANK_TOLERANCE**2 * values[-1]
        keep &= values > 64 * np.finfo(float).eps * values[-1]  # below this an eigenvalue is rounding error
        return np.ascontiguousarray(np.sqrt(values[keep])[:, None] * vectors[:, keep].T)

    @property
    def rank(self) -> int:
        """Number of linearly independent projected queries."""
        return int(self.root.shape[0])

    @property
    def rank_bound(self) -> int:
        """An upper bound of `rank` that needs no decomposition."""
        return self.cells if self._rows is None else min(self._rows.shape[0], self.cells)

    def apply(self, x: Array, axes: Sequence[int]) -> Array:
        """Multiply the Gram into the given axes of ``x``, which have the group's shape."""
        if len(axes) == 1:
            return along(self.matrix, x, axes[0])
        moved = np.moveaxis(x, axes, range(len(axes)))
        flat = moved.reshape(self.cells, -1)
        product = self._rows.T @ (self._rows @ flat) if self._rows is not None else self.matrix @ flat
        return np.moveaxis(product.reshape(moved.shape), range(len(axes)), axes)

    @cached_property
    def spectrum(self) -> Array:
        """``f_k* G f_k`` for every frequency k of the unitary Fourier basis, shape `shape`."""
        if self._rows is not None or len(self.shape) > 1:
            waves = np.fft.fftn(self.root_rows.reshape(-1, *self.shape), axes=range(1, len(self.shape) + 1))
            return np.asarray((waves.real**2 + waves.imag**2).sum(axis=0) / self.cells)
        n, lags = self.cells, np.zeros(self.cells)
        for i, row in enumerate(self.matrix):
            lags[: n - i] += row[i:]
            lags[n - i :] += row[:i]
        return np.maximum(np.fft.fft(lags).real / n, 0.0)

    @cached_property
    def is_exchangeable(self) -> bool:
        """True if every permutation of the cells leaves it unchanged: a multiple of I - 11'/n."""
        if len(self.shape) > 1 or self.cells == 1:
            return False
        value = self.trace / (self.cells - 1)
        return self.is_diagonal_plus(value, -value / self.cells)

    def is_diagonal_plus(self, diagonal: float, everywhere: float) -> bool:
        """True if the matrix is ``diagonal I + everywhere 11'``, up to rounding errors."""
        for rows in row_blocks(self.cells):
            rest = self.matrix[rows] - everywhere
            rest[np.arange(len(rest)), np.arange(rows.start, rows.stop)] -= diagonal
            if not np.abs(rest).max() <= 1e-12 * self.trace:
                return False
        return True

    @cached_property
    def is_circulant(self) -> bool:
        """True if cyclic shifts of the only axis leave it unchanged."""
        if len(self.shape) > 1:
            return False
        m = self.matrix
        tolerance = 1e-12 * max(float(m.max()), -float(m.min()))
        for rows in row_blocks(self.cells):
            shifted = np.roll(m[np.arange(rows.start, rows.stop) - 1], 1, axis=1)
            if not np.abs(shifted - m[rows]).max() <= tolerance:
                return False
        return True


class ExchangeableGram(Gram):
    """``d I + e 11'`` on one axis: the identity, centred or not. The matrix is written out only where it is asked for.

    Args:
      key: what its numbers depend on.
      size: number of cells.
      own: d.
      everywhere: e.
    """

    def __init__(self, key: Key, size: int, own: float, everywhere: float) -> None:
        super().__init__(key, (size,))
        self.own, self.everywhere = own, everywhere

    @staticmethod
    def centred(key: Key, size: int, own: float, everywhere: float, *, uniform: bool) -> ExchangeableGram:
        """``d I + e 11'``, centred with uniform weights or not at all: ``d (I - 11'/n)``, whatever e."""
        return ExchangeableGram(key, size, own, -own / size if uniform else everywhere)

    @cached_property
    def matrix(self) -> Array:
        """The matrix, written out.

        Raises:
          SizeError: it does not fit in memory.
        """
        require_memory(f"the Gram matrix of {self.cells:,} cells", self.cells**2, REMEDY)
        matrix = np.full((self.cells, self.cells), self.everywhere)
        matrix[np.diag_indices(self.cells)] += self.own
        return matrix

    @property
    def diagonal(self) -> Array:
        """The same for all cells."""
        return np.full(self.cells, self.own + self.everywhere)

    @cached_property
    def trace(self) -> float:
        """``n (d + e)``."""
        return self.cells * (self.own + self.everywhere)

    @property
    def eigenvalues(self) -> Array:
        """The nonzero eigenvalues: d on all that sums to 0, ``d + n e`` on the constant vectors."""
        constant = self.own + self.cells * self.everywhere
        values = np.full(self.cells, self.own)
        values[0] = constant if abs(constant) > RANK_TOLERANCE * self.own else 0.0
        return values[values > 0]

    @property
    def rank(self) -> int:
        """Number of nonzero eigenvalues."""
        return len(self.eigenvalues)

    def apply(self, x: Array, axes: Sequence[int]) -> Array:
        """``d x`` plus e times the sum over the axis; see `Gram.apply`."""
        (axis,) = axes
        return np.asarray(self.own * x + self.everywhere * x.sum(axis=axis, keepdims=True))

    @cached_property
    def spectrum(self) -> Array:
        """D for all frequencies but the constant one; see `Gram.spectrum`."""
        values = np.full(self.cells, self.own)
        values[0] = max(self.own + self.cells * self.everywhere, 0.0)
        return values

    def is_diagonal_plus(self, diagonal: float, everywhere: float) -> bool:
        """True if these are its numbers, up to rounding errors."""
        off = abs(self.everywhere - everywhere) if self.cells > 1 else 0.0
        on = abs(self.own + self.everywhere - diagonal - everywhere)
        return max(on, off) <= 1e-12 * self.trace

    @property
    def is_circulant(self) -> bool:
        """Always."""
        return True
