"""The mechanisms of a run: a batch, and an adaptive run. Each is prepared without data, and then draws a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol, TypeAlias, final

import numpy as np

from qcompile.adaptive.aim import Settings, adapt, require_selections
from qcompile.adaptive.candidates import LARGEST_TOTAL, candidate_nodes
from qcompile.adaptive.history import MeasuredRound, Round
from qcompile.data.engines.counts import ExactCounts
from qcompile.errors import OptionError, SizeError, StorageError
from qcompile.plan.basis import basis_strategies, require_single_nodes
from qcompile.plan.plan import Plan
from qcompile.release.files import rows_of
from qcompile.release.provenance import Provenance
from qcompile.release.release import Release
from qcompile.release.rounds import read_history
from qcompile.release.scales import is_composed_jointly
from qcompile.release.values import NodeValues
from qcompile.run.journal import Journal
from qcompile.run.journal.measurements import Measurements
from qcompile.run.journal.rounds import keep_round, read_rounds
from qcompile.run.measure import collect, measure, require_range
from qcompile.run.options import RunOptions
from qcompile.run.prediction import Prediction, predict_adaptive, predict_batch, smallest_scales
from qcompile.run.randomness import Chance, delivered_scales, make_noise
from qcompile.support.json_fields import Field

Progress: TypeAlias = Callable[[str, int, int], None]
"""Called with (phase, done, total); total is 0 when unknown."""


class Mechanism(Protocol):
    """A way to measure a plan."""

    @property
    def prediction(self) -> Prediction:
        """Noise, memory and time of the run."""

    def require(self, total: int) -> None:
        """Refuse a number of rows that cannot be measured.

        Raises:
          BudgetError, SizeError: it cannot; nothing has been charged.
        """

    def check(self, journal: Journal) -> None:
        """Refuse measurements of an interrupted run that are none of this mechanism.

        Raises:
          ValueError, LookupError, TypeError: they do not fit.
        """

    def draw(self, terms: Provenance, counts: ExactCounts, journal: Journal | None, progress: Progress) -> Release:
        """Measure, after the charge.

        Args:
          terms: of the release.
          counts: the exact contingency tables.
          journal: keeps measurements on disk, and holds those of an interrupted run, which are not drawn again.
          progress: called after every node or round.
        """


@final
class Batch:
    """Every node of the plan measured once.

    Args:
      plan: what is measured.
      terms: of the release; its charge is what the noise is scaled to.
      options: of the run.

    Raises:
      BudgetError: the noise is too small to protect anybody, or OpenDP cannot draw it.
      SizeError: the run does not fit in memory.
    """

    def __init__(self, plan: Plan, terms: Provenance, options: RunOptions) -> None:
        self._plan, self._options = plan, options
        self._scales = plan.scales(terms.charge, is_composed_jointly(options.noise))
        self.prediction = predict_batch(plan, self._scales, options)
        self._delivered = delivered_scales(options.noise, self._scales)

    def require(self, total: int) -> None:
        """Refuse rows whose measurements might not fit into 64 bits; see `Mechanism.require`."""
        if self._options.noise == "rounded":
            require_range(self._plan.strategies, self._scales, total)

    def check(self, journal: Journal) -> None:
        """Refuse measurements that do not fit the plan; see `Mechanism.check`."""
        Measurements(journal, rows_of(self._plan))

    def draw(self, terms: Provenance, counts: ExactCounts, journal: Journal | None, progress: Progress) -> Release:
        """Measure all nodes that the journal lacks; see `Mechanism.draw`."""
        plan, options = self._plan, self._options
        kept = None if journal is None else Measurements(journal, rows_of(plan))
        done = set[int]() if kept is None else kept.nodes
        noise = make_noise(options.noise, options.test_seed)
        measured = measure(plan, counts, self._scales, noise, options.workers, done)
        shown = _count(measured, progress, len(done), plan)
        if kept is None:
            return Release(plan, terms, self._delivered, collect(shown, len(plan.closure.nodes)))
        kept.keep(shown)
        return Release(plan, terms, self._delivered, kept)


@final
class Adaptive:
    """Marginals measured round by round (AIM+GReM, arXiv 2602.05674). Arguments and errors as for `Batch`.

    Raises:
      OptionError: the plan has no marginals to choose from, blocks, oblique nodes, or no such basis.
    """

    def __init__(self, plan: Plan, terms: Provenance, options: RunOptions) -> None:
        require_single_nodes(plan)
        _require_candidates(plan)
        self._plan, self._options, self._charge = plan, options, terms.charge
        self._scales = smallest_scales(plan, terms.charge, options.basis)
        self.prediction = predict_adaptive(plan, self._scales, options)
        self._settings = Settings(basis=options.basis, reference=options.reference, workers=options.workers)
        self._chance = Chance(options.noise, options.test_seed)
        require_selections(plan, terms.charge, self._chance, self._settings)

    def require(self, total: int) -> None:
        """Refuse rows whose scores or measurements might not fit into 64 bits; see `Mechanism.require`."""
        if total > LARGEST_TOTAL:
            raise SizeError("an adaptive run takes up to 2^44 rows; use mechanism='batch'")
        if self._options.noise == "rounded":
            require_range(basis_strategies(self._plan, self._options.basis), self._scales, total)

    def check(self, journal: Journal) -> None:
        """Refuse rounds that this run cannot have made; see `Mechanism.check`."""
        try:
            self._read(journal)
        except StorageError as e:
            raise ValueError("the rounds contradict the charge") from e

    def _read(self, journal: Journal) -> list[MeasuredRound]:
        """The rounds of an interrupted run, with their costs recomputed."""
        plan, o, charge = self._plan, self._options, self._charge
        strategies, class_of = basis_strategies(plan, o.basis), plan.closure.class_of

        def read(data: list[dict[str, Any]]) -> tuple[Round, ...]:
            stated = {"basis": o.basis, "rounds": data}
            return read_history(Field(stated), plan, charge, o.noise, o.reference, whole=False).rounds

        return read_rounds(journal, read, lambda node: strategies[class_of[node]].rows)

    def draw(self, terms: Provenance, counts: ExactCounts, journal: Journal | None, progress: Progress) -> Release:
        """Spend the charge round by round, after the rounds that the journal has; see `Mechanism.draw`."""
        plan, strategies = self._plan, basis_strategies(self._plan, self._options.basis)
        spending = partial(progress, "spending")
        kept: dict[str, Any] = {}
        if journal is not None:
            kept = {"done": self._read(journal), "keep": partial(keep_round, journal)}
        history, averages = adapt(
            plan, counts, terms.charge, strategies, self._chance, self._settings, spending, **kept
        )
        values = tuple(averages.get(i, np.zeros(0)) for i in range(len(plan.closure.nodes)))
        return Release(plan, terms, (), values, history)


Make: TypeAlias = Callable[[Plan, Provenance, RunOptions], Mechanism]

MECHANISM_CLASSES: dict[str, Make] = {"batch": Batch, "adaptive": Adaptive}
"""The mechanisms by name: the values of the option ``mechanism``."""


def _require_candidates(plan: Plan) -> None:
    """Refuse a plan that an adaptive run cannot measure.

    Raises:
      OptionError: with the reason and a next step.
    """
    if plan.closure.blocks:
        raise OptionError("an adaptive run measures nodes, this plan has unsplit blocks; compile it with blocks=False")
    if not candidate_nodes(plan):
        raise OptionError("an adaptive run chooses among marginals, this workload has none; use mechanism='batch'")


def _count(
    measured: Iterator[tuple[int, NodeValues]], progress: Progress, done: int, plan: Plan
) -> Iterator[tuple[int, NodeValues]]:
    """Report each measured node, of all that are measured."""
    total = int((plan.closure.class_of >= 0).sum())
    for number, item in enumerate(measured, start=done + 1):
        progress("measuring", number, total)
        yield item
