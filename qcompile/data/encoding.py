"""Encoding: from the values of a column to the cells of its attribute, as Ibis expressions.

Two stages. `parsed` reads a column as what the schema declares: a double, text, or true/false, with null for
everything that is not one. `coded` maps that to the cell's number and applies the attribute's policy. Both are
plain SQL, so that they mean the same on every engine.

Numbers are read as doubles, whatever their type: domains end below 2^53, so no value can be mistaken.

The two codes after an attribute's last cell are signals: `refused(a)` for a value without a fate (an error) and
`dropped(a)` for one that takes its row out of all counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.data.columns import Kind, Source, declared_kinds, label_kind
from qcompile.errors import DataError
from qcompile.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Schema

EXACT = 2**53
"""Integers up to here are exact as doubles."""

LONG_LIST = 64
"""Categories that are compared one by one; longer lists are joined."""

NUMBER = r"^\s*[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[iI][nN][fF]([iI][nN][iI][tT][yY])?)\s*$"
"""Texts that are numbers. Engines differ in what else they would take: 0x1F, 1_000, 1d, nan."""


def encode(source: Source, schema: Schema, **beside: Any) -> Any:
    """The Ibis table of codes: columns ``c0, c1, ...`` in schema order, each of its `code_dtype`.

    Args:
      source: whose first columns are the attributes.
      schema: the attributes.
      beside: further columns of the result, by name: expressions over the source's table.

    Raises:
      DataError: a domain cannot be matched, see `require_encodable`.
    """
    values = parsed_table(source, schema, **beside)
    codes = {f"c{i}": code_column(values, i, attribute) for i, attribute in enumerate(schema)}
    return values.select(**codes, **{name: values[name] for name in beside})


def parsed_table(source: Source, schema: Schema, **beside: Any) -> Any:
    """The first stage of `encode`: columns ``c<i>_<kind>``, and ``c<i>_found`` where the code was looked up already."""
    for attribute in schema:
        require_encodable(attribute, text=source.kinds is None)
    stage: dict[str, Any] = {}
    for i, attribute in enumerate(schema):
        stage |= {f"c{i}_{kind}": parsed(source, i, kind) for kind in declared_kinds(attribute)}
    # view() keeps the stages apart: merged, each of the many comparisons would parse its text again.
    return _with_lookups(source.table.select(**stage, **beside).view(), schema)


def code_column(values: Any, position: int, attribute: Attribute) -> Any:
    """The second stage of `encode` for one attribute: its codes, over a `parsed_table`."""
    start = f"c{position}_"
    columns = {name.removeprefix(start): values[name] for name in values.columns if name.startswith(start)}
    return coded(attribute, columns).cast(str(code_dtype(attribute)))


def _with_lookups(values: Any, schema: Schema) -> Any:
    """The codes of long lists of categories, joined on as columns ``c<i>_found``: null where there is none."""
    import ibis
    import pyarrow as pa

    for i, attribute in enumerate(schema):
        if _is_long(attribute):
            (kind,) = declared_kinds(attribute)
            labels = [float(x) if kind == "number" else x for x in attribute.domain_labels]
            lookup = ibis.memtable(pa.table({f"label_{i}": labels, f"c{i}_found": range(len(labels))}))
            joined = values.left_join(lookup, values[f"c{i}_{kind}"] == lookup[f"label_{i}"])
            values = joined.drop(f"label_{i}")
    return values


def _is_long(attribute: Attribute) -> bool:
    # Measured on 10^6 rows: 1000 comparisons take 1 s, the join 0.03 s; for ten categories they are alike.
    return len(attribute.domain_labels) > LONG_LIST and len(declared_kinds(attribute)) == 1


def code_dtype(attribute: Attribute) -> np.dtype[Any]:
    """The smallest unsigned type that holds the cells and the two signals."""
    return np.min_scalar_type(dropped(attribute))


def refused(attribute: Attribute) -> int:
    """The signal for a value without a fate."""
    return attribute.size


def dropped(attribute: Attribute) -> int:
    """The signal for a value that takes its row out of all counts."""
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


def parsed(source: Source, position: int, kind: Kind) -> Any:
    """A column as doubles, text or booleans; null where it is none, NaN included."""
    import ibis

    column = source.table[f"c{position}"]
    if source.kinds is None:
        return _from_text(column, kind)
    if source.kinds[position] == "null":
        return ibis.null({"number": "float64", "text": "string", "flag": "boolean"}[kind])
    return _without_nan(column.cast("float64")) if kind == "number" else column


def _from_text(column: Any, kind: Kind) -> Any:
    """A CSV field by its declared type: numbers may stand between spaces, text is taken as it is."""
    import ibis

    if kind == "number":
        return ibis.ifelse(column.re_search(NUMBER), column.try_cast("float64"), None)
    if kind == "flag":
        return ibis.cases((column.lower() == "true", True), (column.lower() == "false", False), else_=None)
    return column


def _without_nan(column: Any) -> Any:
    import ibis

    return ibis.ifelse(column.isnan(), None, column)


def coded(attribute: Attribute, columns: dict[str, Any]) -> Any:
    """The code of each row: a cell in ``range(size)``, or a signal.

    Args:
      attribute: whose domain and policy apply.
      columns: the parsed column of each declared kind, and "found" when the code was looked up already.
    """
    domain = attribute.domain
    if isinstance(domain, CategoryDomain):
        found = columns.get("found")
        return _category(attribute, domain, columns) if found is None else found.fill_null(fate(attribute))
    value = columns["number"]
    if isinstance(domain, IntegerDomain):
        cell, known = (value - domain.low).cast("int64"), value == value.floor()
    else:
        cell, known = _bin(value, domain.edges[1:-1]), value.notnull()
    return _with_policy(attribute, *beyond(domain, value), known, cell)


def beyond(domain: IntegerDomain | NumericDomain, value: Any) -> tuple[Any, Any]:
    """Whether a number is below all cells, and whether it is above them."""
    if isinstance(domain, IntegerDomain):
        return value < domain.low, value > domain.high
    last = domain.edges[-1]
    return value < domain.edges[0], value > last if domain.closed else value >= last


def _with_policy(attribute: Attribute, low: Any, high: Any, known: Any, cell: Any) -> Any:
    """A number's cell, or its fate when it is too low, too high, or (null, fractional) in no cell at all."""
    import ibis

    code = fate(attribute)
    clip = attribute.policy.kind == "clip"
    first, last = (0, attribute.domain.size - 1) if clip else (code, code)
    # The cell comes last but for the fate: engines compute it for the rows that get there only.
    return ibis.cases((low, first), (high, last), (known, cell), else_=code)


def fate(attribute: Attribute) -> int:
    """The code of nulls and of values that cannot be clipped."""
    match attribute.policy.kind:
        case "other":
            return attribute.domain.size
        case "drop":
            return dropped(attribute)
        case _:
            return refused(attribute)


def _bin(value: Any, inner: Sequence[float], first: int = 0) -> Any:
    """The number of edges at or below the value, by a balanced tree of comparisons."""
    import ibis

    if not inner:
        return ibis.literal(first, "int64")
    middle = len(inner) // 2
    left, right = _bin(value, inner[:middle], first), _bin(value, inner[middle + 1 :], first + middle + 1)
    return ibis.ifelse(value < inner[middle], left, right)


def _category(attribute: Attribute, domain: CategoryDomain, columns: dict[str, Any]) -> Any:
    """Exact equality with a label of the column's kind; text before numbers, so that "01" may be a label beside 1."""
    import ibis

    branches = [(label_kind(label), label, code) for code, label in enumerate(domain.labels)]
    branches.sort(key=lambda branch: branch[0] != "text")
    conditions = [(columns[kind] == ibis.literal(label), code) for kind, label, code in branches]
    return ibis.cases(*conditions, else_=fate(attribute))


def accept(
    schema: Schema,
    codes: Sequence[npt.NDArray[Any]],
    kept: npt.NDArray[np.bool_] | None = None,
    *,
    leave_out: bool = False,
) -> list[npt.NDArray[Any]]:
    """The codes of the rows that count, in schema order.

    Args:
      schema: the attributes.
      codes: of all rows, in schema order.
      kept: the rows that count, where more than the policies decides about that.
      leave_out: whether rows with what clip cannot clip are left out, instead of refused.

    Raises:
      DataError: some attribute has values without a fate; names the attributes, nothing else.
    """
    bad = [a for a, c in zip(schema, codes, strict=True) if _may_refuse(a, leave_out) and (c == refused(a)).any()]
    if bad:
        raise DataError("\n".join(map(_complaint, bad)))
    if kept is not None:
        return [c[kept] for c in codes]
    signals = zip(schema, codes, strict=True)
    gone = [c == s for a, c in signals if (s := left_out(a, leave_out)) is not None]
    if not gone:
        return list(codes)
    left = ~np.logical_or.reduce(gone)
    return [c[left] for c in codes]


def left_out(attribute: Attribute, leave_out: bool) -> int | None:
    """The signal, if any, of a value that takes its row out of all counts; see `accept`."""
    if attribute.policy.kind == "drop":
        return dropped(attribute)
    return refused(attribute) if leave_out and attribute.policy.kind == "clip" else None


def _may_refuse(attribute: Attribute, leave_out: bool) -> bool:
    return attribute.policy.kind == "strict" or (attribute.policy.kind == "clip" and not leave_out)


def _complaint(attribute: Attribute) -> str:
    if attribute.policy.kind == "clip":
        numbers = "whole numbers" if isinstance(attribute.domain, IntegerDomain) else "numbers"
        what = f"has nulls or values that are not {numbers}, which cannot be clipped"
        remedy = "mend the data, or declare drop or other"
    else:
        what = "has nulls or values outside its domain, and no policy for them"
        clip = "" if isinstance(attribute.domain, CategoryDomain) or attribute.cyclic else "clip, "
        remedy = f"mend the data, or declare {clip}drop or other"
    return f"attribute {attribute.name!r} {what}; {remedy}"
