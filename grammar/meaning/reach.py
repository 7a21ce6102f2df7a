"""Values that a condition names and the domain does not hold: their rows are in another cell, or in none.

An empty condition of a query that is asked is an error, as its answer 0 would say nothing about the data.
"""

from __future__ import annotations

from contextlib import suppress

from qcompile.errors import SizeError
from qcompile.grammar.meaning.scope import Scope
from qcompile.grammar.printing import printer
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import At
from qcompile.grammar.reading.words import is_whole
from qcompile.queries.factors import Abs, Affine
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain


def describe_outside(leaf: syntax.Predicate, scope: Scope) -> str:
    """Return where the values are counted that a single condition names and the domain does not hold.

    In a query that is asked, an interval or a value at the end of a clipped attribute counts: its cell holds the values
    beyond.

    Returns:
      A sentence; "" where every value named is in the domain.
    """
    subject, relation, constants = _parts(leaf)
    if subject is None or subject.text not in scope.schema:
        return ""
    attribute = scope.schema[subject.text]
    if isinstance(attribute.domain, CategoryDomain):
        return _end_of_order(attribute, relation, constants[0])
    numbers = [_value(c.text) for c in constants if isinstance(c, syntax.Number)]
    if not numbers:
        return ""
    closed_ends = scope.asked and attribute.policy.kind == "clip"
    below, above = _sides(attribute, relation, numbers, closed_ends)
    return attribute.outside_text(below=below, above=above) if below or above else ""


def _end_of_order(attribute: Attribute, relation: str, constant: syntax.Operand) -> str:
    """Nothing comes before the first category or after the last one."""
    ends = {"<": (0, "first"), ">": (attribute.domain.size - 1, "last")}
    if relation not in ends or isinstance(constant, syntax.Name):
        return ""
    place, word = ends[relation]
    label = attribute.domain_labels[place]
    named = _value(constant.text) if isinstance(constant, syntax.Number) else constant.value
    same = type(named) is type(label) and named == label
    return f"{printer.operand(constant)} is the {word} category of {attribute.name!r}" if same else ""


def _parts(leaf: syntax.Predicate) -> tuple[syntax.Name | None, str, tuple[syntax.Operand, ...]]:
    """The attribute of a condition, its relation ("in" for intervals and sets) and its constants."""
    match leaf:
        case syntax.Comparison(left=syntax.Name(), right=syntax.Name()):
            return None, "", ()
        case syntax.Comparison(left=syntax.Name() as name):
            return name, leaf.relation, (leaf.right,)
        case syntax.Comparison(right=syntax.Name() as name):
            return name, printer.FLIPPED[leaf.relation], (leaf.left,)
        case syntax.Between(subject=syntax.Name() as name):
            return name, "in", (leaf.low, leaf.high)
        case syntax.Among(subject=syntax.Name() as name):
            return name, "in", leaf.labels
        case _:
            return None, "", ()


def _value(text: str) -> float | int:
    return int(text) if is_whole(text) else float(text)


def _sides(attribute: Attribute, relation: str, numbers: list[float | int], closed_ends: bool) -> tuple[bool, bool]:
    """Return whether a condition is about values below the domain, and above it."""
    low, high = _ends(attribute)
    least, most = min(numbers), max(numbers)
    binned = not isinstance(attribute.domain, IntegerDomain)
    at_ends = closed_ends and relation in ("=", "!=", "in")
    below = least <= low if at_ends or relation == "<" or (binned and relation == "<=") else least < low
    above = most >= high if at_ends or relation == ">" or (binned and relation == ">=") else most > high
    return below, above


def _ends(attribute: Attribute) -> tuple[float | int, float | int]:
    if isinstance(attribute.domain, IntegerDomain):
        return attribute.domain.low, attribute.domain.high
    assert not isinstance(attribute.domain, CategoryDomain)
    return attribute.domain.edges[0], attribute.domain.edges[-1]


def report_extent(text: str, at: At, outside: list[str], scope: Scope, *, everywhere: bool) -> None:
    """Report a condition that holds in all cells or in none.

    Args:
      text: the condition.
      at: where it is.
      outside: the sentences of `describe_outside` about its parts.
      scope: receives the finding.
      everywhere: whether it holds in all cells.

    Raises:
      Stop: no row can meet the condition of a query that is asked.
    """
    if everywhere:
        scope.findings.note(
            f"the condition {text} holds everywhere in the declared domains", at, _leaves_nothing(scope)
        )
        return
    hint = "; ".join(outside) or "its parts exclude each other"
    if scope.asked:
        message = f"no row can meet {text}, so its count is always 0"
        scope.findings.fail(message, at, f"{hint}; ask about values of the domain")
    scope.findings.note(f"the condition {text} holds nowhere in the declared domains", at, hint)


def _leaves_nothing(scope: Scope) -> str:
    return "it leaves no row out" if scope.asked else ""


def require_attainable(factor: Affine | Abs, at: At, scope: Scope) -> None:
    """Report the only threshold of a query that is asked, where no cell or every cell meets it.

    Raises:
      Stop: no row can meet it.
    """
    if factor.thresholds is None or len(factor.thresholds) != 1:
        return
    (level,), (low, high) = factor.thresholds, _form_ends(factor)
    (label,) = factor.labels()
    text = f"{factor.column} {label}"
    none, every = (level > high, level <= low) if factor.at_least else (level < low, level >= high)
    outside = [f"{factor.column} takes the values {low}..{high}"]
    if none or every:
        report_extent(text, at, outside, scope, everywhere=every)


def _form_ends(factor: Affine | Abs) -> tuple[int, int]:
    """The least and the largest value of a form; 0 for the least of ``abs`` where finding it takes too much memory."""
    low, high = factor.linear_ends
    if isinstance(factor, Affine):
        return low, high
    if low > 0 or high < 0:
        return min(abs(low), abs(high)), max(abs(low), abs(high))
    least = 0
    with suppress(SizeError):
        least = int(factor.attainable[0])
    return least, max(-low, high)
