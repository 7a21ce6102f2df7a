"""A syntax tree resolved to a workload; each error of meaning is reported with its position."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from qcompile.grammar.meaning.attributes import resolve_schema
from qcompile.grammar.meaning.families import resolve_family
from qcompile.grammar.meaning.scope import Scope, refuse_repeated
from qcompile.grammar.reading import syntax
from qcompile.grammar.reading.source import At, Findings, Stop
from qcompile.grammar.reading.words import LANGUAGE_VERSION, is_whole
from qcompile.queries.schema import Schema, number_text
from qcompile.queries.workload import WEIGHT_RATIO, Family, Workload

Part = TypeVar("Part", bound=syntax.Node)

_SHAPE = "a file is schema { name : integer 0..9 } and workload { name : prefix(name) }"


def resolve_file(file: syntax.File, findings: Findings, broken: set[str], base: Path) -> Workload | None:
    """Resolve a file to its workload, or to None after reporting the errors.

    Args:
      file: the statements that could be read.
      findings: receives errors and notes; may hold syntax errors already.
      broken: names of schema lines that could not be read.
      base: the folder that matrix files are relative to.
    """
    unread = findings.has_errors()
    _check_language(_only_part(file, syntax.Language, "language", findings), findings)
    scope = _schema(file, findings, broken, unread)
    lines = _workload_lines(file, findings, unread)
    repeated = refuse_repeated([line.name for line in lines if line.name is not None], "family", findings)
    families = [f for line in lines if (f := _family(line, scope, base)) is not None]
    if findings.has_errors() or repeated:
        return None
    merged = _merge(families, findings)
    _check_names(merged, findings)
    _check_weights(merged, findings)
    if findings.has_errors():
        return None
    return Workload(scope.schema, tuple(family for family, _ in merged))


def _only_part(file: syntax.File, kind: type[Part], word: str, findings: Findings) -> Part | None:
    """Return the first part of a kind, and report further ones."""
    parts: list[Part] = [p for p in file.parts if isinstance(p, kind)]
    for part in parts[1:]:
        line = findings.source.line(parts[0].at[0])
        at = (part.at[0], part.at[0] + len(word))
        findings.error(f"a second '{word}'", at, f"the first is on line {line}; a file has one")
    return parts[0] if parts else None


def _check_language(node: syntax.Language | None, findings: Findings) -> None:
    if node is None:
        return
    text = node.version.text
    if not is_whole(text) or int(text) != LANGUAGE_VERSION:
        hint = f"this qcompile reads language {LANGUAGE_VERSION}; a newer one may read the file"
        findings.error(f"unknown version {text} of the language", node.version.at, hint)


def _schema(file: syntax.File, findings: Findings, broken: set[str], unread: bool) -> Scope:
    block = _only_part(file, syntax.SchemaBlock, "schema", findings)
    if block is None:
        if not unread:
            findings.error("the file has no schema", _first_word(findings), _SHAPE)
        return Scope(Schema(()), findings, broken, complete=False)
    if not block.lines and not unread:
        findings.error("the schema is empty", _word(block, "schema"), "declare attributes, such as age : integer 0..99")
        return Scope(Schema(()), findings, broken, complete=False)
    return resolve_schema(block, findings, broken)


def _workload_lines(file: syntax.File, findings: Findings, unread: bool) -> Sequence[syntax.FamilyLine]:
    block = _only_part(file, syntax.WorkloadBlock, "workload", findings)
    if block is None:
        if not unread:
            findings.error("the file has no workload", _first_word(findings), _SHAPE)
        return ()
    if not block.lines and not unread:
        findings.error("the workload is empty", _word(block, "workload"), "list families, such as ages : prefix(age)")
    return block.lines


def _first_word(findings: Findings) -> At:
    """Return the region of the first word of the text."""
    text = findings.source.text
    start = len(text) - len(text.lstrip()) if text.strip() else 0
    return start, start + 1


def _word(block: syntax.Node, word: str) -> At:
    return block.at[0], block.at[0] + len(word)


Placed = tuple[Family, syntax.FamilyLine]


def _family(line: syntax.FamilyLine, scope: Scope, base: Path) -> Placed | None:
    try:
        return resolve_family(line, scope, base), line
    except Stop:
        return None


def _merge(families: Sequence[Placed], findings: Findings) -> list[Placed]:
    """Identical families become one, with the sum of their weights and the other names as aliases."""
    groups: dict[Hashable, list[Placed]] = {}
    for family, line in families:
        groups.setdefault((family.choose, family.factors), []).append((family, line))
    for group in groups.values():
        _check_targets(group, findings)
    return [
        (_merge_same([family for family, _ in group]), _note_repetitions(group, findings)) for group in groups.values()
    ]


def _merge_same(same: Sequence[Family]) -> Family:
    names = dict.fromkeys(family.name for family in same)
    target = next((f.target for f in same if f.target is not None), None)
    return replace(same[0], weight=math.fsum(f.weight for f in same), aliases=tuple(names)[1:], target=target)


def _check_targets(group: Sequence[Placed], findings: Findings) -> None:
    """Identical families have one target, as they are answered once."""
    first: Placed | None = None
    for family, line in group:
        if family.target is None or line.target is None:
            continue
        if first is not None and first[0].target != family.target:
            message = f"families {first[0].name!r} and {family.name!r} have the same queries and different targets"
            findings.error(message, line.target.at, "keep the stricter one")
        first = first or (family, line)


def _note_repetitions(group: Sequence[Placed], findings: Findings) -> syntax.FamilyLine:
    """Return the line of the first of identical families, after a note about each of the others."""
    first, place = group[0]
    for family, line in group[1:]:
        where = findings.source.line(place.at[0])
        message = f"family {family.name!r} has the same queries as {first.name!r} on line {where}"
        findings.note(message, line.at, "they count once, with the sum of their weights")
    return place


def _check_names(families: Sequence[Placed], findings: Findings) -> None:
    """An unnamed family is called by its text, which another family may have as its name."""
    seen: dict[str, syntax.FamilyLine] = {}
    for family, line in families:
        for name in (family.name, *family.aliases):
            if name in seen:
                first = findings.source.line(seen[name].at[0])
                hint = f"the other is on line {first}; an unnamed family is called by its text"
                findings.error(f"two families are called {name!r}", line.at, hint)
            seen[name] = line


def _check_weights(families: Sequence[Placed], findings: Findings) -> None:
    largest = max((f.weight for f, _ in families), default=1.0)
    for family, line in families:
        if largest > WEIGHT_RATIO * family.weight:
            at = line.at if line.weight is None else line.weight.at
            message = (
                f"the weight {number_text(family.weight)} of {family.name!r} is too small beside {number_text(largest)}"
            )
            findings.error(message, at, "weights lie within a factor of 10^6 of the largest")
