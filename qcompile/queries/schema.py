"""The schema: attributes and their domains. Public knowledge, declared, never inferred from private data."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

from qcompile.errors import IntegrityError, did_you_mean

Label: TypeAlias = str | int | bool
"""A category as declared; it matches data of its own type only."""

Names: TypeAlias = tuple[str, ...]
"""Names of distinct attributes, as of a view or of a table's axes."""

PolicyKind: TypeAlias = Literal["strict", "clip", "drop", "other"]


SHOWN = 6
"""Attributes that a schema's `repr` names."""


@dataclass(frozen=True, slots=True)
class IntegerDomain:
    """The integers ``low..high``, both included."""

    low: int
    high: int

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise IntegrityError(f"an integer domain needs low <= high, got {self.low}..{self.high}")

    @property
    def size(self) -> int:
        """Number of values."""
        return self.high - self.low + 1

    def label(self, code: int) -> str:
        """Return the text of the value at position ``code``."""
        return str(self.low + code)


@dataclass(frozen=True, slots=True)
class NumericDomain:
    """Left-closed bins between strictly increasing finite edges; the last edge is closed or open.

    Attributes:
      edges: ``size + 1`` numbers.
      closed: whether the last bin contains its right edge (``]``) or not (``)``).
    """

    edges: tuple[float, ...]
    closed: bool = True

    def __post_init__(self) -> None:
        if len(self.edges) < 2:
            raise IntegrityError(f"a numeric domain needs at least two edges, got {len(self.edges)}")
        for i, edge in enumerate(self.edges):
            if not math.isfinite(edge):
                raise IntegrityError(f"edge {i + 1} is {edge!r}; edges must be finite")
            if i and not self.edges[i - 1] < edge:
                before, here = number_text(self.edges[i - 1]), number_text(edge)
                raise IntegrityError(f"edge {i + 1} ({here}) must be greater than edge {i} ({before})")

    @property
    def size(self) -> int:
        """Number of bins."""
        return len(self.edges) - 1

    def label(self, code: int) -> str:
        """Return the bin in interval notation, e.g. ``[5000, 10000)``."""
        last = code == self.size - 1
        close = "]" if last and self.closed else ")"
        return f"[{number_text(self.edges[code])}, {number_text(self.edges[code + 1])}{close}"


@dataclass(frozen=True, slots=True)
class CategoryDomain:
    """Listed categories, in their listed order; each is text, an integer or true/false."""

    labels: tuple[Label, ...]

    def __post_init__(self) -> None:
        if not self.labels:
            raise IntegrityError("a category domain needs at least one label")
        kinds = [(type(label), label) for label in self.labels]
        if len(set(kinds)) != len(kinds):
            raise IntegrityError("the labels of a category domain must be distinct")

    @property
    def size(self) -> int:
        """Number of listed labels."""
        return len(self.labels)

    def label(self, code: int) -> str:
        """Return the text of the label at position ``code``."""
        label = self.labels[code]
        return str(label).lower() if isinstance(label, bool) else str(label)


Domain: TypeAlias = IntegerDomain | NumericDomain | CategoryDomain


@dataclass(frozen=True, slots=True)
class Policy:
    """Treatment of nulls and of values outside the domain.

    ``strict``: an error; ``clip``: the nearest end (nulls stay an error); ``drop``: the row leaves all
    counts; ``other``: one more cell, after the listed ones and outside of their order, with the label ``other``.
    """

    kind: PolicyKind = "strict"
    other: str | None = None

    def __post_init__(self) -> None:
        if (self.kind == "other") != (self.other is not None):
            raise IntegrityError("a policy has a label exactly when it is 'other'")


@dataclass(frozen=True)
class Attribute:
    """One column of the confidential table, with its declared domain.

    Attributes:
      name: exactly as in the data; case-sensitive.
      domain: the declared values.
      policy: treatment of nulls and of other values.
      cyclic: whether the last value is next to the first (only the default factor depends on it).
    """

    name: str
    domain: Domain
    policy: Policy = field(default_factory=Policy)
    cyclic: bool = False

    def __post_init__(self) -> None:
        if not self.name:
            raise IntegrityError("an attribute needs a name")
        if self.policy.kind == "clip" and (self.cyclic or isinstance(self.domain, CategoryDomain)):
            raise IntegrityError(f"attribute {self.name!r}: only numbers that are not cyclic can be clipped")
        if self.policy.other is not None and self.policy.other in self.domain_labels:
            raise IntegrityError(f"attribute {self.name!r}: the label {self.policy.other!r} is already in the domain")

    @property
    def domain_labels(self) -> tuple[Label, ...]:
        """The declared categories; empty for numbers."""
        return self.domain.labels if isinstance(self.domain, CategoryDomain) else ()

    @property
    def size(self) -> int:
        """Number of cells, the ``other`` cell included."""
        return self.domain.size + (self.policy.kind == "other")

    def label(self, code: int) -> str:
        """Return the text of cell ``code`` in ``range(size)``."""
        if self.policy.other is not None and code == self.domain.size:
            return self.policy.other
        return self.domain.label(code)

    def upper_label(self, code: int) -> str:
        """Return the condition "at most cell ``code``" as text, e.g. ``<= 40`` or, for bins, ``< 5000``."""
        if isinstance(self.domain, NumericDomain) and code < self.domain.size:
            sign = "<=" if code == self.domain.size - 1 and self.domain.closed else "<"
            return f"{sign} {number_text(self.domain.edges[code + 1])}"
        return f"<= {self.label(code)}"

    def span_label(self, low: int, high: int) -> str:
        """Return the cells ``low..high`` as text: ``20..35``, or for bins one interval."""
        if isinstance(self.domain, NumericDomain) and low <= high < self.domain.size:
            return f"{self.domain.label(low).split(',')[0]},{self.domain.label(high).split(',')[1]}"
        return f"{self.label(low)}..{self.label(high)}"

    def outside_text(self, *, below: bool = True, above: bool = True) -> str:
        """Return a sentence on where values outside of the domain of a number are counted.

        Args:
          below: whether it is about smaller values; only ``clip`` treats the two sides differently.
          above: whether it is about larger values.
        """
        last = self.domain.size - 1
        holds = f"{self.name!r} holds {self.span_label(0, last)}"
        match self.policy.kind:
            case "clip":
                count = "count as" if isinstance(self.domain, IntegerDomain) else "count in"
                smaller = [f"smaller values {count} {self.label(0)}"] if below else []
                larger = [f"larger values {count} {self.label(last)}"] if above else []
                return f"{holds}; {', '.join(smaller + larger)} (clip)"
            case "other":
                label = repr(self.policy.other)[1:-1]  # without control characters
                return f'{holds}; other values count as "{label}"'
            case "drop":
                return f"{holds}; rows with other values are left out of all counts (drop)"
            case _:
                return f"{holds}, and no row has another value"


@dataclass(frozen=True, repr=False)
class Schema:
    """The attributes in their declared order, which is the order of all axes.

    Attributes:
      attributes: distinct names.
      read_from_data: whether the domains were drafted from confidential data. Such a schema is itself confidential,
        and a release made with it has no guarantee for the facts that the domains reveal.
    """

    attributes: tuple[Attribute, ...]
    read_from_data: bool = False

    def __post_init__(self) -> None:
        names = [a.name for a in self.attributes]
        if len(set(names)) != len(names):
            raise IntegrityError("attribute names must be distinct")

    def __repr__(self) -> str:
        sizes = [f"{a.name} ({a.size:,})" for a in self.attributes[:SHOWN]]
        more = [f"{len(self) - SHOWN} more"] if len(self) > SHOWN else []
        return f"<Schema: {', '.join(sizes + more)}>"

    @cached_property
    def positions(self) -> dict[str, int]:
        """Name to position."""
        return {a.name: i for i, a in enumerate(self.attributes)}

    @property
    def names(self) -> tuple[str, ...]:
        """The attribute names in order."""
        return tuple(a.name for a in self.attributes)

    def __getitem__(self, name: str) -> Attribute:
        try:
            return self.attributes[self.positions[name]]
        except KeyError:
            raise IntegrityError(f"unknown attribute {name!r}; {did_you_mean(name, self.positions)}") from None

    def __iter__(self) -> Iterator[Attribute]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def __contains__(self, name: object) -> bool:
        return name in self.positions

    def order(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return ``names`` in schema order."""
        return tuple(sorted(names, key=self.positions.__getitem__))

    def shape(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the sizes of ``names``, in their order."""
        return tuple(self[name].size for name in names)


def number_text(value: float) -> str:
    """Format a number as its shortest text that reads back to the same double; whole numbers without a point."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return repr(float(value))
