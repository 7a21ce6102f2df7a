"""Workload lines to factors and families."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from qcompile.errors import did_you_mean
from qcompile.grammar.meaning.linear_forms import resolve_thresholds
from qcompile.grammar.meaning.matrices import resolve_matrix
from qcompile.grammar.meaning.predicates import resolve_count
from qcompile.grammar.meaning.scope import Scope, integer_value
from qcompile.grammar.printing import printer
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import Findings, Stop
from qcompile.grammar.reading.syntax import names_in
from qcompile.grammar.reading.words import name_text
from qcompile.queries.factors import Circular, Factor, Marginal, Prefix, Random, Range
from qcompile.queries.factors.base import OneAttribute
from qcompile.queries.schema import Attribute
from qcompile.queries.workload import Family, Target, default_factor

LARGEST_WEIGHT = 1e300
"""So that the sum of the weights of identical families stays finite."""

SMALLEST_TARGET, LARGEST_TARGET = 1e-100, 1e100
"""So that squares of targets, and their ratios, are numbers."""

KINDS: dict[str, Callable[[Attribute], OneAttribute]] = {
    "marginal": Marginal,
    "prefix": Prefix,
    "range": Range,
    "circular": Circular,
}


def resolve_family(line: syntax.FamilyLine, scope: Scope, base: Path) -> Family:
    """Resolve one family.

    Args:
      line: its line.
      scope: the schema.
      base: the folder that matrix files are relative to.

    Raises:
      Stop: after reporting what is wrong with it.
    """
    text = printer.expression(line.expression)
    name = text if line.name is None else line.name.text
    weight = 1.0 if line.weight is None else _weight(line.weight, scope.findings)
    target = None if line.target is None else _target(line.target, scope.findings)
    if isinstance(line.expression, syntax.ProductNode):
        return Family(name, text, resolve_product(line.expression, scope, base), weight, target=target)
    factors, sizes = _each(line.expression, scope)
    return Family(name, text, factors, weight, choose=sizes, target=target)


def _weight(number: syntax.Number, findings: Findings) -> float:
    weight = float(number.text)
    if not (weight > 0 and math.isfinite(weight)):
        hint = "to leave a family out, remove its line" if weight == 0 else "write for instance weight 2 or weight 0.5"
        findings.fail(f"a weight must be finite and > 0, got {number.text}", number.at, hint)
    if weight > LARGEST_WEIGHT:
        hint = "only the ratios of weights matter: divide all of them"
        findings.fail(f"the weight {number.text} is too large", number.at, hint)
    return weight


def _target(node: syntax.TargetNode, findings: Findings) -> Target:
    number = node.std_error
    value = float(number.text)
    if not SMALLEST_TARGET <= value <= LARGEST_TARGET:
        hint = "write the standard error that is small enough, for instance target 5"
        findings.fail(f"a target is a standard error, 1e-100 to 1e100, got {number.text}", number.at, hint)
    return Target(value, node.percent, node.largest)


# --- products ---


def resolve_product(node: syntax.ProductNode, scope: Scope, base: Path) -> tuple[Factor, ...]:
    """Resolve the factors of a product; none for ``total``.

    Raises:
      Stop: after reporting what is wrong.
    """
    for factor in node.factors:
        if isinstance(factor, syntax.Simple | syntax.RandomQueries | syntax.MatrixFile):
            scope.require_distinct(factor.names, "list")
    scope.require_distinct([n for factor in node.factors for n in _first_uses(factor)], "product")
    factors: list[Factor] = []
    failed = False
    for factor in node.factors:
        try:
            factors.extend(_factors(factor, scope, base))
        except Stop:
            failed = True
    if failed:
        raise Stop
    return tuple(factors)


def _first_uses(node: syntax.FactorNode) -> list[syntax.Name]:
    """Return the attributes of a factor, each at its first use."""
    match node:
        case syntax.TotalNode():
            used: list[syntax.Name] = []
        case syntax.Thresholds():
            used = names_in(node.form)
        case syntax.Count():
            used = names_in(node.predicate)
        case _:
            used = list(node.names)
    first: dict[str, syntax.Name] = {}
    for name in used:
        first.setdefault(name.text, name)
    return list(first.values())


def _factors(node: syntax.FactorNode, scope: Scope, base: Path) -> list[Factor]:
    match node:
        case syntax.TotalNode():
            return []
        case syntax.Simple():
            return _simple(node, scope)
        case syntax.Thresholds():
            return [resolve_thresholds(node, scope)]
        case syntax.RandomQueries():
            return [_random(node, scope)]
        case syntax.MatrixFile():
            return [resolve_matrix(node, scope, base)]
        case syntax.Count():
            return list(resolve_count(node, scope))


def _simple(node: syntax.Simple, scope: Scope) -> list[Factor]:
    attributes = scope.find_attributes(node.names)
    if node.kind != "marginal" and len(attributes) > 1:
        product = " * ".join(f"{node.kind}({name_text(n.text)})" for n in node.names)
        scope.findings.fail(f"{node.kind} takes one attribute, got {len(attributes)}", node.at, f"write {product}")
    return [KINDS[node.kind](a) for a in attributes]


# --- random ---

_OPTIONS = ("p", "count", "seed")


def _random(node: syntax.RandomQueries, scope: Scope) -> Random:
    findings = scope.findings
    given: dict[str, syntax.Number] = {}
    for option in node.options:
        if option.name not in _OPTIONS:
            hint = did_you_mean(option.name, _OPTIONS)
            findings.fail(f"random has no option {option.name!r}", option.at, hint)
        if option.name in given:
            findings.fail(f"the option {option.name!r} is given twice", option.at, "remove one")
        given[option.name] = option.value
    missing = [name for name in _OPTIONS if name not in given]
    if missing:
        hint = "write for instance random(a, b; p = 0.3, count = 200, seed = 7)"
        findings.fail(f"random needs p, count and seed; missing: {', '.join(missing)}", node.at, hint)
    attributes = scope.find_attributes(node.names)
    p = float(given["p"].text)
    if not 0 < p <= 1:
        findings.fail(f"p is a probability, 0 < p <= 1, got {given['p'].text}", given["p"].at, "write p = 0.3")
    count = integer_value(given["count"], "count", findings)
    if count < 1:
        findings.fail(f"count must be at least 1, got {count}", given["count"].at, "write count = 200")
    seed = integer_value(given["seed"], "seed", findings)
    if seed < 0:
        hint = "it chooses public queries, not noise: any non-negative integer will do"
        findings.fail(f"seed must be at least 0, got {seed}", given["seed"].at, hint)
    return Random(attributes, p, count, seed)


# --- each ---


def _each(node: syntax.Each, scope: Scope) -> tuple[tuple[Factor, ...], tuple[int, int]]:
    findings = scope.findings
    low = integer_value(node.low, "the size of the subsets", findings)
    high = low if node.high is None else integer_value(node.high, "the size of the subsets", findings)
    if low < 1:
        findings.fail(f"subsets have at least 1 attribute, got {low}", node.low.at, "the total is a family of its own")
    if high < low:
        at = node.high.at if node.high else node.low.at
        findings.fail(f"the interval {low}..{high} is empty", at, f"write {high}..{low}")
    if node.choices is not None:
        factors = _choices(node.choices, scope)
        _check_size(high, len(factors), node, findings)
    else:
        if not scope.complete or scope.broken:
            raise Stop
        factors = [default_factor(a) for a in scope.schema]
        _check_size(high, len(factors), node, findings)
    return tuple(factors), (low, high)


def _check_size(high: int, known: int, node: syntax.Each, findings: Findings) -> None:
    if high > known:
        at = node.high.at if node.high else node.low.at
        where = "the schema has" if node.choices is None else "there are"
        findings.fail(f"cannot choose {high} attributes, {where} {known}", at, f"at most {known}")


def _choices(choices: tuple[syntax.Choice, ...], scope: Scope) -> list[OneAttribute]:
    scope.require_distinct([c.name for c in choices], "list")
    attributes = scope.find_attributes([c.name for c in choices])
    for choice in choices:
        if choice.kind is not None and choice.kind.text not in KINDS:
            message = f"'each' has no factor {choice.kind.text!r}"
            scope.findings.fail(message, choice.kind.at, did_you_mean(choice.kind.text, KINDS))
    return [
        KINDS[choice.kind.text](attribute) if choice.kind is not None else default_factor(attribute)
        for choice, attribute in zip(choices, attributes, strict=True)
    ]
