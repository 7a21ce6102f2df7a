"""Plans that are charged by their worst pair of replaced rows: error, certificate, files, and what is charged alone."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qcompile.api import Plan, compile, load_plan, load_release
from qcompile.errors import StorageError
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Circular, Factor, Marginal, Prefix
from qcompile.queries.schema import Attribute
from tests.conformance.helpers import category, family, integers, some_counts, some_weights, workload
from tests.unit.plan.test_files import edit, members, rewrite

BUDGET = Budget(rho="1/8")


def each(*sizes: int, ways: tuple[int, int], kind: Callable[[Attribute], Factor] = Marginal, **options: Any) -> Plan:
    attributes = [Attribute(f"a{i}", a.domain) for i, a in enumerate(integers(*sizes))]
    made = workload(attributes, family(*map(kind, attributes), choose=ways, name="m"))
    return compile(made, neighbours="replace-one", **options)


def alone(plan: Plan) -> Plan:
    """As a plan of an earlier version: every node charged by its own worst pair."""
    return replace(plan, precisions=None)


SAVED: dict[str, tuple[Callable[[], Plan], float]] = {
    "10 binary, 1-2-way": (lambda: each(*[2] * 10, ways=(1, 2)), 0.5614),
    "8 of 3 values, 1-2-way": (lambda: each(*[3] * 8, ways=(1, 2)), 0.7129),
    "8 of 10 values, 1-2-way": (lambda: each(*[10] * 8, ways=(1, 2)), 0.9118),
    "Adult's categories, 1-2-way": (lambda: each(42, 16, 15, 9, 7, 6, 5, 2, 2, ways=(1, 2)), 0.8292),
}


@pytest.mark.parametrize("name", SAVED)
def test_marginals_are_as_much_better_as_the_semi_infinite_program_says(name: str) -> None:
    """Values of an independent program over all sets of attributes, and a certificate that closes on them."""
    make, ratio = SAVED[name]
    plan = make()
    assert plan.sse() / alone(plan).sse() == pytest.approx(ratio, abs=2e-4)
    assert plan.gap <= 2e-4
    assert plan.sse(4.0) == pytest.approx(plan.sse() / 4)
    assert sum(c.share * c.members for c in plan.classes) == pytest.approx(1)


PLANS: dict[str, Callable[[], Plan]] = {
    "prefix": lambda: each(4, 3, 3, ways=(0, 2), kind=Prefix),
    "circular": lambda: each(4, 3, ways=(2, 2), kind=Circular),
    "weighted": lambda: each(4, 3, ways=(1, 2), kind=Prefix, centring={"a0": some_weights(4)}),
    "negative weights": lambda: each(4, 3, ways=(1, 1), kind=Prefix, centring={"a0": np.array([-0.1, 0.4, 0.4, 0.3])}),
    "two rows": lambda: each(4, 3, ways=(0, 2), kind=Prefix, contributions=2),
    "one node": lambda: each(5, ways=(1, 1), kind=Prefix),
}


@pytest.mark.parametrize("name", PLANS)
def test_no_plan_is_worse_than_by_its_nodes_own_pairs(name: str) -> None:
    plan = PLANS[name]()
    assert plan.sse() <= alone(plan).sse() * (1 + 1e-10)
    assert plan.gap >= 0
    assert plan.rmse() <= alone(plan).rmse() * (1 + 1e-3)


def test_the_certificate_holds_for_other_plans() -> None:
    """The bound of one plan is below the error of plans of the same decomposition from other solvers."""
    for name in ("prefix", "circular", "two rows"):
        plan = PLANS[name]()
        least = plan.sse() / (1 + plan.gap)
        for solver in ("rp", "wff"):
            other = replace(plan, solutions=compile(plan.workload, solver=solver).solutions, precisions=None)
            assert least <= other.divided().sse() * (1 + 1e-9)


def test_weighted_centring_and_blocks_have_what_can_be_proven() -> None:
    assert 0 < PLANS["weighted"]().gap < 1.5
    assert PLANS["negative weights"]().gap > PLANS["weighted"]().gap
    a, b = integers(3, 3)
    made = workload([a, b], family(Abs([a, b], [1, -1]), name="abs"), family(Prefix(a), name="a"))
    assert compile(made, neighbours="replace-one", blocks=[["abs"]]).gap < np.inf
    assert compile(made, neighbours="replace-one", blocks=[["abs", "a"]]).gap == np.inf


def test_a_plan_comes_back(tmp_path: pathlib.Path) -> None:
    plan = PLANS["prefix"]()
    path = tmp_path / "p.plan"
    plan.save(path)
    stored = load_plan(path)
    assert stored.precisions == plan.precisions
    assert stored.scales(BUDGET.rho) == plan.scales(BUDGET.rho)
    assert stored.gap == plan.gap


def test_an_earlier_plan_keeps_its_scales_and_its_release(tmp_path: pathlib.Path) -> None:
    """Its file does not divide the budget over joint costs, so that every node is charged by itself, as it was."""
    plan = alone(PLANS["prefix"]())
    path = tmp_path / "p.plan"
    plan.save(path)
    stored = load_plan(path)
    assert stored.precisions is None
    assert stored.joint is None
    scales = stored.scales(BUDGET.rho)
    total = sum(s.cost * int(m) for s, m in zip(scales, stored.closure.members, strict=True))
    assert 2 * BUDGET.rho * (1 - Fraction(1, 10**9)) <= total <= 2 * BUDGET.rho
    release = stored.run({plan.workload.schema.names: some_counts(plan.workload.schema)}, BUDGET)
    release.save(tmp_path / "r.release")
    assert load_release(tmp_path / "r.release").scales == scales


@pytest.mark.parametrize("noise", ["rounded", "opendp"])
def test_a_release_comes_back(noise: str, tmp_path: pathlib.Path) -> None:
    """OpenDP accounts for each measurement by itself: its scales are those of the nodes' own pairs."""
    plan = PLANS["prefix"]()
    release = plan.run({plan.workload.schema.names: some_counts(plan.workload.schema)}, BUDGET, noise=noise)
    release.save(tmp_path / "r.release")
    assert load_release(tmp_path / "r.release").scales == release.scales
    expected = plan.scales(BUDGET.rho, jointly=noise == "rounded")
    for s, t in zip(release.scales, expected, strict=True):
        assert s.sigma == pytest.approx(t.sigma, rel=1e-3)
    assert plan.scales(BUDGET.rho) != plan.scales(BUDGET.rho, jointly=False)


def test_scales_of_the_other_rule_are_refused(tmp_path: pathlib.Path) -> None:
    """A release that states less noise than its plan gives, by leaving the division out or putting it in."""
    plan = PLANS["prefix"]()
    release = plan.run({plan.workload.schema.names: some_counts(plan.workload.schema)}, BUDGET)
    replace(release, scales=plan.scales(BUDGET.rho, jointly=False)).save(tmp_path / "r.release")
    with pytest.raises(StorageError, match="contradict its charge"):
        load_release(tmp_path / "r.release")


FORGED: dict[str, Callable[[list[Any]], object]] = {
    "one too few": lambda x: x.pop(),
    "negative": lambda x: x.__setitem__(1, -1.0),
    "text": lambda x: x.__setitem__(1, "1"),
    "none for a node with noise": lambda x: x.__setitem__(1, 0.0),
    "some for a public node": lambda x: x.__setitem__(0, 1.0),
    "beyond reason": lambda x: x.__setitem__(1, 1e200),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_divisions_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p.plan"
    PLANS["prefix"]().save(path)

    def forge(document: dict[str, Any]) -> None:
        FORGED[name](document["precisions"])

    rewrite(path, edit(members(path), forge))
    with pytest.raises(StorageError, match="precisions"):
        load_plan(path)


def test_a_division_of_added_rows_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p.plan"
    a = category("a", 3)
    compile(workload([a], family(Marginal(a)))).save(path)
    rewrite(path, edit(members(path), lambda d: d.update(precisions=[1.0] * len(d["solutions"]))))
    with pytest.raises(StorageError, match="absent where rows are added or removed"):
        load_plan(path)


def test_any_division_costs_what_is_charged(tmp_path: pathlib.Path) -> None:
    """A file divides the budget as it likes; what it costs is computed."""
    path = tmp_path / "p.plan"
    PLANS["prefix"]().save(path)
    rewrite(
        path, edit(members(path), lambda d: d.update(precisions=[x * 3.0**i for i, x in enumerate(d["precisions"])]))
    )
    forged = load_plan(path)
    assert forged.joint is not None
    cost = forged.joint.largest(
        [1 / Fraction(s.sigma) ** 2 if s.sigma else Fraction(0) for s in forged.scales(BUDGET.rho)]
    )
    assert 2 * BUDGET.rho * (1 - Fraction(1, 10**9)) <= cost <= 2 * BUDGET.rho
    assert forged.sse() > PLANS["prefix"]().sse()
