"""The rule of docs/language.md in plain Python, row by row: random schemas, rows, conditions and their meaning.

Nothing here uses the compiler: a row is a dict from attribute to the value it counts as, `OTHER` for the other cell.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

OTHER: Final = object()
"""The value of a row that counts in the cell of ``other``."""

DROPPED: Final = object()
"""The value of a row that is not counted."""

Row: TypeAlias = dict[str, Any]
Node: TypeAlias = tuple[Any, ...]
"""("not", part), ("and" or "or", left, right), ("pair", relation, left, right), ("among", name, values), ("between",
name, low, high), ("compare", name, relation, value); values are those of rows, and edges for bins."""

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Column:
    """An attribute.

    Attributes:
      name: of the attribute.
      kind: "integer", "numeric" or "category".
      values: the values of its cells in order, the numbers of bins for numeric.
      policy: "", "clip", "drop" or "other".
      cyclic: whether it is.
      edges: of bins.
      closed: whether the last bin is.
    """

    name: str
    kind: str
    values: tuple[Any, ...]
    policy: str = ""
    cyclic: bool = False
    edges: tuple[int, ...] = ()
    closed: bool = False

    @property
    def other(self) -> str:
        return f"no {self.name}"

    @property
    def cells(self) -> tuple[Any, ...]:
        return (*self.values, OTHER) if self.policy == "other" else self.values

    @property
    def text(self) -> str:
        """Its line in a schema."""
        if self.kind == "integer":
            domain = f"integer {self.values[0]}..{self.values[-1]}"
        elif self.kind == "numeric":
            domain = f"numeric [{', '.join(map(str, self.edges))}{']' if self.closed else ')'}"
        else:
            domain = f"category {{{', '.join(map(literal, self.values))}}}"
        policy = f'other "{self.other}"' if self.policy == "other" else self.policy
        return f"{self.name} : {domain} {policy}{' cyclic' if self.cyclic else ''}"

    def place(self, value: Any) -> int:
        return self.values.index(value)

    def raw(self, random: Random) -> Any:
        """A value of the data, one that the policy takes."""
        outside = self.policy and random.random() < 0.3
        if self.kind == "category":
            if not outside or self.policy == "clip":
                return random.choice(self.values)
            unknown: dict[type, list[Any]] = {str: ["zzz", None], int: [77, None], bool: [None]}
            return random.choice(unknown[type(self.values[0])])
        low, high = (self.edges[0], self.edges[-1]) if self.edges else (self.values[0], self.values[-1])
        if outside:
            return random.choice([low - 1, low - 5, high + 1, high + 7, *([] if self.policy == "clip" else [None])])
        if self.kind == "integer":
            return random.choice(self.values)
        inside = [low + (high - low) * i / 12 for i in range(12)]
        return random.choice([*inside, *self.edges[:-1], *([high] if self.closed else [])])

    def counted(self, raw: Any) -> Any:
        """What a value of the data counts as."""
        value = self._known(raw)
        if value is not None:
            return value
        if self.policy == "clip":
            low = self.edges[0] if self.edges else self.values[0]
            return self.values[0] if raw < low else self.values[-1]
        return {"other": OTHER, "drop": DROPPED}[self.policy]

    def _known(self, raw: Any) -> Any:
        if raw is None or self.kind != "numeric":
            return raw if raw in self.values else None
        for i, (low, high) in enumerate(itertools.pairwise(self.edges)):
            if low <= raw < high or (self.closed and raw == high == self.edges[-1]):
                return i
        return None


def literal(value: Any) -> str:
    """A constant as it is written."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def shown(value: Any) -> str:
    """A category or integer as a label shows it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- random schemas and rows ---


def random_column(name: str, random: Random) -> Column:
    kind = random.choice(["integer", "integer", "integer", "numeric", "category"])
    cyclic = random.random() < 0.3
    policies = ["", "drop", "other"]
    if kind == "category":
        values = random.choice([("u", "m", "b", "a b"), ("hi", "lo"), (3, 1, 2), (False, True), ("only",)])
        return Column(name, kind, values, random.choice(policies), cyclic)
    policy = random.choice(policies if cyclic else [*policies, "clip", "clip"])
    if kind == "integer":
        low, size = random.randint(-3, 3), random.randint(1, 5)
        return Column(name, kind, tuple(range(low, low + size)), policy, cyclic)
    edges = tuple(sorted(random.sample(range(-20, 20), random.randint(2, 4))))
    return Column(name, kind, tuple(range(len(edges) - 1)), policy, cyclic, edges, random.random() < 0.5)


def random_rows(columns: Sequence[Column], count: int, random: Random) -> dict[str, list[Any]]:
    """Values of the data by column."""
    return {c.name: [c.raw(random) for _ in range(count)] for c in columns}


def counted_rows(columns: Sequence[Column], data: dict[str, list[Any]]) -> list[Row]:
    """The rows that count, by what they count as."""
    values = [[c.counted(raw) for raw in data[c.name]] for c in columns]
    rows = [dict(zip((c.name for c in columns), row, strict=True)) for row in zip(*values, strict=True)]
    return [row for row in rows if DROPPED not in row.values()]


def all_cells(columns: Sequence[Column]) -> Iterator[Row]:
    for codes in itertools.product(*(c.cells for c in columns)):
        yield dict(zip((c.name for c in columns), codes, strict=True))


# --- conditions ---


class Conditions:
    """Random conditions over columns, their text and their meaning."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = {c.name: c for c in columns}

    def draw(self, random: Random, depth: int = 3) -> Node:
        if depth == 0 or random.random() < 0.3:
            return self._leaf(random)
        word = random.choice(["not", "and", "or"])
        parts = [self.draw(random, depth - 1) for _ in range(1 if word == "not" else 2)]
        return (word, *parts)

    def _leaf(self, random: Random) -> Node:
        integers = [c.name for c in self.columns.values() if c.kind == "integer"]
        if len(integers) > 1 and random.random() < 0.3:
            return ("pair", random.choice(list(RELATIONS)), *random.sample(integers, 2))
        column = random.choice(list(self.columns.values()))
        kind = random.choice(["compare", "compare", "between", "among"])
        if kind == "among" and (column.kind != "numeric" or column.policy == "other"):
            return self._among(column, random)
        if kind == "between":
            low, high = sorted(random.sample(self._ends(column), 2), key=self._ends(column).index)
            return ("between", column.name, low, high)
        return self._compare(column, random)

    def _ends(self, column: Column) -> list[Any]:
        """Values that an interval or comparison may have, in order; at least two."""
        if column.kind == "integer":
            return list(range(column.values[0] - 2, column.values[-1] + 3))
        return list(column.edges) if column.kind == "numeric" else [*column.values[:1], *column.values]

    def _among(self, column: Column, random: Random) -> Node:
        known = [] if column.kind == "numeric" else list(dict.fromkeys(self._ends(column)))
        known += [OTHER] if column.policy == "other" else []
        return ("among", column.name, tuple(random.sample(known, random.randint(1, min(3, len(known))))))

    def _compare(self, column: Column, random: Random) -> Node:
        if column.policy == "other" and random.random() < 0.15:
            return ("compare", column.name, random.choice(["=", "!="]), OTHER)
        relation = random.choice(list(RELATIONS))
        value = random.choice(self._ends(column))
        if column.kind == "numeric":
            at_end = column.closed and value == column.edges[-1]
            relation = random.choice(["<=", ">"] if at_end else ["<", ">="])
        return ("compare", column.name, relation, value)

    def text(self, node: Node) -> str:
        """A condition as it is written."""
        match node:
            case ("not", part):
                return f"not ({self.text(part)})"
            case (("and" | "or") as word, left, right):
                return f"({self.text(left)}) {word} ({self.text(right)})"
            case ("pair", relation, left, right):
                return f"{left} {relation} {right}"
            case ("between", name, low, high):
                return f"{name} in {literal(low)}..{literal(high)}"
            case ("among", name, values):
                return f"{name} in {{{', '.join(self._constant(name, v) for v in values)}}}"
            case (_, name, relation, value):
                return f"{name} {relation} {self._constant(name, value)}"
        raise TypeError(node)

    def _constant(self, name: str, value: Any) -> str:
        return f'"{self.columns[name].other}"' if value is OTHER else literal(value)

    def holds(self, node: Node, row: Row) -> bool:
        """The documented rule: false in the other cell unless its label is named; negations are complements."""
        match node:
            case ("not", part):
                return not self.holds(part, row)
            case ("and", left, right):
                return self.holds(left, row) and self.holds(right, row)
            case ("or", left, right):
                return self.holds(left, row) or self.holds(right, row)
            case ("pair" | "compare", *_) if "!=" in node[1:3]:
                return not self.holds(tuple("=" if part == "!=" else part for part in node), row)
            case _:
                return self._leaf_holds(node, row)

    def sql(self, node: Node, row: Row) -> bool | None:
        """The three-valued logic of SQL, with null for the other cell unless its label is named; None is unknown."""
        match node:
            case ("not", part):
                found = self.sql(part, row)
                return None if found is None else not found
            case (("and" | "or") as word, left, right):
                sides = {self.sql(left, row), self.sql(right, row)}
                decisive = word == "or"
                return decisive if decisive in sides else None if None in sides else not decisive
            case ("pair", _, left, right):
                return None if OTHER in (row[left], row[right]) else self.holds(node, row)
            case (_, name, *constants):
                named = OTHER in constants or any(isinstance(c, tuple) and OTHER in c for c in constants)
                return None if row[name] is OTHER and not named else self.holds(node, row)
        raise TypeError(node)

    def _leaf_holds(self, node: Node, row: Row) -> bool:
        match node:
            case ("pair", relation, left, right):
                return OTHER not in (row[left], row[right]) and bool(RELATIONS[relation](row[left], row[right]))
            case ("among", name, values):
                return row[name] in values
            case ("between", name, low, high):
                return row[name] is not OTHER and self._inside(name, row[name], low, high)
            case (_, name, relation, value):
                if OTHER in (value, row[name]):
                    return value is row[name]
                return self._compares(self.columns[name], row[name], relation, value)
        raise TypeError(node)

    def _inside(self, name: str, value: Any, low: Any, high: Any) -> bool:
        column = self.columns[name]
        if column.kind == "integer":
            return bool(low <= value <= high)
        if column.kind == "numeric":
            return bool(column.edges.index(low) <= value < column.edges.index(high))
        return column.place(low) <= column.place(value) <= column.place(high)

    @staticmethod
    def _compares(column: Column, value: Any, relation: str, constant: Any) -> bool:
        if column.kind == "integer":
            return bool(RELATIONS[relation](value, constant))
        if column.kind == "numeric":
            below = bool(value < column.edges.index(constant))
            return below if relation in ("<", "<=") else not below
        return bool(RELATIONS[relation](column.place(value), column.place(constant)))

    def satisfiable(self, node: Node) -> bool:
        return any(self.holds(node, row) for row in all_cells(list(self.columns.values())))

    def surprises(self, node: Node) -> bool:
        """Whether some cell counts here and would not in SQL."""
        return any(self.holds(node, row) and not self.sql(node, row) for row in all_cells(list(self.columns.values())))


# --- labels ---


def label_condition(column: Column, kind: str, label: str) -> Node:
    """The condition that a label of an answer states, read from its text."""
    if kind == "marginal":
        return _cell_condition(column, label)
    if kind == "prefix":
        relation, _, end = label.partition(" ")
        return ("compare", column.name, relation, int(end) if column.kind == "numeric" else _read(column, end))
    if column.kind != "numeric":
        first, last = (_read(column, end) for end in label.split(".."))
        if kind == "range" or column.place(first) <= column.place(last):
            return ("between", column.name, first, last)
        return ("or", ("compare", column.name, ">=", first), ("compare", column.name, "<=", last))
    if kind == "range":
        return _cell_condition(column, label)
    first, last = (_cell_condition(column, end) for end in label.split(".."))
    if first[2] <= last[2]:
        return ("between", column.name, first[2], last[3])
    return ("or", ("compare", column.name, ">=", first[2]), ("compare", column.name, "<", last[3]))


def _cell_condition(column: Column, label: str) -> Node:
    if column.policy == "other" and label == column.other:
        return ("compare", column.name, "=", OTHER)
    if column.kind != "numeric":
        return ("compare", column.name, "=", _read(column, label))
    low, high = label[1:-1].split(", ")
    assert label[0] == "["
    assert label[-1] == ("]" if column.closed and int(high) == column.edges[-1] else ")")
    return ("between", column.name, int(low), int(high))


def _read(column: Column, text: str) -> Any:
    (value,) = [v for v in column.values if shown(v) == text]
    return value
