"""What the curator may see: every count against a plain loop, and the text that says it is confidential."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qcompile.data import read
from qcompile.data.curator.diagnose import CONFIDENTIAL, Diagnosis, UnitFacts, diagnose
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema

SCHEMA = Schema(
    (
        Attribute("clipped", IntegerDomain(0, 9), Policy("clip")),
        Attribute("strict", CategoryDomain(("x", "y"))),
        Attribute("dropped", NumericDomain((0.0, 1.5, 3.0)), Policy("drop")),
        Attribute("other", CategoryDomain(("x",)), Policy("other", "rest")),
    )
)
NAMES = (*SCHEMA.names, "id")
TYPES = (pa.float64(), pa.string(), pa.float64(), pa.string(), pa.string())
ROWS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 4.0, 9.0, 10.0, -3.0, 2.5, math.inf, math.nan, None]),
        st.sampled_from(["x", "y", "z", "zz", "", None]),
        st.sampled_from([0.0, 3.0, 3.5, None, math.nan]),
        st.sampled_from(["x", "?", None]),
        st.sampled_from(["u", "v", "", None]),
    ),
    max_size=15,
)


def is_null(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


@settings(max_examples=15)
@given(ROWS, st.integers(1, 3))
def test_every_number_is_right(rows: list[tuple[Any, ...]], k: int) -> None:
    data = pa.table([pa.array([r[i] for r in rows], t) for i, t in enumerate(TYPES)], names=NAMES)
    found = diagnose(data, SCHEMA, unit="id", contributions=k)
    clipped, strict, dropped, other = found.attributes
    assert found.rows == len(rows)
    for i, facts in enumerate(found.attributes):
        assert facts.nulls == sum(is_null(r[i]) for r in rows)
    numbers = [r[0] for r in rows if not is_null(r[0])]
    assert clipped.clipped == sum(not 0 <= n <= 9 for n in numbers)
    assert clipped.by_policy == clipped.refused == sum(n == 2.5 for n in numbers) + clipped.nulls
    assert clipped.outside == clipped.clipped + sum(n == 2.5 for n in numbers)
    assert strict.refused == sum(r[1] not in ("x", "y") for r in rows)
    assert sum(n for _, n in strict.examples) <= strict.refused
    assert {v for v, _ in strict.examples} <= {"z", "zz", "", None}
    assert (strict.examples == ()) == (strict.refused == 0)
    assert dropped.by_policy == sum(r[2] not in (0.0, 3.0) for r in rows) == found.dropped
    assert dropped.refused == other.refused == strict.clipped == 0
    assert other.by_policy == sum(r[3] != "x" for r in rows)
    left = [r for r in rows if r[2] in (0.0, 3.0)]
    own = {u: sum(r[4] == u for r in left) for u in "uv"}
    cut = sum(max(n - k, 0) for n in own.values())
    without = sum(r[4] in ("", None) for r in left)
    assert found.unit == UnitFacts("id", k, sum(n > 0 for n in own.values()), without, cut)
    assert found.counted == len(left) - cut - without


def test_numbers_agree_with_what_is_read() -> None:
    data = {"clipped": [1, 40, -1, 5], "strict": ["x", "y", "x", "x"], "dropped": [1, 1, 9, 1], "other": list("x?xx")}
    data["id"] = ["u", "u", "u", "v"]
    for options in ({}, {"unit": "id"}, {"unit": "id", "contributions": 2}):
        found: Diagnosis = diagnose(data, SCHEMA, **options)
        assert not any(a.refused for a in found.attributes)
        assert found.counted == read(data, SCHEMA, **options).total


def test_the_text(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    lines = [
        "clipped,strict,dropped,other,id",
        "1,x,0,x,u",
        "2,z,1,x,u",
        ",z,2,x,u",
        "40,,4,?,v",
        "-3,y,2,x,",
        "2.5,x,,x,u",
    ]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError):
        read(path, SCHEMA)
    found = diagnose(path, SCHEMA, unit="id", contributions=2)
    assert found.lines()[0] == CONFIDENTIAL
    assert str(found) == (
        "CONFIDENTIAL: exact facts about the data, for its curator only; never publish them\n"
        "rows read: 6\n"
        "attribute 'clipped': 1 null, 3 outside its domain: 2 clipped, "
        "2 refused (left out with a ledger), as only numbers can be clipped; "
        "for instance '2.5' (1), null (1)\n"
        "attribute 'strict': 1 null, 2 outside its domain: 3 refused, as the attribute has no policy; "
        "for instance 'z' (2), null (1)\n"
        "attribute 'dropped': 1 null, 1 outside its domain: 2 dropped with their rows\n"
        "attribute 'other': 0 null, 1 outside its domain: 1 counted in its other cell\n"
        "rows dropped by policies: 2\n"
        "privacy unit 'id': units: 1, rows left out without an id: 1, rows cut beyond 2 of a unit: 1\n"
        "the data is refused because of 'clipped', 'strict'"
    )


def test_clean_data() -> None:
    schema = Schema((Attribute("a", CategoryDomain((True, False))),))
    assert diagnose({"a": [True, False, True]}, schema).lines()[1:] == [
        "rows read: 3",
        "attribute 'a': every value is in its domain",
        "rows dropped by policies: 0",
        "rows counted: 3",
    ]


def test_values_that_would_rewrite_the_terminal_are_escaped() -> None:
    schema = Schema((Attribute("a", CategoryDomain(("x",))),))
    found = diagnose({"a": ["\x1b[2J", "x"]}, schema)
    assert r"'\x1b[2J' (1)" in str(found)


def test_at_most_three_examples_the_most_frequent_first() -> None:
    schema = Schema((Attribute("a", CategoryDomain(tuple(map(str, range(100))))),))
    (facts,) = diagnose({"a": ["p"] * 2 + ["q"] * 9 + ["r", "s", "t"] + ["7"]}, schema).attributes
    assert facts.examples == (("q", 9), ("p", 2), ("r", 1))


def test_what_cannot_be_diagnosed() -> None:
    with pytest.raises(OptionError, match="hold no rows to diagnose"):
        diagnose({("other",): [1, 2]}, SCHEMA)
    with pytest.raises(DataError, match="nothing to diagnose"):
        diagnose({"a": [1]}, Schema(()))
    with pytest.raises(DataError, match="lacks 4 of the 4 columns"):
        diagnose({"a": [1]}, SCHEMA)
