"""PostgreSQL counts what the other engines count, for a user who may only read."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from qcompile.data import Database, Reading, preflight
from qcompile.data.curator.diagnose import diagnose
from qcompile.data.curator.draft import draft
from qcompile.data.opening import open_data
from qcompile.errors import DataError, OptionError, QCompileError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Schema
from tests.engines import brute, tables
from tests.engines.conftest import Server, connect

pytestmark = pytest.mark.engines

ROWS = brute.messy(700, seed=2)
COLUMNS = {
    "good": "smallint",
    "age": "bigint",
    "Month of birth": "bigint",
    "pay": "double precision",
    "debt": "double precision",
    "price": "numeric(12, 3)",
    "rate": "double precision",
    "member": "boolean",
    "label": "text",
    "code": "integer",
    "word": "varchar(40)",
    "number": "integer",
    "person": "text",
    "house": "integer",
    "cells": "bigint",
}


@pytest.fixture(scope="module")
def people(server: Server) -> Database:
    store(server, "people", COLUMNS, [[row[name] for name in COLUMNS] for row in ROWS])
    return Database(server.url("reader", "hunter2"), "people")


def store(server: Server, name: str, columns: dict[str, str], rows: Sequence[Sequence[Any]]) -> None:
    with connect(server) as owner:
        owner.execute(f'DROP TABLE IF EXISTS "{name}"')
        listed = ", ".join(f'"{column}" {type_}' for column, type_ in columns.items())
        owner.execute(f'CREATE TABLE "{name}" ({listed})')
        marks = ", ".join(["%s"] * len(columns))
        owner.cursor().executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)


@pytest.mark.parametrize("engine", ["auto", "memory"])
@pytest.mark.parametrize(
    "reading",
    [
        Reading(),
        Reading("person", 40),
        Reading("house", 7),
        Reading(count_column="cells"),
        Reading(count_column="cells", max_count=4, count_step=2),
    ],
    ids=str,
)
def test_counts_are_those_of_the_plain_encoder(people: Database, engine: str, reading: Reading) -> None:
    tables.require_same(people, ROWS, engine, reading=reading)


def test_an_ibis_table_is_counted_by_its_own_connection(server: Server, people: Database) -> None:
    import ibis

    connection = ibis.postgres.connect(host="127.0.0.1", port=server.port, user="reader", database="postgres")
    try:
        tables.require_same(connection.table("people"), ROWS, "database")
    finally:
        connection.disconnect()


def test_diagnosis_and_draft(people: Database) -> None:
    here, there = (diagnose(data, brute.SCHEMA, unit="house", contributions=7) for data in (tables.arrow(ROWS), people))
    assert [here.rows, here.dropped, here.counted, here.unit] == [there.rows, there.dropped, there.counted, there.unit]
    for one, other in zip(here.attributes, there.attributes, strict=True):
        assert replace(one, examples=()) == replace(other, examples=())
    assert 'integer 0..11 other "missing"' in draft(people)


def test_types_of_its_own(server: Server) -> None:
    """char(n) is padded, numeric goes beyond what a double holds, and knows NaN."""
    rows = [("no", "1e400"), ("yes", "NaN"), ("yes ", "-1e400"), (" yes", "1e-400"), (None, None), ("no", "0.1")]
    store(server, "odd", {"answer": "char(6)", "amount": "numeric"}, rows)
    schema = Schema(
        (
            Attribute("answer", CategoryDomain(("no", "yes", "yes ", " yes")), brute.OTHER),
            Attribute("amount", NumericDomain((-1.0, 0.0, 0.1, 1.0)), brute.OTHER),
        )
    )
    with open_data(Database(server.url(), "odd"), schema, [("answer",), ("amount",)]) as counts:
        assert counts.table(("answer",)).tolist() == [2, 2, 0, 1, 1]
        assert counts.table(("amount",)).tolist() == [0, 1, 1, 4]


def test_all_queries_see_the_same_rows(server: Server) -> None:
    store(server, "live", {"a": "integer"}, [[0], [1]])
    schema = Schema((Attribute("a", IntegerDomain(0, 3)),))
    with open_data(Database(server.url(), "live"), schema, [("a",)]) as counts:
        with connect(server) as owner:
            owner.execute("INSERT INTO live VALUES (1), (7), (NULL)")
        assert counts.total == 2
        assert counts.table(("a",)).tolist() == [1, 1, 0, 0]


def test_refusals(server: Server, people: Database) -> None:
    schema = Schema((Attribute("good", IntegerDomain(-2, 1)), Attribute("label", CategoryDomain(("NO",)))))
    with pytest.raises(DataError) as caught, open_data(people, schema):
        pass
    assert [line.split(" has ")[0] for line in str(caught.value).splitlines()] == [
        "attribute 'good'",
        "attribute 'label'",
    ]
    assert caught.value.__context__ is None
    preflight(people, schema)  # which looks at no value
    wrong = Schema((Attribute("label", IntegerDomain(0, 1)),))
    with pytest.raises(DataError, match="the column is of type string, but the schema declares numbers"):
        preflight(people, wrong)
    with pytest.raises(
        OptionError, match="engine='duckdb' cannot count a table on a database server; use engine='auto'"
    ):
        preflight(people, schema, engine="duckdb")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"table": "peopel"}, "no table 'peopel'; did you mean 'people'?"),
        ({"table": ""}, "no table was named"),
        ({"schema": "nowhere"}, "no table 'people'; it has none that can be seen"),
        ({"port": 1}, "cannot connect to postgresql://reader@127.0.0.1:"),
    ],
)
def test_a_password_is_never_shown(server: Server, people: Database, change: dict[str, Any], message: str) -> None:
    place = Server(change.pop("port", server.port), server.folder)
    fields = {"url": place.url("reader", "hunter2"), "table": "people", **change}
    with pytest.raises(QCompileError) as caught:
        preflight(Database(**fields), brute.SCHEMA)
    assert message in str(caught.value)
    assert "hunter2" not in str(caught.value) + repr(Database(**fields))


def test_postgres_counts_as_duckdb_does(people: Database, tmp_path: pathlib.Path) -> None:
    path = tables.parquet(ROWS, tmp_path / "people.parquet")
    views = brute.views(brute.SCHEMA)
    with open_data(people, brute.SCHEMA, views) as one, open_data(path, brute.SCHEMA, views, engine="duckdb") as other:
        assert one.total == other.total
        for (view, first), (again, second) in zip(one.tables(views), other.tables(views), strict=True):
            assert view == again
            assert (first() == second()).all()
