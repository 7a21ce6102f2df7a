"""The workload: weighted families of queries, each a tensor product of factors."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from qcompile.errors import IntegrityError, OptionError, did_you_mean
from qcompile.queries.factors import Factor, Marginal, Prefix
from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.factors.circular import Circular
from qcompile.queries.schema import Attribute, CategoryDomain, Schema, number_text
from qcompile.support.text import plural

WEIGHT_RATIO = 1e6
"""Weights further than this below the largest would vanish from the span in double precision."""


@dataclass(frozen=True)
class Product:
    """A tensor product of factors over disjoint attributes; the empty product is the total.

    The queries form an array with one axis per factor (`shape`), in the order of `factors`, C order.
    """

    factors: tuple[Factor, ...]

    def __post_init__(self) -> None:
        names = self.names
        if len(set(names)) != len(names):
            raise IntegrityError(f"the factors of a product must have disjoint attributes, got {', '.join(names)}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes, factor by factor."""
        return tuple(name for f in self.factors for name in f.names)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of queries along each factor's axis."""
        return tuple(f.count for f in self.factors)

    @property
    def count(self) -> int:
        """Number of queries."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Target:
    """The accuracy that a family must have.

    Attributes:
      std_error: in counts, or in per cent of a total; > 0.
      percent: True if it is relative to a total, which an option of the compiler states.
      largest: True if every query must meet it; else the root of the mean variance of the family's queries must.
    """

    std_error: float
    percent: bool = False
    largest: bool = False

    def __post_init__(self) -> None:
        if not (self.std_error > 0 and math.isfinite(self.std_error)):
            raise IntegrityError(f"a target must be finite and > 0, got {self.std_error!r}")

    def __str__(self) -> str:
        percent, largest = " %" if self.percent else "", " max" if self.largest else ""
        return f"{number_text(self.std_error)}{percent}{largest}"


@dataclass(frozen=True, repr=False)
class Family:
    """A named group of queries with one weight.

    Attributes:
      name: unique in the workload.
      text: the canonical expression in the ``.q`` language, without weight.
      factors: of the product; or of the choice, one per attribute, when `choose` is given.
      weight: multiplies the squared error of each query; > 0.
      choose: None for one product, or (K, L) for all k-subsets of the factors, K <= k <= L.
      aliases: names of identical families whose weight was added to this one.
      target: the accuracy it must have, where one is asked for.
    """

    name: str
    text: str
    factors: tuple[Factor, ...]
    weight: float = 1.0
    choose: tuple[int, int] | None = None
    aliases: tuple[str, ...] = ()
    target: Target | None = None

    def __post_init__(self) -> None:
        if not (self.weight > 0 and math.isfinite(self.weight)):
            raise IntegrityError(f"the weight of family {self.name!r} must be finite and > 0, got {self.weight!r}")
        if self.choose is not None and not 0 <= self.choose[0] <= self.choose[1] <= len(self.factors):
            raise IntegrityError(f"family {self.name!r}: cannot choose {self.choose} of {len(self.factors)} factors")

    def __repr__(self) -> str:
        return f"<Family {self.name!r}: {plural(self.count, 'query', 'queries')} in {plural(self.views, 'product')}>"

    def products(self) -> Iterator[Product]:
        """Iterate over the products, smallest subsets first, each in the listed order of factors."""
        if self.choose is None:
            yield Product(self.factors)
            return
        low, high = self.choose
        for k in range(low, high + 1):
            for chosen in itertools.combinations(self.factors, k):
                yield Product(chosen)

    @property
    def views(self) -> int:
        """Number of products."""
        if self.choose is None:
            return 1
        low, high = self.choose
        return sum(math.comb(len(self.factors), k) for k in range(low, high + 1))

    @cached_property
    def count(self) -> int:
        """Number of queries, by elementary symmetric polynomials rather than by listing the products."""
        if self.choose is None:
            return math.prod(f.count for f in self.factors)
        low, high = self.choose
        return sum(subset_products([f.count for f in self.factors], high)[low:])


def subset_products(counts: Iterable[int], high: int) -> list[int]:
    """Return the elementary symmetric polynomials of ``counts`` of the degrees 0..high."""
    sums = [1] + [0] * high
    for count in counts:
        for k in range(high, 0, -1):
            sums[k] += sums[k - 1] * count
    return sums


@dataclass(frozen=True, repr=False)
class Workload:
    """A schema and the families that must be accurate.

    Raises:
      IntegrityError: no family, a repeated name, or weights more than 10^6 apart.
    """

    schema: Schema
    families: tuple[Family, ...]

    def __post_init__(self) -> None:
        if not self.families:
            raise IntegrityError("a workload needs at least one family")
        names = [name for f in self.families for name in (f.name, *f.aliases)]
        if len(set(names)) != len(names):
            raise IntegrityError("family names must be distinct")
        weights = [f.weight for f in self.families]
        if max(weights) > WEIGHT_RATIO * min(weights):
            raise IntegrityError("weights must be within a factor of 10^6 of the largest")

    def __repr__(self) -> str:
        families = plural(len(self.families), "family", "families")
        attributes = plural(len(self.schema), "attribute")
        return f"<Workload: {plural(self.queries, 'query', 'queries')} in {families} over {attributes}>"

    @cached_property
    def queries(self) -> int:
        """Number of queries, exact at any size."""
        return sum(f.count for f in self.families)

    @cached_property
    def views(self) -> tuple[tuple[str, ...], ...]:
        """The distinct attribute sets that must be counted, in schema order, smallest first."""
        return self.views_of(self.families)

    def views_of(self, families: Iterable[Family]) -> tuple[tuple[str, ...], ...]:
        """Return the distinct attribute sets of some families, in schema order, smallest first."""
        order = self.schema.positions
        distinct = {tuple(sorted(order[n] for n in p.names)) for f in families for p in f.products()}
        names = self.schema.names
        return tuple(tuple(names[i] for i in v) for v in sorted(distinct, key=lambda v: (len(v), v)))

    def family(self, name: str) -> Family:
        """Return the family called ``name``, an alias included.

        Raises:
          OptionError: there is none; with a suggestion.
        """
        for f in self.families:
            if name == f.name or name in f.aliases:
                return f
        hint = did_you_mean(name, [f.name for f in self.families])
        raise OptionError(f"no family is called {name!r}; {hint}")


def default_factor(attribute: Attribute) -> OneAttribute:
    """Return the factor of ``each K of all``: marginal for categories, circular for cyclic attributes, else prefix."""
    if attribute.cyclic:
        return Circular(attribute)
    return Marginal(attribute) if isinstance(attribute.domain, CategoryDomain) else Prefix(attribute)
