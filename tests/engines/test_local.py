"""The engines that need nothing but qcompile's own dependencies: in memory, and DuckDB, which holds no rows."""

from __future__ import annotations

import pathlib

import pytest

from qcompile.data import Reading, recognise
from qcompile.data.encode.table import encode_table
from qcompile.data.encode.units import columns_to_open
from qcompile.data.engines import pushdown
from qcompile.data.opening import open_data
from qcompile.errors import DataError
from tests.engines import brute, tables

ROWS = brute.messy(700, seed=1)
READINGS = {
    "plain": Reading(),
    "units": Reading("person", 40),
    "whole units": Reading("house", 7),
    "cells": Reading(count_column="cells"),
    "cut cells": Reading(count_column="cells", max_count=3),
    "cells in steps": Reading(count_column="cells", max_count=4, count_step=2),
}


@pytest.mark.parametrize("engine", ["memory", "duckdb", "auto"])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv"])
def test_counts_are_those_of_the_plain_encoder(engine: str, reading: str, kind: str, tmp_path: pathlib.Path) -> None:
    make = {"parquet": tables.parquet, "csv": tables.text}
    data = tables.arrow(ROWS) if kind == "arrow" else make[kind](ROWS, tmp_path / f"people.{kind}")
    tables.require_same(data, ROWS, engine, reading=READINGS[reading])


@pytest.mark.parametrize("fetched", [1, 2**20])
@pytest.mark.parametrize("reading", READINGS)
def test_pushing_down_needs_no_server(reading: str, fetched: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The queries that other backends get, one table each or all at once, here by DuckDB."""
    monkeypatch.setattr(pushdown, "FETCHED", fetched)
    schema, options, views = brute.SCHEMA, READINGS[reading], brute.views(brute.SCHEMA)[:30]
    data = tables.arrow(ROWS)
    with (
        recognise(data).connect(columns_to_open(schema, options)) as found,
        open_data(data, schema, views, options) as expected,
    ):
        codes = encode_table(found.source, schema, options)
        counts = pushdown.push_down(found.connection, codes, schema, options, views, found.source.explain)
        assert counts.total == expected.total
        for view, make in counts.tables(views):
            assert (make() == expected.table(view)).all()


@pytest.mark.parametrize("bad", [{"good": None}, {"age": None}, {"cells": -1}, {"cells": None}])
def test_pushing_down_refuses_what_the_others_refuse(bad: brute.Row) -> None:
    schema, options = brute.SCHEMA, Reading(count_column="cells")
    data = tables.arrow([*ROWS, ROWS[0] | bad])
    messages = []
    with recognise(data).connect(columns_to_open(schema, options)) as found:
        codes = encode_table(found.source, schema, options)
        with pytest.raises(DataError) as caught:
            pushdown.push_down(found.connection, codes, schema, options, [], found.source.explain)
        messages.append(str(caught.value))
    for engine in ("memory", "duckdb"):
        with pytest.raises(DataError) as caught:
            open_data(data, schema, [], options, engine=engine).__enter__()
        messages.append(str(caught.value))
    assert len(set(messages)) == 1
    assert repr(next(iter(bad))) in messages[0]
