"""Columns of types that cannot be attributes: beside the schema they do not matter, in it they are refused by name."""

from __future__ import annotations

import datetime
import json
import pathlib
import re
import uuid
from collections.abc import Callable
from typing import Any

import duckdb
import ibis
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from qcompile.data import Database, read
from qcompile.data.curator.draft import draft
from qcompile.data.sources.engine_errors import quiet
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, IntegerDomain, Policy, Schema

SCHEMA = Schema((Attribute("x", IntegerDomain(0, 9), Policy("drop")),))
ODD = Schema((*SCHEMA, Attribute("odd", IntegerDomain(0, 9), Policy("drop"))))
POINT = bytes.fromhex("0101000000000000000000F03F000000000000F03F")
IDS = [uuid.UUID(int=7), uuid.UUID(int=2**127 + 3), uuid.UUID(int=7), None]


def geoparquet(folder: pathlib.Path) -> pathlib.Path:
    geo = {"version": "1.1.0", "primary_column": "odd", "columns": {"odd": {"encoding": "WKB", "geometry_types": []}}}
    table = pa.table({"odd": [POINT] * 3, "x": [1, 2, 2], "X": ["a", "b", "c"]})
    path = folder / "it's geo.parquet"
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    return path


def database(folder: pathlib.Path, type_: str, value: str) -> Database:
    path = folder / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT * FROM (VALUES ({value}::{type_}, 1), (NULL, 2)) v(odd, x)")
    return Database(str(path), "t")


def test_the_geometry_of_a_geoparquet_file_is_not_read(tmp_path: pathlib.Path) -> None:
    assert read(geoparquet(tmp_path), SCHEMA).table(("x",)).tolist() == [0, 1, 2, 0, 0, 0, 0, 0, 0, 0]
    with pytest.raises(DataError, match="attribute 'odd': the column is of type binary, but the schema declares"):
        read(geoparquet(tmp_path), ODD)
    with pytest.raises(DataError, match="column 'odd' names the privacy unit, but is of type binary"):
        read(geoparquet(tmp_path), SCHEMA, unit="odd")
    assert "x : integer 1..2 clip" in draft(geoparquet(tmp_path))


DUCKDB_TYPES = {
    "GEOMETRY": f"from_hex('{POINT.hex()}')::BLOB::GEOMETRY",
    "GEOMETRY('OGC:CRS84')": f"from_hex('{POINT.hex()}')::BLOB::GEOMETRY",
    "UNION(secret INTEGER, more VARCHAR)": "1",
    "STRUCT(secret INTEGER)": "{'secret': 1}",
    "BIT": "'101'",
    "UHUGEINT": "5",
    "MAP(VARCHAR, INTEGER)": "MAP {'secret': 1}",
    "TIME_NS": "'10:00:00'",
    "INTEGER[]": "[1]",
}


@pytest.mark.parametrize("type_", DUCKDB_TYPES)
def test_types_of_duckdb_that_are_not_known(type_: str, tmp_path: pathlib.Path) -> None:
    data = database(tmp_path, type_, DUCKDB_TYPES[type_])
    assert read(data, SCHEMA).total == 2
    assert "x : integer 1..2 clip" in draft(data)
    for schema, unit in ((ODD, None), (SCHEMA, "odd")):
        with pytest.raises(DataError) as caught:
            read(data, schema, unit=unit)
        assert re.search(r"is of type [a-z_]+[,;]", str(caught.value)), str(caught.value)
        assert "secret" not in str(caught.value)


ARROW_COLUMNS: dict[str, Callable[[], Any]] = {
    "opaque": lambda: pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "secret", "v"), pa.array(["a", "b"])),
    "interval": lambda: pa.array([pa.MonthDayNano([1, 2, 3])] * 2),
    "runs": lambda: pa.RunEndEncodedArray.from_arrays([2], [1]),
    "views": lambda: pa.array([[1]] * 2, pa.list_view(pa.int8())),
    "struct": lambda: pa.array([{"secret": 1}] * 2),
    "list": lambda: pa.array([[{"secret": 1}]] * 2),
    "union": lambda: pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])], ["secret"]),
    "binary": lambda: pa.array([b"a"] * 2, pa.binary_view()),
    "date": lambda: pa.array([datetime.date(2026, 1, 1)] * 2),
    "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int8()), pa.array([{"secret": 1}])),
}


@pytest.mark.parametrize("name", ARROW_COLUMNS)
def test_types_of_arrow(name: str) -> None:
    data = pa.table({"x": [1, 2], "odd": ARROW_COLUMNS[name]()})
    assert read(data, SCHEMA).total == 2
    assert "x : integer 1..2 clip" in draft(data)
    for schema, unit in ((ODD, None), (SCHEMA, "odd")):
        with pytest.raises(DataError, match="is of type") as caught:
            read(data, schema, unit=unit)
        assert "secret" not in str(caught.value)


def test_lists_of_dicts_do_not_show_their_keys() -> None:
    with pytest.raises(DataError, match="is of type struct, but the schema declares numbers"):
        read({"x": [{"secret": 1}]}, SCHEMA)
    with quiet(), pytest.raises(DataError, match="is of type struct, but the schema declares numbers") as caught:
        read(ibis.memtable(pa.table({"x": [{"secret": 1}]})), SCHEMA)
    assert "secret" not in str(caught.value)


def test_uuids_are_ids_of_units(tmp_path: pathlib.Path) -> None:
    table = pa.table({"x": [1, 2, 3, 4], "id": pa.array([None if i is None else i.bytes for i in IDS], pa.uuid())})
    pq.write_table(table, tmp_path / "t.parquet")
    feather.write_feather(table, tmp_path / "t.feather")
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("CREATE TABLE t (x INTEGER, id UUID)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", list(zip([1, 2, 3, 4], IDS, strict=True)))
    sources = [
        table,
        table.slice(0, 4),
        pa.concat_tables([table.slice(0, 1), table.slice(1)]),
        table.combine_chunks().to_batches()[0],
        tmp_path / "t.parquet",
        tmp_path / "t.feather",
        Database(str(tmp_path / "t.duckdb"), "t"),
        pd.DataFrame({"x": [1, 2, 3, 4], "id": IDS}),
        {"x": [1, 2, 3, 4], "id": IDS},
        {"x": [1, 2, 3, 4], "id": [None if i is None else str(i) for i in IDS]},
    ]
    counts = [read(data, SCHEMA, unit="id").table(("x",)).tolist() for data in sources]
    assert all(c == counts[0] for c in counts)  # of the rows of a unit, the same one counts everywhere
    assert sum(counts[0]) == 2
    assert [read(data, SCHEMA, unit="id", contributions=2).total for data in sources] == [3] * len(sources)


def test_a_view_of_a_database_reads_no_other_file(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "other.parquet")
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t AS SELECT 3 AS x; CREATE VIEW inside AS SELECT x FROM t")
        connection.execute(f"CREATE VIEW outside AS SELECT x FROM read_parquet('{tmp_path}/other.parquet')")
    assert read(Database(str(path), "inside"), SCHEMA).total == 1
    assert Database(str(path), "inside").columns() == ["x"]
    for look in (lambda d: read(d, SCHEMA), lambda d: d.columns()):
        with pytest.raises(DataError, match="is a view that reads other files"):
            look(Database(str(path), "outside"))
    assert read(tmp_path / "other.parquet", SCHEMA).total == 2


def test_names_of_columns_and_tables_are_quoted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.duckdb"
    name, table = 'a "b" c', 'it\'s "one"'
    with duckdb.connect(str(path)) as connection:
        connection.execute('CREATE TABLE "it\'s ""one""" AS SELECT 3 AS "a ""b"" c"')
    schema = Schema((Attribute(name, IntegerDomain(0, 9), Policy("drop")),))
    assert read(Database(str(path), table), schema).total == 1
    assert Database(str(path), table, "main").columns() == [name]
