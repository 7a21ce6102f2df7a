"""The raw Adult table, with its "?" and its zeros, against a count by hand; and the example that is made of it."""

from __future__ import annotations

import collections
import csv
import importlib
import itertools
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import qcompile as qc
from qcompile.data import read

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "adult"
NUMBERS = {
    "age": (17, 90),
    "hours-per-week": (1, 99),
    "capital-gain": (0, 1, 1000, 2500, 5000, 7500, 10000, 15000, 25000, 99999, 100000),
    "capital-loss": (0, 1, 1000, 1500, 2000, 2500, 5000),
}
"""Ends of whole numbers, and edges of bins, written here once more."""


def label(name: str, field: str) -> str:
    """What the schema calls the cell of a field, for the fields that the raw table has."""
    if name in ("age", "hours-per-week"):
        low, high = NUMBERS[name]
        return str(min(max(int(field), low), high))
    if name in NUMBERS:
        (cell,) = [f"[{a}, {b})" for a, b in itertools.pairwise(NUMBERS[name]) if a <= int(field) < b]
        return cell
    return "missing" if field == "?" else field


def test_every_table_of_the_raw_file_is_that_of_a_count_by_hand(adult_folder: pathlib.Path) -> None:
    path = adult_folder / "adult_raw.csv"
    plan = qc.compile(EXAMPLE / "adult.q", solver="rp")
    schema = plan.workload.schema
    release = plan.run(path, qc.Budget(rho=1), noise="none")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 48_842
    columns = {name: [label(name, row[name]) for row in rows] for name in schema.names}
    assert release.ask("total").estimate == pytest.approx(48_842, abs=1e-5)
    seen = 0
    for view in plan.workload.views:
        truth = collections.Counter(zip(*(columns[name] for name in view), strict=True)) if view else {(): len(rows)}
        found = np.rint(release.marginal(view).array).astype(int)
        assert np.abs(found - release.marginal(view).array).max() < 1e-5
        labels = itertools.product(*([schema[n].label(c) for c in range(schema[n].size)] for n in view))
        cells = {names: n for names, n in zip(labels, found.ravel().tolist(), strict=True) if n}
        assert cells == truth, view
        seen += 1
    assert seen >= 13 + 78


def test_the_made_table_has_every_kind_of_dirt_and_its_truth_is_counted_right(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    adult, made_table = importlib.import_module("adult"), importlib.import_module("made_table")
    schema = qc.load(EXAMPLE / "adult.q").schema
    made_table.write(tmp_path / "adult.csv", schema)
    with (tmp_path / "adult.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, (_, spoiled) in made_table.DIRT.items():
        assert len({row[name] for row in rows} & set(spoiled)) >= 2
    assert sum(row["occupation"] == "?" for row in rows) > 100
    counted = read(tmp_path / "adult.csv", schema, leave_out=True)
    assert 19_000 < counted.total < 20_000
    assert (counted.table(("age", "education")) == adult.truth(tmp_path / "adult.csv", schema)).all()


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLE / "adult.py", *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_example_on_a_made_table(tmp_path: pathlib.Path) -> None:
    shown = run("--plot", str(tmp_path / "ages.png"))
    assert "attribute 'age': " in shown
    assert "refused (left out with a ledger)" in shown
    assert "counted in its other cell" in shown
    assert "dropped with their rows" in shown
    assert (tmp_path / "ages.png").stat().st_size > 5_000
    require_close(shown)


@pytest.mark.slow
def test_the_example_on_the_raw_file(adult_folder: pathlib.Path) -> None:
    shown = run(str(adult_folder / "adult_raw.csv"))
    assert "in truth 48,842" in shown
    require_close(shown)


def require_close(shown: str) -> None:
    """The errors that came out are those that were stated."""
    (line,) = [line for line in shown.splitlines() if line.startswith("cells: ")]
    words = line.replace(",", "").split()
    off, stated = float(words[words.index("error") + 1]), float(words[-1])
    assert 0.8 * stated < off < 1.2 * stated
