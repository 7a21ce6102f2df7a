"""Exact contingency tables of encoded rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from qcompile.arrays import IntArray, cells, require_memory
from qcompile.data.columns import Source
from qcompile.data.encoding import accept, encode
from qcompile.data.engine import engine, guarded
from qcompile.data.given import GivenCounts
from qcompile.data.sources import open_source
from qcompile.data.units import ids, kept, require_unit, with_rank, with_unit
from qcompile.errors import DataError, IntegrityError, OptionError
from qcompile.schema import Schema

BLOCK = 2**20
"""Rows that are counted at a time, so that the working memory does not grow with the data."""


class ExactCounts(Protocol):
    """What a mechanism needs of the data."""

    @property
    def total(self) -> int:
        """Number of rows that count."""

    def table(self, names: tuple[str, ...]) -> IntArray:
        """The exact counts over ``names``, one axis each in the order given; 0-dimensional for none."""


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that count, encoded.

    Attributes:
      schema: what the codes refer to.
      codes: attribute name to one code in ``range(size)`` per row, in the smallest unsigned type that fits.
      total: number of rows, the same for every table.
    """

    schema: Schema
    codes: Mapping[str, npt.NDArray[Any]]
    total: int

    def table(self, names: tuple[str, ...]) -> IntArray:
        """The exact counts over ``names``, one axis each in the order given; the total, 0-dimensional, for none.

        Raises:
          IntegrityError: an unknown or repeated name.
          SizeError: the table is too large for the memory.
        """
        shape = self.schema.shape(names)
        if len(set(names)) != len(names):
            raise IntegrityError(f"a table needs distinct attributes, got {', '.join(names)}")
        size = cells(shape)
        require_memory(f"the table of {', '.join(names)}", size, "use fewer attributes or coarser bins")
        counts = np.zeros(size, dtype=np.int64)
        block = max(BLOCK, size)
        for start in range(0, self.total, block):
            counts += np.bincount(self._cell(names, shape, start, min(start + block, self.total)), minlength=size)
        return counts.reshape(shape)

    def _cell(self, names: tuple[str, ...], shape: tuple[int, ...], start: int, stop: int) -> IntArray:
        """The flat cell of each row ``start..stop-1``, C order."""
        cell = np.zeros(stop - start, dtype=np.int64)
        for name, size in zip(names, shape, strict=True):
            cell *= size
            cell += self.codes[name][start:stop]
        return cell


def read(
    data: object, schema: Schema, *, unit: str | None = None, contributions: int = 1, leave_out: bool = False
) -> Rows:
    """Read and encode a table; every attribute's policy applies, whether a query uses the attribute or not.

    With a unit, at most `contributions` rows of each unit count, see `qcompile.data.units`; rows without an id stay
    out. A value without a fate is an error in any row.

    Args:
      data: a path to a .csv or .parquet file, a pandas or polars DataFrame, an Arrow table, or a dict of
        column name to list or array. Columns are found by name; others are ignored.
      schema: the declared attributes.
      unit: the column with the ids of the privacy unit (a person, a household), text or whole numbers; it need not
        be an attribute. In a CSV file an id is the text as it is written: 1 and 01 are two units.
      contributions: the rows of a unit that count at most; without a unit nothing is cut.
      leave_out: rows with a null in a clipped column are left out, instead of refused.

    Raises:
      OptionError: the unit is no column name, or contributions is not a whole number from 1.
      DataError: the data cannot be read, or does not fit the schema. The message holds no value of the data.
    """
    contributions = require_unit(unit, contributions)
    if not len(schema):
        raise DataError("the schema declares no attribute, so there is nothing to read")
    with engine() as connection:
        source = open_source(data, with_unit(schema, unit), connection)
        codes = encode(source, schema) if unit is None else _truncated(source, schema, unit, contributions, leave_out)
        table = guarded(lambda: connection.to_pyarrow(codes), source.explain)
    everything = [column.to_numpy() for column in table.columns]
    columns = accept(schema, everything[: len(schema)], *everything[len(schema) :], leave_out=leave_out)
    return Rows(schema, dict(zip(schema.names, columns, strict=True)), len(columns[0]))


def holds_counts(data: object) -> TypeGuard[Mapping[Any, Any]]:
    """Whether the data are counts that were made elsewhere, not rows."""
    return isinstance(data, Mapping) and any(isinstance(key, tuple) for key in data)


def _truncated(source: Source, schema: Schema, unit: str, contributions: int, leave_out: bool) -> Any:
    """The table of codes and, last, whether a row counts; the ids stay in the engine."""
    ranked = with_rank(encode(source, schema, unit=ids(source, schema, unit)), schema, leave_out)
    return ranked.select(*(f"c{i}" for i in range(len(schema))), kept=kept(ranked, contributions))


def open_data(
    data: object,
    schema: Schema,
    views: Iterable[tuple[str, ...]] = (),
    *,
    unit: str | None = None,
    contributions: int = 1,
    leave_out: bool = False,
) -> Rows | GivenCounts:
    """Rows of a table (see `read`), or counts that were made elsewhere: a dict keyed by tuples of names.

    Args:
      data: what the user gave.
      schema: the declared attributes.
      views: sets of attributes whose tables will be asked for.
      unit: the column with the ids of the privacy unit; None when every unit is known to have few enough rows.
      contributions: the rows of a unit that count at most.
      leave_out: as in `read`.

    Raises:
      OptionError: a unit beside counts, or an option that `read` refuses.
      DataError: the data cannot be read, does not fit the schema, or lacks the counts of a view.
    """
    if holds_counts(data):
        if unit is not None:
            raise OptionError(
                f"unit={unit!r} cannot be used with counts: rows of a unit can be cut before counting only; give the "
                "table itself, or leave unit out if no unit has more rows than contributions"
            )
        counts = GivenCounts.of(data, schema)
        counts.require(views)
        return counts
    return read(data, schema, unit=unit, contributions=contributions, leave_out=leave_out)
