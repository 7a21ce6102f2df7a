"""What goes wrong around a run's files and limits: full disks, missing locks, other processes, tables too large."""

from __future__ import annotations

import pathlib
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.errors import BudgetError, SizeError, StorageError
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.noise.scale import PUBLIC
from qcompile.run import unfinished
from qcompile.run.journal import Journal, lock, parts
from qcompile.run.mechanisms import Batch
from qcompile.run.randomness import opendp
from qcompile.run.unfinished import folder_of

SOURCE = "schema { a : integer 0..4 clip } workload { m : marginal(a) }"
DATA = {"a": [0, 1, 1]}
BUDGET = qc.Budget(rho="1/9")


@pytest.fixture
def plan() -> qc.Plan:
    return qc.compile(SOURCE)


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Ledger:
    return Ledger.create(tmp_path / "l", qc.Budget(rho=1))


def refuses(*_: Any, **__: Any) -> Any:
    raise OSError(28, "No space left on device")


def test_a_full_disk_before_the_charge_loses_nothing(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unfinished, "_write_terms", refuses)
    with pytest.raises(StorageError, match="No space left on device"):
        plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    assert ledger.spent == 0
    assert [p.name for p in tmp_path.iterdir()] == ["l"]


def test_a_full_disk_after_the_charge_says_what_is_spent(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(parts, "narrow", refuses)
        with pytest.raises(StorageError, match=r"No space left.*the budget is spent: entry 1 .*--resume"):
            plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    release = plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x", resume=True)
    assert [e.release for e in ledger.entries] == ["x"]
    assert release.provenance.charge == BUDGET.rho


def test_another_run_may_be_quicker(plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def make_both(path: pathlib.Path, stated: Any) -> None:
        folder_of(tmp_path / "x").mkdir()
        (folder_of(tmp_path / "x") / "theirs").touch()
        path.touch()

    monkeypatch.setattr(unfinished, "_write_terms", make_both)
    with pytest.raises(StorageError, match="holds an unfinished run"):
        plan.run(DATA, BUDGET, output=tmp_path / "x")
    assert [p.name for p in tmp_path.iterdir()] == ["x.unfinished"]


def test_a_finished_run_is_not_resumed(plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    plan.run(DATA, BUDGET, output=tmp_path / "x")
    with pytest.raises(StorageError, match="so the run has finished; a new run would be charged"):
        plan.run(DATA, BUDGET, output=tmp_path / "x", resume=True)
    with pytest.raises(StorageError, match="run it without --resume"):
        plan.run(DATA, BUDGET, output=tmp_path / "y", resume=True)


def test_a_run_of_another_version_is_left_to_it(
    plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(unfinished, "VERSION", 0)
        _stop_after_drawing(plan, tmp_path, patch)
    with pytest.raises(StorageError, match=r"was left by qcompile [0-9.]+.*, in another format; resume it with that"):
        plan.run(DATA, BUDGET, output=tmp_path / "x", resume=True)


def test_two_processes_cannot_finish_one_run(
    plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _stop_after_drawing(plan, tmp_path, patch)
    folder = folder_of(tmp_path / "x")
    other = Journal(tmp_path / "x", folder, "x")
    with pytest.raises(StorageError, match="is in use by another run"):
        plan.run(DATA, BUDGET, output=tmp_path / "x", resume=True)
    other.close()
    assert plan.run(DATA, BUDGET, output=tmp_path / "x", resume=True).plan.queries == 5


HOLDER = """
import pathlib, sys
from qcompile.run.journal.lock import lock_folder
held = lock_folder(pathlib.Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.readline()
"""


def test_a_lock_holds_against_another_process_and_ends_with_it(tmp_path: pathlib.Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    assert holder.stdout.readline() == "locked\n"
    with pytest.raises(StorageError, match="is in use by another run"):
        lock.lock_folder(tmp_path)
    holder.kill()
    holder.communicate()
    lock.lock_folder(tmp_path).close()
    assert [(p.name, p.stat().st_size) for p in tmp_path.iterdir()] == [("lock", 0)]


def test_a_folder_without_locks_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(StorageError, match="cannot be locked"):
        lock.lock_folder(tmp_path)


def test_a_run_on_a_disk_without_locks_leaves_nothing(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unlockable(*_: Any, **__: Any) -> Any:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sqlite3, "connect", unlockable)
    with pytest.raises(StorageError, match="cannot be locked"):
        lock.lock_folder(tmp_path)
    with pytest.raises(StorageError, match="cannot be"):
        plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    with pytest.raises(StorageError, match="cannot be locked"):
        plan.run(DATA, BUDGET, output=tmp_path / "x")
    assert [p.name for p in tmp_path.iterdir()] == ["l"]


def test_a_folder_that_somebody_removed_is_no_error(tmp_path: pathlib.Path) -> None:
    with unfinished.unfinished(tmp_path / "x", {}, print) as journal:
        shutil.rmtree(journal.folder)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["the file has its name", "the charge is noted"])
def test_a_run_that_was_killed_before_tidying_up_is_finished(
    step: str, plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(
            *{"the file has its name": (Ledger, "record", stop), "the charge is noted": (Journal, "remove", stop)}[step]
        )
        with pytest.raises(Stopped):
            plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x", resume=True)
    assert (tmp_path / "x").read_bytes() == before
    assert [(e.number, e.release) for e in ledger.entries] == [(1, "x")]
    assert not folder_of(tmp_path / "x").exists()
    assert not (tmp_path / "x.1").exists()


def test_memory_that_ends_after_the_charge_is_told_with_it(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's own error says nothing at all."""

    def exhausted(*_: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Batch, "draw", exhausted)
        with pytest.raises(
            SizeError, match=r"the budget is spent: entry 1 of the ledger; finish the run with --resume"
        ):
            plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x", resume=True)
    assert [e.release for e in ledger.entries] == ["x"]


def test_a_release_that_was_moved_or_replaced_is_not_taken_for_the_run_s_own(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", stop)
        with pytest.raises(Stopped):
            plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    (tmp_path / "x").rename(tmp_path / "elsewhere")
    for is_moved in (True, False):
        if not is_moved:
            plan.run(DATA, BUDGET).save(tmp_path / "x")
        with pytest.raises(StorageError, match="is not the release that the run in"):
            plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x", resume=True)


def test_an_adaptive_release_is_written_and_noted(plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path) -> None:
    release = plan.run(DATA, BUDGET, mechanism="adaptive", ledger=ledger, output=tmp_path / "x")
    assert [e.release for e in ledger.entries] == ["x"]
    loaded = qc.load_release(tmp_path / "x")
    assert all(np.array_equal(a, b) for a, b in zip(loaded.values, release.values, strict=True))


def test_a_run_without_a_ledger_is_written(plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    plan.run(DATA, BUDGET, mechanism="adaptive", output=tmp_path / "x")
    assert qc.load_release(tmp_path / "x").history is not None


def test_an_adaptive_run_takes_so_many_rows(plan: qc.Plan) -> None:
    counts: Any = {("a",): np.array([2**43, 2**43, 2**43, 0, 0])}
    with pytest.raises(SizeError, match=r"up to 2\^44 rows"):
        plan.run(counts, BUDGET, mechanism="adaptive", noise="none")


def test_noise_that_protects_nobody_is_refused(plan: qc.Plan) -> None:
    with pytest.raises(BudgetError, match="protects nobody"):
        qc.prepare(plan, qc.Budget(rho="1e15"))


def test_public_counts_take_no_noise_of_any_kind(plan: qc.Plan) -> None:
    (strategy,) = plan.strategies[:1]
    x = np.arange(int(np.prod(strategy.shape)), dtype=np.int64).reshape(strategy.shape)
    expected = strategy.apply(x.astype(np.float64))
    assert np.array_equal(opendp(strategy, x, PUBLIC, "node"), expected)


class Stopped(Exception):
    """Stands for the end of the process."""


def stop(*_: Any, **__: Any) -> Any:
    raise Stopped


def _stop_after_drawing(plan: qc.Plan, folder: pathlib.Path, patch: pytest.MonkeyPatch) -> None:
    """Leave an unfinished run to the output ``x`` whose measurements are on disk."""
    publish: Callable[..., Any] = stop
    patch.setattr("qcompile.run.execute.publish", publish)
    with pytest.raises(Stopped):
        plan.run(DATA, BUDGET, output=folder / "x")
    assert folder_of(folder / "x").is_dir()
