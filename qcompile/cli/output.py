"""Printing, reading of plans and workloads, and the budget options that several commands share."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from qcompile.errors import OptionError, QCompileError
from qcompile.support.options import require_other

if TYPE_CHECKING:
    from collections.abc import Callable

    from qcompile.api import Plan
    from qcompile.privacy.budget import Budget

EPSILON = typer.Option(None, "--epsilon", metavar="E", help="Budget as (epsilon, delta), e.g. 1.")
DELTA = typer.Option(None, "--delta", metavar="D", help="Failure probability that goes with epsilon, e.g. 1e-9.")
RHO = typer.Option(None, "--rho", metavar="R", help="Budget in zCDP, exactly, e.g. 0.1 or 1/49.")
MU = typer.Option(None, "--mu", metavar="M", help="Budget in Gaussian differential privacy.")
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


def message(text: str) -> None:
    """A line for people, on stderr."""
    print(text, file=sys.stderr, flush=True)


def result(text: str) -> None:
    """A result, on stdout."""
    print(text)


def read_plan(path: str) -> Plan:
    """A plan from a plan file, or compiled from a ``.q`` file."""
    import qcompile as qc

    require_file(path)
    return compiled(path) if path.endswith(".q") else qc.load_plan(path)


def compiled(path: str, **options: Any) -> Plan:
    """A workload file compiled, with a progress bar over the problems that are solved."""
    import qcompile as qc

    with progress("solving") as step:
        return qc.compile(Path(path), progress=step, **options)


def require_file(path: str) -> None:
    """Refuse what is not a file, with a next step."""
    from qcompile.support.files import place, shortened

    try:
        there = place(Path(path))
    except (OSError, ValueError) as e:
        raise QCompileError(f"cannot read {shortened(path)}: {getattr(e, 'strerror', None) or e}") from None
    if there == "folder":
        raise QCompileError(f"{shortened(path)} is a folder; name a file in it")
    if there == "nothing":
        raise QCompileError(f"there is no file {shortened(path)}; check the name and the current folder")


def source_of(data: str | None, table: str | None) -> Any:
    """Return the data to read: a path, or the table of a database where one is named."""
    from qcompile.data.datasets.database import Database

    return data if table is None or data is None else Database.named(data, table)


def require_target(path: str, *inputs: str) -> None:
    """Refuse to write over what the command reads, or where nothing can be written; before the work is done.

    Raises:
      OptionError: the target is one of the inputs, by whatever name.
      StorageError: its folder does not exist or is not writable, or it is a folder itself.
    """
    from qcompile.support.files import require_place

    for name in inputs:
        require_other(path, name)
    require_place(path)


def budget_of(**given: str | None) -> Budget | None:
    """The budget of the command line; None when none was given.

    Raises:
      BudgetError: it is malformed, zero, or several were given.
    """
    from qcompile.privacy.budget import Budget

    named: dict[str, Any] = {k: v for k, v in given.items() if v is not None}
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
    """Bytes from a text such as ``4GB`` or ``500 MB``."""
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)i?B?\s*", text, re.IGNORECASE)
    if not found:
        raise OptionError(f"--max-memory {text!r} is not an amount of memory; write for instance 4GB")
    power = " kmgt".index((found[2] or " ").lower())
    return int(float(found[1]) * 1000**power)


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar for work of one kind, told how much is done and of how much; see `phases`."""
    with phases() as step:
        yield partial(step, label)


@contextmanager
def phases() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on stderr, told what is done, how much of it, and of how much (0 where nobody knows).

    Nothing where stderr is not a terminal. The bar shows the rate and the time left. How long work on confidential data
    takes depends on the data: so times are for the curator's own terminal, where the bar is wiped out in the end, and
    for no pipe, file or log.
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


def table_lines(table: Any, limit: int | None = None, of: int | None = None) -> list[str]:
    """An Arrow table as aligned text; numbers with one decimal, or five digits where they are small.

    Args:
      table: its rows.
      limit: of them, how many to show.
      of: how many rows there are, where the table holds only the first of them.
    """
    from qcompile.support.text import table as aligned

    shown = table if limit is None else table.slice(0, limit)
    columns = [shown.column(name).to_pylist() for name in shown.column_names]
    numeric = [all(isinstance(v, float | int) for v in c if v is not None) for c in columns]
    rows = [[_cell(v) for v in row] for row in zip(*columns, strict=True)]
    lines = aligned(shown.column_names, rows, left={i for i, n in enumerate(numeric) if not n})
    left = (table.num_rows if of is None else of) - shown.num_rows
    return [*lines, *([f"  ... {left:,} more rows"] if left else [])]


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 100 else f"{value:.4g}"
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)
