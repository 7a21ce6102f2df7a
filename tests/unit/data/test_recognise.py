"""The kind of the data is decided once, and each kind knows its columns, its size and its files."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from qcompile.cli.output import source_of
from qcompile.data import Database, Dataset, Reading, Rows, open_data, preflight, recognise, recognition
from qcompile.data.choose_engine import Place
from qcompile.data.datasets.count_tables import CountTables
from qcompile.data.datasets.dataset import TableDataset
from qcompile.data.datasets.files import Files
from qcompile.data.datasets.frame import Frame
from qcompile.data.datasets.ibis_table import IbisTable
from qcompile.data.datasets.opened import ConnectedTable
from qcompile.data.sources.arrays import open_arrays
from qcompile.data.sources.duckdb import connect_duckdb
from qcompile.data.sources.engine_errors import quiet
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Attribute, IntegerDomain, Schema

SCHEMA = Schema((Attribute("a", IntegerDomain(0, 2)), Attribute("b", IntegerDomain(0, 1))))
VALUES = {"a": [0, 1, 2, 2], "b": [0, 1, 1, 0]}
EXACT = np.array([[1, 0], [0, 1], [1, 1]])
KINDS: dict[str, tuple[type[Dataset], Place, int, int]] = {
    "csv": (Files, "files", 0, 10),
    "parquet": (Files, "files", 4, 4),
    "arrow": (Files, "files", 0, 0),
    "folder": (Files, "files", 4, 4),
    "list": (Files, "files", 4, 4),
    "text": (Files, "files", 0, 10),
    "pandas": (Frame, "frame", 4, 4),
    "polars": (Frame, "frame", 4, 4),
    "arrow table": (Frame, "frame", 4, 4),
    "record batch": (Frame, "frame", 4, 4),
    "dict": (Frame, "frame", 4, 4),
    "database": (Database, "duckdb", 0, 0),
    "ibis": (IbisTable, "duckdb", 0, 0),
    "counts": (CountTables, "counts", 0, 0),
}
"""Names of data to their kind, place, known rows and most rows."""

ON_DISK = {
    "csv": ["t.csv"],
    "parquet": ["in/t.parquet"],
    "arrow": ["t.arrow"],
    "folder": ["in/t.parquet"],
    "list": ["in/t.parquet"],
    "text": ["t.csv"],
    "database": ["t.duckdb"],
}


@pytest.fixture
def data(tmp_path: pathlib.Path) -> Iterator[dict[str, Any]]:
    """The same four rows as data of every kind that needs no server."""
    table = pa.table(VALUES)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "_notes.txt").write_text("not a table")
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{a},{b}\n" for a, b in zip(*VALUES.values(), strict=True)))
    pq.write_table(table, tmp_path / "in" / "t.parquet")
    feather.write_feather(table, str(tmp_path / "t.arrow"))
    with duckdb.connect(str(tmp_path / "t.duckdb")) as made:
        made.execute(f"CREATE TABLE t AS FROM '{tmp_path / 'in' / 't.parquet'}'")
    with quiet():
        connection = ibis.duckdb.connect()
        connection.raw_sql(f"CREATE TABLE t AS FROM '{tmp_path / 'in' / 't.parquet'}'")
        expression = connection.table("t")
    yield {
        "csv": tmp_path / "t.csv",
        "parquet": tmp_path / "in" / "t.parquet",
        "arrow": tmp_path / "t.arrow",
        "folder": tmp_path / "in",
        "list": [tmp_path / "in" / "t.parquet"],
        "text": str(tmp_path / "t.csv"),
        "pandas": pd.DataFrame(VALUES),
        "polars": pl.DataFrame(VALUES),
        "arrow table": table,
        "record batch": table.to_batches()[0],
        "dict": VALUES,
        "database": Database(str(tmp_path / "t.duckdb"), "t"),
        "ibis": expression,
        "counts": {("a", "b"): EXACT},
    }
    connection.disconnect()


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_recognised_as_itself(name: str, data: dict[str, Any]) -> None:
    kind, place, known, most = KINDS[name]
    dataset = recognise(data[name])
    assert type(dataset) is kind
    assert recognise(dataset) is dataset
    assert dataset.place == place
    assert dataset.columns() == ["a", "b"]
    assert dataset.known_rows() == known
    assert dataset.most_rows() == most


@pytest.mark.parametrize("name", KINDS)
def test_files_are_those_that_are_read(name: str, data: dict[str, Any], tmp_path: pathlib.Path) -> None:
    dataset = recognise(data[name])
    expected = [tmp_path / path for path in ON_DISK.get(name, [])]
    assert dataset.files() == expected
    assert dataset.identity() == [[os.path.realpath(path), path.stat().st_mtime_ns] for path in expected]


@pytest.mark.parametrize("name", KINDS)
def test_a_dataset_is_opened_once_and_counted(name: str, data: dict[str, Any]) -> None:
    with recognise(data[name]).open(SCHEMA) as opened, opened.counts([("a", "b")]) as counts:
        assert counts.total == 4
        assert (counts.table(("a", "b")) == EXACT).all()


@pytest.mark.parametrize("name", KINDS)
def test_a_dataset_is_data(name: str, data: dict[str, Any]) -> None:
    dataset = recognise(data[name])
    preflight(dataset, SCHEMA)
    with open_data(dataset, SCHEMA, [("b",)]) as counts:
        assert counts.table(("b",)).tolist() == [2, 2]


@pytest.mark.parametrize("name", KINDS)
def test_opening_refuses_before_values_are_read(name: str, data: dict[str, Any]) -> None:
    wide = Schema((*SCHEMA, Attribute("c", IntegerDomain(0, 1))))
    dataset = recognise(data[name])
    if name == "counts":
        with dataset.open(wide) as opened, pytest.raises(DataError, match="no table has the view"):
            opened.counts([("c",)])
    else:
        with pytest.raises(DataError, match="lacks 1 of the 3 columns of the schema: 'c'"):
            dataset.open(wide).__enter__()
    with pytest.raises(OptionError, match="engine cannot be 'abacus'"):
        dataset.open(SCHEMA, engine="abacus").__enter__()


def test_values_are_refused_when_counts_are_asked_for() -> None:
    refused = pytest.raises(DataError, match="attribute 'a' has nulls or values outside its domain")
    with recognise({"a": [0, 9], "b": [0, 0]}).open(SCHEMA) as opened, refused:
        opened.counts().__enter__()


def test_the_kind_is_asked_once_for_a_run(data: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    @dataclass(frozen=True)
    class Listening(Frame):  # type: ignore[misc]
        @classmethod
        def recognise(cls, data: object) -> Frame | None:
            asked.append(data)
            return super().recognise(data)

    monkeypatch.setattr(recognition, "KINDS", (Listening,))
    with recognise(data["dict"]).open(SCHEMA) as opened:
        for views in ([("a",)], [("a", "b")]):
            with opened.counts(views) as counts:
                assert counts.total == 4
    assert asked == [VALUES]


def test_progress_counts_all_rows(data: dict[str, Any]) -> None:
    steps: list[tuple[int, int]] = []
    for name in ("parquet", "csv"):
        with recognise(data[name]).open(SCHEMA) as opened, opened.counts((), lambda *step: steps.append(step)):
            pass
    assert steps == [(4, 4), (4, 0)]


def test_servers_and_missing_files_cannot_be_compared(tmp_path: pathlib.Path) -> None:
    server = Database("postgresql://me:s3cret@host/x", "t")
    assert server.place == "server"
    for missing in (server, tmp_path / "none.csv", [tmp_path / "none.csv"], Database("none.duckdb", "t")):
        assert recognise(missing).files() == []
        assert recognise(missing).identity() == []


def test_a_database_may_be_named_by_a_url(data: dict[str, Any]) -> None:
    path = data["database"].url
    assert recognise(Database(f"duckdb://{path}", "t")).identity() == data["database"].identity() != []


def test_the_command_line_names_paths_and_tables() -> None:
    assert source_of("t.csv", None) == "t.csv"
    assert source_of("t.duckdb", "t") == Database("t.duckdb", "t")
    with pytest.raises(OptionError, match="leave it out"):
        source_of("t.csv", "t")


@pytest.mark.parametrize("wrong", [None, 5, [], object(), {1, 2}, iter([1])])
def test_what_is_no_data_is_refused(wrong: object) -> None:
    with pytest.raises(DataError, match=f"cannot read data of type {type(wrong).__name__}; pass a path to"):
        recognise(wrong)


def test_a_lazy_frame_is_refused_at_the_entrance() -> None:
    with pytest.raises(DataError, match=r"pass data.collect\(\)"):
        recognise(pl.LazyFrame(VALUES))


def test_counts_have_no_rows_to_connect_to(data: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="hold no rows"):
        recognise(data["counts"]).connect(SCHEMA)


def test_recognising_imports_no_library() -> None:
    code = """
import sys
from qcompile.data import recognise
recognise("t.csv").files(), recognise({"a": [1]}).columns(), recognise({("a",): [1]}).columns()
print(sorted({"ibis", "pandas", "polars", "pyarrow", "pyspark", "duckdb"} & set(sys.modules)))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


@dataclass(frozen=True)
class Digits(TableDataset):
    """A kind of data that only this test knows: two digits a row."""

    text: str

    @classmethod
    def recognise(cls, data: object) -> Digits | None:
        return cls(data) if isinstance(data, str) and data.replace(" ", "").isdigit() else None

    @property
    def place(self) -> Place:
        return "frame"

    def columns(self) -> list[object]:
        return ["a", "b"]

    @contextmanager
    def _connect(self, columns: Schema, engine: str, memory: int, workers: int | None) -> Iterator[ConnectedTable]:
        with connect_duckdb(memory, workers) as connection:
            yield ConnectedTable(engine, connection, open_arrays("the digits", self.columns(), self._column, columns))

    def _column(self, position: int) -> list[int]:
        return [int(row[position]) for row in self.text.split()]


@pytest.mark.parametrize("engine", ["auto", "memory", "duckdb"])
def test_a_new_kind_needs_one_class_and_one_line(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognition, "KINDS", (Digits, *recognition.KINDS))
    text = "00 11 21 20"
    assert recognise(text) == Digits(text)
    preflight(text, SCHEMA, engine=engine)
    with open_data(text, SCHEMA, [("a", "b")], Reading("b", 1), engine=engine) as counts:
        assert isinstance(counts, Rows)
        assert counts.total == 2
    with open_data(text, SCHEMA, [("a", "b")], engine=engine) as counts:
        assert (counts.table(("a", "b")) == EXACT).all()
    with pytest.raises(DataError, match="the digits lacks 1"):
        preflight(text, Schema((*SCHEMA, Attribute("c", IntegerDomain(0, 1)))))
