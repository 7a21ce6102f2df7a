"""``qcompile compile``: a workload file into a plan file."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from qcompile.cli.output import compiled, require_file, require_target, result
from qcompile.errors import OptionError


def compile_(
    file: str = typer.Argument(..., metavar="FILE", help="A .q workload file."),
    output: str | None = typer.Option(
        None, "-o", "--output", metavar="PLAN", help="Where to save; FILE.plan by default."
    ),
    solver: str = typer.Option("auto", help="auto, exact, rp (ResidualPlanner) or wff (Weighted Fourier)."),
    gap: float = typer.Option(1e-3, help="Certified relative gap wanted, of the squared error."),
    contributions: int = typer.Option(1, help="The largest number of rows of one privacy unit."),
) -> None:
    """Compile a workload into a plan; needs no data and no budget.

    Example: qcompile compile couples.q -o couples.plan
    """
    from qcompile.explain import gap_text, number

    require_file(file)
    target = output or str(Path(file).with_suffix(".plan"))
    if target.endswith(".q"):
        raise OptionError(f"a plan cannot be called {target}: .q names workload files; end it with .plan")
    require_target(target, file)
    start = time.perf_counter()
    plan = compiled(file, solver=solver, gap=gap, contributions=contributions)
    seconds = time.perf_counter() - start
    plan.save(target)
    result(f"{plan.queries:,} queries over {plan.views:,} views: rmse {number(plan.rmse())} at privacy cost 1")
    result(f"{len(plan.closure.nodes):,} nodes, {len(plan.solutions):,} distinct problems solved in {seconds:.1f} s")
    result(
        f"total squared error certified within {gap_text(plan.gap).removeprefix('<')} of this decomposition's optimum"
    )
    result(f"saved in {target}; see it with: qcompile inspect {target}")
