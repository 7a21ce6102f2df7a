"""The order of categories for a draft: by the numbers in them, where they have some."""

from __future__ import annotations

import re
from collections.abc import Iterable

MISSING = frozenset({"", "na", "n/a", "#n/a", "nan", "null", "none", ".", "..", "?", "-", "--", "missing"})
"""Texts, without spaces around them and in lower case, that mean a missing value among numbers."""

LESS = r"<=|<|≤|lt|less than|under|below|up to"
MORE = r">=|>|≥|gt|more than|over|above"

AMOUNT = re.compile(
    rf"\s*((?P<less>{LESS})\s*|(?P<more>{MORE})\s*)?[$€£]?\s*(?P<number>-?\d[\d,]*(\.\d+)?)(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
"""A label that begins with a number, perhaps behind a sign or words of comparison: $1000 to 2999, lt $1000."""


def is_missing(text: str) -> bool:
    """True for a text that usually means a missing value."""
    return text.strip().lower() in MISSING


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Return labels in the order of the numbers that they begin with; others by letters, numbers within as numbers.

    Where there are numbers, labels that mean a missing value come last.
    """
    listed = sorted(labels)
    numbered = [label for label in listed if re.search(r"\d", label)]
    if not numbered:
        return listed
    missing = [label for label in listed if is_missing(label)]
    amounts = [(label, match) for label in numbered if (match := AMOUNT.fullmatch(label))]
    if len(amounts) < len(numbered):
        return [*sorted(set(listed) - set(missing), key=_natural_key), *missing]
    ordered = [label for label, _ in sorted(amounts, key=lambda amount: _amount_key(*amount))]
    return [*ordered, *sorted(set(listed) - set(numbered) - set(missing)), *missing]


def _amount_key(label: str, match: re.Match[str]) -> tuple[object, ...]:
    rank = -1 if match["less"] else 1 if match["more"] else 0
    return float(match["number"].replace(",", "")), rank, _natural_key(match["rest"]), label


def _natural_key(text: str) -> tuple[list[tuple[float, str]], str]:
    """Numbers in a text as numbers, before letters at the same place."""
    pieces = [piece for piece in re.split(r"(\d+)", text) if piece]
    return [(float(p), "") if p.isdigit() else (float("inf"), p) for p in pieces], text
