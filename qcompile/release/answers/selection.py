"""Selection of a family's answers: products over some attributes, and of these the queries with some labels.

Products are found from the family's symbolic form, without walking through the others: a family may have millions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from qcompile.errors import OptionError, SizeError, did_you_mean
from qcompile.queries.factors import Factor
from qcompile.queries.factors.selected import with_labels
from qcompile.queries.workload import Family, Product, Workload, subset_products
from qcompile.support.arrays import require_memory

Of: TypeAlias = str | Sequence[str] | None
"""The attributes of the products wanted; None for all products."""

Where: TypeAlias = Mapping[str, str | Iterable[str]] | None
"""By label column, the label or labels wanted; None for all queries."""

MOST_ROWS = 20_000_000
"""Answers that one table may hold: about a gigabyte, and seconds to make."""

NUMBERS = 4
"""Numbers of an answer in a table, beside its labels."""

ARRAYS = 5
"""Arrays as large as a product's answers that exist at once while it is answered."""

FEWER = (
    "choose products by their attributes (of=, --of) or rows by their labels (where=, --where), or write them all, in "
    "batches (Release.batches, --all -o FILE)"
)


@dataclass(frozen=True, eq=False)
class SelectedAnswers:
    """Some products of a family.

    Attributes:
      family: what is selected from.
      factors: the factors of the products, with the chosen queries only, in the family's order.
      sizes: the least and the largest number of factors of a product.
      fixed: positions of the factors that every product holds, ascending.
    """

    family: Family
    factors: tuple[Factor, ...]
    sizes: tuple[int, int]
    fixed: tuple[int, ...]

    @property
    def _free(self) -> list[int]:
        return [i for i in range(len(self.factors)) if i not in self.fixed]

    @property
    def _others(self) -> range:
        """The possible numbers of factors of a product besides the fixed ones."""
        low, high = self.sizes
        return range(max(0, low - len(self.fixed)), high - len(self.fixed) + 1)

    def products(self) -> Iterator[Product]:
        """The products, lazily, in the family's order."""
        for k in self._others:
            for chosen in itertools.combinations(self._free, k):
                yield Product(tuple(self.factors[i] for i in sorted((*self.fixed, *chosen))))

    @cached_property
    def count(self) -> int:
        """Number of answers, found without listing the products."""
        if not self._others:
            return 0
        sums = subset_products([self.factors[i].count for i in self._free], self._others[-1])
        return math.prod(self.factors[i].count for i in self.fixed) * sum(sums[self._others[0] :])

    @property
    def whole(self) -> bool:
        """True if these are all answers of the family."""
        return self.count == self.family.count

    @property
    def columns(self) -> tuple[str, ...]:
        """The label columns, in the family's order."""
        return tuple(dict.fromkeys(f.column for f in self.factors))

    def require_table(self) -> None:
        """Refuse what is too much for one table in memory.

        Raises:
          SizeError: with the number of answers, and ways to ask for fewer or to write them all.
        """
        what = f"a table of the {self.count:,} answers of {self.family.name!r}"
        require_memory(what, self.count * (len(self.columns) + NUMBERS), FEWER)
        if self.count > MOST_ROWS:
            raise SizeError(f"{what} is more than the {MOST_ROWS:,} rows that one may have; {FEWER}")


def require_product(product: Product) -> None:
    """Refuse a single product with more answers than memory holds; a product is answered in one piece.

    Raises:
      SizeError: it has.
    """
    over = ", ".join(product.names) or "no attribute"
    remedy = "choose rows by their labels (where=, --where)"
    require_memory(f"the {product.count:,} answers over {over}", ARRAYS * product.count, remedy)


def select(workload: Workload, name: str, of: Of = None, where: Where = None) -> SelectedAnswers:
    """Select answers of a family.

    Args:
      workload: knows the families and the attributes.
      name: of the family.
      of: the products over exactly these attributes, in any order; a text is one attribute.
      where: only queries whose label in each of these columns is the one given, or one of those given.

    Raises:
      OptionError: no such family, attribute, combination, column or label; with a suggestion.
    """
    family = workload.family(name)
    count = len(family.factors)
    every = tuple(range(count)) if family.choose is None else ()
    found = SelectedAnswers(family, family.factors, family.choose or (count, count), every)
    if of is not None:
        found = _over(workload, found, _listed("of", of))
    return found if where is None else _labelled(found, _texts(where))


def _over(workload: Workload, whole: SelectedAnswers, names: tuple[str, ...]) -> SelectedAnswers:
    for i, name in enumerate(names):
        if name not in workload.schema:
            raise OptionError(f"unknown attribute {name!r}; {did_you_mean(str(name), workload.schema.names)}")
        if name in names[:i]:
            raise OptionError(f"attribute {name!r} is named twice")
    factors = _factors_over(whole.family, frozenset(names))
    if factors is None:
        raise OptionError(_no_product(workload, whole.family, frozenset(names)))
    if factors and whole.sizes[1] == 1:
        return SelectedAnswers(whole.family, factors, (1, 1), ())
    return SelectedAnswers(whole.family, factors, (len(factors), len(factors)), tuple(range(len(factors))))


def _factors_over(family: Family, wanted: frozenset[str]) -> tuple[Factor, ...] | None:
    """The factors of a family's product over exactly these attributes, in its order; None where it has none.

    Where a product has one factor only, there may be several products over the same attributes: one per factor.
    """
    low, high = family.choose or (len(family.factors), len(family.factors))
    factors = tuple(f for f in family.factors if wanted.issuperset(f.names))
    if high == 1 and wanted:
        return tuple(f for f in factors if len(f.names) == len(wanted)) or None
    covered = sum(len(f.names) for f in factors) == len(wanted)
    return factors if covered and low <= len(factors) <= high else None


def _no_product(workload: Workload, family: Family, wanted: frozenset[str]) -> str:
    """The message that a family has no product over some attributes, with a family that has one."""
    over = ", ".join(workload.schema.order(tuple(wanted))) or "no attribute"
    held = workload.schema.order(tuple({n for f in family.factors for n in f.names}))
    listed = ", ".join(held[:8]) + (f", ... ({len(held)} attributes)" if len(held) > 8 else "")
    message = f"family {family.name!r} has no product over exactly {over}; "
    message += f"it is over {_sizes(family)}{listed or 'no attribute'}"
    other = next((f.name for f in workload.families if _factors_over(f, wanted) is not None), None)
    return f"{message}; {'no other family has one' if other is None else f'family {other!r} has one'}"


def _sizes(family: Family) -> str:
    if family.choose is None:
        return ""
    low, high = family.choose
    return f"{low} of " if low == high else f"{low} to {high} of "


def _listed(name: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """One text or several, as a tuple.

    Raises:
      OptionError: something is no text.
    """
    found = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    for text in found:
        if not isinstance(text, str):
            raise OptionError(f"{name} takes one text or several, got {text!r}")
    return found


def _texts(where: Mapping[str, str | Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The labels wanted in each column.

    Raises:
      OptionError: a label is no text, or a column has none.
    """
    if not isinstance(where, Mapping):
        raise OptionError(f"where maps label columns to labels, such as {{'age': '40'}}; got {where!r}")
    found = {column: _listed(f"where[{column!r}]", labels) for column, labels in where.items()}
    for column, labels in found.items():
        if not labels:
            raise OptionError(f"where names no label of {column!r}; leave the column out to have all rows")
    return found


def _labelled(found: SelectedAnswers, wanted: Mapping[str, tuple[str, ...]]) -> SelectedAnswers:
    """Restrict a selection to products with all these columns, and to queries with these labels."""
    factors, held = list[Factor | None](found.factors), set[int]()
    for column, labels in wanted.items():
        places = [i for i, f in enumerate(found.factors) if f.column == column]
        if not places:
            hint = did_you_mean(str(column), found.columns)
            raise OptionError(f"family {found.family.name!r} has no label column {column!r}; {hint}")
        kept = with_labels(column, [found.factors[i] for i in places], frozenset(labels))
        held.update(places)
        for i, factor in zip(places, kept, strict=True):
            factors[i] = factor
    selected = _holding(found, factors, held, len(wanted))
    if not selected.count:
        names = " and ".join(repr(column) for column in wanted)
        raise OptionError(f"no product of family {found.family.name!r} has all of the columns {names}")
    return selected


def _holding(found: SelectedAnswers, factors: Sequence[Factor | None], held: set[int], columns: int) -> SelectedAnswers:
    """The products that hold the factors at some places; where a product is one factor, it is any one of them."""
    if found.sizes[1] == 1 and not found.fixed:
        kept = [f for i, f in enumerate(factors) if f is not None and i in held] if columns == 1 else []
        return replace(found, factors=tuple(kept), sizes=(1, 1))
    present = tuple(f for f in factors if f is not None)
    if len(present) < len(factors):  # two factors of a product share a column, and one of them has no such label
        return replace(found, sizes=(1, 0))
    return replace(found, factors=present, fixed=tuple(sorted(held.union(found.fixed))))
