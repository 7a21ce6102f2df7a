"""No input yields anything but a workload or a WorkloadError, in bounded time."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.errors import QCompileError, WorkloadError
from qcompile.grammar import MAX_SIZE, check, format_text, load, parse, parse_query
from qcompile.grammar.reading.mistakes import KEYWORDS
from qcompile.queries.schema import Attribute, IntegerDomain, Schema

EXAMPLE = """\
language 1
schema {
  a : integer 0..9 clip; b : integer -3..3 other "none"
  `c d` : category {"x", 1, true} drop  # labels
  e : numeric [0, 0.5, 1e3) cyclic
}
workload {
  one : prefix(a) * marginal(b, `c d`) weight 2.5
  affine(2*(a - b) + 3 >= {1, 5..9 step 2})
  count((a in 1..3 or not b = 2) and `c d` in {"x", true} and e < 0.5)
  each 1..2 of (a: range, e)
  random(a; p = 0.5, count = 3, seed = 1)
  abs(a - b)
}
"""

PUNCTUATION = [*"{}()[],;:*+-/^=<>.\n#`\"'&|!?\\ \t", "..", "<=", ">=", "!=", "**", "\u2264", "\u00a0", "\x00"]
WORDS = [
    *sorted(KEYWORDS),
    "a",
    "b",
    "`c d`",
    "e",
    "p",
    "count",
    "seed",
    '"x"',
    '"\\q"',
    "0",
    "1",
    "-3",
    "0.5",
    "1e999",
]

tokens = st.sampled_from([*PUNCTUATION, *WORDS])
soup = st.lists(tokens, max_size=40).map(" ".join)


def survives(text: str) -> None:
    """Parse and format; every diagnostic must print and point into the text."""
    workload, diagnostics = check(text)
    assert workload is not None or any(d.severity == "error" for d in diagnostics)
    for d in diagnostics:
        assert str(d)
        assert 1 <= d.span.line <= text.count("\n") + text.count("\r") + 1
        assert d.as_dict()["column"] >= 1
    try:
        formatted = format_text(text)
    except WorkloadError:
        return
    assert format_text(formatted) == formatted


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    survives(text)


@given(soup)
def test_any_tokens(text: str) -> None:
    survives(text)
    survives(f"schema {{ a : integer 0..9\n {text} }}\nworkload {{ total }}")
    survives(f"schema {{ a : integer 0..9\n b : integer 0..1 }}\nworkload {{ total\n x : {text} }}")


@given(st.integers(min_value=0, max_value=2**32))
def test_mutations(seed: int) -> None:
    rng = random.Random(seed)
    text = EXAMPLE
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.choice([0, 1, 1, 3, 10]))
        text = text[:start] + rng.choice([*PUNCTUATION, *WORDS, ""]) + text[end:]
    survives(text)


@given(st.text(max_size=60) | soup)
def test_any_query(text: str) -> None:
    schema = Schema(tuple(Attribute(n, IntegerDomain(0, 3)) for n in ("a", "b", "e")))
    try:
        product = parse_query(text, schema)
    except WorkloadError:
        return
    assert product.count == 1


@pytest.mark.parametrize(
    "text",
    [
        "(" * 100_000,
        "workload { count(" + "(" * 100_000,
        "workload { count(" + "not " * 100_000 + "a = 1) }",
        "workload { affine(" + "(" * 50_000 + "a" + ")" * 50_000 + ") }",
        "}" * 100_000,
        "{" * 100_000,
        "`" * 99_999,
        '"' * 100_001,
        "schema { a : integer 0.." + "9" * 100_000 + " }",
        "workload { x : " * 5_000,
    ],
    ids=lambda t: t[:20],
)
def test_deep_or_long_input_is_refused_at_once(text: str) -> None:
    start = time.process_time()
    with pytest.raises(WorkloadError):
        parse(text)
    assert time.process_time() - start < 5


def test_ten_megabytes_are_refused_unread() -> None:
    start = time.process_time()
    with pytest.raises(WorkloadError, match="too long"):
        parse("a" * 10_000_000)
    assert time.process_time() - start < 2
    assert MAX_SIZE < 10_000_000


def test_two_hundred_levels_are_read() -> None:
    schema = "schema { a : integer 0..9; b : integer 0..9 }"
    nested = "a = 1"
    for _ in range(100):
        nested = f"(not ({nested}) or b = 2)"
    workload = parse(f"{schema} workload {{ count({nested}) }}")
    assert workload.queries == 1
    formatted = format_text(f"{schema} workload {{ count({nested}) }}")
    assert parse(formatted) == workload
    form = "a + b"
    for _ in range(200):
        form = f"({form} + 1)"
    (family,) = parse(f"{schema} workload {{ affine({form} <= 205) }}").families
    assert family.factors == parse(f"{schema} workload {{ affine(a + b <= 5) }}").families[0].factors


def test_long_sums_and_conditions_cost_no_stack() -> None:
    schema = "schema { a : integer 0..9; b : integer 0..9 }"
    text = (
        f"{schema} workload {{ affine({' + '.join(['a', 'b'] * 500)} <= 9); count({' or '.join(['a = 1'] * 1500)}) }}"
    )
    workload = parse(text)
    assert workload.families[0].factors[0].column == "500*a + 500*b"
    assert parse(format_text(text)) == workload


def test_files_that_cannot_be_read(tmp_path: object) -> None:
    import pathlib

    folder = pathlib.Path(str(tmp_path))
    defects = {"missing.q": None, "empty.q": b" \n", "utf16.q": "schema".encode("utf-16"), "latin.q": b"# caf\xe9"}
    messages = {"missing.q": "no file", "empty.q": "is empty", "utf16.q": "UTF-16", "latin.q": "not UTF-8"}
    for name, content in defects.items():
        if content is not None:
            (folder / name).write_bytes(content)
        with pytest.raises(QCompileError, match=messages[name]):
            load(folder / name)
    with pytest.raises(QCompileError, match="is a folder"):
        load(folder)
    (folder / "large.q").write_bytes(b"#" * (MAX_SIZE + 1))
    with pytest.raises(QCompileError, match="larger than"):
        load(folder / "large.q")
    with pytest.raises(QCompileError):
        load("null\x00byte.q")
    (folder / "bom.q").write_bytes(b"\xef\xbb\xbfschema { a : integer 0..1 }\r\nworkload { total }\r\n")
    assert load(folder / "bom.q").queries == 1
