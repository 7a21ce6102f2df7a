"""``qcompile check``: all errors of a workload file at once."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from qcompile.cli.output import message, result


def check(
    file: str = typer.Argument(..., metavar="FILE", help="A .q workload file."),
    as_json: bool = typer.Option(False, "--json", help="Findings as JSON on stdout."),
) -> None:
    """Print every error of a workload file; exit 2 when there are any.

    Example: qcompile check couples.q
    """
    from qcompile import grammar

    workload, findings = grammar.check(grammar.read(file), file, Path(file).parent)
    if as_json:
        result(json.dumps([f.as_dict() for f in findings], indent=1))
    else:
        for f in findings:
            message(f"{f}\n")
    if workload is None:
        raise typer.Exit(2)
    if not as_json:
        counts = f"{workload.queries:,} queries in {len(workload.families):,} families"
        result(f"{file}: ok, {counts} over {len(workload.views):,} views")
