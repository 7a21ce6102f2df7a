"""SQLite through Ibis: a column may hold values of other types than its own, which are none of its values."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import ibis
import pytest

from qcompile.data import Reading
from qcompile.data.curator.diagnose import diagnose
from qcompile.data.opening import open_data
from qcompile.data.sources.engine_errors import quiet
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, CategoryDomain, Domain, IntegerDomain, NumericDomain, Policy, Schema

ROWS = [(0, 0.5, "a", 1), (1, 1.5, "b", 0), ("q", "q", 7, "q"), (b"0", b"0", b"a", 2), (None, None, None, None)]
OTHER = Policy("other", "rest")
SCHEMA = Schema(
    (
        Attribute("i", IntegerDomain(0, 1), OTHER),
        Attribute("x", NumericDomain((0.0, 1.0, 2.0)), OTHER),
        Attribute("g", CategoryDomain(("a", "b")), OTHER),
        Attribute("f", CategoryDomain((False, True)), OTHER),
    )
)
COUNTS = {"i": [1, 1, 3], "x": [1, 1, 3], "g": [1, 1, 3], "f": [1, 1, 3]}


@pytest.fixture
def table(tmp_path: pathlib.Path) -> Any:
    with contextlib.closing(sqlite3.connect(tmp_path / "t.db")) as connection, connection:
        connection.execute("CREATE TABLE t (i INTEGER, x REAL, g TEXT, f BOOLEAN)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS)
    with quiet():
        return ibis.sqlite.connect(str(tmp_path / "t.db")).table("t")


@pytest.mark.parametrize("engine", ["memory", "database"])
@pytest.mark.parametrize("name", COUNTS)
def test_values_of_other_types_are_nowhere(table: Any, name: str, engine: str) -> None:
    with open_data(table, SCHEMA, [(name,)], engine=engine) as counts:
        assert dict(counts.tables([(name,)]))[(name,)]().tolist() == COUNTS[name]


@pytest.mark.parametrize("policy", ["clip", "strict"])
def test_they_are_refused_where_no_policy_covers_them(table: Any, policy: Any) -> None:
    schema = Schema((Attribute("i", IntegerDomain(0, 1), Policy(policy)),))
    with pytest.raises(DataError, match="attribute 'i' has nulls or values"), open_data(table, schema, engine="memory"):
        pass


def test_a_text_is_no_count(table: Any) -> None:
    schema = Schema((Attribute("g", CategoryDomain(("a", "b")), OTHER),))
    with (
        pytest.raises(DataError, match="column 'i' has nulls or values that are not whole numbers"),
        open_data(table, schema, reading=Reading(count_column="i"), engine="memory"),
    ):
        pass


def test_the_curator_sees_them_outside(table: Any) -> None:
    facts = diagnose(table, Schema((Attribute("x", NumericDomain((0.0, 1.0)), Policy("clip")),))).attributes[0]
    assert (facts.nulls, facts.outside, facts.clipped, facts.by_policy) == (1, 3, 1, 3)


@pytest.mark.parametrize("domain", [CategoryDomain(tuple(range(100))), CategoryDomain((*map(str, range(90)), "b"))])
@pytest.mark.parametrize("engine", ["memory", "database"])
def test_long_lists_of_labels(table: Any, domain: Domain, engine: str) -> None:
    name = "i" if domain.label(3) == "3" and domain.size == 100 else "g"
    schema = Schema((Attribute(name, domain, OTHER),))
    with open_data(table, schema, [(name,)], engine=engine) as counts:
        found = dict(counts.tables([(name,)]))[(name,)]().tolist()
    expected = {"i": {0: 1, 1: 1, 100: 3}, "g": {7: 1, 90: 1, 91: 3}}[name]
    assert {i: n for i, n in enumerate(found) if n} == expected
