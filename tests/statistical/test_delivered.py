"""The noise that is delivered is the noise that was promised: variances, independence, coverage.

Data are zeros and a test seed makes every run repeatable, so a failure here is never chance. Each test that accepts the
right scale shows that it would reject one that is 10 % off.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.lattice.apply_product import apply_product
from qcompile.lattice.reconstruct import in_schema_order, lift_residual, marginal
from qcompile.privacy.budget import Budget
from qcompile.privacy.noise.scale import Scale
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.schema import Attribute, IntegerDomain, Schema
from qcompile.queries.workload import Family, Product, Workload
from qcompile.release.answers.intervals import pointwise
from qcompile.run import measure, randomness
from qcompile.strategy import Strategy
from qcompile.strategy.base import ExactEntries
from qcompile.strategy.variances import product_variances
from qcompile.support.arrays import Array, IntArray

A, B, C = (Attribute(name, IntegerDomain(0, n - 1)) for name, n in (("a", 5), ("b", 4), ("c", 3)))

KINDS: dict[str, tuple[Factor, ...]] = {
    "total": (),
    "marginal": (Marginal(A), Marginal(C)),
    "prefix": (Prefix(A), Prefix(B)),
    "range": (Range(A), Marginal(C)),
    "circular": (Circular(B), Circular(C)),
    "affine": (Affine([A, B], [1, 1]), Prefix(C)),
    "abs": (Abs([B, A], [1, -1]),),
    "random": (Random([A, C], 0.3, 6, 1),),
    "matrix": (Matrix([B], np.array([[1.0, -2, 3, 0.5], [0.1, 0, 0, 1]])),),
    "count": (Predicate([A, B], np.eye(5, 4, dtype=bool), "a = b"), Range(C)),
}

RUNS = 1600


def compiled(kind: str, solver: str = "auto") -> Plan:
    """One family of a kind, with the 1-way prefixes that make several nodes share the budget."""
    ones = Family("ones", "ones", tuple(map(Prefix, (A, B, C))), choose=(1, 1))
    made = Workload(Schema((A, B, C)), (Family(kind, kind, KINDS[kind]), ones))
    if solver == "block":
        return compile(made, blocks=[[kind]], centring="optimised")
    return compile(made, solver=solver)


def zeros(plan: Plan) -> dict[tuple[str, ...], Array]:
    schema = plan.workload.schema
    return {schema.names: np.zeros(schema.shape(schema.names))}


class Repeated:
    """A strategy measured many times on the same counts, by one call of the noise: runs in the first axis."""

    def __init__(self, strategy: Strategy, runs: int) -> None:
        self._strategy, self._runs = strategy, runs

    def apply(self, x: Array) -> Array:
        return np.tile(self._strategy.apply(x), self._runs)

    def rounding_error(self, x: Array) -> float:
        return self._strategy.rounding_error(x)

    @property
    def rows(self) -> int:
        return self._strategy.rows * self._runs

    def exact_entries(self, x: IntArray) -> ExactEntries:
        entries = self._strategy.exact_entries(x)
        return lambda rows: entries(rows % self._strategy.rows)


def tables(plan: Plan, counts: GivenCounts) -> Iterator[tuple[int, IntArray]]:
    """Every measured node with its exact marginal."""
    for view, nodes in measure.assign_nodes(plan).items():
        yield from measure.node_tables(plan.closure, view, counts.table(view), nodes)


def measured(plan: Plan, scales: Sequence[Scale], runs: int, noise: randomness.Noise | None = None) -> list[Array]:
    """Many runs' measurements of zeros, per node ``(rows, runs)`` in counts."""
    counts = GivenCounts.of(zeros(plan), plan.workload.schema)
    noise = noise or randomness.make_noise("rounded", test_seed=1)
    result = [np.zeros((0, runs)) for _ in plan.closure.nodes]
    for index, table in tables(plan, counts):
        c = int(plan.closure.class_of[index])
        name, strategy = plan.closure.title(index), plan.strategies[c]
        repeated = cast("Strategy", Repeated(strategy, runs))
        values = noise(repeated, table.transpose(plan.closure.orders[index]), scales[c], name)
        grid = scales[c].grid if values.dtype.kind == "i" else 1.0
        result[index] = (values * grid).reshape(runs, strategy.rows).T
    return result


def answers(plan: Plan, noise: list[Array], product: Product, family: str = "") -> Array:
    """The errors of a product's answers in all runs, ``(queries, runs)``, from the source of its family."""
    closure = plan.closure.source(family)

    def residual(node: int) -> Array | None:
        c = int(closure.class_of[node])
        if c < 0:
            return None
        t = in_schema_order(plan.strategies[c].solve(noise[node]), closure.orders[node])
        return lift_residual(closure, t, closure.nodes[node])

    node = tuple(sorted(closure.schema.positions[n] for n in closure.covering(product).names))
    table = marginal(closure, residual, node, (noise[0].shape[-1],))
    return apply_product(closure, product, table).reshape(product.count, -1)


def predicted(plan: Plan, budget: Budget, product: Product, family: str = "") -> Array:
    scales = [s.variance for s in plan.scales(budget.rho)]
    return product_variances(plan.closure.source(family), plan.strategies, scales, product).ravel()


def deviation(errors: Array, variances: Array) -> float:
    """How many of its own standard deviations the mean of squares / variance is from 1, correlations included.

    The mean over queries is, in each run, one number; runs are independent, so their spread gives the standard error.
    """
    each_run = (errors**2 / variances[:, None]).mean(axis=0)
    return float((each_run.mean() - 1) / (each_run.std(ddof=1) / math.sqrt(len(each_run))))


@pytest.mark.parametrize("solver", ["auto", "rp", "wff", "block"])
@pytest.mark.parametrize("kind", KINDS)
def test_delivered_variance_is_the_predicted_one(kind: str, solver: str) -> None:
    """smartnoise#472, PipelineDP#504, OpenDP std: right by simulation.

    Every query within 5 standard errors of chi-squared, the family within 4; 10 % off the scale is rejected.
    """
    plan, budget = compiled(kind, solver), Budget(rho=0.5)
    product = Product(KINDS[kind])
    runs = 2 * RUNS
    errors, variances = (
        answers(plan, measured(plan, plan.scales(budget.rho), runs), product, kind),
        predicted(plan, budget, product, kind),
    )
    ratio = (errors**2).mean(axis=1) / variances
    assert np.abs(ratio - 1).max() < 5 * math.sqrt(2 / runs)
    assert np.abs(errors.mean(axis=1) / np.sqrt(variances)).max() < 5 / math.sqrt(runs)
    assert abs(deviation(errors, variances)) < 4
    for wrong in (0.9, 1.1):
        assert abs(deviation(errors * wrong, variances)) > 4 or np.abs(wrong**2 * ratio - 1).max() > 5 * math.sqrt(
            2 / runs
        )


def test_every_released_cell_is_noisy_and_a_multiple_of_the_grid() -> None:
    """opendp#414, smartnoise-sdk#317: empty cells too; the grid is the declared one, and values use its last bit."""
    plan, budget = compiled("prefix"), Budget(rho="1/49")
    release = plan.run(zeros(plan), budget)
    without = 0
    for node, m in zip(
        (i for i, c in enumerate(plan.closure.class_of) if c >= 0), plan.measurements(budget), strict=True
    ):
        values = release.measured(node)
        steps = values / m.grid
        assert (steps == np.rint(steps)).all()
        assert release.values[node].dtype == np.int64
        without += int((steps == 0).sum())
        if values.size > 10:
            assert (steps % 2 == 1).any()
    assert without <= 3  # of 22 numbers 0.03 are to be expected
    assert (release.marginal(("a", "b")).array != 0).all()
    assert (release.marginal(("a", "b")).std_error > 0).all()


def test_noise_scales_as_one_over_the_root_of_rho() -> None:
    """diffprivlib#99: "epsilon has no effect"."""
    plan = compiled("prefix")
    product = Product(KINDS["prefix"])
    spreads = []
    for rho in ("1/100", "1", "100"):
        errors = answers(plan, measured(plan, plan.scales(Budget(rho=rho).rho), RUNS), product)
        spreads.append(float(np.sqrt((errors**2).mean())) * math.sqrt(float(Budget(rho=rho).rho)))
        assert spreads[-1] == pytest.approx(plan_spread(plan, product), rel=0.05)
    assert max(spreads) / min(spreads) < 1.1


def plan_spread(plan: Plan, product: Product) -> float:
    return math.sqrt(predicted(plan, Budget(rho=1), product).mean())


def test_noise_of_different_nodes_and_rows_is_uncorrelated() -> None:
    """One seed for the whole run: nodes with the same strategy and shape do not share their noise."""
    attributes = tuple(Attribute(n, IntegerDomain(0, 3)) for n in "pqr")
    pairs = Family("pairs", "pairs", tuple(map(Prefix, attributes)), choose=(1, 2))
    plan = compile(Workload(Schema(attributes), (pairs,)))
    noise = measured(plan, plan.scales(Budget(rho=0.5).rho), 4000)
    rows = np.concatenate([n / n.std(axis=1, keepdims=True) for n in noise])
    correlation = rows @ rows.T / rows.shape[1]
    pairs_of_rows = len(rows) * (len(rows) - 1) / 2
    largest = np.abs(correlation - np.diag(np.diag(correlation))).max()
    assert largest < math.sqrt(2 * math.log(pairs_of_rows * 1000) / rows.shape[1])
    assert len({n.tobytes() for n in noise}) == len(noise)


def z_scores(plan: Plan, kind: str, runs: int) -> Array:
    product, budget = Product(KINDS[kind]), Budget(rho=0.5)
    errors = answers(plan, measured(plan, plan.scales(budget.rho), runs), product)
    return np.abs(errors) / np.sqrt(predicted(plan, budget, product))[:, None]


@pytest.mark.parametrize("kind", ["prefix", "range", "abs"])
def test_pointwise_and_simultaneous_coverage(kind: str) -> None:
    """opendp#367: pointwise about 95 %; simultaneous at least that, less its Monte-Carlo error, not absurdly wide."""
    plan, runs = compiled(kind), 2000
    z = z_scores(plan, kind, runs)
    assert (z < pointwise(0.05).quantile).mean() == pytest.approx(0.95, abs=0.01)
    release = plan.run(zeros(plan), Budget(rho=0.5), test_seed=10**6)
    found = release.answers(kind, simultaneous=True)
    quantile = float((found["upper"].to_numpy() - found["estimate"].to_numpy())[0] / found["std_error"].to_numpy()[0])
    together = (z.max(axis=0) < quantile).mean()
    error = 3 * math.sqrt(0.05 * 0.95 * (1 / runs + 1 / 2000))
    assert 0.95 - error < together < 0.95 + error
    assert (z.max(axis=0) < 0.9 * quantile).mean() < 0.95 - error
    assert (z.max(axis=0) < pointwise(0.05).quantile).mean() < 0.9


def test_the_whole_path_of_a_run_delivers_its_standard_errors() -> None:
    """Through `run` and `answers`, with the system's randomness: estimates around the truth by their own std_error."""
    plan = compiled("range")
    schema = plan.workload.schema
    counts = np.arange(60).reshape(schema.shape(schema.names))
    exact = plan.run({schema.names: counts}, Budget(rho=0.5), noise="none").answers("range")["estimate"].to_numpy()
    scores = []
    for _ in range(60):
        found = plan.run({schema.names: counts}, Budget(rho=0.5)).answers("range")
        scores.append((found["estimate"].to_numpy() - exact) / found["std_error"].to_numpy())
    spread = np.sqrt((np.stack(scores) ** 2).mean(axis=1)).mean()
    # 60 runs of 45 correlated answers: the spread has a standard error near 0.02; 0.2 is an error of ten of those.
    assert abs(spread - 1) < 0.2
    assert np.abs(np.stack(scores)).max() < 8


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_opendp_delivers_the_same_variances(kind: str) -> None:
    """The cross-check: other people's sampler through the same plan, at its own slightly larger scale."""
    plan, product = compiled(kind), Product(KINDS[kind])
    scales = plan.scales(Budget(rho=0.5).rho)
    delivered = randomness.delivered_scales("opendp", scales)
    variances = product_variances(plan.closure, plan.strategies, [s.variance for s in delivered], product).ravel()
    assert all(d.sigma >= s.sigma for d, s in zip(delivered, scales, strict=True))
    errors = answers(plan, measured(plan, scales, RUNS, randomness.opendp), product)
    assert abs(deviation(errors, variances)) < 6
    assert abs(deviation(1.1 * errors, variances)) > 4


@pytest.mark.slow
def test_many_runs_of_one_family_to_a_few_per_cent() -> None:
    """20,000 runs: each variance within 5 standard errors (5 %), and 4 % off the scale is rejected."""
    plan, budget, product = compiled("affine"), Budget(rho=0.5), Product(KINDS["affine"])
    errors = answers(plan, measured(plan, plan.scales(budget.rho), 20_000), product)
    variances = predicted(plan, budget, product)
    ratio = (errors**2).mean(axis=1) / variances
    assert np.abs(ratio - 1).max() < 5 * math.sqrt(2 / 20_000)
    assert abs(deviation(errors, variances)) < 4
    for wrong in (0.96, 1.04):
        assert abs(deviation(errors * wrong, variances)) > 4


def test_a_wrong_scale_in_the_plan_would_be_seen() -> None:
    """Power: the same test on measurements made at scales 10 % too small or too large."""
    plan, budget, product = compiled("prefix"), Budget(rho=0.5), Product(KINDS["prefix"])
    variances = predicted(plan, budget, product)
    for factor in (0.9, 1.1):
        scales = [replace(s, sigma=factor * s.sigma) for s in plan.scales(budget.rho)]
        assert abs(deviation(answers(plan, measured(plan, scales, RUNS), product), variances)) > 4
