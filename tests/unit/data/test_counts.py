"""Exact tables of rows, and tables that were counted elsewhere."""

from __future__ import annotations

import collections
import itertools
import pathlib
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcompile.data import GivenCounts, Rows, open_data, read
from qcompile.data.engines import add_rows as data_cells
from qcompile.errors import DataError, IntegrityError, SizeError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Policy, Schema

SCHEMA = Schema(
    (
        Attribute("a", IntegerDomain(0, 2)),
        Attribute("b", CategoryDomain(("x", "y")), Policy("other", "rest")),
        Attribute("c", IntegerDomain(5, 8), Policy("drop")),
    )
)
ROWS = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["x", "y", "z", None]), st.integers(4, 9)), max_size=40)
VIEWS = [v for k in range(4) for v in itertools.permutations(SCHEMA.names, k)]


def columns(rows: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    return {name: [row[i] for row in rows] for i, name in enumerate(SCHEMA.names)}


@settings(max_examples=20)
@given(ROWS)
def test_tables_agree_with_a_counter_in_every_order(rows: list[tuple[Any, ...]]) -> None:
    result = read(columns(rows), SCHEMA)
    cell = {"a": int, "b": {"x": 0, "y": 1, "z": 2, None: 2}.__getitem__, "c": lambda v: v - 5}
    kept = [[cell[n](v) for n, v in zip(SCHEMA.names, r, strict=True)] for r in rows if 5 <= r[2] <= 8]  # type: ignore[operator]
    assert result.total == len(kept)
    for view in VIEWS:
        counter = collections.Counter(tuple(row[SCHEMA.positions[n]] for n in view) for row in kept)
        table = result.table(view)
        assert table.dtype == np.int64
        assert table.shape == SCHEMA.shape(view)
        assert {i: n for i, n in np.ndenumerate(table) if n} == dict(counter)
        assert table.sum() == result.total


def test_counting_in_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    data = {"a": rng.integers(0, 3, 1000), "b": rng.choice(["x", "y"], 1000), "c": rng.integers(5, 9, 1000)}
    rows = read(data, SCHEMA)
    whole = [rows.table(view) for view in VIEWS]
    monkeypatch.setattr(data_cells, "BLOCK", 7)
    for view, expected in zip(VIEWS, whole, strict=True):
        assert (rows.table(view) == expected).all()


def test_tables_that_cannot_be() -> None:
    rows = read(columns([(0, "x", 5)]), SCHEMA)
    with pytest.raises(IntegrityError, match="unknown attribute 'A'; did you mean 'a'"):
        rows.table(("A",))
    with pytest.raises(IntegrityError, match="distinct attributes, got a, a"):
        rows.table(("a", "a"))


def test_a_table_too_large_is_refused_before_it_is_made() -> None:
    schema = Schema(tuple(Attribute(f"x{i}", IntegerDomain(1, 100)) for i in range(100)))
    rows = read({f"x{i}": [1, 100] for i in range(100)}, schema)
    with pytest.raises(SizeError, match=r"about 10\^200 bytes"):
        rows.table(schema.names)
    assert rows.table(("x99", "x0"))[[0, 99], [0, 99]].tolist() == [1, 1]


def test_open_data_chooses() -> None:
    with (
        open_data(columns([(0, "x", 5), (1, "y", 9)]), SCHEMA) as table,
        open_data({("a",): [1, 0, 0]}, SCHEMA) as known,
    ):
        assert isinstance(table, Rows)
        assert isinstance(known, GivenCounts)
        assert table.total == known.total == 1
        assert table.table(("a",)).tolist() == known.table(("a",)).tolist() == [1, 0, 0]
    with pytest.raises(DataError, match="lacks 3 of the 3 columns"), open_data({}, SCHEMA):
        pass


@given(st.integers(0, 40), st.integers(0, 2**32 - 1), st.sets(st.sampled_from(VIEWS), min_size=1, max_size=4))
def test_given_tables_answer_like_the_rows(total: int, seed: int, given_views: set[tuple[str, ...]]) -> None:
    rng = np.random.default_rng(seed)
    exact = Rows(SCHEMA, {a.name: rng.integers(0, a.size, total) for a in SCHEMA}, total)
    tables = GivenCounts.of({view: exact.table(view) for view in given_views}, SCHEMA)
    assert tables.total == exact.total
    for view in VIEWS:
        if any(set(view) <= set(g) for g in given_views):
            assert (tables.table(view) == exact.table(view)).all()
            assert tables.table(view).shape == SCHEMA.shape(view)
            assert tables.table(view).dtype == np.int64
        else:
            with pytest.raises(DataError, match="no table has the view"):
                tables.table(view)


GOOD = np.array([[4, 5, 6], [7, 8, 9], [1, 2, 3]])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({("a", "b"): GOOD[:2]}, "the table (a, b) has shape (2, 3), but the schema needs (3, 3)"),
        ({("a", "c"): GOOD}, "has shape (3, 3), but the schema needs (3, 4)"),
        ({("a", "b"): GOOD.ravel()}, "has shape (9,)"),
        ({("a", "b"): GOOD - 2}, "is not a whole number from 0 to 2^53"),
        ({("a", "b"): GOOD + 0.5}, "is not a whole number from 0 to 2^53"),
        ({("a",): [1.0, np.nan, 2.0]}, "is not a whole number from 0 to 2^53"),
        ({("a",): [1.0, np.inf, 2.0]}, "is not a whole number from 0 to 2^53"),
        ({("a",): [0, 2**53 + 2, 0]}, "is not a whole number from 0 to 2^53"),
        ({("a",): np.array([0, 2**64 - 1, 0], dtype=np.uint64)}, "is not a whole number from 0 to 2^53"),
        ({("a",): [2**53, 2**53, 0]}, "counts more than 2^53 rows"),
        ({("a",): ["1", "2", "3"]}, "must be an array of whole numbers"),
        ({("a",): [True, False, True]}, "must be an array of whole numbers"),
        ({("a",): [None, 1, 2]}, "must be an array of whole numbers"),
        ({("a",): [[1], [2, 3], []]}, "must be an array of whole numbers"),
        ({("a",): [2**70, 0, 0]}, "is not a whole number from 0 to 2^53"),
        ({("a", "A"): GOOD}, "unknown attribute 'A'; did you mean 'a'?"),
        ({("a", 3): GOOD}, "unknown attribute 3"),
        ({("a", "a"): GOOD}, "the table (a, a) names an attribute twice"),
        ({("a",): [1, 2, 3], "b": [1, 2, 3]}, "keyed by tuples of attribute names, but one key is 'b'; write ('b',)"),
        ({("a",): [1, 2, 3], ("c",): [1, 2, 3, 4]}, "the table (a) and the table (c) disagree in their totals"),
        ({("a", "b"): GOOD, ("b",): [12, 15, 17]}, "the table (a, b) and the table (b) disagree over (b)"),
        ({("a", "b"): GOOD, ("b", "a"): GOOD}, "the table (a, b) and the table (b, a) disagree over (a, b)"),
        ({(): 44, ("a", "b"): GOOD}, "the table () and the table (a, b) disagree in their totals"),
    ],
)
def test_given_tables_are_checked(data: dict[Any, Any], message: str) -> None:
    with pytest.raises(DataError) as caught, open_data(data, SCHEMA):
        pass
    assert message in str(caught.value)


def test_given_tables_of_floats_and_in_both_orders() -> None:
    tables = GivenCounts.of({(): 45, ("a", "b"): GOOD.astype(float), ("b", "a"): GOOD.T.tolist()}, SCHEMA)
    assert tables.total == 45
    assert tables.table(("b", "a")).tolist() == GOOD.T.tolist()
    assert tables.table(()).shape == ()


def test_two_tables_that_differ_on_what_they_share_only() -> None:
    first, second = np.zeros((3, 3), int), np.zeros((3, 4), int)
    first[0, 0] = second[1, 0] = 1
    with pytest.raises(DataError, match=r"the table \(a, b\) and the table \(a, c\) disagree over \(a\)"):
        GivenCounts.of({("a", "b"): first, ("a", "c"): second}, SCHEMA)


def test_adult(adult_folder: pathlib.Path) -> None:
    frame = pd.read_csv(adult_folder / "adult.csv")
    sizes = {"age": 85, "race": 5, "sex": 2, "income>50K": 2, "native-country": 42, "fnlwgt": 100}
    schema = Schema(tuple(Attribute(name, IntegerDomain(0, size - 1)) for name, size in sizes.items()))
    rows = read(adult_folder / "adult.csv", schema)
    assert rows.total == 48842
    expected = pd.crosstab(frame["sex"], frame["race"]).reindex(index=range(2), columns=range(5), fill_value=0)
    assert (rows.table(("sex", "race")) == expected.to_numpy()).all()
    for view in itertools.permutations(sizes, 2):
        table = rows.table(view)
        assert (table.sum(axis=1) == frame[view[0]].value_counts().reindex(range(sizes[view[0]]), fill_value=0)).all()


def test_counting_two_way_tables_is_fast() -> None:
    rng = np.random.default_rng(1)
    schema = Schema(tuple(Attribute(f"x{i}", IntegerDomain(0, 59)) for i in range(14)))
    rows = read({n: rng.integers(0, 60, 50_000) for n in schema.names}, schema)
    start = time.process_time()
    tables = [rows.table(view) for view in itertools.combinations(schema.names, 2)]
    assert len(tables) == 91
    assert time.process_time() - start < 1.0
