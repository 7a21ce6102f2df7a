"""A prepared run is what a dry run shows and what is executed, and nothing about it is worked out twice."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.cli.app import execute as command
from qcompile.data.datasets.dataset import TableDataset
from qcompile.data.datasets.opened import OpenedTable
from qcompile.errors import BudgetError, OptionError, StorageError
from qcompile.plan import document
from qcompile.plan.plan import Plan
from qcompile.privacy import budget as budgets
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.run import prepare as preparing
from qcompile.run.execute import PreparedRun

SOURCE = """
schema { a : integer 0..4 clip
  b : category {"x", "y"} other "z" }
workload { m : prefix(a)
  both : marginal(a, b) }
"""
TABLE = "a,b\n0,x\n3,y\n3,x\n"


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.q").write_text(SOURCE)
    (tmp_path / "t.csv").write_text(TABLE)
    Ledger.create("l", qc.Budget(rho=1))
    return tmp_path


@pytest.fixture
def plan() -> qc.Plan:
    return qc.compile(SOURCE)


def count_calls(monkeypatch: pytest.MonkeyPatch, places: dict[str, tuple[Any, str]]) -> Counter[str]:
    """Count the calls of functions, by a name of their own, while the test lasts."""
    calls: Counter[str] = Counter()

    def watch(label: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            calls[label] += 1
            return original(*args, **options)

        return watched

    for label, (owner, name) in places.items():
        monkeypatch.setattr(owner, name, watch(label, getattr(owner, name)))
    return calls


def test_one_run_does_everything_once(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places: dict[str, tuple[Any, str]] = {
        "prepare": (preparing, "prepare"),
        "conversion of the budget": (budgets, "rho_from_epsilon"),
        "charge": (Ledger, "charge"),
        "serialisation": (document, "plan_data"),
        "scales": (Plan, "scales"),
        "execute": (PreparedRun, "open"),
        "opening of the data": (TableDataset, "connect"),
        "reading of the data": (OpenedTable, "counts"),
    }
    budgets._convert.cache_clear()
    calls = count_calls(monkeypatch, places)
    hashed = Counter[str]()
    original = document.content_hash
    monkeypatch.setattr(document, "content_hash", lambda data: hashed.update(["plan hash"]) or original(data))
    budget = ["--epsilon", "1.01", "--delta", "1e-9"]
    assert command(["run", "w.q", "--data", "t.csv", *budget, "--ledger", "l", "-o", "x.release"]) == 0
    assert calls == dict.fromkeys(places, 1)
    assert hashed == {"plan hash": 1}


def test_the_dry_run_is_the_run(plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    ledger = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    prepared = qc.prepare(plan, qc.Budget(rho="1/3"), ledger=ledger)
    assert prepared.remaining == Fraction(2, 3)
    assert ledger.spent == 0
    assert repr(prepared) == f"<PreparedRun: batch of {plan.queries} queries, rho 0.333333, noise 'rounded'>"
    release = prepared.execute({"a": [1, 2], "b": ["x", "?"]})
    assert release.provenance is prepared.terms
    assert [e.charge.rho for e in ledger.entries] == [prepared.charge.rho] == [Fraction(1, 3)]
    assert ledger.entries[0].charge.time > ""
    assert sum(v.size for v in release.values) == prepared.prediction.draws
    sigmas = [s.sigma for s in release.scales]
    assert (min(sigmas), max(sigmas)) == prepared.prediction.sigma
    assert type(release) is qc.Release
    assert type(release.plan) is qc.Plan
    assert type(prepared.plan) is qc.Plan


def test_a_prepared_run_can_be_executed_again_and_is_charged_again(plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    ledger = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    prepared = qc.prepare(plan, qc.Budget(rho="2/3"), ledger=ledger)
    prepared.execute({"a": [1], "b": ["x"]})
    with pytest.raises(BudgetError, match="too little left"):
        prepared.execute({"a": [1], "b": ["x"]})
    assert len(ledger.entries) == 1


def test_an_adaptive_run_is_prepared(plan: qc.Plan) -> None:
    prepared = qc.prepare(plan, qc.Budget(rho=1), mechanism="adaptive", test_seed=1)
    assert prepared.prediction.draws is None
    release = prepared.execute({"a": [1] * 50, "b": ["x"] * 50})
    assert release.history is not None
    assert release.provenance is prepared.terms


def test_counts_cannot_lose_rows(plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    ledger = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    counts: Any = {("a", "b"): np.ones((5, 3), dtype=np.int64)}
    with pytest.raises(OptionError, match="no rows to leave out; prepare the run with strict_values=True"):
        qc.prepare(plan, qc.Budget(rho="1/4"), ledger=ledger).execute(counts)
    for release in (
        qc.prepare(plan, qc.Budget(rho="1/4"), ledger=ledger, strict_values=True).execute(counts),
        plan.run(counts, qc.Budget(rho="1/4"), ledger=ledger),
    ):
        assert release.provenance.stamps == ()


@pytest.mark.parametrize("output", ["nowhere/x.release", "."])
def test_an_output_that_cannot_be_written_is_refused_before_all(
    plan: qc.Plan, output: str, folder: pathlib.Path
) -> None:
    with pytest.raises(StorageError):
        qc.prepare(plan, qc.Budget(rho=1), output=output)


def test_data_that_was_opened_and_not_read_leaves_no_trace(plan: qc.Plan, folder: pathlib.Path) -> None:
    before = sorted(folder.iterdir())
    with qc.prepare(plan, qc.Budget(rho=1), output="x.release").open("t.csv"):
        assert (folder / "x.release.unfinished").is_dir()
    assert sorted(folder.iterdir()) == before


def test_policies_are_asked_for_by_name(folder: pathlib.Path) -> None:
    strict = qc.compile("schema { a : integer 0..4\n b : integer 0..1 clip } workload { marginal(a, b) }")
    with pytest.raises(OptionError, match=r"^'a' has no policy for missing or out-of-domain values"):
        qc.prepare(strict, qc.Budget(rho=1), ledger="l")
    assert qc.prepare(strict, qc.Budget(rho="1/100"), ledger="l", strict_values=True).terms.stamps == ()
