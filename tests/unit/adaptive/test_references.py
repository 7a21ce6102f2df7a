"""References recover tables that follow their model, agree with each other, and never spoil what was measured well."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from qcompile.api import Plan
from qcompile.estimates import forest, loglinear
from qcompile.estimates import shrinkage as shrink
from qcompile.estimates.grem import Estimates
from qcompile.estimates.references import REFERENCES, References
from qcompile.lattice.reconstruct import lift_residual
from qcompile.support.arrays import Array
from tests.conformance.cases import Case
from tests.unit.adaptive.worlds import marginals

KINDS = [k for k in REFERENCES if k != "none"]
SHAPE = (3, 4, 2, 3)


def conditional(stream: np.random.Generator, a: int, b: int) -> Array:
    return stream.dirichlet(np.full(b, 0.7), size=a)


def chain(seed: int = 0, total: float = 1e6) -> Array:
    """a - b, b - c, b - d: attributes independent given b."""
    stream = np.random.default_rng(seed)
    a = stream.dirichlet(np.ones(3))
    ab = a[:, None] * conditional(stream, 3, 4)
    return np.asarray(np.einsum("ab,bc,bd->abcd", ab, conditional(stream, 4, 2), conditional(stream, 4, 3)) * total)


def measure(
    plan: Plan, table: Array, ways: int, precision: float = 1e6, only: tuple[tuple[int, ...], ...] = ()
) -> Estimates:
    """Exact values of all nodes of up to so many attributes, or of some."""
    estimates = Estimates(plan.closure, plan.strategies)
    for i, node in enumerate(plan.closure.nodes):
        if plan.closure.class_of[i] >= 0 and len(node) <= ways and (not only or node in only or len(node) < 2):
            margin = table.sum(axis=tuple(a for a in range(table.ndim) if a not in node))
            strategy = plan.strategies[int(plan.closure.class_of[i])]
            estimates.add(i, strategy.apply(margin.transpose(plan.closure.orders[i])), precision)
    return estimates


def margin_of(table: Array, node: tuple[int, ...]) -> Array:
    return np.asarray(table.sum(axis=tuple(a for a in range(table.ndim) if a not in node)))


def test_independence_recovers_independent_attributes() -> None:
    plan = marginals(*SHAPE, ways=3)
    stream = np.random.default_rng(2)
    table = 1e5 * np.einsum("a,b,c,d->abcd", *(stream.dirichlet(np.ones(n)) for n in SHAPE))
    for kind in KINDS:
        model = References(measure(plan, table, 1), kind)
        for i, node in enumerate(plan.closure.nodes):
            np.testing.assert_allclose(model.estimate(i), margin_of(table, node), rtol=1e-6)


@pytest.mark.parametrize("kind", ["tree", "auto"])
def test_a_tree_is_recovered_from_its_edges_alone(kind: str) -> None:
    plan, table = marginals(*SHAPE, ways=3), chain()
    model = References(measure(plan, table, 2, only=((0, 1), (1, 2), (1, 3))), kind)
    for i, node in enumerate(plan.closure.nodes):
        if kind == "tree" or len(node) < 3 or 1 in node:
            np.testing.assert_allclose(model.estimate(i), margin_of(table, node), rtol=1e-2, atol=5)


def test_loglinear_recovers_a_table_without_the_interaction_of_all() -> None:
    """The odds ratios of two attributes are the same at every value of the third."""
    plan = marginals(3, 4, 2, ways=3)
    stream = np.random.default_rng(5)
    logs = sum(
        np.expand_dims(stream.normal(size=[(3, 4, 2)[a] for a in pair]), 3 - sum(pair))
        for pair in itertools.combinations(range(3), 2)
    )
    table = 1e5 * np.exp(logs) / np.exp(logs).sum()
    model = References(measure(plan, table, 2), "loglinear")
    truth = model.estimate(len(plan.closure.nodes) - 1)
    np.testing.assert_allclose(truth, table, atol=2e-3 * 1e5)
    additive = measure(plan, table, 2).marginal(len(plan.closure.nodes) - 1)
    assert np.abs(truth - table).sum() < 0.05 * np.abs(additive - table).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_measured_well_is_kept(kind: str) -> None:
    """With little noise nothing is shrunk away, whatever the model says."""
    plan = marginals(*SHAPE, ways=3)
    table = np.random.default_rng(3).gamma(0.5, 1000, size=SHAPE)
    model = References(measure(plan, table, 3, precision=1e9), kind)
    for i, node in enumerate(plan.closure.nodes):
        np.testing.assert_allclose(model.estimate(i), margin_of(table, node), rtol=1e-4, atol=1e-2)


@given(st.integers(0, 2**31), st.sampled_from(KINDS))
@settings(max_examples=25)
def test_estimates_of_all_marginals_agree(seed: int, kind: str) -> None:
    """A marginal of an estimate is the estimate of the marginal, before negative counts are removed."""
    plan, estimates, _ = noisy(seed)
    model = References(estimates, kind)
    for i, node in enumerate(plan.closure.nodes):
        for j, below in enumerate(plan.closure.nodes):
            if set(below) < set(node):
                gone = tuple(k for k, a in enumerate(node) if a not in below)
                np.testing.assert_allclose(model.estimate(i).sum(axis=gone), model.estimate(j), atol=1e-6 * 5000)


def noisy(seed: int) -> tuple[Plan, Estimates, np.random.Generator]:
    """Noisy measurements of some nodes."""
    plan = PLANS[seed % len(PLANS)]
    stream = np.random.default_rng(seed)
    table = stream.gamma(0.3, 1, size=[a.size for a in plan.workload.schema])
    table *= 5000 / table.sum()
    estimates = Estimates(plan.closure, plan.strategies)
    for i in range(len(plan.closure.nodes)):
        if plan.closure.class_of[i] >= 0 and (len(plan.closure.nodes[i]) < 2 or stream.random() < 0.5):
            add(plan, estimates, table, i, stream)
    return plan, estimates, stream


def add(plan: Plan, estimates: Estimates, table: Array, i: int, stream: np.random.Generator) -> None:
    strategy = plan.strategies[int(plan.closure.class_of[i])]
    x = margin_of(table, plan.closure.nodes[i]).transpose(plan.closure.orders[i])
    estimates.add(i, strategy.apply(x) + 20 * stream.normal(size=strategy.rows), 1 / 400)


PLANS = [
    marginals(*SHAPE, ways=3, least=1),
    Case("hybrid", "exact").plan(),
    Case("hybrid", "exact", skewed=True).plan(),
    Case("affine of three", "exact").plan(),
    Case("repeated sizes", "auto").plan(),
    marginals(2, 3, 2, 2, ways=4),
]


@given(st.integers(0, 2**31), st.sampled_from(KINDS))
@settings(max_examples=25)
def test_updates_without_tolerance_equal_a_fresh_model(seed: int, kind: str) -> None:
    plan, estimates, stream = noisy(seed)
    table = stream.gamma(0.3, 100, size=[a.size for a in plan.workload.schema])
    model = References(estimates, kind)
    before = [model.estimate(i) for i in range(len(plan.closure.nodes))]
    usable = [i for i, c in enumerate(plan.closure.class_of.tolist()) if c >= 0 and plan.closure.nodes[i]]
    new = stream.choice(usable, size=2, replace=False).tolist()
    for i in new:
        add(plan, estimates, table, i, stream)
    moved, fresh = model.update(new), References(estimates, kind)
    for i in range(1, len(plan.closure.nodes)):
        np.testing.assert_allclose(model.estimate(i), fresh.estimate(i), atol=1e-7)
        if i not in moved:
            np.testing.assert_allclose(model.estimate(i), before[i], atol=1e-7)


def test_the_part_that_was_not_seen_is_the_references() -> None:
    """Measurements of a few sums of a pair correct those sums, and leave the rest to the reference."""
    plan = Case("affine", "exact").plan()
    pair = plan.closure.index[0, 1]
    strategy = plan.strategies[int(plan.closure.class_of[pair])]
    assert strategy.rank < 2 * 3
    table = np.random.default_rng(1).gamma(1, 300, size=(3, 4, 2))
    estimates = measure(plan, table, 1)
    before = References(estimates, "independence").estimate(pair)
    x = margin_of(table, (0, 1)).transpose(plan.closure.orders[pair])
    estimates.add(pair, strategy.apply(x), 1e12)
    after = References(estimates, "independence").estimate(pair)
    seen = strategy.apply(after.transpose(plan.closure.orders[pair]))
    np.testing.assert_allclose(seen, strategy.apply(x), atol=1e-2)
    assert np.abs(after - before).sum() > 1
    assert np.abs(after - margin_of(table, (0, 1))).sum() > 1
    unseen = (after - before).transpose(plan.closure.orders[pair])
    np.testing.assert_allclose(unseen, strategy.solve(strategy.apply(unseen)), atol=1e-3)


def test_weights_grow_with_the_reference_and_know_noise_from_signal() -> None:
    stream = np.random.default_rng(0)
    reference = np.repeat([1.0, 1e4], 500).reshape(20, 50)
    signal = np.where(reference > 1, 300.0, 0.0) * stream.normal(size=reference.shape)
    believed = shrink.weights(signal + 30 * stream.normal(size=reference.shape), reference, 900.0)
    assert (believed[reference == 1] < 0.2).all()
    assert (believed[reference > 1] > 0.97).all()
    nothing = shrink.weights(30 * stream.normal(size=reference.shape), reference, 900.0)
    assert nothing.max() < 0.2
    assert (shrink.weights(signal, reference, 0.0) == 1).all()


@given(st.integers(0, 2**31))
def test_weights_are_monotone_shares(seed: int) -> None:
    stream = np.random.default_rng(seed)
    reference, deviation = stream.gamma(0.3, 100, size=300), stream.normal(size=300) * stream.gamma(1, 10)
    believed = shrink.weights(deviation, reference, float(stream.gamma(1, 10)) + 1e-9)
    assert ((believed >= 0) & (believed < 1)).all()
    assert (np.diff(believed[np.argsort(reference)]) >= -1e-12).all()


def test_shrinking_lowers_the_error_of_a_skewed_table() -> None:
    """Cell by cell, it beats both the measurement itself and the reference."""
    stream = np.random.default_rng(4)
    reference = 10 ** stream.uniform(-2, 4, size=4000)
    truth = reference * stream.gamma(8, 1 / 8, size=4000)
    seen = truth + 50 * stream.normal(size=4000)
    shrunk = reference + shrink.weights(seen - reference, reference, 2500.0) * (seen - reference)
    loss = {name: np.abs(x - truth).mean() for name, x in {"seen": seen, "model": reference, "both": shrunk}.items()}
    assert loss["both"] < 0.7 * min(loss["seen"], loss["model"])


def test_proportional_fitting_meets_its_marginals_and_keeps_zeros() -> None:
    stream = np.random.default_rng(6)
    truth = stream.gamma(0.5, 1, size=(4, 3, 5)) * (stream.random((4, 3, 5)) < 0.8)
    covers = [truth.sum(axis=a) for a in range(3)]
    start = (truth > 0).astype(float)
    table = loglinear.fit(covers, start, sweeps=3000, tolerance=1e-10)
    for axis, wanted in enumerate(covers):
        np.testing.assert_allclose(table.sum(axis=axis), wanted, atol=1e-6)
    assert (table[truth == 0] == 0).all()


@pytest.mark.parametrize(("i", "j"), [(0, 1), (0, 2), (1, 2)])
def test_fitting_starts_from_conditional_independence(i: int, j: int) -> None:
    truth = np.random.default_rng(7).gamma(1, 1, size=(2, 3, 4))
    covers = [truth.sum(axis=a) for a in range(3)]
    table = loglinear.conditional_start(covers, i, j)
    for axis in (i, j):
        np.testing.assert_allclose(table.sum(axis=axis), covers[axis])
    both = table.sum(axis=(i, j))
    outer = np.expand_dims(table.sum(axis=j), j) * np.expand_dims(table.sum(axis=i), i)
    np.testing.assert_allclose(table * np.expand_dims(both, (i, j)), outer)


def test_the_forest_is_the_one_of_most_information() -> None:
    """Against all spanning trees of five attributes, by brute force."""
    stream = np.random.default_rng(9)
    weights = {pair: float(stream.random()) for pair in itertools.combinations(range(5), 2)}
    best = max(
        (
            edges
            for edges in itertools.combinations(weights, 4)
            if len({a for e in edges for a in e}) == 5 and acyclic(edges)
        ),
        key=lambda edges: sum(weights[e] for e in edges),
    )
    assert set(forest.spanning_forest(weights)) == set(best)
    assert forest.spanning_forest({(0, 1): 0.0, (2, 3): 0.1}) == [(2, 3)]


def acyclic(edges: tuple[tuple[int, int], ...]) -> bool:
    label = list(range(5))
    for a, b in edges:
        if label[a] == label[b]:
            return False
        label = [label[a] if x == label[b] else x for x in label]
    return True


def test_joints_of_a_forest_are_those_of_the_whole_distribution() -> None:
    """Two trees and an attribute by itself; every set of attributes, in any order."""
    stream = np.random.default_rng(10)
    one = chain(3, 50.0)
    e, f, g = stream.dirichlet(np.ones(2)), conditional(stream, 2, 3), stream.dirichlet(np.ones(2))
    whole = np.einsum("abcd,e,ef,g->abcdefg", one, e, f, g)
    ones = [margin_of(whole, (a,)) for a in range(7)]
    edges = [(0, 1), (1, 2), (1, 3), (4, 5)]
    model = forest.Forest(ones, edges, {pair: margin_of(whole, pair) for pair in edges}, 50.0)
    for size in range(1, 5):
        for node in itertools.permutations(range(7), size):
            expected = margin_of(whole, tuple(sorted(node))).transpose(np.argsort(np.argsort(node)))
            np.testing.assert_allclose(model.joint(node), expected, atol=1e-10)


def test_mutual_information() -> None:
    assert forest.mutual_information(np.outer([1, 2], [3, 4, 5]).astype(float)) == pytest.approx(0, abs=1e-12)
    assert forest.mutual_information(10 * np.eye(3)) == pytest.approx(np.log(3))
    assert forest.mutual_information(np.zeros((2, 2))) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_rows_has_no_reference(kind: str) -> None:
    """The estimated total may come out at 0 or below; nothing is divided by it."""
    plan = marginals(*SHAPE, ways=3)
    estimates = measure(plan, np.full(SHAPE, -0.5), 2)
    model = References(estimates, kind)
    for i in range(len(plan.closure.nodes)):
        assert np.isfinite(model.estimate(i)).all()


def test_lifting_is_what_the_references_residual_is() -> None:
    plan = PLANS[2]
    table = np.random.default_rng(0).gamma(1, 1, size=[a.size for a in plan.workload.schema])
    node = tuple(range(table.ndim))
    residual = lift_residual(plan.closure, table, node)
    for axis in node:
        np.testing.assert_allclose(residual.sum(axis=axis), 0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(2, 3, 2, 2), (3, 2, 2, 2, 3)])
def test_every_estimate_that_moves_is_named(kind: str, sizes: tuple[int, ...]) -> None:
    """Larger nodes are sums over all smaller ones: a pair moves every node that contains it, whatever its own table."""
    plan = marginals(*sizes, ways=4)
    stream = np.random.default_rng(11)
    table = stream.gamma(0.3, 50, size=sizes)
    estimates = measure(plan, table, 1)
    model = References(estimates, kind)
    for node in [*itertools.combinations(range(len(sizes)), 2), (0, 1, 2), (0,), ()]:
        before = [model.estimate(i) for i in range(len(plan.closure.nodes))]
        i = plan.closure.index[node]
        add(plan, estimates, table + 50 * stream.random(sizes), i, stream)
        moved = set(model.update([i]))
        fresh = References(estimates, kind)
        for j in range(1, len(plan.closure.nodes)):
            now = model.estimate(j)
            np.testing.assert_allclose(now, fresh.estimate(j), atol=1e-7 * table.sum())
            assert j in moved or np.abs(now - before[j]).max() < 1e-7 * table.sum()
