"""The canonical text of a syntax tree. Reading it back gives the same queries, printing that the same text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.syntax import fold
from qcompile.grammar.reading.words import canonical_number, is_whole, name_text, string_text

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "!=": "!="}
"""Relations with their sides exchanged."""

_LOOSE, _TIGHT, _ATOM = 0, 1, 2


def names(nodes: Iterable[syntax.Name]) -> str:
    """Print names, separated by commas."""
    return ", ".join(name_text(n.text) for n in nodes)


def operand(node: syntax.Operand) -> str:
    """Print a name or a constant."""
    match node:
        case syntax.Name():
            return name_text(node.text)
        case syntax.Number():
            return canonical_number(node.text)
        case syntax.Text():
            return string_text(node.value)
        case syntax.Truth():
            return "true" if node.value else "false"


def operands(nodes: Iterable[syntax.Operand]) -> str:
    """Print names or constants, separated by commas."""
    return ", ".join(map(operand, nodes))


# --- schema ---


def opening(block: syntax.SchemaBlock | syntax.WorkloadBlock) -> str:
    """Print the words before the brace of a block."""
    if isinstance(block, syntax.WorkloadBlock):
        return "workload"
    return "schema read_from_data" if block.read_from_data else "schema"


def domain(node: syntax.Integers | syntax.Bins | syntax.Categories) -> str:
    """Print a domain."""
    match node:
        case syntax.Integers():
            return f"integer {operand(node.low)}..{operand(node.high)}"
        case syntax.Bins():
            return f"numeric [{operands(node.edges)}{']' if node.closed else ')'}"
        case syntax.Categories():
            return f"category {{{operands(node.labels)}}}"


def modifiers(nodes: Sequence[syntax.Modifier]) -> str:
    """Print the modifiers, ``cyclic`` first, each after a blank."""
    ordered = sorted(nodes, key=lambda m: m.kind != "cyclic")
    return "".join(f" {m.kind}" + (f" {operand(m.label)}" if m.label else "") for m in ordered)


# --- forms ---


def form(node: syntax.Form) -> str:
    """Print a form, linear or not."""
    return fold(node, _form)[0]


def _form(node: syntax.Tree, parts: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Return the text of a node and its binding strength."""
    match node:
        case syntax.Sum():
            text = "".join(
                _sign(sign, first=i == 0) + _enclose(part, _LOOSE if i == 0 and sign == "+" else _TIGHT)
                for i, (sign, part) in enumerate(zip(node.signs, parts, strict=True))
            )
            return text, _LOOSE
        case syntax.Multiple():
            first, *rest = parts
            text = _enclose(first, _TIGHT)
            for sign, part in zip(node.signs[1:], rest, strict=True):
                text += sign + _enclose(part, _ATOM)
            return text, _TIGHT
        case syntax.Power():
            return f"{_enclose(parts[0], _ATOM)}^{operand(node.exponent)}", _TIGHT
        case syntax.Name() | syntax.Number():
            return operand(node), _ATOM
        case _:
            raise TypeError(type(node))


def _sign(sign: str, *, first: bool) -> str:
    if first:
        return "-" if sign == "-" else ""
    return f" {sign} "


def _enclose(part: tuple[str, int], least: int) -> str:
    text, binding = part
    return text if binding >= least else f"({text})"


def thresholds(node: syntax.Thresholds) -> str:
    """Print ``affine(form <= bound)``; strict relations become weak ones on integers."""
    relation, shift = {"<": ("<=", -1), ">": (">=", 1)}.get(node.relation, (node.relation, 0))
    if node.bound is None:
        bound = "*"
    else:
        listed = [_steps(s, shift) for s in node.bound]
        bound = listed[0] if len(listed) == 1 else "{" + ", ".join(listed) + "}"
    return f"{node.kind}({form(node.form)} {relation} {bound})"


def _steps(node: syntax.Steps, shift: int) -> str:
    text = _shift(node.low, shift)
    if node.high is not None:
        text += f"..{_shift(node.high, shift)}"
    if node.by is not None and node.by.text.lstrip("0") != "1":
        text += f" step {operand(node.by)}"
    return text


def _shift(number: syntax.Number, shift: int) -> str:
    return str(int(number.text) + shift) if is_whole(number.text) else number.text


# --- predicates ---


def predicate(node: syntax.Predicate) -> str:
    """Print a condition, with the attribute before the constant and without needless brackets."""
    return fold(node, _predicate)[0]


_OR, _AND, _NOT = 0, 1, 2


def _predicate(node: syntax.Tree, parts: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Return the text of a node and its binding strength."""
    match node:
        case syntax.Or():
            return " or ".join(text for text, _ in parts), _OR
        case syntax.And():
            return " and ".join(_enclose(p, _AND) for p in parts), _AND
        case syntax.Not():
            return f"not {_enclose(parts[0], _NOT)}", _NOT
        case syntax.Comparison():
            return _comparison(node), _NOT
        case syntax.Between():
            return f"{operand(node.subject)} in {operand(node.low)}..{operand(node.high)}", _NOT
        case syntax.Among():
            return f"{operand(node.subject)} in {{{operands(node.labels)}}}", _NOT
        case _:
            raise TypeError(type(node))


def _comparison(node: syntax.Comparison) -> str:
    if isinstance(node.right, syntax.Name) and not isinstance(node.left, syntax.Name):
        return f"{operand(node.right)} {FLIPPED[node.relation]} {operand(node.left)}"
    return f"{operand(node.left)} {node.relation} {operand(node.right)}"


# --- workload ---


def factor(node: syntax.FactorNode) -> str:
    """Print one factor of a product."""
    match node:
        case syntax.TotalNode():
            return "total"
        case syntax.Simple():
            return f"{node.kind}({names(node.names)})"
        case syntax.Thresholds():
            return thresholds(node)
        case syntax.RandomQueries():
            order = {"p": 0, "count": 1, "seed": 2}
            options = sorted(node.options, key=lambda o: order.get(o.name, 3))
            listed = ", ".join(f"{o.name} = {operand(o.value)}" for o in options)
            return f"random({names(node.names)}{'; ' if options else ''}{listed})"
        case syntax.MatrixFile():
            return f"matrix({names(node.names)}; {operand(node.path)})"
        case syntax.Count():
            return f"count({predicate(node.predicate)})"


def expression(node: syntax.Expression) -> str:
    """Print the queries of a family."""
    if isinstance(node, syntax.ProductNode):
        # The total is the neutral element of the product.
        factors = [f for f in node.factors if not isinstance(f, syntax.TotalNode)]
        return " * ".join(map(factor, factors)) or "total"
    sizes = operand(node.low)
    if node.high is not None and operand(node.high) != sizes:
        sizes += f"..{operand(node.high)}"
    if node.choices is None:
        return f"each {sizes} of all"
    return f"each {sizes} of ({', '.join(map(_choice, node.choices))})"


def _choice(node: syntax.Choice) -> str:
    return name_text(node.name.text) + (f": {node.kind.text}" if node.kind else "")


def weight(number: syntax.Number | None) -> str:
    """`` weight w``, or nothing for the weight 1."""
    text = "1" if number is None else operand(number)
    return "" if text == "1" else f" weight {text}"


def target(node: syntax.TargetNode | None) -> str:
    """`` target t``, with ``%`` and ``max`` where they stand; or nothing."""
    if node is None:
        return ""
    percent, largest = " %" if node.percent else "", " max" if node.largest else ""
    return f" target {operand(node.std_error)}{percent}{largest}"
