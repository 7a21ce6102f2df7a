"""``qcompile run``: measure a table once and write the release. Nothing it prints depends on the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from qcompile.cli.output import (
    COST,
    DELTA,
    EPSILON,
    MU,
    RHO,
    TABLE,
    budget_of,
    memory_of,
    message,
    phases,
    read_plan,
    require_target,
    result,
    source_of,
    table_lines,
)
from qcompile.errors import OptionError

if TYPE_CHECKING:
    from qcompile.api import Plan
    from qcompile.run.prepare import DryRun


def run(
    plan_file: str = typer.Argument(..., metavar="PLAN|FILE", help="A plan, or a .q workload file."),
    data: str | None = typer.Option(
        None, "--data", metavar="DATA", help="The confidential table: a file, a folder of Parquet files, or a database."
    ),
    table: str | None = TABLE,
    output: str | None = typer.Option(None, "-o", "--output", metavar="RELEASE", help="Where to write the release."),
    resume: bool = typer.Option(
        False, "--resume", help="Finish the run to this release that was stopped or killed; nothing is charged twice."
    ),
    engine: str = typer.Option("auto", help="What counts: auto, memory, duckdb, database or spark."),
    epsilon: str | None = EPSILON,
    delta: str | None = DELTA,
    rho: str | None = RHO,
    mu: str | None = MU,
    cost: str | None = COST,
    mechanism: str = typer.Option("batch", help="batch: as planned. adaptive: round by round, what is known worst."),
    reference: str = typer.Option(
        "auto", help="Model of what is not measured: none, independence, tree, loglinear or auto."
    ),
    basis: str = typer.Option("compiled", help="What an adaptive run measures with: compiled or residual."),
    noise: str = typer.Option("rounded", help="rounded, opendp (slow cross-check) or none (NOT PRIVATE)."),
    accounting: str = typer.Option("zcdp", help="zcdp, or gaussian: smaller errors for the same epsilon and delta."),
    ledger: str | None = typer.Option(None, metavar="LEDGER", help="The account to charge before any noise is drawn."),
    unit: str | None = typer.Option(
        None, metavar="COLUMN", help="Whose row it is; rows beyond the plan's contributions are left out."
    ),
    count_column: str | None = typer.Option(
        None, "--count-column", metavar="COLUMN", help="How many rows a row of the data stands for."
    ),
    strict_values: bool = typer.Option(
        False, "--strict-values", help="With a ledger, accept that a value without a fate ends the run with an error."
    ),
    workers: int | None = typer.Option(None, help="Threads that measure; by default one per core."),
    max_memory: str | None = typer.Option(
        None, "--max-memory", metavar="SIZE", help="Refuse to measure or count in more than this, e.g. 4GB."
    ),
    test_seed: int | None = typer.Option(None, "--test-seed", metavar="N", help="Deterministic noise: NOT PRIVATE."),
    dry: bool = typer.Option(False, "--dry-run", help="Say what would happen; read and spend nothing."),
    confidential: bool = typer.Option(
        False,
        "--confidential-diagnostics",
        help="Print facts about the data to stderr first, for its curator alone: never publish them.",
    ),
) -> None:
    """Spend a budget on a table and write the release.

    Example: qcompile run couples.plan --data couples.csv --epsilon 1 --delta 1e-6 -o couples.release
    """
    from qcompile.inspection.explain import privacy_text
    from qcompile.privacy.budget import Budget
    from qcompile.privacy.exact_numbers import amount_text
    from qcompile.release.provenance import stamps
    from qcompile.run import execute
    from qcompile.run import prepare as expect

    budget = budget_of(epsilon=epsilon, delta=delta, rho=rho, mu=mu, cost=cost)
    if budget is None:
        raise OptionError("a run needs a budget: give --epsilon and --delta, or --rho, --mu or --cost")
    limit = memory_of(max_memory)
    plan = read_plan(plan_file)
    options: dict[str, Any] = {
        "mechanism": mechanism,
        "reference": reference,
        "basis": basis,
        "noise": noise,
        "accounting": accounting,
        "ledger": ledger,
        "unit": unit,
        "output": output,
        "resume": resume,
        "workers": workers,
        "max_memory": limit,
        "test_seed": test_seed,
    }
    if dry and confidential:
        raise OptionError("a dry run reads no data, so there is nothing to diagnose; leave one of the two options out")
    expected = expect.dry_run(plan, budget, strict_values=strict_values, **options)
    source = source_of(data, table)
    if not dry:
        _require_targets(plan_file, data, output, ledger)
        _require_columns(plan, source, unit, count_column, engine)
    result(f"charge: rho {expected.charge}: {expected.budget}")
    result(f"privacy: neighbouring tables differ in {privacy_text(plan)}")
    if expected.remaining is not None:
        result(f"ledger: {ledger} will have rho {amount_text(expected.remaining)} left")
    for stamp in stamps(plan, noise, test_seed, leave_out=ledger is not None and not strict_values):
        message(f"warning: {stamp}")
    result(_what(expected, reference, basis))
    if mechanism == "batch":
        result("\n".join(table_lines(plan.summary(Budget(rho=expected.charge)), limit=40)))
    else:
        message(
            "note: errors of an adaptive run are not known beforehand; its usual answers are biased, without std errors"
        )
    if dry:
        result("dry run: nothing was read, nothing was spent")
        return
    if not resume and output is not None and Path(output).exists():
        message(f"note: {output} is there already; it is kept as {output}.1, or the next number that is free")
    if confidential:
        _diagnose(plan, source, unit, leave_out=ledger is not None and not strict_values)
    rows: dict[str, Any] = {"engine": engine, "count_column": count_column, "strict_values": strict_values}
    with phases() as step, _told(ledger, output):
        execute.run(plan, source, budget, progress=step, **rows, **options)
    if resume:
        message("note: the run was resumed; what it had charged or drawn was not charged or drawn again")
    result(f"written to {output}; ask it with: qcompile answers {output}")


@contextmanager
def _told(ledger: str | None, output: str | None) -> Iterator[None]:
    """Where the user interrupts, say how to go on, and how to find out whether the budget was spent by then."""
    from qcompile.run.unfinished import folder_of

    try:
        yield
    except KeyboardInterrupt:
        if ledger is not None:
            message(f"what was charged by now, is spent; see it with: qcompile ledger show {ledger}")
        if output is not None and folder_of(output).is_dir():
            message("what was drawn is kept; finish the run with the same command and --resume")
        raise


def _require_columns(plan: Plan, source: Any, unit: str | None, count_column: str | None, engine: str) -> None:
    """Refuse data whose columns or types do not fit, before anything is said or spent."""
    from qcompile.data import Reading, preflight

    reading = Reading(unit, plan.options.contributions, count_column=count_column)
    preflight(source, plan.workload.schema, reading, engine)


def _diagnose(plan: Plan, data: Any, unit: str | None, leave_out: bool) -> None:
    from qcompile.data.curator.diagnose import diagnose

    rows = plan.options.contributions
    message(str(diagnose(data, plan.workload.schema, unit=unit, contributions=rows, leave_out=leave_out)))


def _require_targets(plan_file: str, data: str | None, output: str | None, ledger: str | None) -> None:
    if data is None:
        raise OptionError("a run needs --data, a file or a database; --dry-run does without")
    if output is None:
        raise OptionError("a run needs -o, where to write the release; what is not written would be paid for in vain")
    require_target(output, plan_file, data, *([] if ledger is None else [ledger]))


def _what(expected: DryRun, reference: str, basis: str) -> str:
    from qcompile.support.arrays import bytes_text

    low, high = expected.sigma
    memory, seconds = bytes_text(expected.memory), max(1, round(expected.seconds))
    takes = f"about {memory} for measuring (program, plan and rows come on top), and {seconds} s"
    if expected.draws is None:
        how = f"reference {reference}, {basis} basis, noise scale at least {low:.5g}"
        return f"round by round, candidate marginals: {expected.nodes:,}; {how}; {takes}"
    return f"{expected.draws:,} measurements on {expected.nodes:,} nodes, noise scale {low:.5g} to {high:.5g}; {takes}"
