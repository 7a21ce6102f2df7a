"""Printing, reading of plans and workloads, and the budget options that several commands share."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from qcompile.errors import OptionError, QCompileError, WorkloadError
from qcompile.support.memory import memory_budget
from qcompile.support.options import require_other
from qcompile.support.text import printable_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from qcompile.api import Plan, Release
    from qcompile.privacy.budget import Budget

EPSILON = typer.Option(None, "--epsilon", metavar="E", help="Budget as (epsilon, delta), e.g. 1.")
DELTA = typer.Option(None, "--delta", metavar="D", help="Failure probability that goes with epsilon, e.g. 1e-9.")
RHO = typer.Option(None, "--rho", metavar="R", help="Budget in zCDP, exactly, e.g. 0.1 or 1/49.")
MU = typer.Option(None, "--mu", metavar="M", help="Budget in Gaussian DP, for batches with rounded noise.")
COST = typer.Option(None, "--cost", metavar="C", help="Budget as privacy cost, 2 rho.")

TABLE = typer.Option(
    None, "--table", metavar="NAME", help="The table in a database: a DuckDB file, or a URL such as postgres://..."
)

ESTIMATE = typer.Option(
    None, "--estimate", help="unbiased (usual for a batch, with standard errors) or best (usual for an adaptive run)."
)
PROCESSING = typer.Option(
    None,
    "--processing",
    help="Of best estimates: none, nonnegative, consistent or integer; usually nonnegative for marginals, else none.",
)


MAX_MEMORY = typer.Option(
    None, "--max-memory", metavar="SIZE", help="Refuse work that takes more memory, e.g. 4GB; 80 % of what is free."
)

Command = TypeVar("Command", bound="Callable[..., None]")

COLOURS = {"error": "red", "internal error": "red", "warning": "yellow"}

ALIGNED = ("estimate", "std_error", "lower", "upper")
"""Columns of answers that have as many decimals as the standard errors need."""


def message(text: str) -> None:
    """Print a line on stderr, without control characters; on a terminal errors are red and warnings yellow.

    No colours where NO_COLOR is set.
    """
    text = printable_lines(text)
    colour = COLOURS.get(text.partition(":")[0]) if sys.stderr.isatty() and not os.environ.get("NO_COLOR") else None
    try:
        print(typer.style(text, fg=colour) if colour else text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        discard("stderr")


def result(text: str, end: str = "\n") -> None:
    """Print a result on stdout, without control characters."""
    _write(printable_lines(text), end)


def workload_text(text: str) -> None:
    """Print a ``.q`` text on stdout: unchanged into a pipe or a file, and without control characters on a terminal."""
    _write(printable_lines(text) if sys.stdout.isatty() else text, "")


def _write(text: str, end: str) -> None:
    try:
        print(text, end=end)
    except BrokenPipeError:
        discard("stdout")


def discard(stream: Literal["stdout", "stderr"]) -> None:
    """Discard all further output to a stream without a reader, so that a command still finishes its work."""
    # The file stays open until the interpreter is done with it.
    setattr(sys, stream, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115


def warn_not_private(release: Release) -> None:
    """Print the stamps of a release without a privacy guarantee; `qcompile inspect` prints all stamps."""
    from qcompile.release.provenance import NOT_PRIVATE

    for stamp in release.provenance.stamps:
        if stamp.startswith(NOT_PRIVATE):
            message(f"warning: {stamp}")


def read_plan(path: str) -> Plan:
    """Load a plan file, or compile a ``.q`` file."""
    import qcompile as qc

    require_file(path)
    return compile_file(path) if path.endswith(".q") else qc.load_plan(path)


def compile_file(path: str, **options: Any) -> Plan:
    """Compile a workload file, with a progress bar over the problems to solve; its notes are printed first."""
    import qcompile as qc
    from qcompile import grammar

    workload, findings = grammar.check(grammar.read_text(path), path, Path(path).parent)
    if workload is None:
        raise WorkloadError(findings)
    for note in findings:
        message(f"{note}\n")
    with progress("solving") as step:
        return qc.compile(workload, progress=step, **options)


def require_file(path: str) -> None:
    """Refuse a path that is not a file.

    Raises:
      QCompileError: it is missing, a folder, or cannot be looked at; says which.
    """
    from qcompile.support.files import place, shorten

    try:
        there = place(Path(path))
    except (OSError, ValueError) as e:
        raise QCompileError(f"cannot read {shorten(path)}: {getattr(e, 'strerror', None) or e}") from None
    if there == "folder":
        raise QCompileError(f"{shorten(path)} is a folder; name a file in it")
    if there == "nothing":
        raise QCompileError(f"there is no file {shorten(path)}; check the name and the current folder")


def source_of(data: str | None, table: str | None) -> Any:
    """Return the data to read: a path, or the table of a database where one is named."""
    from qcompile.data.datasets.database import Database

    return data if table is None or data is None else Database.named(data, table)


def require_target(path: str, *inputs: str) -> None:
    """Refuse a target that is an input of the command or cannot be written, before the work begins.

    Raises:
      OptionError: the target is one of the inputs, by whatever name.
      StorageError: its folder does not exist or is not writable, or it is a folder itself.
    """
    from qcompile.support.files import require_place

    for name in inputs:
        require_other(path, name)
    require_place(path)


def budget_of(**amounts: str | None) -> Budget | None:
    """Read the budget options; None when there is none.

    Raises:
      BudgetError: it is malformed, zero, or several were given.
    """
    from qcompile.privacy.budget import Budget

    named: dict[str, Any] = {k: v for k, v in amounts.items() if v is not None}
    return Budget(**named) if named else None


def charge_text(budget: Budget, accounting: str) -> str:
    """A charge in short: the request, and what it is worth in the other common currency.

    Example: ``epsilon 1, delta 1e-6 (rho 0.024356)``.
    """
    from qcompile.privacy.budget import USUAL_DELTA
    from qcompile.privacy.exact_numbers import exact_text, rounded_text

    request = ", ".join(f"{name} {value}" for name, value in budget.request.items())
    if budget.delta is not None:
        worth = f"rho {rounded_text(budget.charge(accounting), up=True)}"
    else:
        epsilon = rounded_text(budget.epsilon_at(USUAL_DELTA, accounting), up=True)
        worth = f"epsilon {epsilon} at delta {exact_text(USUAL_DELTA)}"
    return f"{request} ({worth}{', Gaussian accounting' if accounting == 'gaussian' else ''})"


def memory_of(text: str | None) -> int | None:
    """Read a number of bytes, such as ``4GB`` or ``500 MB``; None for None."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)i?B?\s*", text, re.IGNORECASE)
    if not match:
        raise OptionError(f"--max-memory {text!r} is not an amount of memory; write for instance 4GB")
    power = " kmgt".index((match[2] or " ").lower())
    return int(float(match[1]) * 1000**power)


def limits_memory(command: Command) -> Command:
    """Hold a command to the memory of its option ``max_memory``."""

    @wraps(command)
    def limited(**options: Any) -> None:
        with memory_budget(memory_of(options["max_memory"])):
            command(**options)

    return limited  # type: ignore[return-value]  # the signature is that of the command


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar for work of one kind: called with (done, total); see `phases`."""
    with phases() as step:
        yield partial(step, label)


@contextmanager
def phases() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on stderr: called with (phase, done, total); total is 0 when unknown.

    Nothing is shown where stderr is not a terminal. The bar shows the rate and the time left. The time of work on
    confidential data depends on the data: so times appear on the curator's own terminal only, where the bar is removed
    at the end, and in no pipe, file or log.
    """
    if not sys.stderr.isatty():
        yield lambda label, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    from qcompile.cli.progress import Done, Rate

    columns = (TextColumn("{task.description}"), BarColumn(), Done(), Rate(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def step(label: str, done: int, total: int) -> None:
            if label not in tasks:
                for task in tasks.values():
                    bar.update(task, visible=False)
                tasks[label] = bar.add_task(label, total=None)
            bar.update(tasks[label], completed=done, total=total or None)

        yield step


def table_lines(table: Any, limit: int | None = None, of: int | None = None, rest: str = "") -> list[str]:
    """Format an Arrow table as aligned text.

    Answers have two digits of their smallest standard error, the column ``share`` is in per cent, other numbers have
    one decimal from 100 on and four digits below.

    Args:
      table: the rows, or the first of them.
      limit: number of rows to show; all by default.
      of: number of rows in total, where the table holds only the first ones.
      rest: text behind the number of rows that are not shown.
    """
    from qcompile.support.text import plural
    from qcompile.support.text import table as aligned

    shown = table if limit is None else table.slice(0, limit)
    columns = [shown.column(name).to_pylist() for name in shown.column_names]
    numeric = [all(isinstance(v, float | int) for v in c if v is not None) for c in columns]
    formats = _formats(shown)
    cells = [[formats.get(name, _cell)(v) for v in c] for name, c in zip(shown.column_names, columns, strict=True)]
    rows = list(zip(*cells, strict=True))
    lines = aligned(shown.column_names, rows, left={i for i, n in enumerate(numeric) if not n})
    left = (table.num_rows if of is None else of) - shown.num_rows
    return [*lines, *([f"  ... {plural(left, 'more row')}{rest}"] if left else [])]


def _formats(table: Any) -> dict[str, Callable[[Any], str]]:
    """Formats by column, where they are not those of `_cell`."""
    from qcompile.support.text import share_text

    formats: dict[str, Callable[[Any], str]] = {"share": share_text} if "max_std_error" in table.column_names else {}
    if "std_error" in table.column_names:
        errors = [e for e in table.column("std_error").to_pylist() if e is not None and math.isfinite(e) and e > 0]
        digits = min(6, max(0, 1 - math.floor(math.log10(min(errors))))) if errors else 1
        formats |= dict.fromkeys(ALIGNED, partial(_decimals, digits))
    return formats


def _decimals(digits: int, value: float | None) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)
