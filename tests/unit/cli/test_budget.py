"""``qcompile budget``, and targets in ``compile`` and ``inspect``."""

from __future__ import annotations

import json
import pathlib

import pytest

from qcompile.api import load_plan
from qcompile.cli.app import execute

WORKLOAD = """
schema { age : integer 0..15; b : integer 0..7 }
workload {
  ages  : prefix(age) target 5
  x     : marginal(b) target 2.5 % max
  total target 100
}
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "w.q").write_text(WORKLOAD)
    (tmp_path / "plain.q").write_text(WORKLOAD.replace(" target 5", ""))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], line: str, code: int = 0) -> str:
    capsys.readouterr()
    assert execute(line.split()) == code
    out, err = capsys.readouterr()
    return err if code else out


def test_compile_and_inspect_say_what_targets_need(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "compile w.q --total 400 --delta 1e-6")
    plan = load_plan(folder / "w.plan")
    assert "objective: every target is met at privacy cost" in text
    assert f"budget: {plan.budget_for(delta='1e-6').describe()}" in text
    (slack,) = [line for line in text.splitlines() if line.endswith("slack")]
    assert slack.split()[:2] == ["total", "100"]
    assert "2.5 % max" in text
    explained = run(capsys, "inspect w.plan")
    assert explained == plan.explain()
    assert "objective    every target is met" in explained
    told = json.loads(run(capsys, "inspect w.plan --json"))
    assert told["objective"]["name"] == "targets"
    assert told["objective"]["bound"] <= told["objective"]["value"] <= 1.01 * told["objective"]["bound"]
    assert [f["family"] for f in told["objective"]["families"]] == ["ages", "x", "total"]
    assert told["options"]["total"] == 400


def test_the_largest_variance_is_an_objective(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "compile w.q --objective max --blocks yes")
    assert "objective: largest variance of a query" in text
    assert "design: uniform centring, 1 block: largest variance" in text
    assert "objective" not in run(capsys, "compile w.q --objective total -o t.plan")
    assert "was not compiled for targets" in run(capsys, "budget w.plan", 2)


def test_budget_of_targets(folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "compile w.q --total 400")
    plan = load_plan(folder / "w.plan")
    own = run(capsys, "budget w.plan")
    assert f"all of it: {plan.budget_for().describe()}" in own
    (binding,) = [line for line in own.splitlines() if line.endswith("binding")]
    assert binding.split()[:2] == ["ages", "5"]
    told = json.loads(
        run(capsys, "budget w.plan --target ages=5 --target x=1%max --total 300 --margin ages=10 --delta 1e-6 --json")
    )
    assert [t["std_error"] for t in told["targets"]][:2] == [5, 3]
    assert [t["of"] for t in told["targets"]] == ["rmse", "largest", "largest"]
    margin = plan.budget_for("ages", margin=10, simultaneous=True, delta="1e-6")
    assert told["targets"][2]["epsilon"] == float(margin.amount)
    assert [t["binding"] for t in told["targets"]] == [t["rho"] == told["rho"] for t in told["targets"]]
    assert told["budget"]["delta"] == "1e-6"
    assert "all families within 10 (90 %)" in run(capsys, "budget w.plan --margin 10 --confidence 0.9")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compile w.q", "in per cent of a total that nobody stated"),
        ("compile plain.q --total 400", "families without a target beside others that have one: ages"),
        ("compile w.q --total -1", "total must be the number of rows"),
        ("compile w.q --objective most", "objective cannot be 'most'"),
        ("budget w.plan --target ages", "must be FAMILY=STD_ERROR"),
        ("budget w.plan --target ages=1.2.3", "has no number"),
        ("budget w.plan --target ages=2%", "give the number of rows"),
        ("budget w.plan --target age=2", "did you mean 'ages'"),
        ("budget w.plan --margin ages=x", "has no number"),
        ("budget w.plan --margin 5 --confidence 95", "confidence must be between 0 and 1"),
    ],
)
def test_mistakes(folder: pathlib.Path, capsys: pytest.CaptureFixture[str], line: str, message: str) -> None:
    run(capsys, "compile w.q --total 400")
    assert message in run(capsys, line, 2)
