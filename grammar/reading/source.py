"""A source text with its positions, and the findings about it."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn, TypeAlias

from qcompile.errors import Diagnostic, Span

At: TypeAlias = tuple[int, int]
"""A half-open region of the text, as offsets."""

MAX_FINDINGS = 50
"""Errors kept for one file, and no notes beyond as many findings; a file with more is fixed in rounds."""

MAX_EFFORT = 3_500_000_000
"""Largest effort of a text, of its words and of the queries they describe, in rough nanoseconds. Prices are fixed, no
clock is read, so that every computer accepts the same texts."""

LONGEST_LINE = 400
"""Characters of a source line that a message repeats beyond the position it points at."""


@dataclass(frozen=True)
class SourceText:
    """One ``.q`` text. Line ends are normalised to a line feed by `SourceText.of`.

    Attributes:
      text: the text that all offsets refer to.
      path: its name in messages.
    """

    text: str
    path: str = "<text>"

    @classmethod
    def of(cls, text: str, path: str) -> SourceText:
        """Return the source of a text with any line ends, with or without a byte order mark."""
        return cls(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), path)

    @cached_property
    def _starts(self) -> list[int]:
        return [0] + [i + 1 for i, c in enumerate(self.text) if c == "\n"]

    def line(self, offset: int) -> int:
        """Return the number of the line that holds ``offset``, from 1."""
        return bisect_right(self._starts, offset)

    def column(self, offset: int) -> int:
        """Return the number of the character within its line, from 1."""
        return offset - self._starts[self.line(offset) - 1] + 1

    def line_text(self, line: int) -> str:
        """Return the line ``line``, from 1, without its end."""
        start = self._starts[line - 1]
        end = self.text.find("\n", start)
        return self.text[start : len(self.text) if end < 0 else end]

    def diagnostic(self, severity: str, message: str, at: At, hint: str = "") -> Diagnostic:
        """Make a finding at ``at``, with the line it starts on."""
        start = min(at[0], len(self.text))
        line, column = self.line(start), self.column(start)
        shown = self.line_text(line)[: column + LONGEST_LINE]
        # Control characters of a hostile file must not reach the terminal.
        shown = "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in shown)
        return Diagnostic(severity, message, self.path, Span(start, max(at[1], start), line, column), shown, hint)


class Stop(Exception):
    """Leave the statement after its errors were reported."""


class Full(Exception):
    """Leave the text: it has too many errors, or asks for too much work."""


@dataclass
class Findings:
    """The errors and notes found in one source so far.

    Attributes:
      source: the text they are about.
      items: the findings, in the order they were made.
      effort: what the text has asked for so far, of `MAX_EFFORT`.
    """

    source: SourceText
    items: list[Diagnostic] = field(default_factory=list)
    effort: int = 0

    def has_errors(self) -> bool:
        """True if one of them is an error."""
        return any(d.severity == "error" for d in self.items)

    @property
    def is_full(self) -> bool:
        """True if no more errors are kept."""
        return sum(d.severity == "error" for d in self.items) >= MAX_FINDINGS

    def error(self, message: str, at: At, hint: str = "") -> None:
        """Report an error and go on.

        Raises:
          Full: there are too many errors to keep this one.
        """
        if self.is_full:
            raise Full
        self.items.append(self.source.diagnostic("error", message, at, hint))

    def note(self, message: str, at: At, hint: str = "") -> None:
        """Report a note, which is no error."""
        if len(self.items) < MAX_FINDINGS:
            self.items.append(self.source.diagnostic("note", message, at, hint))

    def fail(self, message: str, at: At, hint: str = "") -> NoReturn:
        """Report an error and leave the statement.

        Raises:
          Stop: always, unless there are too many findings; then Full.
        """
        self.error(message, at, hint)
        raise Stop

    def spend(self, effort: int, what: str, at: At, hint: str) -> None:
        """Charge work to the effort limit of the text before it is done.

        Args:
          effort: nanoseconds it takes, roughly.
          what: what asks for it, with its size.
          at: where.
          hint: what to do when it is too much.

        Raises:
          Full: after reporting that it is too much, by itself or beside what was asked for before.
        """
        self.effort += effort
        if self.effort > MAX_EFFORT:
            share = math.ceil(100 * self.effort / MAX_EFFORT)
            self.error(f"with {what}, the text asks for {share}% of the work that may go into one", at, hint)
            raise Full

    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """Return the findings in the order of the text; a note stays behind the error it explains."""
        return tuple(sorted(self.items, key=lambda d: d.span.start))
