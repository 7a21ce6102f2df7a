"""Results as Markdown: aligned tables under headings, numbers with as many digits as they are good for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.machine import describe

ABSENT = "–"  # noqa: RUF001
"""In place of a figure that was not measured."""


def page(title: str, introduction: Sequence[str], sections: Sequence[str]) -> str:
    """A page: title, machine, introduction, sections."""
    return "\n\n".join([f"# {title}", "\n".join(describe()), *introduction, *sections]) + "\n"


def write(text: str, output: Path | None) -> None:
    """Write a page to a file, or print it."""
    if output is None:
        print(text, end="")
    else:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text)


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table, the first column aligned to the left and all others to the right."""
    widths = [max(3, *(len(line[i]) for line in [columns, *rows])) for i in range(len(columns))]
    rule = [("-" * w) if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    body = [[_aligned(cell, w, i) for i, (cell, w) in enumerate(zip(row, widths, strict=True))] for row in rows]
    head = [_aligned(cell, w, i) for i, (cell, w) in enumerate(zip(columns, widths, strict=True))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, rule, *body])


def _aligned(cell: str, width: int, column: int) -> str:
    return cell.ljust(width) if column == 0 else cell.rjust(width)


def seconds(value: float) -> str:
    """Seconds, to the millisecond while that says something."""
    return f"{value:.3f}" if value < 1 else f"{value:.1f}"


def megabytes(value: float) -> str:
    """Bytes as MB (10^6)."""
    return f"{value / 1e6:,.0f}"


def error(value: float) -> str:
    """An RMSE."""
    return f"{value:.3f}"


def gap(value: float) -> str:
    """A certified relative gap; below 1e-8 it is rounding."""
    return f"{value:.0e}" if value >= 1e-8 else "< 1e-8"
