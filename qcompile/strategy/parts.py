"""The Kronecker factors of a strategy: a dense matrix on some axes, or the residual basis of one axis."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.lattice.gram import Gram
from qcompile.lattice.projection import Projection, is_uniform
from qcompile.queries.factors.base import CHUNK, OneAttribute
from qcompile.strategy import pair_distance as pairs
from qcompile.strategy.base import column_bound, same_columns
from qcompile.strategy.exact_products import Integers, as_integers, contract
from qcompile.strategy.pair_distance import Pairs
from qcompile.support.arrays import Array, IntArray, cells, require_memory

RANK_TOLERANCE = 1e-9
"""Singular values of B below this share of the largest count as zero."""

CONDITION = 1e-5
"""Smallest ratio of pivots for which B B' is factored: ten digits of its inverse are then right."""


@dataclass(frozen=True, eq=False)
class Part(abc.ABC):
    """One Kronecker factor B of a strategy. V = B' B, and L is the pseudo-inverse of B.

    Attributes:
      axes: the axes it acts on, in the order of its columns.
      shape: their sizes.
    """

    axes: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def columns(self) -> int:
        """Number of cells."""
        return cells(self.shape)

    @property
    @abc.abstractmethod
    def rows(self) -> int:
        """Number of measurements."""

    @property
    @abc.abstractmethod
    def rank(self) -> int:
        """Rank of B."""

    @abc.abstractmethod
    def written_out(self) -> Array:
        """B as a matrix, ``(rows, columns)``."""

    @abc.abstractmethod
    def moved(self, axes: Sequence[int]) -> Part:
        """The same matrix on other axes of the same sizes."""

    @abc.abstractmethod
    def scaled(self, factor: float) -> Part:
        """A multiple of the matrix, on the same axes."""

    @abc.abstractmethod
    def apply(self, x: Array) -> Array:
        """``B x``: ``(columns, k)`` to ``(rows, k)``."""

    @abc.abstractmethod
    def adjoint(self, y: Array) -> Array:
        """``B' y``: ``(rows, k)`` to ``(columns, k)``."""

    @abc.abstractmethod
    def solve(self, y: Array) -> Array:
        """``L y``: ``(rows, k)`` to ``(columns, k)``."""

    @abc.abstractmethod
    def represent(self, q: Array) -> Array:
        """``L' q``: ``(columns, k)`` to ``(rows, k)``."""

    @abc.abstractmethod
    def apply_absolute(self, x: Array) -> Array:
        """``|B| x`` with the absolute values of B: ``(columns, k)`` to ``(rows, k)``."""

    @property
    @abc.abstractmethod
    def largest(self) -> float:
        """The largest absolute value of B."""

    @property
    @abc.abstractmethod
    def operations(self) -> int:
        """The error of `apply` is below this many times ``eps |B| |x|``, entry by entry."""

    @abc.abstractmethod
    def contract(self, row: int, x: Integers) -> tuple[Integers, int]:
        """A row of B times integers ``(columns, k)``, exactly; see `exact_products.contract`."""

    @property
    @abc.abstractmethod
    def column_norms(self) -> Array:
        """``V[j, j]``, ``(columns,)``, in double precision."""

    @property
    @abc.abstractmethod
    def column_bound(self) -> Fraction:
        """An exact upper bound of the largest squared column norm."""

    @property
    @abc.abstractmethod
    def same_columns(self) -> bool:
        """True if all columns of B are the same."""

    @abc.abstractmethod
    def gram_rows(self, where: IntArray) -> Array:
        """Rows of V: ``(k,)`` to ``(k, columns)``."""

    @abc.abstractmethod
    def pairs(self) -> Pairs:
        """Pairs of columns that dominate all others; see `pair_distance`."""

    @abc.abstractmethod
    def pairs_of(self, differing: int) -> Pairs | None:
        """Pairs that dominate all that differ in a set of the part's axes, see `differing_axes`; None without any."""

    @abc.abstractmethod
    def largest_distance(self) -> float:
        """``max V_ii + V_jj - 2 V_ij``, in double precision."""

    @abc.abstractmethod
    def trace(self, gram: Gram) -> float:
        """``tr(G V^+)`` for a Gram on the part's only axis."""

    @abc.abstractmethod
    def variances(self, projection: Projection, order: Sequence[int]) -> Array:
        """``q' V^+ q`` for each projected query; order: the part's axis of each axis of the projection."""

    @abc.abstractmethod
    def root(self) -> Array:
        """L with its rows laid out on the axes, ``(*shape, r)``: ``L L' = V^+``."""


@dataclass(frozen=True, eq=False)
class MatrixPart(Part):
    """A matrix as it is.

    Attributes:
      axes: the axes it acts on, in the order of its columns.
      shape: their sizes.
      matrix: ``(rows, cells of shape)``.
    """

    matrix: Array

    def __post_init__(self) -> None:
        # One layout in memory: a plan that was stored and read must give the same last digits.
        object.__setattr__(self, "matrix", np.ascontiguousarray(self.matrix))

    def written_out(self) -> Array:
        """See `Part.written_out`."""
        return self.matrix

    def moved(self, axes: Sequence[int]) -> MatrixPart:
        """See `Part.moved`."""
        return MatrixPart(tuple(axes), self.shape, self.matrix)

    def scaled(self, factor: float) -> MatrixPart:
        """See `Part.scaled`."""
        return MatrixPart(self.axes, self.shape, factor * self.matrix)

    @cached_property
    def _cholesky(self) -> Array | None:
        """The lower factor of B B', where B has full row rank and is well-conditioned; None elsewhere."""
        from scipy.linalg import cholesky

        try:
            factor = cholesky(self.matrix @ self.matrix.T, lower=True)
        except np.linalg.LinAlgError:
            return None
        diagonal = np.diag(factor)
        return np.asarray(factor) if diagonal.min() > CONDITION * diagonal.max() else None

    @cached_property
    def _svd(self) -> tuple[Array, int]:
        u, s, vt = np.linalg.svd(self.matrix, full_matrices=False)
        rank = int((s > RANK_TOLERANCE * s[0]).sum())
        return (vt[:rank].T / s[:rank]) @ u[:, :rank].T, rank

    @cached_property
    def inverse(self) -> Array:
        """The pseudo-inverse L, ``(cells, rows)``: L L' is the pseudo-inverse of V."""
        from scipy.linalg import cho_solve

        return self._svd[0] if self._cholesky is None else np.asarray(cho_solve((self._cholesky, True), self.matrix)).T

    @property
    def rows(self) -> int:
        """See `Part.rows`."""
        return int(self.matrix.shape[0])

    @property
    def rank(self) -> int:
        """See `Part.rank`."""
        return self._svd[1] if self._cholesky is None else self.rows

    def apply(self, x: Array) -> Array:
        """See `Part.apply`."""
        return self.matrix @ x

    def adjoint(self, y: Array) -> Array:
        """See `Part.adjoint`."""
        return self.matrix.T @ y

    def represent(self, q: Array) -> Array:
        """See `Part.represent`."""
        from scipy.linalg import cho_solve

        if self._cholesky is None:
            return self.inverse.T @ q
        return np.asarray(cho_solve((self._cholesky, True), self.matrix @ q))

    def solve(self, y: Array) -> Array:
        """See `Part.solve`."""
        from scipy.linalg import cho_solve

        if self._cholesky is None:
            return self.inverse @ y
        return np.asarray(self.matrix.T @ cho_solve((self._cholesky, True), y))

    def apply_absolute(self, x: Array) -> Array:
        """See `Part.apply_absolute`."""
        return np.abs(self.matrix) @ x

    @property
    def largest(self) -> float:
        """See `Part.largest`."""
        return float(np.abs(self.matrix).max(initial=0.0))

    @property
    def operations(self) -> int:
        """A sum of one product per cell."""
        return self.columns + 2

    def contract(self, row: int, x: Integers) -> tuple[Integers, int]:
        """See `Part.contract`."""
        return contract(self.matrix[row], x)

    @property
    def column_norms(self) -> Array:
        """See `Part.column_norms`."""
        return np.asarray((self.matrix * self.matrix).sum(axis=0))

    @property
    def column_bound(self) -> Fraction:
        """See `Part.column_bound`."""
        return column_bound(self.matrix)

    @property
    def same_columns(self) -> bool:
        """See `Part.same_columns`."""
        return same_columns(self.matrix)

    def gram_rows(self, where: IntArray) -> Array:
        """See `Part.gram_rows`."""
        return self.matrix[:, where].T @ self.matrix

    def pairs(self) -> Pairs:
        """See `Part.pairs`."""
        return pairs.dominating_pairs(self.matrix)

    def pairs_of(self, differing: int) -> Pairs | None:
        """Of several axes, all pairs stand for each set of them."""
        if not differing:
            return pairs.equal_pair(float(self.column_norms.max()))
        return self._different if self.columns > 1 else None

    @cached_property
    def _different(self) -> Pairs:
        return pairs.different_pairs(self.matrix, float(self.column_norms.max()))

    def largest_distance(self) -> float:
        """Every pair of columns."""
        m = self.matrix
        return pairs.largest_distance(self.column_norms, lambda where, first: m[:, where].T @ m[:, first:])

    @cached_property
    def _covariance(self) -> Array:
        """The pseudo-inverse of V, ``(cells, cells)``."""
        return self.inverse @ self.inverse.T

    def trace(self, gram: Gram) -> float:
        """See `Part.trace`."""
        return float((gram.matrix * self._covariance).sum())

    def variances(self, projection: Projection, order: Sequence[int]) -> Array:
        """The projection applied to the root."""
        root = self.root()
        return projection.quadratic(root.transpose(*order, root.ndim - 1))

    def root(self) -> Array:
        """See `Part.root`."""
        return self.inverse.reshape(*self.shape, -1)


@dataclass(frozen=True, eq=False)
class ResidualPart(Part):
    """A multiple of the residual basis of an axis of n cells: ``factor (I - 11'/n) / sqrt((n-1)/n)``.

    At factor 1 it has unit cost. B is never written out. It holds two doubles, one on the diagonal and one everywhere
    else: the mechanism is the matrix of these, exactly. Its inverse takes them for the real numbers that they stand
    for, whose matrix is a multiple of a projection.

    Source: ResidualPlanner, arXiv 2305.08175.

    Attributes:
      axes: the axis.
      shape: its size.
      factor: finite and > 0.

    Raises:
      IntegrityError: several axes, a single cell, or another factor.
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        if len(self.axes) != 1 or self.columns < 2:
            raise IntegrityError("a residual basis has one axis of at least two cells")
        if not 0 < self.factor < math.inf:
            raise IntegrityError("the factor of a residual basis is finite and > 0")

    def moved(self, axes: Sequence[int]) -> ResidualPart:
        """See `Part.moved`."""
        return ResidualPart(tuple(axes), self.shape, self.factor)

    def scaled(self, factor: float) -> ResidualPart:
        """See `Part.scaled`."""
        return ResidualPart(self.axes, self.shape, factor * self.factor)

    @property
    def _unit(self) -> float:
        """The diagonal of the projection is the square of this."""
        return math.sqrt((self.columns - 1) / self.columns)

    @property
    def _scale(self) -> float:
        """One over the singular value of B on everything that sums to 0."""
        return self._unit / self.factor

    @cached_property
    def _values(self) -> tuple[float, float]:
        """The number on the diagonal, and the one elsewhere."""
        share = 1 / self.columns
        return self.factor * ((1.0 - share) / self._unit), self.factor * (-share / self._unit)

    @property
    def rows(self) -> int:
        """As many as cells."""
        return self.columns

    @property
    def rank(self) -> int:
        """One less than cells."""
        return self.columns - 1

    def written_out(self) -> Array:
        """See `Part.written_out`.

        Raises:
          SizeError: it does not fit in memory.
        """
        require_memory("the matrix of a residual basis", 2 * self.columns**2, "inspect a smaller node")
        diagonal, elsewhere = self._values
        matrix = np.full((self.columns, self.columns), elsewhere)
        np.fill_diagonal(matrix, diagonal)
        return matrix

    def apply(self, x: Array) -> Array:
        """See `Part.apply`."""
        diagonal, elsewhere = self._values
        return np.asarray((diagonal - elsewhere) * x + elsewhere * x.sum(axis=0))

    def adjoint(self, y: Array) -> Array:
        """B is symmetric."""
        return self.apply(y)

    def solve(self, y: Array) -> Array:
        """See `Part.solve`."""
        return np.asarray(self._scale * (y - y.mean(axis=0)))

    def represent(self, q: Array) -> Array:
        """See `Part.represent`."""
        return self.solve(q)

    def apply_absolute(self, x: Array) -> Array:
        """See `Part.apply_absolute`."""
        diagonal, elsewhere = self._values
        return np.asarray((diagonal + elsewhere) * x - elsewhere * x.sum(axis=0))

    @property
    def largest(self) -> float:
        """The number on the diagonal."""
        return self._values[0]

    @property
    def operations(self) -> int:
        """A sum of all cells; what is done to the entry itself acts on at most ``2 |B| |x|``."""
        return self.columns + 6

    def contract(self, row: int, x: Integers) -> tuple[Integers, int]:
        """The row of x and the sum of all of them, each times one number."""
        (diagonal, elsewhere), exponent = as_integers(np.array(self._values))
        own, total = x[row].astype(object), x.sum(axis=0).astype(object)
        return (diagonal - elsewhere) * own + elsewhere * total, exponent

    @property
    def column_norms(self) -> Array:
        """The same for all."""
        return np.full(self.columns, self._gram_values[0])

    @property
    def _gram_values(self) -> tuple[float, float]:
        """The number on the diagonal of V, and the one elsewhere."""
        diagonal, elsewhere = self._values
        return (
            diagonal**2 + (self.columns - 1) * elsewhere**2,
            2 * diagonal * elsewhere + (self.columns - 2) * elsewhere**2,
        )

    @property
    def column_bound(self) -> Fraction:
        """The norm of every column, exactly."""
        diagonal, elsewhere = map(Fraction, self._values)
        return diagonal**2 + (self.columns - 1) * elsewhere**2

    @property
    def same_columns(self) -> bool:
        """No two are."""
        return False

    def gram_rows(self, where: IntArray) -> Array:
        """See `Part.gram_rows`."""
        diagonal, elsewhere = self._gram_values
        rows = np.full((len(where), self.columns), elsewhere)
        rows[np.arange(len(where)), where] = diagonal
        return rows

    def pairs(self) -> Pairs:
        """A column with itself, and two columns."""
        diagonal, elsewhere = self._gram_values
        return Pairs(np.full(2, diagonal), np.full(2, diagonal), np.array([diagonal, elsewhere]))

    def pairs_of(self, differing: int) -> Pairs | None:
        """A column with itself, or two columns."""
        return self.pairs().where(np.array([differing]))

    def largest_distance(self) -> float:
        """Two columns differ in two cells."""
        diagonal, elsewhere = self._values
        return 2 * (diagonal - elsewhere) ** 2

    def trace(self, gram: Gram) -> float:
        """V^+ is a multiple of the projection on what sums to 0, which changes no centred query."""
        return self._scale**2 * gram.trace

    def variances(self, projection: Projection, order: Sequence[int]) -> Array:
        """See `Part.variances`."""
        return self._scale**2 * squared_norms(projection)

    def root(self) -> Array:
        """See `Part.root`."""
        return self._scale**2 * self.written_out()


def squared_norms(projection: Projection) -> Array:
    """The squared norm of each projected query, ``(count,)``: of L of n cells, centred uniformly, it is L - L^2/n."""
    factor = projection.factor
    if isinstance(factor, OneAttribute) and is_uniform(projection.u[0]):
        lengths = factor.lengths()
        return lengths - lengths**2 / factor.size
    rows = projection.matrix.reshape(factor.count, -1)
    step = max(1, CHUNK // max(1, rows.shape[1]))
    pieces = [(rows[start : start + step] ** 2).sum(axis=1) for start in range(0, len(rows), step)]
    return np.concatenate(pieces)
