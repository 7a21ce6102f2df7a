"""Strategies that are Kronecker products of matrices on groups of axes; a single dense matrix is one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from qcompile.lattice.lattice import Group
from qcompile.queries.factors.base import CHUNK
from qcompile.strategy import differing_axes
from qcompile.strategy import pair_distance as pairs
from qcompile.strategy.base import EPS, Block, ExactEntries, Strategy
from qcompile.strategy.differing_axes import Distances, certain_distances, is_simple, same_distance
from qcompile.strategy.exact_products import Integers, as_fraction
from qcompile.strategy.parts import MatrixPart, Part, ResidualPart
from qcompile.support.arrays import Array, IntArray, cells, outer, require_memory


class KroneckerStrategy(Strategy):
    """B is the Kronecker product of the parts; rows in C order of the parts as listed.

    Attributes:
      parts: disjoint, together covering all axes.
    """

    def __init__(self, shape: Sequence[int], parts: Sequence[Part]) -> None:
        self.shape = tuple(shape)
        self.parts = tuple(parts)

    @staticmethod
    def dense(shape: Sequence[int], matrix: Array) -> KroneckerStrategy:
        """A single matrix on all axes."""
        return KroneckerStrategy(shape, [MatrixPart(tuple(range(len(shape))), tuple(shape), matrix)])

    @property
    def rows(self) -> int:
        """Product of the parts' rows."""
        return math.prod(p.rows for p in self.parts)

    @property
    def rank(self) -> int:
        """Product of the parts' ranks."""
        return math.prod(p.rank for p in self.parts)

    @property
    def _order(self) -> tuple[int, ...]:
        return tuple(a for p in self.parts for a in p.axes)

    def _forward(self, x: Array, maps: Sequence[Map]) -> Array:
        """Apply one map per part to an array on the node's axes; result ``(rows, *batch)``."""
        d, batch = len(self.shape), x.shape[len(self.shape) :]
        x = x.transpose(*self._order, *range(d, x.ndim)).reshape((*(cells(p.shape) for p in self.parts), *batch))
        return _in_turn(x, maps).reshape(-1, *batch)

    def _backward(self, y: Array, maps: Sequence[Map]) -> Array:
        """Apply one map per part to an array of rows; result ``(*shape, *batch)``."""
        batch = y.shape[1:]
        x = _in_turn(y.reshape((*(p.rows for p in self.parts), *batch)), maps)
        x = x.reshape((*(n for p in self.parts for n in p.shape), *batch))
        back = [self._order.index(a) for a in range(len(self.shape))]
        return x.transpose(*back, *range(len(self.shape), x.ndim))

    def apply(self, x: Array) -> Array:
        """Part after part; see `Strategy.apply`."""
        return self._forward(x, [p.apply for p in self.parts])

    def adjoint(self, y: Array) -> Array:
        """Part after part; see `Strategy.adjoint`."""
        return self._backward(y, [p.adjoint for p in self.parts])

    def solve(self, y: Array) -> Array:
        """The pseudo-inverse of a Kronecker product is that of its parts."""
        return self._backward(y, [p.solve for p in self.parts])

    def represent(self, q: Array) -> Array:
        """Part after part; see `Strategy.represent`."""
        return self._forward(q, [p.represent for p in self.parts])

    @cached_property
    def sensitivity_squared(self) -> Fraction:
        """Column norms of a Kronecker product multiply."""
        return math.prod((p.column_bound for p in self.parts), start=Fraction(1))

    @cached_property
    def pair_sensitivity_squared(self) -> Fraction:
        """Every pair of a small node; for a large one pairs of the parts are combined."""
        if all(p.same_columns for p in self.parts):
            return Fraction(0)
        if len(self.parts) == 1:
            value = self.parts[0].largest_distance()
        elif cells(self.shape) <= pairs.SEARCHED:
            value = pairs.largest_distance(self.column_norms().ravel(), self.gram_rows)
        else:
            value = pairs.largest_product_distance([p.pairs() for p in self.parts])
        return pairs.certain(value, float(self.sensitivity_squared), self.operations)

    @cached_property
    def distances(self) -> Distances:
        """Every pair of a small node; for residual bases and large nodes pairs of the parts are combined."""
        largest, axes = self.pair_sensitivity_squared, len(self.shape)
        large = cells(self.shape) > differing_axes.SEARCHED
        if is_simple(axes, largest) or (large and len(self.parts) == 1):
            return same_distance(axes, largest)
        if large or all(isinstance(p, ResidualPart) for p in self.parts):
            values = differing_axes.of_product(axes, [(p.axes, p.pairs_of) for p in self.parts]).tolist()
        else:
            rows = partial(self.gram_rows, first=0)
            values = differing_axes.search(self.shape, self.column_norms().ravel(), rows).tolist()
        return certain_distances(values, largest, float(self.sensitivity_squared), self.operations)

    @property
    def operations(self) -> int:
        """Additions and multiplications that an entry of V passes through, at most."""
        return sum(p.rows + 2 for p in self.parts)

    def column_norms(self) -> Array:
        """``V[j, j]`` for every cell, shape `shape`: squared column norms multiply."""
        norms = outer([p.column_norms.reshape(p.shape) for p in self.parts])
        return np.ascontiguousarray(norms.transpose(np.argsort(self._order)))

    def gram_rows(self, where: IntArray, first: int) -> Array:
        """Rows of V at flat cells, columns from ``first``: ``(k,)`` to ``(k, cells - first)``."""
        index = dict(enumerate(np.unravel_index(where, self.shape))) if self.shape else {}
        rows: Array = np.ones((len(where), 1))
        for p in self.parts:
            gram = p.gram_rows(np.ravel_multi_index([index[a] for a in p.axes], p.shape))
            rows = (rows[:, :, None] * gram[:, None, :]).reshape(len(where), -1)
        back = [self._order.index(a) + 1 for a in range(len(self.shape))]
        shaped = rows.reshape(len(where), *(n for p in self.parts for n in p.shape))
        return shaped.transpose(0, *back).reshape(len(where), -1)[:, first:]

    def rounding_error(self, x: Array) -> float:
        """Each pass sums at most n_p products: |error| <= gamma * |B_1| x ... x |B_k| |x| <= gamma max|B| sum(x)."""
        largest = math.prod(p.largest for p in self.parts)
        return float(self._rounding * largest * float(x.sum()))

    def rounding_errors(self, x: Array) -> Array:
        """``gamma * |B_1| x ... x |B_k| |x|``, entry by entry."""
        return self._rounding * self._forward(x, [p.apply_absolute for p in self.parts])

    @property
    def _rounding(self) -> float:
        return 1.01 * EPS * sum(p.operations for p in self.parts)

    def exact_entries(self, x: IntArray) -> ExactEntries:
        """Contract one part after another, once for all rows that agree in the parts so far."""
        return lambda rows: _exact_entries(self.parts, x.transpose(self._order).ravel(), 0, rows)

    def factors(self, order: Sequence[int]) -> tuple[Array, ...]:
        """One matrix per part where the parts can be laid out in the wanted order, else their product."""
        if not self.parts:
            return (np.ones((1, 1)),)
        position = {axis: i for i, axis in enumerate(order)}
        placed = [sorted((position[a], i) for i, a in enumerate(p.axes)) for p in self.parts]
        neighbours = all(s[-1][0] - s[0][0] == len(s) - 1 for s in placed)
        if not neighbours:
            return (self._product(order),)
        return tuple(
            _columns(p, [i for _, i in s]) for s, p in sorted(zip(placed, self.parts, strict=True), key=lambda t: t[0])
        )

    def _product(self, order: Sequence[int]) -> Array:
        require_memory("the matrix of a node", self.rows * cells(self.shape), "inspect a smaller node")
        matrix = outer([p.written_out().reshape(-1, *p.shape) for p in self.parts])
        starts = np.cumsum([0] + [1 + len(p.shape) for p in self.parts])
        rows = [int(s) for s in starts[:-1]]
        where = {a: int(s) + 1 + i for s, p in zip(starts, self.parts, strict=False) for i, a in enumerate(p.axes)}
        return matrix.transpose(*rows, *(where[a] for a in order)).reshape(self.rows, -1)

    def trace(self, groups: Sequence[Group]) -> float:
        """Product over the connected components of parts and groups."""
        total = 1.0
        for parts, members in components([p.axes for p in self.parts], [g.axes for g in groups]):
            total *= _component_trace([self.parts[i] for i in parts], [groups[i] for i in members])
        return total

    def variances(self, blocks: Sequence[Block]) -> list[Array]:
        """One array per connected component of parts and blocks."""
        result = []
        for parts, members in components([p.axes for p in self.parts], [b.axes for b in blocks]):
            values = _component_variances([self.parts[i] for i in parts], [blocks[i] for i in members])
            shape = [1] * len(blocks)
            for i in members:
                shape[i] = blocks[i].count
            result.append(values.reshape(shape))
        return result


Map = Callable[[Array], Array]
"""A linear map of the columns of a matrix."""


def _in_turn(x: Array, maps: Sequence[Map]) -> Array:
    """Apply each map along its own leading axis."""
    for axis, apply in enumerate(maps):
        moved = np.moveaxis(x, axis, 0)
        mapped = apply(moved.reshape(moved.shape[0], -1))
        x = np.moveaxis(mapped.reshape(mapped.shape[0], *moved.shape[1:]), 0, axis)
    return x


def _exact_entries(parts: Sequence[Part], x: Integers, exponent: int, rows: IntArray) -> list[Fraction]:
    """Entries of the product of the parts with ``2^exponent x``, x flat in the order of the parts."""
    if not parts:
        return [as_fraction(x[0], exponent)] * len(rows)
    stride = math.prod(p.rows for p in parts[1:])
    leading, others = np.divmod(rows, stride)
    columns = x.reshape(parts[0].columns, -1)
    result = np.empty(len(rows), dtype=object)
    for i in np.unique(leading):
        where = np.flatnonzero(leading == i)
        product, shift = parts[0].contract(int(i), columns)
        result[where] = _exact_entries(parts[1:], product, exponent + shift, others[where])
    return list(result)


def _columns(part: Part, order: Sequence[int]) -> Array:
    m = part.written_out().reshape(-1, *part.shape)
    return m.transpose(0, *(i + 1 for i in order)).reshape(m.shape[0], -1)


def components(left: Sequence[tuple[int, ...]], right: Sequence[tuple[int, ...]]) -> list[tuple[list[int], list[int]]]:
    """The finest blocks of axes that neither partition cuts: indices of the sets of each within a block.

    Both are lists of disjoint sets that cover the same axes. Members come in ascending order.
    """
    label: dict[int, int] = {a: a for s in left for a in s}
    for group in (*left, *right):
        merged = {label[a] for a in group}
        label = {a: min(merged) if b in merged else b for a, b in label.items()}
    components = sorted(set(label.values()))
    return [
        ([i for i, s in enumerate(left) if label[s[0]] == f], [i for i, s in enumerate(right) if label[s[0]] == f])
        for f in components
    ]


def _component_trace(parts: list[Part], groups: list[Group]) -> float:
    if len(parts) == 1 and len(groups) == 1 and len(groups[0].axes) == 1:
        return parts[0].trace(groups[0].gram)
    if len(parts) == 1:  # tr(L' G L), the groups applied one after another
        root = parts[0].root()
        product = root
        for g in groups:
            product = g.gram.apply(product, [parts[0].axes.index(a) for a in g.axes])
        return float((root * product).sum())
    if len(groups) == 1:  # sum over query rows of || (L_1 x ... x L_k)' q ||^2
        q = groups[0].gram.root_rows.reshape(-1, *groups[0].gram.shape)
        return float((_represent(parts, q, groups[0].axes) ** 2).sum())
    axes = tuple(a for g in groups for a in g.axes)
    rows = outer([g.gram.root_rows.reshape(-1, *g.gram.shape) for g in groups])
    return float((_represent(parts, _rows_first(rows, [len(g.axes) for g in groups]), axes) ** 2).sum())


def _component_variances(parts: list[Part], blocks: list[Block]) -> Array:
    counts = [b.count for b in blocks]
    if len(parts) == 1 and math.prod(counts) > parts[0].rank:
        return _one_part(parts[0], blocks).reshape(counts)
    # Several parts, or fewer queries than rank: queries are laid out explicitly, in pieces of the first block.
    axes = tuple(a for b in blocks for a in b.axes)
    width = cells([n for p in parts for n in p.shape]) * math.prod(counts[1:])
    require_memory("the variances of a family", width, "ask for fewer queries at once")
    step = max(1, CHUNK // width)
    pieces = []
    for start in range(0, counts[0], step):
        rows = outer([blocks[0].projection.matrix[start : start + step], *(b.projection.matrix for b in blocks[1:])])
        q = _represent(parts, _rows_first(rows, [len(b.axes) for b in blocks]), axes)
        pieces.append((q**2).sum(axis=1))
    return np.concatenate(pieces).reshape(counts)


def _one_part(part: Part, blocks: list[Block]) -> Array:
    """Variances of a product of blocks on one dense part: the blocks applied to its root, squared and summed."""
    where = [[part.axes.index(a) for a in b.axes] for b in blocks]
    if len(blocks) == 1:
        return part.variances(blocks[0].projection, where[0])
    root = part.root()
    total: Array = np.zeros([b.count for b in blocks])
    step = max(1, CHUNK // max(1, total.size))
    order = [i for w in where for i in w]
    for start in range(0, root.shape[-1], step):
        x = root[..., start : start + step].transpose(*order, root.ndim - 1)
        for b in blocks:  # each consumes its leading axes and puts its queries last
            x = np.moveaxis(b.projection.apply(x), 0, -1)
        total += (x**2).sum(axis=0)
    return total


def _rows_first(rows: Array, ranks: Sequence[int]) -> Array:
    """From ``(count, axes..., count, axes..., ...)`` to ``(all counts, axes...)``."""
    starts = [int(s) for s in np.cumsum([0] + [1 + r for r in ranks])[:-1]]
    others = [i for i in range(rows.ndim) if i not in starts]
    moved = rows.transpose(*starts, *others)
    return moved.reshape(-1, *moved.shape[len(starts) :])


def _represent(parts: list[Part], q: Array, axes: tuple[int, ...]) -> Array:
    """``(L_1 x ... x L_k)' q`` for rows q ``(count, *axes)``: shape ``(count, rows)``."""
    order = [axes.index(a) + 1 for p in parts for a in p.axes]
    x = q.transpose(*order, 0).reshape(*(cells(p.shape) for p in parts), -1)
    x = _in_turn(x, [p.represent for p in parts])
    return x.reshape(-1, x.shape[-1]).T
