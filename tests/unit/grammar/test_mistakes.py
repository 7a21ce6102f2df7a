"""The grammar is unambiguous, and every example of a mistake is explained by its own advice."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from qcompile.errors import WorkloadError
from qcompile.grammar import check, parse
from qcompile.grammar.reading.mistakes import EXAMPLES, KEYWORDS, Advice
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
            start, _, end = advice.hint.partition("{words}")
            hints = [hint for message, hint in spoken if message.endswith(pattern)]
            assert any(hint.startswith(start) and hint.endswith(end) for hint in hints), example


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
