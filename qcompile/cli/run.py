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
    budget_of,
    memory_of,
    message,
    progress,
    read_plan,
    require_file,
    require_target,
    result,
    table_lines,
)
from qcompile.errors import OptionError

if TYPE_CHECKING:
    from qcompile.execute import DryRun
    from qcompile.plan import Plan


def run(
    plan_file: str = typer.Argument(..., metavar="PLAN|FILE", help="A plan, or a .q workload file."),
    data: str | None = typer.Option(None, "--data", metavar="DATA", help="The confidential table: CSV or Parquet."),
    output: str | None = typer.Option(None, "-o", "--output", metavar="RELEASE", help="Where to write the release."),
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
    strict_values: bool = typer.Option(
        False, "--strict-values", help="With a ledger, accept that a value without a fate ends the run with an error."
    ),
    workers: int | None = typer.Option(None, help="Threads that measure; by default one per core."),
    max_memory: str | None = typer.Option(None, "--max-memory", metavar="SIZE", help="Refuse beyond this, e.g. 4GB."),
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
    from qcompile import execute
    from qcompile.explain import privacy_text
    from qcompile.privacy.budget import Budget
    from qcompile.privacy.exact import amount_text
    from qcompile.release.provenance import stamps

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
        "workers": workers,
        "max_memory": limit,
        "test_seed": test_seed,
    }
    if dry and confidential:
        raise OptionError("a dry run reads no data, so there is nothing to diagnose; leave one of the two options out")
    expected = execute.dry_run(plan, budget, strict_values=strict_values, **options)
    if not dry:
        _require_targets(plan_file, data, output, ledger)
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
    if output is not None and Path(output).exists():
        message(f"note: {output} is there already; it is kept as {output}.1, or the next number that is free")
    if confidential:
        _diagnose(plan, data, unit, leave_out=ledger is not None and not strict_values)
    with progress("measuring" if mechanism == "batch" else "budget") as step, _told(ledger):
        execute.run(plan, data, budget, output=output, strict_values=strict_values, progress=step, **options)
    result(f"written to {output}; ask it with: qcompile answers {output}")


@contextmanager
def _told(ledger: str | None) -> Iterator[None]:
    """Where the user interrupts, say how to find out whether the budget was spent by then."""
    try:
        yield
    except KeyboardInterrupt:
        if ledger is not None:
            message(f"what was charged by now, is spent; see it with: qcompile ledger show {ledger}")
        raise


def _diagnose(plan: Plan, data: str | None, unit: str | None, leave_out: bool) -> None:
    from qcompile.data.diagnose import diagnose

    rows = plan.options.contributions
    message(str(diagnose(data, plan.workload.schema, unit=unit, contributions=rows, leave_out=leave_out)))


def _require_targets(plan_file: str, data: str | None, output: str | None, ledger: str | None) -> None:
    if data is None:
        raise OptionError("a run needs --data, a CSV or Parquet file; --dry-run does without")
    if output is None:
        raise OptionError("a run needs -o, where to write the release; what is not written would be paid for in vain")
    require_file(data)
    require_target(output, plan_file, data, *([] if ledger is None else [ledger]))


def _what(expected: DryRun, reference: str, basis: str) -> str:
    from qcompile.arrays import bytes_text

    low, high = expected.sigma
    takes = f"about {bytes_text(expected.memory)} beyond program and plan, and {max(1, round(expected.seconds))} s"
    if expected.draws is None:
        how = f"reference {reference}, {basis} basis, noise scale at least {low:.5g}"
        return f"round by round, candidate marginals: {expected.nodes:,}; {how}; {takes}"
    return f"{expected.draws:,} measurements on {expected.nodes:,} nodes, noise scale {low:.5g} to {high:.5g}; {takes}"
