"""``qcompile schema draft``: a first workload file for a table, to be edited by hand before it is used."""

from __future__ import annotations

from pathlib import Path

import typer

from qcompile.cli.output import TABLE, message, require_target, source_of, workload_text
from qcompile.cli.parsing import Commands
from qcompile.errors import OptionError

app = Commands(help="Write schemas.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def root() -> None:
    """Write schemas."""


@app.command()
def draft(
    data: str = typer.Argument(..., metavar="DATA", help="The confidential table: a file, a folder, or a database."),
    table: str | None = TABLE,
    output: str | None = typer.Option(
        None, "-o", "--output", metavar="FILE.q", help="Where to write it; stdout where absent or -."
    ),
) -> None:
    """Draft a workload file from a table: CONFIDENTIAL, until each domain is replaced by public knowledge.

    Example: qcompile schema draft couples.csv -o couples.q
    """
    from qcompile.data.curator.draft import draft as drafted
    from qcompile.support.files import replacing

    if output == "-":
        output = None
    if output is not None:
        _require_new(output, *([data] if table is None else []))
    text = drafted(source_of(data, table))
    if output is None:
        workload_text(text.rstrip("\n") + "\n")
    else:
        with replacing(output, mode=0o600) as temporary:
            temporary.write_text(text, encoding="utf-8", newline="")
    name = "this draft" if output is None else output
    message(f"warning: {name} was read from the data; it is as confidential as the data until every domain is replaced")


def _require_new(output: str, *data: str) -> None:
    require_target(output, *data)
    if Path(output).exists():
        raise OptionError(f"{output} exists already, perhaps with your edits in it; give another name, or remove it")
