"""Policies and domains against a row-by-row encoder in plain Python, for CSV text and for typed columns."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.data import Rows, read
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, CategoryDomain, Domain, IntegerDomain, NumericDomain, Policy, Schema

MESSY = ["", "NA", "null", "nan", "NaN", "inf", "-inf", "+Infinity", "1e3", "1e400", "-1e400", "1e-400", " 12 ", "12"]
MESSY += ["1_2", "0x1F", "012", "1", "01", "1.0", " 1", "3.5", "5.", ".5", ".", "1,5", "1d", "true", "True", "FALSE"]
MESSY += [
    "2",
    "?",
    "<=50K",
    "NO",
    '5" pipe',
    '"',
    "a,b",
    "two\nlines",
    "caf\u00e9",
    "\U0001f600",
    " ",
    "-3",
    "7",
    "100",
]

NUMERIC = [NumericDomain((0.0, 2.5, 10.0, 100.0), closed) for closed in (True, False)]
CATEGORIES = [
    CategoryDomain(("1", "01", "NA", "<=50K", '5" pipe', "a,b")),
    CategoryDomain((2, 1, 12)),
    CategoryDomain((False, True)),
    CategoryDomain(("null",)),
    CategoryDomain((*(f"label {i}" for i in range(80)), "1", "NO")),
    CategoryDomain(tuple(range(1, 90))),
]
NUMBER_POLICIES = [Policy(), Policy("clip"), Policy("drop"), Policy("other", "rest")]


def number(value: object, text: bool) -> float | None:
    """The double that a value stands for, or None."""
    if value is None or (text and ("_" in str(value) or not str(value).isascii())):
        return None
    try:
        result = float(str(value)) if text else float(value)  # type: ignore[arg-type]
    except ValueError:
        return None
    return None if math.isnan(result) else result


def place(domain: Domain, value: object, text: bool) -> int | str:
    """The cell, "low" or "high" of the domain, or "none"."""
    if isinstance(domain, CategoryDomain):
        return next((i for i, label in enumerate(domain.labels) if matches(label, value, text)), "none")
    x = number(value, text)
    if x is None:
        return "none"
    if isinstance(domain, IntegerDomain):
        low, high = x < domain.low, x > domain.high
        cell: int | str = int(x) - domain.low if math.isfinite(x) and x == int(x) else "none"
    else:
        low, high = x < domain.edges[0], x > domain.edges[-1] or (x == domain.edges[-1] and not domain.closed)
        cell = min(sum(e <= x for e in domain.edges) - 1, domain.size - 1)
    return "low" if low else "high" if high else cell


def matches(label: object, value: object, text: bool) -> bool:
    if isinstance(label, str):
        return value == label
    if isinstance(label, bool):
        return value is not None and (str(value).lower() == str(label).lower() if text else value is label)
    return number(value, text) == label


def encode_one(attribute: Attribute, value: object, text: bool) -> int | str:
    """The cell, "drop" or "error"."""
    where = place(attribute.domain, value, text)
    if isinstance(where, int):
        return where
    match attribute.policy.kind:
        case "clip" if where != "none":
            return 0 if where == "low" else attribute.domain.size - 1
        case "other":
            return attribute.domain.size
        case "drop":
            return "drop"
    return "error"


def check(data: object, schema: Schema, rows: list[tuple[object, ...]], text: bool) -> Rows | None:
    """Read the data and compare with the encoder above; None when it must be, and is, an error."""
    expected = [[encode_one(a, v, text) for a, v in zip(schema, row, strict=True)] for row in rows]
    bad = [a.name for i, a in enumerate(schema) if any(row[i] == "error" for row in expected)]
    if bad:
        with pytest.raises(DataError) as caught:
            read(data, schema)
        assert [name for name in schema.names if repr(name) in str(caught.value)] == bad
        return None
    kept = [row for row in expected if "drop" not in row]
    result = read(data, schema)
    assert result.total == len(kept)
    for i, name in enumerate(schema.names):
        assert result.codes[name].tolist() == [row[i] for row in kept]
    return result


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    integers = st.sampled_from([IntegerDomain(1, 12), IntegerDomain(-3, 300), IntegerDomain(0, 0)])
    attributes = []
    for name in ("first", "second one", "third.3"):
        domain: Domain = draw(st.one_of(integers, st.sampled_from(NUMERIC), st.sampled_from(CATEGORIES)))
        category = isinstance(domain, CategoryDomain)
        policy = draw(st.sampled_from([p for p in NUMBER_POLICIES if not (category and p.kind == "clip")]))
        attributes.append(Attribute(name, domain, policy))
    return Schema(tuple(attributes))


@given(schemas(), st.data())
def test_csv_agrees_with_the_plain_encoder(
    tmp_path_factory: pytest.TempPathFactory, schema: Schema, data: st.DataObject
) -> None:
    fields = st.one_of(st.none(), st.sampled_from(MESSY), st.integers(-5, 400).map(str), st.floats().map(repr))
    rows = data.draw(st.lists(st.tuples(*[fields] * len(schema)), max_size=12))
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    write(path, [schema.names, *rows])
    check(path, schema, rows, text=True)


def write(path: pathlib.Path, rows: list[tuple[Any, ...]]) -> None:
    """Nulls as empty fields; every other value in quotes, so that empty text is not one of them."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.writelines(",".join(map(field, row)) + "\r\n" for row in rows)


def field(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'


def typed_values(domain: Domain) -> st.SearchStrategy[Any]:
    if isinstance(domain, CategoryDomain):
        if isinstance(domain.labels[0], bool):
            return st.booleans()
        if isinstance(domain.labels[0], str):
            return st.one_of(st.sampled_from(MESSY), st.sampled_from(domain.labels))
    whole = st.integers(-5, 400)
    return whole if isinstance(domain, CategoryDomain) else st.one_of(whole.map(float), st.floats(), st.just(2.5))


@given(schemas(), st.data())
def test_typed_columns_agree_with_the_plain_encoder(
    tmp_path_factory: pytest.TempPathFactory, schema: Schema, data: st.DataObject
) -> None:
    values = [st.one_of(st.none(), typed_values(a.domain)) for a in schema]
    rows = data.draw(st.lists(st.tuples(*values), max_size=12))
    columns = {name: [row[i] for row in rows] for i, name in enumerate(schema.names)}
    if data.draw(st.booleans(), label="in memory"):
        check(columns, schema, rows, text=False)
    else:
        path = tmp_path_factory.mktemp("parquet") / "table.parquet"
        pq.write_table(pa.table(columns), path)
        check(path, schema, rows, text=False)


KINDS = ("int8", "uint8", "int16", "int64", "uint64", "float16", "float32", "float64")


@pytest.mark.parametrize("policy", NUMBER_POLICIES, ids=lambda p: p.kind)
def test_every_width_of_numbers_reaches_the_same_cells(policy: Policy) -> None:
    schema = Schema(tuple(Attribute(kind, IntegerDomain(-100, 100), policy) for kind in KINDS))
    values = [0, 1, 99, 100] + [101, 120] * (policy.kind != "strict")
    columns = {kind: np.array(values, dtype=kind) for kind in KINDS}
    assert check(columns, schema, [(v,) * len(KINDS) for v in values], text=False) is not None


def test_the_largest_unsigned_value_is_above_every_domain() -> None:
    schema = Schema((Attribute("a", IntegerDomain(-5, 5), Policy("clip")),))
    assert read({"a": np.array([2**64 - 1, 3], dtype=np.uint64)}, schema).codes["a"].tolist() == [10, 8]


def test_bins_are_left_closed_and_the_last_edge_is_as_declared() -> None:
    values = [-0.1, 0.0, 2.4999, 2.5, 10.0, 99.0, 100.0, 100.1]
    closed, open_ = (Schema((Attribute("x", d, Policy("other", "rest")),)) for d in NUMERIC)
    assert read({"x": values}, closed).codes["x"].tolist() == [3, 0, 0, 1, 2, 2, 2, 3]
    assert read({"x": values}, open_).codes["x"].tolist() == [3, 0, 0, 1, 2, 2, 3, 3]


def test_many_bins_agree_with_a_sorted_search() -> None:
    edges = np.linspace(-1, 1, 500)
    values = np.concatenate([edges, np.random.default_rng(5).uniform(-1, 1, 2000)])
    schema = Schema((Attribute("x", NumericDomain(tuple(edges.tolist()))),))
    expected = np.minimum(np.searchsorted(edges, values, side="right") - 1, 498)
    assert (read({"x": values}, schema).codes["x"] == expected).all()


@pytest.mark.parametrize(
    ("policy", "outcomes"),
    [
        (Policy("drop"), {"-1": None, "8": None, "": None, "NA": None, "nan": None, "inf": None, "7.5": None}),
        (Policy("other", "rest"), dict.fromkeys(["-1", "8", "", "NA", "nan", "inf", "7.5"], 8)),
        (Policy("clip"), {"-1": 0, "8": 7, "inf": 7, "-inf": 0, "8.5": 7, "": "error", "NA": "error", "6.5": "error"}),
        (Policy(), dict.fromkeys(["-1", "8", "", "NA", "nan", "inf", "6.5"], "error")),
    ],
    ids=["drop", "other", "clip", "strict"],
)
def test_the_policy_of_each_odd_field(
    policy: Policy, outcomes: dict[str, int | str | None], tmp_path: pathlib.Path
) -> None:
    """hail#10035: NaN, nothing, NA, inf in a numeric column, cell by cell."""
    schema = Schema((Attribute("a", IntegerDomain(0, 7), policy),))
    for text, outcome in outcomes.items():
        path = tmp_path / "table.csv"
        path.write_text(f"a,extra\n3,x\n{text},x\n")
        if outcome == "error":
            with pytest.raises(DataError, match=r"^attribute 'a' has"):
                read(path, schema)
        else:
            assert read(path, schema).codes["a"].tolist() == ([3] if outcome is None else [3, outcome])


def test_a_refusal_names_attributes_and_nothing_of_the_data() -> None:
    schema = Schema((Attribute("age", IntegerDomain(0, 9)), Attribute("educ", CategoryDomain(("x", "y")))))
    with pytest.raises(DataError) as caught:
        read({"age": [1, 77, None], "educ": ["x", "y", "secret"]}, schema)
    assert str(caught.value) == (
        "attribute 'age' has nulls or values outside its domain, and no policy for them; fix the data, or declare "
        "clip, drop or other\nattribute 'educ' has nulls or values outside its domain, and no policy for them; fix "
        "the data, or declare drop or other"
    )
    assert caught.value.__context__ is None


def test_an_unused_policy_still_drops_its_rows() -> None:
    schema = Schema((Attribute("a", IntegerDomain(0, 1)), Attribute("unused", IntegerDomain(0, 1), Policy("drop"))))
    rows = read({"a": [0, 1, 1, 0], "unused": [0, 5, None, 1]}, schema)
    assert rows.total == 2
    assert rows.table(("a",)).tolist() == [2, 0]


def test_codes_are_compact_and_wide_domains_fit() -> None:
    sizes = {"tiny": 254, "small": 255, "middle": 65_534, "large": 65_535, "huge": 10**12}
    schema = Schema(tuple(Attribute(n, IntegerDomain(1, s), Policy("other", "rest")) for n, s in sizes.items()))
    rows = read({n: [1, s, s + 1] for n, s in sizes.items()}, schema)
    assert [c.dtype.name for c in rows.codes.values()] == ["uint16", "uint16", "uint32", "uint32", "uint64"]
    assert all(rows.codes[n].tolist() == [0, s - 1, s] for n, s in sizes.items())
    assert read({"a": [253]}, Schema((Attribute("a", IntegerDomain(0, 253)),))).codes["a"].dtype == np.uint8


def test_labels_of_several_types_are_matched_in_a_csv_file(tmp_path: pathlib.Path) -> None:
    schema = Schema((Attribute("n", CategoryDomain((0, 1, "2+", "01")), Policy("drop")),))
    path = tmp_path / "t.csv"
    path.write_text("n\n1\n2+\n01\n0\n1.0\n2\n")
    assert read(path, schema).codes["n"].tolist() == [1, 2, 3, 0, 1]


def test_labels_that_a_csv_file_cannot_tell_apart_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n\n1\n")
    with pytest.raises(DataError, match="two labels differ in type only"):
        read(path, Schema((Attribute("n", CategoryDomain((1, "1"))),)))


@pytest.mark.parametrize("domain", [IntegerDomain(0, 2**53), IntegerDomain(-(2**70), 0), CategoryDomain((2**60,))])
def test_integers_that_a_double_cannot_hold_are_refused(domain: Domain) -> None:
    with pytest.raises(DataError, match=r"'id': integers must be below 2\^53"):
        read({"id": [0]}, Schema((Attribute("id", domain),)))


@pytest.mark.parametrize("domain", [IntegerDomain(0, 7), *NUMERIC], ids=str)
def test_nan_of_a_typed_column_is_a_null_and_not_a_large_number(domain: Domain) -> None:
    table = pa.table({"a": pa.array([3.0, float("nan"), float("inf")], from_pandas=False)})
    assert table["a"].null_count == 0
    rest = read(table, Schema((Attribute("a", domain, Policy("other", "rest")),)))
    assert rest.codes["a"].tolist()[1:] == [domain.size, domain.size]
    assert read(table, Schema((Attribute("a", domain, Policy("drop")),))).total == 1
    with pytest.raises(DataError, match="which cannot be clipped"):
        read(table, Schema((Attribute("a", domain, Policy("clip")),)))
    assert read(table.take([0, 2]), Schema((Attribute("a", domain, Policy("clip")),))).codes["a"][1] == domain.size - 1
