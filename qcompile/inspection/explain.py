"""The plan as text and as tables. Numbers are attributes of the plan first; equal plans print equal bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from qcompile.compiler.unrestricted import unrestricted
from qcompile.lattice.projection import is_uniform
from qcompile.plan.plan import ClassSummary, Plan
from qcompile.plan.standing import family_share, family_targets, gap_of, value_of
from qcompile.strategy.oblique import ObliqueStrategy
from qcompile.support.text import MANY, excess_text, gap_text, number, plural, printable, share_text, table
from qcompile.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa

    from qcompile.privacy.budget import Budget


def explain(plan: Plan) -> str:
    """Describe a plan: workload, measurements and predicted errors."""
    targets = ["", *target_lines(plan)] if plan.solved is not None else []
    return "\n".join([*_head(plan), "", *_classes(plan), "", *_families(plan), *targets]) + "\n"


def _head(plan: Plan) -> list[str]:
    o, closure = plan.options, plan.closure
    measured = int((closure.class_of >= 0).sum())
    return [
        f"plan of qcompile {plan.version}",
        f"  workload     {workload_text(plan)}",
        f"  lattice      {plural(closure.first_block, 'node')}, {plural(len(closure.blocks), 'block')}, "
        f"{measured:,} measured, {plural(len(plan.solutions), 'problem')}",
        f"  solver       {o.solver}, tolerance {o.gap:g}",
        f"  design       {design_text(plan)}",
        f"  privacy      neighbouring tables differ in {privacy_text(plan)}",
        f"  error        rmse {number(plan.rmse())} at privacy cost 1 (rho 1/2); it scales as 1/sqrt(cost)",
        *([f"  objective    {objective_text(plan)}"] if plan.solved is not None else []),
        f"  certificate  {certificate_text(plan)}",
        f"  unrestricted {_unrestricted_text(plan)}",
    ]


def workload_text(plan: Plan) -> str:
    """Return the numbers of queries, families, views and attributes."""
    workload = plan.workload
    families = plural(len(workload.families), "family", "families")
    return (
        f"{plural(plan.queries, 'query', 'queries')} in {families}, {plural(plan.views, 'view')}, "
        f"{plural(len(workload.schema), 'attribute')}"
    )


def privacy_text(plan: Plan) -> str:
    """Describe the neighbouring tables, the facts that are public, and the limits of the guarantee."""
    public = "; the number of rows is public and released exactly" if plan.unit.public_total else ""
    drafted = "; the schema was READ FROM THE DATA" if plan.workload.schema.read_from_data else ""
    return f"{plan.unit}{public}{drafted}"


def _classes(plan: Plan) -> list[str]:
    rows = [
        [
            f"c{i}",
            ("block " if c.block else "") + ("*".join(c.attributes) or "(total)"),
            f"{c.members:,}",
            f"{c.cells:,}",
            f"{c.rank:,}",
            number(c.loss),
            gap_text(c.gap),
            share_text(c.share * c.members),
            c.solver,
        ]
        for i, c in enumerate(plan.classes)
    ]
    head = ["id", "first node", "nodes", "cells", "rank", "loss", "gap", "budget", "solver"]
    return [*table(head, rows, left={0, 1, 8}), *_refusals(plan.classes), *_blocks(plan)]


def _blocks(plan: Plan) -> list[str]:
    """List the families that each block answers."""
    names = [printable(", ".join(block)) for block in plan.closure.blocks[:MANY]]
    left = len(plan.closure.blocks) - MANY
    lines = [f"  block {i} answers {text}" for i, text in enumerate(names, start=1)]
    return [*lines, *([f"  ... {left:,} more blocks"] if left > 0 else [])]


def _refusals(classes: Sequence[ClassSummary]) -> list[str]:
    """Explain why other solvers were not used: a line per solver and reason, with its classes."""
    classes_of: dict[tuple[str, str], list[int]] = {}
    for i, c in enumerate(classes):
        for refusal in c.refused:
            classes_of.setdefault(refusal, []).append(i)
    lines = [
        printable(f"  {route} not used for {_ranges(ids)}: {reason}") for (route, reason), ids in classes_of.items()
    ]
    return lines if len(lines) <= MANY else [*lines[:MANY], f"  ... {len(lines) - MANY} more"]


def _ranges(classes: Sequence[int]) -> str:
    """Format class ids, runs as ``c3..c7``."""
    runs: list[list[int]] = []
    for c in classes:
        if runs and runs[-1][-1] == c - 1:
            runs[-1].append(c)
        else:
            runs.append([c])
    return ", ".join(f"c{r[0]}" if len(r) == 1 else f"c{r[0]}..c{r[-1]}" for r in runs)


def _families(plan: Plan) -> list[str]:
    rows = []
    for f in plan.workload.families[:MANY]:
        e = plan.family_errors(f)
        rows.append(
            [
                f.name,
                f"{f.count:,}",
                f"{f.weight:g}",
                number(math.sqrt(e.total / f.count)),
                ("" if e.exact else "<= ") + number(math.sqrt(e.largest)),
                share_text(family_share(plan, f)),
                f.text,
            ]
        )
    head = ["family", "queries", "weight", "rmse", "max_std_error", "share", "text"]
    left = len(plan.workload.families) - MANY
    return [*table(head, rows, left={0, 6}), *([f"  ... {left:,} more families"] if left > 0 else [])]


def summary(plan: Plan, budget: Budget, accounting: str = "zcdp") -> pa.Table:
    """Return per family at a budget: queries, rmse, max_std_error and its share of the total weighted squared error.

    ``max_std_error`` is attained for families of up to 2^24 queries a view and an upper bound beyond.
    """
    import pyarrow as pa

    cost = float(2 * budget.charge(accounting))
    errors = [(f, plan.family_errors(f)) for f in plan.workload.families]
    return pa.table(
        {
            "family": [f.name for f, _ in errors],
            "queries": [f.count for f, _ in errors],
            "rmse": [math.sqrt(e.total / f.count / cost) for f, e in errors],
            "max_std_error": [math.sqrt(e.largest / cost) for _, e in errors],
            "share": [family_share(plan, f) for f, _ in errors],
        }
    )


def as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan's numbers as plain data, for ``inspect --json``."""
    return {
        "version": __version__,
        "read_from_data": plan.workload.schema.read_from_data,
        "schema": [{"name": a.name, "size": a.size, "policy": a.policy.kind} for a in plan.workload.schema],
        "queries": plan.queries,
        "views": plan.views,
        "nodes": plan.closure.first_block,
        "blocks": [list(names) for names in plan.closure.blocks],
        "plain_sse": _plain_sse(plan),
        "classes": [class_json(c) for c in plan.classes],
        "families": [_family_json(plan, f.name) for f in plan.workload.families],
        "sse": plan.sse(),
        "rmse": plan.rmse(),
        "gap": plan.gap,
        "unrestricted": _unrestricted_json(plan),
        **({"objective": _objective_json(plan)} if plan.solved is not None else {}),
        "options": {k: getattr(plan.options, k) for k in plan.options.__dataclass_fields__},
    }


def _plain_sse(plan: Plan) -> float | None:
    """Return the plan's ``plain_sse``, for the rows that a column of counts makes of the rows of the data."""
    if plan.plain_sse is None or plan.counted is None:
        return plan.plain_sse
    return plan.plain_sse * plan.sse() / replace(plan, counted=None).sse()


def class_json(c: ClassSummary) -> dict[str, Any]:
    """Return one class as plain data; an unproven (infinite) gap becomes null."""
    numbers = {k: getattr(c, k) for k in c.__dataclass_fields__}
    numbers["attributes"] = list(c.attributes)
    numbers["refused"] = dict(c.refused)
    numbers["gap"] = c.gap if math.isfinite(c.gap) else None
    return numbers


def _family_json(plan: Plan, name: str) -> dict[str, Any]:
    f = plan.workload.family(name)
    e = plan.family_errors(f)
    return {
        "name": f.name,
        "text": f.text,
        "weight": f.weight,
        "queries": f.count,
        "rmse": math.sqrt(e.total / f.count),
        "max_std_error": math.sqrt(e.largest),
    }


def _objective_json(plan: Plan) -> dict[str, Any]:
    """Return what the plan minimises, its proven bound, and how each family stands."""
    assert plan.solved is not None
    numbers = {"name": plan.options.objective, "value": value_of(plan), "bound": plan.solved.bound}
    return {
        **numbers,
        "gap": gap_of(plan) if math.isfinite(gap_of(plan)) else None,
        "families": [asdict(t) for t in family_targets(plan)],
    }


def objective_text(plan: Plan) -> str:
    """State what a plan minimises, its value, and its certified distance from the optimum of its kind."""
    gap = gap_of(plan)
    near = f"{_within(gap)} the least of this {_kind(plan)}" if math.isfinite(gap) else "no lower bound is known"
    if plan.options.objective == "max":
        weighted = "weighted " if any(f.weight != 1 for f in plan.workload.families) else ""
        return f"largest {weighted}variance of a query {number(value_of(plan))} at privacy cost 1, {near}"
    return f"every target is met at privacy cost {number(value_of(plan))} (rho {number(value_of(plan) / 2)}), {near}"


def target_lines(plan: Plan) -> list[str]:
    """Return a table: per family the target, the error at the budget that meets all of them, and slack."""
    targets = family_targets(plan)
    rows = [
        [
            t.family,
            str(plan.workload.family(t.family).target or "") if t.allowed is not None else "",
            "every query" if t.largest else "rmse",
            "" if t.allowed is None else number(t.allowed),
            number(t.std_error),
            "slack" if t.slack else "",
        ]
        for t in targets[:MANY]
    ]
    left = len(targets) - MANY
    head = ["family", "target", "of", "allowed", "std_error", ""]
    return [*table(head, rows, left={0, 1, 2, 5}), *([f"  ... {left:,} more families"] if left > 0 else [])]


def dot(plan: Plan) -> str:
    """Return the lattice in Graphviz's language, a box per node with its solver and share of the budget."""
    lines = ["digraph lattice {", '  rankdir="BT"; node [shape=box, fontname="sans-serif"];']
    graph = plan.lattice
    for node, data in graph.nodes(data=True):
        text = f"{', '.join(node) or 'total'}\n{plural(data['cells'], 'cell')}, rank {data['rank']}\n{data['solver']}"
        label = _escape(f"{text}\n{share_text(data['share'])} of budget")
        lines.append(f"  {_dot_name(node)} [label={label}];")
    lines += [f"  {_dot_name(a)} -> {_dot_name(b)};" for a, b in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _dot_name(node: tuple[str, ...]) -> str:
    return _escape(" * ".join(node))


def _escape(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def certificate_text(plan: Plan) -> str:
    """State the certified distance of the plan from the optimum of its kind."""
    unproven = sum(not math.isfinite(s.gap) for s in plan.solutions)
    if unproven:
        return f"none: no lower bound is known for {unproven} of {len(plan.solutions)} problems"
    unit = "" if plan.options.neighbours == "add-remove" else ", when rows are replaced"
    weighted = "" if plan.solved is None else ", with the weights that the objective found,"
    return f"total squared error{weighted} {_within(plan.gap)} the optimum of this {_kind(plan)}{unit}"


def _kind(plan: Plan) -> str:
    """Name the kind of plans that the certificate covers: other centring weights or blocks may have another optimum."""
    weighted = any(not is_uniform(u) for u in plan.closure.centring)
    text = "decomposition" if plan.closure.first_block else "set of blocks"
    text += " and these blocks" if plan.closure.blocks and plan.closure.first_block else ""
    text += " and these oblique nodes" if oblique_count(plan) else ""
    return text + (" with these centring weights" if weighted else "")


def oblique_count(plan: Plan) -> int:
    """Return the number of nodes that measure some of the nodes below them, too."""
    pairs = zip(plan.closure.members.tolist(), plan.strategies, strict=True)
    return sum(members for members, strategy in pairs if isinstance(strategy, ObliqueStrategy))


def design_text(plan: Plan) -> str:
    """Describe centring, blocks and oblique nodes, and the error they save over the plain decomposition."""
    blocks = len(plan.closure.blocks)
    weighted = any(not is_uniform(u) for u in plan.closure.centring)
    parts = [f"{'weighted' if weighted else 'uniform'} centring", plural(blocks, "block") if blocks else "no blocks"]
    if oblique := oblique_count(plan):
        parts.append(plural(oblique, "oblique node"))
    text = ", ".join(parts)
    if plan.plain_sse is None:
        return text
    saved = 1 - value_of(replace(plan, counted=None)) / plan.plain_sse
    if saved < 1e-7:
        return f"{text}: no better design than the plain decomposition was found"
    what = {"total": "total squared error", "max": "largest variance", "targets": "budget"}[plan.options.objective]
    return f"{text}: {what} {excess_text(saved)} below the plain decomposition"


def _unrestricted_json(plan: Plan) -> dict[str, Any]:
    """Return the bound of any matrix mechanism's error in the units of ``sse``, and the relative excess of the plan."""
    if plan.solved is not None:
        return {"bound": None, "excess": None, "method": "it is computed for the total error only"}
    if plan.options.neighbours != "add-remove":
        return {"bound": None, "excess": None, "method": "it is computed for rows added or removed only"}
    bounds = unrestricted(plan.workload)
    least, rows = bounds.loss_lower_bound, plan.unit.largest
    bound = None if least is None else least * rows**2
    return {"bound": bound, "excess": bounds.excess(plan.sse() / rows**2), "method": bounds.method}


def _unrestricted_text(plan: Plan) -> str:
    numbers = _unrestricted_json(plan)
    if numbers["excess"] is None:
        return f"distance from the best of any matrix mechanism not known: {numbers['method']}"
    return f"total squared error {_within(numbers['excess'])} the best of any matrix mechanism ({numbers['method']})"


def _within(excess: float) -> str:
    return f"within {gap_text(excess).removeprefix('<')} of" if excess < 1 else f"at most {1 + excess:.3g} times"
