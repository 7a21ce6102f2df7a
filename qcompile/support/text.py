"""Text output: aligned tables, numbers, and names without control characters."""

from __future__ import annotations

import math
from collections.abc import Sequence

MANY = 40
"""Rows that a table shows; the others are counted."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: set[int]) -> list[str]:
    """Align columns, two spaces apart; ``left`` are the left-aligned ones, the others are numbers.

    Names and labels come from files: control characters, which could rewrite a terminal, are shown as escapes.
    """
    head, rows = [printable(h) for h in head], [[printable(c) for c in r] for r in rows]
    widths = [max(len(r[i]) for r in (head, *rows)) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [c.ljust(w) if i in left else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))]
        return ("  " + "  ".join(padded)).rstrip()

    return [line(head), *map(line, rows)]


def printable(text: str) -> str:
    """Replace control characters by escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """Replace control characters by escapes, but for line breaks and tabs.

    All output for people passes through here: names, labels and terms come from files by anybody, and escape sequences
    or a reversed direction of writing would let them rewrite what a terminal shows.
    """
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Format a count with its noun, e.g. ``1 block`` or ``1,200 blocks``; ``nouns`` where that is not noun + s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or noun + 's'}"


def number(value: float) -> str:
    """Format with five significant digits: more than a reader uses, fewer than rounding disturbs."""
    return f"{value:.5g}"


def gap_text(gap: float) -> str:
    """Format a relative gap; "unproven" when infinite, "<1e-5 %" where rounding disturbs its digits."""
    if not math.isfinite(gap):
        return "unproven"
    return "<1e-5 %" if gap < 1e-7 else excess_text(gap)


def excess_text(ratio: float) -> str:
    """Format a relative excess in per cent with two digits, whole numbers from 100 on: ``0.31 %``, ``1,300 %``."""
    return f"{100 * ratio:,.0f} %" if ratio >= 1 else f"{100 * ratio:.2g} %"


def share_text(share: float) -> str:
    """Format a part of a whole in per cent, with two decimals; ``<0.01 %`` for less."""
    return "<0.01 %" if 0 < share < 5e-5 else f"{100 * share:.2f} %"
