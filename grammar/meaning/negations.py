"""The cells of ``other`` that a condition holds on for the only reason that something is negated.

``a != 1`` and ``not a = 1`` are complements: they count the rows in the cell of ``other`` too. That is right for sets
of rows and easily overlooked, so that a note says it. Where the three-valued logic of SQL would leave a row out, with
null for ``other``, there is a note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.syntax import children, fold
from qcompile.queries.schema import Attribute
from qcompile.support.arrays import BoolArray

Tables: TypeAlias = Mapping[int, BoolArray]
"""The cells where each single condition holds, by its identity; one axis per attribute of the group, or length 1."""

Both: TypeAlias = tuple[BoolArray, BoolArray]
"""The cells that meet a condition and those that meet its negation, negated comparisons on known values only."""


def has_negation(root: syntax.Predicate) -> bool:
    """True if there is a ``not`` or ``!=`` in a predicate."""
    waiting: list[syntax.Tree] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.Not) or (isinstance(node, syntax.Comparison) and node.relation == "!="):
            return True
        waiting.extend(children(node))
    return False


def negated_others(
    root: syntax.Predicate, attributes: Sequence[Attribute], tables: Tables, holds: BoolArray
) -> list[Attribute]:
    """Return the attributes whose ``other`` cell is counted because of a negation alone, if possible each by itself.

    Args:
      root: the predicate.
      attributes: its attributes, in the order of the axes.
      tables: of its single conditions.
      holds: the cells where it holds, one axis per attribute.
    """
    with_other = [i for i, a in enumerate(attributes) if a.policy.other is not None]
    if not with_other or not has_negation(root):
        return []
    positive, _ = fold(root, partial(_combine, tables, _known(attributes)))
    surprising = holds & ~positive
    alone = [attributes[i] for i in with_other if surprising[_only_other(i, attributes)].any()]
    return alone or [attributes[i] for i in with_other if surprising.take(-1, axis=i).any()]


def _only_other(axis: int, attributes: Sequence[Attribute]) -> tuple[slice, ...]:
    """The cells with the ``other`` value of one attribute, and known values of the rest."""
    return tuple(slice(a.domain.size, None) if i == axis else slice(0, a.domain.size) for i, a in enumerate(attributes))


def _known(attributes: Sequence[Attribute]) -> list[BoolArray]:
    """Per axis, the cells of the domain itself."""
    return [
        (np.arange(a.size) < a.domain.size).reshape([-1 if j == i else 1 for j in range(len(attributes))])
        for i, a in enumerate(attributes)
    ]


def _combine(tables: Tables, known: Sequence[BoolArray], node: syntax.Tree, parts: Sequence[Both]) -> Both:
    match node:
        case syntax.And() | syntax.Or():
            joins = (np.logical_and, np.logical_or)
            for_true, for_false = joins if isinstance(node, syntax.And) else joins[::-1]
            yes, no = parts[0]
            for more_yes, more_no in parts[1:]:
                yes, no = for_true(yes, more_yes), for_false(no, more_no)
            return yes, no
        case syntax.Not():
            yes, no = parts[0]
            return no, yes
        case _:
            return _leaf(node, tables[id(node)], known)


def _leaf(node: syntax.Tree, holds: BoolArray, known: Sequence[BoolArray]) -> Both:
    """``!=`` is the negated side of ``=``."""
    inside = np.ones((1,) * holds.ndim, dtype=np.bool_)
    for axis, cells in enumerate(known):
        if holds.shape[axis] > 1:
            inside = inside & cells
    if isinstance(node, syntax.Comparison) and node.relation == "!=":
        return holds & inside, ~holds
    return holds, ~holds & inside
