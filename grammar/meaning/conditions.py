"""Single conditions resolved to the cells where they hold, with an error for each that makes no sense.

The cell of ``other`` has one value, its label, and no place in the order: there every comparison is false, except that
the label equals it. ``!=`` and ``not`` are complements, so that they may hold there; see `negations`. Categories are in
their declared order.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from qcompile.errors import comparable, did_you_mean
from qcompile.grammar.meaning.scope import Scope, domain_kind, integer_value, label_value
from qcompile.grammar.printing import printer
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.words import is_whole, string_text
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Label, NumericDomain, number_text
from qcompile.support.arrays import BoolArray

LABEL_EFFORT = 400
"""Nanoseconds per category to index an attribute's labels, and again for an unknown label."""

FEW = 9
"""Categories that are written out for a message, one more than it shows."""

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Conditions:
    """Evaluates conditions over one scope; methods raise `Stop` after reporting what is wrong."""

    def __init__(self, scope: Scope) -> None:
        self.scope, self.findings = scope, scope.findings
        self._codes: dict[str, dict[tuple[type, Label], int]] = {}

    def table(self, node: syntax.Predicate) -> tuple[tuple[str, ...], BoolArray]:
        """Return the attributes of a condition and the cells where it holds, one axis per attribute."""
        match node:
            case syntax.Comparison():
                return self._comparison(node)
            case syntax.Between():
                attribute = self._subject(node.subject)
                return (attribute.name,), self._between(attribute, node)
            case syntax.Among():
                attribute = self._subject(node.subject)
                return (attribute.name,), self._among(attribute, node)
            case _:
                raise TypeError(type(node))

    def _subject(self, node: syntax.Operand) -> Attribute:
        if not isinstance(node, syntax.Name):
            hint = "write the attribute first, such as age in 18..65"
            self.findings.fail(f"{printer.operand(node)} is a constant, not an attribute", node.at, hint)
        return self.scope.find(node)

    def _comparison(self, node: syntax.Comparison) -> tuple[tuple[str, ...], BoolArray]:
        left, right = node.left, node.right
        if isinstance(left, syntax.Name) and isinstance(right, syntax.Name):
            return self._pair(node, left, right)
        if isinstance(left, syntax.Name) and not isinstance(right, syntax.Name):
            return (left.text,), self._compare(self.scope.find(left), node.relation, right)
        if isinstance(right, syntax.Name) and not isinstance(left, syntax.Name):
            flipped = printer.FLIPPED[node.relation]
            return (right.text,), self._compare(self.scope.find(right), flipped, left)
        self.findings.fail("this compares two constants", node.at, "one side must be an attribute")

    # --- two attributes ---

    def _pair(
        self, node: syntax.Comparison, left: syntax.Name, right: syntax.Name
    ) -> tuple[tuple[str, ...], BoolArray]:
        if left.text == right.text:
            self.findings.fail(
                f"this compares {left.text!r} with itself", node.at, "one side must be another attribute"
            )
        a, b = self.scope.find(left), self.scope.find(right)
        for name, attribute in ((left, a), (right, b)):
            if not isinstance(attribute.domain, IntegerDomain):
                hint = f"{attribute.name!r} is {domain_kind(attribute)}"
                self.findings.fail("only integer attributes can be compared with each other", name.at, hint)
        relation = "=" if node.relation == "!=" else node.relation
        holds = np.zeros((a.size, b.size), dtype=np.bool_)
        holds[: a.domain.size, : b.domain.size] = OPERATORS[relation](_values(a)[:, None], _values(b)[None, :])
        return (a.name, b.name), ~holds if node.relation == "!=" else holds

    # --- an attribute and a constant ---

    def _compare(self, attribute: Attribute, relation: str, constant: syntax.Literal) -> BoolArray:
        if relation == "!=":
            return ~self._compare(attribute, "=", constant)
        if relation == "=" and _is_other(attribute, constant):
            return _other_cell(attribute)
        self._refuse_other(attribute, constant)
        if isinstance(attribute.domain, NumericDomain):
            return self._cut(attribute, attribute.domain, relation, constant)
        place = self._place(attribute, constant)
        return _pad_other(attribute, OPERATORS[relation](np.arange(attribute.domain.size), place))

    def _refuse_other(self, attribute: Attribute, constant: syntax.Operand) -> None:
        """Refuse the label of ``other`` where a place in the order is needed."""
        if _is_other(attribute, constant):
            message = f"{printer.operand(constant)} has no place in the order of {attribute.name!r}"
            self.findings.fail(message, constant.at, "compare it with = or !=, or list it: in {...}")

    def _place(self, attribute: Attribute, constant: syntax.Operand) -> int:
        """Return the position of a constant in the order of an integer or a category."""
        if isinstance(attribute.domain, CategoryDomain):
            return self._category_code(attribute, constant)
        return self._code(attribute, constant)

    def _code(self, attribute: Attribute, constant: syntax.Operand) -> int:
        """Return the position of an integer on the axis, or one place off either end."""
        domain = attribute.domain
        if isinstance(constant, syntax.Name):
            hint = "compare attributes with =, <, <=, > or >= instead"
            self.findings.fail("the ends of an interval and the members of a set are constants", constant.at, hint)
        if not isinstance(constant, syntax.Number):
            bare = isinstance(constant, syntax.Text) and is_whole(constant.value)
            hint = (
                f"write {constant.value} without quotes"
                if isinstance(constant, syntax.Text) and bare
                else (f"its values are {domain.label(0)}..{domain.label(domain.size - 1)}")
            )
            message = f"{attribute.name!r} is an integer and is compared with {printer.operand(constant)}"
            self.findings.fail(message, constant.at, hint)
        value = integer_value(constant, f"the constant compared with {attribute.name!r}", self.findings)
        low = domain.low if isinstance(domain, IntegerDomain) else 0
        return max(-1, min(domain.size, value - low))

    # --- bins ---

    def _edge(self, attribute: Attribute, domain: NumericDomain, constant: syntax.Operand) -> int:
        """Return the position of a constant among the edges."""
        if not isinstance(constant, syntax.Number):
            hint = f"its edges are {_some_edges(domain)}"
            self.findings.fail(
                f"{attribute.name!r} is numeric and is compared with {printer.operand(constant)}", constant.at, hint
            )
        value = float(constant.text)
        if value not in domain.edges:
            message = f"{attribute.name!r} is binned and can be cut at its edges only, not at {constant.text}"
            near = sorted(sorted(domain.edges, key=lambda e: abs(e - value))[:2])
            hint = f"the nearest edges are {' and '.join(map(number_text, near))}"
            self.findings.fail(message, constant.at, hint)
        return domain.edges.index(value)

    def _cut(self, attribute: Attribute, domain: NumericDomain, relation: str, constant: syntax.Literal) -> BoolArray:
        if relation == "=":
            hint = "name the bins instead: in lo..hi, where lo and hi are edges"
            self.findings.fail(f"{attribute.name!r} is binned and has no single values", constant.at, hint)
        edge = self._edge(attribute, domain, constant)
        self._refuse_split(attribute, domain, relation, edge, constant)
        below = np.arange(domain.size) < edge
        return _pad_other(attribute, below if relation in ("<", "<=") else ~below)

    def _refuse_split(
        self, attribute: Attribute, domain: NumericDomain, relation: str, edge: int, constant: syntax.Literal
    ) -> None:
        """A bin contains its left edge; only the last one, when closed, contains its right edge too."""
        last = edge == domain.size
        text = printer.operand(constant)
        if relation in ("<=", ">") and not last:
            other = "<" if relation == "<=" else ">="
            message = f"'{relation} {text}' would split a bin of {attribute.name!r}"
            self.findings.fail(message, constant.at, f"bins contain their left edge: write {other} {text}")
        if relation in ("<", ">=") and last and domain.closed:
            other = "<=" if relation == "<" else ">"
            message = f"'{relation} {text}' would split the last bin of {attribute.name!r}"
            self.findings.fail(message, constant.at, f"the last bin contains {text}: write {other} {text}")

    # --- categories ---

    def _category_code(self, attribute: Attribute, constant: syntax.Operand) -> int:
        """Return the position of a label; 1, true and "1" are different labels."""
        if isinstance(constant, syntax.Name):
            hint = "a label is written in double quotes"
            self.findings.fail("the ends of an interval and the members of a set are constants", constant.at, hint)
        label = label_value(constant, self.findings)
        code = self._codes_of(attribute, constant).get((type(label), label))
        if code is None:
            self._unknown_label(attribute, constant)
        return code

    def _codes_of(self, attribute: Attribute, constant: syntax.Literal) -> dict[tuple[type, Label], int]:
        """Positions by label, made once for all conditions of a family."""
        codes = self._codes.get(attribute.name)
        if codes is None:
            labels = attribute.domain_labels
            self._spend(attribute, constant)
            codes = self._codes[attribute.name] = {(type(label), label): i for i, label in enumerate(labels)}
        return codes

    def _spend(self, attribute: Attribute, constant: syntax.Literal) -> None:
        count = len(attribute.domain_labels)
        what = f"finding {printer.operand(constant)} among the {count} categories of {attribute.name!r}"
        self.findings.spend(LABEL_EFFORT * count, what, constant.at, "declare fewer categories or split the workload")

    def _unknown_label(self, attribute: Attribute, constant: syntax.Literal) -> NoReturn:
        self._spend(attribute, constant)
        other = attribute.policy.other
        known = [*attribute.domain_labels, *([] if other is None else [other])]
        # Only what is shown is written out: the categories may be very many, and mistaken every time.
        plain = {(k if isinstance(k, str) else str(k).lower()): k for k in reversed(known)}
        text = printer.operand(constant)
        wanted = constant.value if isinstance(constant, syntax.Text) else text
        if wanted in plain:
            hint = f"did you mean {_label_text(plain[wanted])}? Text, numbers and true/false differ"
        else:
            names = list(plain)[::-1]
            near = comparable(wanted, names) or names[:FEW]
            hint = _in_double_quotes_only(did_you_mean(text, [_label_text(plain[name]) for name in near]))
        self.findings.fail(f"{text} is not a category of {attribute.name!r}", constant.at, hint)

    # --- intervals and sets ---

    def _between(self, attribute: Attribute, node: syntax.Between) -> BoolArray:
        first, end = self._ends(attribute, node)
        codes = np.arange(attribute.domain.size)
        return _pad_other(attribute, (codes >= first) & (codes < end))

    def _ends(self, attribute: Attribute, node: syntax.Between) -> tuple[int, int]:
        """Return the first cell of an interval and the one behind its last; either may be off the axis."""
        for constant in (node.low, node.high):
            self._refuse_other(attribute, constant)
        if isinstance(attribute.domain, NumericDomain):
            first, end = (self._edge(attribute, attribute.domain, c) for c in (node.low, node.high))
            if not first < end:
                message = f"the interval {_interval(node)} has no bin"
                self.findings.fail(message, node.at, "its ends are two edges, ascending")
            return first, end
        first, last = (self._place(attribute, c) for c in (node.low, node.high))
        descending = isinstance(attribute.domain, IntegerDomain) and _number(node.low) > _number(node.high)
        if first > last or descending:
            self._refuse_descending(attribute, node)
        return first, last + 1

    def _refuse_descending(self, attribute: Attribute, node: syntax.Between) -> NoReturn:
        name, low, high = (printer.operand(o) for o in (node.subject, node.low, node.high))
        hint = f"write {name} >= {low} or {name} <= {high}" if attribute.cyclic else f"write {high}..{low}"
        self.findings.fail(f"the interval {_interval(node)} is empty", node.at, hint)

    def _among(self, attribute: Attribute, node: syntax.Among) -> BoolArray:
        holds = np.zeros(attribute.size, dtype=np.bool_)
        for literal in node.labels:
            if _is_other(attribute, literal):
                holds[attribute.domain.size :] = True
            elif isinstance(attribute.domain, NumericDomain):
                hint = "name the bins instead: in lo..hi, where lo and hi are edges"
                self.findings.fail(f"{attribute.name!r} is binned and has no single values", literal.at, hint)
            elif isinstance(attribute.domain, IntegerDomain):
                code = self._code(attribute, literal)
                if 0 <= code < attribute.domain.size:
                    holds[code] = True
            else:
                holds[self._category_code(attribute, literal)] = True
        return holds


def _interval(node: syntax.Between) -> str:
    return f"{printer.operand(node.low)}..{printer.operand(node.high)}"


def _number(constant: syntax.Operand) -> int:
    """The value of a constant that was found to be whole."""
    return int(printer.operand(constant))


def _in_double_quotes_only(hint: str) -> str:
    """A suggested text label without the quotes that are put around any suggestion."""
    return re.sub(r"""^did you mean '("[^\\]*")'\?$""", r"did you mean \1?", hint)


def _label_text(label: Label) -> str:
    """A label as it is written in a text."""
    return string_text(label) if isinstance(label, str) else str(label).lower()


def _values(attribute: Attribute) -> Any:
    domain = attribute.domain
    low = domain.low if isinstance(domain, IntegerDomain) else 0
    return low + np.arange(domain.size, dtype=np.int64)


def _is_other(attribute: Attribute, constant: syntax.Operand) -> bool:
    return isinstance(constant, syntax.Text) and constant.value == attribute.policy.other


def _other_cell(attribute: Attribute) -> BoolArray:
    cell = np.zeros(attribute.size, dtype=np.bool_)
    cell[attribute.domain.size :] = True
    return cell


def _pad_other(attribute: Attribute, holds: Any) -> BoolArray:
    """Add the false ``other`` cell, if the attribute has one."""
    result = np.zeros(attribute.size, dtype=np.bool_)
    result[: attribute.domain.size] = holds
    return result


def _some_edges(domain: NumericDomain) -> str:
    shown = ", ".join(map(number_text, domain.edges[:6]))
    return shown + (", ..." if len(domain.edges) > 6 else "")
