"""The syntax tree of a ``.q`` text: frozen data, each node with the region of the text it was read from.

Regions are not compared, so two trees are equal when they mean the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from qcompile.grammar.reading.source import At

NOWHERE: At = (0, 0)


@dataclass(frozen=True)
class Node:
    """A node with its region in the text."""

    at: At = field(default=NOWHERE, compare=False, kw_only=True)


# --- words ---


@dataclass(frozen=True)
class Name(Node):
    """The name of an attribute or family, without quotes."""

    text: str


@dataclass(frozen=True)
class Number(Node):
    """A number as it is spelled, with its sign."""

    text: str


@dataclass(frozen=True)
class Text(Node):
    """A quoted label or path, unescaped."""

    value: str


@dataclass(frozen=True)
class Truth(Node):
    """``true`` or ``false``."""

    value: bool


Literal: TypeAlias = Number | Text | Truth
Operand: TypeAlias = Name | Literal


# --- schema ---


@dataclass(frozen=True)
class Integers(Node):
    """``integer low..high``."""

    low: Number
    high: Number


@dataclass(frozen=True)
class Bins(Node):
    """``numeric [e0, e1, ...]`` or ``...)``."""

    edges: tuple[Number, ...]
    closed: bool


@dataclass(frozen=True)
class Categories(Node):
    """``category {label, ...}``."""

    labels: tuple[Literal, ...]


@dataclass(frozen=True)
class Modifier(Node):
    """``clip``, ``drop``, ``cyclic`` or ``other "label"``."""

    kind: str
    label: Text | None = None


@dataclass(frozen=True)
class AttributeLine(Node):
    """One line of the schema."""

    name: Name
    domain: Integers | Bins | Categories
    modifiers: tuple[Modifier, ...]


# --- linear forms ---


@dataclass(frozen=True)
class Sum(Node):
    """Signed terms: ``signs`` holds "+" or "-" for each."""

    signs: tuple[str, ...]
    terms: tuple[Form, ...]


@dataclass(frozen=True)
class Multiple(Node):
    """Factors multiplied or divided from left to right: ``signs`` holds "*" or "/" for each, "*" first."""

    signs: tuple[str, ...]
    terms: tuple[Form, ...]


@dataclass(frozen=True)
class Power(Node):
    """``base ^ exponent``."""

    base: Form
    exponent: Number


Form: TypeAlias = Sum | Multiple | Power | Name | Number


@dataclass(frozen=True)
class Steps(Node):
    """One threshold, or evenly spaced ones: ``low..high step by``."""

    low: Number
    high: Number | None = None
    by: Number | None = None


# --- predicates ---


@dataclass(frozen=True)
class Comparison(Node):
    """``left relation right``."""

    left: Operand
    relation: str
    right: Operand


@dataclass(frozen=True)
class Between(Node):
    """``subject in low..high``."""

    subject: Operand
    low: Operand
    high: Operand


@dataclass(frozen=True)
class Among(Node):
    """``subject in {label, ...}``."""

    subject: Operand
    labels: tuple[Literal, ...]


@dataclass(frozen=True)
class Not(Node):
    """Negation of a predicate."""

    part: Predicate


@dataclass(frozen=True)
class And(Node):
    """Conjunction of two or more predicates."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or(Node):
    """Disjunction of two or more predicates."""

    parts: tuple[Predicate, ...]


Predicate: TypeAlias = Comparison | Between | Among | Not | And | Or


# --- workload ---


@dataclass(frozen=True)
class TotalNode(Node):
    """The count of everything."""


@dataclass(frozen=True)
class Simple(Node):
    """``marginal``, ``prefix``, ``range`` or ``circular`` of listed attributes."""

    kind: str
    names: tuple[Name, ...]


@dataclass(frozen=True)
class Thresholds(Node):
    """``affine`` or ``abs``: a form compared with thresholds; ``bound`` is None for ``*``."""

    kind: str
    form: Form
    relation: str
    bound: tuple[Steps, ...] | None


@dataclass(frozen=True)
class Option(Node):
    """``name = value`` of a random factor."""

    name: str
    value: Number


@dataclass(frozen=True)
class RandomQueries(Node):
    """``random(names; options)``."""

    names: tuple[Name, ...]
    options: tuple[Option, ...]


@dataclass(frozen=True)
class MatrixFile(Node):
    """``matrix(names; "path")``."""

    names: tuple[Name, ...]
    path: Text


@dataclass(frozen=True)
class Count(Node):
    """``count(predicate)``."""

    predicate: Predicate


FactorNode: TypeAlias = TotalNode | Simple | Thresholds | RandomQueries | MatrixFile | Count


@dataclass(frozen=True)
class ProductNode(Node):
    """Factors multiplied."""

    factors: tuple[FactorNode, ...]


@dataclass(frozen=True)
class Choice(Node):
    """One attribute of an ``each``, with the kind of its factor or None for the default."""

    name: Name
    kind: Name | None


@dataclass(frozen=True)
class Each(Node):
    """``each low..high of (choices)``; ``high`` None for one size, ``choices`` None for ``all``."""

    low: Number
    high: Number | None
    choices: tuple[Choice, ...] | None


Expression: TypeAlias = ProductNode | Each


@dataclass(frozen=True)
class TargetNode(Node):
    """``target 5``, ``target 2 %``, ``target 5 max``."""

    std_error: Number
    percent: bool
    largest: bool


@dataclass(frozen=True)
class FamilyLine(Node):
    """One line of the workload."""

    name: Name | None
    expression: Expression
    weight: Number | None
    target: TargetNode | None


# --- file ---


@dataclass(frozen=True)
class Language(Node):
    """``language version``."""

    version: Number


@dataclass(frozen=True)
class SchemaBlock(Node):
    """``schema { ... }``, or ``schema read_from_data { ... }``."""

    lines: tuple[AttributeLine, ...]
    read_from_data: bool = False


@dataclass(frozen=True)
class WorkloadBlock(Node):
    """``workload { ... }``."""

    lines: tuple[FamilyLine, ...]


@dataclass(frozen=True)
class File(Node):
    """A whole text, its parts in their order."""

    parts: tuple[Language | SchemaBlock | WorkloadBlock, ...]


# --- walking ---

Tree: TypeAlias = Form | Predicate
T = TypeVar("T")


def children(node: Tree) -> tuple[Tree, ...]:
    """Return the sub-forms or sub-predicates of a node."""
    match node:
        case Sum() | Multiple():
            return node.terms
        case And() | Or():
            return node.parts
        case Power():
            return (node.base,)
        case Not():
            return (node.part,)
        case _:
            return ()


def fold(root: Tree, combine: Callable[[Tree, Sequence[T]], T]) -> T:
    """Combine a form or predicate from its leaves up, without recursion: nesting depth costs no stack.

    Args:
      root: the tree.
      combine: called with each node and the results of its children.
    """
    order, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(children(node))
    results: list[T] = []
    for node in reversed(order):
        first = len(results) - len(children(node))
        results[first:] = [combine(node, results[first:])]
    return results[0]


def names_in(root: Tree) -> list[Name]:
    """Return the names in a form or predicate, in the order of the text."""
    return fold(root, _names)


def _names(node: Tree, parts: Sequence[list[Name]]) -> list[Name]:
    match node:
        case Name():
            return [node]
        case Comparison():
            return [n for n in (node.left, node.right) if isinstance(n, Name)]
        case Between() | Among():
            return [node.subject] if isinstance(node.subject, Name) else []
        case _:
            # Extending the first list keeps the walk linear in the number of names.
            result = parts[0] if parts else []
            for part in parts[1:]:
                result.extend(part)
            return result
