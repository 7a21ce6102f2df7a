"""Drafts of schemas: accepted as they are, marked as read from the data, and never mistaken for public knowledge."""

from __future__ import annotations

import datetime
import math
import pathlib
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import qcompile
from qcompile.cli.commands.schema import app
from qcompile.data import read
from qcompile.data.curator.draft import draft
from qcompile.data.curator.label_order import sort_labels
from qcompile.data.curator.round_bins import MOST_BINS, round_edges
from qcompile.errors import DataError, OptionError, StorageError
from qcompile.grammar import format_text, parse
from qcompile.plan.encoding import ArrayStore, read_workload, workload_data
from qcompile.queries.schema import CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema
from qcompile.queries.workload import Workload
from qcompile.support.json_fields import Field


def drafted(data: object) -> Workload:
    """The workload of a draft, which must be canonical, marked, and fit its own data."""
    text = draft(data)
    workload = parse(text)
    assert format_text(text) == text
    assert "READ FROM THE DATA" in text.splitlines()[0]
    assert "\nschema read_from_data {\n" in text
    assert workload.schema.read_from_data
    read(data, workload.schema)
    return workload


def comments(data: object) -> list[str]:
    return [line.strip() for line in draft(data).splitlines() if line.startswith("  #")]


def test_each_kind_of_column() -> None:
    n = 400
    rng = np.random.default_rng(1)
    data: dict[str, Any] = {
        "age": rng.integers(20, 60, n),
        "income": rng.uniform(0, 90_000, n),
        "population": np.repeat(rng.integers(0, 1_000_000, n // 2), 2),
        "sex": ["m", "f"] * (n // 2),
        "flag": [True, False] * (n // 2),
        "code": [1, 2, None, 3] * (n // 4),
        "name": [f"person {i}" for i in range(n)],
        "number": rng.permutation(n) + 7,
        "born": [datetime.date(1980, 1, 1)] * n,
        "nothing": [None] * n,
        "essay": ["word " * 60] * n,
    }
    data["age"][:2] = 20, 59
    schema = drafted(pd.DataFrame(data)).schema
    assert schema.names == ("age", "income", "population", "sex", "flag", "code")
    assert schema["age"].domain == IntegerDomain(20, 59)
    assert schema["age"].policy == Policy("clip")
    assert schema["income"].domain == NumericDomain(tuple(float(5000 * k) for k in range(19)))
    assert schema["population"].domain == NumericDomain(tuple(float(50_000 * k) for k in range(21)))
    assert schema["sex"].domain == CategoryDomain(("f", "m"))
    assert schema["sex"].policy == Policy("other", "other")
    assert schema["flag"].domain == CategoryDomain((False, True))
    assert schema["code"].domain == IntegerDomain(1, 3)
    assert schema["code"].policy == Policy("other", "missing")
    found = comments(pd.DataFrame(data))
    for name, reason in (
        ("name", "more than 100 different texts"),
        ("number", "every row has a number of its own"),
        ("born", "dates and the like cannot be attributes"),
        ("nothing", "all values are null"),
        ("essay", "texts of more than 100 characters"),
    ):
        assert any(line.startswith(f"# {name}: ") and reason in line for line in found), name


def test_a_csv_file_is_judged_by_its_look(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    lines = ["whole,decimal,flag,text,born,mixed,code,gap"]
    lines += [
        f"{i % 7},{i / 8},{'TRUE' if i % 2 else 'false'},{'?' if i % 3 else 'NO'},2026-01-{i % 28 + 1:02},"
        f"{'NA' if i % 20 == 0 else i % 90},{'x' if i % 4 else i % 3},{'' if i % 5 else i % 2}"
        for i in range(200)
    ]
    path.write_text("\n".join(lines) + "\n")
    schema = drafted(path).schema
    assert schema.names == ("whole", "decimal", "flag", "text", "mixed", "code", "gap")
    assert schema["whole"].domain == IntegerDomain(0, 6)
    assert schema["decimal"].domain == NumericDomain(tuple(float(2 * k) for k in range(14)))
    assert schema["flag"].domain == CategoryDomain((False, True))
    assert schema["text"].domain == CategoryDomain(("?", "NO"))
    assert schema["mixed"].domain == IntegerDomain(0, 89)
    assert schema["mixed"].policy == Policy("other", "missing")
    assert schema["code"].domain == CategoryDomain(("0", "1", "2", "x"))
    assert schema["gap"].policy == Policy("other", "missing")
    assert comments(path) == ["# born: dates cannot be attributes; convert them, for instance to the year"]


ODD = [
    "",
    "other",
    "Any Other",
    '"',
    "\\",
    "a,b",
    "two\nlines",
    "tab\t",
    "caf\u00e9",
    "\u2028",
    "null",
    "\r",
    "# no",
    "}",
]


def test_odd_labels_and_names_survive() -> None:
    names = ["hours-per-week", "a b", "schema", "read_from_data", "`tick`", "two\nlines", "# no", "}", "x" * 300, "in"]
    schema = drafted({name: ODD for name in names}).schema
    assert schema.names == tuple(names)
    for attribute in schema:
        assert attribute.domain == CategoryDomain(tuple(sorted(ODD)))
        assert attribute.policy == Policy("other", "any other 2")


def test_names_that_cannot_be_attributes_become_comments(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,Age,,twice,twice,two\n1,2,3,4,5,6\n")
    assert drafted(path).schema.names == ("age", "two")
    assert comments(path) == [
        "# Age: another name differs by case or Unicode form only",
        "# : the column has no name",
        "# twice: 2 columns have this name",
        "# twice: 2 columns have this name",
    ]
    assert drafted(pd.DataFrame({"a": [1, 2], 7: [1, 2]})).schema.names == ("a",)
    hostile = pa.table({"a": [1], "x\nb : integer 0..1": pa.array([None], pa.string()), "c\rd": [1]})
    assert drafted(hostile).schema.names == ("a",)
    assert comments(hostile)[1] == "# c\\u000dd: the name holds a carriage return"


def test_a_name_cannot_leave_its_comment(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "x\nschema {}.csv"
    path.write_text("a\n1\n")
    assert draft(path).splitlines()[0].startswith("# Drafted from x\\nschema {}.csv, READ FROM")


def test_the_workload_shrinks_where_pairs_would_be_too_many() -> None:
    columns = {f"x{i}": np.arange(250) % (200 + i % 7) for i in range(30)}
    assert drafted(columns).families[0].text == "each 1 of all"
    few = {name: columns[name] for name in list(columns)[:3]}
    assert drafted(few).families[0].text == "each 1..2 of all"
    assert drafted({"x": [1]}).families[0].text == "each 1 of all"


def test_what_is_missing_can_be_asked() -> None:
    """Prefixes leave the cell of ``other`` out; with the total its count follows, alone and by another attribute."""
    data = {"x": [1, 2, None, 3, None], "y": [5, None, None, 7, 7]}
    text = draft(data).replace(" read_from_data", "", 1)
    release = qcompile.compile(text).run(data, qcompile.Budget(rho=1), noise="none")
    for query, count in {
        "total": 5,
        'count(x = "missing")': 2,
        'count(x = "missing" and y = "missing")': 1,
        'count(x = "missing" and y <= 7)': 1,
    }.items():
        assert release.ask(query).estimate == pytest.approx(count, abs=1e-6)


def test_hundreds_of_columns() -> None:
    workload = drafted({f"x{i}": [0, 1, 1] for i in range(60)})
    assert len(workload.schema) == 60
    assert workload.families[0].views == 60 + 60 * 59 // 2


@pytest.mark.parametrize("values", [[math.inf, 1.0, 2.5], [1e301, 0.0], [0.1, 0.1], [2.0**60, 0.0], [-5.5, -5.5, None]])
def test_odd_numbers(values: list[float | None]) -> None:
    if values[0] == 1e301:
        assert comments({"x": values, "y": [0, 1]})[0].startswith("# x: the numbers are too large")
        return
    domain = drafted({"x": values}).schema["x"].domain
    assert isinstance(domain, NumericDomain)


def test_nothing_to_draft_from(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n")
    with pytest.raises(DataError, match="no column of the data can be an attribute"):
        draft(path)
    with pytest.raises(DataError, match="no such file"):
        draft(tmp_path / "absent.csv")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(DataError, match="unknown kind of file"):
        draft(tmp_path / "t.xlsx")


def test_more_than_the_language_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcompile.grammar.MAX_SIZE", 300)
    with pytest.raises(DataError, match="too many or too odd columns for a draft"):
        draft({"x": ODD})


finite = st.floats(-1e290, 1e290, allow_nan=False)


@given(finite, finite)
def test_round_edges(first: float, second: float) -> None:
    low, high = sorted((first, second))
    edges = round_edges(low, high)
    if edges is None:
        assert high - low < 1e-12 * max(abs(low), abs(high)) or max(abs(low), abs(high)) < 1e-290
        return
    assert edges[0] <= low <= high <= edges[-1]
    assert 1 <= len(edges) - 1 <= MOST_BINS
    assert NumericDomain(edges).size == len(edges) - 1
    widths = np.diff(edges)
    assert np.allclose(widths, widths[0], rtol=1e-3)


@pytest.mark.parametrize(
    ("low", "high", "first", "width", "bins"),
    [(0, 99_999, 0, 5000, 20), (0.5, 0.5, 0.5, 0.05, 1), (-3.2, 7.7, -4, 1, 12), (12285, 1490400, 0, 100_000, 15)],
)
def test_round_edges_by_hand(low: float, high: float, first: float, width: float, bins: int) -> None:
    assert round_edges(low, high) == pytest.approx([first + width * k for k in range(bins + 1)])


@pytest.mark.parametrize("name", ["adult_raw.csv", "adult.csv"])
def test_adult(name: str, adult_folder: pathlib.Path) -> None:
    workload = drafted(adult_folder / name)
    assert len(workload.schema) == (15 if name == "adult_raw.csv" else 14)
    assert workload.families[0].choose == (1, 2)


# --- the command ---


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "people.csv"
    path.write_text("age,sex\n41,f\n17,m\n")
    return path


@pytest.mark.parametrize("missing", [["NA"], ["."], ["?", "", "N/A"], ["null", "-", "NaN"]])
@pytest.mark.parametrize("share", [0.02, 0.9])
def test_missing_values_among_numbers(missing: list[str], share: float, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(1)
    gone = rng.random(300) < share
    numbers = [str(v) for v in np.r_[0, 24, rng.integers(0, 25, 298)]]
    fractions = [f"{v:.2f}" for v in rng.uniform(0, 100, 300)]
    gone[:2] = False
    texts = [[f'"{missing[i % len(missing)]}"' if g else v for i, (v, g) in enumerate(zip(column, gone, strict=True))]
             for column in (numbers, fractions)]  # fmt: skip
    path = tmp_path / "t.csv"
    path.write_text("hours,score\n" + "".join(f"{a},{b}\n" for a, b in zip(*texts, strict=True)))
    schema = drafted(path).schema
    assert schema["hours"].domain == IntegerDomain(0, 24)
    assert schema["hours"].policy == Policy("other", "missing")
    assert isinstance(schema["score"].domain, NumericDomain)
    listed = ", ".join(f'"{m}"' for m in sorted({t.strip('"') for t in texts[0] if t.startswith('"')}))
    assert draft(path).count(f"# taken as missing: {listed}\n") == 2


def test_other_words_among_few_numbers_make_categories(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("code\n10\n9\nNA\nrefused\n")
    assert drafted(path).schema["code"].domain == CategoryDomain(("9", "10", "refused", "NA"))


@pytest.mark.parametrize(
    "labels",
    [
        ["lt $1000", "$1000 to 2999", "$3000 to 3999", "$10000 - 14999", "$25000 or more", "refused", "NA"],
        ["<5", "5 to 9", "10+", "> 10", ""],
        ["<= 1,000", "1,000", ">= 1,000", "2,000"],
        ["0.5 mg", "2.25 mg", "10 mg"],
        ["ward 2", "ward 10", "ward 10b", "ward 11"],
        ["-10", "-2", "0", "3"],
        ["A2", "A10", "B1", "C", "?"],
    ],
)
def test_labels_are_sorted_by_their_numbers(labels: list[str]) -> None:
    assert sort_labels(sorted(labels)) == labels
    assert drafted({"x": sorted(labels)}).schema["x"].domain == CategoryDomain(tuple(labels))


STEERING = ["a\x1b[2Jb", "a\u202eb", "a\u2066b", "a\x9bb", "a\x7fb", "a\u200fb"]


def test_no_sign_that_steers_a_terminal_is_written() -> None:
    text = draft({"x": STEERING, **{f"name {s}": [1, 2, 3, 4, 5, 6] for s in STEERING}})
    assert not set("".join(STEERING)) - set("ab[2J") & set(text)
    schema = drafted({"x": STEERING, **{f"name {s}": [1] * 6 for s in STEERING}}).schema
    assert schema.names == ("x",)
    assert schema["x"].domain == CategoryDomain(tuple(sorted(STEERING)))
    assert text.count("the name holds characters that are not shown") == len(STEERING)


def test_the_draft_is_for_its_owner_only(table: pathlib.Path) -> None:
    target = table.with_suffix(".q")
    CliRunner().invoke(app, ["draft", str(table), "-o", str(target)], catch_exceptions=False)
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_dash_is_stdout(table: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(table.parent)
    shown = CliRunner().invoke(app, ["draft", str(table), "-o", "-"], catch_exceptions=False)
    assert shown.stdout == draft(table)
    assert not pathlib.Path("-").exists()


def test_the_command_writes_and_warns(table: pathlib.Path) -> None:
    target = table.with_suffix(".q")
    done = CliRunner().invoke(app, ["draft", str(table), "-o", str(target)], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout == ""
    assert done.stderr == (
        f"warning: {target} was read from the data; it is as confidential as the data until every domain is replaced\n"
    )
    assert target.read_text() == draft(table)
    shown = CliRunner().invoke(app, ["draft", str(table)], catch_exceptions=False)
    assert shown.stdout == draft(table)
    assert shown.stderr.startswith("warning: this draft was read from the data")


def test_the_command_overwrites_nothing(table: pathlib.Path) -> None:
    target = table.with_suffix(".q")
    target.write_text("mine")
    before = table.read_bytes()
    link = table.with_name("link.csv")
    link.symlink_to(table)
    for output, error, message in (
        (target, OptionError, "exists already"),
        (table, OptionError, "would overwrite"),
        (link, OptionError, "would overwrite"),
        (table.parent, StorageError, "it is a folder"),
        (table.parent / "no" / "x.q", StorageError, "does not exist"),
    ):
        with pytest.raises(error, match=message):
            CliRunner().invoke(app, ["draft", str(table), "-o", str(output)], catch_exceptions=False)
    assert target.read_text() == "mine"
    assert table.read_bytes() == before


def test_a_deleted_word_makes_a_declared_schema(table: pathlib.Path) -> None:
    text = draft(table)
    declared = parse(text.replace("schema read_from_data {", "schema {"))
    assert not declared.schema.read_from_data
    assert declared != parse(text)
    assert declared.schema == Schema(parse(text).schema.attributes)


def test_the_mark_stays_with_plan_files(table: pathlib.Path) -> None:
    workload = parse(draft(table))
    store = ArrayStore()
    data = workload_data(workload, store)
    assert data["read_from_data"] is True
    assert read_workload(Field(data), store) == workload
    plan = qcompile.compile(workload)
    plan.save(table.with_suffix(".plan"))
    assert qcompile.load_plan(table.with_suffix(".plan")).workload == workload
    del data["read_from_data"]  # as in files from before there was the mark
    assert read_workload(Field(data), store).schema == Schema(workload.schema.attributes)
    assert workload_data(read_workload(Field(data), store), store) == data
    with pytest.raises(ValueError, match="must be true or false"):
        read_workload(Field({**data, "read_from_data": "no"}), store)
