"""``qcompile fmt``: the canonical form of a workload file, comments kept."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import typer

from qcompile.cli.output import message, result
from qcompile.errors import QCompileError


def fmt(
    file: str = typer.Argument(..., metavar="FILE", help="A .q workload file; - reads stdin and writes stdout."),
    check: bool = typer.Option(False, "--check", help="Change nothing; exit 2 if the file is not in canonical form."),
    stdout: bool = typer.Option(False, "--stdout", help="Print the canonical form instead of rewriting the file."),
) -> None:
    """Rewrite a workload file in canonical form.

    Example: qcompile fmt couples.q
    """
    from qcompile import grammar

    text = sys.stdin.read() if file == "-" else grammar.read(file)
    formatted = grammar.format_text(text, file)
    if check:
        if formatted != text:
            message(f"{file} is not in canonical form; qcompile fmt {file} rewrites it")
            raise typer.Exit(2)
    elif stdout or file == "-":
        sys.stdout.write(formatted)
    elif formatted != text:
        _replace(Path(file), formatted)
        result(f"{file}: rewritten")
    else:
        result(f"{file}: already in canonical form")


def _replace(path: Path, text: str) -> None:
    """Write beside the file and rename, so that the file is never half written."""
    target = path.resolve()  # a link stays a link
    try:
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except OSError as e:
        raise QCompileError(f"cannot rewrite {path}: {e.strerror or e}") from None
