"""Space on disk: enough is held before the charge, and given back to the files that need it."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import pytest

import qcompile as qc
from qcompile.errors import StorageError
from qcompile.plan.document import PlanDocument
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.run import execute, reserve
from qcompile.run.journal import Journal
from qcompile.run.mechanisms import Adaptive, Batch
from qcompile.run.options import RunOptions
from qcompile.run.place import publish
from qcompile.run.reserve import Reservation, Space, required_space
from qcompile.run.unfinished import folder_of
from qcompile.support.numbered_backup import Pending

SOURCE = "schema { a : integer 0..29 clip; b : integer 0..19 clip } workload { m : marginal(a) * prefix(b) }"
DATA = {"a": [0, 1, 1], "b": [3, 4, 19]}
BUDGET = qc.Budget(rho="1/9")


@pytest.fixture(scope="module")
def plan() -> qc.Plan:
    return qc.compile(SOURCE)


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Ledger:
    return Ledger.create(tmp_path / "l", qc.Budget(rho=1))


def size_of(folder: pathlib.Path) -> int:
    return sum(p.stat().st_size for p in folder.iterdir())


def is_full(*_: Any) -> Any:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("mechanism", ["batch", "adaptive"])
def test_a_disk_that_is_too_small_is_found_before_the_charge(
    mechanism: str, plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "posix_fallocate", is_full)
    message = r"need up to \d+\.\d kB on disk, in .*: No space left on device; nothing is charged: free some space"
    with pytest.raises(StorageError, match=message):
        plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x", mechanism=mechanism)
    assert ledger.spent == 0
    assert [p.name for p in tmp_path.iterdir()] == ["l"]
    plan.run(DATA, BUDGET, ledger=ledger, mechanism=mechanism)  # without an output nothing is written


@pytest.mark.parametrize("noise", ["rounded", "none"])
@pytest.mark.parametrize("mechanism", [Batch, Adaptive])
def test_the_files_of_a_run_take_no_more(
    mechanism: type[Batch] | type[Adaptive],
    noise: str,
    plan: qc.Plan,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each when it is largest: the folder after drawing, and the release; by then the space is free for them."""
    name = mechanism.__name__.lower()
    options = RunOptions(output=tmp_path / "x", noise=noise, mechanism=name)
    space = required_space(plan, PlanDocument.of(plan), options)
    held: list[int] = []

    def measure_files(*arguments: Any) -> Any:
        held.extend(p.stat().st_size for p in tmp_path.rglob("*.space"))
        if name == "batch":
            assert 0 < size_of(folder_of(tmp_path / "x")) <= space.measurements
        return publish(*arguments)

    def measure_space(*arguments: Any) -> Any:
        held.extend(p.stat().st_size for p in tmp_path.rglob("*.space"))
        return drawn(*arguments)

    drawn = mechanism.draw
    monkeypatch.setattr(mechanism, "draw", measure_space)
    monkeypatch.setattr(execute, "publish", measure_files)
    plan.run(DATA, BUDGET, output=tmp_path / "x", noise=noise, mechanism=name)
    assert held == [space.release, 0]
    assert (tmp_path / "x").stat().st_size <= space.release < space.total
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("size", [1, 2**20, 2**20 + 7])
def test_without_a_call_of_the_system_zeros_are_written(
    size: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    with reserve.reserve(Pending(tmp_path / "x", tmp_path / "y"), Space(size - 1, 1)) as reservation:
        assert size_of(tmp_path) == size
        reservation.free_measurements()
        assert size_of(tmp_path) == 1
        reservation.free_release()
        assert size_of(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


def test_space_that_is_not_held_is_not_given_back() -> None:
    reservation = Reservation(Space(1, 1))
    reservation.free_measurements()
    reservation.free_release()
    assert reservation.path is None


def test_the_charge_finds_space_on_a_disk_that_is_full_with_it(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger's own journal and the note of the charge take space, too."""
    held, charge = folder_of(tmp_path / "x") / "release.part.space", Ledger.charge
    sizes = list[int]()

    def measured(*arguments: Any) -> int:
        sizes.append(held.stat().st_size)
        return charge(*arguments)

    monkeypatch.setattr(Ledger, "charge", measured)
    prepared = qc.prepare(plan, BUDGET, ledger=ledger, output=tmp_path / "x")
    space = required_space(prepared.plan, prepared.document, prepared.options)
    prepared.execute(DATA)
    assert sizes == [space.release]
    assert space.release < space.total


def test_space_that_cannot_be_given_back_is_a_typed_error(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "truncate", is_full)
        with pytest.raises(StorageError, match=r"cannot give back the space of .*: No space left"):
            plan.run(DATA, BUDGET, ledger=ledger, output=tmp_path / "x")
    assert ledger.spent == 0
    assert [p.name for p in tmp_path.iterdir()] == ["l"]


def test_a_run_that_could_not_note_its_charge_is_paid_for(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is resumed on a full disk; to say that nothing is charged would be wrong."""
    options: Any = {"ledger": ledger, "output": tmp_path / "x"}
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "note_charge", is_full)
        with pytest.raises(OSError, match="No space left"):
            plan.run(DATA, BUDGET, **options)
    assert ledger.spent > 0
    monkeypatch.setattr(os, "posix_fallocate", is_full)
    plan.run(DATA, BUDGET, resume=True, **options)
    assert [e.release for e in ledger.entries] == ["x"]


def test_a_run_that_is_paid_for_is_resumed_on_a_full_disk(
    plan: qc.Plan, ledger: Ledger, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No refusal saves anything any more; and the space that a killed run has left is given back."""
    options: Any = {"ledger": ledger, "output": tmp_path / "x"}
    with monkeypatch.context() as patch:
        patch.setattr(execute, "publish", is_full)
        with pytest.raises(OSError, match="No space left"):
            plan.run(DATA, BUDGET, **options)
    left = folder_of(tmp_path / "x") / "release.part.space"
    left.touch()
    drawn = Batch.draw

    def draw(*arguments: Any) -> Any:
        assert not left.exists()
        return drawn(*arguments)

    monkeypatch.setattr(Batch, "draw", draw)
    monkeypatch.setattr(os, "posix_fallocate", is_full)
    plan.run(DATA, BUDGET, resume=True, **options)
    assert [e.release for e in ledger.entries] == ["x"]
