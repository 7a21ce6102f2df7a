"""Names and numbers of a file that is resolved, and the errors about them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from qcompile.errors import did_you_mean
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import At, Findings, Stop
from qcompile.grammar.reading.words import is_whole
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Schema

LARGEST = 2**63 - 1
"""Values are held in 64-bit integers."""


@dataclass
class Scope:
    """The schema that names refer to.

    Attributes:
      schema: the attributes that could be resolved.
      findings: receives the errors.
      broken: attributes whose line has an error of its own; their uses are passed over.
      complete: False when the schema itself could not be read, so that no name can be called unknown.
      asked: True for one query that is asked of a release, where an empty condition is an error.
    """

    schema: Schema
    findings: Findings
    broken: set[str] = field(default_factory=set)
    complete: bool = True
    asked: bool = False

    def find_attributes(self, names: Iterable[syntax.Name]) -> list[Attribute]:
        """Return the attributes called ``names``; every unknown one is reported.

        Raises:
          Stop: one is unknown or broken.
        """
        found, missing = [], False
        for name in names:
            if name.text in self.schema:
                found.append(self.schema[name.text])
                continue
            missing = True
            if self.complete and name.text not in self.broken:
                hint = did_you_mean(name.text, self.schema.names) or "declare it in the schema"
                self.findings.error(f"unknown attribute {name.text!r}", name.at, hint)
        if missing:
            raise Stop
        return found

    def find(self, name: syntax.Name) -> Attribute:
        """Return the attribute called ``name``."""
        return self.find_attributes([name])[0]

    def require_distinct(self, names: Sequence[syntax.Name], where: str) -> None:
        """Report a name that occurs twice, at both places.

        Raises:
          Stop: there is one.
        """
        seen: dict[str, At] = {}
        for name in names:
            if name.text in seen:
                first, line = seen[name.text], self.findings.source.line
                self.findings.note(
                    f"attribute {name.text!r} is used here first, and again on line {line(name.at[0])}", first
                )
                hint = "each attribute can occur in one factor only" if where == "product" else "name it once"
                self.findings.fail(f"attribute {name.text!r} is repeated in this {where}", name.at, hint)
            seen[name.text] = name.at


def visual_key(name: str) -> str:
    """Return a key that is equal for names that differ by case or Unicode form only."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def refuse_repeated(names: Sequence[syntax.Name], what: str, findings: Findings) -> set[int]:
    """Report names declared twice, or in two spellings that look alike, at both places.

    Returns:
      The positions in ``names`` of the repetitions.
    """
    seen: dict[str, syntax.Name] = {}
    repeated = set()
    for i, name in enumerate(names):
        first = seen.setdefault(visual_key(name.text), name)
        if first is name:
            continue
        repeated.add(i)
        line = findings.source.line(first.at[0])
        if first.text == name.text:
            findings.error(f"{what} {name.text!r} is declared twice", name.at, f"the first is on line {line}")
        else:
            message = f"{what} {name.text!r} differs from {first.text!r} by case or Unicode form only"
            findings.error(message, name.at, f"the other is on line {line}; choose names that look different")
        again = findings.source.line(name.at[0])
        findings.note(f"{what} {first.text!r} is declared here first, and again on line {again}", first.at)
    return repeated


def integer_value(number: syntax.Number, what: str, findings: Findings) -> int:
    """Return the value of a number that must be an integer of 64 bits.

    Raises:
      Stop: it is not.
    """
    if not is_whole(number.text):
        findings.fail(f"{what} must be a whole number, got {number.text}", number.at, "only integers fit here")
    value = int(number.text)
    if abs(value) > LARGEST:
        findings.fail(f"{what} is too large: {number.text}", number.at, "integers go up to 2^63 - 1 in size")
    return value


def label_value(literal: syntax.Literal, findings: Findings) -> str | int | bool:
    """Return the label of a literal: text, integer or truth value.

    Raises:
      Stop: it is a number that is not an integer.
    """
    match literal:
        case syntax.Text() | syntax.Truth():
            return literal.value
        case syntax.Number():
            if not is_whole(literal.text):
                hint = f'write "{literal.text}" if the data holds text'
                findings.fail(f"a label is text, an integer or true/false, got {literal.text}", literal.at, hint)
            return integer_value(literal, "a label", findings)


def domain_kind(attribute: Attribute) -> str:
    """Name the kind of an attribute's domain, for messages."""
    if isinstance(attribute.domain, CategoryDomain):
        return "a category"
    return "an integer" if isinstance(attribute.domain, IntegerDomain) else "numeric (binned)"
