"""The release: noisy measurements, and every answer they support with its standard error."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qcompile import grammar
from qcompile.allocation import Scale
from qcompile.arrays import Array
from qcompile.errors import OptionError, did_you_mean
from qcompile.factors import Marginal as MarginalFactor
from qcompile.lattice import Node
from qcompile.plan import Plan
from qcompile.release import intervals
from qcompile.release.answers import apply_product, family_table, largest_z
from qcompile.release.ask import coefficients, not_estimable
from qcompile.release.intervals import Width
from qcompile.release.measure import Values
from qcompile.release.reconstruct import in_schema_order, marginal
from qcompile.variances import product_variances
from qcompile.workload import Family, Product

if TYPE_CHECKING:
    import pyarrow as pa

CACHED_CELLS = 2**24
"""Cells of residual estimates kept for further questions (128 MB)."""


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
      estimate: unbiased.
      std_error: its standard deviation.
    """

    estimate: float
    std_error: float

    def interval(self, alpha: float = 0.05) -> tuple[float, float]:
        """The interval that covers the true answer with probability 1 - alpha."""
        intervals.check_alpha(alpha)
        half = intervals.upper_quantile(alpha / 2) * self.std_error
        return self.estimate - half, self.estimate + half


@dataclass(frozen=True, eq=False)
class Marginal:
    """An estimated contingency table.

    Attributes:
      attributes: the axes.
      array: the estimates; unbiased, so that small counts may come out negative.
      std_error: of each cell.
    """

    attributes: tuple[str, ...]
    array: Array
    std_error: Array


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Under which terms a release was made; all of it public.

    Attributes:
      version: of qcompile.
      plan_hash: of the plan's contents.
      schema_hash: of the schema.
      charge: rho spent, exactly.
      budget: as it was asked for, in words.
      accounting: "zcdp" or "gaussian".
      noise: "rounded", "opendp" or "none".
      neighbours: the relation the charge refers to.
      contributions: rows of one privacy unit.
      stamps: warnings that go with the release, such as NOT PRIVATE.
    """

    version: str
    plan_hash: str
    schema_hash: str
    charge: Fraction
    budget: str
    accounting: str
    noise: str
    neighbours: str
    contributions: int
    stamps: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Release:
    """What may be published.

    Attributes:
      plan: what was measured.
      provenance: the terms.
      scales: the noise of each class.
      values: per node, its measurements: multiples of the grid with rounded noise, else numbers.
    """

    plan: Plan
    provenance: Provenance
    scales: tuple[Scale, ...]
    values: tuple[Values, ...]
    _cache: dict[int, Array] = field(default_factory=dict, repr=False)

    @cached_property
    def _sigma_squared(self) -> Array:
        """Variance of one measurement per class, the rounding to the grid included."""
        return np.array([s.variance for s in self.scales])

    def measured(self, node: int) -> Array:
        """A node's measurements y in counts, ``(rows,)``."""
        grid = self.scales[int(self.plan.closure.class_of[node])].grid
        values = self.values[node]
        return np.asarray(values * grid if values.dtype.kind == "i" else values, dtype=np.float64)

    def residual(self, node: int) -> Array | None:
        """The residual estimate t of a node, axes in schema order; None where nothing was measured."""
        closure = self.plan.closure
        c = int(closure.class_of[node])
        if c < 0:
            return None
        if node not in self._cache:
            t = self.plan.strategies[c].solve(self.measured(node))
            if sum(v.size for v in self._cache.values()) + t.size > CACHED_CELLS:
                self._cache.clear()
            self._cache[node] = in_schema_order(t, closure.orders[node])
        return self._cache[node]

    def answers(
        self, family: str, alpha: float = 0.05, simultaneous: bool = False, estimate: str = "unbiased"
    ) -> pa.Table:
        """The answers of a family.

        Args:
          family: its name.
          alpha: intervals cover with probability 1 - alpha.
          simultaneous: all intervals of the family together, instead of each by itself.
          estimate: "unbiased".

        Returns:
          One row per query in query order; label columns (text), estimate, std_error, lower, upper. The method of the
          intervals is in the table's metadata under ``interval``.

        Raises:
          OptionError: no such family, or an option out of range.
          SizeError: the table would not fit in memory.
        """
        intervals.check_alpha(alpha)
        _check_estimate(estimate)
        found = self.plan.workload.family(family)
        width = self._simultaneous(found, alpha) if simultaneous else intervals.pointwise(alpha)
        return family_table(found, self._rows(found), width)

    def _rows(self, family: Family) -> Iterator[tuple[Product, Array, Array]]:
        closure = self.plan.closure
        for product in family.products():
            table = marginal(closure, self.residual, self._node(product.names))
            yield product, apply_product(closure, product, table), self._variances(product)

    def _variances(self, product: Product) -> Array:
        return product_variances(self.plan.closure, self.plan.strategies, self._sigma_squared, product)

    def _node(self, names: Sequence[str]) -> Node:
        return tuple(sorted(self.plan.closure.schema.positions[n] for n in names))

    def marginal(self, attributes: Sequence[str], estimate: str = "unbiased") -> Marginal:
        """The contingency table on some attributes, axes in the order asked.

        Raises:
          OptionError: an unknown or repeated attribute.
          NotEstimableError: not every cell is in the span of what was measured.
        """
        _check_estimate(estimate)
        schema = self.plan.workload.schema
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        for i, name in enumerate(names):
            if name not in schema:
                raise OptionError(f"unknown attribute {name!r}; {did_you_mean(name, schema.names)}")
            if name in names[:i]:
                raise OptionError(f"attribute {name!r} is named twice")
        node = self._node(names)
        self._require_all_cells(node)
        product = Product(tuple(MarginalFactor(schema[n]) for n in names))
        table = marginal(self.plan.closure, self.residual, node)
        return Marginal(
            names,
            apply_product(self.plan.closure, product, table),
            np.asarray(np.sqrt(self._variances(product))),
        )

    def _require_all_cells(self, node: Node) -> None:
        closure = self.plan.closure
        subsets: list[Node] = [()]
        for a in node:
            subsets += [(*s, a) for s in subsets]
        for subset in subsets:
            full = math.prod(n - 1 for n in closure.shape(subset))
            index = closure.index.get(subset, -1)
            c = -1 if index < 0 else int(closure.class_of[index])
            if full and (c < 0 or self.plan.strategies[c].rank < full):
                raise not_estimable(closure, subset, "not all of its cells were measured")

    def ask(self, query: str, estimate: str = "unbiased") -> Answer:
        """The answer to any single query in the span, written in the ``.q`` language.

        Raises:
          WorkloadError: the text has errors; carries their positions.
          NotEstimableError: the query lies outside the span of what was measured.
        """
        _check_estimate(estimate)
        product = grammar.parse_query(query, self.plan.workload.schema)
        value = variance = 0.0
        for part in coefficients(self.plan, product):
            c = int(self.plan.closure.class_of[part.node])
            value += float(part.weights @ self.measured(part.node))
            variance += float(self._sigma_squared[c] * (part.weights @ part.weights))
        return Answer(value, math.sqrt(variance))

    def save(self, path: str | Path) -> None:
        """Write the release, its plan inside, to a file."""
        from qcompile.release.files import save_release

        save_release(self, path)

    def _simultaneous(self, family: Family, alpha: float) -> Width:
        """Simulated where that takes seconds, Bonferroni beyond."""
        products = list(family.products()) if family.count <= intervals.SIMULATED_QUERIES else []
        nodes = {i for p in products for i in self._below(p)}
        numbers = sum(self.values[i].size for i in nodes) * intervals.SIMULATIONS
        if not products or numbers > intervals.SIMULATED_NUMBERS:
            return intervals.bonferroni(alpha, family.count)
        pairs = [(p, self._variances(p)) for p in products]
        return intervals.simulated(alpha, lambda first, count: self._largest_z(pairs, first, count))

    def _below(self, product: Product) -> list[int]:
        from qcompile.release.measure import below

        return [i for i in below(self.plan.closure, self._node(product.names)) if self.plan.closure.class_of[i] >= 0]

    def _largest_z(self, pairs: list[tuple[Product, Array]], first: int, count: int) -> Array:
        """``max |z|`` over all queries for simulations ``first .. first + count - 1``."""
        closure, errors = self.plan.closure, dict[int, Array]()

        def simulated(node: int) -> Array | None:
            c = int(closure.class_of[node])
            if c >= 0 and node not in errors:
                y = intervals.normals(node, first, (self.values[node].size, count))
                t = self.plan.strategies[c].solve(y * math.sqrt(self._sigma_squared[c]))
                errors[node] = in_schema_order(t, closure.orders[node])
            return errors.get(node)

        largest = np.zeros(count)
        for product, variances in pairs:
            table = marginal(closure, simulated, self._node(product.names), (count,))
            largest = np.maximum(largest, largest_z(closure, product, table, variances))
        return largest


def _check_estimate(estimate: str) -> None:
    if estimate != "unbiased":
        raise OptionError(f"estimate must be 'unbiased', got {estimate!r}")
