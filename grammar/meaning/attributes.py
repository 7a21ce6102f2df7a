"""Schema lines to attributes."""

from __future__ import annotations

import math

from qcompile.grammar.meaning.scope import Scope, integer_value, label_value, refuse_repeated
from qcompile.grammar.printing.printer import operand
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import At, Findings, Stop
from qcompile.queries.schema import (
    Attribute,
    CategoryDomain,
    Domain,
    IntegerDomain,
    Label,
    NumericDomain,
    Policy,
    Schema,
    number_text,
)

POLICIES = ("clip", "drop", "other")


def resolve_schema(block: syntax.SchemaBlock, findings: Findings, broken: set[str]) -> Scope:
    """Resolve a schema block to its scope; lines with an error are reported and left out.

    Args:
      block: the block.
      findings: receives the errors.
      broken: names of lines that could not even be parsed; names that fail here are added.
    """
    repeated = refuse_repeated([line.name for line in block.lines], "attribute", findings)
    attributes = []
    for i, line in enumerate(block.lines):
        try:
            attribute = resolve_attribute(line, findings)
        except Stop:
            broken.add(line.name.text)
            continue
        if i not in repeated:
            attributes.append(attribute)
        else:
            broken.add(line.name.text)
    return Scope(Schema(tuple(attributes), block.read_from_data), findings, broken)


def resolve_attribute(line: syntax.AttributeLine, findings: Findings) -> Attribute:
    """Resolve one attribute.

    Raises:
      Stop: after reporting what is wrong with it.
    """
    domain = _domain(line.domain, findings)
    by_kind: dict[str, syntax.Modifier] = {}
    for modifier in line.modifiers:
        if modifier.kind in by_kind:
            findings.fail(f"'{modifier.kind}' is given twice", modifier.at, "remove one")
        by_kind[modifier.kind] = modifier
    chosen = [m for m in line.modifiers if m.kind in POLICIES]
    if len(chosen) > 1:
        hint = "an attribute has one policy for nulls and other values: clip, drop or other"
        findings.fail(f"'{chosen[0].kind}' and '{chosen[1].kind}' exclude each other", chosen[1].at, hint)
    policy = _policy(chosen[0], domain, "cyclic" in by_kind, findings) if chosen else Policy()
    return Attribute(line.name.text, domain, policy, "cyclic" in by_kind)


def _policy(modifier: syntax.Modifier, domain: Domain, cyclic: bool, findings: Findings) -> Policy:
    if modifier.kind == "clip" and cyclic:
        findings.fail("a cyclic attribute has no ends to clip to", modifier.at, "use drop or other instead of clip")
    if modifier.kind == "clip" and isinstance(domain, CategoryDomain):
        findings.fail("a category cannot be clipped: it has no nearest end", modifier.at, 'use drop or other "label"')
    if modifier.label is None:
        return Policy("clip" if modifier.kind == "clip" else "drop")
    label = modifier.label.value
    if _is_listed(label, domain):
        findings.fail(f"the label {label!r} is already in the domain", modifier.label.at, "choose another label")
    return Policy("other", label)


def _is_listed(label: str, domain: Domain) -> bool:
    """True if a cell of the domain has this label; integer domains can be too large to list."""
    if isinstance(domain, IntegerDomain):
        ends = (domain.low, domain.high)
        digits = label.removeprefix("-")
        short = digits.isdecimal() and digits.isascii() and len(digits) < 20
        return short and str(int(label)) == label and ends[0] <= int(label) <= ends[1]
    return any(domain.label(code) == label for code in range(domain.size))


def _domain(node: syntax.Integers | syntax.Bins | syntax.Categories, findings: Findings) -> Domain:
    match node:
        case syntax.Integers():
            low = integer_value(node.low, "the low end of an integer domain", findings)
            high = integer_value(node.high, "the high end of an integer domain", findings)
            if high < low:
                findings.fail(f"the interval {low}..{high} is empty", node.at, f"write {high}..{low}")
            return IntegerDomain(low, high)
        case syntax.Bins():
            return NumericDomain(_edges(node, findings), node.closed)
        case syntax.Categories():
            return CategoryDomain(_labels(node, findings))


def _edges(node: syntax.Bins, findings: Findings) -> tuple[float, ...]:
    if len(node.edges) < 2:
        findings.fail("one edge makes no bin", node.at, "list at least two edges, such as [0, 10]")
    edges: list[float] = []
    for i, edge in enumerate(node.edges, start=1):
        value = float(edge.text) + 0.0
        if not math.isfinite(value):
            findings.fail(f"edge {i} ({edge.text}) is too large for a double", edge.at, "edges must be finite")
        if edges and not edges[-1] < value:
            _not_increasing(i, edge, edges[-1], value, findings)
        edges.append(value)
    return tuple(edges)


def _not_increasing(i: int, edge: syntax.Number, before: float, value: float, findings: Findings) -> None:
    if before == value:
        message = f"edge {i} ({edge.text}) equals edge {i - 1} ({number_text(before)})"
        hint = "edges must be strictly increasing, also as double-precision numbers"
    else:
        message = f"edge {i} ({edge.text}) is below edge {i - 1} ({number_text(before)})"
        hint = "edges must be strictly increasing"
    findings.fail(message, edge.at, hint)


def _labels(node: syntax.Categories, findings: Findings) -> tuple[Label, ...]:
    seen: dict[tuple[type, Label], At] = {}
    for literal in node.labels:
        label = label_value(literal, findings)
        key = (type(label), label)
        if key in seen:
            findings.note(f"the label {operand(literal)} is listed here first", seen[key])
            findings.fail(f"the label {operand(literal)} is listed twice", literal.at, "remove one")
        seen[key] = literal.at
    return tuple(label for _, label in seen)
