"""What counting must give, in plain Python: messy tables, an encoder that goes row by row, and a dictionary of counts.

Written from the language's page alone; nothing of qcompile.data is used.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema

Row = dict[str, Any]
Names = tuple[str, ...]

LABELS = (
    "NO",
    "null",
    "1e3",
    "?",
    "01",
    "<=50K",
    "caf\u00e9",
    "\U0001f600",
    "it's",
    'say "x"',
    "a\\b",
    " x ",
    "a,b",
    "%_",
)
WORDS = (*tuple(f"word {i}" for i in range(70)), "NA", "\\", "'", '"', "ß", "x\ty")
NUMBERS = tuple(range(-3, 80))
OTHER, DROP, CLIP = Policy("other", "rest"), Policy("drop"), Policy("clip")

SCHEMA = Schema(
    (
        Attribute("age", IntegerDomain(0, 9), CLIP),
        Attribute("Month of birth", IntegerDomain(1, 12), OTHER, cyclic=True),
        Attribute("pay", NumericDomain((0.0, 0.1, 0.3, 10.0, 1e6)), OTHER),
        Attribute("debt", NumericDomain((-10.0, 0.0, 5.0, 10.0), closed=False), DROP),
        Attribute("price", NumericDomain((0.0, 0.1, 0.3, 99.99)), OTHER),
        Attribute("rate", NumericDomain((-1.0, 0.0, 1.0)), CLIP),
        Attribute("member", CategoryDomain((True, False)), OTHER),
        Attribute("label", CategoryDomain(LABELS), OTHER),
        Attribute("code", CategoryDomain((1, 2, 4)), DROP),
        Attribute("word", CategoryDomain(WORDS), OTHER),
        Attribute("number", CategoryDomain(NUMBERS), OTHER),
        Attribute("good", IntegerDomain(-2, 2)),
    )
)
"""Every kind of domain with every policy that it can have; some names that need quotes."""

INTEGERS = (0, 1, 2, 9, 10, -1, 12, 13, 2**31, -(2**62), 2**53 + 1, None)
FLOATS = (0.0, -0.0, 0.1, 0.3, 0.1 + 0.2, 0.09999999999999999, 5.0, 10.0, -10.0, 1e6, 1e6 + 1e-9, 1e300, -1e300, 5e-324)
ODD = (math.nan, math.inf, -math.inf, None)
DECIMALS = (
    Decimal("0.000"),
    Decimal("0.100"),
    Decimal("0.300"),
    Decimal("99.990"),
    Decimal("-0.001"),
    Decimal("99.991"),
)
TEXTS = (*LABELS, "", "no", "NO ", " NO", "1", "1000", "x", "NULL", "cafe\u0301", "\U0001f601", None)


def messy(rows: int, seed: int) -> list[Row]:
    """Rows with everything that is odd; the clipped columns have no null, so that the data is accepted."""
    rng = random.Random(seed)
    return [_row(rng) for _ in range(rows)]


def _row(rng: random.Random) -> Row:
    return {
        "good": rng.randint(-2, 2),
        "age": rng.choice(INTEGERS[:-1]),
        "Month of birth": rng.choice(INTEGERS),
        "pay": rng.choice(FLOATS + ODD),
        "debt": rng.choice(FLOATS[:9] * 3 + ODD),
        "price": rng.choice((*DECIMALS, None)),
        "rate": rng.choice((*FLOATS, math.inf, -math.inf)),
        "member": rng.choice((True, False, None)),
        "label": rng.choice(TEXTS),
        "code": rng.choice((1, 2, 4) * 5 + (3, None)),
        "word": rng.choice((*WORDS, "word", "Word 1", None)),
        "number": rng.choice((*NUMBERS, 80, -4, None)),
        "person": rng.choice(("ann", "bob", "c\u00e9cile", "d'Arc", "e e", "", None)),
        "house": rng.choice((*range(12), None)),
        "cells": rng.randint(0, 5),
    }


def encode(attribute: Attribute, value: Any) -> int | str:
    """The cell of a value, "drop" or "error"."""
    found = _cell(attribute, value)
    if isinstance(found, int):
        return found
    match attribute.policy.kind:
        case "clip" if found != "none":
            return 0 if found == "low" else attribute.domain.size - 1
        case "other":
            return attribute.domain.size
        case "drop":
            return "drop"
    return "error"


def _cell(attribute: Attribute, value: Any) -> int | str:
    """The cell, or why there is none: "low", "high", "none"."""
    domain = attribute.domain
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "none"
    if isinstance(domain, CategoryDomain):
        return next((i for i, x in enumerate(domain.labels) if type(x) is type(value) and x == value), "none")
    if isinstance(domain, IntegerDomain):
        if domain.low <= value <= domain.high:
            return int(value) - domain.low if value == value // 1 else "none"
        return "low" if value < domain.low else "high"
    value = float(value)
    *starts, end = domain.edges
    if value < starts[0]:
        return "low"
    if value > end or (value == end and not domain.closed):
        return "high"
    return len([start for start in starts if start <= value]) - 1


def encoded(schema: Schema, rows: Sequence[Row], leave_out: bool = False) -> Iterator[tuple[Row, Names | None]]:
    """Every row with its cells; None for one that a policy drops."""
    for row in rows:
        cells = tuple(encode(a, row[a.name]) for a in schema)
        out = [c == "drop" or (leave_out and c == "error") for c in cells]
        yield row, None if any(out) else cells  # type: ignore[misc]


def kept(schema: Schema, rows: Sequence[Row], unit: str, contributions: int) -> list[tuple[Row, Any]]:
    """The rows that count of each unit: those with the smallest digests of cells, running number and id."""
    units: dict[str, list[tuple[str, Row, Any]]] = collections.defaultdict(list)
    seen: collections.Counter[Any] = collections.Counter()
    for row, cells in encoded(schema, rows):
        name = row[unit]
        if cells is None or name is None or name == "":
            continue
        copy = seen[name, cells]
        seen[name, cells] += 1
        text = " ".join(map(str, (*cells, copy, name)))
        units[str(name)].append((hashlib.md5(text.encode()).hexdigest(), row, cells))
    return [(row, cells) for found in units.values() for _, row, cells in sorted(found, key=_digest)[:contributions]]


def _digest(entry: tuple[str, Row, Any]) -> str:
    return entry[0]


def count(
    schema: Schema, found: Sequence[tuple[Row, Any]], view: Names, steps: Callable[[Row], int]
) -> Mapping[tuple[int, ...], int]:
    """The non-empty cells of a view; ``steps`` gives what a row counts."""
    counts: collections.Counter[tuple[int, ...]] = collections.Counter()
    for row, cells in found:
        if cells is not None:
            counts[tuple(cells[schema.positions[n]] for n in view)] += steps(row)
    return {cell: n for cell, n in counts.items() if n}


def views(schema: Schema) -> list[Names]:
    """The total, all attributes, all pairs, some in the other order, and a few larger views."""
    names = schema.names
    pairs = [pair if i % 2 else pair[::-1] for i, pair in enumerate(itertools.combinations(names, 2))]
    return [(), *((n,) for n in names), *pairs, names[:4], tuple(reversed(names[5:8]))]
