"""``qcompile diff``: the differences of two plans."""

from __future__ import annotations

import json

import typer

from qcompile.cli.output import read_plan, require_file, result


def diff(
    first: str = typer.Argument(..., metavar="PLAN|FILE", help="A plan or a .q workload file."),
    second: str = typer.Argument(..., metavar="PLAN|FILE", help="The one to compare it with."),
    as_json: bool = typer.Option(False, "--json", help="The differences as one JSON object."),
) -> None:
    """Show what changed from one plan to another: schema, options, errors per family, how each node is measured.

    Errors are those at privacy cost 1. The exit code is 0 whether the plans differ or not.

    Example: qcompile diff couples.plan couples-weighted.q
    """
    from qcompile.inspection import diff as compare
    from qcompile.inspection.diff_text import text

    for path in (first, second):  # before either is compiled
        require_file(path)
    changes = compare.diff(read_plan(first), read_plan(second))
    result(json.dumps(compare.as_json(changes), indent=1) if as_json else text(changes).rstrip())
