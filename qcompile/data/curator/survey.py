"""CONFIDENTIAL contents of the columns of a table, from a look at all values; for drafts only.

Nothing that answers queries may depend on this module: domains are declared, never inferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from qcompile.data.datasets.dataset import Dataset
from qcompile.data.encode.cells import EXACT, parse_column
from qcompile.data.sources.columns import AnyColumn, Kind, SourceTable
from qcompile.data.sources.engine_errors import fetch
from qcompile.queries.schema import Schema

MOST_LABELS = 100
"""Different values up to which they are listed."""

MOST_WORDS = 8
"""Different texts beside numbers that may all mean a missing value."""

AT_ONCE = 50
"""Columns that are looked at in one scan."""

DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?$"


@dataclass(frozen=True)
class Column:
    """CONFIDENTIAL: the contents of a column.

    Attributes:
      name: of the column.
      kind: by the type of the source; of a CSV file, "text".
      rows: rows of the table.
      nulls: rows without a value, not-a-number included.
      distinct: different values.
      numbers: rows with a finite number.
      whole: those of them with a whole number.
      flags: rows with true or false.
      dates: rows with a text that begins like 2026-11-30.
      longest: characters of the longest text.
      low: smallest number; None where there is none.
      high: largest number.
      labels: the different values, sorted, where they are texts, and few.
      words: the different texts beside numbers in a CSV file, sorted; `MOST_WORDS` and one more at most.
    """

    name: str
    kind: Kind
    rows: int
    nulls: int = 0
    distinct: int = 0
    numbers: int = 0
    whole: int = 0
    flags: int = 0
    dates: int = 0
    longest: int = 0
    low: float | None = None
    high: float | None = None
    labels: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @property
    def values(self) -> int:
        """Rows with a value."""
        return self.rows - self.nulls


def survey(data: Dataset, names: Sequence[str]) -> Iterator[Column]:
    """CONFIDENTIAL: look at columns of a table, in order.

    Args:
      data: a table.
      names: of columns, distinct.

    Raises:
      DataError: the data cannot be read.
    """
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        with data.connect(Schema(tuple(map(AnyColumn.named, some)))) as opened:
            source, connection = opened.source, opened.connection
            facts: dict[str, Any] = {"rows": source.table.count()}
            for i in range(len(some)):
                facts |= {f"{field}{i}": fact for field, fact in _facts(source, i).items()}
            (row,) = fetch(connection, source.table.aggregate(**facts), source.explain)
            for i, name in enumerate(some):
                fields = {field: row[f"{field}{i}"] for field in _facts(source, i)}
                column = Column(name, _kind(source, i), row["rows"], **fields)
                yield _with_words(connection, source, i, _with_labels(connection, source, i, column))


def _kind(source: SourceTable, position: int) -> Kind:
    return "text" if source.kinds is None else source.kinds[position]


def _facts(source: SourceTable, position: int) -> dict[str, Any]:
    """Return expressions for the fields of a `Column`, by their names."""
    column, kind = source.table[f"c{position}"], _kind(source, position)
    if kind in ("null", "other"):
        return {"nulls": column.isnull().sum().fill_null(0)}
    facts = {"distinct": column.nunique()}
    if kind == "text":
        facts |= {"dates": column.re_search(DATE).sum().fill_null(0), "longest": column.length().max().fill_null(0)}
    if kind == "flag" or source.kinds is None:
        facts["flags"] = parse_column(source, position, "flag").count()
    if kind == "number" or source.kinds is None:
        facts |= _number_facts(parse_column(source, position, "number"))
    present = parse_column(source, position, "number") if kind == "number" else column
    return facts | {"nulls": present.isnull().sum().fill_null(0)}


def _number_facts(number: Any) -> dict[str, Any]:
    import ibis

    finite = ~number.isinf()
    # Engines round to 64-bit integers; from 2^53 on, doubles are whole.
    whole = ibis.ifelse(number.abs() < EXACT, number == number.floor(), True)
    return {
        "numbers": finite.sum().fill_null(0),
        "whole": (finite & whole).sum().fill_null(0),
        "low": number.min(where=finite),
        "high": number.max(where=finite),
    }


def _with_labels(connection: Any, source: SourceTable, position: int, column: Column) -> Column:
    if column.kind != "text" or not 0 < column.distinct <= MOST_LABELS:
        return column
    values = source.table.select(value=f"c{position}").view().filter(lambda t: t.value.notnull()).distinct()
    return replace(column, labels=tuple(sorted(row["value"] for row in fetch(connection, values, source.explain))))


def _with_words(connection: Any, source: SourceTable, position: int, column: Column) -> Column:
    if source.kinds is not None or not 0 < column.numbers < column.values:
        return column
    number = parse_column(source, position, "number")
    values = source.table.select(value=f"c{position}", number=number).view()
    words = values.filter(lambda t: t.value.notnull() & t.number.isnull()).select("value").distinct()
    rows = fetch(connection, words.limit(MOST_WORDS + 1), source.explain)
    return replace(column, words=tuple(sorted(row["value"] for row in rows)))
