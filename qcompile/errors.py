"""Every exception qcompile raises on purpose, with the exit code the command line gives it.

One root, double inheritance where a builtin fits, and the data of the error on the exception.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any


class QCompileError(Exception):
    """Root of every error that the user can fix; the message says what is wrong, why, and what to do next."""

    exit_code = 2


class IntegrityError(QCompileError, ValueError):
    """A core object was built with fields that contradict each other (position-free by design)."""


class InternalError(RuntimeError):
    """An invariant of the program is broken; the user cannot fix it, so it is not a `QCompileError`."""


class OptionError(QCompileError, ValueError):
    """An option of the Python interface or the command line has a value it cannot take."""


class SizeError(QCompileError, MemoryError):
    """Refused before allocation: the message has the bytes needed, the limit and a remedy."""


class DataError(QCompileError, ValueError):
    """The data does not fit the schema, or cannot be read."""


class BudgetError(QCompileError, ValueError):
    """A budget that cannot be granted: malformed, zero, or more than is left."""

    exit_code = 3


class OverspendError(BudgetError):
    """More was asked of a ledger than it has left; the ledger is as it was.

    Attributes:
      requested: rho asked for.
      remaining: rho left.
    """

    def __init__(self, message: str, requested: Fraction, remaining: Fraction) -> None:
        super().__init__(message)
        self.requested = requested
        self.remaining = remaining

    def __reduce__(self) -> tuple[type[OverspendError], tuple[str, Fraction, Fraction]]:
        """Support process pools, which pickle errors."""
        return type(self), (str(self), self.requested, self.remaining)

    @property
    def short_by(self) -> Fraction:
        """Rho requested beyond what is left."""
        return self.requested - self.remaining


class NotEstimableError(QCompileError, ValueError):
    """The query lies outside the span of the measurements; it is refused, never guessed."""


class StorageError(QCompileError, ValueError):
    """A plan or release file is damaged, foreign or of another version."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open region of a source text; lines and columns count from 1, offsets from 0."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One positioned finding in a ``.q`` text.

    Attributes:
      severity: "error" or "note".
      message: one sentence of what is wrong.
      path: the file's name as the user gave it, or "<text>".
      span: where.
      source: the line of the text on which the span starts.
      hint: what was expected or a suggestion, shown behind the carets; may be empty.
    """

    severity: str
    message: str
    path: str
    span: Span
    source: str
    hint: str = ""

    def __str__(self) -> str:
        head = f"{self.path}:{self.span.line}:{self.span.column}: {self.severity}: {self.message}"
        number = f"{self.span.line:>5}"
        width = max(1, min(self.span.end - self.span.start, len(self.source) - self.span.column + 1))
        # Tabs stay tabs in the padding, so that the carets line up in every terminal.
        pad = "".join("\t" if c == "\t" else " " for c in self.source[: self.span.column - 1])
        carets = pad + "^" * width + (f" {self.hint}" if self.hint else "")
        return f"{head}\n{number} | {self.source}\n      | {carets}"

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data, for ``check --json``."""
        return {
            "severity": self.severity,
            "message": self.message,
            "path": self.path,
            "line": self.span.line,
            "column": self.span.column,
            "length": self.span.end - self.span.start,
            "source": self.source,
            "hint": self.hint,
        }


class WorkloadError(QCompileError, ValueError):
    """A ``.q`` text that cannot be compiled.

    Attributes:
      diagnostics: every finding, in the order of the text.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__("\n\n".join(map(str, self.diagnostics)))


MOST_COMPARED = 1000
"""Names that a mistyped one is compared with, 20 microseconds each."""

MOST_LETTERS = 2**17
"""Pairs of letters compared for one suggestion, 0.2 microseconds each where the names are made to take long."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a suggestion such as "did you mean 'husage'?", the list of known names, or an empty text."""
    names = list(known)
    alike = _same_but_for_form(name, names)
    if alike:
        return alike
    close = difflib.get_close_matches(name, comparable(name, names), n=1, cutoff=0.6)
    if not close:
        close = [k for k in names if k.casefold() == name.casefold()][:1]
    if close:
        return f"did you mean {close[0]!r}?"
    if not names:
        return ""
    listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    return f"known: {listed}"


def _same_but_for_form(name: str, names: list[str]) -> str:
    """Return a suggestion of a name that looks the same, but is composed of other characters; an empty text if none."""
    key = unicodedata.normalize("NFC", name)
    for known in names:
        if known != name and unicodedata.normalize("NFC", known) == key:
            form = "composed" if known == key else "decomposed"
            return (
                f"did you mean {known!r} in its {form} Unicode form, {known!a}? It looks the same as "
                f"{name!a}; write both in one form"
            )
    return ""


def comparable(name: str, names: list[str]) -> list[str]:
    """Return the names to compare letter by letter: all, or of many those that share a half with ``name``.

    A letter that is wrong, missing or too many leaves the first half or the last as it is. Names that differ by case
    only are found too.
    """
    most = min(MOST_COMPARED, MOST_LETTERS // max(1, len(name) ** 2))
    if len(names) <= most:
        return names
    head, tail = name[: len(name) // 2], name[len(name) // 2 + 1 :]
    folded = name.casefold()
    same = [k for k in names if len(k) == len(name) and k.casefold() == folded][:1]
    start = [k for k in names if k.startswith(head)] if head else []
    end = [k for k in names if k.endswith(tail)] if tail else []
    return [*same, *start[: most // 2], *end[: most // 2]]
