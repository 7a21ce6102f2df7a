"""Nothing but the release differs between neighbouring tables: no byte printed, no size of a file, no exit code."""

from __future__ import annotations

import json
import logging
import pathlib
import shutil
import warnings
import zipfile
from typing import Any

import pytest

import qcompile as qc
from qcompile.cli.app import execute
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.release.files import KIND, VERSION
from qcompile.support import archive

WORKLOAD = """
schema {
  age: integer 0..9 clip
  kind: category {"x", "y"} other "else"
  size: numeric [0, 1.5, 20) drop
}
workload { people: total; ages: prefix(age) * marginal(kind); sizes: range(size) }
"""

ROWS = [f"{i // 2},{i % 12},{'xyz'[i % 3]},{i % 25}" for i in range(60)]

NEIGHBOURS: dict[str, tuple[list[str], list[str]]] = {
    "one row more": (ROWS, [*ROWS, "0,3,x,1"]),
    "one row of many digits": (ROWS, [*ROWS, "123456789012345,999999999999,a kind of a very long name,1e300"]),
    "one row that is dropped": (ROWS, [*ROWS, "7,3,x,-5"]),
    "one row against none": ([], ["0,3,x,1"]),
    "one row replaced": (ROWS, [*ROWS[:-1], "9,9,y,19"]),
}

RUNS: dict[str, list[str]] = {
    "plain": [],
    "by unit": ["--unit", "person"],
    "ledger": ["--ledger", "l"],
    "gaussian": ["--accounting", "gaussian"],
    "opendp": ["--noise", "opendp"],
    "dry": ["--dry-run"],
}

COUNTS: dict[str, tuple[list[str], list[str]]] = {
    "one count more": (ROWS, ["1,0,x,0", *ROWS[1:]]),
    "a row without a count": (ROWS, [*ROWS, ",3,x,1"]),
    "a negative count": (ROWS, [*ROWS, "-4,3,x,1"]),
    "a fraction": (ROWS, [*ROWS, "0.5,3,x,1"]),
    "a fraction beside a whole number": (["3,3,x,1"], ["3.25,3,x,1"]),
    "a count that is no number": (ROWS, [*ROWS, "many,3,x,1"]),
    "not a number": (ROWS, [*ROWS, "nan,3,x,1"]),
    "a count above the largest": (ROWS, [*ROWS, "40000,3,x,1"]),
    "a dropped row without a count": (ROWS, [*ROWS, ",3,x,-5"]),
    "a dropped row with a negative count": (ROWS, [*ROWS, "-4,3,x,-5"]),
    "nothing but a bad count": (["-1,3,x,1"], ["2,3,x,1"]),
}
"""Neighbours where the first column counts rows: a row that is no count must not be noticed, with a ledger."""

COUNT_RUNS: dict[str, list[str]] = {
    "units": [],
    "cut": ["--max-count", "20"],
    "weights": ["--max-count", "20", "--count-step", "0.1"],
    "out of core": ["--max-count", "20", "--engine", "duckdb"],
}


def observed(
    folder: pathlib.Path, rows: list[str], options: list[str], capfd: pytest.CaptureFixture[str], caplog: Any
) -> dict[str, Any]:
    """Everything that can be seen of a run from outside, the noisy numbers apart."""
    (folder / "d.csv").write_text("\n".join(["person,age,kind,size", *rows]) + "\n")
    caplog.clear()
    with warnings.catch_warnings(record=True) as warned, caplog.at_level(logging.DEBUG):
        warnings.simplefilter("always")
        code = execute(["run", "w.plan", "--data", "d.csv", "--rho", "1/8", "-o", "x.release", *options])
    out, err = capfd.readouterr()
    return {
        "exit code": code,
        "stdout": out,
        "stderr": err,
        "warnings": [str(w.message) for w in warned],
        "log": [(r.name, r.getMessage()) for r in caplog.records],
        "files": sorted((p.name, p.stat().st_size) for p in folder.iterdir() if p.name != "d.csv"),
        "release": written(folder / "x.release"),
        "ledger": spent(folder / "l"),
    }


def written(path: pathlib.Path) -> Any:
    """A release without its measurements: everything else in it, byte for byte."""
    if not path.exists():
        return None
    document, arrays, _ = archive.read(path, KIND, VERSION)
    with zipfile.ZipFile(path) as z:
        members = [(i.filename, i.file_size, i.date_time, i.extra) for i in z.infolist()]
    measured = [(name, a.dtype.str, a.shape) for name, a in arrays.items() if name.startswith("measured/")]
    assert measured
    return json.dumps(document, sort_keys=True), members, measured


def spent(path: pathlib.Path) -> Any:
    if not path.exists():
        return None
    return [(e.number, {**vars(e.charge), "time": "", "folder": ""}, e.release) for e in Ledger.open(path).entries]


def both(
    tmp_path: pathlib.Path, case: str, options: list[str], monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> list[dict[str, Any]]:
    made, tables = tmp_path / "made", NEIGHBOURS | COUNTS
    made.mkdir()
    (made / "w.q").write_text(WORKLOAD)
    monkeypatch.chdir(made)
    assert execute(["compile", "w.q", "-o", "w.plan"]) == 0
    if "--ledger" in options:
        assert execute(["ledger", "create", "l", "--rho", "1"]) == 0
    capfd.readouterr()
    seen = []
    for name, rows in zip(("one", "two"), tables[case], strict=True):
        shutil.copytree(made, tmp_path / name)
        monkeypatch.chdir(tmp_path / name)
        seen.append(observed(tmp_path / name, rows, options, capfd, caplog))
    return seen


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("case", NEIGHBOURS)
def test_neighbouring_tables_look_the_same(
    run: str, case: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    one, two = both(tmp_path, case, RUNS[run], monkeypatch, capfd, caplog)
    for what in one:
        assert one[what] == two[what], what
    assert one["exit code"] == 0
    assert (one["release"] is None) == (run == "dry")
    assert one["warnings"] == one["log"] == []


@pytest.mark.parametrize("run", COUNT_RUNS)
@pytest.mark.parametrize("case", COUNTS)
def test_counts_that_are_none_are_not_noticed(
    run: str, case: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    """The exit code, every byte printed and the charge are the same, also where a policy drops the row."""
    options = ["--ledger", "l", "--count-column", "person", *COUNT_RUNS[run]]
    one, two = both(tmp_path, case, options, monkeypatch, capfd, caplog)
    for what in one:
        assert one[what] == two[what], what
    assert one["exit code"] == 0
    assert "rows whose count is missing or negative are left out" in one["stderr"]
    assert len(one["ledger"]) == 1


def test_what_is_for_the_curator_alone_does_differ_and_says_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    """The comparison above has power: the explicit flag makes stderr differ, and only that."""
    one, two = both(tmp_path, "one row more", ["--confidential-diagnostics"], monkeypatch, capfd, caplog)
    assert {what for what in one if one[what] != two[what]} == {"stderr"}
    assert one["stderr"].startswith("CONFIDENTIAL")


def test_an_uncovered_value_is_the_one_thing_an_exit_code_can_tell(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    """Where no policy covers a value the run must stop; with a ledger that takes an explicit option."""
    (tmp_path / "w.q").write_text("schema { a: integer 0..9; } workload { p: prefix(a) }")
    (tmp_path / "d.csv").write_text("a\n1\n77\n")
    monkeypatch.chdir(tmp_path)
    assert execute(["ledger", "create", "l", "--rho", "1"]) == 0
    command = ["run", "w.q", "--data", "d.csv", "--rho", "1/8", "-o", "x.release", "--ledger", "l"]
    assert execute(command) == 2
    assert "'a' has no policy" in capfd.readouterr().err
    assert execute([*command, "--dry-run"]) == 2
    assert "'a' has no policy" in capfd.readouterr().err
    assert execute([*command, "--strict-values"]) == 2
    message = capfd.readouterr().err
    assert "'a'" in message
    assert "77" not in message
    assert Ledger.open("l").spent == 0
    assert not pathlib.Path("x.release").exists()
    (tmp_path / "d.csv").write_text("a\n1\n7\n")
    assert execute([*command, "--strict-values"]) == 0


def test_the_engine_shows_no_progress(capfd: Any) -> None:
    """DuckDB would print how far it is, and how long it still takes, on stdout, once a query takes two seconds."""
    with connect_duckdb() as connection:
        (shown,) = connection.raw_sql("SELECT current_setting('enable_progress_bar')").fetchone()
    assert not shown


@pytest.mark.parametrize("mechanism", ["batch", "adaptive"])
@pytest.mark.parametrize("engine", ["memory", "duckdb"])
def test_progress_reports_no_rows(engine: str, mechanism: str, tmp_path: pathlib.Path) -> None:
    """A callback may write to a log; the curator's own screen has to be asked for."""
    plan, steps = qc.compile(WORKLOAD), list[Any]()
    for rows in (3, 100):
        prepared = qc.prepare(
            plan, qc.Budget(rho="1e-9"), engine=engine, mechanism=mechanism, reference="none", noise="rounded"
        )
        data = {"age": [1] * rows, "kind": ["x"] * rows, "size": [1.0] * rows}
        for confidential in (False, True):
            seen: list[tuple[str, int, int]] = []
            prepared.execute(data, lambda *step, seen=seen: seen.append(step), confidential_progress=confidential)
            steps.append([step for step in seen if step[0] == "reading"])
            assert len(seen) > len(steps[-1])
    begins = ("reading", 0, 0)
    assert steps == [[begins], [begins, ("reading", 3, 3)], [begins], [begins, ("reading", 100, 100)]]


def test_nulls_that_clip_cannot_clip_are_left_out_with_a_ledger(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: Any, caplog: Any
) -> None:
    """An error would tell that there is one; without a ledger, and with strict values, it is an error."""
    monkeypatch.setitem(NEIGHBOURS, "null", (ROWS, [*ROWS, "0,,x,1", "1,abc,x,1"]))
    one, two = both(tmp_path, "null", RUNS["ledger"], monkeypatch, capfd, caplog)
    assert one == two
    assert one["exit code"] == 0
    assert "are not counted (clip cannot place them)" in one["stderr"]
    (tmp_path / "strict").mkdir()
    two = both(tmp_path / "strict", "null", [*RUNS["ledger"], "--strict-values"], monkeypatch, capfd, caplog)[1]
    assert two["exit code"] == 2
    assert two["ledger"] == []
