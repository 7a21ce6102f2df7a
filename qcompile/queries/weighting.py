"""Weights of products and single queries: what an objective other than the total error solves for.

They stand in place of the families' own weights. Within a product they are a product of weights per factor, so that
Grams stay Kronecker products; or, for a product in an unsplit block, one weight per query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qcompile.errors import IntegrityError
from qcompile.queries.factors import Factor
from qcompile.queries.factors.reweighted import Reweighted
from qcompile.queries.workload import Family, Product
from qcompile.support.arrays import Array, IntArray


@dataclass(frozen=True, eq=False)
class ProductWeights:
    """The weights of a product's queries.

    Attributes:
      weight: their mean.
      queries: relative weights of mean 1: per factor an array ``(factor.count,)``, or None where all are 1; a single
        array ``(count,)`` for the product of several factors.
    """

    weight: float
    queries: tuple[Array | None, ...]

    def __post_init__(self) -> None:
        arrays = [np.array([self.weight]), *(q for q in self.queries if q is not None)]
        if not all((q > 0).all() and np.isfinite(q).all() for q in arrays):
            raise IntegrityError("weights must be finite and > 0")

    @staticmethod
    def uniform(weight: float, factors: int) -> ProductWeights:
        """The same weight for all queries of a product of some factors."""
        return ProductWeights(weight, (None,) * factors)

    def groups(self, factors: Sequence[Factor]) -> list[tuple[Factor, ...]]:
        """The factors that each array belongs to.

        Raises:
          IntegrityError: there are neither as many arrays as factors nor one.
        """
        if len(self.queries) == len(factors):
            return [(f,) for f in factors]
        if len(self.queries) != 1:
            raise IntegrityError(f"{len(self.queries)} arrays of weights do not fit {len(factors)} factors")
        return [tuple(factors)]

    def table(self, shape: Sequence[int]) -> Array:
        """The weight of every query of a product of this shape."""
        if len(self.queries) != len(shape):
            (joint,) = self.queries
            assert joint is not None
            return self.weight * joint.reshape(shape)
        result = np.full(shape, self.weight)
        for axis, q in enumerate(self.queries):
            if q is not None:
                result *= q.reshape([-1 if i == axis else 1 for i in range(len(shape))])
        return result


@dataclass(frozen=True, eq=False)
class FamilyWeights:
    """The weights of a family's queries.

    Attributes:
      classes: the distinct weights of products.
      class_of: per product its place among them, ``(views,)``.
    """

    classes: tuple[ProductWeights, ...]
    class_of: IntArray
    _made: dict[object, Factor] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if not np.array_equal(np.unique(self.class_of), np.arange(len(self.classes))):
            raise IntegrityError("every class of weights needs a product, and every product a class")

    @staticmethod
    def uniform(family: Family, weight: float) -> FamilyWeights:
        """The same weight for all queries of a family."""
        sizes = [len(p.factors) for p in family.products()]
        distinct = sorted(set(sizes))
        classes = tuple(ProductWeights.uniform(weight, k) for k in distinct)
        return FamilyWeights(classes, np.searchsorted(distinct, sizes).astype(np.int64))

    def products(self, family: Family) -> Iterator[tuple[Product, float]]:
        """The family's products with their mean weights; factors carry the relative weights of their queries."""
        for product, c in zip(family.products(), self.class_of.tolist(), strict=True):
            weights = self.classes[c]
            yield Product(self._factors(c, weights, product.factors)), weights.weight

    def _factors(self, c: int, weights: ProductWeights, factors: Sequence[Factor]) -> tuple[Factor, ...]:
        pairs = zip(weights.groups(factors), weights.queries, strict=True)
        return tuple(g[0] if q is None else self._reweighted(c, g, q) for g, q in pairs)

    def _reweighted(self, c: int, factors: tuple[Factor, ...], queries: Array) -> Factor:
        """The weighted factor; the same object wherever it occurs."""
        key = c, factors
        if key not in self._made:
            self._made[key] = Reweighted(factors, queries)
        return self._made[key]


@dataclass(frozen=True, eq=False)
class Weighting:
    """The weights of all queries of a workload.

    Attributes:
      families: by name; a family that is absent has no weight, and nothing is measured for it.
    """

    families: Mapping[str, FamilyWeights]

    def products(self, family: Family) -> Iterator[tuple[Product, float]]:
        """See `FamilyWeights.products`."""
        weights = self.families.get(family.name)
        return iter(()) if weights is None else weights.products(family)


def weighted_products(family: Family, weighting: Weighting | None) -> Iterator[tuple[Product, float]]:
    """The products of a family with their weights: those of a weighting, or the family's own."""
    if weighting is not None:
        return weighting.products(family)
    return ((product, family.weight) for product in family.products())
