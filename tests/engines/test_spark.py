"""Spark counts what the other engines count."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from qcompile.data import Reading, preflight
from qcompile.data.opening import open_data
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Schema
from tests.engines import brute, tables

pytestmark = pytest.mark.engines

ROWS = brute.messy(400, seed=3)
FEW = Schema(tuple(brute.SCHEMA[name] for name in ("age", "Month of birth", "pay", "debt", "label", "word")))

SINGLE = [(), *((name,) for name in brute.SCHEMA.names)]
"""Spark takes a second for each table."""


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tables.parquet(ROWS, tmp_path_factory.mktemp("spark") / "people.parquet")


def test_a_parquet_file(spark: Any, parquet: pathlib.Path) -> None:
    tables.require_same(parquet, ROWS, "spark", views=SINGLE)


@pytest.mark.parametrize(
    "reading",
    [
        Reading("person", 40),
        Reading("house", 7),
        Reading(count_column="cells"),
        Reading(count_column="cells", max_count=4, count_step=2),
    ],
    ids=str,
)
def test_units_and_cells(spark: Any, parquet: pathlib.Path, reading: Reading) -> None:
    tables.require_same(parquet, ROWS, "spark", FEW, reading)


def test_a_csv_file(spark: Any, tmp_path: pathlib.Path) -> None:
    rows = [*ROWS, {**ROWS[0], "label": "", "word": ""}]
    tables.require_same(tables.text(rows, tmp_path / "people.csv"), rows, "spark", views=SINGLE)


@pytest.mark.parametrize("engine", ["auto", "memory"])
def test_a_data_frame(spark: Any, parquet: pathlib.Path, engine: str) -> None:
    tables.require_same(spark.read.parquet(str(parquet)), ROWS, engine, FEW)


def test_the_session_is_left_as_it_was(spark: Any, parquet: pathlib.Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    with open_data(parquet, FEW, engine="spark"):
        pass
    assert spark.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    assert spark.catalog.listTables() == []
    spark.conf.unset("spark.sql.session.timeZone")


TEXT = Schema((Attribute("x", CategoryDomain(("", "a", "a\nb", 'say "x"', " a ")), brute.OTHER),))


def counts(path: pathlib.Path, engine: str) -> list[int]:
    with open_data(path, TEXT, [("x",)], engine=engine) as found:
        return list(map(int, found.table(("x",))))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_texts_with_everything_in_them(spark: Any, tmp_path: pathlib.Path, end: str) -> None:
    path = tmp_path / "people.csv"
    lines = ["y,x", '1,""', "2,", "3,a", '4,"a"', '5,"say ""x"""', "6, a ", '7," a "', "8,NULL"]
    path.write_bytes(end.join([*lines, ""]).encode())
    assert counts(path, "spark") == counts(path, "duckdb") == [1, 2, 0, 1, 2, 2]


def test_a_line_break_in_a_text(spark: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b'\xef\xbb\xbfy,x\n1,"a\nb"\n2,a\n')
    assert counts(path, "spark") == counts(path, "duckdb") == [0, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("body", [b"1\n", b"1,a,b\n", b'1,"a\n', b'1,"a"b\n', b"1,\xff\n"])
def test_a_file_that_duckdb_refuses_is_refused(spark: Any, tmp_path: pathlib.Path, body: bytes) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"y,x\n0,a\n" + body)
    messages = []
    for engine in ("spark", "duckdb"):
        with pytest.raises(DataError) as caught:
            counts(path, engine)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize("name", ["a[1].csv", "_hidden.csv", "a,b.csv"])
def test_names_that_spark_takes_for_something_else(spark: Any, tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x\na\n")
    with pytest.raises(DataError, match="Spark cannot read a file of that name"):
        counts(tmp_path / name, "spark")


def test_refusals(spark: Any, parquet: pathlib.Path) -> None:
    schema = Schema((Attribute("good", IntegerDomain(-2, 1)), Attribute("label", CategoryDomain(("NO",)))))
    with (
        pytest.raises(DataError, match="attribute 'good' has nulls or values outside") as caught,
        open_data(parquet, schema, engine="spark"),
    ):
        pass
    assert "attribute 'label'" in str(caught.value)
    frame = spark.read.parquet(str(parquet))
    preflight(frame, schema)
    with pytest.raises(OptionError, match="engine='duckdb' cannot count a Spark table; use engine='auto' or 'memory'"):
        preflight(frame, schema, engine="duckdb")
