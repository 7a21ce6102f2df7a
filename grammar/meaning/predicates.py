"""Conditions resolved to predicate factors.

The conditions joined by ``and`` at the top are split into groups that share no attribute; each group is one factor, so
that ``a = 1 and b = 2`` costs the cells of a plus those of b, not their product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from qcompile.errors import SizeError
from qcompile.grammar.meaning.conditions import Conditions
from qcompile.grammar.meaning.negations import has_negation, negated_others
from qcompile.grammar.meaning.reach import describe_outside, report_extent
from qcompile.grammar.meaning.scope import Scope
from qcompile.grammar.printing import printer
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import At, Stop
from qcompile.grammar.reading.syntax import children, fold, names_in
from qcompile.grammar.reading.words import name_text, string_text
from qcompile.queries.factors import Predicate
from qcompile.queries.schema import Attribute, CategoryDomain
from qcompile.support.arrays import BoolArray, cells, require_memory

PREDICATE_MEMORY = 2**30
"""Bytes that the cells of one group of conditions may take."""

TABLE_EFFORT, JOIN_EFFORT, FACTOR_EFFORT = 4, 1, 20
"""Nanoseconds for each cell of a single condition, of two conditions joined, and of the factor they make."""

NEGATION_EFFORT = 3
"""Times that work where something is negated: both sides of each condition are combined once more for the notes."""

NULLS = ("null", "na", "nan", "none", "missing")
"""Words of other languages for a missing value."""

MOST_AXES = 32
"""Attributes of one group; NumPy's arrays have no more axes."""


def resolve_count(node: syntax.Count, scope: Scope) -> list[Predicate]:
    """Resolve ``count(predicate)`` to factors over disjoint attributes.

    Raises:
      Stop: after reporting every condition that makes no sense.
    """
    for leaf in leaves(node.predicate):
        _refuse_bare_label(leaf, scope)
    scope.find_attributes(names_in(node.predicate))
    groups = group_connected(conjuncts(node.predicate))
    for group in groups:
        _refuse_large(group, scope)
        _spend(group, scope)
    tables = _tables(node.predicate, scope)
    return [_factor(group, tables, scope) for group in groups]


def leaves(root: syntax.Predicate) -> list[syntax.Predicate]:
    """Return the single conditions, in the order of the text."""
    found: list[syntax.Predicate] = []
    waiting: list[syntax.Tree] = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(children(node)))
        if isinstance(node, syntax.Comparison | syntax.Between | syntax.Among):
            found.append(node)
    return found


def conjuncts(root: syntax.Predicate) -> list[syntax.Predicate]:
    """Return the parts joined by ``and`` at the top, at any depth of brackets."""
    parts: list[syntax.Predicate] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, syntax.And):
            waiting.extend(reversed(node.parts))
        else:
            parts.append(node)
    return parts


def group_connected(parts: Sequence[syntax.Predicate]) -> list[list[syntax.Predicate]]:
    """Group the parts so that different groups share no attribute, in order of first appearance."""
    groups: dict[int, tuple[set[str], list[syntax.Predicate]]] = {}
    group_of: dict[str, int] = {}
    for i, part in enumerate(parts):
        used = {n.text for n in names_in(part)}
        first, *others = sorted({group_of[name] for name in used if name in group_of} or {i})
        names, members = groups.setdefault(first, (set(), []))
        for other in others:
            more_names, more = groups.pop(other)
            used |= more_names
            members.extend(more)
        members.append(part)
        names |= used
        group_of.update(dict.fromkeys(used, first))
    return [members for _, members in groups.values()]


def _refuse_bare_label(leaf: syntax.Predicate, scope: Scope) -> None:
    """``educ = college``: the label lacks its quotes."""
    if not isinstance(leaf, syntax.Comparison):
        return
    for attribute, label in ((leaf.left, leaf.right), (leaf.right, leaf.left)):
        if not isinstance(attribute, syntax.Name) or not isinstance(label, syntax.Name):
            continue
        if attribute.text not in scope.schema or label.text in scope.schema or label.text in scope.broken:
            continue
        declared = scope.schema[attribute.text]
        hint = _quoted_label(label.text, declared)
        if hint:
            message = f"{label.text!r} is not an attribute; a label is written in double quotes"
            scope.findings.fail(message, label.at, hint)


def _quoted_label(word: str, attribute: Attribute) -> str:
    """Return what to write for a word without quotes where a label belongs; "" if no label can be meant."""
    other = attribute.policy.other
    labels = [v for v in (*attribute.domain_labels, other) if isinstance(v, str)]
    meant = next((v for v in labels if v == word), None) or next(
        (v for v in labels if v.casefold() == word.casefold()), None
    )
    if meant is None and other is not None and word.casefold() in NULLS:
        return f"nulls count as {string_text(other)}; write that"
    if meant is None and not isinstance(attribute.domain, CategoryDomain):
        return ""
    return f"write {string_text(word if meant is None else meant)}"


def _attributes(group: Sequence[syntax.Predicate], scope: Scope) -> list[Attribute]:
    return [scope.schema[name] for name in dict.fromkeys(n.text for part in group for n in names_in(part))]


def _refuse_large(group: Sequence[syntax.Predicate], scope: Scope) -> None:
    attributes = _attributes(group, scope)
    at = (group[0].at[0], group[-1].at[1])
    remedy = "join fewer attributes by 'or', or use bins"
    if len(attributes) > MOST_AXES:
        scope.findings.fail(f"this condition joins {len(attributes)} attributes, at most {MOST_AXES} fit", at, remedy)
    try:
        size = cells([a.size for a in attributes])
        require_memory("this condition", size, remedy, limit=PREDICATE_MEMORY)
    except SizeError as e:
        scope.findings.fail(str(e), at)


def _spend(group: Sequence[syntax.Predicate], scope: Scope) -> None:
    """Charge a group to the effort limit of the text: its nodes one after the other, and the factor."""
    sizes = {a.name: a.size for a in _attributes(group, scope)}
    _, effort = fold(_conjunction(group), partial(_effort, sizes))
    if has_negation(_conjunction(group)) and any(a.policy.other is not None for a in _attributes(group, scope)):
        effort *= NEGATION_EFFORT
    size = cells(list(sizes.values()))
    what = f"this condition of {sum(len(leaves(part)) for part in group)} parts on {size} cells"
    hint = "ask for fewer such conditions in one text, or use smaller domains"
    scope.findings.spend(effort + FACTOR_EFFORT * size, what, (group[0].at[0], group[-1].at[1]), hint)


def _effort(
    sizes: dict[str, int], node: syntax.Tree, parts: Sequence[tuple[frozenset[str], int]]
) -> tuple[frozenset[str], int]:
    """Return the attributes of a node, and its effort, as `_evaluate` combines them."""
    if not parts:
        used = frozenset(n.text for n in names_in(node))
        return used, TABLE_EFFORT * cells([sizes[name] for name in used])
    used, effort = parts[0]
    for more, taken in parts[1:] or [(used, 0)]:  # 'not' goes over its only part once
        used |= more
        effort += taken + JOIN_EFFORT * cells([sizes[name] for name in used])
    return used, effort


def _conjunction(group: Sequence[syntax.Predicate]) -> syntax.Predicate:
    return group[0] if len(group) == 1 else syntax.And(tuple(group))


def _tables(root: syntax.Predicate, scope: Scope) -> dict[int, tuple[tuple[str, ...], BoolArray]]:
    """For each single condition, by identity: its attributes and the cells where it holds."""
    conditions = Conditions(scope)
    tables, failed = {}, False
    for leaf in leaves(root):
        try:
            tables[id(leaf)] = conditions.table(leaf)
        except Stop:
            failed = True
    if failed:
        raise Stop
    return tables


def _factor(
    group: Sequence[syntax.Predicate], tables: dict[int, tuple[tuple[str, ...], BoolArray]], scope: Scope
) -> Predicate:
    attributes = _attributes(group, scope)
    axes = {a.name: i for i, a in enumerate(attributes)}
    whole = _conjunction(group)
    spread = {id(leaf): _spread(tables[id(leaf)], axes) for leaf in leaves(whole)}
    holds = fold(whole, partial(_evaluate, spread))
    holds = np.ascontiguousarray(np.broadcast_to(holds, [a.size for a in attributes]))
    factor = Predicate(attributes, holds, printer.predicate(whole))
    _report(group, factor, scope, holds)
    for attribute in negated_others(whole, attributes, spread, holds):
        _note_other(whole, attribute, group[0].at, scope)
    return factor


def _report(group: Sequence[syntax.Predicate], factor: Predicate, scope: Scope, holds: BoolArray) -> None:
    """Report an empty condition, one that is always true, and the values that are in no cell of their own."""
    outside: dict[str, At] = {}
    for leaf in leaves(_conjunction(group)):
        sentence = describe_outside(leaf, scope)
        if sentence:
            outside.setdefault(sentence, leaf.at)
    if holds.all() or not holds.any():
        report_extent(factor.text, group[0].at, list(outside), scope, everywhere=bool(holds.all()))
        return
    for sentence, at in outside.items():
        scope.findings.note(sentence, at)


def _note_other(whole: syntax.Predicate, attribute: Attribute, at: At, scope: Scope) -> None:
    label = string_text(attribute.policy.other or "")
    start = "write (...)" if isinstance(whole, syntax.Or) else "add:"
    hint = f"to leave them out, {start} and {name_text(attribute.name)} != {label}"
    message = f"{printer.predicate(whole)} also counts the rows where {attribute.name!r} is {label}"
    scope.findings.note(message, at, hint)


def _evaluate(tables: Mapping[int, BoolArray], node: syntax.Tree, parts: Sequence[BoolArray]) -> BoolArray:
    """Combine cells from the leaves up; arrays keep length 1 along attributes they do not depend on."""
    match node:
        case syntax.And() | syntax.Or():
            join = np.logical_and if isinstance(node, syntax.And) else np.logical_or
            result = parts[0]
            for part in parts[1:]:
                result = join(result, part)
            return result
        case syntax.Not():
            return ~parts[0]
        case _:
            return tables[id(node)]


def _spread(named: tuple[tuple[str, ...], BoolArray], axes: Mapping[str, int]) -> BoolArray:
    """Put the axes of a table at the places of its attributes, with length 1 at the others."""
    names, table = named
    places = [axes[n] for n in names]
    ordered = np.transpose(table, np.argsort(places))
    shape = [1] * len(axes)
    for place, size in zip(sorted(places), ordered.shape, strict=True):
        shape[place] = size
    return ordered.reshape(shape)
