"""A first ``.q`` text for a table, to be edited by hand: CONFIDENTIAL, as its domains are read from the data.

The text says so, in comments and by the word ``read_from_data``, which stays with every plan and release made from it
until the domains are replaced by public knowledge and the word is deleted.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from qcompile.data.curator.label_order import is_missing, sort_labels
from qcompile.data.curator.round_bins import round_edges
from qcompile.data.curator.survey import MOST_LABELS, MOST_WORDS, Column, survey
from qcompile.data.recognition import recognise
from qcompile.errors import DataError, WorkloadError
from qcompile.grammar import format_text, parse
from qcompile.grammar.meaning.scope import visual_key
from qcompile.grammar.reading.words import is_hidden, name_text, string_text
from qcompile.queries.schema import number_text

MOST_INTEGERS = 256
"""Whole numbers up to which each is a cell of its own; wider ranges are cut into bins."""

MOST_QUERIES = 5_000_000
"""Queries up to which the drafted workload takes all pairs of attributes."""

LONGEST_LABEL = 100
"""Characters of a text up to which it can be a category."""

FEW = 20
"""Different values up to which a column of numbers with something else in between is taken for a list of labels."""

HEAD = """\
# Drafted from {name}, READ FROM THE DATA: as confidential as the data itself.
# A run with this schema carries no guarantee for its domains, which reveal values of the data.
# To do: replace each domain by public knowledge, from a code book or a questionnaire
# and without a look at the data; then delete the word read_from_data.
"""


def draft(data: object) -> str:
    """CONFIDENTIAL: the text of a workload file whose schema is read from the data.

    One attribute for each column that can be one, a comment with the reason for each other; and a small workload,
    the total and the tables of one and (where they are not too many) of two attributes.

    Args:
      data: a path to a .csv or .parquet file, or a table as for `qcompile.data.read`.

    Raises:
      DataError: the data cannot be read, has no column that can be used, or too many of them.
    """
    dataset = recognise(data)
    names = dataset.columns()
    refused = {i: reason for i, reason in enumerate(_name_problems(names)) if reason}
    usable = [str(name) for i, name in enumerate(names) if i not in refused]
    columns = iter(list(survey(dataset, usable)))
    lines, sizes = [], []
    for i, name in enumerate(names):
        line, size = _comment(str(name), refused[i]) if i in refused else _line(next(columns))
        lines.append(line)
        sizes += [size] if size else []
    if not sizes:
        raise DataError("no column of the data can be an attribute; an attribute is numbers, a few texts or true/false")
    head = HEAD.format(name=_one_line(Path(data).name) if isinstance(data, str | Path) else "a table")
    return _checked(f"{head}\nschema read_from_data {{\n{chr(10).join(lines)}\n}}\n\n{_workload(sizes)}")


def _checked(text: str) -> str:
    """Return the canonical form of a text that can be compiled as it is."""
    try:
        formatted = format_text(text)
        parse(formatted)
    except WorkloadError as e:
        problem = e.diagnostics[0].message
    else:
        return formatted
    raise DataError(f"the data has too many or too odd columns for a draft ({problem}); keep the columns that you need")


def _workload(sizes: Sequence[int]) -> str:
    # The pairs of n numbers, from their sum and the sum of their squares.
    pairs = (sum(sizes) ** 2 - sum(n * n for n in sizes)) // 2
    ways = "1..2" if len(sizes) > 1 and sum(sizes) + pairs <= MOST_QUERIES else "1"
    # The default factor of numbers leaves the cell of `other` out: its count is the total without the last prefix.
    return f"workload {{\n  tables : each {ways} of all\n  rows : total\n}}\n"


def _name_problems(names: Sequence[object]) -> list[str | None]:
    """Return for each column the reason why its name cannot be an attribute's; None where it can."""
    number = Counter(names)
    seen: set[str] = set()
    reasons: list[str | None] = []
    for name in names:
        reasons.append(_bad_name(name, number[name], seen))
        seen.add(visual_key(str(name)))
    return reasons


def _bad_name(name: object, number: int, seen: set[str]) -> str | None:
    if not isinstance(name, str):
        return "the name is no text"
    if not name:
        return "the column has no name"
    if "\r" in name:
        return "the name holds a carriage return"
    if any(is_hidden(character) for character in name):
        return "the name holds characters that are not shown, or turn the direction of writing; rename the column"
    if number > 1:
        return f"{number} columns have this name"
    return "another name differs by case or Unicode form only" if visual_key(name) in seen else None


def _comment(name: str, reason: str) -> tuple[str, int]:
    return f"# {_one_line(name)}: {reason}", 0


def _one_line(name: str) -> str:
    """Quote a name so that it stays inside its comment."""
    shown = string_text(name)[1:-1]
    return shown if len(shown) <= 60 else f"{shown[:60]}..."


def _line(column: Column) -> tuple[str, int]:
    """Return the line of an attribute and its number of cells; or a comment, and 0."""
    reason = _unusable(column)
    if reason:
        return _comment(column.name, reason)
    if _is_number(column):
        return _number_line(column)
    return _category_line(column)


def _unusable(column: Column) -> str | None:
    if not column.rows:
        return "there are no rows to draft from"
    if column.kind == "null" or not column.values:
        return "all values are null"
    if column.kind == "other":
        return "dates and the like cannot be attributes; convert them, for instance to the year"
    if column.dates == column.values:
        return "dates cannot be attributes; convert them, for instance to the year"
    if not _is_number(column) and column.distinct > MOST_LABELS:
        return f"more than {MOST_LABELS} different texts, such as names, identifiers or free text"
    if not _is_number(column) and column.longest > LONGEST_LABEL:
        return f"texts of more than {LONGEST_LABEL} characters"
    return None


def _is_number(column: Column) -> bool:
    """True if all values are numbers or mean a missing value, or nearly all of many different ones are numbers."""
    return column.numbers > 0 and (
        column.numbers == column.values
        or column.kind == "number"
        or _only_missing(column)
        or (column.distinct > FEW and column.numbers > 0.9 * column.values)
    )


def _only_missing(column: Column) -> bool:
    """True if all texts beside the numbers mean a missing value."""
    return 0 < len(column.words) <= MOST_WORDS and all(map(is_missing, column.words))


def _number_line(column: Column) -> tuple[str, int]:
    low, high = column.low or 0.0, column.high or 0.0
    span = high - low + 1
    # What is no number cannot be clipped.
    odd = column.rows - column.numbers
    policy = 'other "missing"' if odd else "clip"
    start, end = f"{name_text(column.name)} :", _missing_comment(column)
    if column.whole == column.numbers and span <= MOST_INTEGERS and max(-low, high) < 2**53:
        return f"{start} integer {number_text(low)}..{number_text(high)} {policy}{end}", int(span) + bool(odd)
    edges = round_edges(low, high)
    if edges is None:
        return _comment(column.name, "the numbers are too large, or too close together, for bins")
    line = f"{start} numeric [{', '.join(map(number_text, edges))}] {policy}"
    if column.whole == column.numbers == column.distinct == column.rows > MOST_LABELS:
        reason = "every row has a number of its own, like an identifier; if it is a quantity, write"
        return _comment(column.name, f"{reason} {line}")
    return line + end, len(edges) - 1 + bool(odd)


def _missing_comment(column: Column) -> str:
    """A comment with the texts that were taken for a missing value; empty where there are none."""
    return f"  # taken as missing: {', '.join(map(string_text, column.words))}" if _only_missing(column) else ""


def _category_line(column: Column) -> tuple[str, int]:
    labels: Sequence[str] = sort_labels(column.labels)
    if column.flags == column.values:
        listed, labels = "false, true", ("false", "true")
    else:
        listed = ", ".join(map(string_text, labels))
    taken = {label.casefold() for label in labels}
    other = next(label for label in _other_labels() if label not in taken)
    return f"{name_text(column.name)} : category {{{listed}}} other {string_text(other)}", len(labels) + 1


def _other_labels() -> Iterator[str]:
    yield "other"
    yield "any other"
    yield from (f"any other {n}" for n in itertools.count(2))
