"""The example of the language's design says what it should, and survives formatting."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from qcompile.grammar import check, format_text, load, parse
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.schema import CategoryDomain, IntegerDomain, NumericDomain, Policy
from qcompile.queries.workload import Workload

COUPLES = """\
# couples.q: married couples in a labour-force survey
language 1

schema {
  husage  : integer 18..80 clip            # 63 values; outside values go to the nearest end
  age     : integer 18..80 clip
  hours   : integer 0..99 clip
  hushrs  : integer 0..99 clip
  faminc  : numeric [0, 5000, 10000, 20000, 30000, 50000, 75000) clip
  educ    : category {"none", "high school", "college", "graduate"} other "unknown"
  month   : integer 1..12 cyclic drop
  `union` : category {0, 1} drop
}

workload {
  people     : total
  ages       : prefix(husage) * prefix(age)
  incomes    : range(faminc) * marginal(educ)            weight 2
  age_gap    : abs(husage - age <= *)
  work_time  : affine(hours + hushrs <= *) * marginal(educ)
  seasons    : circular(month)
  sample     : random(age, educ; p = 0.3, count = 200, seed = 7)
  mine       : matrix(age; "strategy.npy")
  seniors    : count((age in 65..80 or husage >= 65) and educ in {"college", "graduate"} and not `union` = 1)
  few        : affine(2*hours - hushrs <= {0, 20, 40})
  everything : each 1..3 of (husage: prefix, age: prefix, educ: marginal, faminc: prefix)
}
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    np.save(tmp_path / "strategy.npy", np.tri(5, 63))
    (tmp_path / "couples.q").write_text(COUPLES, encoding="utf-8")
    return tmp_path


@pytest.fixture
def workload(folder: pathlib.Path) -> Workload:
    return load(folder / "couples.q")


def test_schema(workload: Workload) -> None:
    schema = workload.schema
    assert schema.names == ("husage", "age", "hours", "hushrs", "faminc", "educ", "month", "union")
    assert schema["husage"].domain == IntegerDomain(18, 80)
    assert schema["husage"].policy == Policy("clip")
    assert schema["faminc"].domain == NumericDomain((0, 5000, 10000, 20000, 30000, 50000, 75000), closed=False)
    assert schema["educ"].policy == Policy("other", "unknown")
    assert schema["educ"].size == 5
    assert schema["month"].cyclic
    assert schema["month"].policy == Policy("drop")
    assert schema["union"].domain == CategoryDomain((0, 1))


def test_families(workload: Workload) -> None:
    kinds = {f.name: tuple(type(factor) for factor in f.factors) for f in workload.families}
    assert kinds == {
        "people": (),
        "ages": (Prefix, Prefix),
        "incomes": (Range, Marginal),
        "age_gap": (Abs,),
        "work_time": (Affine, Marginal),
        "seasons": (Circular,),
        "sample": (Random,),
        "mine": (Matrix,),
        "seniors": (Predicate, Predicate, Predicate),
        "few": (Affine,),
        "everything": (Prefix, Prefix, Marginal, Prefix),
    }
    counts = {f.name: f.count for f in workload.families}
    assert counts["people"] == 1
    assert counts["ages"] == 63 * 63
    assert counts["incomes"] == 21 * 5
    assert counts["age_gap"] == 63
    assert counts["work_time"] == 199 * 5
    assert counts["sample"] == 200
    assert counts["mine"] == 5
    assert counts["few"] == 3
    assert workload.family("incomes").weight == 2
    assert workload.family("everything").choose == (1, 3)
    assert workload.family("everything").views == 4 + 6 + 4


def test_predicate_splits_into_independent_parts(workload: Workload) -> None:
    ages, educ, union = workload.family("seniors").factors
    assert ages.names == ("age", "husage")
    years = np.arange(18, 81)
    expected = ((years >= 65)[:, None] | (years >= 65)[None, :]).astype(float)
    assert np.array_equal(ages.adjoint(np.ones(1)), expected)
    assert educ.adjoint(np.ones(1)).tolist() == [0, 0, 1, 1, 0]
    assert union.adjoint(np.ones(1)).tolist() == [1, 0]
    assert [f.labels()[0] for f in (ages, educ, union)] == [
        "age in 65..80 or husage >= 65",
        'educ in {"college", "graduate"}',
        "not union = 1",
    ]


def test_canonical_form(folder: pathlib.Path, workload: Workload) -> None:
    text = format_text(COUPLES)
    assert format_text(text) == text
    assert parse(text, base=folder) == workload
    assert "  incomes    : range(faminc) * marginal(educ) weight 2\n" in text
    assert "  # 63 values; outside values go to the nearest end\n" in text
    assert "  union  : category {0, 1} drop\n" in text


def test_one_line_blocks_in_either_order() -> None:
    workload = parse("workload { prefix(a); total; } schema { a : integer 0..9; b : category {true, false} }")
    assert [f.name for f in workload.families] == ["prefix(a)", "total"]
    assert workload.schema["b"].domain == CategoryDomain((True, False))


def test_statements_go_on_inside_brackets() -> None:
    workload = parse(
        """schema { a : integer 0..9
                    b : category {  # labels
                      "x",
                      "y"
                    } }
           workload {
             each 1..2 of (
               a: range,   # a comment inside
               b
             ) weight 3
           }"""
    )
    (family,) = workload.families
    assert family.choose == (1, 2)
    assert [type(f) for f in family.factors] == [Range, Marginal]


def test_a_schema_that_was_read_from_the_data_says_so() -> None:
    declared = parse("schema { a : integer 0..9 }\nworkload { total }")
    drafted = parse("schema read_from_data { a : integer 0..9 }\nworkload { total }")
    assert not declared.schema.read_from_data
    assert drafted.schema.read_from_data
    assert drafted.schema != declared.schema
    assert drafted.schema.attributes == declared.schema.attributes
    text = "schema\n\n  read_from_data{ a : integer 0..9 }\nworkload { total }"
    assert format_text(text).startswith("schema read_from_data {\n")
    assert parse(text) == parse(format_text(text)) == drafted


def test_read_from_data_is_a_name_everywhere_else() -> None:
    text = """schema read_from_data { read_from_data : integer 0..9; schema : integer 0..1 }
              workload { read_from_data : prefix(read_from_data); schema : marginal(schema) }"""
    workload = parse(text)
    assert workload.schema.names == ("read_from_data", "schema")
    assert [f.name for f in workload.families] == ["read_from_data", "schema"]
    assert parse(format_text(text)) == workload


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("schema read_from_dat { a : integer 0..1 }", 8, "'{' is missing after the name of the block"),
        ("schema read_from_data2 { a : integer 0..1 }", 8, "'{' is missing after the name of the block"),
        ("schema read_from_data read_from_data { a : integer 0..1 }", 23, "'{' is missing after the name of the block"),
        ("schema read_from_data { a : integer 0..1", 1, "the braces of this schema are never closed"),
        ("workload read_from_data { total }", 10, "'{' is missing after the name of the block"),
    ],
)
def test_mistakes_with_read_from_data(text: str, place: int, message: str) -> None:
    _, found = check(text)
    assert (found[0].span.column, found[0].message) == (place, message)
