"""From Lark's parse tree to the syntax tree: one method per rule of the grammar.

This module imports Lark; import it only where a text is parsed.
"""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer_NonRecursive, v_args
from lark.tree import Meta

from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import At
from qcompile.grammar.reading.words import read_name, read_string


def region(meta: Meta) -> At:
    """Return the region of a tree; `NOWHERE` for an empty one."""
    return syntax.NOWHERE if meta.empty else (meta.start_pos, meta.end_pos)


def token_region(token: Token) -> At:
    """Return the region of a token."""
    return (token.start_pos or 0, token.end_pos or 0)


def _name(token: Token) -> syntax.Name:
    return syntax.Name(read_name(token), at=token_region(token))


def _text(token: Token) -> syntax.Text:
    return syntax.Text(read_string(token), at=token_region(token))


@v_args(meta=True)
class TreeBuilder(Transformer_NonRecursive[Any, Any]):
    """TreeBuilder `qcompile.grammar.reading.syntax` nodes; children arrive in the order of the grammar's rule."""

    def __init__(self) -> None:
        super().__init__(visit_tokens=False)

    # --- words ---

    def name(self, meta: Meta, children: list[Token]) -> syntax.Name:
        """``NAME | QUOTED``."""
        return _name(children[0])

    def label(self, meta: Meta, children: list[Token]) -> syntax.Name:
        """The name of a family, which may be any word."""
        return _name(children[0])

    def number(self, meta: Meta, children: list[Token]) -> syntax.Number:
        """An unsigned number."""
        return syntax.Number(str(children[0]), at=region(meta))

    def signed(self, meta: Meta, children: list[Token | None]) -> syntax.Number:
        """A number with an optional minus sign."""
        return syntax.Number("".join(c for c in children if c), at=region(meta))

    def literal(self, meta: Meta, children: list[Any]) -> syntax.Literal:
        """A text, a truth value or a number."""
        value = children[0]
        if isinstance(value, syntax.Number):
            return value
        return _text(value) if value.type == "STRING" else syntax.Truth(value.type == "TRUE", at=region(meta))

    def names(self, meta: Meta, children: list[syntax.Name]) -> tuple[syntax.Name, ...]:
        """A list of attributes."""
        return tuple(children)

    # --- schema ---

    def integers(self, meta: Meta, children: list[syntax.Number]) -> syntax.Integers:
        """``integer low..high``."""
        return syntax.Integers(children[0], children[1], at=region(meta))

    def bins(self, meta: Meta, children: list[Any]) -> syntax.Bins:
        """The edges, then the closing bracket."""
        return syntax.Bins(tuple(children[:-1]), children[-1].type == "CLOSED", at=region(meta))

    def categories(self, meta: Meta, children: list[syntax.Literal]) -> syntax.Categories:
        """The labels."""
        return syntax.Categories(tuple(children), at=region(meta))

    def modifier(self, meta: Meta, children: list[Token]) -> syntax.Modifier:
        """A word and, after ``other``, a text."""
        label = _text(children[1]) if len(children) == 2 else None
        return syntax.Modifier(str(children[0]), label, at=region(meta))

    def attribute(self, meta: Meta, children: list[Any]) -> syntax.AttributeLine:
        """Name, domain, modifiers."""
        name, domain, *modifiers = children
        return syntax.AttributeLine(name, domain, tuple(modifiers), at=region(meta))

    # --- forms ---

    def sum(self, meta: Meta, children: list[Any]) -> syntax.Form:
        """An optional sign, then terms with signs between; a single term stays itself."""
        signs = ("-" if children[0] else "+", *map(str, children[2::2]))
        terms = tuple(children[1::2])
        return terms[0] if signs == ("+",) else syntax.Sum(signs, terms, at=region(meta))

    def multiple(self, meta: Meta, children: list[Any]) -> syntax.Form:
        """Factors with signs between; a single factor stays itself."""
        if len(children) == 1:
            return children[0]  # type: ignore[no-any-return]  # a form
        return syntax.Multiple(("*", *map(str, children[1::2])), tuple(children[0::2]), at=region(meta))

    def power(self, meta: Meta, children: list[Any]) -> syntax.Power:
        """Base, sign, exponent."""
        return syntax.Power(children[0], children[2], at=region(meta))

    def steps(self, meta: Meta, children: list[Any]) -> syntax.Steps:
        """Low, and if given high and step."""
        return syntax.Steps(*children, at=region(meta))

    def bound(self, meta: Meta, children: list[Any]) -> tuple[syntax.Steps, ...] | None:
        """The thresholds, or None for ``*``."""
        return None if isinstance(children[0], Token) else tuple(children)

    # --- predicates ---

    def comparison(self, meta: Meta, children: list[Any]) -> syntax.Comparison:
        """Operand, relation, operand."""
        return syntax.Comparison(children[0], str(children[1]), children[2], at=region(meta))

    def between(self, meta: Meta, children: list[Any]) -> syntax.Between:
        """Operand, low, high."""
        return syntax.Between(*children, at=region(meta))

    def among(self, meta: Meta, children: list[Any]) -> syntax.Among:
        """Operand, labels."""
        return syntax.Among(children[0], tuple(children[1:]), at=region(meta))

    def negation(self, meta: Meta, children: list[Any]) -> syntax.Not:
        """``not`` and what it negates."""
        return syntax.Not(children[0], at=region(meta))

    def conjunction(self, meta: Meta, children: list[Any]) -> syntax.Predicate:
        """Parts joined by ``and``; a single part stays itself."""
        return children[0] if len(children) == 1 else syntax.And(tuple(children), at=region(meta))

    def disjunction(self, meta: Meta, children: list[Any]) -> syntax.Predicate:
        """Parts joined by ``or``; a single part stays itself."""
        return children[0] if len(children) == 1 else syntax.Or(tuple(children), at=region(meta))

    # --- workload ---

    def total(self, meta: Meta, children: list[Token]) -> syntax.TotalNode:
        """``total``."""
        return syntax.TotalNode(at=region(meta))

    def simple(self, meta: Meta, children: list[Any]) -> syntax.Simple:
        """Kind and names."""
        return syntax.Simple(str(children[0]), children[1], at=region(meta))

    def threshold(self, meta: Meta, children: list[Any]) -> syntax.Thresholds:
        """Kind, form, and if given relation and bound; without them all attainable thresholds are meant."""
        kind, form = children[:2]
        relation, bound = children[2:] if len(children) == 4 else ("<=", None)
        return syntax.Thresholds(str(kind), form, str(relation), bound, at=region(meta))

    def option(self, meta: Meta, children: list[Any]) -> syntax.Option:
        """Name and value."""
        return syntax.Option(str(children[0]), children[1], at=region(meta))

    def random(self, meta: Meta, children: list[Any]) -> syntax.RandomQueries:
        """Keyword, names, options."""
        options = tuple(c for c in children[2:] if c is not None)
        return syntax.RandomQueries(children[1], options, at=region(meta))

    def matrix(self, meta: Meta, children: list[Any]) -> syntax.MatrixFile:
        """Keyword, names, path."""
        return syntax.MatrixFile(children[1], _text(children[2]), at=region(meta))

    def count(self, meta: Meta, children: list[Any]) -> syntax.Count:
        """Keyword, predicate."""
        return syntax.Count(children[1], at=region(meta))

    def product(self, meta: Meta, children: list[Any]) -> syntax.ProductNode:
        """Factors."""
        return syntax.ProductNode(tuple(children), at=region(meta))

    def choice(self, meta: Meta, children: list[Any]) -> syntax.Choice:
        """Name, and the word that names its factor if given."""
        kind = None if children[1] is None else _name(children[1])
        return syntax.Choice(children[0], kind, at=region(meta))

    def each(self, meta: Meta, children: list[Any]) -> syntax.Each:
        """Keyword, sizes, then ``all`` or the choices."""
        _, low, high, *rest = children
        choices = None if isinstance(rest[0], Token) else tuple(rest)
        return syntax.Each(low, high, choices, at=region(meta))

    def target(self, meta: Meta, children: list[Any]) -> syntax.TargetNode:
        """The standard error, the per cent sign and ``max``."""
        number, percent, largest = children
        return syntax.TargetNode(number, percent is not None, largest is not None, at=region(meta))

    def family(self, meta: Meta, children: list[Any]) -> syntax.FamilyLine:
        """Name, expression, weight, target."""
        return syntax.FamilyLine(*children, at=region(meta))

    # --- file ---

    def language(self, meta: Meta, children: list[Any]) -> syntax.Language:
        """The version."""
        return syntax.Language(children[0], at=region(meta))

    def schema(self, meta: Meta, children: list[Any]) -> syntax.SchemaBlock:
        """Opening words, attribute lines; the last is None when the block ends after a separator."""
        opening, *lines = children
        read_from_data = str(opening) != "schema"
        return syntax.SchemaBlock(tuple(c for c in lines if c is not None), read_from_data, at=region(meta))

    def workload(self, meta: Meta, children: list[Any]) -> syntax.WorkloadBlock:
        """Family lines; the last is None when the block ends after a separator."""
        return syntax.WorkloadBlock(tuple(c for c in children if c is not None), at=region(meta))

    def file(self, meta: Meta, children: list[Any]) -> syntax.File:
        """The parts."""
        return syntax.File(tuple(children), at=region(meta))

    def query(self, meta: Meta, children: list[Any]) -> syntax.Expression:
        """The expression."""
        return children[0]  # type: ignore[no-any-return]  # an expression
