"""A run over rows that stand for many: what is protected, how large the noise is, and where both are said."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.cli.app import execute
from qcompile.errors import BudgetError, OptionError, StorageError
from qcompile.plan.document import PlanDocument
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.unit import CountColumn
from qcompile.release.provenance import COUNTS_LEFT_OUT
from tests.unit.plan.test_files import edit, members, rewrite

SOURCE = """schema { x : integer 0..3 clip
  y : category {"a", "b"} other "?" }
workload { both : marginal(x, y)
  sums : prefix(x) }
"""
DATA = {"x": [0, 1, 3, 3], "y": ["a", "b", "a", "a"], "n": [250.0, 3.0, 0.0, 7.0], "w": [0.29, 1.5, 7.0, 0.0]}
RHO = Budget(rho="1/8")

MEANING = {
    "units": "one unit of the count column 'n' added or removed",
    "cut": "one row of the data, which counts for up to 250 by column 'n', added or removed",
    "weights": "one row of the data, which counts for up to 2 (in steps of 0.01) by column 'w', added or removed",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "units": {"count_column": "n"},
    "cut": {"count_column": "n", "max_count": 250},
    "weights": {"count_column": "w", "max_count": 2, "count_step": "0.01"},
}
FACTOR = {"units": 1, "cut": 250, "weights": 2}
STEP = {"units": 1.0, "cut": 1.0, "weights": 0.01}
EXACT: dict[str, list[float]] = {"units": [250, 3, 0, 7], "cut": [250, 3, 0, 7], "weights": [0.29, 1.5, 2, 0]}


@pytest.fixture(scope="module")
def plan() -> qc.Plan:
    return qc.compile(SOURCE)


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.q").write_text(SOURCE)
    lines = zip(*DATA.values(), strict=True)
    (tmp_path / "t.csv").write_text("x,y,n,w\n" + "".join(f"{x},{y},{n},{w}\n" for x, y, n, w in lines))
    return tmp_path


def words(name: str) -> list[str]:
    return [w for key, value in OPTIONS[name].items() for w in ("--" + key.replace("_", "-"), str(value))]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert execute(arguments) == 0
    return capsys.readouterr().out


# --- the size of the noise ---


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("contributions", [1, 3])
@pytest.mark.parametrize("name", OPTIONS)
def test_the_noise_follows_the_largest_count(name: str, contributions: int, neighbours: str) -> None:
    """To the last digit of the exact scales: as in a plan for as many rows of a unit as a row can count steps."""
    source = SOURCE.replace("clip", "drop")  # so that the number of rows is public in neither
    plan = qc.compile(source, contributions=contributions, neighbours=neighbours)
    steps = int(FACTOR[name] / STEP[name])
    same = qc.compile(source, contributions=contributions * steps, neighbours=neighbours)
    run = plan.run(DATA, RHO, **OPTIONS[name])
    assert run.scales == same.scales(Fraction(1, 8))
    joint = run.plan.joint
    if joint is None:
        cost = sum(s.cost * m for s, m in zip(run.scales, plan.closure.members.tolist(), strict=True))
    else:
        cost = joint.largest([1 / Fraction(s.sigma) ** 2 for s in run.scales]) * (contributions * steps) ** 2
    assert Fraction(999, 4000) <= cost <= Fraction(1, 4)
    predicted = plan.summary(RHO).column("rmse").to_numpy() * FACTOR[name]
    np.testing.assert_allclose(run.plan.summary(RHO).column("rmse").to_numpy(), predicted, rtol=1e-9)
    errors = run.answers("both").column("std_error").to_numpy()
    plain = plan.run({k: DATA[k] for k in "xy"}, RHO).answers("both").column("std_error").to_numpy()
    np.testing.assert_allclose(errors, FACTOR[name] * plain, rtol=1e-4)  # the grid is another part of sigma
    np.testing.assert_allclose(errors, run.plan.summary(RHO).column("max_std_error").to_numpy()[0], rtol=1e-4)


def test_a_public_number_of_rows_is_none_of_counts_up_to_a_maximum() -> None:
    """Rows that replace each other may count for different numbers, so that the total has noise."""
    plan = qc.compile(SOURCE.replace("clip", 'other "?"'), neighbours="replace-one")
    assert plan.unit.public_total
    for options, public in ((OPTIONS["units"], True), (OPTIONS["cut"], False)):
        release = plan.run(DATA, RHO, **options)
        assert (release.ask("total").std_error == 0) == public
        assert any("released exactly" in stamp for stamp in release.provenance.stamps) == public
        sensitivities = [release.plan.unit.sensitivity_squared(s) for s in plan.strategies]
        for scale, sensitivity in zip(release.scales, sensitivities, strict=True):
            assert scale.cost == (sensitivity / Fraction(scale.sigma) ** 2 if scale.sigma else 0)


@pytest.mark.parametrize("name", ["cut", "weights"])
def test_the_delivered_noise_is_that_of_the_largest_count(name: str) -> None:
    """4,000 cells that nobody is in, by their own standard errors; a scale 10 % off would be rejected."""
    plan = qc.compile("schema { x : integer 0..3999 drop } workload { marginal(x) }")
    column = OPTIONS[name]["count_column"]
    release = plan.run({"x": [0], column: [0.0]}, RHO, test_seed=7, **OPTIONS[name])
    family = plan.workload.families[0].name
    noise = release.answers(family).column("estimate").to_numpy()
    expected = FACTOR[name] * plan.summary(RHO).column("rmse").to_numpy()[0]
    ratio = float((noise**2).mean()) / expected**2
    assert abs(ratio - 1) < 4 * math.sqrt(2 / 4000)
    assert abs(ratio * 1.1**2 - 1) > 4 * math.sqrt(2 / 4000)
    assert abs(ratio * 0.9**2 - 1) > 4 * math.sqrt(2 / 4000)


# --- the answers ---


@pytest.mark.parametrize("noise", ["rounded", "opendp", "none"])
@pytest.mark.parametrize("name", OPTIONS)
def test_answers_are_in_counts(name: str, noise: str, plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    release = plan.run(DATA, Budget(rho=10**10), noise=noise, **OPTIONS[name])
    release.save(tmp_path / "r")
    for held in (release, qc.load_release(tmp_path / "r")):
        x, y = [0, 1, 3, 3], [0, 1, 0, 0]
        table = np.zeros((4, 3))
        np.add.at(table, (x, y), EXACT[name])
        np.testing.assert_allclose(held.answers("both").column("estimate").to_numpy(), table.ravel(), atol=0.05)
        np.testing.assert_allclose(held.answers("sums").column("estimate"), table.sum(1).cumsum(), atol=0.05)
        np.testing.assert_allclose(held.marginal(["y", "x"]).array, table.T, atol=0.05)
        np.testing.assert_allclose(held.marginal(["x"], estimate="best").array, table.sum(1), atol=0.05)
        assert held.ask("count(x = 1)").estimate == pytest.approx(EXACT[name][1], abs=0.05)
        assert held.ask("count(x = 1)").std_error == pytest.approx(
            FACTOR[name] * plan.run({k: DATA[k] for k in "xy"}, Budget(rho=10**10)).ask("count(x = 1)").std_error,
            rel=1e-3,
        )
        assert held.measured(0).tolist() == pytest.approx([sum(EXACT[name])], abs=0.05)


@pytest.mark.parametrize("basis", ["compiled", "residual"])
@pytest.mark.parametrize("name", OPTIONS)
def test_an_adaptive_run_protects_the_same(name: str, basis: str, plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    """Its noise and its selections: a score moves by as many steps as a row can count."""
    run: Callable[..., qc.Release] = plan.run
    release = run(DATA, Budget(rho=10**7), mechanism="adaptive", basis=basis, **OPTIONS[name])
    plain = run({k: DATA[k] for k in "xy"}, Budget(rho=10**7), mechanism="adaptive", basis=basis)
    assert release.history is not None
    assert plain.history is not None
    first, other = (h.rounds[0].steps[0].scale.sigma for h in (release.history, plain.history))
    assert first == pytest.approx(other * FACTOR[name] / STEP[name], rel=1e-9)
    chosen, others = (
        [(r.selection.scale, r.selection.cost) for r in h.rounds if r.selection]
        for h in (release.history, plain.history)
    )
    assert chosen[0][0] == pytest.approx(others[0][0] * FACTOR[name] / STEP[name], rel=1e-9)
    assert release.rounds().column("least_sigma")[0].as_py() == pytest.approx(first * STEP[name])
    release.save(tmp_path / "r")
    for held in (release, qc.load_release(tmp_path / "r")):
        assert held.ask("count(x = 0)", estimate="best").estimate == pytest.approx(EXACT[name][0], abs=1)
        assert held.variances[1] == pytest.approx(release.variances[1])
    document = {"units": "", "cut": "2", "weights": "1"}[name]
    if document:
        rewrite(tmp_path / "s", edit(members(tmp_path / "r"), lambda d: d["provenance"].update(max_count=document)))
        with pytest.raises(StorageError, match="contradict"):
            qc.load_release(tmp_path / "s")


# --- where it is said ---


@pytest.mark.parametrize("name", OPTIONS)
def test_it_is_said_wherever_a_guarantee_is(
    name: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str], plan: qc.Plan
) -> None:
    """What one row stands for decides what is protected: 250 people, or one of them."""
    meaning, run = f"neighbouring tables differ in {MEANING[name]}", ["run", "w.q", "--data", "t.csv", "--rho", "1/8"]
    Ledger.create("l", Budget(rho=1))
    assert f"privacy: {meaning}\n" in printed(capsys, *run, *words(name), "--dry-run")
    assert f"privacy: {meaning}\n" in printed(capsys, *run, *words(name), "--ledger", "l", "-o", "r")
    shown = printed(capsys, "inspect", "r")
    assert shown.count(meaning) == 2  # of the release, and of the plan in it
    assert "one row added or removed" not in shown
    terms = json.loads(printed(capsys, "inspect", "r", "--json"))["release"]
    assert {k: terms.get(k) for k in OPTIONS[name]} == {
        k: v if k == "count_column" else str(Fraction(v)) for k, v in OPTIONS[name].items()
    }
    counted = str(CountColumn.of(**{"name": OPTIONS[name]["count_column"]}, **_numbers(name)))
    assert counted in printed(capsys, "ledger", "show", "l")
    assert f"rows: {counted}" in repr(qc.load_release("r"))
    assert f"rows: {counted}" in repr(qc.prepare(plan, RHO, **OPTIONS[name]))
    assert str(qc.load_release("r").plan.unit) == MEANING[name]
    assert meaning in qc.load_release("r").plan.explain()


def _numbers(name: str) -> dict[str, Any]:
    return {"most": OPTIONS[name].get("max_count"), "step": OPTIONS[name].get("count_step")}


def test_a_plan_is_the_same_whatever_its_runs_count(plan: qc.Plan) -> None:
    hashes = {PlanDocument.of(plan).hash}
    for options in OPTIONS.values():
        prepared = qc.prepare(plan, RHO, **options)
        hashes |= {prepared.document.hash, prepared.terms.plan_hash, prepared.charge.plan}
        assert plan.counted is None
        assert PlanDocument.of(prepared.plan).hash in hashes
    assert len(hashes) == 1


def test_searched_designs_save_the_same_part_of_the_error() -> None:
    """The plain decomposition was costed for rows; both are of rows of the data."""
    plan = qc.compile(SOURCE, centring="optimised", blocks="auto")
    release = plan.run(DATA, RHO, **OPTIONS["cut"])
    design = [[line for line in p.explain().splitlines() if " design " in line] for p in (plan, release.plan)]
    assert design[0] == design[1]
    assert "plain decomposition" in design[0][0]


def test_a_ledger_says_that_rows_are_left_out(plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    """Whatever the data; without a ledger they are refused."""
    book = Ledger.create(tmp_path / "l", Budget(rho=10))
    for options, found in (({"ledger": book}, True), ({}, False), ({"ledger": book, "strict_values": True}, False)):
        release = plan.run(DATA, RHO, **OPTIONS["units"], **options)
        assert (COUNTS_LEFT_OUT in release.provenance.stamps) == found
    assert (
        COUNTS_LEFT_OUT
        not in plan.run(
            {k: DATA[k] for k in "xy"}, RHO, ledger=Ledger.create(tmp_path / "m", Budget(rho=1))
        ).provenance.stamps
    )


# --- the ledger ---


def test_units_of_a_column_and_rows_do_not_add_up(plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    """A row of the data is protected by the sum of what its runs spent, with or without a largest count."""
    rows, units = (Ledger.create(tmp_path / name, Budget(rho=10)) for name in ("rows", "units"))
    plan.run(DATA, RHO, ledger=rows)
    plan.run(DATA, RHO, ledger=units, **OPTIONS["units"])
    for book, options in ((rows, OPTIONS["units"]), (units, {}), (units, OPTIONS["cut"])):
        with pytest.raises(BudgetError, match=r"privacy units do not add up.* with max_count"):
            plan.run(DATA, RHO, ledger=book, **options)
    with pytest.raises(BudgetError, match=r"each unit of the count column 'n'.*each unit of the count column 'w'"):
        plan.run(DATA, RHO, ledger=units, count_column="w")
    for options in (OPTIONS["cut"], OPTIONS["weights"], OPTIONS["cut"] | {"max_count": 9}):
        plan.run(DATA, RHO, ledger=rows, **options)
    assert rows.spent == Fraction(4, 8)
    assert [e.charge.budget.partition(", rows count for ")[2] for e in rows.entries] == [
        "",
        "up to 250 by column 'n'",
        "up to 2 (in steps of 0.01) by column 'w'",
        "up to 9 by column 'n'",
    ]


# --- what is refused ---


def test_more_steps_than_a_unit_can_have_are_refused() -> None:
    plan = qc.compile(SOURCE, contributions=10**6)
    with pytest.raises(OptionError, match="times max_count is beyond"):
        qc.prepare(plan, RHO, count_column="n", max_count=1001)


def test_counts_made_elsewhere_have_no_column(plan: qc.Plan) -> None:
    with pytest.raises(OptionError, match="cannot be used with counts"):
        plan.run({("x", "y"): np.zeros((4, 3), dtype=int)}, RHO, **OPTIONS["cut"])


FORGED: dict[str, dict[str, Any]] = {
    "less noise than a row needs": {"max_count": "251"},
    "no largest count": {"max_count": None},
    "finer steps": {"count_step": "1/2"},
    "no multiple": {"max_count": "250", "count_step": "7"},
    "no number": {"max_count": 250},
    "an exponent": {"max_count": "1e999999999"},
    "nothing": {"max_count": "0"},
    "no column": {"count_column": None},
    "an empty name": {"count_column": ""},
    "a list": {"count_column": ["n"]},
}


@pytest.mark.parametrize("name", FORGED)
def test_a_release_that_states_other_counts_is_refused(name: str, plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    plan.run(DATA, RHO, **OPTIONS["cut"]).save(tmp_path / "r")
    rewrite(tmp_path / "s", edit(members(tmp_path / "r"), lambda d: d["provenance"].update(FORGED[name])))
    with pytest.raises(StorageError):
        qc.load_release(tmp_path / "s")
