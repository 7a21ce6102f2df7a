"""What conditions say about the cell of ``other``, about the order of categories and about values of no domain."""

from __future__ import annotations

import numpy as np
import pytest

from qcompile.errors import WorkloadError
from qcompile.grammar import check, check_query, parse, parse_query
from qcompile.queries.schema import Schema

TEXT = """schema {
  a : integer 0..3 other "none"
  b : integer 0..2 other "n/a"
  c : category {"lo", "mid", "hi"} other "unknown"
  k : integer 0..90 clip
  d : integer 1..12 cyclic drop
  n : numeric [0, 10, 20] clip
  s : integer 0..5
  m : category {true, 1, "1"}
}
"""


@pytest.fixture(scope="module")
def schema() -> Schema:
    return parse(f"{TEXT}workload {{ total }}").schema


def notes(condition: str) -> list[str]:
    """The notes of a workload with one condition."""
    workload, found = check(f"{TEXT}workload {{ count({condition}) }}")
    assert workload is not None
    return [f"{d.message}; {d.hint}" for d in found]


def remarks(query: str, schema: Schema) -> list[str]:
    """The notes of a query that is asked."""
    product, found = check_query(query, schema)
    assert product is not None
    return [d.message for d in found]


def refusal(query: str, schema: Schema) -> str:
    """The only error of a query that is asked."""
    product, found = check_query(query, schema)
    assert product is None
    (error,) = [d for d in found if d.severity == "error"]
    with pytest.raises(WorkloadError) as caught:
        parse_query(query, schema)
    assert caught.value.diagnostics == found
    assert error.source[error.span.column - 1 :].startswith(error.source[error.span.start : error.span.end])
    return f"{error.message}; {error.hint}"


@pytest.mark.parametrize(
    ("condition", "others"),
    [
        ("a != 1", "a"),
        ("not a = 1", "a"),
        ("not a != 1", ""),
        ("not not a = 1", ""),
        ('a != "none"', ""),
        ('not a in {1, "none"}', ""),
        ('a = "none" or a = 1', ""),
        ("a = 1 or b = 2", ""),
        ("a != 1 or b = 2", "a"),
        ("not (a = 1 or b = 2)", "ab"),
        ('not a = 1 and a != "none"', ""),
        ("not a = 1 and a in 0..3", ""),
        ("not (a = 1 and b = 2)", "ab"),
        ("a != b", "ab"),
        ("not a < b", "ab"),
        ('c != "lo"', "c"),
        ('not c <= "mid"', "c"),
        ("(a != 1 or b >= 0) and (b != 1 or a >= 0)", "ab"),  # only where both are in their other cell
        ("d != 3", ""),
        ('k != 3 or c = "lo"', ""),
    ],
)
def test_a_note_says_that_a_negation_counts_the_other_cell(condition: str, others: str) -> None:
    labels = {"a": "none", "b": "n/a", "c": "unknown"}
    found = notes(condition)
    assert len(found) == len(others)
    for name, note in zip(others, found, strict=True):
        assert f"also counts the rows where '{name}' is \"{labels[name]}\"; to leave them out, " in note
        assert note.endswith(f'and {name} != "{labels[name]}"')


@pytest.mark.parametrize("condition", ["a != 1", "not a = 1", "not (a in 0..1 or a = 3)"])
def test_the_hint_leaves_the_other_cell_out(condition: str) -> None:
    (note,) = notes(condition)
    assert notes(f"{condition} {note.partition('add: ')[2]}") == []


@pytest.mark.parametrize(
    ("condition", "cells"),
    [
        ('c <= "mid"', [1, 1, 0, 0]),
        ('c < "mid"', [1, 0, 0, 0]),
        ('c > "lo"', [0, 1, 1, 0]),
        ('"mid" <= c', [0, 1, 1, 0]),
        ('c in "mid".."hi"', [0, 1, 1, 0]),
        ('c in "hi".."hi"', [0, 0, 1, 0]),
        ('c != "mid"', [1, 0, 1, 1]),
        ('not c <= "mid"', [0, 0, 1, 1]),
        ('c = "unknown"', [0, 0, 0, 1]),
        ('c in {"lo", "unknown"}', [1, 0, 0, 1]),
        ("m <= 1", [1, 1, 0]),
        ('m in 1.."1"', [0, 1, 1]),
        ("m > true", [0, 1, 1]),
    ],
)
def test_categories_are_in_their_declared_order(condition: str, cells: list[int], schema: Schema) -> None:
    (factor,) = parse_query(f"count({condition})", schema).factors
    np.testing.assert_array_equal(factor.adjoint(np.ones(1)), cells)


@pytest.mark.parametrize(
    ("query", "remark"),
    [
        ("count(a <= 9)", "'a' holds 0..3; other values count as \"none\""),
        ("count(a in {1, 7})", "'a' holds 0..3; other values count as \"none\""),
        ("count(9 >= a)", "'a' holds 0..3; other values count as \"none\""),
        ("count(k = 90)", "'k' holds 0..90; larger values count as 90 (clip)"),
        ("count(k in 5..90)", "'k' holds 0..90; larger values count as 90 (clip)"),
        ("count(k in -5..95)", "the condition k in -5..95 holds everywhere in the declared domains"),
        ("count(k in {0, 90})", "'k' holds 0..90; smaller values count as 0, larger values count as 90 (clip)"),
        ("count(k != 0)", "'k' holds 0..90; smaller values count as 0 (clip)"),
        ("count(k >= 80)", ""),
        ("count(k < 90)", ""),
        ("count(k in 5..80)", ""),
        ("count(d in 5..20)", "'d' holds 1..12; rows with other values are left out of all counts (drop)"),
        ("count(s in 5..20)", "'s' holds 0..5, and no row has another value"),
        ("count(n in 10..20)", "'n' holds [0, 20]; larger values count in [10, 20] (clip)"),
        ("count(n < 10)", ""),
        ('count(c = "lo")', ""),
        ("count(a = b)", ""),
        ("affine(k + s <= 200)", "the condition k + s <= 200 holds everywhere in the declared domains"),
        ("abs(k - s >= 0)", "the condition abs(k - s) >= 0 holds everywhere in the declared domains"),
        ("affine(k + s <= 20)", ""),
    ],
)
def test_remarks_on_values_outside_of_a_domain(query: str, remark: str, schema: Schema) -> None:
    assert remarks(query, schema) == ([remark] if remark else [])


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("count(a >= 99)", "a >= 99, so its count is always 0; 'a' holds 0..3; other values count as"),
        ("count(a > 3)", "'a' holds 0..3; other values count as \"none\"; ask about values of the domain"),
        ("count(k > 90)", "'k' holds 0..90; larger values count as 90 (clip); ask"),
        ("count(k < 0)", "'k' holds 0..90; smaller values count as 0 (clip); ask"),
        ("count(0 > k and s = 1)", "no row can meet k < 0, "),
        ("count(d = 13)", "'d' holds 1..12; rows with other values are left out of all counts (drop)"),
        ("count(s in {7, 8})", "'s' holds 0..5, and no row has another value"),
        ("count(n > 20)", "'n' holds [0, 20]; larger values count in [10, 20] (clip)"),
        ("count(n < 0)", "smaller values count in [0, 10) (clip)"),
        ('count(c < "lo")', "\"lo\" is the first category of 'c'"),
        ('count("hi" < c)', "\"hi\" is the last category of 'c'"),
        ('count(m > "1")', "\"1\" is the last category of 'm'"),
        ("count(m < true)", "true is the first category of 'm'"),
        ("count(k = 1 and k = 2)", "its parts exclude each other"),
        ("count(k <= 5) * count(s = 9)", "no row can meet s = 9, "),
        ("affine(k + s <= -3)", "no row can meet k + s <= -3, so its count is always 0; k + s takes"),
        ("affine(k + s > 95)", "k + s takes the values 0..95"),
        ("affine(k - s + 4 < -1)", "no row can meet k - s <= -6, "),
        ("abs(k - s <= -1)", "abs(k - s) takes the values 0..90"),
        ("abs(2*k - 2*s + 1 <= 0)", "abs(2*k - 2*s + 1) takes the values 1..181"),
        ("abs(k + s + 7 <= 6)", "abs(k + s + 7) takes the values 7..102"),
        ("abs(-k - s - 7 <= 6)", "takes the values 7..102"),
    ],
)
def test_a_query_that_no_row_can_meet_is_refused(query: str, reason: str, schema: Schema) -> None:
    assert reason in refusal(query, schema)


@pytest.mark.parametrize(("query", "place"), [('c < "unknown"', 9), ('c in "lo".."unknown"', 16), ('a >= "none"', 10)])
def test_the_label_of_other_is_in_no_order(query: str, place: int, schema: Schema) -> None:
    message = refusal(f"count({query})", schema)
    assert "has no place in the order of" in message
    ((error,),) = [check_query(f"count({query})", schema)[1]]
    assert error.span.column >= place


def test_an_interval_past_the_end_of_a_circle_is_written_with_or(schema: Schema) -> None:
    message = refusal("count(d in 11..2)", schema)
    assert message == "the interval 11..2 is empty; write d >= 11 or d <= 2"
    assert parse_query("count(d >= 11 or d <= 2)", schema).count == 1
    assert refusal('count(c in "hi".."lo")', schema) == 'the interval "hi".."lo" is empty; write "lo".."hi"'


def test_ends_of_a_category_are_labels(schema: Schema) -> None:
    assert "are constants; a label is written in double quotes" in refusal('count(c in "lo"..s)', schema)
    assert refusal('count(c <= "mod")', schema) == '"mod" is not a category of \'c\'; did you mean "mid"?'
