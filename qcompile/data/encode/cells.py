"""Encoding: from the values of a column to the cells of its attribute, as Ibis expressions.

Two stages. `parse_column` reads a column by its declared type: a double, text, or true/false, with null for all
values of other types. `assign_codes` maps that to the cell's number and applies the attribute's policy. Both are
plain SQL, so that they mean the same on every engine.

Numbers are read as doubles, whatever their type: domains end below 2^53, so no value can be mistaken. The edges of
bins are rounded to the column's type first, see `edges`.

The two codes after an attribute's last cell are signals: `refused_code(a)` for a value that no policy
covers (an error) and `dropped_code(a)` for one that takes its row out of all counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from qcompile.data.encode.edges import fit_to_column
from qcompile.data.sources.columns import Kind, SourceTable, declared_kinds, label_kind
from qcompile.errors import DataError
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Schema

EXACT = 2**53
"""Integers up to here are exact as doubles."""

LONG_LIST = 64
"""Categories that are compared one by one; longer lists are joined."""

CODE_DIGITS = 10
"""Digits of a code in a lookup."""

SPACE = "[ \t\n\f\r]*"

NUMBER = f"^{SPACE}[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?){SPACE}$"
"""Texts that are numbers. Engines differ in the other texts that they would take: 0x1F, 1_000, 1d, nan."""


def encode_columns(source: SourceTable, schema: Schema, **beside: Any) -> Any:
    """Return the Ibis table of codes: columns ``c0, c1, ...`` in schema order, of `code_dtype` where the engine has it.

    Args:
      source: whose first columns are the attributes.
      schema: the attributes.
      beside: further columns of the result, by name: expressions over the source's table.

    Raises:
      DataError: a domain cannot be matched, see `require_encodable`.
    """
    values = parse_table(source, schema, **beside)
    codes = {f"c{i}": code_column(source, values, i, attribute) for i, attribute in enumerate(schema)}
    return values.select(**codes, **{name: values[name] for name in beside})


def parse_table(source: SourceTable, schema: Schema, **beside: Any) -> Any:
    """Parse all columns: ``c<i>_<kind>``, and ``c<i>_found`` where the code is looked up already."""
    for attribute in schema:
        require_encodable(attribute, text=source.kinds is None)
    stage: dict[str, Any] = {}
    for i, attribute in enumerate(schema):
        stage |= {f"c{i}_{kind}": parse_column(source, i, kind) for kind in declared_kinds(attribute)}
    # view() keeps the stages apart: merged, each of the many comparisons would parse its text again.
    values = source.table.select(**stage, **beside).view()
    return _join_lookups(values, schema) if source.lists else values


def code_column(source: SourceTable, values: Any, position: int, attribute: Attribute) -> Any:
    """Return the codes of one attribute, over the result of `parse_table`."""
    start = f"c{position}_"
    columns = {name.removeprefix(start): values[name] for name in values.columns if name.startswith(start)}
    fitted = fit_to_column(attribute, source, position)
    return assign_codes(fitted, columns).cast(str(code_dtype(attribute)) if source.unsigned else "int64")


def _join_lookups(values: Any, schema: Schema) -> Any:
    """Join the codes of long lists of categories as columns ``c<i>_found``, null where there is none."""
    for i, attribute in enumerate(schema):
        if _is_long(attribute):
            (kind,) = declared_kinds(attribute)
            lookup = _lookup_table(attribute, kind, i)
            joined = values.left_join(lookup, values[f"c{i}_{kind}"] == lookup[f"label_{i}"])
            values = joined.drop(f"label_{i}")
    return values


def _lookup_table(attribute: Attribute, kind: Kind, position: int) -> Any:
    """Return a table of labels and codes that is part of the query: it needs no right to write on any engine.

    Code and label stand in one text each, as engines differ in how they unpack several lists side by side.
    """
    import ibis

    pairs = [f"{code:0{CODE_DIGITS}d}{label}" for code, label in enumerate(attribute.domain_labels)]
    table = ibis.array(pairs).unnest().name("pair").as_table()
    label = table.pair.substr(CODE_DIGITS)
    return table.select(
        **{
            f"label_{position}": label.cast("float64") if kind == "number" else label,
            f"c{position}_found": table.pair.substr(0, CODE_DIGITS).cast("int64"),
        }
    ).view()


def _is_long(attribute: Attribute) -> bool:
    # Measured on 10^6 rows: 1000 comparisons take 1 s, the join 0.03 s; for ten categories they are alike.
    return len(attribute.domain_labels) > LONG_LIST and len(declared_kinds(attribute)) == 1


def code_dtype(attribute: Attribute) -> np.dtype[Any]:
    """Return the smallest unsigned type that holds the cells and the two signals."""
    return np.min_scalar_type(dropped_code(attribute))


def refused_code(attribute: Attribute) -> int:
    """Return the signal for a value that no policy covers."""
    return attribute.size


def dropped_code(attribute: Attribute) -> int:
    """Return the signal for a value that takes its row out of all counts."""
    return attribute.size + 1


def require_encodable(attribute: Attribute, *, text: bool) -> None:
    """Refuse domains whose values could be mistaken for others.

    Raises:
      DataError: integers beyond 2^53, or (in text) categories that are written alike.
    """
    domain = attribute.domain
    numbers: list[int] = []
    if isinstance(domain, IntegerDomain):
        numbers = [domain.low, domain.high]
    elif isinstance(domain, CategoryDomain):
        numbers = [label for label in domain.labels if isinstance(label, int)]
        texts = [domain.label(code) for code in range(domain.size)]
        if text and len(set(texts)) < len(texts):
            raise DataError(
                f"attribute {attribute.name!r}: two labels differ in type only, so a CSV file cannot tell them apart; "
                "keep one of them"
            )
    if any(abs(n) >= EXACT for n in numbers):
        raise DataError(f"attribute {attribute.name!r}: integers must be below 2^53 in absolute value; shift the data")


def parse_column(source: SourceTable, position: int, kind: Kind) -> Any:
    """Return a column as doubles, text or booleans; null where it is none, NaN included."""
    import ibis

    column = source.table[f"c{position}"]
    if source.kinds is None:
        return _parse_text(column, kind)
    if source.kinds[position] == "null":
        return ibis.null({"number": "float64", "text": "string", "flag": "boolean"}[kind])
    return source.double(position) if kind == "number" else column


def _parse_text(column: Any, kind: Kind) -> Any:
    """Parse a CSV field by its declared type. Spaces around numbers are allowed; text is taken as it is."""
    import ibis

    if kind == "number":
        return ibis.ifelse(column.re_search(NUMBER), column.try_cast("float64"), None)
    if kind == "flag":
        return ibis.cases((column.lower() == "true", True), (column.lower() == "false", False), else_=None)
    return column


def assign_codes(attribute: Attribute, columns: dict[str, Any]) -> Any:
    """Return the code of each row: a cell in ``range(size)``, or a signal.

    Args:
      attribute: whose domain and policy apply.
      columns: the parsed column of each declared kind, and "found" when the code was looked up already.
    """
    domain = attribute.domain
    if isinstance(domain, CategoryDomain):
        code = columns.get("found")
        return _match_labels(attribute, domain, columns) if code is None else code.fill_null(fallback_code(attribute))
    value = columns["number"]
    if isinstance(domain, IntegerDomain):
        cell, known = (value - domain.low).cast("int64"), value == value.floor()
    else:
        cell, known = _count_edges(value, domain.edges[1:-1]), value.notnull()
    return _apply_policy(attribute, *compare_to_ends(domain, value), known, cell)


def compare_to_ends(domain: IntegerDomain | NumericDomain, value: Any) -> tuple[Any, Any]:
    """Return two tests of a number: below all cells, and above them."""
    if isinstance(domain, IntegerDomain):
        return value < domain.low, value > domain.high
    last = domain.edges[-1]
    return value < domain.edges[0], value > last if domain.closed else value >= last


def _apply_policy(attribute: Attribute, low: Any, high: Any, known: Any, cell: Any) -> Any:
    """Return a number's cell, or the code that the policy gives a number that is in no cell."""
    import ibis

    code = fallback_code(attribute)
    clip = attribute.policy.kind == "clip"
    first, last = (0, attribute.domain.size - 1) if clip else (code, code)
    # The cell comes after both ends: engines compute it only for the rows that are between them.
    return ibis.cases((low, first), (high, last), (known, cell), else_=code)


def fallback_code(attribute: Attribute) -> int:
    """Return the code of nulls, and of values outside the domain that are not clipped."""
    match attribute.policy.kind:
        case "other":
            return attribute.domain.size
        case "drop":
            return dropped_code(attribute)
        case _:
            return refused_code(attribute)


def _count_edges(value: Any, inner: Sequence[float], first: int = 0) -> Any:
    """Count the edges at or below the value, by a balanced tree of comparisons."""
    import ibis

    if not inner:
        return ibis.literal(first, "int64")
    middle = len(inner) // 2
    left = _count_edges(value, inner[:middle], first)
    right = _count_edges(value, inner[middle + 1 :], first + middle + 1)
    return ibis.ifelse(value < inner[middle], left, right)


def _match_labels(attribute: Attribute, domain: CategoryDomain, columns: dict[str, Any]) -> Any:
    """Compare with the labels of the column's kind; text before numbers, so that "01" may be a label beside 1."""
    import ibis

    branches = [(label_kind(label), label, code) for code, label in enumerate(domain.labels)]
    branches.sort(key=lambda branch: branch[0] != "text")
    conditions = [(columns[kind] == ibis.literal(label), code) for kind, label, code in branches]
    return ibis.cases(*conditions, else_=fallback_code(attribute))


def omitted_code(attribute: Attribute, leave_out: bool) -> int | None:
    """Return the signal of values that take their row out of all counts; None where the attribute has none."""
    if attribute.policy.kind == "drop":
        return dropped_code(attribute)
    return refused_code(attribute) if leave_out and attribute.policy.kind == "clip" else None
