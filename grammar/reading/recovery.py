"""The end of a statement that cannot be parsed. Used after an error only; valid text never depends on it."""

from __future__ import annotations

import re

from qcompile.grammar.reading.words import read_name

_PIECE = re.compile(r'"(?:[^"\\\n]|\\[^\n])*"|`(?:[^`\n]|``)+`|#[^\n]*|[(\[{]|[)\]}]|\n|;')
_WORD = re.compile(r"[^\W\d]\w*|`(?:[^`\n]|``)+`")
_COLON = re.compile(r"[ \t]*:")
_BLANKS = re.compile(r"[ \t]*")
_BEGINNING = re.compile(
    r"(?P<indent>[ \t]*)(?:(?P<word>[^\W\d]\w*|`(?:[^`\n]|``)+`)[ \t]*:"
    r"|(?:total|marginal|prefix|range|circular|affine|abs|random|matrix|count|each)\b"
    r"|(?:schema(?:[ \t]+read_from_data)?|workload)[ \t]*\{)"
)


LONGEST_STATEMENT = 2000
"""Characters of a statement in which declared names are looked for."""


def declared_names(text: str, start: int, end: int) -> set[str]:
    """Return the names that a statement which cannot be read may declare.

    These are its first word, the words before a colon, and all that comes before the first colon: a name without its
    backquotes, as in ``hours per week : integer 0..99``.
    """
    end = min(end, start + LONGEST_STATEMENT)
    # Words first, then the colon: one pattern for both would take quadratic time on a long word.
    words = [match for match in _WORD.finditer(text, start, end) if _COLON.match(text, match.end(), end)]
    first = _WORD.match(text, start, end)
    colon = text.find(":", start, end)
    whole = {text[start:colon].strip().strip('"')} if colon >= 0 else set()
    return {read_name(match[0]) for match in (first, *words) if match} | whole


def begins_statement(text: str, line_start: int, statement: int) -> bool:
    """True if the line at ``line_start`` looks like a new statement, not a part of the one at ``statement``."""
    match = _BEGINNING.match(text, line_start)
    return match is not None and len(match["indent"]) <= indent(text, statement)


def indent(text: str, offset: int) -> int:
    """Count the blanks at the start of the line with ``offset``."""
    blanks = _BLANKS.match(text, text.rfind("\n", 0, offset) + 1)
    return len(blanks[0]) if blanks else 0


def statement_end(text: str, start: int, in_block: bool) -> int:
    """Return the offset of the separator or closing brace that ends the statement at ``start``.

    Args:
      text: the whole text.
      start: offset of the statement.
      in_block: whether it is inside ``schema { }`` or ``workload { }``.
    """
    depth = 0
    for piece in _PIECE.finditer(text, start):
        mark = piece[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            if depth == 0 and mark == "}" and in_block:
                return piece.start()
            depth = max(0, depth - 1)
            if depth == 0 and not in_block:
                return piece.end()
        elif mark in ";\n" and (depth == 0 or (mark == "\n" and begins_statement(text, piece.end(), start))):
            return piece.start()
    return len(text)
