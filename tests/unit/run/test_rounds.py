"""Adaptive runs that are stopped and resumed: rounds on disk are neither drawn again nor lost."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.errors import StorageError
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.release.rounds import history_data
from qcompile.run import mechanisms, place
from qcompile.run.journal import Journal, parts
from qcompile.run.journal import rounds as rounds_module
from qcompile.run.randomness import Chance
from qcompile.run.unfinished import folder_of

SOURCE = """schema { a : integer 0..5 clip; b : integer 0..4 clip; c : integer 0..3 clip; d : integer 0..1 clip }
workload { pairs : each 2 of all }"""
DATA = {name: np.arange(300) * step % size for name, step, size in (("a", 1, 6), ("b", 7, 5), ("c", 3, 4), ("d", 1, 2))}
BUDGET = qc.Budget(rho="1/50")


class Stopped(Exception):
    """Stands for whatever ends a process."""


@pytest.fixture(scope="module")
def plan() -> qc.Plan:
    return qc.compile(SOURCE)


def run(plan: qc.Plan, folder: pathlib.Path, **options: Any) -> qc.Release:
    return plan.run(DATA, BUDGET, mechanism="adaptive", output=folder / "x", **options)


def stop_after(patch: pytest.MonkeyPatch, rounds: int, draws: int = 0) -> None:
    """Let a run stop in the round after so many, at the draw of this number."""
    kept, drawn = list[Any](), list[str]()
    keep, noise = rounds_module.keep_round, Chance.noise

    def keeping(journal: Journal, measured: Any) -> None:
        keep(journal, measured)
        kept.append(measured)
        drawn.clear()

    def drawing(self: Chance, strategy: Any, x: Any, scale: Any, label: str) -> Any:
        if len(kept) == rounds and len(drawn) == draws:
            raise Stopped
        drawn.append(label)
        return noise(self, strategy, x, scale, label)

    patch.setattr(mechanisms, "keep_round", keeping)
    patch.setattr(Chance, "noise", drawing)


def stop(
    monkeypatch: pytest.MonkeyPatch, plan: qc.Plan, folder: pathlib.Path, rounds: int, draws: int = 0, **options: Any
) -> None:
    """Leave an unfinished run."""
    with monkeypatch.context() as patch:
        stop_after(patch, rounds, draws)
        with pytest.raises(Stopped):
            run(plan, folder, **options)


OPTIONS: dict[str, dict[str, Any]] = {
    "usual": {"test_seed": 1},
    "no reference": {"test_seed": 1, "reference": "none"},
    "a tree": {"test_seed": 1, "reference": "tree"},
    "residual basis": {"test_seed": 1, "basis": "residual"},
    "no noise": {"noise": "none"},
}


CASES = [("usual", 0), ("usual", 2), ("usual", 7), *((name, 5) for name in OPTIONS if name != "usual")]


@pytest.mark.parametrize(("name", "rounds"), CASES)
def test_a_resumed_run_is_the_run_that_was_not_stopped(
    name: str, rounds: int, plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = OPTIONS[name]
    (tmp_path / "whole").mkdir()
    run(plan, tmp_path / "whole", **options)
    stop(monkeypatch, plan, tmp_path, rounds, **options)
    assert folder_of(tmp_path / "x").exists() == (rounds > 0), "nothing was drawn: nothing is kept"
    if rounds:
        stop(monkeypatch, plan, tmp_path, 0, draws=1, resume=True, **options)  # once more, in the next round
    run(plan, tmp_path, resume=rounds > 0, **options)
    assert (tmp_path / "x").read_bytes() == (tmp_path / "whole" / "x").read_bytes()
    assert not folder_of(tmp_path / "x").exists()


@pytest.mark.parametrize("noise", ["rounded", "opendp"])
def test_rounds_on_disk_are_not_drawn_again(
    noise: str, plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With noise of the operating system, stopped in a round, after its selection: that round alone begins anew."""
    ledger = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    stop(monkeypatch, plan, tmp_path, 6, ledger=ledger, noise=noise)
    kept = [parts.read_part(p) for p in sorted(folder_of(tmp_path / "x").glob("*.npy"))]
    assert len(kept) == 6
    labels = list[str]()
    draw, select = Chance.noise, Chance.select

    def drawing(self: Chance, strategy: Any, x: Any, scale: Any, label: str) -> Any:
        labels.append(label)
        return draw(self, strategy, x, scale, label)

    def selecting(self: Chance, scores: Any, scale: float, label: str) -> int:
        labels.append(label)
        return select(self, scores, scale, label)

    monkeypatch.setattr(Chance, "noise", drawing)
    monkeypatch.setattr(Chance, "select", selecting)
    release = run(plan, tmp_path, ledger=ledger, noise=noise, resume=True)
    assert release.history is not None
    assert history_data(release.history)["rounds"][:6] == [part.note for part in kept]
    assert {label.split(":")[0] for label in labels} == {
        f"round {i + 1}" for i in range(6, len(release.history.rounds))
    }
    assert [(e.release, e.charge.rho) for e in ledger.entries] == [("x", BUDGET.rho)]
    assert release.history.cost <= BUDGET.rho


def test_a_full_disk_at_the_end_loses_nothing(
    plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "l", BUDGET)

    def full(*_: Any) -> str:
        raise StorageError("the release cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(place, "fill", full)
        with pytest.raises(StorageError, match=r"No space left.*the budget is spent: entry 1 .*--resume"):
            run(plan, tmp_path, ledger=ledger)

    def draws(*_: Any) -> Any:
        raise AssertionError("everything was drawn")

    monkeypatch.setattr(Chance, "noise", draws)
    monkeypatch.setattr(Chance, "select", draws)
    release = run(plan, tmp_path, ledger=ledger, resume=True)
    assert release.history is not None
    assert sum((r.budget for r in release.history.rounds), Fraction(0)) == BUDGET.rho
    assert [e.release for e in ledger.entries] == ["x"]


def rewrite(folder: pathlib.Path, number: int, change: Callable[[Any], dict[str, Any]]) -> None:
    """Change a part and all that certifies it."""
    path = folder / parts.part_name(number)
    part = parts.read_part(path)
    values = parts.read_values(path, 0, sum(part.sizes))
    path.unlink()
    sha256 = parts.write_part(folder, dataclasses.replace(part, **change(part)), [values])
    journal = folder / "journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    lines[number].update(sha256=sha256)
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))


DAMAGES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "other nodes": lambda part: {"nodes": [0] * len(part.nodes)},
    "other sizes": lambda part: {"sizes": [1] * len(part.sizes)},
    "no note": lambda part: {"note": None},
    "less noise": lambda part: {"note": part.note | {"steps": [[n, s / 2, g, c] for n, s, g, c in part.note["steps"]]}},
    "another budget": lambda part: {"note": part.note | {"budget": "1/3"}},
}


@pytest.mark.parametrize("name", DAMAGES)
def test_rounds_that_the_run_cannot_have_made_are_refused(
    name: str, plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop(monkeypatch, plan, tmp_path, 6, test_seed=1)
    rewrite(folder_of(tmp_path / "x"), 5, DAMAGES[name])
    with pytest.raises(StorageError, match="is damaged"):
        run(plan, tmp_path, test_seed=1, resume=True)
    assert not (tmp_path / "x").exists()
