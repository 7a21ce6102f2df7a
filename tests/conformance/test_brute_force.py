"""Every solver on every workload, expanded to the full domain from what a plan exports for auditors."""

from __future__ import annotations

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.errors import OptionError
from qcompile.inspection.explain import as_json
from qcompile.plan.plan import Measurement
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Predicate
from qcompile.strategy.variances import product_variances
from tests.audit.exported import cost_by_sets
from tests.conformance.cases import CASES, WORKLOADS, Case
from tests.conformance.helpers import (
    UNIT,
    expand,
    family,
    integer,
    known,
    least_squares_variances,
    mechanism,
    neighbour_distances,
    node_matrix,
    product_matrix,
    some_counts,
    workload,
)

each_case = pytest.mark.parametrize("case", CASES, ids=str)


def sigma_squared(plan: Plan, budget: Budget) -> list[float]:
    return [s.sigma**2 for s in plan.scales(budget.rho)]


@each_case
def test_cost_variances_and_answers(case: Case) -> None:
    plan = case.plan()
    check_costs(plan)
    check_variances(plan)
    check_answers_without_noise(plan)
    if case.neighbours == "add-remove":
        check_distance_from_the_best(plan)


def check_costs(plan: Plan) -> None:
    """Every node costs what it declares; the mechanism as a whole never more than is charged.

    Where rows are added or removed the nodes' costs are their shares, which add up to the charge. Where they are
    replaced the charge is that of the worst set of attributes that two rows differ in.
    """
    schema, unit = plan.workload.schema, plan.unit
    budget = Budget(rho="7/3")
    measured = list(plan.measurements(budget))
    classes = [int(c) for c in plan.closure.class_of if c >= 0]
    assert len(measured) == len(classes)
    total = float(2 * budget.rho)
    joint, peaks = np.zeros(()), []
    for m, c in zip(measured, classes, strict=True):
        on_domain = neighbour_distances(expand(schema, m.attributes, node_matrix(m)), unit)
        if m.scale == 0:
            assert plan.classes[c].share == m.cost == 0
            assert on_domain.max() == 0
            continue
        costs = on_domain / m.scale**2
        share = plan.classes[c].share * total
        if plan.joint is None:
            assert share * (1 - 1e-9) <= costs.max() <= share * (1 + 1e-12)
        assert float(m.cost) == pytest.approx(costs.max(), rel=1e-10)
        assert m.cost >= (1 - 1e-15) * costs.max()
        assert 256 <= m.scale / m.grid < 512
        joint = joint + costs
        peaks.append(costs >= costs.max() * (1 - 1e-9))
    declared = float(sum(m.cost for m in measured)) if plan.joint is None else cost_by_sets(plan, measured)
    assert declared == pytest.approx(total, rel=1e-9)
    assert joint.max() <= declared * (1 + 1e-12)
    if np.logical_and.reduce(peaks).any():  # one pair of tables attains every node's maximum: the cost is exact
        assert joint.max() == pytest.approx(declared, rel=1e-7)


def check_variances(plan: Plan) -> None:
    """Predictions against least squares on the exported matrices, and the totals that the plan reports."""
    schema = plan.workload.schema
    sums = {"weighted": 0.0, "unweighted": 0.0}
    for f in plan.workload.families:
        largest, source = 0.0, plan.closure.source(f.name)
        measured = source_measurements(plan, f.name)
        rows, exact = mechanism(schema, measured), known(schema, measured)
        for product in f.products():
            expected = least_squares_variances(product_matrix(schema, product), rows, exact)
            found = product_variances(source, plan.strategies, sigma_squared(plan, UNIT), product)
            np.testing.assert_allclose(found.ravel(), expected, rtol=1e-6, atol=1e-9)
            largest = max(largest, float(expected.max()))
            sums["weighted"] += f.weight * float(expected.sum())
            sums["unweighted"] += float(expected.sum())
        assert plan.family_errors(f).largest == pytest.approx(largest, rel=1e-6, abs=1e-12)
    assert plan.sse() == pytest.approx(sums["weighted"], rel=1e-6)
    assert plan.rmse() ** 2 * plan.queries == pytest.approx(sums["unweighted"], rel=1e-6)
    assert plan.rmse(4.0) == pytest.approx(plan.rmse() / 2)
    assert plan.sse(4.0) == pytest.approx(plan.sse() / 4)


def source_measurements(plan: Plan, family: str) -> list[Measurement]:
    """What a family is answered from: its block alone, or all nodes of the closure."""
    positions = [i for i, c in enumerate(plan.closure.class_of) if c >= 0]
    only = plan.closure.source(family).only
    wanted = range(plan.closure.first_block) if only is None else [only]
    return [m for i, m in zip(positions, plan.measurements(UNIT), strict=True) if i in wanted]


def check_answers_without_noise(plan: Plan) -> None:
    """A million rows: every answer is exact to 1e-6; the standard errors are those of a run with noise."""
    schema = plan.workload.schema
    counts = some_counts(schema)
    release = plan.run({schema.names: counts}, UNIT, noise="none")
    variances = [s.variance for s in release.scales]
    for f in plan.workload.families:
        exact = np.concatenate([product_matrix(schema, p) @ counts.ravel() for p in f.products()])
        table = release.answers(f.name)
        np.testing.assert_allclose(table.column("estimate").to_numpy(), exact, atol=1e-6)
        np.testing.assert_allclose(
            table.column("std_error").to_numpy() ** 2,
            np.concatenate(
                [
                    product_variances(plan.closure.source(f.name), plan.strategies, variances, p).ravel()
                    for p in f.products()
                ]
            ),
            rtol=1e-12,
            atol=1e-20,  # what is known exactly has a std_error of 0, not of a rounding error
        )


def check_distance_from_the_best(plan: Plan) -> None:
    """No plan is better than the bound on every matrix mechanism, and the excess is the distance from it."""
    found = as_json(plan)["unrestricted"]
    assert found["excess"] is not None
    assert found["bound"] <= plan.sse() * (1 + 1e-12)
    assert found["excess"] == pytest.approx(plan.sse() / found["bound"] - 1, abs=1e-12)


@pytest.mark.parametrize("name", sorted(set(WORKLOADS) - {"total", "size one only"}))
@pytest.mark.parametrize("solver", ["rp", "wff"])
def test_bases_need_uniform_centring(name: str, solver: str) -> None:
    with pytest.raises(OptionError, match="uniform centring"):
        Case(name, solver, skewed=True).plan()


@pytest.mark.parametrize("name", ["total", "size one only"])
@pytest.mark.parametrize("solver", ["rp", "wff"])
def test_where_nothing_is_centred_the_bases_take_any_weights(name: str, solver: str) -> None:
    assert Case(name, solver, skewed=True).plan().rmse() == pytest.approx(1)


@pytest.mark.parametrize("name", ["hybrid", "mixed on one pair", "attributes out of order", "repeated sizes"])
def test_the_order_of_attributes_and_families_does_not_matter(name: str) -> None:
    """RP+, smartnoise#581: the same declared costs, variances and totals, up to the order of axes."""
    original = WORKLOADS[name]()
    reference = compile(original, gap=1e-8)
    attributes = list(original.schema)[::-1]
    moved = compile(workload(attributes, *original.families[::-1]), gap=1e-8)
    assert moved.rmse() == pytest.approx(reference.rmse(), rel=1e-7)
    assert moved.sse() == pytest.approx(reference.sse(), rel=1e-7)
    for f in original.families:
        assert moved.family_errors(f).largest == pytest.approx(reference.family_errors(f).largest, rel=1e-5)
        assert moved.family_errors(f).total == pytest.approx(reference.family_errors(f).total, rel=1e-5)
    check_costs(moved)
    check_variances(moved)


def test_a_declared_cost_may_exceed_the_true_one() -> None:
    """Three pairs, each with {i + j odd, i + j = 5} on 6 values: declared 1, true 0.8946; each node is exact."""
    x, y, z = (integer(n, 6) for n in "xyz")
    total = np.add.outer(np.arange(6), np.arange(6))
    families = [
        family(Predicate([a, b], holds, text), name=f"{a.name}{b.name} {text}")
        for a, b in ((x, y), (x, z), (y, z))
        for holds, text in ((total % 2 == 1, "odd"), (total == 5, "five"))
    ]
    plan = compile(workload([x, y, z], *families), gap=1e-9)
    rows = mechanism(plan.workload.schema, plan.measurements(UNIT))
    assert float(sum(m.cost for m in plan.measurements(UNIT))) == pytest.approx(1, rel=1e-9)
    assert (rows**2).sum(axis=0).max() == pytest.approx(0.8946, abs=5e-5)


@pytest.mark.parametrize("solver", ["auto", "exact", "rp", "wff", "rp+", "conic"])
def test_a_certificate_never_lies(solver: str) -> None:
    """No solver's reported bound is above any other solver's loss on the same node."""
    for name in WORKLOADS:
        plan, best = Case(name, solver).plan(), Case(name, "exact").plan(gap=1e-8)
        for mine, exact in zip(plan.closure.class_of, best.closure.class_of, strict=True):
            own, optimal = plan.solutions[mine], best.solutions[exact]
            if mine < 0:
                continue
            assert own.bound <= optimal.loss * (1 + 1e-9)
            assert optimal.bound <= own.loss * (1 + 1e-9)
            assert own.gap >= 0
        assert plan.gap >= 0
        if solver in ("auto", "exact", "conic"):
            assert plan.gap <= 1e-6
