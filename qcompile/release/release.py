"""The release: noisy measurements, and every answer they support with its standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from qcompile import grammar
from qcompile.adaptive.history import History
from qcompile.errors import NotEstimableError, OptionError, SizeError, did_you_mean
from qcompile.estimates.best import ESTIMATES, PROCESSING, Best
from qcompile.estimates.grem import Estimates
from qcompile.lattice.apply_product import apply_product
from qcompile.plan.basis import basis_strategies
from qcompile.plan.plan import Plan
from qcompile.privacy.noise.scale import Scale
from qcompile.queries.workload import Family, Product
from qcompile.release.answers import intervals
from qcompile.release.answers.answer_source import Source, marginal_product
from qcompile.release.answers.intervals import Width
from qcompile.release.answers.results import Answer, Marginal
from qcompile.release.answers.selection import Of, Selection, Where, require_product, select
from qcompile.release.answers.single_query import coefficients, not_estimable
from qcompile.release.answers.tables import Answers, Layout
from qcompile.release.answers.variance_cache import Repeated
from qcompile.release.provenance import NOT_PRIVATE, Provenance
from qcompile.release.values import Values
from qcompile.strategy import Strategy
from qcompile.strategy.variances import node_parts
from qcompile.support.arrays import Array, cells, require_memory
from qcompile.support.options import one_of
from qcompile.support.text import plural

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

NOMINAL = "nominal: what was measured depended on earlier measurements"
"""What is said with the standard errors of an adaptive run; docs/adaptive.md says why."""


@dataclass(frozen=True, eq=False, repr=False)
class Release:
    """What may be published.

    Attributes:
      plan: what was measured.
      provenance: the terms.
      scales: the noise of each class in a batch; empty where the run was adaptive.
      values: per node, its measurements: multiples of the grid with rounded noise, else numbers; of an adaptive run the
        averages, in counts, empty where a node was not measured. Of a large file they are read when they are asked for.
      history: what an adaptive run did, round by round; None for a batch.
    """

    plan: Plan
    provenance: Provenance
    scales: tuple[Scale, ...]
    values: Sequence[Values]
    history: History | None = None

    def __repr__(self) -> str:
        workload, terms = self.plan.workload, self.provenance
        size = f"{self.plan.queries:,} queries in {plural(len(workload.families), 'family', 'families')}"
        stamped = f", {NOT_PRIVATE}" if any(s.startswith(NOT_PRIVATE) for s in terms.stamps) else ""
        return f"<Release: {terms.mechanism}, {size}, rho {float(terms.charge):.6g}{stamped}>"

    @cached_property
    def _strategies(self) -> tuple[Strategy, ...]:
        return self.plan.strategies if self.history is None else basis_strategies(self.plan, self.history.basis)

    @cached_property
    def variances(self) -> Array:
        """Variance of each node's measurements, by its position; infinite where a node was not measured.

        The rounding to the grid is included. For an adaptive run it is that of the average of what was measured, as if
        it had been decided beforehand what to measure.
        """
        found = np.full(len(self.plan.closure.nodes), np.inf)
        if self.history is None:
            class_of = self.plan.closure.class_of
            found[class_of >= 0] = np.array([s.variance for s in self.scales])[class_of[class_of >= 0]]
        else:
            for node, precision in self.history.precisions().items():
                found[node] = 1 / precision
        return found

    @cached_property
    def _sources(self) -> tuple[Source, ...]:
        views = self.plan.closure.sources
        return tuple(Source(view, self._strategies, self.variances, self.measured) for view in views)

    def measured(self, node: int) -> Array:
        """The measurements y of a node or block in counts, ``(rows,)``, by its position in the lattice."""
        values = self.values[node]
        found = values.astype(np.float64)
        if values.dtype.kind == "i":
            found *= self.scales[int(self.plan.closure.class_of[node])].grid
        return np.asarray(found)

    def _source(self, family: Family) -> Source:
        only = self.plan.closure.source(family.name).only
        return next(s for s in self._sources if s.lattice.only == only)

    @cached_property
    def _best(self) -> Best:
        closure = self.plan.closure
        nodes = [i for i in range(closure.first_block) if math.isfinite(self.variances[i])]
        used = [self._strategies[int(closure.class_of[i])] for i in nodes]
        numbers = sum(s.rows + cells(s.shape) for s in used)  # measurements and residuals
        require_memory("the best estimates of everything measured", numbers, "ask for estimate='unbiased'")
        estimates = Estimates(closure, self._strategies)
        for node in nodes:
            variance = float(self.variances[node])
            estimates.add(node, self.measured(node), 1 / variance if variance else math.inf)
        return Best(estimates, self.provenance.reference)

    def _choice(self, estimate: str | None, processing: str | None, cell_by_cell: bool) -> tuple[str, str]:
        """The estimate and its processing that a question is about, with the defaults filled in.

        Removing negative counts cell by cell shifts every sum of cells: the default where cells are what is asked for.

        Raises:
          OptionError: one of them is unknown, or they do not go together.
        """
        usual = "unbiased" if self.history is None else "best"
        chosen = one_of("estimate", usual if estimate is None else estimate, ESTIMATES)
        if chosen == "unbiased":
            if processing not in (None, "none"):
                raise OptionError(
                    f"processing={processing!r} makes estimates biased; ask for estimate='best' with it, or leave it "
                    "out"
                )
            return chosen, "none"
        if not self.plan.closure.first_block:
            raise OptionError(
                "this plan measures blocks only, which have no best estimates; ask for estimate='unbiased'"
            )
        usual = "nonnegative" if cell_by_cell else "none"
        return chosen, one_of("processing", usual if processing is None else processing, PROCESSING)

    def answers(
        self,
        family: str,
        alpha: float = 0.05,
        simultaneous: bool = False,
        estimate: str | None = None,
        processing: str | None = None,
        of: Of = None,
        where: Where = None,
    ) -> pa.Table:
        """The answers of a family, or those of them that are selected.

        Args:
          family: its name.
          alpha: intervals cover with probability 1 - alpha.
          simultaneous: all intervals of the table together, instead of each by itself: those of the selected answers
            where something is selected, of all answers of the family otherwise.
          estimate: "unbiased" (the default for a batch): with standard errors; null where an adaptive run did not
            measure what a query depends on. "best" (the default for an adaptive run): with references and processing,
            biased, without standard errors.
          processing: of best estimates: "none", "nonnegative", "consistent" or "integer"; usually "nonnegative" for
            families of marginals alone, and "none" for others, whose queries add up many cells.
          of: the attributes of the products wanted, in any order: only products over exactly these.
          where: by label column, the label or labels wanted, such as ``{"age": "<= 40"}``.

        Returns:
          One row per query in query order; label columns (text), estimate, std_error, lower, upper. The table's
          metadata say how estimates and intervals were made, under ``estimate`` and ``interval``.

        Raises:
          OptionError: no such family, attributes, column or label, or an option out of range.
          SizeError: these are too many answers for one table; `batches` has no limit.
        """
        intervals.check_alpha(alpha)
        selection = select(self.plan.workload, family, of, where)
        selection.require_table()
        return self._reader(selection, alpha, simultaneous, estimate, processing).read_all()

    def batches(
        self,
        family: str,
        alpha: float = 0.05,
        simultaneous: bool = False,
        estimate: str | None = None,
        processing: str | None = None,
        of: Of = None,
        where: Where = None,
    ) -> pa.RecordBatchReader:
        """The rows of `answers` in batches, of any number and in bounded memory; arguments as there.

        Returns:
          An iterator over record batches, each made when it is asked for; its schema has the metadata of the table.

        Raises:
          OptionError: see `answers`.
          SizeError: a single product has too many answers for memory.
        """
        intervals.check_alpha(alpha)
        selection = select(self.plan.workload, family, of, where)
        return self._reader(selection, alpha, simultaneous, estimate, processing)

    def _reader(
        self, selection: Selection, alpha: float, simultaneous: bool, estimate: str | None, processing: str | None
    ) -> pa.RecordBatchReader:
        cell_by_cell = all(f.kind == "marginal" for f in selection.family.factors)
        chosen, processed = self._choice(estimate, processing, cell_by_cell)
        if chosen == "best":
            if simultaneous:
                raise OptionError("no intervals hold for best estimates, which are biased; ask for estimate='unbiased'")
            self._require_unsplit(selection.family)
            rows = self._best_rows(selection, self._best, processed)
            return Layout(selection, None, self._made(chosen, processed)).reader(rows)
        width = self._simultaneous(selection, alpha) if simultaneous else intervals.pointwise(alpha)
        width = replace(width, method=self._method(width.method))
        return Layout(selection, width, chosen).reader(self._rows(selection))

    def _method(self, method: str) -> str:
        return method if self.history is None else f"{method}, {NOMINAL}"

    def _made(self, estimate: str, processing: str) -> str:
        return estimate if estimate == "unbiased" else f"best, reference {self.provenance.reference}, {processing}"

    def _rows(self, selection: Selection) -> Iterator[Answers]:
        source = self._source(selection.family)
        repeated = Repeated(source)
        for product in selection.products():
            require_product(product)
            yield product, source.answers(product), repeated.variances(product)

    def _require_unsplit(self, family: Family) -> None:
        if self._source(family).lattice.only is not None:
            raise OptionError(f"family {family.name!r} was measured as a block; ask for estimate='unbiased'")

    def _best_rows(self, selection: Selection, best: Best, processing: str) -> Iterator[Answers]:
        closure = self.plan.closure
        for product in selection.products():
            require_product(product)
            yield product, apply_product(closure, product, best.table(self._node(product), processing)), None

    def _node(self, product: Product) -> int:
        """The position of the node of a product's attributes.

        Raises:
          NotEstimableError: the workload has no view that holds them all.
        """
        closure = self.plan.closure
        node = closure.node_of(product.names)
        if node not in closure.index:
            raise not_estimable(closure, node, "no view of the workload holds this combination of attributes")
        return closure.index[node]

    def marginal(
        self, attributes: Sequence[str], estimate: str | None = None, processing: str | None = None
    ) -> Marginal:
        """The contingency table on some attributes, axes in the order asked.

        Args:
          attributes: their names.
          estimate: see `answers`.
          processing: see `answers`.

        Raises:
          OptionError: an unknown or repeated attribute, or an option that cannot be.
          NotEstimableError: not every cell is in the span of what was measured.
        """
        chosen, processed = self._choice(estimate, processing, cell_by_cell=True)
        names = self._names(attributes)
        product = marginal_product(self.plan.closure, names)
        labels = tuple(tuple(f.labels()) for f in product.factors)
        if chosen == "best":
            table = self._best_marginal(product, processed)
            return Marginal(names, table, np.full(table.shape, np.nan), chosen, processed, labels)

        def variances(source: Source) -> Array:
            source.require_all_cells(product)
            return source.variances(product)

        found = [(float(v.sum()), i, v) for i, v in self._attempts(variances)]
        _, best, variance = min(found, key=lambda f: f[:2])
        errors = np.asarray(np.sqrt(variance))
        return Marginal(names, self._sources[best].answers(product), errors, chosen, processed, labels)

    def _best_marginal(self, product: Product, processing: str) -> Array:
        node = self._node(product)
        self._sources[0].require_all_cells(product, measured=False)
        return apply_product(self.plan.closure, product, self._best.table(node, processing))

    def _names(self, attributes: Sequence[str]) -> tuple[str, ...]:
        schema = self.plan.workload.schema
        names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        for i, name in enumerate(names):
            if name not in schema:
                raise OptionError(f"unknown attribute {name!r}; {did_you_mean(name, schema.names)}")
            if name in names[:i]:
                raise OptionError(f"attribute {name!r} is named twice")
        return names

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

    def ask(self, query: str, estimate: str | None = None, processing: str | None = None) -> Answer:
        """The answer to any single query in the span, written in the ``.q`` language.

        Args:
          query: the text.
          estimate: see `answers`.
          processing: see `answers`.

        Raises:
          WorkloadError: the text has errors; carries their positions.
          OptionError: an option that cannot be.
          NotEstimableError: the query lies outside the span of what was measured.
        """
        chosen, processed = self._choice(estimate, processing, cell_by_cell=False)
        product = grammar.parse_query(query, self.plan.workload.schema)
        if chosen == "best":
            return self._ask_best(product, processed)
        answers = [answer for _, answer in self._attempts(lambda source: source.ask(product))]
        value, variance = min(answers, key=lambda a: a[1])
        return Answer(value, math.sqrt(variance), self._method("pointwise"))

    def _ask_best(self, product: Product, processing: str) -> Answer:
        closure, node = self.plan.closure, self._node(product)
        for _ in coefficients(closure, self._strategies, product):  # refuses what lies outside the span
            pass
        answer = apply_product(closure, product, self._best.table(node, processing))
        return Answer(float(answer.item()), math.nan, self._made("best", processing))

    def rounds(self) -> pa.Table:
        """What an adaptive run did: one row per round.

        Raises:
          OptionError: this is a batch, which has no rounds.
        """
        from qcompile.release.rounds import rounds_table

        if self.history is None:
            raise OptionError("a batch measures everything at once and has no rounds; see plan.explain()")
        return rounds_table(self.history, self.plan)

    def coverage(self) -> pa.Table:
        """How far each family was measured: family, queries, unbiased (how many of them have an unbiased estimate)."""
        import pyarrow as pa

        families = self.plan.workload.families
        unbiased = [sum(self._estimable(p) for p in f.products()) for f in families]
        return pa.table(
            {"family": [f.name for f in families], "queries": [f.count for f in families], "unbiased": unbiased}
        )

    def _estimable(self, product: Product) -> int:
        """How many of a product's queries have an unbiased estimate: all where all nodes below it were measured."""
        source = next(s for s in self._sources if s.lattice.only is None)
        if all(math.isfinite(self.variances[part.node]) for part in node_parts(source.lattice, product)):
            return product.count
        return int(np.isfinite(source.variances(product)).sum())

    def _simultaneous(self, selection: Selection, alpha: float) -> Width:
        """Simulated where that takes seconds, Bonferroni beyond."""
        products = list(selection.products()) if selection.count <= intervals.SIMULATED_QUERIES else []
        source = self._source(selection.family)
        nodes = {i for p in products for i in source.nodes_of(p)}
        class_of = self.plan.closure.class_of
        numbers = sum(self._strategies[int(class_of[i])].rows for i in nodes) * intervals.SIMULATIONS
        if not products or numbers > intervals.SIMULATED_NUMBERS:
            width = intervals.bonferroni(alpha, selection.count)
        else:
            pairs = [(p, source.variances(p)) for p in products]
            width = intervals.simulated(alpha, lambda first, count: source.largest_z(pairs, first, count))
        return width if selection.whole else replace(width, method=f"{width.method}, over the selected answers")
