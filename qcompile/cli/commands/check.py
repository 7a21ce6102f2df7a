"""``qcompile check``: all errors of a workload file at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from qcompile.cli.look_alikes import warn_of_look_alikes
from qcompile.cli.output import message, result

if TYPE_CHECKING:
    from qcompile.queries.workload import Workload

LISTED_VIEWS = 200_000
"""Views up to which distinct ones are counted: about a second."""


def check(
    file: str = typer.Argument(..., metavar="FILE", help="A .q workload file."),
    as_json: bool = typer.Option(False, "--json", help="Findings as JSON on stdout."),
) -> None:
    """Print every error of a workload file; exit 2 when there are any.

    Example: qcompile check couples.q
    """
    from qcompile import grammar

    workload, findings = grammar.check(grammar.read_text(file), file, Path(file).parent)
    if as_json:
        result(json.dumps([f.as_dict() for f in findings], indent=1))
    else:
        for f in findings:
            message(f"{f}\n")
    if workload is None:
        raise typer.Exit(2)
    if not as_json:
        result(f"{file}: ok, {_counts(workload)}")
        for warning in warn_of_look_alikes(workload.schema):
            message(f"warning: {warning}")
        _warn_of_size(workload)


def _warn_of_size(workload: Workload) -> None:
    """Say beforehand that compiling will be refused for its memory, as far as that is known without compiling."""
    from qcompile.errors import SizeError
    from qcompile.lattice.decompose import require_grams

    try:
        require_grams(workload)
    except SizeError as e:
        message(f"warning: it cannot be compiled here: {e}")


def _counts(workload: Workload) -> str:
    from qcompile.support.text import plural

    queries = plural(workload.queries, "query", "queries")
    families = plural(len(workload.families), "family", "families")
    most = sum(f.views for f in workload.families)  # an upper bound where listing the views would take long
    views = plural(len(workload.views), "view") if most <= LISTED_VIEWS else f"at most {most:,} views"
    return f"{queries} in {families} over {views}"
