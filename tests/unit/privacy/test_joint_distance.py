"""The costs of pairs of replaced rows, set by set of attributes, against all pairs of cells written out."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.plan.plan import Measurement
from qcompile.privacy import joint_distance
from qcompile.privacy.joint_distance import JointDistance
from qcompile.queries.factors import Abs, Marginal, Predicate, Prefix
from qcompile.queries.schema import Attribute
from qcompile.strategy import differing_axes
from tests.conformance.helpers import UNIT, category, family, integer, integers, node_matrix, workload

RNG = np.random.default_rng(3)


def marginals(*sizes: int, ways: int = 2) -> Plan:
    attributes = integers(*sizes)
    return compile(
        workload(attributes, family(*map(Marginal, attributes), choose=(0, ways), name="m")), neighbours="replace-one"
    )


def mixed() -> Plan:
    a, b, c = integers(3, 3, 2)
    families = [family(Abs([a, b], [1, -1])), family(Prefix(a), Marginal(c)), family(Prefix(b), name="b")]
    return compile(workload([a, b, c], *families), neighbours="replace-one", blocks=[[families[0].name]])


PLANS: dict[str, Callable[[], Plan]] = {
    "marginals": lambda: marginals(2, 3, 3, 2),
    "mixed": mixed,
    "one cell": lambda: marginals(2, 1, 3),
}


def precisions(plan: Plan) -> list[Fraction]:
    return [Fraction(float(x)) for x in RNG.uniform(0.5, 2, size=len(plan.solutions))]


def by_brute_force(plan: Plan, found: list[Fraction], may_leave: bool) -> float:
    """The largest sum of the nodes' own worst pairs over all sets of attributes."""
    schema = plan.workload.schema
    nodes = [n for n, c in zip(plan.closure.nodes, plan.closure.class_of, strict=True) if c >= 0]
    classes = [int(c) for c in plan.closure.class_of if c >= 0]
    measured = list(plan.measurements(UNIT))
    largest, alone = 0.0, 0.0
    for m, c in zip(measured, classes, strict=True):
        alone += float(found[c]) * float((node_matrix(m) ** 2).sum(axis=0).max())
    for size in range(len(schema) + 1):
        for differing in itertools.combinations(range(len(schema)), size):
            sums = (
                float(found[c]) * worst(plan, n, m, differing) for n, m, c in zip(nodes, measured, classes, strict=True)
            )
            largest = max(largest, sum(sums))
    return max(largest, alone) if may_leave else largest


def worst(plan: Plan, node: tuple[int, ...], m: Measurement, differing: tuple[int, ...]) -> float:
    b, shape, largest = node_matrix(m), plan.closure.shape(node), 0.0
    for i, j in itertools.combinations(np.ndindex(shape), 2):
        if all((x != y) == (a in differing) for x, y, a in zip(i, j, node, strict=True)):
            p, q = (np.ravel_multi_index(k, shape) for k in (i, j))
            largest = max(largest, float(((b[:, p] - b[:, q]) ** 2).sum()))
    return largest


def joint(plan: Plan, may_leave: bool = False) -> JointDistance:
    return JointDistance.of(plan.closure, plan.strategies, may_leave)


@pytest.mark.parametrize("may_leave", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_the_largest_sum_is_that_of_all_sets(name: str, may_leave: bool) -> None:
    plan = PLANS[name]()
    for _ in range(4):
        x = precisions(plan)
        found = float(joint(plan, may_leave).largest(x))
        assert found == pytest.approx(by_brute_force(plan, x, may_leave), rel=1e-9)


def test_the_largest_sum_is_exact() -> None:
    """Scaled by a rational number, the sum is as many times as large, to the last digit."""
    plan = mixed()
    x = precisions(plan)
    found = joint(plan).largest(x)
    assert joint(plan).largest([Fraction(1, 3) * v for v in x]) * 3 == found
    assert joint(plan).largest([Fraction(10) ** 400 * v for v in x]) == found * Fraction(10) ** 400


def test_very_many_equal_sums_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = mixed()
    x = precisions(plan)
    exact = joint(plan).largest(x)
    monkeypatch.setattr(joint_distance, "COMPARED", 0)
    assert exact <= joint(plan).largest(x) <= exact * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("sets", [1, 2, 5])
@pytest.mark.parametrize("name", ["marginals", "mixed"])
def test_too_many_sets_have_an_upper_bound(name: str, sets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes that are left free: between the exact sum and the sum of the nodes' own maxima."""
    plan = PLANS[name]()
    x = precisions(plan)
    exact = joint(plan, True).largest(x)
    monkeypatch.setattr(joint_distance, "SETS", sets)
    bounded = joint(plan, True)
    assert len(bounded.matrix) <= sets + 1
    assert bounded.free.any()
    pairs = sum(plan.strategies[c].pair_sensitivity_squared * x[c] * m for c, m in members(plan))
    longest = sum(plan.strategies[c].sensitivity_squared * x[c] * m for c, m in members(plan))
    assert exact <= bounded.largest(x) <= max(pairs, longest) * (1 + Fraction(1, 10**9))
    if sets == 1:
        assert bounded.largest(x) == pytest.approx(float(max(pairs, longest)), rel=1e-9)


def members(plan: Plan) -> list[tuple[int, int]]:
    return list(enumerate(plan.closure.members.tolist()))


def test_equal_attributes_are_told_apart_by_their_number() -> None:
    assert len(joint(marginals(*[2] * 12)).matrix) == 13
    assert len(joint(marginals(2, 2, 3, 3, 3)).matrix) == 3 * 4
    assert len(joint(mixed()).matrix) == 2**3  # a and b differ in what else is asked about them


def test_a_block_is_part_of_what_makes_attributes_equal() -> None:
    a, b, c = (integer(name, 2) for name in "abc")
    odd = Predicate([a, b], np.array([[0, 1], [1, 0]]) > 0, "odd")
    plan = compile(
        workload([a, b, c], family(*map(Marginal, [a, b, c]), choose=(1, 1), name="m"), family(odd, name="odd")),
        neighbours="replace-one",
        blocks=[["odd"]],
    )
    assert len(joint(plan).matrix) == 3 * 2


def test_many_axes_share_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """An upper bound: every set with an attribute of the node stands for its worst pair."""
    exact = marginals(2, 3, 4, 3)
    x = precisions(exact)
    for module in (joint_distance, differing_axes):
        monkeypatch.setattr(module, "MOST_AXES", 1)
    bounded = joint(marginals(2, 3, 4, 3))
    assert joint(exact).largest(x) <= bounded.largest(x)
    assert bounded.largest(x) == pytest.approx(
        float(
            sum(
                s.pair_sensitivity_squared * x[c] * int(exact.closure.members[c])
                for c, s in enumerate(exact.strategies)
            )
        )
    )
    monkeypatch.setattr(joint_distance, "SETS", 1)
    assert joint(marginals(2, 3, 4, 3)).largest(x) == pytest.approx(float(bounded.largest(x)))


def test_one_number_needs_no_set() -> None:
    """Nothing but the number of rows: no set of attributes changes it, and a row that leaves does."""
    a: Attribute = category("a", 3)
    plan = compile(workload([a], family(name="t")))
    assert joint(plan).largest([Fraction(1)]) == 0
    assert joint(plan, True).largest([Fraction(1)]) == pytest.approx(1)
