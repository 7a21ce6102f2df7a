"""The rounds of an adaptive run in a release file, and as a table for people."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from qcompile.adaptive.basis import BASES, basis_strategies
from qcompile.adaptive.candidates import candidate_nodes, score_sensitivity, whole_weights
from qcompile.adaptive.spending import GROWTH
from qcompile.adaptive.trace import History, Round, Selection, Step
from qcompile.errors import StorageError
from qcompile.plan import Plan
from qcompile.release.scales import honest, read_fraction, read_scale, scale_data

if TYPE_CHECKING:
    import pyarrow as pa


def history_data(history: History) -> dict[str, Any]:
    """A history as plain data."""
    return {"basis": history.basis, "rounds": [_round_data(r) for r in history.rounds]}


def _round_data(r: Round) -> dict[str, Any]:
    return {
        "marginal": r.marginal,
        "budget": str(r.budget),
        "selection": None if r.selection is None else [r.selection.scale, str(r.selection.cost)],
        "steps": [[s.node, *scale_data(s.scale)] for s in r.steps],
        "skipped": list(r.skipped),
        "grown": r.grown,
    }


def read_history(data: dict[str, Any], plan: Plan, charge: Fraction, noise: str, reference: str) -> History:
    """The inverse of `history_data`; what the file says about privacy is computed anew.

    Args:
      data: from a file, by whoever wrote it.
      plan: what was measured.
      charge: rho that the file states.
      noise: its kind.
      reference: inside the loop.

    Raises:
      StorageError: costs, scales or budgets contradict the charge.
      ValueError: it is no history of this plan.
    """
    if data["basis"] not in BASES:
        raise ValueError("there is no such basis")
    history = History(data["basis"], tuple(_read_round(r) for r in data["rounds"]))
    _check_nodes(history, plan)
    _check_costs(history, plan, charge, noise, reference)
    return history


def _read_round(data: dict[str, Any]) -> Round:
    chosen = data["selection"]
    selection = None if chosen is None else Selection(float(chosen[0]), read_fraction(chosen[1]))
    steps = tuple(Step(_index(node), read_scale(scale)) for node, *scale in data["steps"])
    if type(data["grown"]) is not bool:
        raise ValueError("a round taught something or not")
    skipped = tuple(map(_index, data["skipped"]))
    return Round(_index(data["marginal"]), read_fraction(data["budget"]), selection, steps, skipped, data["grown"])


def _index(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("a node is a number from 0")
    return value


def _check_nodes(history: History, plan: Plan) -> None:
    """Every node that a history names must be one of the closure that can be measured."""
    named = {i for r in history.rounds for i in (r.marginal, *r.skipped, *(s.node for s in r.steps))}
    first, class_of = plan.closure.first_block, plan.closure.class_of
    if plan.closure.blocks or not all(i < first and class_of[i] >= 0 for i in named):
        raise ValueError("the rounds do not fit the plan")


def _check_costs(history: History, plan: Plan, charge: Fraction, noise: str, reference: str) -> None:
    strategies = basis_strategies(plan, history.basis)
    expected = [plan.unit.sensitivity_squared(s) for s in strategies]
    weights = whole_weights(plan, candidate_nodes(plan), reference != "none")
    score = score_sensitivity(plan, weights)
    fair = all(honest(s.scale, expected[int(plan.closure.class_of[s.node])], noise) for s in history.steps)
    chosen = [r.selection for r in history.rounds if r.selection is not None]
    fair &= all(0 < s.scale < math.inf and s == Selection.of(score, s.scale) for s in chosen)
    fair &= all(r.cost <= r.budget for r in history.rounds)
    if not fair or sum((r.budget for r in history.rounds), Fraction(0)) != charge:
        raise StorageError(
            "the rounds of the release contradict its charge; its standard errors and its privacy cannot both be as "
            "stated: measure again"
        )


def rounds_table(history: History, plan: Plan) -> pa.Table:
    """The rounds as a table.

    Columns: round (from 1), marginal (chosen), rho (its budget), selection_rho (what choosing cost; null where nothing
    was chosen), measured (nodes), sigma (the smallest noise scale of them), known (nodes that needed nothing more),
    next (``"4x"`` where so little was learnt that the next rounds got more budget).

    Args:
      history: of an adaptive run.
      plan: gives the nodes their names.
    """
    import pyarrow as pa

    def name(node: int) -> str:
        return "*".join(plan.closure.names(plan.closure.nodes[node])) or "(total)"

    rounds = history.rounds
    columns: dict[str, tuple[str, list[Any]]] = {
        "round": ("int64", list(range(1, len(rounds) + 1))),
        "marginal": ("string", [name(r.marginal) for r in rounds]),
        "rho": ("float64", [float(r.budget) for r in rounds]),
        "selection_rho": ("float64", [float(r.selection.cost) if r.selection else None for r in rounds]),
        "measured": ("string", [", ".join(name(s.node) for s in r.steps) for r in rounds]),
        "sigma": ("float64", [min(s.scale.sigma for s in r.steps) for r in rounds]),
        "known": ("int64", [len(r.skipped) for r in rounds]),
        "next": ("string", [f"{GROWTH}x" if r.grown else "" for r in rounds]),
    }
    return pa.table({k: pa.array(values, pa.type_for_alias(kind)) for k, (kind, values) in columns.items()})
