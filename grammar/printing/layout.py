"""The canonical layout of a whole file, with its comments.

A comment behind a statement stays behind it; any other comment goes on a line of its own before the next statement.
One blank line between statements is kept, more are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from qcompile.grammar.printing import printer
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import At, SourceText
from qcompile.grammar.reading.words import name_text

WIDEST_NAME = 24
"""Colons of a block are aligned behind names up to this width."""

_OPENING = re.compile(r"\w+(?:[ \t\f\n]+read_from_data)?(?:[ \t\f\n]|#[^\n]*)*\{")


@dataclass(frozen=True)
class Comment:
    """A comment, ``#`` included, with its region."""

    text: str
    at: At


@dataclass(frozen=True)
class Piece:
    """Something to write on a line: a statement, or the opening or closing of a block."""

    text: str
    at: At
    margin: str = ""
    opens: bool = False
    closes: bool = False


def format_file(file: syntax.File, source: SourceText, comments: Sequence[Comment]) -> str:
    """Return the canonical text of a file."""
    page = _Page(source, list(reversed(comments)))
    pieces = list(_pieces(file, source))
    end = len(source.text) + 1
    starts = [*(piece.at[0] for piece in pieces), end]
    for piece, limit in zip(pieces, starts[1:], strict=True):
        page.write(piece, limit)
    page.write_comments(end, "")
    return "".join(line + "\n" for line in page.lines)


def _pieces(file: syntax.File, source: SourceText) -> Iterator[Piece]:
    for part in file.parts:
        if isinstance(part, syntax.Language):
            yield Piece(f"language {printer.operand(part.version)}", (part.at[0], part.version.at[1]))
            continue
        word = printer.opening(part)
        opening = _OPENING.match(source.text, part.at[0])
        yield Piece(f"{word} {{", (part.at[0], opening.end() if opening else part.at[0]), opens=True)
        yield from _lines(part)
        yield Piece("}", (part.at[1] - 1, part.at[1]), closes=True)


def _lines(block: syntax.SchemaBlock | syntax.WorkloadBlock) -> Iterator[Piece]:
    widths = [len(name_text(line.name.text)) for line in block.lines if line.name is not None]
    width = max((w for w in widths if w <= WIDEST_NAME), default=0)
    for line in block.lines:
        label = "" if line.name is None else f"{name_text(line.name.text):<{width}} : "
        yield Piece(label + _content(line), line.at, "  ")


def _content(line: syntax.AttributeLine | syntax.FamilyLine) -> str:
    if isinstance(line, syntax.AttributeLine):
        return printer.domain(line.domain) + printer.modifiers(line.modifiers)
    return printer.expression(line.expression) + printer.weight(line.weight) + printer.target(line.target)


@dataclass
class _Page:
    """The lines written so far, and the comments still to be placed, the next one last."""

    source: SourceText
    comments: list[Comment]
    lines: list[str] = field(default_factory=list)
    line: int = 0  # of the source, where the last thing written ended
    tight: bool = True  # no blank line may follow
    apart: bool = False  # a blank line must follow

    def write(self, piece: Piece, limit: int) -> None:
        """Write a piece, after the comments before its end and with the one behind it, if any before ``limit``."""
        self.write_comments(piece.at[1], "  " if piece.closes else piece.margin, piece.at[0])
        self.tight = self.tight or piece.closes
        self._put(piece.margin + piece.text, piece.at)
        if self.comments and self._is_behind(self.comments[-1], limit):
            self.lines[-1] += "  " + self.comments.pop().text.rstrip()
        self.tight = piece.opens
        self.apart = not piece.opens and not piece.margin

    def write_comments(self, end: int, margin: str, start: int | None = None) -> None:
        """Write the comments before ``end``; those inside a statement are moved to its ``start``."""
        while self.comments and self.comments[-1].at[0] < end:
            comment = self.comments.pop()
            begin = comment.at[0] if start is None else min(start, comment.at[0])
            self._put(margin + comment.text.rstrip(), (begin, comment.at[1]))

    def _is_behind(self, comment: Comment, limit: int) -> bool:
        return comment.at[0] < limit and self.source.line(comment.at[0]) == self.line

    def _put(self, text: str, at: At) -> None:
        if self.apart or (not self.tight and self.source.line(at[0]) > self.line + 1):
            self.lines.append("")
        self.lines.append(text)
        self.line = self.source.line(max(at[0], at[1] - 1))
        self.tight = self.apart = False
