"""Messages about a token that does not fit: characters, unclosed brackets, misspelt words, errors by example.

An error by example (an idea of Lark's): a piece of wrong text represents all texts that fail in the same state of
the parser at the same kind of token.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from qcompile.grammar.reading.mistake_examples import EXAMPLES as EXAMPLES
from qcompile.grammar.reading.mistake_examples import QUERIES as QUERIES
from qcompile.grammar.reading.mistake_examples import Advice as Advice
from qcompile.grammar.reading.recovery import begins_statement
from qcompile.grammar.reading.source import At, SourceText
from qcompile.grammar.reading.words import RESERVED

Place: TypeAlias = tuple[int, int]
"""The parser's place in the grammar."""

Key: TypeAlias = tuple[Place, str]
"""A place, and a terminal or keyword that does not fit there."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A token that the parser could not use.

    Attributes:
      kind: the terminal; "" for a character no terminal begins with, "WORD" for a malformed word, "$END".
      text: the token, or for a malformed word the message.
      at: its region.
      hint: of a malformed word.
      place: the parser's state and the one below it on the stack.
      expected: the terminals that fit there.
      previous: terminal and text of the token before it in the statement.
      previous_at: the region of that token.
      statement: where the statement starts; None when it would start here.
      opener: the innermost open bracket of the statement, with its region.
      block: "schema" or "workload" with its region, inside one.
    """

    kind: str
    text: str
    at: At
    hint: str
    place: Place
    expected: frozenset[str] = frozenset()
    previous: tuple[str, str] | None
    previous_at: At
    statement: int | None
    opener: tuple[str, At] | None
    block: tuple[str, At] | None

    @property
    def keys(self) -> tuple[Key, ...]:
        """Keys under which advice for it is looked up, the best match first."""
        general = (self.place, self.kind)
        return ((self.place, self.text), general) if self.text in KEYWORDS else (general,)

    @property
    def unclosed_block(self) -> bool:
        """True if another block begins inside this one: its closing brace is missing."""
        inside = self.block is not None and self.opener is None and self.kind == "LBRACE"
        return inside and self.previous is not None and self.previous[1] in ("schema", "workload")


FACTORS = ("total", "marginal", "prefix", "range", "circular", "affine", "abs", "random", "matrix", "count", "each")
DOMAINS = ("integer", "numeric", "category")
MODIFIERS = ("clip", "drop", "other", "cyclic")
KEYWORDS = frozenset(
    {*FACTORS, *DOMAINS, *MODIFIERS, "and", "or", "not", "in", "of", "all", "weight", "step", "true", "false"}
    | {"schema", "workload", "language", "read_from_data", "target", "max"}
)
CHARACTERS: dict[str, tuple[str, str]] = {
    "&": ("'&' is not an operator", "write 'and'"),
    "|": ("'|' is not an operator", "write 'or'"),
    "!": ("'!' is not an operator", "write 'not' before a comparison, or '!=' inside it"),
    "'": ("text is written in double quotes", 'write "text"'),
    "\N{LESS-THAN OR EQUAL TO}": ("this character is not an operator", "write '<='"),
    "\N{GREATER-THAN OR EQUAL TO}": ("this character is not an operator", "write '>='"),
    "\N{NOT EQUAL TO}": ("this character is not an operator", "write '!='"),
    "\N{MULTIPLICATION SIGN}": ("this character is not an operator", "write '*'"),
    "\N{MINUS SIGN}": ("this character is not an operator", "write '-'"),
    "\N{EN DASH}": ("this character is not an operator", "write '..' between the ends of an interval, '-' for minus"),
    "\N{EM DASH}": ("this character is not an operator", "write '..' between the ends of an interval, '-' for minus"),
    "\N{HORIZONTAL ELLIPSIS}": ("this character is not an operator", "write '..' (two dots)"),
    "\N{NO-BREAK SPACE}": ("a no-break space is not a blank here", "replace it by an ordinary space"),
    ".": (
        "a single '.' does not fit here",
        "an interval is written 0..9, a number 0.5, a name with a dot in backquotes",
    ),
    "%": ("'%' does not fit here", "comments begin with '#'"),
    "/": ("'/' does not fit here", "comments begin with '#'"),
    '"': ("this text is not closed on its line", 'a closing " is expected'),
    "`": ("this backquoted name is not closed", "a closing ` is expected"),
    "~": ("'~' is not an operator", "write 'not'"),
    "\\": ("a statement is not continued with '\\'", "break lines inside brackets"),
}
for _quote in "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}":
    CHARACTERS[_quote] = ("text is written in straight double quotes", 'write "text"')
for _quote in "\N{LEFT SINGLE QUOTATION MARK}\N{RIGHT SINGLE QUOTATION MARK}":
    CHARACTERS[_quote] = ("text is written in double quotes", 'write "text"')

REMEDIES = {
    "bool": "write category {false, true}",
    "boolean": "write category {false, true}",
    "date": "write integer for a year, or category for listed dates",
    "mean": "means come from marginal(x): the counts of each value",
    "average": "means come from marginal(x): the counts of each value",
    "avg": "means come from marginal(x): the counts of each value",
    "sum": "sums and means come from marginal(x); affine(a + b <= c) counts rows by a sum of attributes",
    "median": "quantiles come from prefix(x): the counts up to each value",
    "quantile": "quantiles come from prefix(x): the counts up to each value",
    "percentile": "quantiles come from prefix(x): the counts up to each value",
    "min": "extremes come from prefix(x): the counts up to each value",
    "max": "extremes come from prefix(x): the counts up to each value",
}
"""Hints for words of other languages that have no single counterpart here."""

SYNONYMS = {
    "int": "integer",
    "integers": "integer",
    "long": "integer",
    "float": "numeric",
    "real": "numeric",
    "double": "numeric",
    "number": "numeric",
    "bins": "numeric",
    "categorical": "category",
    "string": "category",
    "str": "category",
    "text": "category",
    "enum": "category",
    "histogram": "marginal",
    "cdf": "prefix",
    "where": "count",
    "distance": "abs",
}

_CLOSE = 0.77
"""Similarity from which a word counts as misspelt; "age" and "range" are less similar."""

_WORDS = re.compile(r"[^\W\d]\w*(?:[ \t]+(?!(?:and|or|not|in)\b)[^\W\d]\w*)*")

_CONDITION = re.compile(r"(?:[^\W\d]\w{0,60}|`[^`\n]{1,60}`)[ \t]*(?:[=<>]|!=|in\b)[^;#\n]{0,60}")

_TERMINALS = {
    "NAME": "a name",
    "QUOTED": "",
    "STRING": "a text in double quotes",
    "INT": "a number",
    "DECIMAL": "",
    "MINUS": "",
    "_NL": "a new line",
    "SEMICOLON": "",
    "COMMENT": "",
    "$END": "",
    "DOTDOT": "'..'",
    "__ANON_0": "'..'",
    "LPAR": "'('",
    "LSQB": "'['",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "OPEN": "')'",
    "CLOSED": "']'",
    "COLON": "':'",
    "COMMA": "','",
    "EQ": "'='",
    "NE": "'!='",
    "LE": "'<='",
    "LT": "'<'",
    "GE": "'>='",
    "GT": "'>'",
    "PLUS": "'+'",
    "STAR": "'*'",
    "STARSTAR": "",
    "SLASH": "'/'",
    "CARET": "'^'",
}


def explain_failure(failure: Failure, source: SourceText, known: Mapping[Key, Advice]) -> tuple[str, At, str]:
    """Return message, region and hint for a failure.

    Args:
      failure: what happened.
      source: the text it happened in.
      known: advice by parser state and kind of token.
    """
    if failure.kind == "WORD":
        return failure.text, failure.at, failure.hint
    return (
        _unclosed_bracket(failure, source)
        or _wrong_character(failure)
        or _bare_condition(failure, source)
        or _misspelt_word(failure)
        or _by_example(failure, source, known)
        or (f"unexpected {token_text(failure)}", _region(failure), expected_words(failure.expected))
    )


def token_text(failure: Failure) -> str:
    """Name the unexpected token."""
    if failure.kind == "$END":
        return "end of the text"
    if failure.kind == "_NL":
        return "end of the line"
    return f"{failure.text[:60]!r}"


def expected_words(expected: frozenset[str]) -> str:
    """List the expected terminals."""
    words = [_TERMINALS.get(kind, f"'{kind.lower()}'") for kind in sorted(expected)]
    words = [w for w in dict.fromkeys(words) if w]
    if not words:
        return ""
    return "expected " + (words[0] if len(words) == 1 else ", ".join(words[:-1]) + " or " + words[-1])


def _region(failure: Failure) -> At:
    """Return the region of the token, or the place behind the last one when the line or text ends."""
    if failure.kind in ("_NL", "$END") and failure.previous is not None:
        return failure.previous_at[1], failure.previous_at[1] + 1
    return failure.at


def _unclosed_bracket(failure: Failure, source: SourceText) -> tuple[str, At, str] | None:
    """A bracket or block that is still open where the text goes on with something else."""
    if failure.opener is not None and _continues_elsewhere(failure, source, failure.opener):
        mark, at = failure.opener
        closer = {"(": ")", "[": "]", "{": "}"}[mark]
        return f"this '{mark}' is never closed", at, f"'{closer}' is missing"
    if failure.block is not None and (failure.unclosed_block or failure.kind == "$END"):
        opening, at = failure.block
        word = opening.split()[0]
        return f"the braces of this {word} are never closed", at, "'}' is missing after its last statement"
    return None


def _continues_elsewhere(failure: Failure, source: SourceText, opener: tuple[str, At]) -> bool:
    if failure.kind == "$END":
        return True
    mark, at = opener
    if failure.kind == "RBRACE":
        return mark != "{"
    line_start = failure.at[0] - source.column(failure.at[0]) + 1
    later = source.line(failure.at[0]) > source.line(at[0])
    return later and failure.statement is not None and begins_statement(source.text, line_start, failure.statement)


def _wrong_character(failure: Failure) -> tuple[str, At, str] | None:
    if failure.kind:
        return None
    if failure.text in CHARACTERS:
        message, hint = CHARACTERS[failure.text]
        return message, failure.at, hint
    name = unicodedata.name(failure.text, "").lower()
    shown = failure.text if failure.text.isprintable() else f"U+{ord(failure.text):04X}"
    described = f"'{shown}'" + (f" ({name})" if name and not failure.text.isascii() else "")
    return f"unexpected character {described}", failure.at, expected_words(failure.expected)


def _bare_condition(failure: Failure, source: SourceText) -> tuple[str, At, str] | None:
    """A condition where a factor belongs, as in ``age = 40``."""
    if failure.kind not in ("NAME", "QUOTED") or "MARGINAL" not in failure.expected:
        return None
    match = _CONDITION.match(source.text, failure.at[0])
    if match is None:
        return None
    return "a condition is asked inside count(...)", (failure.at[0], match.end()), f"write count({match[0].rstrip()})"


def _misspelt_word(failure: Failure) -> tuple[str, At, str] | None:
    """A word where one of a few keywords belongs."""
    joined = _joined_word(failure)
    if joined is not None:
        return joined
    if failure.kind == "LPAR" and failure.previous is not None and failure.previous[0] == "NAME":
        first = failure.previous_at[0] == failure.statement
        if first and failure.block is not None and failure.block[0] == "workload":
            return _unknown_word("factor", failure.previous[1], failure.previous_at, FACTORS)
        return None
    if failure.kind not in ("NAME", "QUOTED") or "NAME" in failure.expected:
        return None
    for what, words, sign in (
        ("factor", FACTORS, "MARGINAL"),
        ("kind of domain", DOMAINS, "INTEGER"),
        ("modifier", MODIFIERS, "CLIP"),
        ("block", ("schema", "workload"), "SCHEMA"),
    ):
        if sign in failure.expected and failure.text not in words:
            return _unknown_word(what, failure.text, failure.at, words)
    fitting = [kind.lower() for kind in failure.expected if kind.lower() in KEYWORDS]
    close = difflib.get_close_matches(failure.text, fitting, n=1, cutoff=_CLOSE)
    if failure.text not in KEYWORDS and close:
        return f"unexpected {failure.text!r}", failure.at, f"did you mean '{close[0]}'?"
    return None


def _joined_word(failure: Failure) -> tuple[str, At, str] | None:
    """A word that begins right where a number ends, as in 1_000 or 10k."""
    previous = failure.previous
    if failure.kind != "NAME" or previous is None or failure.previous_at[1] != failure.at[0]:
        return None
    if previous[0] == "STRING":
        at = (failure.previous_at[1] - 1, failure.at[1])
        return "this text ends where a word follows", at, "a double quote is missing before, or one too many here"
    if previous[0] not in ("INT", "DECIMAL"):
        return None
    at = (failure.previous_at[0], failure.at[1])
    if re.fullmatch(r"_[0-9_]+", failure.text):
        return "a number is written without underscores", at, f"write {previous[1]}{failure.text.replace('_', '')}"
    if "STAR" in failure.expected:
        return "the '*' of a multiplication is missing", at, f"write {previous[1]}*{failure.text}"
    return (
        f"{previous[1]}{failure.text} is neither a number nor a name",
        at,
        "a name that begins with a digit goes in backquotes",
    )


def _unknown_word(what: str, word: str, at: At, words: tuple[str, ...]) -> tuple[str, At, str]:
    return f"unknown {what} {word!r}", at, _remedy(word, words)


def _remedy(word: str, words: tuple[str, ...]) -> str:
    """The hint for an unknown word: its other spelling, a close keyword, or all of them."""
    folded = word.casefold()
    if folded in words:
        return f"keywords are lower case; write '{folded}'"
    if folded in REMEDIES:
        return REMEDIES[folded]
    synonym = SYNONYMS.get(folded)
    close = [synonym] if synonym in words else difflib.get_close_matches(word, words, n=1, cutoff=_CLOSE)
    return f"did you mean '{close[0]}'?" if close else f"expected {', '.join(words[:-1])} or {words[-1]}"


def _by_example(failure: Failure, source: SourceText, known: Mapping[Key, Advice]) -> tuple[str, At, str] | None:
    advice = next((known[key] for key in failure.keys if key in known), None)
    if advice is None:
        return None
    if "{words}" in advice.hint and failure.previous is not None and failure.previous[1] in RESERVED:
        # A name was expected where the text has a word such as "and".
        return "one side of the comparison is missing", failure.previous_at, "write a = 1"
    hint = advice.hint.replace("{words}", _words(failure, source, failure.previous_at[0]))
    hint = hint.replace("{these}", _words(failure, source, failure.at[0]))
    return advice.message.replace("{found}", token_text(failure)), _region(failure), hint


def _words(failure: Failure, source: SourceText, start: int) -> str:
    """The words of the line from an offset on, up to a keyword or a mark."""
    match = _WORDS.match(source.text, start)
    return match[0][:60] if match else failure.text[:60].strip("`")
