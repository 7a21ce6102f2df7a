"""``qcompile run``: measure a table once and write the release. Nothing it prints depends on the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
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
    charge_text,
    limits_memory,
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
    from qcompile.api import PreparedRun
    from qcompile.privacy.budget import Budget
    from qcompile.run.options import RunOptions

DATA = typer.Option(
    None,
    "--data",
    metavar="DATA",
    help="The confidential table: a file, a folder, a pattern in quotes, or a database; several files: repeat it.",
)


@limits_memory
def run(
    plan_file: str = typer.Argument(..., metavar="PLAN|FILE", help="A plan, or a .q workload file."),
    data: list[str] | None = DATA,
    table: str | None = TABLE,
    output: str | None = typer.Option(None, "-o", "--output", metavar="RELEASE", help="Where to write the release."),
    resume: bool = typer.Option(
        False, "--resume", help="Finish the run to this release that was stopped or killed; nothing is charged twice."
    ),
    engine: str = typer.Option("auto", help="The engine that counts: auto, memory, duckdb, database or spark."),
    epsilon: str | None = EPSILON,
    delta: str | None = DELTA,
    rho: str | None = RHO,
    mu: str | None = MU,
    cost: str | None = COST,
    mechanism: str = typer.Option("batch", help="batch: as planned. adaptive: the worst estimates first, in rounds."),
    reference: str = typer.Option(
        "auto", help="Model of unmeasured nodes: none, independence, tree, loglinear or auto."
    ),
    basis: str = typer.Option("compiled", help="Strategies of an adaptive run: compiled or residual."),
    noise: str = typer.Option("rounded", help="rounded, opendp (slow cross-check) or none (NOT PRIVATE)."),
    accounting: str = typer.Option("zcdp", help="zcdp, or gaussian: smaller errors for the same epsilon and delta."),
    ledger: str | None = typer.Option(None, metavar="LEDGER", help="The account to charge before any noise is drawn."),
    dataset: str | None = typer.Option(None, metavar="NAME", help="The dataset's name, which a ledger may require."),
    unit: str | None = typer.Option(
        None, metavar="COLUMN", help="Ids of the privacy unit; rows beyond the plan's contributions are left out."
    ),
    count_column: str | None = typer.Option(
        None, "--count-column", metavar="COLUMN", help="Number of rows that each row of the data stands for."
    ),
    max_count: str | None = typer.Option(
        None, "--max-count", metavar="N", help="Protect each row of the data, with noise for up to this count of it."
    ),
    count_step: str | None = typer.Option(
        None, "--count-step", metavar="STEP", help="With --max-count: round weights to multiples of this, e.g. 0.01."
    ),
    strict_values: bool = typer.Option(
        False,
        "--strict-values",
        help="With a ledger, accept errors on values that no policy covers.",
    ),
    workers: int | None = typer.Option(None, help="Threads that measure; by default one per core."),
    max_memory: str | None = typer.Option(
        None, "--max-memory", metavar="SIZE", help="Memory for measuring and counting, e.g. 4GB."
    ),
    test_seed: int | None = typer.Option(None, "--test-seed", metavar="N", help="Deterministic noise: NOT PRIVATE."),
    dry: bool = typer.Option(False, "--dry-run", help="Print the charge and the errors; read and spend nothing."),
    verbose: bool = typer.Option(False, "-v", "--verbose", help="Print the exact charge, in every currency."),
    confidential: bool = typer.Option(
        False,
        "--confidential-diagnostics",
        help="Print facts about the data to stderr first, for its curator alone: never publish them.",
    ),
) -> None:
    """Spend a budget on a table and write the release.

    Example: qcompile run couples.plan --data couples.csv --epsilon 1 --delta 1e-6 -o couples.release
    """
    given = dict(locals())
    budget = budget_of(epsilon=epsilon, delta=delta, rho=rho, mu=mu, cost=cost)
    if budget is None:
        raise OptionError("a run needs a budget: give --epsilon and --delta, or --rho, --mu or --cost")
    if dry and confidential:
        raise OptionError("a dry run reads no data, so there is nothing to diagnose; leave one of the two options out")
    prepared = _prepare(plan_file, budget, given)
    if dry:
        _print_run(prepared, budget, verbose)
        result("dry run: nothing was read, nothing was spent")
        return
    source = _source_of(data or [], table)
    _require_targets(plan_file, data or [], output, ledger)
    # The explanation comes last: what is not paid for is removed when the run is closed.
    with _explain_interruption(prepared.options), prepared.open(source) as opened:
        _print_run(prepared, budget, verbose)
        if confidential:
            _diagnose(prepared, source)
        with phases() as step:
            opened.execute(step, confidential_progress=True)  # shown on a terminal only
    if resume:
        message("note: the run was resumed; earlier charges and measurements were not repeated")
    result(f"written to {output}; ask it with: qcompile answers {output}")


def _prepare(plan_file: str, budget: Budget, given: Mapping[str, Any]) -> PreparedRun:
    """The run, from the values of the options that bear the names of the fields of `RunOptions`."""
    from qcompile.api import prepare
    from qcompile.run.options import RunOptions

    limit = memory_of(given["max_memory"])
    options: Any = {field.name: given[field.name] for field in fields(RunOptions)} | {"max_memory": limit}
    RunOptions(**options)  # refused before a workload is compiled
    return prepare(read_plan(plan_file), budget, **options)


def _print_run(prepared: PreparedRun, budget: Budget, verbose: bool) -> None:
    """Print charge, guarantee and errors of a run, on stdout, and its warnings, on stderr."""
    from qcompile.inspection.explain import privacy_text
    from qcompile.privacy.budget import Budget
    from qcompile.privacy.exact_numbers import amount_text
    from qcompile.release.provenance import note_text

    options, rho = prepared.options, prepared.charge.rho
    result(f"charge: {charge_text(budget, options.accounting)}")
    if verbose:
        result(f"exactly: rho {rho}; {prepared.terms.budget}")
    result(f"privacy: neighbouring tables differ in {privacy_text(prepared.plan)}")
    if prepared.remaining is not None:
        result(f"ledger: {options.ledger} will have rho {amount_text(prepared.remaining)} left")
    for stamp in prepared.terms.stamps:
        note = note_text(stamp, prepared.plan.workload.schema)
        message(f"warning: {stamp}" if note is None else f"note: {note}")
    result(_size_text(prepared))
    if options.mechanism == "batch":
        result("\n".join(table_lines(prepared.plan.summary(Budget(rho=rho)), limit=40)))
    else:
        message(
            "note: the errors of an adaptive run are not known beforehand; its usual answers are biased and have no "
            "standard errors"
        )
    output = options.output
    if not options.resume and output is not None and Path(output).exists():
        message(f"note: {output} already exists; the old one becomes {output}.1, or the next free number")


@contextmanager
def _explain_interruption(options: RunOptions) -> Iterator[None]:
    """On an interruption, print how to go on, and how to see whether the budget was spent by then."""
    from qcompile.run.unfinished import folder_of

    try:
        yield
    except KeyboardInterrupt:
        if options.ledger is not None:
            message(f"a charge that was made stays; see it with: qcompile ledger show {options.ledger}")
        if options.output is not None and folder_of(options.output).is_dir():
            message("the measurements so far are kept; finish the run with the same command and --resume")
        raise


def _diagnose(prepared: PreparedRun, data: Any) -> None:
    from qcompile.data.curator.diagnose import diagnose

    plan, options = prepared.plan, prepared.options
    rows, leave_out = plan.options.contributions, options.leaves_rows_out
    message(
        str(diagnose(data, plan.workload.schema, unit=options.unit, contributions=rows, leave_out=leave_out)),
    )


def _source_of(data: list[str], table: str | None) -> Any:
    """Return the data to read; of a database there is one at most."""
    if len(data) == 1:
        return source_of(data[0], table)
    if table is not None and data:
        raise OptionError("--table names the table of one database; give --data once")
    return data


def _require_targets(plan_file: str, data: list[str], output: str | None, ledger: str | None) -> None:
    if not data:
        raise OptionError("a run needs --data, a file or a database; --dry-run does without")
    if output is None:
        raise OptionError(
            "a run needs -o, the file of the release; without it the budget would be spent and the result lost"
        )
    require_target(output, plan_file, *data, *([] if ledger is None else [ledger]))


def _size_text(prepared: PreparedRun) -> str:
    from qcompile.support.arrays import bytes_text
    from qcompile.support.text import plural

    size, options = prepared.prediction, prepared.options
    low, high = size.sigma
    memory, seconds = bytes_text(size.memory), max(1, round(size.seconds))
    takes = f"about {memory} for measuring (program, plan and rows come on top), and {seconds} s"
    if size.draws is None:
        how = f"reference {options.reference}, {options.basis} basis, noise scale at least {low:.5g}"
        return f"round by round, candidate marginals: {size.nodes:,}; {how}; {takes}"
    measured = f"{plural(size.draws, 'measurement')} on {plural(size.nodes, 'node')}"
    scale = f"{low:.5g}" if low == high else f"{low:.5g} to {high:.5g}"
    return f"{measured}, noise scale {scale}; {takes}"
