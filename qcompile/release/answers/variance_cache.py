"""Variances of many products, of which most have the same numbers."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass, field

from qcompile.queries.workload import Product
from qcompile.release.answers.answer_source import CACHED_CELLS, AnswerSource
from qcompile.strategy.variances import Numbers
from qcompile.support.arrays import Array


@dataclass(eq=False)
class VarianceCache:
    """Variances of products, found once for all that have the same factors, classes of nodes and noise.

    Attributes:
      source: what the products are answered from.
    """

    source: AnswerSource
    _found: dict[Hashable, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._numbers = Numbers(self.source.lattice)

    def variances(self, product: Product) -> Array:
        """As `AnswerSource.variances`."""
        key = self._numbers.key(product), self._noise(product)
        if key not in self._found:
            table = self.source.variances(product)
            if sum(v.size for v in self._found.values()) + table.size > CACHED_CELLS:
                self._found.clear()
            self._found[key] = table
        return self._found[key]

    def _noise(self, product: Product) -> tuple[float, ...]:
        """The noise of each node below a product: an adaptive run's differs from node to node of a class."""
        lattice, sigma_squared = self.source.lattice, self.source.sigma_squared
        held = lattice.covering(product)
        axes = tuple(lattice.schema.positions[n] for n in held.names)
        subsets = itertools.chain.from_iterable(itertools.combinations(axes, k) for k in range(len(axes) + 1))
        places = (lattice.index.get(tuple(sorted(s)), -1) for s in subsets)
        return tuple(float(sigma_squared[i]) if i >= 0 else 0.0 for i in places)
