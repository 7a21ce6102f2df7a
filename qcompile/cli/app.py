"""The entry point: turns commands into exit codes.

0 success; 1 internal error; 2 the user's mistake, or refused for size; 3 budget refused; 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import typer

from qcompile.cli.commands import (
    answers,
    ask,
    budget,
    check,
    compile_,
    diff,
    doctor,
    fmt,
    inspect_,
    ledger,
    run,
    schema,
)
from qcompile.cli.output import discard, message
from qcompile.cli.parsing import Commands
from qcompile.errors import QCompileError, SizeError
from qcompile.support.memory import EXHAUSTED
from qcompile.version import __version__

app = Commands(
    name="qcompile",
    help="Compile large workloads of statistical queries, and answer them under differential privacy.",
    epilog="A first workload: qcompile check FILE.q, then compile, inspect, run, answers and ask.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"qcompile {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Compile large workloads of statistical queries, and answer them under differential privacy."""


for name, command in (
    ("check", check.check),
    ("fmt", fmt.fmt),
    ("compile", compile_.compile_),
    ("inspect", inspect_.inspect),
    ("budget", budget.budget),
    ("diff", diff.diff),
    ("run", run.run),
    ("answers", answers.answers),
    ("ask", ask.ask),
    ("doctor", doctor.doctor),
):
    app.command(name)(command)
app.add_typer(ledger.app, name="ledger")
app.add_typer(schema.app, name="schema")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(execute(arguments))


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; no traceback for a user's mistake."""
    command: Any = typer.main.get_command(app)
    for stream in (sys.stdout, sys.stderr):  # a label that the terminal cannot show is escaped, not an error
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        # Not command.main: it would keep interrupts and closed pipes from the handlers below.
        with command.make_context("qcompile", words) as context:
            command.invoke(context)
        _flush()
        return 0
    except typer.Exit as e:
        return e.exit_code
    except QCompileError as e:
        message(str(e) if _positioned(e) else f"error: {e}")
        return e.exit_code
    except MemoryError:
        message(f"error: {EXHAUSTED}")
        return SizeError.exit_code
    except KeyboardInterrupt:
        message("interrupted")
        return 130
    except BrokenPipeError:  # of the parser's own output, such as a help text; or of a connection: work may be undone
        discard("stdout")
        return 1
    except Exception as e:  # usage errors of the parser, or a defect of the program
        return _other(e)


def _flush() -> None:
    """Write what stdout has buffered; a reader that is gone, as ``head`` is, has seen enough."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard("stdout")


def _positioned(error: QCompileError) -> bool:
    """True if the message already starts with a place in a file."""
    return bool(getattr(error, "diagnostics", ()))


def _show_usage(error: Any) -> None:
    """Print a usage error in the style of all others; a command without arguments gets its help."""
    context = getattr(error, "ctx", None)
    if context is None or type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return
    text = error.format_message().rstrip(".")
    message(f"error: {text[:1].lower()}{text[1:]}; see: {context.command_path} --help")


def _other(error: Exception) -> int:
    if hasattr(error, "show") and hasattr(error, "exit_code"):  # a usage error of the command-line parser
        _show_usage(error)
        return int(error.exit_code)
    if os.environ.get("QCOMPILE_DEBUG") == "1":
        raise error
    message(f"internal error: {type(error).__name__}; please report it, with the command line and `qcompile doctor`")
    message("set QCOMPILE_DEBUG=1 to see where it happened; read it before you share it, it may show data")
    return 1
