"""parse(format(t)) == parse(t) and formatting is idempotent, for random valid files with comments and odd spacing."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.grammar import format_text, parse
from qcompile.grammar.meaning.scope import visual_key
from qcompile.grammar.reading.mistakes import KEYWORDS
from qcompile.grammar.reading.words import name_text, read_name, read_string, string_text

FOLDER = pathlib.Path("matrices")
names = st.one_of(
    st.sampled_from(sorted(KEYWORDS)),
    st.sampled_from(
        ["p", "g", "s", "w", "by", "age", "hours-per-week", "caf\u00e9", "with `tick`", "x y", "\u5e74\u9f62", "1st"]
    ),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1, max_size=6),
)
labels = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(string_text),
    st.integers(-5, 5).map(str),
    st.sampled_from(["true", "false"]),
)


@dataclass(frozen=True)
class Column:
    """An attribute with what conditions may say about it."""

    name: str
    line: str
    conditions: tuple[str, ...]
    integer: bool


def column(draw: st.DrawFn, name: str) -> Column:
    """A random attribute called ``name``."""
    quoted = name_text(name) if draw(st.booleans()) else "`" + name.replace("`", "``") + "`"
    kind = draw(st.sampled_from(["integer", "integer", "numeric", "category"]))
    policy = draw(st.sampled_from(["", " drop", ' other "elsewhere"', " clip"]))
    cyclic = draw(st.booleans())
    tests: tuple[str, ...]
    if kind == "integer":
        low = draw(st.integers(-5, 5))
        high = low + draw(st.integers(0, 6))
        policy = " drop" if "other" in policy or cyclic else policy
        tests = (f"= {low}", f"<= {high}", f"> {low}", f"!= {high}", f"in {low}..{high + 1}", f"in {{{low}, {high}}}")
        text, flipped = f"integer {low}..{high}", (f"{low} <= {quoted}",)
        tests = (*(f"{quoted} {t}" for t in tests), *flipped)
    elif kind == "numeric":
        edges = sorted(
            draw(st.sets(st.sampled_from(["0", "0.1", "1e2", "2.50", "300", "-4", "1e16"]), min_size=2)), key=float
        )
        text = f"numeric [{', '.join(edges)}{draw(st.sampled_from('])'))}"
        tests = (f"{quoted} < {edges[0]}", f"{quoted} in {edges[0]}..{edges[-1]}")
    else:
        listed = draw(st.lists(labels, min_size=1, max_size=4, unique=True))
        text = f"category {{{', '.join(listed)}}}"
        tests = (f"{quoted} = {listed[0]}", f"{quoted} in {{{', '.join(listed)}}}", f"{quoted} != {listed[-1]}")
        policy = policy.replace(" clip", "")
    mark = " cyclic" if cyclic and "clip" not in policy else ""
    return Column(quoted, f"{quoted} : {text}{policy}{mark}", tests, kind == "integer")


def predicate(draw: st.DrawFn, columns: list[Column], depth: int) -> str:
    """A random condition over ``columns``."""
    shape = draw(st.sampled_from(["leaf", "and", "or", "not", "brackets"])) if depth else "leaf"
    if shape == "leaf":
        return draw(st.sampled_from([c for column in columns for c in column.conditions]))
    inner = predicate(draw, columns, depth - 1)
    if shape == "not":
        return f"not ({inner})"
    if shape == "brackets":
        return f"(({inner}))"
    return f"({inner}) {shape} {predicate(draw, columns, depth - 1)}"


def family(draw: st.DrawFn, columns: list[Column]) -> str:
    """A random expression."""
    integers = [c.name for c in columns if c.integer]
    kinds = ["total", "simple", "marginal", "each", "all", "random", "count"]
    kind = draw(st.sampled_from(kinds + (["affine", "abs", "brackets"] if len(integers) >= 2 else [])))
    first, rest = columns[0].name, columns[1:]
    others = "".join(f" * {draw(st.sampled_from(['prefix', 'range', 'circular', 'marginal']))}({c.name})" for c in rest)
    match kind:
        case "total":
            return "total" + draw(st.sampled_from(["", f" * prefix({first})"]))
        case "simple":
            return f"prefix({first})" + others
        case "marginal":
            return f"marginal({', '.join(c.name for c in columns)})"
        case "each":
            choices = [c.name + draw(st.sampled_from(["", ": range"])) for c in columns]
            return f"each 1..{len(columns)} of ({', '.join(choices)})"
        case "all":
            return f"each {len(columns)} of all"
        case "random":
            return f"random({first}; seed = 7, p = {draw(st.sampled_from(['0.5', '1', '1e-1']))}, count = 2)"
        case "count":
            return f"count({predicate(draw, columns, 3)})"
        case "brackets":
            return f"affine(2*({integers[0]} - {integers[1]}) + 6/2*{integers[0]} > {{4, -1..3 step 2}})"
        case _:
            bound = draw(st.sampled_from(["", " <= *", " >= {3, 1}", " < 2", " > 0..9 step 3", " <= 007"]))
            return f"{kind}(-{integers[0]} + 2*{integers[1]} - 1{bound})"


@st.composite
def files(draw: st.DrawFn) -> str:
    """A valid file with random comments, separators and blank lines."""
    chosen = draw(st.lists(names, min_size=1, max_size=4, unique_by=visual_key))
    columns = [column(draw, name) for name in chosen]
    end = st.sampled_from(["\n", ";", " ;\n", "\n\n\n", '  # comment; with { [ ( " marks\n', "\n # own line\n\t"])
    weights = st.sampled_from(["", " weight 1", " weight 2.50", " weight 1e-3"])
    # One for all families: identical ones with different targets are an error.
    target = draw(st.sampled_from(["", " target 5", " target 2.50%", " target 1e2 % max", " target 0.5max"]))
    body = "".join(c.line + draw(end) for c in columns)
    title = "".join
    count = draw(st.integers(1, 4))
    lines = []
    for i in range(count):
        label = draw(st.sampled_from([f"f{i} : ", f"`family {i}` :"]))
        lines.append(label + family(draw, columns) + draw(weights) + target + draw(end))
    head = draw(st.sampled_from(["", "language 1\n", "# first\nlanguage 1 ;\n\n# second\n"]))
    mark = draw(st.sampled_from(["", " read_from_data", "\t\n read_from_data # seen\n"]))
    blocks = [f"schema{mark} {{ {body} }}", f"workload # why\n{{\n{title(lines)}}} # done"]
    if draw(st.booleans()):
        blocks.reverse()
    return head + "\n".join(blocks) + draw(st.sampled_from(["", "\n", "\n# last"]))


@given(files())
def test_formatting_keeps_the_meaning(text: str) -> None:
    workload = parse(text)
    formatted = format_text(text)
    assert parse(formatted) == workload
    assert parse(formatted).schema.read_from_data == workload.schema.read_from_data
    assert format_text(formatted) == formatted
    assert formatted.count("#") == text.count("#")


@given(names)
def test_names_survive(name: str) -> None:
    assert read_name(name_text(name)) == name


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_texts_survive(value: str) -> None:
    written = string_text(value)
    assert read_string(written) == value
    assert "\n" not in written


def test_comments_stay_where_they_belong() -> None:
    text = """# head

language 1   # version
schema {  # public
 # about a
 a : integer 0..9;b : integer 0..9 # both


 c : category { "x", # inside
   "y" } # c
 # tail
} # end
workload { a : prefix(a) # p
}
# foot"""
    assert (
        format_text(text)
        == """# head

language 1  # version

schema {  # public
  # about a
  a : integer 0..9
  b : integer 0..9  # both

  # inside
  c : category {"x", "y"}  # c
  # tail
}  # end

workload {
  a : prefix(a)  # p
}

# foot
"""
    )


def test_formatting_needs_no_matrix_file(tmp_path: pathlib.Path) -> None:
    text = 'schema { a : integer 0..1 }\nworkload { m : matrix( a ;"w.npy" ) }'
    assert '  m : matrix(a; "w.npy")\n' in format_text(text)
    np.save(tmp_path / "w.npy", np.eye(2))
    assert parse(format_text(text), base=tmp_path) == parse(text, base=tmp_path)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("affine(a + b < 5)", "affine(a + b <= 4)"),
        ("affine(a+b > {1, 3})", "affine(a + b >= {2, 4})"),
        ("affine(a + b > *)", "affine(a + b >= *)"),
        ("abs(a - b)", "abs(a - b <= *)"),
        ("affine(a + b <= {0..10 step 1})", "affine(a + b <= 0..10)"),
        ("affine((a + b) - (a - 2 * b) <= 1)", None),
        ("affine(a - (b - 2*(a + b)) <= 1)", "affine(a - (b - 2*(a + b)) <= 1)"),
        ("count(5 >= a)", "count(a <= 5)"),
        ("count((a = 1 and (b = 2)) and not (a = 1 or b = 1))", "count(a = 1 and b = 2 and not (a = 1 or b = 1))"),
        ("count(((a = 1 or b = 2)))", "count(a = 1 or b = 2)"),
        ("total * prefix(a)", "prefix(a)"),
        ("each 2..2 of (a, b: range)", "each 2 of (a, b: range)"),
        ("random(a; seed = 7, count = 2, p = 0.50)", "random(a; p = 0.5, count = 2, seed = 7)"),
    ],
)
def test_canonical_expressions(written: str, canonical: str | None) -> None:
    schema = "schema { a : integer 0..9; b : integer 0..9 }\n"
    if canonical is None:  # `a` cancels: a format, but no workload
        assert "affine(a + b - (a - 2*b) <= 1)" in format_text(f"{schema}workload {{ {written} }}")
        return
    (family,) = parse(f"{schema}workload {{ {written} }}").families
    assert family.text == family.name == canonical
