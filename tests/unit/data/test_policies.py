"""What becomes of every value, against an encoder in plain Python that was written from the language's page alone.

The rules, as the page has them: bins are left-closed, the last edge closed with ``]`` or open with ``)``; every
attribute has a policy for nulls and values outside its domain: `clip` for numbers, `other "label"` for one more cell,
`drop` for a row that leaves all counts, or none, and then such a value is an error that names the attribute only; the
same rows are counted for every query, the total included; values are matched by declared type, never by guess.

A value is generated together with the ways in which a CSV file may spell it, so that one table of values can be handed
over as CSV, Parquet, dict, pandas, polars and Arrow: all must give the same counts, or the same refusal.
"""

from __future__ import annotations

import collections
import itertools
import math
import pathlib
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qcompile as qc
from qcompile.data.encode.reading import Reading
from qcompile.data.opening import open_data
from qcompile.errors import DataError
from qcompile.queries.schema import (
    Attribute,
    CategoryDomain,
    Domain,
    IntegerDomain,
    NumericDomain,
    Policy,
    PolicyKind,
    Schema,
)

Value: TypeAlias = "float | int | str | bool | None"
"""As a typed column holds it; None is a null."""

Outcome: TypeAlias = "int | str"
"""A cell, "drop" or "error"."""


@dataclass(frozen=True)
class Entry:
    """One field of a table: its value, and how it is written in a CSV file (None for nothing between the commas)."""

    value: Value
    spelling: str | None


Row: TypeAlias = tuple[Entry, ...]

# --- the encoder of the page ---


def place(domain: Domain, value: Value) -> int | str:
    """The declared cell of a value, "below" or "above" all of them, or "nowhere"."""
    if isinstance(domain, CategoryDomain):
        # True is 1 to Python, but not to the language.
        same = [i for i, label in enumerate(domain.labels) if label == value and is_flag(label) == is_flag(value)]
        return same[0] if same else "nowhere"
    if value is None or isinstance(value, str) or math.isnan(value):
        return "nowhere"
    if isinstance(domain, IntegerDomain):
        if not domain.low <= value <= domain.high:
            return "below" if value < domain.low else "above"
        return int(value) - domain.low if value == int(value) else "nowhere"
    for cell, (left, right) in enumerate(itertools.pairwise(domain.edges)):
        if left <= value < right:
            return cell
    if domain.closed and value == domain.edges[-1]:
        return len(domain.edges) - 2
    return "below" if value < domain.edges[0] else "above"


def is_flag(value: object) -> bool:
    return isinstance(value, bool)


def outcome(attribute: Attribute, value: Value) -> Outcome:
    where = place(attribute.domain, value)
    if isinstance(where, int):
        return where
    cells = attribute.domain.size
    ends: dict[str, Outcome] = {"below": 0, "above": cells - 1, "nowhere": "error"}
    outcomes: dict[PolicyKind, Outcome] = {"strict": "error", "clip": ends[where], "drop": "drop", "other": cells}
    return outcomes[attribute.policy.kind]


def outcomes(schema: Schema, rows: Iterable[Row]) -> list[list[Outcome]]:
    return [[outcome(a, entry.value) for a, entry in zip(schema, row, strict=True)] for row in rows]


Tables: TypeAlias = dict[tuple[str, ...], dict[tuple[int, ...], int]]


def expected(schema: Schema, rows: Iterable[Row]) -> Tables | set[str]:
    """Tables of up to two attributes by cell, empty cells left out; or the attributes with uncovered values."""
    found = outcomes(schema, rows)
    refusing = {name for i, name in enumerate(schema.names) if any(row[i] == "error" for row in found)}
    if refusing:
        return refusing
    kept = [row for row in found if "drop" not in row]
    views = [v for ways in range(3) for v in itertools.combinations(range(len(schema)), ways)]
    return {
        tuple(schema.names[i] for i in view): dict(
            collections.Counter(tuple(int(row[i]) for i in view) for row in kept)
        )
        for view in views
    }


# --- the ways to hand a table over ---


def columns(schema: Schema, rows: Sequence[Row]) -> dict[str, list[Value]]:
    return {a.name: alike(a, [row[i].value for row in rows]) for i, a in enumerate(schema)}


def alike(attribute: Attribute, values: list[Value]) -> list[Value]:
    """Whole numbers as such where there is nothing else, and otherwise as doubles, as typed columns have it."""
    floating = column_type(attribute, values) == pa.float64()
    return [float(v) if floating and v is not None else v for v in values]


def arrow(schema: Schema, rows: Sequence[Row]) -> pa.Table:
    """Not-a-number stays what it is, beside nulls."""
    table = columns(schema, rows)
    return pa.table({a.name: pa.array(table[a.name], column_type(a, table[a.name]), from_pandas=False) for a in schema})


def column_type(attribute: Attribute, values: Sequence[Value]) -> Any:
    if isinstance(attribute.domain, CategoryDomain) and isinstance(attribute.domain.labels[0], bool | str):
        return pa.bool_() if is_flag(attribute.domain.labels[0]) else pa.string()
    whole = all(v is None or isinstance(v, int) for v in values)
    return pa.int64() if whole else pa.float64()


def csv(schema: Schema, rows: Sequence[Row], path: pathlib.Path) -> pathlib.Path:
    """With a column more, in another order, and every field that is not empty in quotes, so that "" is no null."""
    order = [*reversed(range(len(schema))), None]
    lines = [[("not an attribute" if i is None else schema.names[i]) for i in order]]
    lines += [[("?" if i is None else row[i].spelling) for i in order] for row in rows]  # type: ignore[misc]
    path.write_text("".join(",".join(map(quoted, line)) + "\n" for line in lines), encoding="utf-8", newline="")
    return path


def quoted(field: str | None) -> str:
    return "" if field is None else '"' + field.replace('"', '""') + '"'


def folder_of(schema: Schema, rows: Sequence[Row], path: pathlib.Path) -> pathlib.Path:
    """Two Parquet files, the second of them without the first rows."""
    path.mkdir(exist_ok=True)
    table = arrow(schema, rows)
    for name, part in (("a", table.slice(0, len(rows) // 3)), ("b", table.slice(len(rows) // 3))):
        pq.write_table(part, path / f"{name}.parquet")
    return path


def arrow_file(schema: Schema, rows: Sequence[Row], path: pathlib.Path) -> pathlib.Path:
    pyarrow.feather.write_feather(arrow(schema, rows), str(path))
    return path


def parquet(schema: Schema, rows: Sequence[Row], path: pathlib.Path) -> pathlib.Path:
    pq.write_table(arrow(schema, rows), path, row_group_size=100)
    return path


Maker: TypeAlias = Callable[[Schema, Sequence[Row], pathlib.Path], Any]

SOURCES: dict[str, Maker] = {
    "CSV": lambda schema, rows, folder: csv(schema, rows, folder / "table.csv"),
    "Parquet": lambda schema, rows, folder: parquet(schema, rows, folder / "table.parquet"),
    "folder": lambda schema, rows, folder: folder_of(schema, rows, folder / "parts"),
    "Arrow file": lambda schema, rows, folder: arrow_file(schema, rows, folder / "table.arrow"),
    "dict": lambda schema, rows, folder: columns(schema, rows),
    "pandas": lambda schema, rows, folder: arrow(schema, rows).to_pandas(),
    "pandas with nulls": lambda schema, rows, folder: arrow(schema, rows).to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda schema, rows, folder: pl.from_arrow(arrow(schema, rows)),
    "Arrow": lambda schema, rows, folder: arrow(schema, rows),
}

REFUSAL = re.compile(
    r"attribute '([^']+)' has nulls or values (?:outside its domain, and no policy for them|"
    r"that are not (?:whole )?numbers, which cannot be clipped); fix the data, or declare (?:clip, )?drop or other"
)


def check(schema: Schema, rows: Sequence[Row], data: object, source: str, engine: str = "memory") -> None:
    """Whether counting the data has the outcome that the encoder above says."""
    compare(schema, expected(schema, rows), data, source, engine)


def compare(schema: Schema, truth: Tables | set[str], data: object, source: str, engine: str) -> None:
    """The same counts; or a refusal at once, that names the same attributes, and nothing else."""
    if isinstance(truth, set):
        with pytest.raises(DataError) as caught, open_data(data, schema, engine=engine):
            pass
        matches = [REFUSAL.fullmatch(line) for line in str(caught.value).splitlines()]
        assert all(matches), f"{source}: {caught.value}"
        assert [m[1] for m in matches if m] == [name for name in schema.names if name in truth], source
        return
    with open_data(data, schema, truth, engine=engine) as found:
        assert found.total == truth[()].get((), 0), source
        tables = {view: make() for view, make in found.tables(list(truth))}
    assert tables.keys() == truth.keys()
    for view, counts in tables.items():
        assert counts.shape == schema.shape(view)
        assert nonzero(counts) == truth[view], (source, view)


def nonzero(counts: Any) -> dict[tuple[int, ...], int]:
    """The cells that are not empty; estimates without noise are whole numbers up to rounding."""
    rounded = np.rint(counts)
    places = zip(*np.nonzero(rounded), strict=True) if counts.ndim else [()] * bool(rounded)
    return {tuple(map(int, cell)): int(rounded[cell]) for cell in places}


# --- values and their spellings ---

NOWHERE = [Entry(None, text) for text in (None, "", " ", "NA", "nan", "NaN", "null", "None", "?", "1,5", "0x1F", "1_0")]
NOWHERE += [Entry(None, text) for text in ("1d", "five", "--1", "1e", "٣", "1 2", "Infinit", "1%", "$5", "²", "true")]
NOWHERE += [Entry(math.nan, "nan"), Entry(math.nan, "-NaN")]

HUGE: list[Entry] = [Entry(math.inf, text) for text in ("inf", "INF", " Infinity", "+inf", "1e400", "9" * 400)]
HUGE += [Entry(-math.inf, text) for text in ("-inf", "-Infinity", "-1e999")]
HUGE += [Entry(1e300, "1e300"), Entry(-1e300, "-1E+300"), Entry(2**53, "9007199254740992"), Entry(2**62, str(2**62))]
HUGE += [Entry(-0.0, text) for text in ("-0.0", "-0", "-0e5", " -.0 ")]
HUGE += [Entry(5e-324, "5e-324"), Entry(-5e-324, "-5e-324"), Entry(0.0, "1e-400"), Entry(1e-9, "1e-9")]


def whole_number(n: int) -> list[Entry]:
    texts = [str(n), f" {n}", f"{n} ", f"{n}.0", f"{n}.", f"{n}e0", f"{n:04d}", f"{n * 10}e-1", f"\t{n}"]
    texts += [f"+{n}"] * (n >= 0)
    return [Entry(n, text) for text in texts]


def fraction(x: float) -> list[Entry]:
    return [Entry(x, repr(x)), Entry(x, f" {x!r}"), Entry(x, f"{x:.17e}")]


def near(domain: IntegerDomain | NumericDomain) -> list[Entry]:
    """Everything on, just below and just above the ends and edges."""
    marks = [domain.low, domain.high] if isinstance(domain, IntegerDomain) else [*domain.edges[:5], *domain.edges[-3:]]
    around = [
        x for m in map(float, marks) for x in (math.nextafter(m, -math.inf), math.nextafter(m, math.inf), m + 0.5)
    ]
    numbers = {round(m) + d for m in marks for d in (-1, 0, 1)}
    exact = [e for m in marks if m != round(m) for e in fraction(float(m))]
    return [e for n in sorted(numbers) for e in whole_number(n)] + [e for x in around for e in fraction(x)] + exact


TEXTS = [
    "",
    " ",
    "NA",
    "null",
    "NULL",
    "nan",
    "1",
    "01",
    "1.0",
    " 1",
    "1e3",
    "true",
    "True",
    "?",
    "<=50K",
    "<=50k",
    "NO",
]
TEXTS += ['5" pipe', "a,b", "two\nlines", "café", "cafe\u0301", "😀", "x" * 300, "'", "\\", "%", "other", "rest", "-0"]
"""Texts that are all different, whatever they look like."""


def text(value: str) -> Entry:
    return Entry(value, value)


FLAGS = [Entry(True, t) for t in ("true", "True", "TRUE")] + [Entry(False, t) for t in ("false", "FALSE", "fAlSe")]
NO_FLAGS = [Entry(None, t) for t in (None, "", "1", "0", "yes", "t", "T", " true", "truee", "NA")]


def entries(domain: Domain) -> list[Entry]:
    """What a column may hold, in all spellings, whether it is in the domain or not."""
    if not isinstance(domain, CategoryDomain):
        return near(domain) + HUGE + NOWHERE
    if is_flag(domain.labels[0]):
        return FLAGS + NO_FLAGS
    if isinstance(domain.labels[0], str):
        return [Entry(None, None), *map(text, TEXTS), *(text(str(label)) for label in domain.labels)]
    numbers = [e for label in domain.labels[:4] for n in (-1, 0, 1) for e in whole_number(int(label) + n)]
    return numbers + HUGE + NOWHERE + fraction(1.5)


DOMAINS: dict[str, Domain] = {
    "integers": IntegerDomain(-2, 9),
    "one integer": IntegerDomain(7, 7),
    "many integers": IntegerDomain(-300, 600),
    "large integers": IntegerDomain(2**53 - 4, 2**53 - 2),
    "closed bins": NumericDomain((-1.5, 0.0, 2.5, 10.0), closed=True),
    "open bins": NumericDomain((-1.5, 0.0, 2.5, 10.0), closed=False),
    "one bin": NumericDomain((0.0, 1.0), closed=False),
    "narrow bins": NumericDomain((0.1, 0.1 + 1e-12, 0.2)),
    "many bins": NumericDomain(tuple(i / 7 for i in range(-5, 40))),
    "texts": CategoryDomain(("NA", "01", "<=50K", "1", "null", "")),
    "one text": CategoryDomain(("?",)),
    "many texts": CategoryDomain((*(f"code {i}" for i in range(70)), "NO", "1e3", "café")),
    "numbers as labels": CategoryDomain((4, 1, 2)),
    "many numbers as labels": CategoryDomain(tuple(range(1, 200, 2))),
    "true and false": CategoryDomain((True, False)),
    "only true": CategoryDomain((True,)),
}
CLIPPED = (IntegerDomain, NumericDomain)


def attributes(name: str) -> list[Attribute]:
    """Every domain with every policy that it can have, the cyclic ones too."""
    made = []
    for domain in DOMAINS.values():
        for kind in ("strict", "drop", "other"):
            policy = Policy(kind, "something else" if kind == "other" else None)
            made += [Attribute(name, domain, policy), Attribute(name, domain, policy, cyclic=True)]
        if isinstance(domain, CLIPPED):
            made.append(Attribute(name, domain, Policy("clip")))
    return made


def harmless(attribute: Attribute) -> list[Entry]:
    return [e for e in entries(attribute.domain) if outcome(attribute, e.value) != "error"]


NAMES = ("age", "capital-gain", 'a "b" 😀')


@st.composite
def messy_tables(draw: st.DrawFn) -> tuple[Schema, list[Row]]:
    """Two or three attributes and some rows; in half of the tables a policy covers every value."""
    chosen = [draw(st.sampled_from(attributes(name))) for name in draw(st.sampled_from([NAMES, NAMES[:2]]))]
    careful = draw(st.booleans())
    fields = [st.sampled_from(harmless(a) if careful else entries(a.domain)) for a in chosen]
    return Schema(tuple(chosen)), draw(st.lists(st.tuples(*fields), max_size=15))


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=6)
@given(messy_tables(), st.sampled_from(["memory", "duckdb"]))
def test_every_source_counts_what_the_page_says(
    tmp_path_factory: pytest.TempPathFactory, source: str, table: tuple[Schema, list[Row]], engine: str
) -> None:
    schema, rows = table
    check(schema, rows, SOURCES[source](schema, rows, tmp_path_factory.mktemp("data")), source, engine)


def cells(attribute: Attribute) -> set[Outcome]:
    return {outcome(attribute, e.value) for e in entries(attribute.domain)}


def test_generated_values_reach_every_policy() -> None:
    """The comparison above is worth as much as the values that it compares."""
    for attribute in attributes("a"):
        reached = cells(attribute)
        special = {"strict": "error", "clip": "error", "drop": "drop", "other": attribute.domain.size}
        assert special[attribute.policy.kind] in reached
        assert 0 in reached
        assert len(reached) > 2 or attribute.domain.size <= 2


@pytest.mark.parametrize("name", DOMAINS)
def test_each_value_alone(name: str, tmp_path: pathlib.Path) -> None:
    """Every value that a policy covers, in a row of its own; every other, in a column of its own, is refused alone."""
    for attribute in (a for a in attributes("a") if a.domain == DOMAINS[name] and not a.cyclic):
        schema, good = Schema((attribute,)), [(e,) for e in harmless(attribute)]
        check(schema, good, csv(schema, good, tmp_path / "good.csv"), name)
        without = [e for e in entries(attribute.domain) if outcome(attribute, e.value) == "error"]
        some = tuple(without[:: 1 + len(without) // 20])
        if some:
            wide = Schema(tuple(replace(attribute, name=f"a{i}") for i in range(len(some))))
            check(wide, [some], csv(wide, [some], tmp_path / "bad.csv"), name)
            assert expected(wide, [some]) == set(wide.names)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_thousand_rows(seed: int, tmp_path: pathlib.Path) -> None:
    """All domains side by side, each with some policy; then the same table with one value that no policy covers."""
    rng = random.Random(seed)
    schema = Schema(tuple(rng.choice([a for a in attributes(n) if a.domain == d]) for n, d in DOMAINS.items()))
    fields = [mostly_counted(a) for a in schema]
    rows = [tuple(rng.choice(f) for f in fields) for _ in range(800)]
    truth = expected(schema, rows)
    assert not isinstance(truth, set)
    assert 200 < truth[()][()] < 800
    i, attribute = rng.choice([(i, a) for i, a in enumerate(schema) if a.policy.kind in ("strict", "clip")])
    entry = rng.choice([e for e in entries(attribute.domain) if outcome(attribute, e.value) == "error"])
    bad = [*rows, (*rows[0][:i], entry, *rows[0][i + 1 :])]
    for turn, (source, make) in enumerate(SOURCES.items()):
        engine = ("memory", "duckdb")[(turn + seed) % 2]
        compare(schema, truth, make(schema, rows, tmp_path), source, engine)
        compare(schema, {attribute.name}, make(schema, bad, tmp_path), f"{source}: {entry}", engine)


def mostly_counted(attribute: Attribute) -> list[Entry]:
    """Mostly entries with a cell, so that rows remain when many attributes drop some."""
    good = harmless(attribute)
    return [e for e in good if outcome(attribute, e.value) != "drop"] * 10 + [
        e for e in good if outcome(attribute, e.value) == "drop"
    ][:5]


MIXED = CategoryDomain((0, 1, "2+", "01", True, "", "NA"))


@pytest.mark.parametrize("kind", ["strict", "drop", "other"])
def test_labels_of_mixed_types_in_a_csv_file(kind: PolicyKind, tmp_path: pathlib.Path) -> None:
    """Text is equal or it is not; only then is a field a number, or true or false: "01" is the label, 001 is 1."""
    schema = Schema((Attribute("a", MIXED, Policy(kind, "rest" if kind == "other" else None)),))
    known: dict[str, Value] = {"0": 0, "0.0": 0, "-0": 0, "1": 1, "001": 1, " 1": 1, "1e0": 1, "2+": "2+", "01": "01"}
    known |= {"true": True, "TRUE": True, "": "", "NA": "NA"}
    unknown = ["2", "false", "na", "1+", "2 +", "NaN", "inf", "01 +", "\uff11"]
    rows = [(Entry(value, spelling),) for spelling, value in known.items()]
    check(schema, rows, csv(schema, rows, tmp_path / "t.csv"), "CSV")
    for spelling in unknown:
        bad = [*rows, (Entry(None, spelling),)]
        check(schema, bad, csv(schema, bad, tmp_path / "t.csv"), spelling)


# --- through a release ---

POLICIES = ("clip", "drop", 'other "rest"', "")
SCHEMA = """
schema {{
  a : integer 0..9 {number}
  b : numeric [0, 2.5, 5, 10) {number}
  c : category {{"x", "y", "NA"}} {category}
  d : integer 1..4 cyclic {category}
}}
workload {{ tables : each 1..3 of all
           pairs  : range(a) * marginal(c)
           rows   : total }}
"""


def bad_rows(share: float, rows: int, seed: int) -> dict[str, list[Value]]:
    """A table in which so many values of each column are null, not-a-number, outside or unknown."""
    rng = random.Random(seed)
    good: dict[str, list[Value]] = {
        "a": [*range(10)],
        "b": [0.0, 2.4, 2.5, 9.9],
        "c": ["x", "y", "NA"],
        "d": [1, 2, 3, 4],
    }
    bad: dict[str, list[Value]] = {
        "a": [None, -1, 10, 2.5, math.inf, math.nan],
        "b": [None, -0.1, 10.0, math.inf, -math.inf, math.nan],
        "c": [None, "z", "", "X", "na"],
        "d": [None, 0, 5, 1.5, math.nan],
    }
    return {n: [rng.choice(bad[n] if rng.random() < share else good[n]) for _ in range(rows)] for n in good}


def clipped(data: dict[str, list[Value]]) -> dict[str, list[Value]]:
    """Without what cannot be clipped."""
    odd = (None, 2.5, math.nan)
    return {**data, **{n: [1.0 if v in odd or v != v else v for v in data[n]] for n in ("a", "b")}}


@pytest.mark.parametrize("policy", POLICIES)
def test_every_view_of_a_release_has_the_same_total(policy: str) -> None:
    """5 % of the values of each column are bad; without noise, each view adds up to the total, and that to the rows."""
    data = bad_rows(0.05, 2000, seed=7)
    category = policy if policy != "clip" else "drop"
    if policy == "clip":
        data = clipped(data)
    if policy == "":
        data = bad_rows(0, 2000, seed=7)
    plan = qc.compile(SCHEMA.format(number=policy, category=category))
    release = plan.run(data, qc.Budget(rho=1), noise="none")
    truth = expected(plan.workload.schema, as_rows(data))
    assert not isinstance(truth, set)
    rows = truth[()][()]
    assert rows < 2000 if "drop" in (policy, category) else rows == 2000
    assert release.ask("total").estimate == pytest.approx(rows, abs=1e-6)
    for view in plan.workload.views:
        table = release.marginal(view).array
        assert table.sum() == pytest.approx(rows, abs=1e-5)
        if len(view) <= 2:
            assert nonzero(table) == truth[view]
            assert np.abs(table - np.rint(table)).max() < 1e-6


def as_rows(data: dict[str, list[Value]]) -> list[Row]:
    return [tuple(Entry(v, None) for v in row) for row in zip(*data.values(), strict=True)]


@pytest.mark.parametrize("column", ["a", "b", "c", "d"])
def test_without_a_policy_one_bad_value_in_any_column_stops_the_run(column: str) -> None:
    plan = qc.compile(SCHEMA.format(number="", category=""))
    data = bad_rows(0, 500, seed=3)
    for value in [v for v in dict.fromkeys(bad_rows(1, 200, seed=4)[column])][:4]:
        spoiled = {**data, column: [*data[column][:-1], value]}
        with pytest.raises(DataError) as caught:
            plan.run(spoiled, qc.Budget(rho=1), noise="none")
        assert REFUSAL.fullmatch(str(caught.value))
        assert f"attribute {column!r}" in str(caught.value)


@pytest.mark.parametrize("engine", ["memory", "duckdb"])
@pytest.mark.parametrize("policy", ["clip", "drop", "other"])
@pytest.mark.parametrize("values", [[1.0, 2.0, math.nan], [1.0, 1e300, math.nan], [-5.0, math.nan], [-0.0, math.nan]])
def test_not_a_number_beside_a_parquet_files_statistics(
    values: list[float], policy: str, engine: str, tmp_path: pathlib.Path
) -> None:
    """The least and the largest value of a column, which the file states, leave NaN out: it must be found anyway."""
    pq.write_table(pa.table({"i": pa.array(values, pa.float64())}), tmp_path / "t.parquet")
    kind = Policy("other", "rest") if policy == "other" else Policy(policy)  # type: ignore[arg-type]
    schema = Schema((Attribute("i", IntegerDomain(0, 8), kind),))
    inside = [v for v in values if not math.isnan(v) and (policy == "clip" or 0 <= v <= 8)]
    expected = [0] * schema["i"].size
    for v in inside:
        expected[int(min(max(v, 0), 8))] += 1
    if policy == "other":
        expected[-1] = len(values) - len(inside)
    leave_out = Reading(leave_out=True)
    with open_data(tmp_path / "t.parquet", schema, [("i",)], leave_out, engine=engine) as found:
        assert found.table(("i",)).tolist() == expected
    if policy == "clip":
        refused = pytest.raises(DataError, match="which cannot be clipped")
        with refused, open_data(tmp_path / "t.parquet", schema, [("i",)], engine=engine):
            pass
