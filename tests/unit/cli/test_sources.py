"""Where rows come from, on the command line: databases, engines, cells with counts; and runs that are resumed."""

from __future__ import annotations

import gzip
import pathlib

import duckdb
import numpy as np
import pytest

import qcompile as qc
from qcompile.cli.app import execute
from qcompile.run.execute import OpenRun
from qcompile.run.journal import Journal

WORKLOAD = """
schema { age : integer 0..9 clip; job : category {"x", "y"} drop }
workload { t : marginal(age, job) }
"""
ROWS = [(i * i % 13, "xyz"[i % 7 % 3]) for i in range(80)]
EXACT = np.array([[sum((min(r, 9), k) == (a, j) for r, k in ROWS) for j in "xy"] for a in range(10)])


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A workload, and the same rows as a CSV file, in a DuckDB file, and as cells with counts."""
    monkeypatch.chdir(tmp_path)
    pathlib.Path("w.q").write_text(WORKLOAD)
    pathlib.Path("d.csv").write_text("age,job\n" + "".join(f"{a},{j}\n" for a, j in ROWS))
    cells = "".join(f"{a},{j},{ROWS.count((a, j))}\n" for a, j in sorted(set(ROWS)))
    pathlib.Path("cells.csv").write_text("age,job,rows\n" + cells)
    with duckdb.connect("d.duckdb") as made:
        made.execute("CREATE SCHEMA census; CREATE TABLE people AS FROM 'd.csv'")
        made.execute("CREATE TABLE census.persons AS FROM 'd.csv'")
    half = len(ROWS) // 2
    for name, part in (("one", ROWS[:half]), ("two", ROWS[half:])):
        (tmp_path / "parts" / f"half={name}").mkdir(parents=True)
        text = "job;age\n" + "".join(f"{j};{a}\n" for a, j in part)
        (tmp_path / "parts" / f"half={name}" / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


SOURCES = {
    "a folder": ["--data", "parts"],
    "a pattern": ["--data", "parts/*/*.csv.gz"],
    "two files": ["--data", "parts/half=two/two.csv.gz", "--data", "parts/half=one/one.csv.gz"],
    "an address": ["--data", "file://localhost/{folder}/parts"],
    "file": ["--data", "d.csv"],
    "out of core": ["--data", "d.csv", "--engine", "duckdb"],
    "database": ["--data", "d.duckdb", "--table", "people"],
    "another namespace": ["--data", "d.duckdb", "--table", "census.persons", "--engine", "memory"],
    "cells": ["--data", "cells.csv", "--count-column", "rows"],
    "cells out of core": ["--data", "cells.csv", "--count-column", "rows", "--engine", "duckdb"],
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_gives_the_same_counts(name: str, folder: pathlib.Path) -> None:
    source = [option.format(folder=folder) for option in SOURCES[name]]
    assert execute(["run", "w.q", *source, "--rho", "1", "--noise", "none", "-o", "r"]) == 0
    assert qc.load_release("r").marginal(("age", "job")).array == pytest.approx(EXACT)


MISTAKES = {
    "a database without a table": (["--data", "postgresql://me:s3cret@host/x"], "no table in it is named"),
    "a table of a file": (["--data", "d.csv", "--table", "people"], "leave it out"),
    "no such table": (["--data", "d.duckdb", "--table", "peopel"], "did you mean 'people'?"),
    "an engine for something else": (["--data", "d.csv", "--engine", "database"], "use engine='auto' or"),
    "the same file twice": (["--data", "d.csv", "--data", "./d.csv"], "its rows would count twice"),
    "two databases": (["--data", "d.duckdb", "--data", "d.duckdb", "--table", "people"], "give --data once"),
    "no such engine": (["--data", "d.csv", "--engine", "abacus"], "engine cannot be 'abacus'"),
    "counts and a unit": (["--data", "cells.csv", "--count-column", "rows", "--unit", "job"], "cannot be used with"),
    "no such column of counts": (["--data", "cells.csv", "--count-column", "row"], "did you mean 'rows'?"),
    "nothing to resume": (["--data", "d.csv", "--resume"], "nothing to resume"),
    "an address for the output's place": (["--data", "host=h password=s3cret"], "no table in it is named"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_told_before_anything_is_spent(
    name: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, message = MISTAKES[name]
    assert execute(["ledger", "create", "l", "--rho", "1"]) == 0
    before = sorted(p.name for p in folder.iterdir())
    capsys.readouterr()
    assert execute(["run", "w.q", *options, "--rho", "1", "--ledger", "l", "-o", "r"]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert not out, "nothing is said of a charge"
    assert "s3cret" not in err
    assert qc.Ledger.open("l").spent == 0
    assert sorted(p.name for p in folder.iterdir()) == before


def test_a_run_is_stopped_and_resumed(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "w.q", "--data", "d.csv", "--rho", "1/2", "--ledger", "l", "-o", "r"]
    assert execute(["ledger", "create", "l", "--rho", "1/2"]) == 0

    def interrupted(self: Journal) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", interrupted)
        assert execute(command) != 0
    assert "finish the run with the same command and --resume" in capsys.readouterr().err
    assert execute(command) == 2
    assert "finish it with --resume" in capsys.readouterr().err
    assert execute([*command, "--resume"]) == 0
    assert [e.release for e in qc.Ledger.open("l").entries] == ["r"]
    assert not pathlib.Path("r.unfinished").exists()


def test_a_run_that_is_stopped_before_its_charge_leaves_nothing_to_resume(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["run", "w.q", "--data", "d.csv", "--rho", "1/2", "--ledger", "l", "-o", "r"]
    assert execute(["ledger", "create", "l", "--rho", "1/2"]) == 0

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(OpenRun, "_count", interrupted)
        assert execute(command) == 130
    err = capsys.readouterr().err
    assert "--resume" not in err
    assert "see it with: qcompile ledger show l" in err
    assert not pathlib.Path("r.unfinished").exists()
    assert execute(command) == 0


def test_a_resumed_run_knows_all_files_of_its_data(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["run", "w.q", "--data", "parts", "--rho", "1/2", "--ledger", "l", "-o", "r"]
    assert execute(["ledger", "create", "l", "--rho", "1/2"]) == 0

    def interrupted(self: Journal) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "remove", interrupted)
        assert execute(command) != 0
    late = folder / "parts" / "half=one" / "late.csv"
    late.write_text("age,job\n1,x\n")
    assert execute([*command, "--resume"]) == 2
    late.rename(folder / "parts" / "half=one" / "_late.csv")
    assert execute([*command, "--resume"]) == 0
