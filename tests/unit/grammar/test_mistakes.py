"""The grammar is unambiguous, and every example of a mistake is explained by its own advice."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from qcompile.errors import WorkloadError
from qcompile.grammar import check, check_query, parse
from qcompile.grammar.reading.mistakes import EXAMPLES, KEYWORDS, QUERIES, Advice
from qcompile.grammar.reading.parser import build_parser

CHECKER = pathlib.Path(sys.prefix) / "ambiguity"
"""Where make test puts interegular, out of the way of everything else."""

STRICT = """
import sys
sys.path.append(sys.argv[1])  # before lark, which looks for it once
import interegular
from lark.exceptions import LexError
from qcompile.grammar.reading import parser
parser.build_parser(strict=True)
ambiguous = parser.read_grammar().replace('TOTAL: "total"', 'TOTAL: /[a-z]+/')
parser.read_grammar = lambda: ambiguous
try:
    parser.build_parser(strict=True)
except LexError:
    print("unambiguous, and the check would notice")
"""


def test_grammar_is_unambiguous() -> None:
    if not CHECKER.exists() and os.environ.get("CI") != "true":
        pytest.skip("interegular is not installed; make test does")
    done = subprocess.run([sys.executable, "-c", STRICT, str(CHECKER)], capture_output=True, text=True, check=False)
    assert done.stdout == "unambiguous, and the check would notice\n", done.stderr


def test_grammar_has_both_starts() -> None:
    rules = {rule.origin.name for rule in build_parser().rules}
    assert rules >= {"file", "query", "schema", "workload"}


def test_enough_advice() -> None:
    assert len(EXAMPLES) >= 60


@pytest.mark.parametrize("advice", EXAMPLES, ids=lambda a: a.message)
def test_each_example_gets_its_advice(advice: Advice) -> None:
    for example in EXAMPLES[advice]:
        workload, diagnostics = check(example)
        assert workload is None
        spoken = [(d.message, d.hint) for d in diagnostics]
        pattern = advice.message.replace("{found}", "")
        if "block" in pattern and "is outside" in pattern:
            assert any(pattern in message or "unknown block" in message for message, _ in spoken), example
        else:
            start, _, end = advice.hint.replace("{these}", "{words}").partition("{words}")
            hints = [hint for message, hint in spoken if message.endswith(pattern)]
            assert any(hint.startswith(start) and hint.endswith(end) for hint in hints), example


@pytest.mark.parametrize("advice", QUERIES, ids=lambda a: a.message)
def test_each_example_of_a_query_gets_its_advice(advice: Advice) -> None:
    schema = parse("schema { a : integer 0..9; b : integer 0..9 }\nworkload { total }").schema
    for example in QUERIES[advice]:
        product, (error, *others) = check_query(example, schema)
        assert product is None
        assert others == []
        assert error.message.endswith(advice.message.removeprefix("{found}")), example
        assert error.hint == advice.hint, example


def find(schema: str, workload: str = "total") -> list[tuple[str, str]]:
    """Messages and hints of a text."""
    return [(d.message, d.hint) for d in check(f"schema {{ {schema} }}\nworkload {{ {workload} }}")[1]]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("a, b : integer 0..9", "a"),
        ("a, b : integer 0..9", "b"),
        ("hours per week : integer 0..9", "hours per week"),
        ("a-b : integer 0..9", "a-b"),
        ("a.b : integer 0..9", "a.b"),
        ('"a b" : integer 0..9', "a b"),
        ("x : bool", "x"),
    ],
)
def test_a_name_that_could_not_be_read_is_not_called_unknown(line: str, name: str) -> None:
    assert len(find(line, f"prefix(`{name}`)")) == 1


LABELS = 'a : integer 0..9 other "missing"; b : integer 0..9; c : category {"Very happy", "sad"} other "n/a"'


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("a = missing", 'write "missing"'),
        ("a = Missing", 'write "missing"'),
        ("a = NA", 'nulls count as "missing"; write that'),
        ("null = c", 'nulls count as "n/a"; write that'),
        ("c = Sad", 'write "sad"'),
        ("c = glad", 'write "glad"'),
        ("c in {sad, very happy}", 'did you mean "sad"?'),
        ("c in {Very happy}", 'did you mean "Very happy"?'),
        ("c in {`sad`}", 'did you mean "sad"?'),
        ("c = Very happy", 'did you mean "Very happy"? Text goes in double quotes; conditions are joined with and'),
    ],
)
def test_labels_without_quotes(condition: str, hint: str) -> None:
    assert [h for _, h in find(LABELS, f"count({condition})")] == [hint]


def test_a_word_for_null_is_unknown_where_nulls_have_no_label() -> None:
    assert find(LABELS, "count(b = null)") == [("unknown attribute 'null'", "known: a, b, c")]


@pytest.mark.parametrize("condition", ["a = 1", "a in 1..3", "`a` != 2", "a<=b"])
def test_a_condition_goes_inside_count(condition: str) -> None:
    schema = parse(f"schema {{ {LABELS} }}\nworkload {{ total }}").schema
    product, (error,) = check_query(condition, schema)
    assert product is None
    assert (error.message, error.hint) == ("a condition is asked inside count(...)", f"write count({condition})")
    assert error.span.end - error.span.start == len(condition)
    assert find(LABELS, f"x : {condition}")[0][1].startswith(f"write count({condition}")


def test_advice_names_what_to_write() -> None:
    for advice in EXAMPLES:
        assert advice.hint
        assert advice.message[0] == advice.message[0].lower()


def test_all_errors_are_reported_together() -> None:
    text = """schema {
  a : integer 0..9
  b : integr 0..9
  c : category {yes, no}
  d : integer 9..0
}
workload {
  v : prefix(a
  w : prefix(aa)
  x : prefix(b) * prefix(c) * prefix(d)
  y : prefix(a) weight
  z : count(a == 1)
}
"""
    with pytest.raises(WorkloadError) as caught:
        parse(text, "file.q")
    found = [(d.span.line, d.span.column, d.message) for d in caught.value.diagnostics]
    assert found == [
        (3, 7, "unknown kind of domain 'integr'"),
        (4, 17, "a text label is written in double quotes"),
        (5, 7, "the interval 9..0 is empty"),
        (8, 13, "this '(' is never closed"),
        (9, 14, "unknown attribute 'aa'"),
        (11, 23, "'weight' takes a number"),
        (12, 16, "equality is written with one '='"),
    ]
    assert all(d.path == "file.q" for d in caught.value.diagnostics)


@pytest.mark.parametrize("word", sorted(KEYWORDS | {"p", "g", "s", "w", "by"}))
def test_keywords_are_names_elsewhere(word: str) -> None:
    text = f"""schema {{
  z : integer 0..3
  {word} : integer 0..3
}}
workload {{
  z : prefix(z)
  {word} : prefix({word}) * marginal(z)
  each 1..2 of (z, {word} : range)
  affine(z + {word} <= 3)
  random({word}; p = 0.5, count = 2, seed = 1)
  count(`{word}` = 1 or z = 1 and not `{word}` in {{1, 2}})
}}
"""
    workload, diagnostics = check(text)
    assert diagnostics == ()
    assert workload is not None
    assert workload.family(word).factors[0].names == (word,)


def test_words_are_not_split() -> None:
    workload, diagnostics = check("schema { a : integer 0..9 clipdrop }\nworkload { total }")
    assert workload is None
    assert diagnostics[0].message == "unknown modifier 'clipdrop'"


def test_import_is_cheap() -> None:
    code = "import sys, qcompile.grammar as g; print(sorted({'lark', 'numpy', 'sympy', 'scipy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_plain_sums_do_not_load_sympy() -> None:
    code = (
        "import sys, qcompile.grammar as g\n"
        "text = 'schema { a : integer 0..9; b : integer 0..9 } workload { affine(2*a - b + 1 <= 3) }'\n"
        "g.parse(text); print('sympy' in sys.modules)\n"
        "g.parse(text.replace('2*a - b', '2*(a - b)')); print('sympy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
