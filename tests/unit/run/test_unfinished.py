"""Runs that are stopped and resumed: what is kept, what is refused, and that nothing is drawn or charged twice."""

from __future__ import annotations

import dataclasses
import errno
import gc
import json
import os
import pathlib
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pytest

from qcompile.api import Plan, Release, compile, load_release
from qcompile.data import Database
from qcompile.errors import DataError, OptionError, OverspendError, SizeError, StorageError
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.queries.factors import Marginal, Prefix
from qcompile.release import files
from qcompile.release import values as stored
from qcompile.release.values import NodeValues
from qcompile.run import measure as measuring
from qcompile.run import mechanisms, randomness
from qcompile.run.journal import Journal, measurements, parts
from qcompile.run.journal.measurements import Measurements
from qcompile.run.unfinished import folder_of, unfinished
from tests.conformance.helpers import family, integers, workload

BUDGET = Budget(rho="1/9")


@pytest.fixture(scope="module")
def plan() -> Plan:
    a, b, c = integers(6, 5, 4)
    return compile(
        workload([a, b, c], family(Prefix(a), Prefix(b), name="p"), family(Marginal(c), Prefix(b), name="q"))
    )


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "d.csv"
    path.write_text("a,b,c\n" + "".join(f"{i % 6},{i % 5},{i % 4}\n" for i in range(100)))
    return path


class Stopped(Exception):
    """Stands for whatever ends a process."""


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Make runs stop after so many nodes, which are on disk by then; none where that is negative."""
    monkeypatch.setattr(measurements, "PART", 1)  # every node goes to disk by itself

    def after(nodes: int) -> None:
        def stopping(*args: Any, **options: Any) -> Iterator[tuple[int, NodeValues]]:
            for done, found in enumerate(measuring.measure(*args, **options)):
                if done == nodes:
                    raise Stopped
                yield found

        monkeypatch.setattr(mechanisms, "measure", stopping)

    return after


def same(one: Release, other: Release) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(one.values, other.values, strict=True))


@pytest.mark.parametrize("nodes", [0, 1, 3])
def test_a_resumed_run_is_the_run_that_was_not_stopped(
    nodes: int, plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path, stop: Callable[[int], None]
) -> None:
    whole = plan.run(table, BUDGET, test_seed=1, output=tmp_path / "whole")
    stop(nodes)
    with pytest.raises(Stopped):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert folder_of(tmp_path / "x").exists() == (nodes > 0), "nothing was drawn: nothing is kept"
    stop(-1)
    resumed = plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=nodes > 0)
    assert same(whole, resumed)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not folder_of(tmp_path / "x").exists()


def test_what_is_on_disk_is_not_drawn_again(
    plan: Plan,
    table: pathlib.Path,
    tmp_path: pathlib.Path,
    stop: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With noise of the operating system: kept measurements come out as they were."""
    ledger = Ledger.create(tmp_path / "l", Budget(rho=1))
    stop(2)
    with pytest.raises(Stopped):
        plan.run(table, BUDGET, ledger=ledger, strict_values=True, output=tmp_path / "x")
    kept = [np.load(p) for p in sorted(folder_of(tmp_path / "x").glob("*.npy"))]
    assert len(kept) == 2
    (entry,) = ledger.entries
    assert entry.content is None
    assert entry.release is not None
    assert entry.release.startswith("x (run ")
    monkeypatch.undo()
    drawn = list[str]()

    def watched(kind: str, seed: int | None) -> Any:
        noise = randomness.make_noise(kind, seed)

        def add(strategy: Any, x: Any, scale: Any, node: str) -> NodeValues:
            drawn.append(node)
            return noise(strategy, x, scale, node)

        return add

    monkeypatch.setattr(mechanisms, "make_noise", watched)
    release = plan.run(table, BUDGET, ledger=ledger, strict_values=True, output=tmp_path / "x", resume=True)
    measured = sum(1 for c in plan.closure.class_of if c >= 0)
    assert len(drawn) == len(set(drawn)) == measured - 2
    assert all(any(np.array_equal(k, v) for v in release.values) for k in kept)
    (entry,) = ledger.entries
    assert (entry.release, entry.charge.rho) == ("x", BUDGET.rho)
    assert same(release, load_release(tmp_path / "x"))


def test_a_run_that_had_not_charged_is_charged_when_it_is_resumed(
    plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the folder and the charge: the folder is there, the ledger knows nothing."""
    ledger = Ledger.create(tmp_path / "l", Budget(rho="1/8"))

    def killed(*_: Any) -> None:
        raise Stopped

    monkeypatch.setattr(Ledger, "charge", killed)
    monkeypatch.setattr(Journal, "remove", lambda self: None)
    options: dict[str, Any] = {"ledger": ledger, "strict_values": True, "output": tmp_path / "x"}
    with pytest.raises(Stopped):
        plan.run(table, BUDGET, **options)
    monkeypatch.undo()
    ledger.charge("1/20")  # another run was faster, and now there is too little left
    with pytest.raises(OverspendError):
        plan.run(table, BUDGET, resume=True, **options)
    assert len(ledger.entries) == 1


def test_what_is_refused_before_anything_is_spent_leaves_no_folder(
    plan: Plan, tmp_path: pathlib.Path, table: pathlib.Path
) -> None:
    table.write_text("a,b\n1,1\n")
    with pytest.raises(DataError):
        plan.run(table, BUDGET, output=tmp_path / "x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.csv"]


@pytest.fixture
def left(plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path, stop: Callable[[int], None]) -> pathlib.Path:
    """What a run with a test seed has left that was stopped after three nodes."""
    stop(3)
    with pytest.raises(Stopped):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x")
    stop(-1)
    return folder_of(tmp_path / "x")


OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "budget": ({"budget": Budget(rho="1/8")}, r"another charge \(1/9, not 1/8\);"),
    "noise": ({"test_seed": None, "noise": "none"}, "another noise"),
    "seed": ({"test_seed": 2}, r"another test seed \(1, not 2\)"),
    "no seed": ({"test_seed": None}, r"another test seed \(1, not none\)"),
    "unit": ({"unit": "c"}, "another unit"),
    "counts": ({"count_column": "c"}, "another count column"),
    "largest count": ({"count_column": "c", "max_count": 3}, "another count column .*, max count"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_run_is_resumed_under_its_own_terms(
    name: str, left: pathlib.Path, plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    options, message = OTHERS[name]
    others: dict[str, Any] = {"test_seed": 1, "budget": BUDGET} | options
    with pytest.raises(StorageError, match=message):
        plan.run(table, others.pop("budget"), output=tmp_path / "x", resume=True, **others)
    assert left.exists()


def test_another_plan_or_table_cannot_finish_a_run(
    left: pathlib.Path, plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    a, b, c = integers(6, 5, 4)
    other = compile(workload([a, b, c], family(Prefix(a), Prefix(b), name="p")))
    with pytest.raises(StorageError, match="another plan;"):
        other.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=True)
    os.utime(table, ns=(0, 0))
    with pytest.raises(StorageError, match=r"another table \(or the file was changed since\);"):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=True)


def test_an_unfinished_run_is_never_begun_anew(
    left: pathlib.Path, plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(StorageError, match="finish it with --resume"):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x")
    with pytest.raises(StorageError, match="finish it with --resume"):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", mechanism="adaptive")
    assert not (tmp_path / "x").exists()


def test_what_cannot_be_resumed_is_refused(plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(OptionError, match="give its output"):
        plan.run(table, BUDGET, resume=True)
    for mechanism in ("batch", "adaptive"):
        with pytest.raises(StorageError, match="nothing to resume"):
            plan.run(table, BUDGET, output=tmp_path / "x", resume=True, mechanism=mechanism)


@pytest.mark.parametrize("shorter", [10, 10**6])
def test_a_part_whose_line_was_cut_short_or_is_missing_is_not_drawn_again(
    shorter: int,
    left: pathlib.Path,
    plan: Plan,
    table: pathlib.Path,
    tmp_path: pathlib.Path,
    stop: Callable[[int], None],
) -> None:
    """A kill between a part and its line: the part is taken over."""
    path = left / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:-shorter])
    stop(0)  # nothing at all is drawn
    with pytest.raises(Stopped):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=True)
    assert path.read_bytes() == b"".join(lines)
    assert len(list(left.glob("*.npy"))) == 3


def test_a_full_disk_while_a_part_is_taken_over_is_no_damage(
    left: pathlib.Path, plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = left / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))

    def full(self: Journal, line: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_note", full)
        with pytest.raises(StorageError, match=r"cannot write .*journal.jsonl: No space left"):
            plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=True)
    assert same(
        plan.run(table, BUDGET, test_seed=1), plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=True)
    )


def draft(folder: pathlib.Path, keep: int) -> None:
    """Turn the last part into one that was being written, of so many bytes, on a system without unnamed files."""
    path = folder / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    whole = (folder / "00002.npy").read_bytes()
    (folder / "00002.npy").unlink()
    (folder / "00002.draft").write_bytes(whole[:keep])


@pytest.mark.parametrize("keep", [0, 20, 150, 10**6])
def test_half_a_part_is_removed_and_a_whole_one_is_taken_over(
    keep: int, left: pathlib.Path, plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path, stop: Callable[[int], None]
) -> None:
    draft(left, keep)
    stop(0)
    with pytest.raises(Stopped):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=True)
    assert [p.name for p in sorted(left.glob("0*"))] == [f"0000{i}.npy" for i in range(3 if keep == 10**6 else 2)]


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, None])
def test_a_system_without_unnamed_files_keeps_parts_too(
    error: int | None,
    plan: Plan,
    table: pathlib.Path,
    tmp_path: pathlib.Path,
    stop: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = plan.run(table, BUDGET, test_seed=1)

    def refuses(*_: Any, **__: Any) -> None:
        raise OSError(error, "no such thing")

    if error is None:
        monkeypatch.delattr(os, "O_TMPFILE")
    else:
        monkeypatch.setattr(parts, "_write_unnamed", refuses)
    stop(2)
    with pytest.raises(Stopped):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x")
    assert {p.name for p in folder_of(tmp_path / "x").glob("0*")} == {"00000.npy", "00001.npy"}
    stop(-1)
    assert same(whole, plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=True))


def test_a_full_disk_leaves_no_half_of_a_part(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.delattr(os, "O_TMPFILE")
    with unfinished(tmp_path / "x", {}, print) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StorageError, match=r"cannot write .*00000.npy: No space left on device"):
                journal.append([0], [np.arange(3)])
        assert not list(journal.folder.glob("0*"))


def test_a_part_that_is_being_written_has_no_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = list[str]()

    def watched(handle: int) -> None:
        names.extend(p.name for p in folder_of(tmp_path / "x").glob("0*"))

    with unfinished(tmp_path / "x", {}, lambda journal: None) as journal:
        monkeypatch.setattr(os, "fsync", watched)
        journal.append([0], [np.arange(3)])
    assert names == ["00000.npy"] * 2, "first when the folder is written, after the part is on disk"


def edited(folder: pathlib.Path, change: Callable[[list[dict[str, Any]]], Any]) -> None:
    path = folder / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def rewritten(folder: pathlib.Path, **changes: Any) -> None:
    """The last part, with its hash, as another program would have written it."""
    path = folder / "00002.npy"
    part = dataclasses.replace(parts.read_part(path), **changes)
    values = parts.read_values(path, 0, sum(part.sizes))
    path.unlink()
    (folder / parts.part_name(part.number)).unlink(missing_ok=True)
    sha256 = parts.write_part(folder, part, [values])
    edited(folder, lambda lines: lines[-1].update(sha256=sha256, part=part.number))


DAMAGES: dict[str, Callable[[pathlib.Path], Any]] = {
    "a part is gone": lambda f: (f / "00001.npy").unlink(),
    "a part is another": lambda f: (f / "00001.npy").write_bytes((f / "00000.npy").read_bytes()),
    "a bit has flipped": lambda f: (f / "00001.npy").write_bytes((f / "00001.npy").read_bytes()[:-1] + b"\x7f"),
    "a part is empty": lambda f: (f / "00001.npy").write_bytes(b""),
    "no terms": lambda f: (f / "run.json").unlink(),
    "terms of nothing": lambda f: (f / "run.json").write_text("[]"),
    "a journal of nothing": lambda f: (f / "journal.jsonl").write_text("1\n"),
    "a line is gone": lambda f: edited(f, lambda lines: lines.pop(1)),
    "two lines are gone": lambda f: edited(f, lambda lines: lines.__delitem__(slice(1, 3))),
    "another hash": lambda f: edited(f, lambda lines: lines[-1].update(sha256="")),
    "a node beyond the plan": lambda f: rewritten(f, nodes=[10**6]),
    "a node before the plan": lambda f: rewritten(f, nodes=[-1]),
    "a measurement fewer": lambda f: rewritten(f, sizes=[1]),
    "a size more": lambda f: rewritten(f, sizes=[1, 1]),
    "another run's part": lambda f: rewritten(f, run="another"),
    "another number": lambda f: rewritten(f, number=1),
    "terms that are a list": lambda f: (f / "run.json").write_text('{"version": 2, "run": "x", "terms": []}'),
    "a node twice": lambda f: rewritten(f, nodes=parts.read_part(f / "00000.npy").nodes),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_run_is_refused(
    name: str, left: pathlib.Path, plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    DAMAGES[name](left)
    with pytest.raises(StorageError, match=r"is damaged, so the run cannot be resumed; what it charged is spent"):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "x", resume=True)
    assert not (tmp_path / "x").exists()


def test_two_runs_are_not_at_one_release_at_once(tmp_path: pathlib.Path) -> None:
    with unfinished(tmp_path / "x", {}, print) as journal:
        with pytest.raises(StorageError, match="finish it with --resume"), unfinished(tmp_path / "x", {}, print):
            pass
        busy = pytest.raises(StorageError, match="in use by another run")
        with busy, unfinished(tmp_path / "x", {}, print, resume=True):
            pass
        kept = Measurements(journal, [1, 2])
        kept.keep([(1, np.arange(2))])
        assert kept.nodes == {1}
    with unfinished(tmp_path / "x", {}, print, resume=True) as journal:
        kept = Measurements(journal, [1, 2])
        assert kept[1].tolist() == [0, 1]
        assert kept[0].size == 0


def test_what_is_kept_is_for_its_owner_alone_and_holds_no_exact_count(
    left: pathlib.Path, plan: Plan, table: pathlib.Path
) -> None:
    assert left.stat().st_mode & 0o077 == 0
    stated = json.loads((left / "run.json").read_text())
    assert set(stated) == {"version", "run", "terms"}
    assert stated["terms"]["data"] == [[str(table.resolve()), table.stat().st_mtime_ns]]


def peak_of_a_run(attributes: int, folder: pathlib.Path) -> tuple[int, int]:
    """Bytes that Python and NumPy hold at most while a run measures all 3-way prefixes, and its measurements."""
    plan = compile(
        "schema {\n" + "".join(f"a{i} : integer 0..19 clip\n" for i in range(attributes)) + "}\n"
        "workload { all : each 3 of all }"
    )
    data = {name: np.arange(1000) % 20 for name in plan.workload.schema.names}
    gc.collect()
    tracemalloc.start()
    try:
        release = plan.run(data, BUDGET, test_seed=1, output=folder / f"{attributes}", workers=2)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak, sum(v.size for v in release.values)


def test_memory_does_not_grow_with_what_is_measured(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "PART", 2**16)
    monkeypatch.setattr(stored, "PART", 2**16)
    monkeypatch.setattr(files, "IN_MEMORY", 0)
    peak_of_a_run(4, tmp_path)  # what is loaded at the first run
    (small, few), (large, many) = peak_of_a_run(8, tmp_path), peak_of_a_run(13, tmp_path)
    assert many > 5 * few
    assert large < 2 * small
    assert large < 8 * many / 4, "a quarter of what the measurements take"


def charged_only(plan: Plan, monkeypatch: pytest.MonkeyPatch, table: pathlib.Path, options: dict[str, Any]) -> None:
    """A run that ends between the charge and its note."""

    def ends(self: Journal, number: int) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "note_charge", ends)
        with pytest.raises(Stopped):
            plan.run(table, BUDGET, **options)


def test_what_was_charged_is_found_again_although_it_was_not_noted(
    plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the run that resumes it fails at first."""
    ledger = Ledger.create(tmp_path / "l", BUDGET)
    options: dict[str, Any] = {"ledger": ledger, "strict_values": True, "output": tmp_path / "x"}
    charged_only(plan, monkeypatch, table, options)
    with pytest.raises(OptionError):
        plan.run(table, BUDGET, resume=True, engine="abacus", **options)
    plan.run(table, BUDGET, resume=True, **options)
    assert [e.release for e in ledger.entries] == ["x"]


def test_a_full_disk_after_the_charge_loses_nothing(
    plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "l", BUDGET)
    options: dict[str, Any] = {"ledger": ledger, "strict_values": True, "output": tmp_path / "x"}

    def full(self: Journal, line: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_note", full)
        with pytest.raises(StorageError, match="the budget is spent: entry 1 of the ledger"):
            plan.run(table, BUDGET, **options)
    plan.run(table, BUDGET, resume=True, **options)
    assert [e.release for e in ledger.entries] == ["x"]


def test_a_copy_of_a_run_cannot_be_finished(
    left: pathlib.Path, plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    shutil.copytree(left, tmp_path / "y.unfinished")
    with pytest.raises(StorageError, match="another output"):
        plan.run(table, BUDGET, test_seed=1, output=tmp_path / "y", resume=True)


def test_a_release_that_has_its_name_is_never_written_again(tmp_path: pathlib.Path) -> None:
    with unfinished(tmp_path / "x", {}, print) as journal:
        journal.append([0], [np.arange(1)])
        file = journal.pending()
        file.hidden.write_bytes(b"whole")
        file.publish()
    with unfinished(tmp_path / "x", {}, print, resume=True) as journal:
        with journal.pending().hidden.open("wb") as again:
            again.write(b"half")
        assert (tmp_path / "x").read_bytes() == b"whole"


def test_half_a_folder_never_passes_for_an_unfinished_run(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise Stopped

    monkeypatch.setattr(shutil, "rmtree", killed)
    with unfinished(tmp_path / "x", {}, print) as journal:
        journal.append([0], [np.arange(1)])
        with pytest.raises(Stopped):
            journal.remove()
    assert not folder_of(tmp_path / "x").exists()


def test_a_database_is_never_written_over(plan: Plan, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE TABLE t AS SELECT 1 AS a, 2 AS b, 3 AS c")
    with pytest.raises(OptionError, match="would overwrite"):
        plan.run(Database(str(path), "t"), BUDGET, output=path)
    release = plan.run(Database(str(path), "t"), BUDGET, noise="none", output=tmp_path / "x")
    assert release.ask("count(a = 1 and b = 2)").estimate == pytest.approx(1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d.duckdb", "x"]


@pytest.mark.parametrize("error", [DataError, SizeError, StorageError])
def test_what_fails_while_measuring_says_what_is_spent_and_left_to_do(
    error: type[Exception], plan: Plan, table: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "l", BUDGET)
    options: dict[str, Any] = {"ledger": ledger, "strict_values": True, "output": tmp_path / "x"}

    def fails(*_: Any, **__: Any) -> Iterator[tuple[int, NodeValues]]:
        raise error("the engine is gone")

    with monkeypatch.context() as patch:
        patch.setattr(mechanisms, "measure", fails)
        with pytest.raises(
            error, match="gone; the budget is spent: entry 1 of the ledger; finish the run with --resume"
        ):
            plan.run(table, BUDGET, **options)
    plan.run(table, BUDGET, resume=True, **options)
    assert [e.release for e in ledger.entries] == ["x"]
