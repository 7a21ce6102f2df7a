"""Refusals with a ledger: before the charge where they depend on nothing confidential, after it where they must."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.data.datasets import opened
from qcompile.data.sources.engine_errors import EXHAUSTED, ExhaustedError
from qcompile.errors import BudgetError, OverspendError, SizeError, StorageError
from qcompile.privacy.ledger import charges
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.run.execute import MOST_ROWS
from qcompile.run.unfinished import folder_of

SOURCE = "schema { a : integer 0..4 drop } workload { m : marginal(a) }"
DATA = {"a": [0, 1, 1], "who": ["x", "y", "z"]}
BUDGET = qc.Budget(rho="1/9")


@pytest.fixture(scope="module")
def plan() -> qc.Plan:
    return qc.compile(SOURCE)


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Ledger:
    return Ledger.create(tmp_path / "l", qc.Budget(rho=1))


def exhausted(error: MemoryError) -> Any:
    def fails(*_: Any) -> Any:
        raise error

    return fails


@pytest.mark.parametrize("error", [ExhaustedError(EXHAUSTED), MemoryError()])
def test_too_little_memory_for_the_data_is_found_after_the_charge(
    error: MemoryError, plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more memory the run is finished, at no further charge."""
    options: Any = {"ledger": ledger, "output": tmp_path / "x", "engine": "duckdb"}
    with monkeypatch.context() as patch:
        patch.setattr(opened, "read_batches", exhausted(error))
        for resume in (False, True):
            with pytest.raises(SizeError, match=r"^reading takes.*; the budget is spent: entry 1 .*--resume") as caught:
                plan.run(DATA, BUDGET, resume=resume, **options)
            assert caught.value.__cause__ is None
            assert ledger.spent == BUDGET.rho
    plan.run(DATA, BUDGET, resume=True, **options)
    assert [e.release for e in ledger.entries] == ["x"]


@pytest.mark.parametrize("mechanism", ["batch", "adaptive"])
def test_without_a_journal_it_is_charged_too(
    mechanism: str, plan: qc.Plan, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "read_batches", exhausted(ExhaustedError(EXHAUSTED)))
    with pytest.raises(SizeError, match=r"the budget is spent: entry 1 of the ledger$"):
        plan.run(DATA, BUDGET, ledger=ledger, mechanism=mechanism)
    assert ledger.spent == BUDGET.rho


def test_without_a_ledger_there_is_nothing_to_charge(
    plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened, "read_batches", exhausted(ExhaustedError(EXHAUSTED)))
    with pytest.raises(SizeError, match=r"max_memory$"):
        plan.run(DATA, BUDGET, output=tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("unit", [None, "who"])
def test_the_limit_of_memory_tells_nothing_about_the_rows(
    unit: str | None, more: int, plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path
) -> None:
    """A row takes a byte: with one row too many they are counted scan by scan."""
    limit = qc.prepare(plan, BUDGET, output=tmp_path / "x").prediction.memory
    rows = np.arange(limit + more)
    options: Any = {"unit": unit, "engine": "memory", "max_memory": limit}
    plan.run({"a": rows % 5, "who": rows}, BUDGET, ledger=ledger, output=tmp_path / "x", **options)
    assert ledger.spent == BUDGET.rho


def test_budgets_for_which_tables_could_be_too_large_are_refused_without_data(
    plan: qc.Plan, tmp_path: pathlib.Path
) -> None:
    """Without a ledger the table decides; with one it must not."""
    ledger, budget = Ledger.create(tmp_path / "rich", qc.Budget(rho=10**12)), qc.Budget(rho=10**11)
    with pytest.raises(BudgetError, match="may not fit into 64 bits; choose a smaller budget"):
        qc.prepare(plan, budget, ledger=ledger)
    qc.prepare(plan, qc.Budget(rho=10**6), ledger=ledger)
    plan.run(DATA, budget)
    with pytest.raises(BudgetError, match="may not fit into 64 bits"):
        plan.run({("a",): [2**52, 0, 0, 0, 0]}, budget)


def test_a_table_past_all_tables_is_charged(plan: qc.Plan, ledger: Ledger) -> None:
    counts = [MOST_ROWS, 0, 0, 0, 0]
    plan.run({("a",): counts}, BUDGET, ledger=ledger)
    counts[1] = 1
    with pytest.raises(SizeError, match=r"takes up to 2\^40 rows; divide the table; the budget is spent: entry 2"):
        plan.run({("a",): counts}, BUDGET, ledger=ledger)


def fills_the_disk(*_: Any) -> Any:
    raise StorageError("the disk is full")


def test_a_charge_that_fails_leaves_no_unfinished_run(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(charges, "insert_charge", fills_the_disk)
        with pytest.raises(StorageError, match=r"^the disk is full$"):
            plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    assert ledger.spent == 0
    assert not folder_of(tmp_path / "x").exists()
    plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")


@pytest.mark.parametrize("lost", ["the charge is on disk", "the ledger is gone"])
def test_a_charge_that_may_be_on_disk_leaves_one(
    lost: str, plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge = Ledger.charge

    def fails_late(self: Ledger, charged: Any) -> int:
        charge(self, charged)
        if lost == "the ledger is gone":
            self.path.rename(tmp_path / "away")
        raise StorageError("the connection is lost")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "charge", fails_late)
        with pytest.raises(StorageError, match="the connection is lost"):
            plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    assert folder_of(tmp_path / "x").is_dir()
    if lost == "the ledger is gone":
        (tmp_path / "away").rename(ledger.path)
    plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x", resume=True)
    assert [e.release for e in ledger.entries] == ["x"]


def test_a_ledger_that_another_run_has_emptied_meanwhile_keeps_nothing(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path
) -> None:
    prepared = qc.prepare(plan, qc.Budget(rho="1/2"), ledger=ledger, output=tmp_path / "x")
    ledger.charge("9/10")
    with pytest.raises(OverspendError):
        prepared.execute(DATA)
    assert not folder_of(tmp_path / "x").exists()
