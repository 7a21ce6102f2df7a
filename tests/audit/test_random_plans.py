"""Hundreds of random plans: what they cost, what a run of them draws, and what is written to the ledger.

A failure prints its design; `random_design` with that seed makes it again.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from scipy.special import ndtr

from qcompile.api import Plan, load_plan
from tests.audit.designs import SOLVERS, Design, random_design
from tests.audit.exported import Relation, check_costs, check_same
from tests.audit.witness import check_draws, check_ledger, check_runs_differ

EVERY = 36
"""Designs in which every solver meets both relations with one, two and three rows."""

CHUNK = 6

CHUNKS = [
    *(pytest.param(first, id=f"{first}+") for first in range(0, EVERY, CHUNK)),
    *(pytest.param(first, id=f"{first}+", marks=pytest.mark.slow) for first in range(EVERY, 12 * EVERY, CHUNK)),
]


@pytest.mark.parametrize("first", CHUNKS)
def test_costs_and_draws_of_random_plans(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + CHUNK):
        design = random_design(seed)
        plan = design.plan()
        check_request(design)
        check_costs(plan, design.charge, design)
        plan.save(tmp_path / f"{seed}.plan")
        stored = load_plan(tmp_path / f"{seed}.plan")
        check_same(plan, stored, design.charge, design)
        check_costs(stored, design.charge, design)
        check_run(design, stored if seed % 2 else plan, tmp_path)


def check_request(design: Design) -> None:
    """The charge keeps the request, by the textbook formula of the Gaussian mechanism in doubles."""
    cost = float(2 * design.charge)
    if design.budget.epsilon is not None and design.budget.delta is not None:
        epsilon, root = float(design.budget.epsilon), cost**0.5
        delta = ndtr(root / 2 - epsilon / root) - math.exp(epsilon) * ndtr(-root / 2 - epsilon / root)
        assert delta <= float(design.budget.delta) * (1 + 1e-6), f"delta is {delta!r}: {design}"
    else:
        worth = {"rho": 2 * design.budget.amount, "cost": design.budget.amount, "mu": design.budget.amount**2}
        assert 2 * design.charge == worth[design.budget.kind], str(design)


def check_run(design: Design, plan: Plan, folder: Path) -> None:
    """What is drawn is what is exported; what is charged is what is stated."""
    check_draws(plan, design.data, design.budget, design, design.accounting)
    where = folder / str(design.seed)
    where.mkdir()
    check_ledger(plan, design.data, design.budget, where, design, accounting=design.accounting)
    if design.seed % 4 == 0:
        check_runs_differ(plan, design.data, design.budget, design)


def test_the_sample_meets_every_solver_relation_and_number_of_rows() -> None:
    designs = [random_design(seed) for seed in range(EVERY)]
    assert len({(d.solver, d.neighbours, d.contributions) for d in designs}) == len(SOLVERS) * 2 * 3


def test_the_designs_meet_every_choice_there_is() -> None:
    designs = [random_design(seed) for seed in range(12 * EVERY)]
    factors = {type(f).__name__ for d in designs for family in d.workload.families for f in family.factors}
    assert factors == {"Marginal", "Prefix", "Range", "Circular", "Affine", "Abs", "Random", "Matrix", "Predicate"}
    kinds: dict[str, set[Any]] = {
        "centring": {d.centring if isinstance(d.centring, str) else "given" for d in designs},
        "blocks": {d.blocks if isinstance(d.blocks, bool | str) else "given" for d in designs},
        "budget": {d.budget.kind for d in designs},
        "accounting": {d.accounting for d in designs},
        "policy": {a.policy.kind for d in designs for a in d.workload.schema},
        "sizes": {a.size for d in designs for a in d.workload.schema},
        "attributes": {len(d.workload.schema) for d in designs},
    }
    assert kinds == {
        "centring": {"uniform", "optimised", "given"},
        "blocks": {False, "auto", "given"},
        "budget": {"epsilon", "rho", "cost", "mu"},
        "accounting": {"zcdp", "gaussian"},
        "policy": {"strict", "clip", "drop", "other"},
        "sizes": {1, 2, 3, 4, 5, 6},
        "attributes": {2, 3, 4},
    }
    weights = [f.weight for d in designs for f in d.workload.families]
    assert max(weights) > 1e5 * min(weights)
    assert any(f.choose and f.choose[1] > 1 for d in designs for f in d.workload.families)
    assert any(not f.factors for d in designs for f in d.workload.families)


def test_neighbouring_tables_are_written_out() -> None:
    """Two cells, one or two rows: counted by hand."""
    assert Relation("add-remove", 1, False).histograms(2).tolist() == [[0, 0], [1, 0], [0, 1]]
    assert Relation("replace-one", 1, False).histograms(2).tolist() == [[1, 0], [0, 1]]
    assert Relation("replace-one", 1, True).histograms(2).tolist() == [[0, 0], [1, 0], [0, 1]]
    assert len(Relation("replace-one", 2, True).histograms(2)) == 1 + 2 + 3
    extreme = Relation("replace-one", 3, True).histograms(40)
    assert extreme.sum(axis=1).tolist() == [0] + [3] * 40
