"""Factors whose queries count unequally: what an objective solves for are weights of single queries."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.queries.factors.base import Dense, Factor, Key
from qcompile.support.arrays import Array, cells, digest, require_memory


class Reweighted(Dense):
    """The queries of a product of factors as those of one, each times the root of its weight: ``W' diag(w) W``.

    Attributes:
      factors: one or more, on different attributes.
      weights: of the squared errors, ``(count,)``, in the order of the product's queries.
    """

    kind = "reweighted"

    def __init__(self, factors: Sequence[Factor], weights: Array) -> None:
        self.factors, self.weights = tuple(factors), weights
        shape = [n for f in self.factors for n in f.shape]
        names = ", ".join(n for f in self.factors for n in f.names)
        if weights.shape != (int(np.prod([f.count for f in self.factors])),):
            raise IntegrityError(f"the queries on {names} need a weight each, got {weights.shape}")
        require_memory(f"the weighted queries on {names}", 2 * len(weights) * cells(shape), "use coarser bins")
        matrix: Array = np.ones((1, 1))
        for f in self.factors:
            matrix = np.asarray(np.kron(matrix, f.contract([None] * len(f.shape)).reshape(f.count, -1)), dtype=float)
        super().__init__([a for f in self.factors for a in f.attributes], np.sqrt(weights)[:, None] * matrix)

    @cached_property
    def key(self) -> Key:
        """The factors and the weights."""
        return (self.kind, tuple(f.key for f in self.factors), digest(self.weights))

    @cached_property
    def axis_order(self) -> tuple[int, ...]:
        """That of each factor, one after the other."""
        starts = np.cumsum([0, *(len(f.shape) for f in self.factors)])
        return tuple(int(s) + a for s, f in zip(starts, self.factors, strict=False) for a in f.axis_order)

    @property
    def roles(self) -> tuple[Hashable, ...]:
        """Those of each factor; axes of different factors are never exchanged."""
        return tuple((i, role) for i, f in enumerate(self.factors) for role in f.roles)

    @cached_property
    def magnitude(self) -> float:
        """The largest absolute entry."""
        return float(np.abs(self._matrix).max())

    def labels(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Numbers: these queries are never shown."""
        return [str(i) for i in range(self.count)[start:stop]]
