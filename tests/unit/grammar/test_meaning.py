"""What statements mean, against brute force and SymPy."""

from __future__ import annotations

import itertools
import math
import pathlib
import pickle
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.errors import WorkloadError
from qcompile.grammar import check, format_text, parse, parse_query
from qcompile.grammar.meaning.linear_forms import expand_form, read_sum
from qcompile.grammar.meaning.predicates import group_connected
from qcompile.grammar.reading.source import Findings, SourceText
from qcompile.grammar.reading.syntax import Comparison, Form, Multiple, Name, Number, Or, Sum
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Prefix
from qcompile.queries.workload import Family, Product, Target, Workload

SCHEMA = """schema {
  a : integer -1..3 clip
  b : integer 0..2 other "none"
  c : category {"x", 1, "1", true} other "rest"
  e : numeric [0, 10, 20, 40)
  f : numeric [0, 10, 20]
}
"""


def one(expression: str) -> Family:
    """The only family of a workload over SCHEMA."""
    (family,) = parse(f"{SCHEMA}workload {{ {expression} }}").families
    return family


def cells_of(family: Family | Product) -> dict[tuple[str, ...], np.ndarray]:
    """For each factor of one query: its attributes and the cells it counts."""
    return {f.names: f.adjoint(np.ones(1)) for f in family.factors}


def errors(text: str) -> list[str]:
    """The messages of all errors."""
    return [d.message for d in check(text)[1] if d.severity == "error"]


# --- conditions ---


def grouped(parts: list[set[int]]) -> list[list[int]]:
    """Positions of the parts in groups that share nothing, joined one part after the other."""
    groups: list[tuple[set[int], list[int]]] = []
    for i, part in enumerate(parts):
        touching = [g for g in groups if g[0] & part]
        joined = (set().union(part, *(g[0] for g in touching)), [*(m for g in touching for m in g[1]), i])
        if touching:
            groups[groups.index(touching[0])] = joined
            groups = [g for g in groups if g not in touching[1:]]
        else:
            groups.append(joined)
    return [members for _, members in groups]


@given(st.lists(st.sets(st.integers(0, 9), min_size=1, max_size=3), max_size=12))
def test_conditions_are_grouped_by_the_attributes_they_share(parts: list[set[int]]) -> None:
    conditions = [Or(tuple(Comparison(Name(str(n)), "=", Number("1")) for n in sorted(p))) for p in parts]
    place = {id(c): i for i, c in enumerate(conditions)}
    assert [[place[id(c)] for c in group] for group in group_connected(conditions)] == grouped(parts)


@pytest.mark.parametrize(
    ("condition", "names", "cells"),
    [
        ("a <= 0", "a", [1, 1, 0, 0, 0]),
        ("a > 99", "a", [0, 0, 0, 0, 0]),
        ("a != 7", "a", [1, 1, 1, 1, 1]),
        ("2 > a", "a", [1, 1, 1, 0, 0]),
        ("a in -5..0", "a", [1, 1, 0, 0, 0]),
        ("a in {3, -1, 9}", "a", [1, 0, 0, 0, 1]),
        ("b >= 0", "b", [1, 1, 1, 0]),
        ("b < 9", "b", [1, 1, 1, 0]),
        ("b = 1", "b", [0, 1, 0, 0]),
        ("b != 1", "b", [1, 0, 1, 1]),
        ("not b = 1", "b", [1, 0, 1, 1]),
        ('b = "none"', "b", [0, 0, 0, 1]),
        ('b in {0, "none"}', "b", [1, 0, 0, 1]),
        ('c = "1"', "c", [0, 0, 1, 0, 0]),
        ("c = 1", "c", [0, 1, 0, 0, 0]),
        ("c = true", "c", [0, 0, 0, 1, 0]),
        ('c in {"x", true}', "c", [1, 0, 0, 1, 0]),
        ('c = "rest"', "c", [0, 0, 0, 0, 1]),
        ('c != "x"', "c", [0, 1, 1, 1, 1]),
        ("e < 10", "e", [1, 0, 0]),
        ("e >= 20", "e", [0, 0, 1]),
        ("e <= 40", "e", [1, 1, 1]),
        ("e < 40", "e", [1, 1, 1]),
        ("e in 10..40", "e", [0, 1, 1]),
        ("e < 0", "e", [0, 0, 0]),
        ("f <= 20", "f", [1, 1]),
        ("f > 20", "f", [0, 0]),
        ("f in 0..10", "f", [1, 0]),
    ],
)
def test_single_conditions(condition: str, names: str, cells: list[int]) -> None:
    found = cells_of(one(f"count({condition})"))
    assert {k: v.tolist() for k, v in found.items()} == {(names,): cells}


@pytest.mark.parametrize("relation", ["=", "!=", "<", "<=", ">", ">="])
def test_two_integers(relation: str) -> None:
    ((names, cells),) = cells_of(one(f"count(a {relation} b)")).items()
    assert names == ("a", "b")
    for i, j in itertools.product(range(5), range(4)):
        holds = (
            relation == "!="
            if j == 3
            else eval(f"{i - 1} {relation.replace('=', '==') if relation == '=' else relation} {j}")
        )
        assert cells[i, j] == holds


VALUES: dict[str, list[Any]] = {"a": [-1, 0, 1, 2, 3], "b": [0, 1, 2, None], "c": ["x", 1, "1", True, "rest"]}
LEAVES: dict[str, Callable[[Any], bool]] = {
    "a <= 1": lambda v: v["a"] <= 1,
    "a = b": lambda v: v["a"] == v["b"],
    "b > 0": lambda v: v["b"] is not None and v["b"] > 0,
    'c = "x"': lambda v: v["c"] == "x",
    "a in {0, 3}": lambda v: v["a"] in (0, 3),
    "b != 2": lambda v: v["b"] != 2,
}
conditions = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
    max_leaves=8,
)


def written(node: object) -> str:
    """A random condition as text."""
    match node:
        case ("not", part):
            return f"not ({written(part)})"
        case (word, left, right):
            return f"({written(left)}) {word} ({written(right)})"
        case _:
            return str(node)


def holds(node: object, values: dict[str, object]) -> bool:
    """Whether it holds for one row."""
    match node:
        case ("not", part):
            return not holds(part, values)
        case ("and", left, right):
            return holds(left, values) and holds(right, values)
        case ("or", left, right):
            return holds(left, values) or holds(right, values)
        case _:
            return bool(LEAVES[str(node)](values))


@given(conditions)
def test_conditions_against_rows(node: object) -> None:
    family = one(f"count({written(node)})")
    assert family.count == 1
    tables = cells_of(family)
    for codes in itertools.product(range(5), range(4), range(5)):
        code = dict(zip("abc", codes, strict=True))
        product = math.prod(float(table[tuple(code[n] for n in names)]) for names, table in tables.items())
        assert product == holds(node, {n: VALUES[n][i] for n, i in code.items()})


def test_independent_conditions_become_factors() -> None:
    family = one('count(a = 1 and (c = "x" and (b = 1 or a = 2)))')
    assert [f.names for f in family.factors] == [("a", "b"), ("c",)]
    wide = "schema {\n" + "\n".join(f"x{i} : integer 0..999" for i in range(40)) + "\n}\n"
    workload = parse(f"{wide}workload {{ count({' and '.join(f'x{i} < 500' for i in range(40))}) }}")
    assert len(workload.families[0].factors) == 40


# --- forms ---

forms = st.recursive(
    st.one_of(st.sampled_from([Name("a"), Name("b")]), st.integers(-3, 9).map(lambda n: Number(str(n)))),
    lambda inner: st.one_of(
        st.tuples(st.lists(st.sampled_from("+-"), min_size=2, max_size=2), st.lists(inner, min_size=2, max_size=2)).map(
            lambda p: Sum(tuple(p[0]), tuple(p[1]))
        ),
        inner.map(lambda form: Multiple(("*", "*"), (Number("3"), form))),
    ),
    max_leaves=6,
)


def evaluate(form: Form, values: dict[str, int]) -> int:
    """A form at one point."""
    match form:
        case Name():
            return values[form.text]
        case Number():
            return int(form.text)
        case Sum():
            return sum(
                (1 if s == "+" else -1) * evaluate(t, values) for s, t in zip(form.signs, form.terms, strict=True)
            )
        case Multiple():
            return math.prod(evaluate(t, values) for t in form.terms)
        case _:
            raise TypeError(form)


@given(forms)
def test_forms_agree_with_sympy_and_evaluation(form: Form) -> None:
    findings = Findings(SourceText(""))
    coefficients, constant = expand_form(form, findings)
    read = read_sum(form, findings)
    if read is not None:
        assert {k: v for k, v in read[0].items() if v} == {k: v for k, v in coefficients.items() if v}
        assert read[1] == constant
    for a, b in ((0, 0), (1, 0), (0, 1), (5, -7)):
        assert coefficients.get("a", 0) * a + coefficients.get("b", 0) * b + constant == evaluate(
            form, {"a": a, "b": b}
        )


def test_a_form_is_read_by_sympy_up_to_a_size() -> None:
    """Brackets in brackets add up constants, not terms; the coefficients do not change with the number of factors."""
    wide = "2*(" * 20 + "a + b" + " + 1)" * 20
    assert factor(f"affine({wide} <= *)").coefficients == (2**20, 2**20)
    assert factor(f"affine(a + b*{'3/3*' * 500}2 <= *)").coefficients == (1, 2)
    (message,) = errors(f"{TWO}workload {{ affine(a + b*{'3/3*' * 2500}2 <= *) }}")
    assert message == "this form takes 5004 steps to expand, at most 4000 are done"


TWO = "schema { a : integer 0..9; b : integer 5..14; E : integer 0..3; `I` : integer 0..3 }\n"


def factor(expression: str) -> Affine | Abs:
    """The only factor of a family over TWO."""
    ((found,),) = [f.factors for f in parse(f"{TWO}workload {{ {expression} }}").families]
    assert isinstance(found, Affine | Abs)
    return found


@pytest.mark.parametrize(
    ("expression", "coefficients", "thresholds", "at_least"),
    [
        ("affine(a + b)", (1, 1), None, False),
        ("affine(a + b + 7 > *)", (1, 1), None, True),
        ("affine(a + b + 3 <= {10, 4})", (1, 1), (1, 7), False),
        ("affine(a + b < 5)", (1, 1), (4,), False),
        ("affine(a + b > 5)", (1, 1), (6,), True),
        ("affine(a + b >= 5)", (1, 1), (5,), True),
        ("affine(a + b <= {0, 4..10 step 3, 20})", (1, 1), (0, 4, 7, 10, 20), False),
        ("affine(b*2 - a + a + a <= 1)", (2, 1), (1,), False),
        ("affine(-(a - 2*b)/1 <= 1)", (-1, 2), (1,), False),
        ("affine((2*a + 4*b)/2 <= 1)", (1, 2), (1,), False),
        ("affine(2^3*a + b**1 <= 1)", (8, 1), (1,), False),
        ("affine(2*(E - I) <= 1)", (2, -2), (1,), False),
        ("abs(a - b <= 3)", (1, -1), (3,), False),
    ],
)
def test_thresholds(
    expression: str, coefficients: tuple[int, ...], thresholds: tuple[int, ...] | None, at_least: bool
) -> None:
    found = factor(expression)
    assert sorted(zip(found.names, found.coefficients, strict=True)) == sorted(
        zip(found.names, coefficients, strict=True)
    )
    assert (found.thresholds, found.at_least) == (thresholds, at_least)


def test_every_attainable_threshold() -> None:
    assert factor("affine(a + b <= *)").count == 19
    assert factor("abs(a - b + 2)").constant == 2


def test_values_not_codes() -> None:
    cells = factor("affine(a + b <= 7)").adjoint(np.ones(1))
    assert cells[2, 0] == 1  # 2 + 5
    assert cells[2, 1] == 0  # 2 + 6


# --- families ---


def test_identical_families_count_once() -> None:
    workload, notes = check(f"{SCHEMA}workload {{\n x : prefix(a)\n y : prefix(a) weight 2\n prefix(a); prefix(a) }}")
    assert isinstance(workload, Workload)
    (family,) = workload.families
    assert (family.name, family.weight, family.aliases) == ("x", 5.0, ("y", "prefix(a)"))
    assert [n.severity for n in notes] == ["note"] * 3
    assert workload.family("y") is family


def test_different_families_are_kept() -> None:
    text = "prefix(a) * marginal(c); marginal(c) * prefix(a); range(a); each 1 of (a); count(a < 0); count(a >= 0)"
    assert len(parse(f"{SCHEMA}workload {{ {text} }}").families) == 6


def test_names_that_look_alike_are_refused() -> None:
    assert errors("schema { \ufb01x : integer 0..1; fix : integer 0..1 }\nworkload { total }") == [
        "attribute 'fix' differs from '\ufb01x' by case or Unicode form only"
    ]
    assert errors(f"{SCHEMA}workload {{ X : total; x : prefix(a) }}") == [
        "family 'x' differs from 'X' by case or Unicode form only"
    ]
    assert errors(f"{SCHEMA}workload {{ `prefix(a)` : range(a); prefix(a) }}") == [
        "two families are called 'prefix(a)'"
    ]


def test_default_factors_of_each() -> None:
    schema = "schema { a : integer 0..1; b : integer 0..2 cyclic; c : category {0}; e : numeric [0, 1] }\n"
    (family,) = parse(f"{schema}workload {{ each 2..3 of all }}").families
    assert [type(f) for f in family.factors] == [Prefix, Circular, Marginal, Prefix]
    assert family.choose == (2, 3)


@pytest.mark.parametrize("weight", ["0", "-1", "1e999", "1e-999", "-0.0"])
def test_weights_are_positive_and_finite(weight: str) -> None:
    assert errors(f"{SCHEMA}workload {{ total weight {weight} }}") == [f"a weight must be finite and > 0, got {weight}"]


@pytest.mark.parametrize(
    ("written", "target"),
    [("5", Target(5)), ("2.50 %", Target(2.5, percent=True)), ("1e2 % max", Target(100, percent=True, largest=True))],
)
def test_targets(written: str, target: Target) -> None:
    (family,) = parse(f"{SCHEMA}workload {{ total weight 2 target {written} }}").families
    assert (family.target, family.weight, family.name) == (target, 2, "total")
    assert str(family.target).split() == [str(target).split()[0], *written.split()[1:]]


@pytest.mark.parametrize("target", ["0", "-1", "1e999", "1e-101", "-0.0"])
def test_targets_are_positive_and_finite(target: str) -> None:
    (message,) = errors(f"{SCHEMA}workload {{ total target {target} }}")
    assert message == f"a target is a standard error, 1e-100 to 1e100, got {target}"


def test_identical_families_have_one_target() -> None:
    text = f"{SCHEMA}workload {{ x : total; y : total target 2; z : total%s }}"
    for other in ("", " target 2"):
        (family,) = parse(text % other).families
        assert family.target == Target(2)
    assert errors(text % " target 3") == ["families 'y' and 'z' have the same queries and different targets"]


def test_sums_of_weights_stay_finite() -> None:
    assert parse(f"{SCHEMA}workload {{ total weight 1e300; total weight 1e300 }}").families[0].weight == 2e300
    assert (
        errors(f"{SCHEMA}workload {{ total weight 1e308; total weight 1e308 }}")
        == ["the weight 1e308 is too large"] * 2
    )


def test_weights_within_a_million() -> None:
    assert parse(f"{SCHEMA}workload {{ total weight 1e6; prefix(a) }}").queries == 6
    assert len(errors(f"{SCHEMA}workload {{ total weight 1000001; prefix(a); prefix(b) }}")) == 2


def test_a_broken_schema_line_is_reported_once() -> None:
    schema = "schema { a : integer 5..0; b : intger 0..9; c : integer 0..1 }\n"
    text = f"{schema}workload {{ prefix(a) * prefix(b); each 2 of all }}"
    assert errors(text) == ["the interval 5..0 is empty", "unknown kind of domain 'intger'"]


def test_large_schema() -> None:
    start = time.perf_counter()
    text = "schema {\n" + "\n".join(f"a{i} : integer 0..99" for i in range(100)) + "\n}\nworkload { each 2 of all }"
    workload = parse(text)
    assert workload.queries == 4950 * 100 * 100
    assert parse(format_text(text)) == workload
    assert time.perf_counter() - start < 5


# --- matrices ---


def matrix_error(folder: pathlib.Path, name: str) -> str:
    """The only error of a workload with one matrix file."""
    text = f'schema {{ a : integer 0..1; b : integer 0..2 }}\nworkload {{ matrix(a, b; "{name}") }}'
    with pytest.raises(WorkloadError) as caught:
        parse(text, base=folder)
    (diagnostic,) = caught.value.diagnostics
    return f"{diagnostic.message}; {diagnostic.hint}"


def test_matrix_files(tmp_path: pathlib.Path) -> None:
    good = np.arange(24.0).reshape(4, 6)
    np.save(tmp_path / "good.npy", good)
    text = 'schema { a : integer 0..1; b : integer 0..2 }\nworkload { matrix(b, a; "good.npy") }'
    ((factor,),) = [f.factors for f in parse(text, base=tmp_path).families]
    assert factor.names == ("b", "a")
    assert np.array_equal(factor.adjoint(np.eye(4)[:, :1]).ravel(), good[0])  # columns in C order of the list
    (tmp_path / "sub").mkdir()
    assert parse(text.replace("good.npy", "../good.npy"), base=tmp_path / "sub").queries == 4


def test_matrix_defects(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "wide.npy", np.ones((2, 7)))
    np.save(tmp_path / "flat.npy", np.ones(6))
    np.save(tmp_path / "none.npy", np.ones((0, 6)))
    np.save(tmp_path / "nan.npy", np.full((1, 6), np.nan))
    np.save(tmp_path / "text.npy", np.full((1, 6), "x"))
    np.save(tmp_path / "objects.npy", np.full((1, 6), None), allow_pickle=True)
    np.savez(tmp_path / "many.npz", a=np.ones((1, 6)))
    (tmp_path / "pickle.npy").write_bytes(pickle.dumps([1]))
    (tmp_path / "cut.npy").write_bytes((tmp_path / "wide.npy").read_bytes()[:140])
    (tmp_path / "empty.npy").write_bytes(b"")
    expected = {
        "missing.npy": "does not exist",
        ".": "is not a file",
        "wide.npy": "it needs one row per query and 2 x 3 = 6 columns",
        "flat.npy": "has shape (6,)",
        "none.npy": "has no rows",
        "nan.npy": "not finite",
        "text.npy": "not real numbers",
        "objects.npy": "pickled objects are not read",
        "many.npz": "archive of several arrays",
        "pickle.npy": "cannot be read",
        "cut.npy": "cannot be read",
        "empty.npy": "cannot be read",
        "\\u0000": "does not exist",
        "x" * 5000: "cannot be read",
    }
    for name, message in expected.items():
        assert message in matrix_error(tmp_path, name), name


# --- one query ---


@pytest.mark.parametrize("text", ["total", "count(a = 1 and c = 1)", "affine(a + g <= 3)", " \n total # all\n;"])
def test_one_query(text: str) -> None:
    schema = parse("schema { a : integer 0..9; g : integer 0..9; c : category {1, 2} }\nworkload { total }").schema
    assert parse_query(text, schema).count == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("prefix(a)", "more than one query"),
        ("each 1 of all", "many queries"),
        ("affine(a + g)", "more than one query"),
        ("count(z = 1)", "unknown attribute 'z'"),
        ("count(a = 1", "is never closed"),
        ("total total", "one query is asked"),
        ("total; total", "one query is asked"),
        ("", "empty"),
        ("# nothing", "the query is missing"),
        ("x : total", "unknown"),
        ("total weight 2", "one query is asked"),
    ],
)
def test_more_than_one_query_is_refused(text: str, message: str) -> None:
    schema = parse("schema { a : integer 0..9; g : integer 0..9 }\nworkload { total }").schema
    with pytest.raises(WorkloadError, match=message):
        parse_query(text, schema)


def test_size_one_attributes() -> None:
    schema = parse("schema { a : integer 4..4; g : integer 0..0; c : category {0} }\nworkload { total }").schema
    assert parse_query("affine(a + g) * marginal(c)", schema).count == 1


def test_forms_with_exchanged_coefficients_are_not_identical() -> None:
    schema = "schema { a : integer 0..3; b : integer 0..3 }\n"
    made = parse(f"{schema}workload {{ f : affine(2*a + b <= *); g : affine(a + 2*b <= *) }}")
    assert [f.name for f in made.families] == ["f", "g"]
    first, second = (f.factors[0].contract([None, None]) for f in made.families)
    assert not np.array_equal(first, second)


def test_many_identical_families_stay_quick() -> None:
    start = time.perf_counter()
    lines = "\n".join(f"f{i} : prefix(a)" for i in range(3000))
    workload, notes = check(f"{SCHEMA}workload {{\n{lines}\n}}")
    assert isinstance(workload, Workload)
    assert workload.families[0].weight == 3000
    assert len(workload.families[0].aliases) == 2999
    assert len(notes) <= 50
    assert time.perf_counter() - start < 10
