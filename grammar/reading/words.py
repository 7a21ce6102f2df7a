"""Spelling of names, texts and numbers in the language."""

from __future__ import annotations

import re

from qcompile.queries.schema import number_text

LANGUAGE_VERSION = 1
"""The version of the language that is read and written."""

RESERVED = frozenset({"and", "or", "not", "in", "true", "false"})
"""Words of predicates; a name that is one of them is written in backquotes."""

MAX_DIGITS = 100
"""Longest number that is read."""

_PLAIN = re.compile(r"[^\W\d]\w*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SIMPLE_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}
_WRITTEN = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"}

_STEERING = "\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\ufeff"
"""Ends of lines and marks of direction, which are not seen themselves but change the order of what is."""


def name_text(name: str) -> str:
    """Quote a name where needed: plain, or in backquotes."""
    if _PLAIN.fullmatch(name) and name not in RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def read_name(word: str) -> str:
    """Return the name of a plain or backquoted word."""
    return word[1:-1].replace("``", "`") if word.startswith("`") else str(word)


def string_text(value: str) -> str:
    """Quote a text in double quotes, with escapes."""
    return '"' + "".join(map(_escape, value)) + '"'


def _escape(character: str) -> str:
    if character in _WRITTEN:
        return _WRITTEN[character]
    return f"\\u{ord(character):04x}" if is_hidden(character) else character


def is_hidden(character: str) -> bool:
    """True for characters that steer a terminal or the direction of writing, except tab and line feed."""
    code = ord(character)
    return (code < 32 and character not in "\t\n") or 0x7F <= code < 0xA0 or character in _STEERING


def read_string(word: str) -> str:
    r"""Return the value of a double-quoted word.

    Raises:
      ValueError: an escape other than ``\"``, ``\\``, ``\n``, ``\t`` and ``\uXXXX``; names it.
    """
    return _ESCAPE.sub(_unescape, word[1:-1])


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if code in _SIMPLE_ESCAPES:
        return _SIMPLE_ESCAPES[code]
    if len(code) != 5:
        raise ValueError(f"unknown escape {match[0]} in a text")
    if 0xD800 <= int(code[1:], 16) <= 0xDFFF:
        raise ValueError(f"the escape {match[0]} is half of a character")
    return chr(int(code[1:], 16))


def is_whole(spelling: str) -> bool:
    """True if a number is spelled as an integer."""
    return spelling.lstrip("-").isdigit()


def canonical_number(spelling: str) -> str:
    """Return the canonical spelling of a number: no leading zeros, decimals as their shortest text."""
    if is_whole(spelling):
        return str(int(spelling))
    value = float(spelling)
    # Infinite ones are refused later, with the spelling the user knows.
    return spelling if value in (float("inf"), float("-inf")) else number_text(value + 0.0)
