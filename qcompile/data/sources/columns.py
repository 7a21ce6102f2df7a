"""Columns of a source: the match with the attributes by name, and the check of their types."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from qcompile.errors import DataError, did_you_mean
from qcompile.queries.schema import Attribute, CategoryDomain, Schema

Kind: TypeAlias = Literal["number", "text", "flag", "null", "other"]
"""The values of a column: numbers, text, true/false, only nulls, or others, which cannot be used (dates, bytes)."""

KIND_WORDS: dict[Kind, str] = {"number": "numbers", "text": "text", "flag": "true/false", "null": "nulls"}


MAX_COLUMNS = 10_000
"""Columns of a file, used or not. DuckDB takes 5 s for so many, and three times as many take five times as long."""

OPTIONAL = ("Array", "IsNan", "Unnest")
"""Operations of Ibis that not all engines have. An engine without `IsNan` has no not-a-number, or one that differs from
itself."""


@dataclass(frozen=True)
class AnyColumn(Attribute):
    """A column that is read without a domain: the ids of the privacy unit, counts, or a column to be surveyed.

    It follows the attributes of a schema where columns are looked up, and is never encoded or counted. Its
    domain is a placeholder.

    Attributes:
      role: the use of the column, for messages.
    """

    role: str = "names the privacy unit"

    @classmethod
    def named(cls, name: str, role: str = "names the privacy unit") -> AnyColumn:
        """Return the column of that name."""
        return cls(name, CategoryDomain((name,)), role=role)


@dataclass(frozen=True)
class SourceTable:
    """A table of a source, opened.

    Attributes:
      table: Ibis table with columns ``c0, c1, ...`` in schema order.
      kinds: of each column; None when all are text still to be parsed (CSV).
      explain: rewords an error of the engine so that no value of the data is quoted.
      types: names of the columns' types for messages; the table may have others, where a column's kind is other.
      unsigned: True if the engine has unsigned integers.
      halves: positions of the columns of 16-bit floating numbers, which the table has as wider ones.
      loose: True if a column may hold values of other types than its own, as in SQLite.
      lacks: names of the operations of Ibis that the engine has not, of `OPTIONAL`.
    """

    table: Any
    kinds: tuple[Kind, ...] | None
    explain: Callable[[str], str]
    types: tuple[str, ...] = ()
    unsigned: bool = True
    halves: frozenset[int] = frozenset()
    loose: bool = False
    lacks: frozenset[str] = frozenset()

    @property
    def lists(self) -> bool:
        """True if the engine can make rows of a list."""
        return not self.lacks & {"Array", "Unnest"}

    def double(self, position: int) -> Any:
        """Return a column of numbers as doubles, null for not-a-number and for values of other types."""
        import ibis

        column = self.table[f"c{position}"]
        double = column.cast("float64")
        if not column.type().is_integer():
            is_nan = double != double if "IsNan" in self.lacks else double.isnan()
            double = ibis.ifelse(is_nan, None, double)
        return ibis.ifelse(column.typeof().isin(["integer", "real"]), double, None) if self.loose else double

    def type_name(self, position: int) -> str:
        """Return the name of a column's type for messages."""
        is_other = self.kinds is not None and self.kinds[position] == "other"
        return self.types[position] if is_other and self.types else type_text(self.table[f"c{position}"].type())

    def float_type(self, position: int) -> Literal["float16", "float32"] | None:
        """Return the type of a column of floating numbers that are narrower than doubles; None for all others."""
        if position in self.halves:
            return "float16"
        return "float32" if self.table[f"c{position}"].type().is_float32() else None


def find_halves(types: Sequence[Any]) -> frozenset[int]:
    """Return the positions of the columns of 16-bit floating numbers among Arrow types."""
    import pyarrow as pa

    plain = [t.value_type if pa.types.is_dictionary(t) else t for t in types]
    return frozenset(i for i, type_ in enumerate(plain) if pa.types.is_float16(type_))


def locate(schema: Schema, names: Sequence[object], where: str) -> list[int]:
    """Return the position of each attribute among the columns. Names match exactly; further columns are ignored.

    Raises:
      DataError: a column is missing, with a suggestion, or there more than once.
    """
    declared = [a.name for a in schema if not isinstance(a, AnyColumn)]
    missing = [name for name in declared if name not in names]
    if missing:
        listed = "; ".join(repr(name) + _suggestion(name, names) for name in missing)
        raise DataError(
            f"{where} lacks {len(missing)} of the {len(declared)} columns of the schema: {listed}; names must match "
            "exactly"
        )
    for column in schema:
        if isinstance(column, AnyColumn) and column.name not in names:
            suggestion = _suggestion(column.name, names)
            raise DataError(f"{where} has no column {column.name!r} that {column.role}{suggestion}")
    for name in schema.names:
        if names.count(name) > 1:
            raise DataError(f"{where} has {names.count(name)} columns called {name!r}; keep one of them")
    return [names.index(name) for name in schema.names]


def _suggestion(name: str, names: Sequence[object]) -> str:
    # Never the list of names: in a CSV file without a header these would be values.
    hint = did_you_mean(name, [n for n in names if isinstance(n, str)])
    return f", {hint}" if hint.startswith("did you mean") else ""


def declared_kinds(attribute: Attribute) -> set[Kind]:
    """Return the kinds of values that can match the attribute; several for a mixed list of categories."""
    if not isinstance(attribute.domain, CategoryDomain):
        return {"number"}
    return {label_kind(label) for label in attribute.domain.labels}


def label_kind(label: object) -> Kind:
    """Return the kind of column in which the label can occur; bool before int, as Python's True is an int."""
    if isinstance(label, bool):
        return "flag"
    return "number" if isinstance(label, int) else "text"


def require_types(
    schema: Schema, types: Sequence[Any], kind_of: Callable[[Any], Kind | None] | None = None
) -> tuple[Kind, ...]:
    """Return the kind of each column from its Arrow type, or from its type as ``kind_of`` understands it.

    Raises:
      DataError: a column's type does not fit its attribute.
    """
    kinds = map(arrow_kind if kind_of is None else kind_of, types)
    return tuple(_fit(*column) for column in zip(schema, types, kinds, strict=True))


def _fit(attribute: Attribute, type_: Any, kind: Kind | None) -> Kind:
    if isinstance(attribute, AnyColumn):
        return kind or "other"
    needed = declared_kinds(attribute)
    if kind is not None and (kind == "null" or {kind} == needed):
        return kind
    words = " and ".join(sorted(KIND_WORDS[k] for k in needed))
    raise DataError(
        f"attribute {attribute.name!r}: the column is of type {type_text(type_)}, but the schema declares {words}; "
        + _remedy(attribute, kind, needed)
    )


def _remedy(attribute: Attribute, kind: Kind | None, needed: set[Kind]) -> str:
    if not isinstance(attribute.domain, CategoryDomain) or kind is None:
        return "convert the column"
    if kind == "text":
        return "write every label of the schema in quotes, or convert the column"
    if needed == {"text"}:
        return "write the labels of the schema without quotes, or convert the column to text"
    return "give all labels of the schema the type of the column, or convert the column"


def arrow_kind(type_: Any) -> Kind | None:
    """Return the kind of an Arrow type; None for dates, bytes, lists and other types that cannot be matched."""
    import pyarrow as pa

    t = pa.types
    if t.is_dictionary(type_):
        return arrow_kind(type_.value_type)
    if t.is_integer(type_) or t.is_floating(type_) or t.is_decimal(type_):
        return "number"
    if t.is_string(type_) or t.is_large_string(type_) or type_ == pa.string_view():
        return "text"
    if t.is_boolean(type_):
        return "flag"
    return "null" if t.is_null(type_) else None


def ibis_kind(dtype: Any) -> Kind | None:
    """Return the kind of an Ibis type; None for types that cannot be matched, and for the name of another type."""
    if isinstance(dtype, str):
        return None
    if dtype.is_boolean():
        return "flag"
    if dtype.is_integer() or dtype.is_floating() or dtype.is_decimal():
        return "number"
    if dtype.is_string():
        return "text"
    return "null" if dtype.is_null() else None


def type_text(type_: Any) -> str:
    """Return the name of an Arrow or Ibis type for messages.

    Without the fields of structs and unions, which are data where a library has made them of the keys of dicts.
    """
    value_type = getattr(type_, "value_type", None)
    text = str(type_).lstrip("!")
    if text.startswith("dictionary<"):
        return f"dictionary of {type_text(value_type)}"
    if text.startswith("unknown"):
        return "unknown"
    if getattr(type_, "extension_name", "") == "arrow.uuid":
        return "uuid"
    return re.split("<", text, maxsplit=1)[0] if "<" in text else text


def require_column_limit(where: object, columns: int) -> None:
    """Refuse a table that is too wide.

    Raises:
      DataError: it has more than `MAX_COLUMNS` columns.
    """
    if columns > MAX_COLUMNS:
        raise DataError(
            f"{where} has {columns:,} columns, at most {MAX_COLUMNS:,} can be read; save only those of the schema"
        )


def select_columns(table: Any, positions: Sequence[int]) -> Any:
    """Select the columns at some positions of an Ibis table, as ``c0, c1, ...``."""
    return table.select(**{f"c{i}": table[table.columns[p]] for i, p in enumerate(positions)})
