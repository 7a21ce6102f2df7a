"""Narrow floating numbers against the edges of bins: in every source, 0.7 in the data is the 0.7 of the schema."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import sqlite3
from collections.abc import Callable
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
from hypothesis import given
from hypothesis import strategies as st

from qcompile.data import Database
from qcompile.data.curator.diagnose import diagnose
from qcompile.data.encode.edges import round_edges
from qcompile.data.opening import open_data
from qcompile.data.sources.engine_errors import quiet
from qcompile.queries.schema import Attribute, NumericDomain, Policy, Schema

VALUES = [0.1, 0.2, 0.3, 0.7, 0.9, 1.1, 1.2]
SCHEMA = Schema((Attribute("x", NumericDomain((0.0, 0.1, 0.2, 0.3, 0.7, 0.9, 1.1)), Policy("drop")),))
COUNTS = [0, 1, 1, 1, 1, 2, 0]
"""1.1 is on the closed last edge, 1.2 above it."""


def arrow(float_type: str) -> pa.Table:
    return pa.table({"x": pa.array(np.array(VALUES, float_type))})


def parquet(folder: pathlib.Path, float_type: str) -> pathlib.Path:
    pq.write_table(arrow(float_type), folder / "t.parquet")
    return folder / "t.parquet"


def feather_file(folder: pathlib.Path, float_type: str) -> pathlib.Path:
    feather.write_feather(arrow(float_type), folder / "t.feather")
    return folder / "t.feather"


def duckdb_file(folder: pathlib.Path, float_type: str) -> Database:
    duckdb_type = {"float64": "DOUBLE"}.get(float_type, "FLOAT")
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        listed = ", ".join(f"({v!r}::{duckdb_type})" for v in VALUES)
        connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES {listed}) t(x)")
    return Database(str(folder / "t.duckdb"), "t")


def sqlite_table(folder: pathlib.Path, float_type: str) -> Any:
    with contextlib.closing(sqlite3.connect(folder / "t.db")) as connection, connection:
        connection.execute("CREATE TABLE t (x REAL)")  # which are doubles
        connection.executemany("INSERT INTO t VALUES (?)", [(v,) for v in VALUES])
    with quiet():
        return ibis.sqlite.connect(str(folder / "t.db")).table("t")


SOURCES: dict[str, Callable[[pathlib.Path, str], Any]] = {
    "array": lambda folder, float_type: {"x": np.array(VALUES, float_type)},
    "scalars": lambda folder, float_type: {"x": list(np.array(VALUES, float_type))},
    "pandas": lambda folder, float_type: pd.DataFrame({"x": np.array(VALUES, float_type)}),
    "polars": lambda folder, float_type: pl.from_arrow(arrow(float_type)),
    "Arrow": lambda folder, float_type: arrow(float_type),
    "Parquet": parquet,
    "Feather": feather_file,
    "DuckDB": duckdb_file,
    "memtable": lambda folder, float_type: ibis.memtable(arrow(float_type if float_type != "float16" else "float32")),
    "SQLite": sqlite_table,
}


@pytest.mark.parametrize("engine", ["memory", "auto", "duckdb"])
@pytest.mark.parametrize("float_type", ["float64", "float32", "float16"])
@pytest.mark.parametrize("source", SOURCES)
def test_decimal_edges(source: str, float_type: str, engine: str, tmp_path: pathlib.Path) -> None:
    data = SOURCES[source](tmp_path, float_type)
    engine = "auto" if (source, engine) == ("SQLite", "duckdb") else engine
    with open_data(data, SCHEMA, [("x",)], engine=engine) as counts:
        assert dict(counts.tables([("x",)]))[("x",)]().tolist() == COUNTS[:6]
        assert counts.total == 6


def test_dictionaries_of_narrow_numbers() -> None:
    for float_type in (np.float16, np.float32):
        indices = pa.array(range(len(VALUES)), pa.int8())
        column = pa.DictionaryArray.from_arrays(indices, pa.array(np.array(VALUES, float_type)))
        with open_data(pa.table({"x": column}), SCHEMA) as counts:
            assert counts.total == 6


def test_the_curator_sees_the_same_ends() -> None:
    schema = Schema((Attribute("x", NumericDomain((0.7, 1.1)), Policy("clip")),))
    facts = diagnose({"x": np.array([0.7, 1.1, 1.2], np.float32)}, schema).attributes[0]
    assert (facts.clipped, facts.outside) == (1, 1)


def test_edges_beyond_the_type_or_too_close_for_it_stay() -> None:
    float16 = np.dtype(np.float16)
    assert round_edges((0.1, 1e6, 1e300), float16) == (float(np.float16(0.1)), 1e6, 1e300)
    assert round_edges((0.0, 1e-50, 1.1), np.dtype(np.float32)) == (0.0, 1e-50, float(np.float32(1.1)))


@given(st.lists(st.floats(-1e5, 1e5), min_size=2, max_size=8, unique=True), st.sampled_from(["float16", "float32"]))
def test_rounded_edges_keep_their_order_and_the_bins_of_all_other_numbers(edges: list[float], float_type: str) -> None:
    edges = sorted(edges)
    rounded = round_edges(tuple(edges), np.dtype(float_type))
    assert all(a < b for a, b in itertools.pairwise(rounded))
    with np.errstate(over="ignore"):
        marks = [np.dtype(float_type).type(e) for e in edges]
    marks = [
        v for m in marks for v in (np.nextafter(m, -np.inf, dtype=m.dtype), np.nextafter(m, np.inf, dtype=m.dtype))
    ]
    others = [float(m) for m in marks if np.isfinite(m) and float(m) not in rounded]
    assert np.searchsorted(edges, others, "right").tolist() == np.searchsorted(rounded, others, "right").tolist()
