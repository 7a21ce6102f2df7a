"""Arrow streams: each form of them gives the same counts, and none is taken for empty because it was read before."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as pds
import pytest

import qcompile as qc
from qcompile.data import Reading, open_data, preflight, recognise
from qcompile.data.curator.diagnose import diagnose
from qcompile.data.curator.draft import draft
from qcompile.errors import DataError, SizeError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Policy, Schema

SCHEMA = Schema(
    (Attribute("x", IntegerDomain(0, 3), Policy("drop")), Attribute("g", CategoryDomain(("u", "v")), Policy("drop")))
)
TABLE = pa.table({"who": [1, 1, 2, 3], "g": ["u", "v", "u", "w"], "when": [None] * 4, "x": [1, 2, 2, 3]})
EXACT = [[0, 0], [1, 0], [1, 1], [0, 0]]


class Exports:
    """An object of another library."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.data.__arrow_c_stream__(requested_schema)


class Once(Exports):
    """An iterator, as readers are, that says so when it is read twice."""

    def __next__(self) -> object:
        raise StopIteration

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        data, self.data = self.data, None
        if data is None:
            raise ValueError("released")
        return data.__arrow_c_stream__(requested_schema)


class Slots(Once):
    """One that cannot be referred to weakly."""

    __slots__ = ("data",)
    __hash__ = None  # type: ignore[assignment]


def reader() -> Any:
    return pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(max_chunksize=1))


def scanner() -> Any:
    return pds.Scanner.from_batches(TABLE.to_batches(), schema=TABLE.schema)


CONNECTION = duckdb.connect()


def relation() -> Any:
    return CONNECTION.from_arrow(TABLE).project("who, x::utinyint AS x, g, 1::hugeint AS h")


ONCE: dict[str, Callable[[], Any]] = {
    "reader": reader,
    "scanner": scanner,
    "iterator": lambda: Once(TABLE),
    "iterator without references": lambda: Slots(TABLE),
    "generator": lambda: pa.RecordBatchReader.from_batches(TABLE.schema, (b for b in TABLE.to_batches())),
}
AGAIN: dict[str, Callable[[], Any]] = {
    "dataset": lambda: pds.dataset(TABLE),
    "relation": relation,
    "another frame": lambda: Exports(TABLE.to_pandas()),
    "another table": lambda: Exports(TABLE),
}


def count(data: Any, engine: str = "auto", **reading: Any) -> Any:
    with open_data(data, SCHEMA, [SCHEMA.names], Reading(**reading), engine=engine) as counts:
        return counts.table(SCHEMA.names).tolist()


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("name", [*ONCE, *AGAIN])
def test_every_stream_gives_the_same_counts(name: str, engine: str) -> None:
    make = (ONCE | AGAIN)[name]
    assert count(make(), engine) == EXACT
    assert sum(map(sum, count(make(), engine, unit="who"))) == 2
    assert recognise(make()).columns()[:1] == ["who"]
    assert recognise(make()).identity() == []


@pytest.mark.parametrize("name", AGAIN)
def test_data_that_can_be_read_again_is(name: str) -> None:
    data = AGAIN[name]()
    assert count(data) == count(data) == EXACT
    assert diagnose(data, SCHEMA).counted == 3


@pytest.mark.parametrize("name", ONCE)
def test_a_stream_that_was_read_is_not_taken_for_empty(name: str) -> None:
    data = ONCE[name]()
    assert count(data) == EXACT
    for again in (count, lambda data: diagnose(data, SCHEMA), draft):
        with pytest.raises(DataError, match=r"the Arrow stream (was read already|cannot be read: .* was read already)"):
            again(data)


@pytest.mark.parametrize("name", ONCE)
def test_a_dataset_keeps_what_it_has_read(name: str) -> None:
    dataset = recognise(ONCE[name]())
    assert dataset.columns()[0] == "who"
    preflight(dataset, SCHEMA)
    assert count(dataset) == count(dataset, "duckdb") == EXACT
    assert dataset.columns()[0] == "who"
    with pytest.raises(DataError, match=r"was read already.* pass a table: reader.read_all\(\)"):
        count(dataset, unit="who")


def test_a_draft_of_a_stream() -> None:
    assert "x   : integer 1..3 clip" in draft(reader())


def test_what_is_missing_is_told_before_a_stream_is_read() -> None:
    data = reader()
    wide = Schema((*SCHEMA, Attribute("y", IntegerDomain(0, 1))))
    with pytest.raises(DataError, match="the Arrow stream lacks 1 of the 3 columns of the schema: 'y'"):
        preflight(data, wide)
    assert count(data) == EXACT


def test_a_single_column_is_no_table() -> None:
    with pytest.raises(DataError, match="the Arrow stream cannot be read: it has no columns"):
        preflight(pa.chunked_array([[1]]), SCHEMA)


def test_a_stream_that_fails_says_nothing_of_its_values() -> None:
    def batches() -> Iterator[Any]:
        yield from TABLE.to_batches()
        raise ValueError("secret")

    with pytest.raises(DataError) as caught:
        count(pa.RecordBatchReader.from_batches(TABLE.schema, batches()))
    assert "secret" not in str(caught.value)
    with pytest.raises(DataError, match="cannot be read"):
        count(CONNECTION.sql("SELECT CAST('secret' || range AS INTEGER) AS x, 'u' AS g FROM range(3)"))


def test_a_stream_larger_than_the_memory_is_refused() -> None:
    batch = pa.record_batch({"x": pa.array([1] * 10**6), "g": pa.array(["u" * 100] * 10**6)})
    data = pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(10**6)))
    with (
        pytest.raises(SizeError, match=r"the Arrow stream takes more than .*: write it to a Parquet file"),
        open_data(data, SCHEMA, max_memory=2**26),
    ):
        pass


def test_a_run_of_a_stream_and_its_ledger(tmp_path: pathlib.Path) -> None:
    plan = qc.compile('schema { x : integer 0..3 drop; g : category {"u", "v"} drop }\nworkload { m : marginal(x, g) }')
    ledger = qc.Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    data = reader()
    budget = qc.Budget(rho="1/2")
    plan.run(data, budget, ledger=ledger, output=tmp_path / "r", strict_values=True)
    with pytest.raises(DataError, match="was read already"):
        plan.run(data, budget, ledger=ledger, output=tmp_path / "s", strict_values=True)
    assert ledger.spent == budget.rho
    exact = plan.run(relation(), budget, noise="none")
    assert exact.marginal(("x", "g")).array.round(9).tolist() == EXACT
