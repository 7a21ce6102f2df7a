"""The release: noisy measurements, and every answer they support with its standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from qcompile import grammar
from qcompile.allocation import Scale
from qcompile.arrays import Array
from qcompile.errors import NotEstimableError, OptionError, SizeError, did_you_mean
from qcompile.plan import Plan
from qcompile.release import intervals
from qcompile.release.answers import family_table
from qcompile.release.intervals import Width
from qcompile.release.measure import Values
from qcompile.release.provenance import Provenance
from qcompile.release.sources import Source, marginal_product
from qcompile.workload import Family, Product

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


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

    @cached_property
    def _sources(self) -> tuple[Source, ...]:
        variances = np.array([s.variance for s in self.scales])  # the rounding to the grid included
        return tuple(Source(view, self.plan.strategies, variances, self.measured) for view in self.plan.closure.sources)

    def measured(self, node: int) -> Array:
        """The measurements y of a node or block in counts, ``(rows,)``, by its position in the lattice."""
        grid = self.scales[int(self.plan.closure.class_of[node])].grid
        values = self.values[node]
        return np.asarray(values * grid if values.dtype.kind == "i" else values, dtype=np.float64)

    def _source(self, family: Family) -> Source:
        only = self.plan.closure.source(family.name).only
        return next(s for s in self._sources if s.lattice.only == only)

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
        source = self._source(family)
        for product in family.products():
            yield product, source.answers(product), source.variances(product)

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
        product = marginal_product(self.plan.closure, names)

        def variances(source: Source) -> Array:
            source.require_all_cells(product)
            return source.variances(product)

        found = [(float(v.sum()), i, v) for i, v in self._attempts(variances)]
        _, best, variance = min(found, key=lambda f: f[:2])
        return Marginal(names, self._sources[best].answers(product), np.asarray(np.sqrt(variance)))

    def _attempts(self, attempt: Callable[[Source], T]) -> list[tuple[int, T]]:
        """What each source that spans the question makes of it, by its number.

        Raises:
          NotEstimableError: none does; with the first source's reason.
          SizeError: that reason is that it would not fit in memory.
        """
        found, refusals = list[tuple[int, T]](), list[NotEstimableError | SizeError]()
        for i, source in enumerate(self._sources):
            try:
                found.append((i, attempt(source)))
            except (NotEstimableError, SizeError) as e:
                refusals.append(e)
        if not found:
            raise refusals[0]
        return found

    def ask(self, query: str, estimate: str = "unbiased") -> Answer:
        """The answer to any single query in the span, written in the ``.q`` language.

        Raises:
          WorkloadError: the text has errors; carries their positions.
          NotEstimableError: the query lies outside the span of what was measured.
        """
        _check_estimate(estimate)
        product = grammar.parse_query(query, self.plan.workload.schema)
        answers = [answer for _, answer in self._attempts(lambda source: source.ask(product))]
        value, variance = min(answers, key=lambda a: a[1])
        return Answer(value, math.sqrt(variance))

    def save(self, path: str | Path) -> None:
        """Write the release, its plan inside, to a file."""
        from qcompile.release.files import save_release

        save_release(self, path)

    def _simultaneous(self, family: Family, alpha: float) -> Width:
        """Simulated where that takes seconds, Bonferroni beyond."""
        products = list(family.products()) if family.count <= intervals.SIMULATED_QUERIES else []
        source = self._source(family)
        nodes = {i for p in products for i in source.nodes_of(p)}
        numbers = sum(self.values[i].size for i in nodes) * intervals.SIMULATIONS
        if not products or numbers > intervals.SIMULATED_NUMBERS:
            return intervals.bonferroni(alpha, family.count)
        pairs = [(p, source.variances(p)) for p in products]
        return intervals.simulated(alpha, lambda first, count: source.largest_z(pairs, first, count))


def _check_estimate(estimate: str) -> None:
    if estimate != "unbiased":
        raise OptionError(f"estimate must be 'unbiased', got {estimate!r}")
