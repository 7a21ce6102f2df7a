"""The adaptive loop: what is charged is what is drawn, and what is drawn is what was needed."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from qcompile.adaptive import conditional_planner as crp
from qcompile.adaptive.aim import Settings, adapt
from qcompile.adaptive.candidates import Candidates, candidate_nodes, overlap_weights, score_sensitivity, whole_weights
from qcompile.adaptive.objective import Objective
from qcompile.api import Plan, compile
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.errors import InternalError
from qcompile.estimates.references import REFERENCES, References
from qcompile.privacy.noise.scale import Scale, measurement_scale
from qcompile.queries.factors import Prefix
from qcompile.strategy.variances import node_variances
from qcompile.support.arrays import Array, IntArray
from tests.conformance.cases import WORKLOADS, Case
from tests.conformance.helpers import family, integers, workload
from tests.unit.adaptive.worlds import Instrument, adapted, counts_of, error, exact_marginal, full_table, marginals

CHARGES = [Fraction(1, 7), Fraction(10**30 + 1, 3**66), Fraction(0.1), Fraction(10**6)]


@pytest.mark.parametrize("charge", CHARGES, ids=str)
@pytest.mark.parametrize("rounds", [1, 2, 5, 60])
@pytest.mark.parametrize("reference", ["none", "auto"])
def test_the_cost_of_every_draw_is_within_the_charge(charge: Fraction, rounds: int, reference: str) -> None:
    """By the account of an instrumented source: norms of the matrices that were used, scales that were used."""
    plan, chance = marginals(3, 4, 2), Instrument()
    history, _ = adapted(plan, charge, chance, reference=reference, rounds=rounds)
    assert sum(r.budget for r in history.rounds) == charge
    assert history.cost <= charge
    assert history.cost >= charge * (1 - Fraction(1, 10**9))
    assert abs(chance.cost / history.cost - 1) < Fraction(1, 10**9)
    assert all(r.cost <= r.budget for r in history.rounds)


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [999, 1000])
def test_a_thousand_rounds_add_up_too(rounds: int) -> None:
    charge, chance = Fraction(10**40 + 7, 3**80), Instrument()
    history, _ = adapted(marginals(3, 4, 2), charge, chance, rounds=rounds, reference="none")
    assert sum(r.budget for r in history.rounds) == charge
    assert history.cost <= charge


def test_everything_drawn_is_recorded_and_everything_recorded_is_drawn() -> None:
    plan, chance = marginals(3, 4, 2), Instrument()
    history, _ = adapted(plan, Fraction(1, 3), chance)
    drawn = [(scale.sigma, scale.grid, scale.cost) for _, scale, _ in chance.drawn]
    assert drawn == [(s.scale.sigma, s.scale.grid, s.scale.cost) for s in history.steps]
    assert [s for _, s, _ in chance.selected] == [r.selection.scale for r in history.rounds if r.selection]
    labels = [label for *_, label in chance.drawn] + [label for *_, label in chance.selected]
    assert len(set(labels)) == len(labels)  # a seeded source gives every draw its own stream


@pytest.mark.parametrize("name", [n for n in WORKLOADS if n not in ("total", "size one only")])
@pytest.mark.parametrize("basis", ["compiled", "residual"])
def test_any_workload_is_adapted_to(name: str, basis: str) -> None:
    """Without noise every marginal that is of full rank and was measured comes out exactly."""
    plan = Case(name, "auto").plan()
    counts = counts_of(plan)
    history, estimates = adapted(plan, Fraction(10), Instrument(quiet=True), counts, basis=basis, reference="none")
    assert history.cost <= 10
    held = set(estimates.measured)
    for i in range(plan.closure.first_block):
        below = [j for j, n in enumerate(plan.closure.nodes) if set(n) <= set(plan.closure.nodes[i])]
        full = all(
            estimates.strategies[int(plan.closure.class_of[j])].rank
            == math.prod(n - 1 for n in plan.closure.shape(plan.closure.nodes[j]))
            for j in below
            if plan.closure.class_of[j] >= 0
        )
        if full and held.issuperset(below):
            np.testing.assert_allclose(estimates.marginal(i), exact_marginal(plan, counts, i), atol=1e-6)
    assert len(held) > 1


@pytest.mark.parametrize(("neighbours", "contributions"), [("add-remove", 3), ("replace-one", 1), ("replace-one", 2)])
def test_other_privacy_units_are_paid_for(neighbours: str, contributions: int) -> None:
    """Scores move by one per row; a public total is measured first, without noise and without a budget."""
    plan = marginals(3, 4, 2, neighbours=neighbours, contributions=contributions)
    history, estimates = adapted(plan, Fraction(1, 2), Instrument())
    assert sum(r.budget for r in history.rounds) == Fraction(1, 2)
    for step in history.steps:
        c = int(plan.closure.class_of[step.node])
        assert step.scale.cost * Fraction(step.scale.sigma) ** 2 == plan.unit.sensitivity_squared(plan.strategies[c])
    if plan.unit.public_total:
        assert history.rounds[0].marginal == 0
        assert history.rounds[0].budget == 0
        assert float(estimates.value(0)[0]) == counts_of(plan).total


@pytest.mark.parametrize("inherited", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 11.0, 80.0])
@pytest.mark.parametrize(("neighbours", "rows"), [("add-remove", 1), ("add-remove", 2), ("replace-one", 1)])
def test_scores_move_by_no_more_than_their_sensitivity(
    neighbours: str, rows: int, penalty: float, inherited: bool
) -> None:
    """Over all neighbours of a small table, and attained: the sensitivity is not larger than needed, either.

    Pairs are looked at by cells and by blocks; the penalties decide which of them counts.
    """
    attributes = integers(2, 5, 2)
    factors = [Prefix(a) for a in attributes]
    w = workload(attributes, family(*factors, choose=(2, 2), name="all"))
    plan = compile(w, neighbours=neighbours, contributions=rows)
    objective = Objective(plan, plan.strategies)
    unit = [plan.unit.sensitivity_squared(s) for s in plan.strategies]
    levels = {i: objective.levels(i, unit, shrunk=True) for i in candidate_nodes(plan)}
    assert {len(v) for v in levels.values()} == {1, 2}
    table = full_table(plan, 200)[plan.workload.schema.names]
    estimates = {i: np.full(plan.closure.shape(plan.closure.nodes[i]), 7.3) for i in candidate_nodes(plan)}

    def scores(x: IntArray) -> IntArray:
        counts = GivenCounts.of({plan.workload.schema.names: x}, plan.workload.schema)
        candidates = Candidates(plan, counts, inherited)
        for i, m in estimates.items():
            candidates.note(i, candidates.distances(i, m, levels[i]))
        return candidates.scores({i: [penalty, 11.0][: len(v)] for i, v in levels.items()})

    base = scores(table)
    one = np.eye(table.size, dtype=np.int64).reshape(table.size, *table.shape)
    changes = [rows * e for e in one] if neighbours == "add-remove" else [rows * (e - f) for e in one for f in one]
    moved = max(int(np.abs(scores(table + c) - base).max()) for c in changes if (table + c).min() >= 0)
    bound = score_sensitivity(plan, whole_weights(plan, candidate_nodes(plan), inherited))
    assert 0 < moved <= bound
    assert moved >= bound / 2


def test_weights_are_aims() -> None:
    """``w_r`` is the sum over the workload's marginals s of |r & s|."""
    plan = marginals(2, 3, 2, 4, ways=2)
    nodes = candidate_nodes(plan)
    views = [set(v) for v in plan.workload.views]
    expected = [sum(len(set(plan.closure.names(plan.closure.nodes[i])) & v) for v in views) for i in nodes]
    np.testing.assert_allclose(overlap_weights(plan, nodes), expected)


def test_a_marginal_that_is_a_view_counts_its_families_queries() -> None:
    """Prefixes weigh the coarse parts more than cells do."""
    a, b = integers(8, 4)
    plan = compile(workload([a, b], family(Prefix(a), Prefix(b))))
    losses = Objective(plan, plan.strategies).losses(plan.closure.index[0, 1])
    found = dict(zip(plan.closure.nodes, (losses[i] for i in range(4)), strict=True))
    sums = {i: float(p.sum()) for i, p in enumerate(_variances(plan))}
    np.testing.assert_allclose([found[n] for n in plan.closure.nodes], [sums[i] for i in range(4)], rtol=1e-9)


def _variances(plan: Plan) -> list[Array]:
    """Per node, the variances of all queries with unit noise on that node alone."""
    product = next(plan.workload.families[0].products())

    def only(node: int) -> Array:
        return node_variances(plan.closure, plan.strategies, lambda i: float(i == node), product)

    return [only(i) for i in range(4)]


def test_cells_of_the_residual_basis_are_as_noisy_as_gaussian_noise_on_the_marginal() -> None:
    plan = marginals(3, 4, 2, ways=3, least=1)
    objective = Objective(plan, plan.strategies)
    unit = [plan.unit.sensitivity_squared(s) for s in plan.strategies]
    for i in candidate_nodes(plan):
        [level] = objective.levels(i, unit, shrunk=True)
        assert level.spread == pytest.approx(1)
        assert level.shrunk


def test_noise_goes_where_it_is_not_known_yet() -> None:
    """A node that an earlier round measured well is skipped, and its budget goes to the others."""
    plan, chance = marginals(6, 5, 4, ways=2), Instrument()
    history, _ = adapted(plan, Fraction(2), chance, reference="none", rounds=12)
    later = [r for r in history.rounds if r.selection is not None]
    assert any(r.skipped for r in later)
    assert all(r.cost >= r.budget * (1 - Fraction(1, 10**9)) for r in later)
    assert all(r.steps for r in later)


def test_rounds_grow_only_where_they_taught_nothing() -> None:
    plan = marginals(3, 4, 2)
    history, _ = adapted(plan, Fraction(1, 10**6), Instrument(), reference="none")
    growing = [r for r in history.rounds if r.grown]
    budgets = [r.budget for r in history.rounds if r.selection]
    assert growing
    assert budgets[1] == 4 * budgets[0] or not history.rounds[3].grown
    assert not history.rounds[-1].grown


def skewed(shape: tuple[int, ...], rows: int = 3000) -> IntArray:
    """Attributes with few frequent values, nearly independent."""
    stream = np.random.default_rng(1)
    whole: Array = np.ones(())
    for n in shape:
        whole = np.multiply.outer(whole, stream.dirichlet(np.full(n, 0.3)))
    whole = whole * stream.gamma(2, 0.5, size=shape)
    return np.asarray(stream.multinomial(rows, (whole / whole.sum()).ravel()).reshape(shape))


@pytest.mark.parametrize("reference", [r for r in REFERENCES if r != "none"])
def test_references_help_on_a_skewed_table(reference: str) -> None:
    """Averages over seeds at a small budget; plain GReM is the baseline."""
    plan = marginals(6, 5, 4, 7, 3, ways=3)
    counts = GivenCounts.of({plan.workload.schema.names: skewed((6, 5, 4, 7, 3))}, plan.workload.schema)
    plain, helped = [], []
    for seed in range(3):
        _, estimates = adapted(plan, Fraction(1, 50), Instrument(seed), counts, reference="none")
        plain.append(error(plan, counts, estimates.marginal))
        _, estimates = adapted(plan, Fraction(1, 50), Instrument(seed), counts, reference=reference)
        helped.append(error(plan, counts, References(estimates, reference).estimate))
    assert np.mean(helped) < 0.8 * np.mean(plain)


def test_selection_prefers_what_is_wrong() -> None:
    """One pair is far from independent; it is chosen before any other."""
    plan = marginals(4, 4, 4, ways=2)
    x = np.zeros((4, 4, 4), dtype=np.int64)
    x[range(4), range(4)] = 250
    counts = GivenCounts.of({plan.workload.schema.names: x}, plan.workload.schema)
    history, _ = adapted(plan, Fraction(1, 2), Instrument(), counts)
    chosen = [r.marginal for r in history.rounds if r.selection is not None]
    assert plan.closure.nodes[chosen[0]] == (0, 1)


def test_the_allocator_can_be_the_conic_one_or_iid_noise() -> None:
    """What the loop asks of an allocator is only what it is told."""
    plan, asked = marginals(3, 4, 2), list[tuple[Array, Array, Array, float]]()

    def watched(prior: Array, cost: Array, loss: Array, budget: float) -> Array:
        asked.append((prior, cost, loss, budget))
        return crp.allocate(prior, cost, loss, budget)

    history, _ = adapted(plan, Fraction(1, 3), Instrument(), allocate=watched)
    assert len(asked) == len(history.rounds)
    assert all((cost > 0).all() and (loss > 0).all() for _, cost, loss, _ in asked)
    for r, (*_, budget) in zip(history.rounds, asked, strict=True):
        assert budget == pytest.approx(2 * float(r.budget) * (0.9 if r.selection else 1))


def test_an_allocator_that_spends_more_is_stopped_before_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of a draw is recomputed from its own noise scale."""

    def cheaper(beta: Fraction, sensitivity: Fraction) -> Scale:
        scale = measurement_scale(beta, sensitivity)
        return replace(scale, sigma=scale.sigma / 2, cost=scale.cost * 4)

    monkeypatch.setattr("qcompile.adaptive.aim.measurement_scale", cheaper)
    plan, chance = marginals(3, 4, 2), Instrument()
    with pytest.raises(InternalError, match="its share"):
        adapt(plan, counts_of(plan), Fraction(1), plan.strategies, chance, Settings())
    assert not chance.drawn


def test_progress_ends_at_the_whole_budget() -> None:
    plan, seen = marginals(3, 4, 2), list[tuple[int, int]]()
    settings = Settings(reference="none")
    adapt(plan, counts_of(plan), Fraction(1), plan.strategies, Instrument(), settings, lambda d, t: seen.append((d, t)))
    assert seen[-1] == (1000, 1000)
    assert [d for d, _ in seen] == sorted(d for d, _ in seen)
