"""The differences of two plans, as plain data; `qcompile.inspection.diff_text` prints it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from qcompile.grammar.reading.words import name_text, string_text
from qcompile.plan.plan import ClassSummary, Plan
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Label, NumericDomain, Schema, number_text
from qcompile.queries.workload import Family
from qcompile.version import __version__

TOLERANCE = 1e-6
"""Relative differences of errors and shares, and absolute ones of gaps, up to this are rounding."""


@dataclass(frozen=True)
class Change:
    """One difference: both sides as text, None where a plan does not have it."""

    name: str
    first: str | None
    second: str | None


@dataclass(frozen=True)
class TotalChange:
    """A number of the whole plan, of both plans."""

    name: str
    first: float
    second: float

    @property
    def ratio(self) -> float | None:
        """Second over first; None where the first is 0 or one of them is infinite."""
        known = self.first and math.isfinite(self.first) and math.isfinite(self.second)
        return self.second / self.first if known else None


@dataclass(frozen=True)
class FamilyChange:
    """A family that only one plan has, or whose queries, weight or error changed.

    Attributes:
      name: of the family.
      changes: "added", "removed", or the changed parts: "queries", "weight", "error".
      queries: their number, per plan; None where the plan does not have the family, as below.
      weight: per plan.
      rmse: at privacy cost 1, per plan.
    """

    name: str
    changes: tuple[str, ...]
    queries: tuple[int | None, int | None]
    weight: tuple[float | None, float | None]
    rmse: tuple[float | None, float | None]

    @property
    def ratio(self) -> float | None:
        """RMSE of the second plan over that of the first; None where the family is in one plan, or costs nothing."""
        before, after = self.rmse
        return after / before if before and after is not None else None


@dataclass(frozen=True)
class NodeChange:
    """Nodes that belong together in both plans, and are measured differently or by one plan only.

    Attributes:
      attributes: of the first of them.
      block: the families measured unsplit, where it is a block; empty for nodes of the lattice.
      nodes: their number.
      share: of the budget, all of them together, per plan; None where a plan does not measure them, as below.
      solver: the route taken, per plan.
      gap: certified, per plan; infinite where nothing is proven.
    """

    attributes: tuple[str, ...]
    block: tuple[str, ...]
    nodes: int
    share: tuple[float | None, float | None]
    solver: tuple[str | None, str | None]
    gap: tuple[float | None, float | None]


@dataclass(frozen=True)
class PlanDiff:
    """All differences; the order of families is not one.

    Attributes:
      schema: attributes that were added, removed or changed, and their order.
      options: with another value.
      totals: of both plans, whether they differ or not.
      families: that differ, in the order of the first plan, then of the second.
      nodes: that differ, smallest first.
    """

    schema: tuple[Change, ...]
    options: tuple[Change, ...]
    totals: tuple[TotalChange, ...]
    families: tuple[FamilyChange, ...]
    nodes: tuple[NodeChange, ...]

    @property
    def same(self) -> bool:
        """True if nothing differs by more than rounding."""
        return not (self.schema or self.options or self.families or self.nodes or any(map(_has_changed, self.totals)))


def diff(first: Plan, second: Plan) -> PlanDiff:
    """Compare two plans of any two workloads."""
    return PlanDiff(
        schema=tuple(_schema_changes(first.workload.schema, second.workload.schema)),
        options=tuple(_option_changes(first, second)),
        totals=tuple(
            TotalChange(name, a, b) for (name, a), (_, b) in zip(_totals(first), _totals(second), strict=True)
        ),
        families=tuple(_family_changes(first, second)),
        nodes=tuple(_node_changes(first, second)),
    )


# --- what is compared ---


def _schema_changes(first: Schema, second: Schema) -> Iterator[Change]:
    for name in dict.fromkeys((*first.names, *second.names)):
        a, b = (_declaration(s[name]) if name in s else None for s in (first, second))
        if a != b:
            yield Change(name_text(name), a, b)
    order = [", ".join(name_text(n) for n in s.names if n in first and n in second) for s in (first, second)]
    if order[0] != order[1]:
        yield Change("(order)", order[0], order[1])
    origin = ["read from the data" if s.read_from_data else "declared" for s in (first, second)]
    if origin[0] != origin[1]:
        yield Change("(origin)", origin[0], origin[1])


def _declaration(attribute: Attribute) -> str:
    """Return the declaration of an attribute, without its name."""
    other = attribute.policy.other
    policy = "" if attribute.policy.kind == "strict" else f" {attribute.policy.kind}"
    label = "" if other is None else f" {string_text(other)}"
    return _domain(attribute) + (" cyclic" if attribute.cyclic else "") + policy + label


def _domain(attribute: Attribute) -> str:
    match attribute.domain:
        case IntegerDomain(low=low, high=high):
            return f"integer {low}..{high}"
        case NumericDomain(edges=edges, closed=closed):
            return f"numeric [{', '.join(map(number_text, edges))}{']' if closed else ')'}"
        case CategoryDomain(labels=labels):
            return f"category {{{', '.join(map(_label, labels))}}}"


def _label(label: Label) -> str:
    return string_text(label) if isinstance(label, str) else str(label).lower()


def _option_changes(first: Plan, second: Plan) -> Iterator[Change]:
    for name in first.options.__dataclass_fields__:
        a, b = (_option(getattr(p.options, name)) for p in (first, second))
        if a != b:
            yield Change(name, a, b)


def _option(value: object) -> str:
    if isinstance(value, tuple):  # strategies: pairs of an attribute and what was chosen for it
        return ", ".join(f"{name}={chosen}" for name, chosen in value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _totals(plan: Plan) -> Iterator[tuple[str, float]]:
    yield "queries", plan.queries
    yield "views", plan.views
    yield "nodes", plan.closure.first_block
    yield "blocks", len(plan.closure.blocks)
    yield "problems", len(plan.solutions)
    yield "rmse", plan.rmse()
    yield "sse", plan.sse()
    yield "gap", plan.gap


def _has_changed(total: TotalChange) -> bool:
    return _gaps_differ(total.first, total.second) if total.name == "gap" else _differ(total.first, total.second)


def _differ(a: float, b: float) -> bool:
    return not math.isclose(a, b, rel_tol=TOLERANCE)


def _gaps_differ(a: float, b: float) -> bool:
    return a != b and not abs(a - b) <= TOLERANCE  # two infinite ones are equal


def _family_changes(first: Plan, second: Plan) -> Iterator[FamilyChange]:
    before, after = ({f.name: f for f in p.workload.families} for p in (first, second))
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        rmse = _of(lambda f: _family_rmse(first, f), a), _of(lambda f: _family_rmse(second, f), b)
        changes = _changes_of(a, b, rmse)
        if changes:
            yield FamilyChange(name, changes, _pair(lambda f: f.count, a, b), _pair(lambda f: f.weight, a, b), rmse)


Thing = TypeVar("Thing")
Value = TypeVar("Value")


def _of(get: Callable[[Thing], Value], thing: Thing | None) -> Value | None:
    return None if thing is None else get(thing)


def _pair(get: Callable[[Thing], Value], a: Thing | None, b: Thing | None) -> tuple[Value | None, Value | None]:
    return _of(get, a), _of(get, b)


def _changes_of(a: Family | None, b: Family | None, rmse: tuple[float | None, float | None]) -> tuple[str, ...]:
    if a is None or b is None:
        return ("added",) if a is None else ("removed",)
    tests = {
        "queries": (a.factors, a.choose) != (b.factors, b.choose),
        "weight": a.weight != b.weight,
        "error": _differ(rmse[0] or 0.0, rmse[1] or 0.0),
    }
    return tuple(name for name, differs in tests.items() if differs)


def _family_rmse(plan: Plan, family: Family) -> float:
    return math.sqrt(plan.family_errors(family).total / family.count)


NodeKey: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""A node's attributes by name, sorted, and the families of a block."""


def _node_changes(first: Plan, second: Plan) -> Iterator[NodeChange]:
    a, b = _class_of_node(first), _class_of_node(second)
    groups: dict[tuple[int | None, int | None], list[NodeKey]] = {}
    for key in dict.fromkeys((*a, *b)):
        groups.setdefault((a.get(key), b.get(key)), []).append(key)
    for (i, j), keys in sorted(groups.items(), key=lambda g: (len(g[1][0][0]), g[1][0])):
        one = None if i is None else first.classes[i]
        two = None if j is None else second.classes[j]
        if _is_measured_differently(one, two):
            yield _node_change(keys, one, two)


def _class_of_node(plan: Plan) -> dict[NodeKey, int]:
    """Return the class of every measured node."""
    closure = plan.closure
    return {
        _node_key(plan, i): c
        for i, c in enumerate(closure.class_of.tolist())
        if c >= 0  # else: nothing to measure
    }


def _node_key(plan: Plan, position: int) -> NodeKey:
    closure = plan.closure
    block = position - closure.first_block
    families = tuple(sorted(closure.blocks[block])) if block >= 0 else ()
    return tuple(sorted(closure.names(closure.nodes[position]))), families


def _is_measured_differently(a: ClassSummary | None, b: ClassSummary | None) -> bool:
    if a is None or b is None:
        return True
    return a.solver != b.solver or _differ(a.share, b.share) or _gaps_differ(a.gap, b.gap)


def _node_change(keys: Sequence[NodeKey], a: ClassSummary | None, b: ClassSummary | None) -> NodeChange:
    (attributes, block), count = min(keys), len(keys)
    return NodeChange(
        attributes=attributes,
        block=block,
        nodes=count,
        share=_pair(lambda c: c.share * count, a, b),
        solver=_pair(lambda c: c.solver, a, b),
        gap=_pair(lambda c: c.gap, a, b),
    )


# --- as plain data ---


def as_json(changes: PlanDiff) -> dict[str, Any]:
    """Return the differences as plain data: pairs as lists of two, unproven (infinite) gaps as null."""
    return {
        "version": __version__,
        "same": changes.same,
        "schema": [dataclasses.asdict(c) for c in changes.schema],
        "options": [dataclasses.asdict(c) for c in changes.options],
        "totals": {t.name: {"first": _finite(t.first), "second": _finite(t.second)} for t in changes.totals},
        "families": [{**_plain(f), "ratio": f.ratio} for f in changes.families],
        "nodes": [_plain(n) for n in changes.nodes],
    }


def _plain(change: FamilyChange | NodeChange) -> dict[str, Any]:
    fields = dataclasses.asdict(change)
    return {k: [_finite(v) for v in value] if isinstance(value, tuple) else value for k, value in fields.items()}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
