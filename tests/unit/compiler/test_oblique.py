"""The search for oblique nodes: gradients by differences, values by certified plans, choices by what they promise."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.compiler.oblique import smoothing
from qcompile.compiler.oblique.model import build
from qcompile.compiler.oblique.objective import Objective, plain_choice, unpacked
from qcompile.compiler.oblique.search import oblique_design
from qcompile.compiler.oblique.span import spans_what_is_left
from qcompile.lattice.decompose import centring_weights, decompose
from qcompile.queries.factors import Abs, Affine, Marginal, Prefix
from qcompile.queries.workload import Workload
from qcompile.solvers.exact.certificate import DualProblem, RootBlock
from qcompile.strategy import KroneckerStrategy
from qcompile.strategy.oblique import ObliqueStrategy
from tests.conformance.helpers import family, integers, workload

UNLIMITED = 1e12


def pairs(*sizes: int, kind: type[Affine] | type[Abs] = Affine, prefixes: bool = True, chain: bool = False) -> Workload:
    """Sums or differences of all pairs, or of neighbours, with or without prefixes of single attributes."""
    attributes = integers(*sizes)
    chosen = itertools.pairwise(attributes) if chain else itertools.combinations(attributes, 2)
    sign = -1 if kind is Abs else 1
    families = [family(kind(p, (1, sign))) for p in chosen]
    return workload(attributes, *families, *(family(Prefix(a)) for a in attributes if prefixes))


def uniform(given: Workload) -> tuple[np.ndarray, ...]:
    return centring_weights(given.schema, {})


@pytest.mark.parametrize(
    "given",
    [
        pairs(4, 4, 4),
        pairs(3, 4, 5),
        pairs(4, 4, 4, 4, kind=Abs, prefixes=False, chain=True),
        workload(integers(3, 3, 3), family(Affine(integers(3, 3, 3), (1, 1, 1))), family(Marginal(integers(3)[0]))),
    ],
    ids=["exchangeable", "different sizes", "chain", "three-way"],
)
def test_gradient_by_differences(given: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoothing, "ENOUGH", 1e-15)
    monkeypatch.setattr(smoothing, "MOST", 3000)
    model = build(given, uniform(given), (), UNLIMITED)
    rng = np.random.default_rng(3)
    plain = plain_choice(model).packed()
    x, direction = (unpacked(model, rng.normal(size=plain.size)).packed() for _ in range(2))
    x = plain + 0.02 * x
    objective, step = Objective(model, 8.0), 1e-5
    slope = (objective(x + step * direction)[0] - objective(x - step * direction)[0]) / (2 * step)
    assert objective(x)[1] @ direction == pytest.approx(slope, rel=1e-5)


def test_the_smoothed_value_is_a_power_mean_s_optimum() -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 7))
    problem = DualProblem((RootBlock(root, np.arange(7)),), np.ones(7))
    point = smoothing.smoothed(problem, None, 8.0)
    mean = float((point.variances**8).mean() ** (1 / 8))
    assert point.value == pytest.approx(np.sqrt(point.value * mean), rel=1e-4)  # dual and primal agree
    weights = point.variances**7
    np.testing.assert_allclose(point.mu / point.mu.sum(), weights / weights.sum(), atol=1e-3)


def is_oblique(plan: Plan) -> bool:
    return any(isinstance(s, ObliqueStrategy) for s in plan.strategies)


@pytest.mark.parametrize(
    ("given", "least"),
    [
        (pairs(6, 6, 6), 0.055),
        (pairs(6, 6, 6, kind=Abs), 0.06),
        (pairs(6, 6, 6, 6, kind=Abs, prefixes=False, chain=True), 0.185),
    ],
    ids=["sums", "differences", "chain"],
)
def test_errors_fall_as_far_as_they_can(given: Workload, least: float) -> None:
    """Reductions within a per cent of those of the best mechanism without any structure."""
    plain, oblique = compile(given), compile(given, design="oblique")
    assert is_oblique(oblique)
    assert oblique.rmse() < plain.rmse() * (1 - least)
    assert oblique.gap < 1e-3


def test_auto_takes_what_is_a_matter_of_seconds() -> None:
    assert is_oblique(compile(pairs(4, 4, 4), design="auto"))
    large = pairs(70, 70, prefixes=False)
    model = build(large, uniform(large), (), 3e6)
    assert not model.tops


def test_given_weights_stay() -> None:
    given = pairs(4, 4, 4)
    u = np.array([0.4, 0.1, 0.1, 0.4])
    plan = compile(given, centring={"a": u}, design="oblique")
    assert is_oblique(plan)
    np.testing.assert_array_equal(plan.closure.centring[0], u)
    assert np.ptp(plan.closure.centring[1]) > 0.01


def test_families_in_blocks_are_left_alone() -> None:
    given = pairs(4, 4, 4)
    name = given.families[0].name
    plan = compile(given, blocks=[[name]], design="oblique")
    assert plan.closure.blocks == ((name,),)
    assert is_oblique(plan)
    assert plan.sse() <= compile(given, blocks=[[name]]).sse()


def test_single_attributes_have_nothing_to_be_oblique_to() -> None:
    a, b = integers(5, 5)
    plan = compile(workload([a, b], family(Prefix(a)), family(Prefix(b))), design="oblique")
    assert not is_oblique(plan)
    assert plan.plain_sse is None


def test_a_search_that_fails_leaves_the_plain_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise np.linalg.LinAlgError

    monkeypatch.setattr("qcompile.compiler.oblique.search._search", fail)
    given = pairs(3, 3)
    assert compile(given, design="oblique").sse() == compile(given).sse()


def test_a_design_whose_leftovers_are_not_measured_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    given = pairs(3, 3)
    design = oblique_design(given, {}, (), "oblique", 1e-3)
    assert design is not None
    weights = {**design.centring}
    lattice = decompose(given, weights, oblique=design.nodes)
    plan = compile(given, design="oblique")
    strategies = list(plan.strategies)
    assert spans_what_is_left(given, lattice, strategies, design.nodes)
    single = next(c for c, p in enumerate(lattice.classes) if p.shape == (3,))
    strategies[single] = KroneckerStrategy.dense((3,), np.array([[1.0, 0.0, -1.0]]))
    assert not spans_what_is_left(given, lattice, strategies, design.nodes)
