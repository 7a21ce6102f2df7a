"""The rounds of an adaptive run in a release file, and as a table for people."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from qcompile.adaptive.candidates import candidate_nodes, score_sensitivity, whole_weights
from qcompile.adaptive.history import History, Round, SelectionStep, Step
from qcompile.adaptive.spending import GROWTH, Spending
from qcompile.errors import StorageError
from qcompile.lattice.lattice import subsets
from qcompile.plan.basis import BASES, basis_strategies, require_single_nodes
from qcompile.plan.plan import Plan
from qcompile.release.scales import SLACK, read_fraction, scale_data, scale_matches_cost, scale_of
from qcompile.support.json_fields import Field

if TYPE_CHECKING:
    import pyarrow as pa


def history_data(history: History) -> dict[str, Any]:
    """A history as plain data."""
    return {"basis": history.basis, "rounds": [round_data(r) for r in history.rounds]}


def round_data(r: Round) -> dict[str, Any]:
    """A round as plain data."""
    return {
        "marginal": r.marginal,
        "budget": str(r.budget),
        "selection": None if r.selection is None else [r.selection.scale, str(r.selection.cost)],
        "steps": [[s.node, *scale_data(s.scale)] for s in r.steps],
        "skipped": list(r.skipped),
        "grown": r.grown,
    }


def read_history(
    data: Field, plan: Plan, charge: Fraction, noise: str, reference: str, *, whole: bool = True
) -> History:
    """The inverse of `history_data`; the file's statements about privacy are recomputed.

    Args:
      data: from a file, by whoever wrote it.
      plan: what was measured.
      charge: rho that the file states.
      noise: its kind.
      reference: inside the loop.
      whole: that all of the charge must be spent; an interrupted run may have spent a part of it.

    Raises:
      StorageError: it is no history of this plan, or costs, scales or budgets contradict the charge.
    """
    field = data.read_object("basis", "rounds")
    basis = field["basis"].read_choice(BASES)
    history = History(basis, tuple(_read_round(r) for r in field["rounds"].read_list(least=int(whole))))
    _check_nodes(data, history, plan)
    data.build(lambda: require_single_nodes(plan))
    data.build(lambda: _check_costs(history, plan, charge, noise, reference, whole))
    return history


def _read_round(data: Field) -> Round:
    field = data.read_object("marginal", "budget", "selection", "steps", "skipped", "grown")
    steps = tuple(_read_step(step) for step in field["steps"].read_list(least=1))
    return Round(
        _read_node(field["marginal"]),
        read_fraction(field["budget"]),
        field["selection"].read_optional(_read_selection),
        steps,
        tuple(map(_read_node, field["skipped"].read_list())),
        field["grown"].read_bool(),
    )


def _read_selection(data: Field) -> SelectionStep:
    scale, cost = data.read_tuple(2)
    return SelectionStep(float(scale.read_number(above=0)), read_fraction(cost))


def _read_step(data: Field) -> Step:
    node, *scale = data.read_tuple(4)
    return Step(_read_node(node), scale_of(*scale))


def _read_node(data: Field) -> int:
    return data.read_integer(0)


def _check_nodes(data: Field, history: History, plan: Plan) -> None:
    """Every node that a history names must be one of the closure that can be measured."""
    named = {i for r in history.rounds for i in (r.marginal, *r.skipped, *(s.node for s in r.steps))}
    first, class_of = plan.closure.first_block, plan.closure.class_of
    if plan.closure.blocks or not all(i < first and class_of[i] >= 0 for i in named):
        data.refuse("rounds on nodes of the plan")


def _check_costs(history: History, plan: Plan, charge: Fraction, noise: str, reference: str, whole: bool) -> None:
    """Recompute all costs from the strategies, and divide the budget again as a run does."""
    strategies = basis_strategies(plan, history.basis)
    expected = [plan.unit.sensitivity_squared(s) for s in strategies]
    weights = whole_weights(plan, candidate_nodes(plan), reference != "none")
    score = score_sensitivity(plan, weights)
    fair = all(scale_matches_cost(s.scale, expected[int(plan.closure.class_of[s.node])], noise) for s in history.steps)
    chosen = [r.selection for r in history.rounds if r.selection is not None]
    fair = fair and all(0 < s.scale < math.inf and s == SelectionStep.of(score, s.scale) for s in chosen)
    if not (fair and _replayed(history, plan, charge, whole)):
        raise StorageError(
            "the rounds of the release contradict its charge; its standard errors and its privacy cannot both be as "
            "stated: measure again"
        )


def _replayed(history: History, plan: Plan, charge: Fraction, whole: bool) -> bool:
    """True if a run of this charge can have these rounds: public nodes, single attributes, then selections."""
    rest = list(history.rounds)
    while rest and rest[0].budget == 0:
        public = rest.pop(0)
        if public.selection is not None or public.cost or len(public.steps) != 1:
            return False
    spending = Spending(charge, plan.closure.first_block)
    for node in candidate_nodes(plan):
        if len(plan.closure.nodes[node]) == 1:
            share = spending.initial()
            if not rest:
                return not whole
            if rest[0].selection is not None or not _fits(rest.pop(0), plan, share, Fraction(0)):
                return False
    for r in rest:
        if r.selection is None or not spending.left:
            return False
        part = spending.next_round()
        if not _fits(r, plan, part.measurement, part.selection) or (part.last and r.grown):
            return False
        if r.grown:
            spending.grow()
    return not (whole and spending.left)


def _fits(r: Round, plan: Plan, measurement: Fraction, selection: Fraction) -> bool:
    """True if a round spent its shares, up to rounding, on different nodes below its marginal."""
    nodes = [s.node for s in r.steps] + list(r.skipped)
    below = {plan.closure.index[s] for s in subsets(plan.closure.nodes[r.marginal])}
    chosen = r.selection.cost if r.selection else Fraction(0)
    spent = [(measurement, r.cost - chosen), (selection, chosen)]
    return (
        len(nodes) == len(set(nodes))
        and below.issuperset(nodes)
        and r.budget == measurement + selection
        and all((1 - SLACK) * float(share) <= float(cost) and cost <= share for share, cost in spent)
    )


def rounds_table(history: History, plan: Plan) -> pa.Table:
    """The rounds as a table.

    Columns: round (from 1), marginal (chosen), rho (its budget), selection_rho (what choosing cost; null where nothing
    was chosen), measured (nodes), least_sigma (the smallest noise scale of them, in counts), skipped (how many nodes
    below it needed nothing more), next (``"4x"`` where so little was learnt that the next rounds got more budget).

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
        "least_sigma": ("float64", [plan.unit.step * min(s.scale.sigma for s in r.steps) for r in rounds]),
        "skipped": ("int64", [len(r.skipped) for r in rounds]),
        "next": ("string", [f"{GROWTH}x" if r.grown else "" for r in rounds]),
    }
    return pa.table({k: pa.array(values, pa.type_for_alias(kind)) for k, (kind, values) in columns.items()})
