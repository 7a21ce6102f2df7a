"""The measurements of a release with their variances, and the estimates that are computed from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from qcompile.adaptive.history import History
from qcompile.errors import NotEstimableError, SizeError
from qcompile.estimates.best import BestEstimates
from qcompile.estimates.grem import Estimates
from qcompile.plan.basis import basis_strategies
from qcompile.plan.plan import Plan
from qcompile.privacy.noise.scale import Scale
from qcompile.queries.workload import Family, Product
from qcompile.release.answers.answer_source import AnswerSource
from qcompile.release.answers.single_query import not_estimable
from qcompile.release.values import NodeValues
from qcompile.strategy import Strategy
from qcompile.support.arrays import Array, cells, require_memory

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Measurements:
    """The basis of every answer.

    Attributes:
      plan: gives the lattice, its classes and the families.
      scales: noise per class in a batch; empty for an adaptive run.
      values: measurements per node, as `qcompile.release.release.Release.values`.
      history: rounds of an adaptive run; None for a batch.
      reference: model of what was not measured, one of `qcompile.estimates.references.REFERENCES`.
    """

    plan: Plan
    scales: tuple[Scale, ...]
    values: Sequence[NodeValues]
    history: History | None
    reference: str

    @cached_property
    def strategies(self) -> tuple[Strategy, ...]:
        """The measured strategy of each class."""
        return self.plan.strategies if self.history is None else basis_strategies(self.plan, self.history.basis)

    @cached_property
    def variances(self) -> Array:
        """Variance of the measurements per node, in counts**2, ``(nodes,)``; infinite where a node was not measured."""
        variances = np.full(len(self.plan.closure.nodes), np.inf)
        if self.history is None:
            class_of = self.plan.closure.class_of
            variances[class_of >= 0] = np.array([s.variance for s in self.scales])[class_of[class_of >= 0]]
        else:
            for node, precision in self.history.precisions().items():
                variances[node] = 1 / precision
        return np.asarray(variances * self.plan.unit.step**2)

    def in_counts(self, node: int) -> Array:
        """The measurements y of a node or block in counts, ``(rows,)``, by its position in the lattice."""
        values = self.values[node]
        counts = values.astype(np.float64)
        if values.dtype.kind == "i":
            counts *= self.scales[int(self.plan.closure.class_of[node])].grid
        return np.asarray(counts * self.plan.unit.step)  # what was counted are steps of weights, or of 1

    @cached_property
    def sources(self) -> tuple[AnswerSource, ...]:
        """One source of unbiased answers per view of the lattice: the closure, then each block."""
        views = self.plan.closure.sources
        return tuple(AnswerSource(view, self.strategies, self.variances, self.in_counts) for view in views)

    def source_of(self, family: Family) -> AnswerSource:
        """The source that a family was compiled into."""
        only = self.plan.closure.source(family.name).only
        return next(s for s in self.sources if s.lattice.only == only)

    @cached_property
    def best(self) -> BestEstimates:
        """The best estimates of the closure.

        Raises:
          SizeError: the measurements do not fit in memory all at once.
        """
        closure = self.plan.closure
        nodes = [i for i in range(closure.first_block) if math.isfinite(self.variances[i])]
        used = [self.strategies[int(closure.class_of[i])] for i in nodes]
        numbers = sum(s.rows + cells(s.shape) for s in used)  # measurements and residuals
        require_memory("the best estimates of everything measured", numbers, "ask for estimate='unbiased'")
        estimates = Estimates(closure, self.strategies)
        for node in nodes:
            variance = float(self.variances[node])
            estimates.add(node, self.in_counts(node), 1 / variance if variance else math.inf)
        return BestEstimates(estimates, self.reference)

    def node_of(self, product: Product) -> int:
        """The position of the node of a product's attributes.

        Raises:
          NotEstimableError: no view of the workload holds all of them.
        """
        closure = self.plan.closure
        node = closure.node_of(product.names)
        if node not in closure.index:
            raise not_estimable(closure, node, "no view of the workload holds this combination of attributes")
        return closure.index[node]

    def try_sources(self, attempt: Callable[[AnswerSource], T]) -> list[tuple[int, T]]:
        """Results of all sources that span a question, with the sources' numbers.

        Args:
          attempt: computes the result of one source; raises NotEstimableError or SizeError where it has none.

        Raises:
          NotEstimableError: no source spans it; with the first source's reason.
          SizeError: that reason is a lack of memory.
        """
        results, refusals = list[tuple[int, T]](), list[NotEstimableError | SizeError]()
        for i, source in enumerate(self.sources):
            try:
                results.append((i, attempt(source)))
            except (NotEstimableError, SizeError) as e:
                refusals.append(e)
        if not results:
            raise refusals[0]
        return results
