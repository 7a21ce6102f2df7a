"""With a ledger no refusal depends on the data: neighbouring tables end alike at every limit, on every engine."""

from __future__ import annotations

import pathlib
import sqlite3
import warnings
from typing import Any

import duckdb
import ibis
import pyarrow as pa
import pytest

import qcompile as qc
from qcompile.data import Database, open_data
from qcompile.data.datasets import opened
from qcompile.data.engines.stream import read_batches
from qcompile.data.sources.engine_errors import EXHAUSTED, ExhaustedError
from qcompile.errors import QCompileError
from qcompile.privacy.ledger.ledger import Ledger
from tests.conformance import test_side_channels
from tests.conformance.test_side_channels import ROWS, both

SOURCE = """
schema {
  a : integer 0..9 clip
  b : category {"x", "y"} other "else"
  c : numeric [0, 1.5, 20) drop
}
workload { t : total; p : prefix(a) * marginal(b); r : range(c) }
"""
BUDGET = qc.Budget(rho="1/8")

Row = tuple[Any, Any, Any, Any]

FEW: list[Row] = [(i // 2, i % 10, "xy"[i % 2], float(i % 19)) for i in range(60)]

MEMORY = 40_000
"""Bytes that a run of the workload takes at least, with one thread; its rows take three bytes each."""

MANY: list[Row] = [(i, *FEW[i % len(FEW)][1:]) for i in range(MEMORY // 3)]

NEIGHBOURS: dict[str, tuple[list[Row], list[Row]]] = {
    "a row more": (FEW, [*FEW, (99, 1, "x", 2.0)]),
    "a row against none": ([], [(99, 1, "x", 2.0)]),
    "a row that is dropped": (FEW, [*FEW, (1, 1, "x", -7.0)]),
    "a null that is clipped": (FEW, [*FEW, (1, None, "x", 2.0)]),
    "nulls": (FEW, [*FEW, (None, None, None, None)]),
    "values of no domain": (FEW, [*FEW, (2**40, -(2**50), "nobody's label", 1e300)]),
    "a row more than fits in memory": (MANY, [*MANY, (-1, 1, "x", 2.0)]),
    "a row more that is dropped": (MANY, [*MANY, (-1, 1, "x", -2.0)]),
}

COLUMNS = {"who": pa.int64(), "a": pa.int64(), "b": pa.string(), "c": pa.float64()}


def make_frame(rows: list[Row], folder: pathlib.Path) -> pa.Table:
    del folder
    return pa.table({n: pa.array([r[i] for r in rows], t) for i, (n, t) in enumerate(COLUMNS.items())})


def make_csv(rows: list[Row], folder: pathlib.Path) -> pathlib.Path:
    lines = [",".join("" if value is None else str(value) for value in row) for row in rows]
    path = folder / "d.csv"
    path.write_text("\n".join(["who,a,b,c", *lines]) + "\n")
    return path


def make_duckdb(rows: list[Row], folder: pathlib.Path) -> Database:
    path, table = folder / "d.duckdb", make_frame(rows, folder)
    with duckdb.connect(str(path)) as made:
        made.register("rows", table)
        made.execute("CREATE TABLE t AS SELECT * FROM rows")
    return Database(str(path), "t")


def make_sqlite(rows: list[Row], folder: pathlib.Path) -> Any:
    made = sqlite3.connect(folder / "d.sqlite")
    made.execute("CREATE TABLE t (who INTEGER, a INTEGER, b TEXT, c REAL)")
    made.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    made.commit()
    made.close()
    return ibis.sqlite.connect(folder / "d.sqlite").table("t")


RUNS: dict[str, tuple[Any, dict[str, Any]]] = {
    "frame in memory": (make_frame, {"engine": "memory"}),
    "file in memory": (make_csv, {"engine": "memory"}),
    "file by scans": (make_csv, {"engine": "duckdb"}),
    "file by unit": (make_csv, {"unit": "who"}),
    "file by unit and scans": (make_csv, {"unit": "who", "engine": "duckdb"}),
    "database": (make_duckdb, {}),
    "database in memory": (make_duckdb, {"engine": "memory"}),
    "database by unit": (make_duckdb, {"unit": "who"}),
    "another database": (make_sqlite, {}),
    "another database in memory": (make_sqlite, {"engine": "memory"}),
    "another database by unit": (make_sqlite, {"unit": "who"}),
    "adaptive": (make_frame, {"engine": "memory", "mechanism": "adaptive", "reference": "independence"}),
}


@pytest.fixture(scope="module")
def plan() -> qc.Plan:
    return qc.compile(SOURCE)


def observe(plan: qc.Plan, data: Any, folder: pathlib.Path, options: dict[str, Any]) -> dict[str, Any]:
    """All that can be seen of a run: its error, warnings, progress, charges and files."""
    ledger = Ledger.create(folder / "l", qc.Budget(rho=1))
    steps: list[tuple[str, int, int]] = []
    error = ""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            plan.run(data, BUDGET, ledger=ledger, output=folder / "x", progress=lambda *s: steps.append(s), **options)
        except QCompileError as e:
            error = f"{type(e).__name__}: {e}".replace(str(folder), "")
    adaptive = options.get("mechanism") == "adaptive"  # its rounds and their number are part of the release
    return {
        "error": error,
        "warnings": [str(w.message) for w in warned],
        "progress": [s for s in steps if not adaptive or s[0] == "reading"],
        "charges": [(e.charge.rho, e.release) for e in ledger.entries],
        "files": sorted(p.name for p in folder.iterdir()),
    }


@pytest.mark.parametrize("case", NEIGHBOURS)
@pytest.mark.parametrize("run", RUNS)
def test_neighbours_end_alike(run: str, case: str, plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    make, options = RUNS[run]
    seen = []
    for name, rows in zip(("one", "two"), NEIGHBOURS[case], strict=True):
        folder = tmp_path / name
        folder.mkdir()
        data = make(rows, folder)
        seen.append(observe(plan, data, folder, {"max_memory": MEMORY, "workers": 1, **options}))
    one, two = seen
    assert one == two
    if run == "another database by unit":  # refused beforehand: it has no digest
        assert "refused the query" in one["error"]
        assert one["charges"] == []
    else:
        assert one["error"] == ""
        assert one["charges"] == [(BUDGET.rho, "x")]


def test_the_limit_is_one(plan: qc.Plan, tmp_path: pathlib.Path) -> None:
    """The comparisons above have power: a run takes nearly as much, and the larger table is counted in another way."""
    memory = qc.prepare(plan, BUDGET, output=tmp_path / "x", workers=1).prediction.memory
    assert memory <= MEMORY < 20 * memory
    views, kinds = plan.tables, []
    for rows in NEIGHBOURS["a row more than fits in memory"]:
        data = make_frame(rows, tmp_path)
        with open_data(data, plan.workload.schema, views, engine="memory", max_memory=MEMORY) as counts:
            kinds.append(type(counts).__name__)
    assert kinds == ["Rows", "Scans"]


@pytest.mark.parametrize("attempts", [1, 3])
def test_an_engine_that_runs_out_of_memory_on_one_of_them_is_not_seen(
    attempts: int, plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    failing = iter([False, *[True] * attempts, *[False] * 1000])

    def exhausted(*arguments: Any) -> Any:
        if next(failing):
            raise ExhaustedError(EXHAUSTED)
        return read_batches(*arguments)

    monkeypatch.setattr(opened, "read_batches", exhausted)
    for name, rows in zip(("one", "two"), NEIGHBOURS["a row more"], strict=True):
        (tmp_path / name).mkdir()
        seen.append(observe(plan, make_frame(rows, tmp_path), tmp_path / name, {"unit": "who"}))
    assert seen[0] == seen[1]
    assert seen[0]["error"] == ""


def test_where_no_way_is_left_the_charge_is_the_same(
    plan: qc.Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a unit with more rows than DuckDB can sort: see the threat model, Refusals."""

    def exhausted(*_: Any) -> Any:
        raise ExhaustedError(EXHAUSTED)

    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = observe(plan, make_frame(FEW, tmp_path), tmp_path / "one", {"unit": "who"})
    monkeypatch.setattr(opened, "read_batches", exhausted)
    two = observe(plan, make_frame(FEW, tmp_path), tmp_path / "two", {"unit": "who"})
    assert [rho for rho, _ in one["charges"]] == [rho for rho, _ in two["charges"]] == [BUDGET.rho]
    assert not any(character.isdigit() for character in two["error"].partition("; the budget is spent")[0])


def test_the_command_line_ends_alike_at_the_limit(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    many = ROWS * (MEMORY // 3 // len(ROWS)) + ROWS[: MEMORY // 3 % len(ROWS)]
    for number, more in enumerate(("0,3,x,1", "0,3,x,-1", ",,,")):
        monkeypatch.setitem(test_side_channels.NEIGHBOURS, "limit", (many, [*many, more]))
        options = ["--ledger", "l", "--engine", "memory", "--max-memory", f"{MEMORY}", "--workers", "1"]
        (tmp_path / f"{number}").mkdir()
        one, two = both(tmp_path / f"{number}", "limit", options, monkeypatch, capfd, caplog)
        assert one == two
        assert one["exit code"] == 0
