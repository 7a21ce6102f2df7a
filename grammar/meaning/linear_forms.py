"""Linear forms with integer coefficients, and the thresholds they are compared with.

Sums of integer multiples are read directly. Other shapes (brackets, division) go through SymPy, which is imported only
then; what multiplies attributes with each other is refused before, at the offending term.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn, TypeAlias

from qcompile.errors import IntegrityError
from qcompile.grammar.meaning.reach import require_attainable
from qcompile.grammar.meaning.scope import LARGEST, Scope, domain_kind, integer_value
from qcompile.grammar.printing import printer
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import Findings
from qcompile.grammar.reading.syntax import fold, names_in
from qcompile.grammar.reading.words import name_text
from qcompile.queries.factors import Abs, Affine
from qcompile.queries.factors.threshold import LARGEST_VALUE
from qcompile.queries.schema import Attribute, IntegerDomain

MAX_THRESHOLDS = 10**6
"""Thresholds that one family may list."""

THRESHOLD_EFFORT = 1000
"""Nanoseconds for each threshold that is listed."""

MAX_STEPS = 4000
"""Terms and factors of a form that is no plain sum; a factor of a sum counts once for each of its terms."""

STEP_EFFORT = 300_000
"""Nanoseconds that SymPy takes for each of them."""

MAX_EXPONENT = 62

Linear: TypeAlias = tuple[dict[str, int], int]
"""Coefficients by attribute, in the order of the text, and the constant."""


def resolve_thresholds(node: syntax.Thresholds, scope: Scope) -> Affine | Abs:
    """Resolve ``affine(...)`` or ``abs(...)`` to a factor.

    Raises:
      Stop: after reporting what is wrong.
    """
    findings = scope.findings
    if node.relation in ("=", "!="):
        hint = "families of thresholds use <=, <, >= or >; a single condition belongs in count(...)"
        findings.fail(f"{node.kind} does not compare with '{node.relation}'", node.at, hint)
    names = names_in(node.form)
    used = {a.name: a for a in scope.find_attributes(names)}
    for name in names:
        _require_integers(node.kind, name, used[name.text], findings)
    coefficients, constant = resolve_form(node.form, findings)
    attributes = [used[name] for name in coefficients]
    _require_two(node, attributes, findings)
    shift = constant if node.kind == "affine" else 0
    levels = None if node.bound is None else _levels(node, shift, findings)
    at_least = node.relation in (">=", ">")
    factor: Affine | Abs
    try:
        if node.kind == "affine":
            factor = Affine(attributes, list(coefficients.values()), levels, at_least=at_least)
        else:
            factor = Abs(attributes, list(coefficients.values()), levels, constant=constant, at_least=at_least)
    except IntegrityError as e:
        findings.fail(str(e), node.at, "use smaller coefficients or domains")
    if scope.asked:
        require_attainable(factor, node.at, scope)
    return factor


def _require_integers(kind: str, name: syntax.Name, attribute: Attribute, findings: Findings) -> None:
    if not isinstance(attribute.domain, IntegerDomain):
        why = f"{attribute.name!r} is {domain_kind(attribute)}, so its cells have no single value to calculate with"
        findings.fail(f"{kind} needs integer attributes", name.at, why)
    if attribute.policy.kind == "other":
        why = f"the {attribute.policy.other!r} cell of {attribute.name!r} has no value; use drop or clip in the schema"
        findings.fail(f"{kind} needs a value in every cell", name.at, why)


def _require_two(node: syntax.Thresholds, attributes: Sequence[Attribute], findings: Findings) -> None:
    if not attributes:
        findings.fail(f"this {node.kind} form has no attribute", node.at, "write affine(a + b <= *)")
    if len(attributes) == 1:
        name = name_text(attributes[0].name)
        hint = f"write prefix({name}) for all thresholds, count({name} <= c) for one"
        message = f"{node.kind} needs two or more attributes, this one has {attributes[0].name!r} only"
        findings.fail(message, node.at, hint)


# --- forms ---


def resolve_form(node: syntax.Form, findings: Findings) -> Linear:
    """Resolve a form to coefficients and constant.

    Raises:
      Stop: the form is not linear with integer coefficients, or an attribute cancels.
    """
    coefficients, constant = read_sum(node, findings) or expand_form(node, findings)
    for name in names_in(node):
        if not coefficients.get(name.text):
            hint = "remove it from the form"
            findings.fail(f"attribute {name.text!r} cancels out of {printer.form(node)}", name.at, hint)
    if max(map(abs, [*coefficients.values(), 2 * constant])) >= LARGEST_VALUE:
        _too_large(node, findings)
    return coefficients, constant


def _too_large(node: syntax.Form, findings: Findings) -> NoReturn:
    hint = "coefficients stay below 2^62, constants below 2^61"
    findings.fail(f"the numbers of {printer.form(node)} are too large", node.at, hint)


def read_sum(node: syntax.Form, findings: Findings) -> Linear | None:
    """Read a plain sum of integer multiples; None for a form of another shape."""
    signs, terms = (node.signs, node.terms) if isinstance(node, syntax.Sum) else (("+",), (node,))
    coefficients: dict[str, int] = {}
    constant = 0
    for sign, term in zip(signs, terms, strict=True):
        read = _multiple(term, findings)
        if read is None:
            return None
        factor, name = read
        factor = -factor if sign == "-" else factor
        if name is None:
            constant += factor
        else:
            coefficients[name] = coefficients.get(name, 0) + factor
    return coefficients, constant


def _multiple(term: syntax.Form, findings: Findings) -> tuple[int, str | None] | None:
    """A number, an attribute, or one number times one attribute."""
    match term:
        case syntax.Name():
            return 1, term.text
        case syntax.Number():
            return integer_value(term, _COEFFICIENT, findings), None
        case syntax.Multiple(signs=("*", "*"), terms=(syntax.Number() as n, syntax.Name() as a)):
            return integer_value(n, _COEFFICIENT, findings), a.text
        case syntax.Multiple(signs=("*", "*"), terms=(syntax.Name() as a, syntax.Number() as n)):
            return integer_value(n, _COEFFICIENT, findings), a.text
        case _:
            return None


_COEFFICIENT = "a number in a form"


def expand_form(node: syntax.Form, findings: Findings) -> Linear:
    """Expand a form with SymPy.

    Raises:
      Stop: it is not linear, or a coefficient is not an integer.
    """
    _refuse_long(node, findings)
    import sympy

    names = list(dict.fromkeys(n.text for n in names_in(node)))
    # Plain symbols: an attribute may be called E, I or lambda.
    symbols = {name: sympy.Symbol(f"x{i}") for i, name in enumerate(names)}
    reader = _Reader(sympy, symbols, findings)
    expression = sympy.expand(fold(node, reader.read))
    found = expression.as_coefficients_dict()
    coefficients = {name: found.get(symbol, sympy.S.Zero) for name, symbol in symbols.items()}
    constant = found.get(sympy.S.One, sympy.S.Zero)
    for name, value in [*coefficients.items(), (None, constant)]:
        if max(abs(value.p), value.q) > LARGEST:
            _too_large(node, findings)
        if not value.is_Integer:
            what = f"the coefficient of {name!r}" if name is not None else "the constant"
            hint = f"multiply both sides by {value.q}"
            findings.fail(f"{what} in {printer.form(node)} is {value}, not an integer", node.at, hint)
    return {name: int(value) for name, value in coefficients.items()}, int(constant)


def _refuse_long(node: syntax.Form, findings: Findings) -> None:
    _, steps = fold(node, partial(_steps_of, len({n.text for n in names_in(node)}) + 1))
    hint = "write a sum of integer multiples, such as 2*a - b"
    if steps > MAX_STEPS:
        findings.fail(f"this form takes {steps} steps to expand, at most {MAX_STEPS} are done", node.at, hint)
    findings.spend(STEP_EFFORT * steps, f"this form of {steps} steps", node.at, hint)


def _steps_of(widest: int, node: syntax.Tree, parts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the largest number of terms of an expanded node, and the steps to expand it."""
    if not parts:
        return 1, 0
    widths = [width for width, _ in parts]
    before = sum(steps for _, steps in parts)
    if isinstance(node, syntax.Sum):
        return min(sum(widths), widest), before + sum(widths)
    # All but one of the factors are numbers: the widest is multiplied by each of the others.
    return max(widths), before + max(widths) * len(parts)


class _Reader:
    """Turns form nodes into SymPy expressions of degree one, refusing what would exceed it."""

    def __init__(self, sympy: Any, symbols: dict[str, Any], findings: Findings) -> None:
        self.sympy, self.symbols, self.findings = sympy, symbols, findings

    def read(self, node: syntax.Tree, parts: Sequence[Any]) -> Any:
        """Return the expression of a node from those of its parts."""
        match node:
            case syntax.Name():
                return self.symbols[node.text]
            case syntax.Number():
                return self.sympy.Integer(integer_value(node, _COEFFICIENT, self.findings))
            case syntax.Sum():
                return self.sympy.Add(*(p if s == "+" else -p for s, p in zip(node.signs, parts, strict=True)))
            case syntax.Multiple():
                return self._multiple(node, parts)
            case syntax.Power():
                return self._power(node, parts[0])
            case _:
                raise TypeError(type(node))

    def _multiple(self, node: syntax.Multiple, parts: Sequence[Any]) -> Any:
        result = self.sympy.Integer(1)
        for i, (sign, part) in enumerate(zip(node.signs, parts, strict=True)):
            if sign == "/" and part.free_symbols:
                self._not_linear(node, f"it divides by {printer.form(node.terms[i])}")
            if sign == "/" and self.sympy.expand(part) == 0:
                self.findings.fail(f"{printer.form(node)} divides by zero", node.at, "remove the division")
            if result.free_symbols and part.free_symbols:
                self._not_linear(node, "it multiplies attributes with each other")
            result = self.sympy.expand(result * part if sign == "*" else result / part)
        return self._require_bounded(node, result)

    def _power(self, node: syntax.Power, base: Any) -> Any:
        exponent = integer_value(node.exponent, "an exponent", self.findings)
        if not 0 <= exponent <= MAX_EXPONENT:
            hint = "write the number itself"
            self.findings.fail(f"the exponent {exponent} is outside 0..{MAX_EXPONENT}", node.exponent.at, hint)
        if base.free_symbols and exponent != 1:
            self._not_linear(node, "it raises an attribute to a power")
        return self._require_bounded(node, base**exponent)

    def _require_bounded(self, node: syntax.Form, value: Any) -> Any:
        if not value.free_symbols and max(abs(value.p), value.q) > LARGEST:
            self.findings.fail(f"{printer.form(node)} is too large", node.at, "numbers go up to 2^63 - 1 in size")
        return value

    def _not_linear(self, node: syntax.Form, why: str) -> None:
        hint = f"{why}; a form is a sum of integer multiples of attributes, such as 2*a - b"
        self.findings.fail(f"the term {printer.form(node)} is not linear", node.at, hint)


# --- thresholds ---


def _levels(node: syntax.Thresholds, constant: int, findings: Findings) -> list[int]:
    """Return the thresholds, ascending, with the constant of the form moved to their side."""
    shift = {"<": -1, ">": 1}.get(node.relation, 0) - constant
    levels: set[int] = set()
    for steps in node.bound or ():
        spaced = _expand_steps(steps, findings)
        _spend(len(spaced), steps, findings)
        for level in spaced:
            if level in levels:
                findings.fail(f"the threshold {level} is listed twice", steps.at, "remove one")
            levels.add(level)
            if len(levels) > MAX_THRESHOLDS:
                _too_many(len(levels), steps, findings)
    return sorted(level + shift for level in levels)


def _spend(count: int, steps: syntax.Steps, findings: Findings) -> None:
    hint = "use larger steps, <= * for the attainable ones, or several texts"
    findings.spend(THRESHOLD_EFFORT * count, f"a list of {count} thresholds", steps.at, hint)


def _expand_steps(steps: syntax.Steps, findings: Findings) -> range:
    low = _level(steps.low, findings)
    if steps.high is None:
        return range(low, low + 1)
    high = _level(steps.high, findings)
    by = 1 if steps.by is None else integer_value(steps.by, "a step", findings)
    if by < 1:
        findings.fail(f"a step must be at least 1, got {by}", steps.by.at if steps.by else steps.at, "write step 10")
    if high < low:
        findings.fail(f"the interval {low}..{high} is empty", steps.at, f"write {high}..{low}")
    if (high - low) // by >= MAX_THRESHOLDS:
        _too_many((high - low) // by + 1, steps, findings)
    return range(low, high + 1, by)


def _level(number: syntax.Number, findings: Findings) -> int:
    level = integer_value(number, "a threshold", findings)
    if abs(level) >= LARGEST_VALUE // 2:
        findings.fail(f"the threshold {level} is too large", number.at, "no value of a form is that large")
    return level


def _too_many(count: int, steps: syntax.Steps, findings: Findings) -> None:
    hint = f"at most {MAX_THRESHOLDS} can be listed; use a larger step, or <= * for the attainable ones"
    findings.fail(f"{count} or more thresholds are too many", steps.at, hint)
