"""Databases that lack operations: every query of a run is written in their language before a budget is charged."""

from __future__ import annotations

import pathlib
import sqlite3
from functools import partial
from typing import Any

import ibis
import ibis.backends.sql.compilers as compilers
import ibis.expr.operations as ops
import numpy as np
import pyarrow as pa
import pytest
from ibis.backends.sql import SQLBackend

import qcompile as qc
from qcompile.data import Reading
from qcompile.data.encode.table import encode_table
from qcompile.data.encode.units import columns_to_open
from qcompile.data.engines import scans
from qcompile.data.engines.cover import plan_unions
from qcompile.data.engines.pushdown import push_down
from qcompile.data.engines.stream import read_batches
from qcompile.data.opening import open_data
from qcompile.data.sources.engine_errors import call_engine
from qcompile.data.sources.ibis_columns import has_lists, open_ibis_table
from qcompile.errors import DataError
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema
from qcompile.run import mechanisms

PLAIN = ("sqlite", "mysql", "mssql", "oracle", "impala", "exasol", "druid")
"""Databases without lists that become rows."""

LISTS = ("athena", "bigquery", "clickhouse", "databricks", "datafusion", "flink", "postgres", "snowflake", "trino")

OTHER = Policy("other", "else")
LONG = tuple(f"label {i}" for i in range(100))

SCHEMA = Schema(
    (
        Attribute("a", IntegerDomain(0, 3), Policy("clip")),
        Attribute("f", NumericDomain((0.0, 0.5, 1.5)), Policy("drop")),
        Attribute("s", CategoryDomain(("x", "y")), OTHER),
        Attribute("n", CategoryDomain((1, 2)), OTHER),
        Attribute("b", CategoryDomain((True, False)), OTHER),
        Attribute("d", NumericDomain((0.0, 1.0)), OTHER),
        Attribute("l", CategoryDomain(LONG), OTHER),
    )
)
TYPES = {"a": "int64", "f": "float64", "s": "string", "n": "int32", "b": "boolean", "d": "decimal(10, 2)"}
TYPES |= {"l": "string", "w": "int64", "text id": "string", "whole id": "int64", "floating id": "float64"}
VIEWS = [("a",), ("a", "f"), ("s", "n", "b"), ("l",), ("d",), ()]
READINGS = {
    "rows": Reading(),
    "rows left out": Reading(leave_out=True),
    "weights": Reading(count_column="w"),
    "text ids": Reading("text id", 2, leave_out=True),
    "whole ids": Reading("whole id"),
    "floating ids": Reading("floating id"),
}


class Unconnected:
    """A backend of Ibis without its database: queries are written in its language, and answered as for no rows."""

    def __init__(self, name: str) -> None:
        self.name, self.queries = name, list[str]()
        self.compiler = getattr(compilers, name).compiler

    def has_operation(self, operation: Any) -> bool:
        return bool(SQLBackend.has_operation.__func__(self, operation))

    def compile(self, expression: Any) -> str:
        return str(ibis.to_sql(expression, dialect=self.name))

    def to_pyarrow(self, expression: Any) -> pa.Table:
        self.queries.append(self.compile(expression))
        types = expression.schema().to_pyarrow()
        rows = [] if "cell" in types.names else [dict.fromkeys(types.names, 0)]
        return pa.Table.from_pylist(rows, types)

    def to_pyarrow_batches(self, expression: Any, chunk_size: int) -> list[Any]:
        self.queries.append(self.compile(expression))
        assert chunk_size > 0
        return []


WITHOUT_UNITS = ("exasol",)
"""Databases that cannot join texts, of which the digest of an id is made."""


@pytest.mark.parametrize("dialect", WITHOUT_UNITS)
def test_units_that_cannot_be_told_apart_are_refused(dialect: str) -> None:
    connection, reading = Unconnected(dialect), READINGS["text ids"]
    source = open_ibis_table(ibis.table(TYPES, name="t"), columns_to_open(SCHEMA, reading), connection, "t")
    with pytest.raises(DataError, match=f"{dialect} lacks an operation"):
        push_down(connection, encode_table(source, SCHEMA, reading), SCHEMA, reading, VIEWS, source.explain)
    assert connection.queries == []


QUICK = ("sqlite", "mysql", "postgres")
"""Databases whose queries are written by every run of the tests; those of the others are slow, as they are alike."""


@pytest.mark.parametrize(
    "dialect", [pytest.param(d, marks=() if d in QUICK else pytest.mark.slow) for d in (*PLAIN, *LISTS)]
)
def test_every_query_can_be_written_for_every_database(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scans, "plan_unions", partial(plan_unions, limit=1))
    for reading in READINGS.values():
        if dialect in WITHOUT_UNITS and reading.unit is not None:
            continue
        connection = Unconnected(dialect)
        columns = columns_to_open(SCHEMA, reading)
        source = open_ibis_table(ibis.table(TYPES, name="t"), columns, connection, "t")
        codes = encode_table(source, SCHEMA, reading)
        counts = push_down(connection, codes, SCHEMA, reading, VIEWS, source.explain)
        assert counts.total == 0
        assert all(not make().any() for _, make in counts.tables(VIEWS))
        assert list(read_batches(connection, codes, source.explain)) == []
        assert has_lists(connection) == (dialect in LISTS)
        assert len(connection.queries) == (3 if dialect in LISTS else 6)  # one for all views, or one for each


class Poor(Unconnected):
    """A backend that lacks one more operation."""

    def compile(self, expression: Any) -> str:
        if expression.op().find(ops.Floor):
            raise NotImplementedError("a floor")
        return super().compile(expression)


def test_an_operation_that_is_missing_is_named_before_anything_is_sent() -> None:
    connection = Poor("mysql")
    source = open_ibis_table(ibis.table(TYPES, name="t"), SCHEMA, connection, "t")
    codes = encode_table(source, SCHEMA, Reading())
    with pytest.raises(DataError, match="mysql lacks an operation that counting needs; copy the table to a file"):
        push_down(connection, codes, SCHEMA, Reading(), VIEWS, source.explain)
    with pytest.raises(DataError, match="mysql lacks an operation"):
        list(read_batches(connection, codes, source.explain))
    assert connection.queries == []


# --- SQLite, which is always there ---

SOURCE = f"""
schema {{
  a : integer 0..5 drop
  f : numeric [0, 0.5, 1.5, 2.5] other "none"
  l : category {{{", ".join(f'"{label}"' for label in LONG)}}} other "else"
}}
workload {{ m : marginal(a) * marginal(f); n : marginal(l); t : total }}
"""
BUDGET = qc.Budget(rho="1/2")


@pytest.fixture(scope="module")
def plan() -> qc.Plan:
    return qc.compile(SOURCE)


@pytest.fixture
def table(tmp_path: pathlib.Path) -> Any:
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 8, 500).tolist(), (rng.random(500) * 3).round(2).tolist()
    rows = [
        (a if i % 11 else None, f if i % 7 else None, f"label {i % 103}", i % 4)
        for i, (a, f) in enumerate(zip(*numbers, strict=True))
    ]
    with sqlite3.connect(tmp_path / "t.db") as made:
        made.execute("CREATE TABLE t (a INTEGER, f REAL, l TEXT, w INTEGER)")
        made.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
    made.close()
    return ibis.sqlite.connect(tmp_path / "t.db").table("t")


def columns(table: Any) -> dict[str, list[Any]]:
    """The columns of the table, without Ibis."""
    rows = table.get_backend().con.execute("SELECT * FROM t").fetchall()
    return dict(zip(table.columns, map(list, zip(*rows, strict=True)), strict=True))


@pytest.mark.parametrize("engine", ["database", "memory"])
@pytest.mark.parametrize("reading", [Reading(), Reading(count_column="w")], ids=["rows", "weights"])
def test_sqlite_counts_what_the_others_count(engine: str, reading: Reading, plan: qc.Plan, table: Any) -> None:
    schema, views = plan.workload.schema, [("a", "f"), ("l",), ("f", "l"), ()]
    with (
        open_data(table, schema, views, reading, engine=engine) as counts,
        open_data(columns(table), schema, views, reading) as expected,
    ):
        assert counts.total == expected.total > 0
        for view in views:
            assert (counts.table(view) == expected.table(view)).all()


def test_a_run_on_sqlite_is_charged_once_and_resumed(
    plan: qc.Plan, table: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "l", BUDGET)
    options: Any = {"ledger": ledger, "output": tmp_path / "x"}

    def stops(*_: Any, **__: Any) -> Any:
        raise DataError("stopped")

    with monkeypatch.context() as patch:
        patch.setattr(mechanisms, "measure", stops)
        with pytest.raises(DataError, match="the budget is spent: entry 1"):
            plan.run(table, BUDGET, **options)
    release = plan.run(table, BUDGET, resume=True, **options)
    exact = plan.run(table, BUDGET, noise="none", output=tmp_path / "y")
    asked = "count(a = 1)"
    assert abs(release.ask(asked).estimate - exact.ask(asked).estimate) < 10 * release.ask(asked).std_error
    assert [e.release for e in ledger.entries] == ["x"]


def test_what_sqlite_lacks_is_refused_before_the_charge(plan: qc.Plan, table: Any, tmp_path: pathlib.Path) -> None:
    """It has no digest, by which the rows of units are chosen."""
    ledger = Ledger.create(tmp_path / "l", BUDGET)
    with pytest.raises(DataError, match="its database refused the query"):
        plan.run(table, BUDGET, ledger=ledger, unit="w", output=tmp_path / "x")
    assert ledger.spent == 0
    assert not (tmp_path / "x.unfinished").exists()


def test_a_fault_of_the_program_is_no_refusal_of_a_database() -> None:
    def fails() -> None:
        raise RuntimeError("a fault")

    with pytest.raises(RuntimeError, match="a fault"):
        call_engine(fails, str)
