"""What changed between two plans: every kind of change is found, nothing is reported where nothing changed."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib

import numpy as np
import pytest

from qcompile.api import Plan, compile, load_plan
from qcompile.cli.app import execute
from qcompile.inspection.diff import TOLERANCE, Change, as_json, diff
from qcompile.inspection.diff_text import text
from qcompile.plan.files import save_plan
from qcompile.queries.factors import Marginal, Prefix, Range
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema
from qcompile.queries.workload import Family, Workload
from qcompile.release.files import schema_hash

AGE = Attribute("age", IntegerDomain(0, 7))
SEX = Attribute("sex", CategoryDomain(("f", "m")))
ZIP = Attribute("zip", CategoryDomain((1, 2, 3)))


def plan(*families: Family, attributes: tuple[Attribute, ...] = (AGE, SEX, ZIP), **options: object) -> Plan:
    return compile(Workload(Schema(attributes), families), **options)  # type: ignore[arg-type]


def ages(weight: float = 1.0, age: Attribute = AGE) -> Family:
    return Family("ages", "prefix(age)", (Prefix(age),), weight)


BOTH = Family("both", "prefix(age) * marginal(sex)", (Prefix(AGE), Marginal(SEX)))
ZIPS = Family("zips", "marginal(zip)", (Marginal(ZIP),))


def test_the_same_plan_has_no_differences(tmp_path: pathlib.Path) -> None:
    one, two = plan(ages(), BOTH), plan(ages(), BOTH)
    save_plan(two, tmp_path / "p")
    for other in (one, two, load_plan(tmp_path / "p"), plan(BOTH, ages())):
        found = diff(one, other)
        assert found.same
        assert text(found).startswith("the plans are the same")
        assert as_json(found)["same"] is True
        assert (found.schema, found.options, found.families, found.nodes) == ((), (), (), ())


def test_rounding_is_no_difference_and_more_is() -> None:
    one = plan(ages(), BOTH)
    for step, same in ((TOLERANCE / 100, True), (TOLERANCE * 100, False)):
        solutions = tuple(dataclasses.replace(s, loss=s.loss * (1 + step)) for s in one.solutions)
        assert diff(one, Plan(one.workload, one.closure, solutions, one.options)).same == same


def test_families_added_removed_and_changed() -> None:
    one, two = plan(ages(), BOTH), plan(ages(weight=4.0), ZIPS)
    found = {f.name: f for f in diff(one, two).families}
    assert list(found) == ["ages", "both", "zips"]
    assert found["ages"].changes == ("weight", "error")
    assert found["ages"].weight == (1.0, 4.0)
    rmse = [math.sqrt(p.family_errors(p.workload.family("ages")).total / 8) for p in (one, two)]
    assert found["ages"].rmse == pytest.approx(rmse, rel=1e-12)
    assert found["ages"].ratio == pytest.approx(rmse[1] / rmse[0], rel=1e-12)
    assert (found["both"].changes, found["both"].queries, found["both"].rmse[1]) == (("removed",), (16, None), None)
    assert (found["zips"].changes, found["zips"].weight, found["zips"].ratio) == (("added",), (None, 1.0), None)


def test_other_queries_under_the_same_name() -> None:
    ranges = Family("ages", "range(age)", (Range(AGE),))
    (found,) = diff(plan(ages()), plan(ranges)).families
    assert found.changes == ("queries", "error")
    assert found.queries == (8, 36)
    one, two = ({"age": u} for u in (np.full(8, 1 / 8), np.arange(1, 9) / 36))
    (found,) = diff(plan(ages(), centring=one), plan(ages(), centring=two)).families
    assert found.changes == ("error",)


def test_the_schema() -> None:
    older = Attribute("age", IntegerDomain(0, 9), Policy("clip"))
    bins = Attribute("zip", NumericDomain((0.0, 2.5, 4.0), closed=False))
    other = Attribute("sex", CategoryDomain(("f", "m")), Policy("other", 'no "answer"'))
    hour = Attribute("hour of day", IntegerDomain(0, 5), cyclic=True)
    found = diff(plan(ages()), plan(ages(age=older), attributes=(older, other, bins, hour))).schema
    assert [(c.name, c.first, c.second) for c in found] == [
        ("age", "integer 0..7", "integer 0..9 clip"),
        ("sex", 'category {"f", "m"}', 'category {"f", "m"} other "no \\"answer\\""'),
        ("zip", "category {1, 2, 3}", "numeric [0, 2.5, 4)"),
        ("`hour of day`", None, "integer 0..5 cyclic"),
    ]
    (moved,) = diff(plan(ages()), plan(ages(), attributes=(ZIP, AGE, SEX))).schema
    assert (moved.name, moved.first, moved.second) == ("(order)", "age, sex, zip", "zip, age, sex")


def test_options_and_totals() -> None:
    one, two = plan(ages()), plan(ages(), solver="rp", gap=0.01, contributions=3)
    found = diff(one, two)
    assert {c.name: (c.first, c.second) for c in found.options} == {
        "solver": ("auto", "rp"),
        "gap": ("0.001", "0.01"),
        "contributions": ("1", "3"),
    }
    totals = {t.name: t for t in found.totals}
    assert (totals["rmse"].first, totals["rmse"].second) == (one.rmse(), two.rmse())
    assert (totals["sse"].first, totals["sse"].second) == (one.sse(), two.sse())
    assert (totals["gap"].first, totals["gap"].second) == (one.gap, two.gap)
    assert totals["queries"].ratio == 1
    assert totals["nodes"].second == 2


def test_nodes_measured_differently() -> None:
    one, two = plan(ages(), BOTH), plan(ages(), ZIPS, solver="rp")
    found = {n.attributes: n for n in diff(one, two).nodes}
    assert list(found) == [(), ("age",), ("sex",), ("zip",), ("age", "sex")]
    before, after = ({c.attributes: c for c in p.classes} for p in (one, two))
    assert found["age",].share == (before["age",].share, after["age",].share)
    assert found["age",].solver == (before["age",].solver, after["age",].solver)
    assert found["age",].gap[1] == pytest.approx(after["age",].gap)
    assert found["sex",].share[1] is None
    assert found["zip",].solver[0] is None
    for i in (0, 1):
        assert sum(n.share[i] or 0.0 for n in found.values()) == pytest.approx(1, rel=1e-9)


def test_blocks_are_not_the_nodes_on_the_same_attributes() -> None:
    one, two = plan(ages(), BOTH), plan(ages(), BOTH, blocks=[["both"]])
    found = diff(one, two)
    nodes = {(n.block, n.attributes): n for n in found.nodes}
    assert nodes[("both",), ("age", "sex")].share[0] is None
    assert nodes[(), ("age", "sex")].share[1] is None
    totals = {t.name: [t.first, t.second] for t in found.totals}
    assert totals["nodes"] == [4, 2]
    assert totals["blocks"] == [0, 1]
    assert "  block age*sex " in text(found)
    assert {f.name: f.changes for f in found.families} == {"ages": ("error",), "both": ("error",)}
    assert not diff(two, two).nodes


def test_strategies_are_named() -> None:
    one, two = (plan(BOTH, solver="rp+", strategies={"age": s}) for s in ("prefix", "haar"))
    (found,) = diff(one, two).options
    assert found.name == "strategies"
    assert "age=prefix" in (found.first or "")
    assert "age=haar" in (found.second or "")


def test_nodes_of_a_class_are_one_line() -> None:
    many = tuple(Attribute(f"x{i}", IntegerDomain(0, 4)) for i in range(6))

    def of(weight: float) -> Plan:
        pairs = Family("pairs", "each 2 of all", tuple(map(Prefix, many)), weight, (2, 2))
        return plan(pairs, Family("first", "prefix(x0)", (Prefix(many[0]),)), attributes=many)

    found = diff(of(1.0), of(2.0)).nodes
    assert [(n.attributes, n.nodes) for n in found] == [
        ((), 1),
        (("x0",), 1),
        (("x1",), 5),
        (("x0", "x1"), 15),
    ]
    assert sum(n.share[0] or 0.0 for n in found) == pytest.approx(1, rel=1e-9)


def test_text_and_json_are_stable() -> None:
    one, two = plan(ages(), BOTH), plan(ages(weight=4.0), ZIPS, solver="rp")
    shown = text(diff(one, two))
    assert shown == text(diff(plan(ages(), BOTH), plan(ages(weight=4.0), ZIPS, solver="rp")))
    for line in ("solver  auto   rp", "both    removed", "zips    added", "ages    weight, error"):
        assert line in shown
    assert not any(line != line.rstrip() for line in shown.splitlines())
    data = as_json(diff(one, two))
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["totals"]["sse"] == {"first": one.sse(), "second": two.sse()}
    assert data["families"][0]["weight"] == [1.0, 4.0]


def test_an_unproven_gap_is_said_and_null() -> None:
    one = plan(ages())
    unproven = tuple(dataclasses.replace(s, bound=0.0) for s in one.solutions)
    found = diff(one, Plan(one.workload, one.closure, unproven, one.options))
    assert not found.same
    assert "-> unproven" in text(found)
    assert {n["gap"][1] for n in as_json(found)["nodes"]} == {None}
    json.dumps(as_json(found), allow_nan=False)


def test_long_declarations_are_shown_where_they_differ() -> None:
    labels = [f"town number {i}" for i in range(300)]
    lists = [labels, [*labels[:200], "elsewhere", *labels[201:]]]
    towns = [Attribute("town", CategoryDomain(tuple(x))) for x in lists]
    made = [plan(Family("t", "marginal(town)", (Marginal(t),)), attributes=(t,)) for t in towns]
    shown = text(diff(*made))
    assert max(map(len, shown.splitlines())) < 200
    assert '"town number 200"' in shown
    assert '"elsewhere"' in shown


def test_many_changes_are_cut_with_a_count() -> None:
    def of(weight: float) -> Plan:
        return plan(*(Family(f"f{i}", "prefix(age)", (Prefix(AGE),), weight if i else 1.0) for i in range(50)))

    shown = text(diff(of(1.0), of(2.0)))
    assert "  ... 9 more families" in shown


def test_command(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    schema = "schema { age : integer 0..7 }\n"
    (tmp_path / "a.q").write_text(schema + "workload { ages : prefix(age) }\n")
    (tmp_path / "b.q").write_text(schema + "workload { ages : range(age) }\n")
    assert execute(["compile", "a.q"]) == 0
    capsys.readouterr()
    assert execute(["diff", "a.plan", "a.q"]) == 0
    assert capsys.readouterr().out.startswith("the plans are the same")
    assert execute(["diff", "a.plan", "b.q"]) == 0
    assert "queries, error" in capsys.readouterr().out
    assert execute(["diff", "a.plan", "b.q", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["same"] is False
    assert data["families"][0]["queries"] == [8, 36]


def test_where_a_schema_comes_from_is_compared() -> None:
    text = "{ a: integer 0..3 } workload { p: prefix(a) }"
    one, two = compile(f"schema {text}"), compile(f"schema read_from_data {text}")
    assert diff(one, two).schema == (Change("(origin)", "declared", "read from the data"),)
    assert not diff(one, two).same
    assert "READ FROM THE DATA" in two.explain()
    assert schema_hash(one) != schema_hash(two)
