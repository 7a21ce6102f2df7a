"""The public surface on one page: compile a workload, look at the plan, run it, ask the release.

Everything below works on plain data; the verbs that people use stand here, above all that they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from qcompile.compiler import passes
from qcompile.inspection import explain as text
from qcompile.plan import files as plan_files
from qcompile.plan import plan as planned
from qcompile.queries.workload import Workload
from qcompile.release import files as release_files
from qcompile.release import release as released
from qcompile.run.execute import run

if TYPE_CHECKING:
    import pyarrow as pa

    from qcompile.privacy.budget import Budget
    from qcompile.privacy.ledger.ledger import Ledger
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
        """Per family: queries, rmse, max_std_error at a budget, and its share of the total weighted error."""
        return text.summary(self, budget, accounting)

    def save(self, path: str | Path) -> None:
        """Write the plan to a file."""
        plan_files.save_plan(self, path)

    def run(
        self,
        data: Any,
        budget: Budget,
        *,
        mechanism: str = "batch",
        reference: str = "auto",
        basis: str = "compiled",
        noise: str = "rounded",
        accounting: str = "zcdp",
        ledger: Ledger | str | Path | None = None,
        output: str | Path | None = None,
        resume: bool = False,
        engine: str = "auto",
        unit: str | None = None,
        count_column: str | None = None,
        strict_values: bool = False,
        workers: int | None = None,
        max_memory: int | None = None,
        test_seed: int | None = None,
        progress: Callable[[str, int, int], None] = lambda what, done, total: None,
    ) -> Release:
        """Measure data once and return everything that may be published; see `qcompile.run.execute.run`."""
        options = {k: v for k, v in locals().items() if k not in ("self", "data", "budget")}
        return Release.of(run(self, data, budget, **options))


@final
class Release(released.Release):
    """What may be published, and every answer it supports (see `qcompile.release.release.Release`)."""

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
    neighbours: str = "add-remove",
    contributions: int = 1,
    strategies: Mapping[str, str | Path | Array] | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """Compile a workload into a plan; arguments as of `qcompile.compiler.passes.compile`."""
    options = {k: v for k, v in locals().items() if k != "workload"}
    return Plan.of(passes.compile(workload, **options))


def load_plan(path: str | Path) -> Plan:
    """Read a plan."""
    return Plan.of(plan_files.load_plan(path))


def load_release(path: str | Path) -> Release:
    """Read a release."""
    return Release.of(release_files.load_release(path))
