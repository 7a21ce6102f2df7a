"""``qcompile compile``: a workload file into a plan file."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from qcompile.cli.output import MAX_MEMORY, compile_file, limits_memory, require_file, require_target, result
from qcompile.errors import OptionError, did_you_mean

STRATEGY = typer.Option(
    None, metavar="ATTRIBUTE=S", help="For rp+: identity, prefix, haar, hierarchical or a matrix file; repeatable."
)


@limits_memory
def compile_(
    file: str = typer.Argument(..., metavar="FILE", help="A .q workload file."),
    output: str | None = typer.Option(
        None, "-o", "--output", metavar="PLAN", help="Where to save; FILE.plan by default."
    ),
    solver: str = typer.Option(
        "auto", help="auto, exact, rp (ResidualPlanner), rp+ (with --strategy), wff (Weighted Fourier) or conic."
    ),
    gap: float = typer.Option(1e-3, help="Certified relative gap wanted, of the squared error; looser stops earlier."),
    centring: str = typer.Option("uniform", help="uniform, or optimised: weights that minimise the total error."),
    blocks: str = typer.Option("no", help="no, auto or yes: answer families unsplit where that is better."),
    design: str = typer.Option(
        "nodes",
        help="nodes, oblique (lower error across attributes; seconds to minutes) or auto (where it takes seconds).",
    ),
    strategy: list[str] | None = STRATEGY,
    neighbours: str = typer.Option(
        "add-remove", help="add-remove or replace-one: how tables may differ in one privacy unit's rows."
    ),
    contributions: int = typer.Option(1, help="The largest number of rows of one privacy unit."),
    objective: str | None = typer.Option(
        None, help="total, max (largest variance of a query) or targets; targets where the file has any, else total."
    ),
    objective_gap: float = typer.Option(0.01, help="Certified relative gap wanted for max and targets."),
    total: float | None = typer.Option(None, help="The number of rows that targets in per cent refer to."),
    delta: str | None = typer.Option(
        None, "--delta", metavar="D", help="Of the epsilon that is shown for targets; 1e-9 by default."
    ),
    workers: int | None = typer.Option(None, help="Threads that solve; by default one per core."),
    max_memory: str | None = MAX_MEMORY,
) -> None:
    """Compile a workload into a plan; needs no data and no budget.

    Example: qcompile compile couples.q -o couples.plan
    """
    from qcompile.inspection.explain import certificate_text, design_text, objective_text, target_lines
    from qcompile.support.text import number, plural

    require_file(file)
    _require_workload(file)
    target = output or str(Path(file).with_suffix(".plan"))
    if target.endswith(".q"):
        raise OptionError(f"a plan cannot be called {target}: .q names workload files; end it with .plan")
    require_target(target, file)
    start = time.perf_counter()
    plan = compile_file(
        file,
        solver=solver,
        gap=gap,
        centring=centring,
        blocks=_blocks(blocks),
        design=design,
        neighbours=neighbours,
        contributions=contributions,
        objective=objective,
        objective_gap=objective_gap,
        total=total,
        strategies=_strategies(strategy) if strategy else None,
        workers=workers,
    )
    seconds = time.perf_counter() - start
    plan.save(target)
    asked = f"{plural(plan.queries, 'query', 'queries')} over {plural(plan.views, 'view')}"
    result(f"{asked}: rmse {number(plan.rmse())} at privacy cost 1")
    measured = f"{plural(plan.closure.first_block, 'node')} and {plural(len(plan.closure.blocks), 'block')}"
    result(f"{measured}, {plural(len(plan.solutions), 'distinct problem')} solved in {seconds:.1f} s")
    if plan.solved is not None:
        result(f"objective: {objective_text(plan)}")
    result(f"certificate: {certificate_text(plan)}")
    if plan.plain_sse is not None:
        result(f"design: {design_text(plan)}")
    if plan.options.objective == "targets":
        result("\n".join(["", *target_lines(plan), ""]))
        result(f"budget: {plan.budget_for(delta=delta).describe()}")
    result(f"saved in {target}; see it with: qcompile inspect {target}")


def _require_workload(file: str) -> None:
    """Refuse a plan or release, before the check of the target: FILE.plan would be written over itself."""
    from qcompile.support.archive import kind_of

    kind = kind_of(file)
    if kind is not None:
        word = kind.removeprefix("qcompile ")
        raise OptionError(f"{file} is a {word} already; see it with: qcompile inspect {file}")


def _blocks(text: str) -> bool | str:
    words: dict[str, bool | str] = {"no": False, "yes": True, "auto": "auto"}
    if text not in words:
        raise OptionError(f"--blocks cannot be {text!r}; {did_you_mean(text, words)}")
    return words[text]


def _strategies(options: list[str]) -> dict[str, str]:
    strategies: dict[str, str] = {}
    for text in options:
        name, separator, value = text.rpartition("=")
        if not (separator and name and value):
            raise OptionError(f"--strategy {text!r} must be ATTRIBUTE=STRATEGY, for instance age=haar")
        if name in strategies:
            raise OptionError(f"--strategy names {name!r} twice; keep one")
        strategies[name] = value
    return strategies
