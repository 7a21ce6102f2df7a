"""The differences of two plans as text; equal differences print equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qcompile.inspection.diff import Change, FamilyChange, NodeChange, PlanDiff, TotalChange
from qcompile.support.text import MANY, gap_text, number, share_text, table

WIDTH = 60
"""Characters of a domain that a table shows."""


def text(changes: PlanDiff) -> str:
    """Format the differences: a table of totals, then a table for each kind of change."""
    if changes.same:
        return "the plans are the same: workload, options, predicted errors, shares of the budget and solvers\n"
    tables = [
        _totals_table(changes.totals),
        _changes_table("attribute", changes.schema),
        _changes_table("option", changes.options),
        _families_table(changes.families),
        _nodes_table(changes.nodes),
    ]
    return "\n\n".join("\n".join(t) for t in tables if t) + "\n"


def _totals_table(totals: Sequence[TotalChange]) -> list[str]:
    rows = [[t.name, _total(t.name, t.first), _total(t.name, t.second), _ratio(t)] for t in totals]
    return table(["total", "first", "second", "second / first"], rows, left={0})


def _total(name: str, value: float) -> str:
    if name == "gap":
        return gap_text(value)
    return f"{value:,}" if isinstance(value, int) else number(value)


def _ratio(change: TotalChange | FamilyChange) -> str:
    return "" if change.ratio is None or getattr(change, "name", "") == "gap" else f"{change.ratio:.4f}"


def _changes_table(what: str, changes: Sequence[Change]) -> list[str]:
    rows = [[c.name, *_shorten_pair(c.first or "-", c.second or "-")] for c in changes]
    return _limit_rows([what, "first", "second"], rows, left={0, 1, 2}, what=f"{what}s")


def _shorten_pair(a: str, b: str) -> tuple[str, str]:
    """Cut long texts to the part where they start to differ."""
    if max(len(a), len(b)) <= WIDTH:
        return a, b
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, start - WIDTH // 3)
    return _window(a, start), _window(b, start)


def _window(value: str, start: int) -> str:
    shown = value[start : start + WIDTH]
    return ("..." if start else "") + shown + ("..." if start + WIDTH < len(value) else "")


def _families_table(families: Sequence[FamilyChange]) -> list[str]:
    rows = [
        [
            f.name,
            ", ".join(f.changes),
            _pair(f.queries, "{:,}".format),
            _pair(f.weight, "{:g}".format),
            *(_optional(v, number) for v in f.rmse),
            _ratio(f),
        ]
        for f in families
    ]
    head = ["family", "changed", "queries", "weight", "rmse, first", "second", "second / first"]
    return _limit_rows(head, rows, left={0, 1}, what="families")


def _nodes_table(nodes: Sequence[NodeChange]) -> list[str]:
    rows = [
        [
            ("block " if n.block else "") + ("*".join(n.attributes) or "(total)"),
            f"{n.nodes:,}",
            *(_optional(v, share_text) for v in n.share),
            _pair(n.gap, gap_text),
            _pair(n.solver, str),
        ]
        for n in nodes
    ]
    head = ["first node", "nodes", "budget, first", "second", "gap", "solver"]
    return _limit_rows(head, rows, left={0, 5}, what="groups of nodes")


def _limit_rows(head: Sequence[str], rows: Sequence[Sequence[str]], left: set[int], what: str) -> list[str]:
    if not rows:
        return []
    more = len(rows) - MANY
    return [*table(head, rows[:MANY], left), *([f"  ... {more:,} more {what}"] if more > 0 else [])]


def _optional(value: Any, show: Any) -> str:
    return "-" if value is None else str(show(value))


def _pair(values: tuple[Any, Any], show: Any) -> str:
    """Format ``first -> second``, or one of them where both look the same."""
    a, b = (_optional(v, show) for v in values)
    return a if a == b else f"{a} -> {b}"
