"""The public surface on one page: compile a workload, look at the plan, run it, ask the release.

Everything below works on plain data; the verbs that people use stand here, above all that they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, final

from qcompile.compiler import passes
from qcompile.data import recognise
from qcompile.errors import OptionError
from qcompile.inspection import explain as text
from qcompile.plan import files as plan_files
from qcompile.plan import plan as planned
from qcompile.privacy.budget import Budget
from qcompile.queries.workload import Workload
from qcompile.release import accuracy
from qcompile.release import files as release_files
from qcompile.release import release as released
from qcompile.run import execute as executing
from qcompile.run import prepare as preparing
from qcompile.run.execute import no_progress
from qcompile.run.mechanisms import Progress
from qcompile.run.options import RunKeywords, RunOptions, shows_run_options
from qcompile.support.options import bool_option

if TYPE_CHECKING:
    import pyarrow as pa

    from qcompile.privacy.budget import Budget
    from qcompile.privacy.exact_numbers import Number
    from qcompile.support.arrays import Array


def _fields(data: Any) -> dict[str, Any]:
    return {f.name: getattr(data, f.name) for f in fields(data)}


@final
class Plan(planned.Plan):
    """A compiled workload: predictions (see `qcompile.plan.plan.Plan`), and what can be done with it."""

    @staticmethod
    def of(data: planned.Plan) -> Plan:
        """A plan's data, with the verbs."""
        return data if isinstance(data, Plan) else Plan(**_fields(data))

    def explain(self) -> str:
        """The plan as text, the same bytes for the same plan."""
        return text.explain(self)

    def summary(self, budget: Budget, accounting: str = "zcdp") -> pa.Table:
        """Per family: queries, rmse, max_std_error at a budget, and its share of the total weighted error.

        Raises:
          OptionError: ``budget`` is not a `Budget`.
        """
        if not isinstance(budget, Budget):
            raise OptionError(f"a budget must be a Budget, such as qc.Budget(epsilon=1, delta=1e-6), got {budget!r}")
        return text.summary(self, budget, accounting)

    def budget_for(
        self,
        family: str | None = None,
        *,
        std_error: float | None = None,
        largest: bool = False,
        margin: float | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
        delta: Number | None = None,
        accounting: str = "zcdp",
    ) -> Budget:
        """Return the smallest budget, to six digits, at which a batch with rounded noise is as accurate as is asked.

        Nothing is solved again. With neither `std_error` nor `margin` it is the budget that meets the plan's targets.

        Args:
          family: its name; None for all families, with a margin or for the plan's own targets.
          std_error: in counts.
          largest: every query's standard error, instead of the root of the family's mean variance.
          margin: half-width of confidence intervals, in counts.
          confidence: of these intervals.
          simultaneous: all intervals hold together with that confidence, instead of each by itself.
          delta: gives a budget in epsilon at this delta; in rho where None.
          accounting: "zcdp" or "gaussian", as the run will have it.

        Raises:
          OptionError: no such family, a number out of range, or no accuracy or two of them are asked for.
          BudgetError: delta is not between 0 and 1.
        """
        asked = _accuracies(self, family, std_error, largest, margin, confidence, simultaneous)
        return accuracy.required_budget(self, asked, delta, accounting)

    def curve(self, epsilons: Sequence[Number], delta: Number, accounting: str = "zcdp") -> pa.Table:
        """Every family's predicted errors at several budgets: columns family, epsilon, rmse, max_std_error.

        Raises:
          BudgetError: an epsilon or delta is out of range.
          OptionError: another accounting.
        """
        return accuracy.curve(self, epsilons, delta, accounting)

    def save(self, path: str | Path) -> None:
        """Write the plan to a file."""
        plan_files.save_plan(self, path)

    @shows_run_options
    def run(
        self, data: Any, budget: Budget, *, progress: Progress = no_progress, **options: Unpack[RunKeywords]
    ) -> Release:
        """Measure data once and return all that may be published: `prepare` and `PreparedRun.execute` in one.

        Args:
          data: a CSV, TSV, JSON lines, Parquet or Arrow file, a folder or pattern of files, or several; a pandas or
            polars frame, an Arrow table or stream, a DuckDB relation, a dict of columns, a `Database`, an Ibis table, a
            Spark frame, or a dict of exact counts by tuples of attribute names; see `qcompile.data.opening.open_data`.
          budget: what is spent.
          progress: called with (phase, done, total); total is 0 when unknown. No number of rows is reported.
          **options: the fields of `RunOptions`.

        Raises:
          OptionError: an option has a value it cannot take.
          BudgetError: the budget cannot be spent this way, or the ledger has too little left; nothing is charged.
          DataError: the data does not fit the schema; nothing is charged.
          SizeError: the work does not fit in memory.
          StorageError: there is no such ledger, the release cannot be written, or there is an unfinished run that is
            not to be resumed, or none that is.
        """
        dataset = recognise(data)
        if dataset.place == "counts":  # no row can be left out, and no value is read
            options["strict_values"] = True
        return prepare(self, budget, **options).execute(dataset, progress)


def _accuracies(
    plan: Plan,
    family: str | None,
    std_error: float | None,
    largest: bool,
    margin: float | None,
    confidence: float,
    simultaneous: bool,
) -> list[accuracy.Accuracy]:
    if std_error is not None and margin is not None:
        raise OptionError("std_error and margin are two ways to say the same; give one of them")
    if margin is not None:
        return [accuracy.of_margin(plan, family, margin, confidence, simultaneous)]
    if std_error is None and family is None:
        return accuracy.plan_accuracies(plan)
    if std_error is None or family is None:
        raise OptionError("a target is a family with std_error or margin, such as budget_for('ages', std_error=5)")
    return [accuracy.of_std_error(plan, family, std_error, bool_option("largest", largest))]


@final
class Release(released.Release):
    """The publishable result of a run, and every answer it supports (see `qcompile.release.release.Release`)."""

    plan: Plan

    @staticmethod
    def of(data: released.Release) -> Release:
        """A release's data, with the verbs, also on its plan."""
        return Release(**{**_fields(data), "plan": Plan.of(data.plan)})

    def save(self, path: str | Path) -> None:
        """Write the release, its plan inside, to a file."""
        release_files.save_release(self, path)


def compile(
    workload: Workload | str | Path,
    *,
    solver: str = "auto",
    gap: float = 1e-3,
    centring: str | Mapping[str, Array] = "uniform",
    blocks: passes.Blocks = False,
    design: str = "nodes",
    neighbours: str = "add-remove",
    contributions: int = 1,
    objective: str | None = None,
    objective_gap: float = 0.01,
    total: float | None = None,
    strategies: Mapping[str, str | Path | Array] | None = None,
    workers: int | None = None,
    max_memory: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """Compile a workload into a plan; arguments as of `qcompile.compiler.passes.compile`.

    Raises:
      OptionError: ``workload`` is of another type, or an option is wrong.
    """
    options = {k: v for k, v in locals().items() if k != "workload"}
    if not isinstance(workload, Workload | str | Path):
        raise OptionError(
            f"a workload must be a Workload, the text of one or the path of a .q file, got {type(workload).__name__}"
        )
    return Plan.of(passes.compile(workload, **options))


@final
class PreparedRun(executing.PreparedRun):
    """A run that lacks only its data (see `qcompile.run.execute.PreparedRun`)."""

    plan: Plan

    def execute(self, data: Any, progress: Progress = no_progress, *, confidential_progress: bool = False) -> Release:
        """Measure data and return all that may be published; see `qcompile.run.execute.PreparedRun.execute`."""
        return Release.of(super().execute(data, progress, confidential_progress=confidential_progress))


@shows_run_options
def prepare(plan: planned.Plan, budget: Budget, **options: Unpack[RunKeywords]) -> PreparedRun:
    """Decide everything about a run but its data: charge, noise scales, memory, time; nothing is read or spent.

    Args:
      plan: what is measured.
      budget: what is spent.
      **options: the fields of `RunOptions`.

    Raises:
      OptionError: an option has a value it cannot take, or cannot be had with this plan.
      BudgetError: the budget cannot be spent this way, or the ledger has too little left.
      StorageError: there is no such ledger, the output cannot be written, or a run to it is unfinished.
      SizeError: the run would not fit in memory.
    """
    run = preparing.prepare(plan, budget, RunOptions(**options))
    return PreparedRun(**{**_fields(run), "plan": Plan.of(run.plan)})


def load_plan(path: str | Path) -> Plan:
    """Read a plan."""
    return Plan.of(plan_files.load_plan(path))


def load_release(path: str | Path) -> Release:
    """Read a release."""
    return Release.of(release_files.load_release(path))
