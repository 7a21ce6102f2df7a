"""``qcompile fmt``: the canonical form of a workload file, comments kept."""

from __future__ import annotations

import sys

import typer

from qcompile.cli.output import message, result, workload_text


def fmt(
    file: str = typer.Argument(..., metavar="FILE", help="A .q workload file; - reads stdin and writes stdout."),
    check: bool = typer.Option(False, "--check", help="Change nothing; exit 2 if the file is not in canonical form."),
    stdout: bool = typer.Option(False, "--stdout", help="Print the canonical form instead of rewriting the file."),
) -> None:
    """Rewrite a workload file in canonical form.

    Example: qcompile fmt couples.q
    """
    from qcompile import grammar
    from qcompile.support.files import replacing

    text = sys.stdin.read() if file == "-" else grammar.read_text(file)
    formatted = grammar.format_text(text, file)
    if check:
        if formatted != text:
            message(f"{file} is not in canonical form; qcompile fmt {file} rewrites it")
            raise typer.Exit(2)
    elif stdout or file == "-":
        workload_text(formatted)
    elif formatted != text:
        with replacing(file) as temporary:
            temporary.write_text(formatted, encoding="utf-8", newline="")
        result(f"{file}: rewritten")
    else:
        result(f"{file}: already in canonical form")
