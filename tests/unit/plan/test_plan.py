"""What a plan says about itself: totals, shares, the graph, and the same bytes for the same plan."""

from __future__ import annotations

import math
import os
import pathlib
import subprocess
import sys
from fractions import Fraction
from typing import Any

import networkx as nx
import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.errors import OptionError, SizeError
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Predicate, Prefix, Range
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Schema
from qcompile.queries.workload import Family, Workload
from qcompile.support.arrays import Array


def attribute(name: str, size: int) -> Attribute:
    return Attribute(name, IntegerDomain(0, size - 1))


ROOT = pathlib.Path(__file__).resolve().parents[3]
A, B, C = attribute("a", 5), attribute("b", 4), attribute("c", 5)
SEX = Attribute("sex", CategoryDomain(("f", "m")))


def workload() -> Workload:
    return Workload(
        Schema((A, SEX, B, C)),
        (
            Family("people", "total", ()),
            Family("ages", "prefix(a) * marginal(sex)", (Prefix(A), Marginal(SEX)), weight=2.0),
            Family("gap", "abs(a - c <= *)", (Abs([A, C], [1, -1]),)),
            Family("sums", "affine(a + b <= *) * circular(c)", (Affine([A, B], [1, 1]), Circular(C))),
            Family("each", "each 1..2 of (...)", (Range(A), Prefix(B), Marginal(SEX)), choose=(1, 2)),
        ),
    )


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile(workload())


def test_numbers_are_consistent(plan: Plan) -> None:
    assert plan.queries == workload().queries
    assert plan.views == 9
    classes = plan.classes
    assert sum(c.members for c in classes) == int((plan.closure.class_of >= 0).sum())
    assert sum(c.share * c.members for c in classes) == pytest.approx(1, rel=1e-12)
    losses = sum(c.members * math.sqrt(c.loss) for c in classes)
    assert plan.sse() == pytest.approx(losses**2, rel=1e-12)
    bounds = sum(c.members * math.sqrt(c.bound) for c in classes)
    assert plan.gap == pytest.approx((losses / bounds) ** 2 - 1, abs=1e-12)
    assert 0 <= plan.gap <= 1e-3
    for c in classes:
        assert c.rank <= c.cells
        assert c.gap == pytest.approx(max(0.0, c.loss / c.bound - 1), abs=1e-12)
    weighted = sum(f.weight * plan.family_errors(f).total for f in plan.workload.families)
    assert plan.sse() == pytest.approx(weighted, rel=1e-6)


def test_lattice_carries_the_classes(plan: Plan) -> None:
    graph = plan.lattice
    assert nx.is_directed_acyclic_graph(graph)
    assert set(graph.nodes) == {plan.closure.names(n) for n in plan.closure.nodes}
    wanted = {"attributes", "cells", "rank", "solver", "loss", "bound", "gap", "share"}
    for name, data in graph.nodes(data=True):
        assert set(data) >= wanted
        assert data["attributes"] == name
        assert data["cells"] == math.prod(plan.workload.schema.shape(name))
        below = [b for b in graph.predecessors(name)]
        assert all(len(b) == len(name) - 1 and set(b) < set(name) for b in below)
        assert len(below) == len(name)
    assert sum(d["share"] for _, d in graph.nodes(data=True)) == pytest.approx(1)


def test_measurements_are_the_nodes_in_order_with_their_scales(plan: Plan) -> None:
    budget = Budget(rho="1/49")
    found = list(plan.measurements(budget))
    measured = [n for n, c in zip(plan.closure.nodes, plan.closure.class_of, strict=True) if c >= 0]
    assert [m.attributes for m in found] == [plan.closure.names(n) for n in measured]
    total = sum((m.cost for m in found), Fraction(0))
    assert Fraction(2, 49) * (1 - Fraction(1, 10**9)) <= total <= Fraction(2, 49)
    for m in found:
        assert math.log2(m.grid) == int(math.log2(m.grid))
        assert math.prod(f.shape[1] for f in m.factors) == math.prod(plan.workload.schema.shape(m.attributes))


def test_a_budget_only_rescales(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """No solver runs for another budget, and the strategies are the same objects."""
    from qcompile.solvers.solver import SOLVERS

    def never(*_: Any) -> None:
        raise AssertionError("a budget made a solver run")

    for route in SOLVERS.values():
        monkeypatch.setattr(route, "solve", never)
    one, four = (list(plan.measurements(Budget(cost=c))) for c in (1, 4))
    for m, n in zip(one, four, strict=True):
        assert m.strategy is n.strategy
        assert m.scale == pytest.approx(2 * n.scale, rel=1e-12)
    tables = [plan.summary(Budget(cost=c)).to_pydict() for c in (1, 4)]
    np.testing.assert_allclose(tables[0]["rmse"], 2 * np.array(tables[1]["rmse"]))
    assert tables[0]["share"] == tables[1]["share"]


def test_summary(plan: Plan) -> None:
    table = plan.summary(Budget(rho=2))
    assert table.column_names == ["family", "queries", "rmse", "max_std_error", "share"]
    assert table["family"].to_pylist() == ["people", "ages", "gap", "sums", "each"]
    assert sum(table["queries"].to_pylist()) == plan.queries
    assert sum(table["share"].to_pylist()) == pytest.approx(1, rel=1e-6)
    squares = sum(n * r**2 for n, r in zip(table["queries"].to_pylist(), table["rmse"].to_pylist(), strict=True))
    assert squares == pytest.approx(plan.rmse(4.0) ** 2 * plan.queries, rel=1e-6)
    assert all(m >= r for m, r in zip(table["max_std_error"].to_pylist(), table["rmse"].to_pylist(), strict=True))


def test_explain_is_the_same_for_two_compilations(plan: Plan) -> None:
    text = plan.explain()
    assert compile(workload()).explain() == text
    for name in ("people", "ages", "gap", "sums", "each"):
        assert f"  {name} " in text
    assert "add" in text
    assert f"{plan.queries:,} queries" in text


PROGRAM = """
from tests.unit.plan.test_plan import compile, workload
import sys
sys.stdout.write(compile(workload()).explain())
"""


def test_explain_is_the_same_in_another_process(plan: Plan) -> None:
    """Hash randomisation does not reach the text."""
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            text=True,
        )
        assert found.stdout == plan.explain()


@pytest.mark.parametrize(
    "options",
    [
        {"solver": "sdp"},
        {"gap": 0.0},
        {"gap": 1.0},
        {"gap": math.nan},
        {"centring": "weighted"},
        {"centring": {"zzz": np.ones(1)}},
        {"neighbours": "replace"},
    ],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        compile(workload(), **options)


def test_weights_that_a_caller_gives_change_the_plan_and_are_shown() -> None:
    u: Array = np.array([0.3, 0.15, 0.1, 0.15, 0.3])
    made = compile(workload(), centring={"a": u})
    assert "weighted centring" in made.explain()
    assert made.rmse() != pytest.approx(compile(workload()).rmse(), rel=1e-6)


def test_a_workload_that_is_zero_whatever_the_data_is_refused() -> None:
    never = Family("never", "never", (Predicate([A], np.zeros(5, dtype=bool), "never"),))
    with pytest.raises(OptionError, match="nothing to measure"):
        compile(Workload(Schema((A,)), (never,)))
    both = compile(Workload(Schema((A,)), (never, Family("p", "p", (Prefix(A),)))))
    release = both.run({("a",): np.arange(5)}, Budget(rho=1))
    answer = release.answers("never").to_pydict()
    assert (answer["estimate"], answer["std_error"]) == ([0.0], [0.0])
    assert "never" in both.explain()


def test_a_hundred_attributes_of_a_hundred_values() -> None:
    """mbi#204: 10^200 cells: sizes stay Python integers, and the plan prints."""
    attributes = tuple(attribute(f"x{i}", 100) for i in range(100))
    family = Family("pairs", "each 2 of all", tuple(map(Marginal, attributes)), choose=(2, 2))
    found = compile(Workload(Schema(attributes), (family,)))
    assert found.queries == 4950 * 10**4
    assert found.views == 4950
    assert "49,500,000 queries" in found.explain()
    assert len(found.closure.nodes) == 1 + 100 + 4950
    assert math.isfinite(found.rmse())
    assert math.isfinite(found.sse())


def test_five_thousand_million_circular_queries() -> None:
    attributes = tuple(attribute(f"x{i}", 50) for i in range(40))
    family = Family("arcs", "each 1..2 of all", tuple(map(Circular, attributes)), choose=(1, 2))
    found = compile(Workload(Schema(attributes), (family,)))
    assert found.queries == 4_875_100_000
    assert found.rmse() == pytest.approx(102.1313, rel=5e-6)
    assert found.explain() == compile(Workload(Schema(attributes), (family,))).explain()


def test_a_million_values_are_refused_before_allocation() -> None:
    income = attribute("income", 10**6)
    with pytest.raises(SizeError, match=r"prefix\(income\).*16\.0 TB.*limit is 8\.6 GB.*bins"):
        compile(Workload(Schema((income,)), (Family("p", "p", (Prefix(income),)),)))
