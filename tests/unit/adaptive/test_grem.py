"""GReM: the estimates are those of weighted least squares on the whole domain, and lazy updates change nothing."""

from __future__ import annotations

import itertools
import math

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.routes import inaxis
from qcompile.api import Plan
from qcompile.estimates.grem import Estimates, LazyMarginals
from qcompile.plan.basis import basis_strategies
from qcompile.support.arrays import Array
from tests.conformance.cases import Case
from tests.conformance.helpers import expand
from tests.unit.adaptive.worlds import marginals

SKEWED = [
    Case("hybrid", "exact"),
    Case("hybrid", "exact", skewed=True),
    Case("mixed on one pair", "exact"),
    Case("affine out of order", "exact", skewed=True),
    Case("size one in the middle", "exact"),
    Case("repeated sizes", "auto"),
]


def measured(plan: Plan, basis: str, nodes: list[int], seed: int = 3) -> list[tuple[int, Array, float]]:
    """Arbitrary measurements of some nodes, several of the same one included."""
    stream = np.random.default_rng(seed)
    strategies = basis_strategies(plan, basis)
    rows = [strategies[int(plan.closure.class_of[i])].rows for i in nodes]
    return [(i, stream.normal(10, 5, r), float(stream.uniform(0.1, 10))) for i, r in zip(nodes, rows, strict=True)]


def rows_on_domain(plan: Plan, basis: str, node: int) -> Array:
    """B of a node on the cells of the full domain."""
    c, order = int(plan.closure.class_of[node]), plan.closure.orders[node]
    strategy = basis_strategies(plan, basis)[c]
    shape = plan.closure.shape(plan.closure.nodes[node])
    cells = math.prod(shape)
    unit = np.eye(cells).reshape(*shape, cells).transpose(*order, len(shape))
    return expand(plan.workload.schema, plan.closure.names(plan.closure.nodes[node]), strategy.apply(unit))


def marginal_on_domain(plan: Plan, node: int) -> Array:
    cells = math.prod(plan.closure.shape(plan.closure.nodes[node]))
    return expand(plan.workload.schema, plan.closure.names(plan.closure.nodes[node]), np.eye(cells))


@pytest.mark.parametrize("case", [c for c in SKEWED if not c.skewed], ids=str)
def test_grem_is_weighted_least_squares(case: Case) -> None:
    """With uniform centring what was not measured is 0: the least squares solution of minimum norm."""
    plan = case.plan()
    usable = [i for i, c in enumerate(plan.closure.class_of.tolist()) if c >= 0]
    noted = measured(plan, "compiled", [*usable[:-1], *usable[::2]])
    estimates = Estimates(plan.closure, plan.strategies)
    for node, y, precision in noted:
        estimates.add(node, y, precision)
    rows = np.concatenate([math.sqrt(p) * rows_on_domain(plan, "compiled", i) for i, _, p in noted])
    values = np.concatenate([math.sqrt(p) * y for _, y, p in noted])
    x = np.linalg.lstsq(rows, values, rcond=1e-10)[0]
    for i in range(len(plan.closure.nodes)):
        expected = marginal_on_domain(plan, i) @ x
        np.testing.assert_allclose(estimates.marginal(i).ravel(), expected, atol=1e-7 * np.abs(values).max())


@pytest.mark.parametrize("shape", [(3,), (4, 3), (2, 3, 4)])
def test_iid_noise_on_a_marginal_is_weighted_as_its_residuals_are(shape: tuple[int, ...]) -> None:
    """Noise sigma^2 in every cell measures the residual of tau with variance sigma^2 prod n_j: nothing is lost."""
    plan = marginals(*shape, ways=len(shape))
    top = len(plan.closure.nodes) - 1
    stream = np.random.default_rng(8)
    tables = [(stream.normal(50, 20, shape), s2) for s2 in (4.0, 25.0)]
    estimates = Estimates(plan.closure, basis_strategies(plan, "residual"))
    for table, s2 in tables:
        for i, node in enumerate(plan.closure.nodes):
            c = int(plan.closure.class_of[i])
            gone = tuple(a for a in range(len(shape)) if a not in node)
            margin = table.sum(axis=gone).transpose(plan.closure.orders[i])
            kept = math.prod((shape[a] - 1) / shape[a] for a in node)
            precision = kept / (s2 * math.prod(shape[a] for a in gone))
            estimates.add(i, estimates.strategies[c].apply(margin), precision)
    (one, a), (other, b) = tables
    average = (one / a + other / b) / (1 / a + 1 / b)
    np.testing.assert_allclose(estimates.marginal(top), average, rtol=1e-10)


@pytest.mark.parametrize("case", SKEWED, ids=str)
def test_reconstruction_inverts_what_is_measured_without_noise(case: Case) -> None:
    """Any centring: where every node below is of full rank, exact measurements give the exact marginal."""
    plan = case.plan()
    table = np.random.default_rng(1).integers(0, 50, [a.size for a in plan.workload.schema]).astype(float)
    estimates = Estimates(plan.closure, plan.strategies)
    for i, c in enumerate(plan.closure.class_of.tolist()):
        if c >= 0:
            estimates.add(i, rows_on_domain(plan, "compiled", i) @ table.ravel(), 1.0)
    full = 0
    for i, node in enumerate(plan.closure.nodes):
        inside = [plan.closure.index[s] for k in range(len(node) + 1) for s in itertools.combinations(node, k)]
        ranks = [
            (int(plan.closure.class_of[j]), math.prod(n - 1 for n in plan.closure.shape(plan.closure.nodes[j])))
            for j in inside
        ]
        if all(need == 0 or (c >= 0 and plan.strategies[c].rank == need) for c, need in ranks):
            full += 1
            expected = marginal_on_domain(plan, i) @ table.ravel()
            np.testing.assert_allclose(estimates.marginal(i).ravel(), expected, atol=1e-6)
    assert full > 1


@given(st.integers(0, 2**32 - 1), st.sampled_from(["compiled", "residual"]))
@settings(max_examples=30)
def test_lazy_equals_full_after_any_sequence(seed: int, basis: str) -> None:
    plan = PLANS[seed % 2 if basis == "residual" else seed % 4]
    stream = np.random.default_rng(seed)
    estimates = Estimates(plan.closure, basis_strategies(plan, basis))
    wanted = [i for i in range(len(plan.closure.nodes)) if stream.random() < 0.8]
    lazy = LazyMarginals(estimates, wanted)
    usable = [i for i, c in enumerate(plan.closure.class_of.tolist()) if c >= 0]
    for _ in range(int(stream.integers(1, 12))):
        nodes = stream.choice(usable, size=int(stream.integers(1, 4)), replace=False).tolist()
        before = {i: lazy.estimate(i).copy() for i in wanted}
        changes = {i: estimates.add(i, y, p) for i, y, p in measured(plan, basis, nodes, int(stream.integers(2**31)))}
        dirty = lazy.update(changes)
        for i in wanted:
            full = estimates.marginal(i)
            np.testing.assert_allclose(lazy.estimate(i), full, atol=1e-8)
            assert i in dirty or np.array_equal(before[i], lazy.estimate(i))


PLANS = [
    marginals(3, 1, 4, 2, ways=3),
    marginals(2, 5, 3),
    Case("hybrid", "exact", skewed=True).plan(),
    Case("affine out of order", "exact", skewed=True).plan(),
]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_what_is_left_alone_moved_by_no_more_than_the_tolerance(seed: int) -> None:
    """And is right all the same when it is asked for."""
    plan, stream = PLANS[seed % 2], np.random.default_rng(seed)
    estimates = Estimates(plan.closure, plan.strategies)
    wanted = [i for i in range(len(plan.closure.nodes)) if stream.random() < 0.8]
    rows = estimates.add(0, np.full(plan.strategies[int(plan.closure.class_of[0])].rows, 300.0), 1.0)
    lazy = LazyMarginals(estimates, wanted, 0.1)
    seen = {i: estimates.marginal(i) for i in wanted}
    usable = [i for i, c in enumerate(plan.closure.class_of.tolist()) if c >= 0 and plan.closure.nodes[i]]
    for _ in range(int(stream.integers(1, 12))):
        nodes = stream.choice(usable, size=int(stream.integers(1, 4)), replace=False).tolist()
        changes = {
            i: estimates.add(i, y, p) for i, y, p in measured(plan, "compiled", nodes, int(stream.integers(2**31)))
        }
        for i in lazy.update(changes):
            seen[i] = estimates.marginal(i)
        for i in wanted:
            full = estimates.marginal(i)
            assert np.abs(full - seen[i]).sum() <= 0.1 * float(rows) * (1 + 1e-9)
            if stream.random() < 0.3:
                np.testing.assert_allclose(lazy.estimate(i), full, atol=1e-8)


def test_a_repeated_measurement_counts_by_its_precision() -> None:
    plan = marginals(3, 2)
    estimates = Estimates(plan.closure, plan.strategies)
    y = np.zeros(plan.strategies[int(plan.closure.class_of[-1])].rows)
    node = len(plan.closure.nodes) - 1
    estimates.add(node, y + 4.0, 1.0)
    estimates.add(node, y + 8.0, 3.0)
    np.testing.assert_allclose(estimates.value(node), 7.0)
    assert estimates.precision(node) == 4.0
    assert list(estimates.measured) == [node]


def test_decomp_and_recon_give_the_same_marginals() -> None:
    """The paper's in-axis operations and the residuals that are kept here are two coordinates of the same thing."""
    plan = marginals(3, 4, 2, ways=3)
    table = np.random.default_rng(4).normal(size=(3, 4, 2))
    estimates = Estimates(plan.closure, plan.strategies)
    for i in range(len(plan.closure.nodes)):
        estimates.add(i, rows_on_domain(plan, "compiled", i) @ table.ravel(), 1.0)
    for i, node in enumerate(plan.closure.nodes):
        margin = table.sum(axis=tuple(a for a in range(3) if a not in node))
        axes = tuple(range(len(node)))
        z = inaxis.decomp(margin, axes)
        residual = estimates.residual(i)
        assert residual is not None
        np.testing.assert_allclose(inaxis.recon(z, margin.shape, axes), residual, atol=1e-9)
