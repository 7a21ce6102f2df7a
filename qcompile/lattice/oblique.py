"""Nodes that measure more than their own residual, and what their queries leave to lower nodes.

On an oblique node A the rows of M are measured, whose part centred on every axis is B. A query q with part q_A on A is
the combination ``w = B^+' q_A`` of the measurements, and leaves ``q - M' w`` to the lower nodes, where it takes the
place of q's own parts. Only maximal nodes are oblique, so that a product has one of them at most.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from qcompile.lattice.projection import Projection, centre, zero_weights
from qcompile.queries.factors.base import Factor
from qcompile.support.arrays import Array, cells, digest, outer

LEFT = 1e-11
"""What is left of queries below this share of them is rounding error."""


@dataclass(frozen=True, eq=False)
class Oblique:
    """Nodes that measure the same matrix.

    Attributes:
      measured: M, ``(rows, cells)``, axes in canonical order.
      own: B, the same shape.
      members: per node, the attributes at each canonical axis, by position in the schema.
    """

    measured: Array
    own: Array
    members: tuple[tuple[int, ...], ...]

    @cached_property
    def identity(self) -> str:
        """Equal for equal matrices."""
        return digest(self.measured) + digest(self.own)

    @cached_property
    def _inverse(self) -> Array:
        """``B^+``, ``(cells, rows)``."""
        return np.asarray(np.linalg.pinv(self.own), dtype=np.float64)

    def leftover(self, queries: Array, weights: Sequence[Array]) -> Array:
        """What queries ``(count, *shape)`` leave to lower nodes, the same shape."""
        own = queries
        for axis, u in enumerate(weights):
            own = centre(own, u, axis + 1)
        flat = queries.reshape(len(queries), -1)
        left = flat - (own.reshape(flat.shape) @ self._inverse) @ self.measured
        return left.reshape(queries.shape)


def part_on(x: Array, weights: Sequence[Array], kept: Sequence[int]) -> Array:
    """The part of queries ``(count, *shape)`` on some axes: contracted along the others, centred along these."""
    for axis in reversed(range(len(weights))):
        if axis not in kept:
            x = np.tensordot(x, weights[axis], axes=(axis + 1, 0))
    for place, axis in enumerate(kept):
        x = centre(x, weights[axis], place + 1)
    return x


def lower_subsets(axes: int) -> Iterator[tuple[int, ...]]:
    """All proper subsets of some axes, the smallest first."""
    for k in range(axes):
        yield from itertools.combinations(range(axes), k)


def written_out(factors: Sequence[Factor], order: Sequence[str]) -> Array:
    """The queries of a product as arrays on named axes, ``(count, *shape)``."""
    parts, rows, place, start = [], [], {}, 0
    for f in factors:
        whole = Projection(f, (True,) * len(f.shape), tuple(zero_weights(n) for n in f.shape))
        parts.append(whole.matrix)
        rows.append(start)
        place.update({name: start + 1 + i for i, name in enumerate(f.names)})
        start += 1 + len(f.shape)
    tensor = outer(parts).transpose(*rows, *(place[name] for name in order))
    shape = tensor.shape[len(rows) :]
    return tensor.reshape(tensor.size // cells(shape), *shape)
