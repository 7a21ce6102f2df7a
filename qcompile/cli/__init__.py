"""The command line: a file per command; results on stdout, messages on stderr, exit codes 0, 1, 2, 3."""

from qcompile.cli.app import main

__all__ = ["main"]
