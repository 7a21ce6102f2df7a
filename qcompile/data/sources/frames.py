"""From whatever the user holds to one Ibis table with a column per attribute."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from qcompile.data.sources.columns import Source, locate, require_types
from qcompile.data.sources.files import KINDS, arrow_of, column_names, find, is_arrow, is_path, open_files
from qcompile.data.sources.guarded import guarded
from qcompile.errors import DataError
from qcompile.queries.schema import Schema

NUMBERS = (int, float, np.integer, np.floating)
"""Numbers of Python and NumPy, which a list may mix."""


def open_source(data: object, schema: Schema, connection: Any) -> Source:
    """Files, a pandas or polars DataFrame, an Arrow table, or a dict of columns, opened.

    Args:
      data: the confidential table; only the schema's columns are looked at.
      schema: what they should look like.
      connection: of `engine`, in which files are opened.

    Raises:
      DataError: it cannot be read or does not fit the schema.
    """
    if is_path(data):
        paths = find(data)
        if not is_arrow(paths):
            return open_files(paths, schema, connection)
        data, where = arrow_of(paths, schema.names), str(paths[0])
        _, names, column = _columns(data)
    else:
        where, names, column = _columns(data)
    arrays = [_column(schema.names[i], column, p) for i, p in enumerate(locate(schema, names, where))]
    if len({len(array) for array in arrays}) > 1:
        raise DataError(f"{where}: the columns differ in length; every row needs a value or a null in each")
    return _in_memory(arrays, schema)


def rows_of(data: Any) -> int:
    """The number of rows of a table in memory; 0 where that is not known yet.

    A mapping may hold anything, so that its columns are looked at only when they are read.
    """
    if isinstance(data, Mapping):
        lengths = [len(column) for column in data.values() if hasattr(column, "__len__")]
        return max(lengths, default=0)
    return len(data) if hasattr(data, "__len__") else int(getattr(data, "num_rows", 0))


def names_of(data: object) -> list[object]:
    """The names of all columns of files or of a table in memory, in their order; repeated ones, or no text at all.

    Raises:
      DataError: the data cannot be read.
    """
    if is_path(data):
        return list(column_names(find(data)))
    return list(_columns(data)[1])


def _in_memory(arrays: list[Any], schema: Schema) -> Source:
    import ibis
    import pyarrow as pa

    kinds = require_types(schema, [array.type for array in arrays])
    columns = {f"c{i}": _engine_type(array) for i, array in enumerate(arrays)}

    def explain(_: str) -> str:
        return "the data could not be read; convert its columns to plain numbers, text or true/false"

    return Source(guarded(lambda: ibis.memtable(pa.table(columns)), explain), kinds, explain)


def _columns(data: Any) -> tuple[str, Sequence[object], Any]:
    """What to call the data in messages, its column names, and a function from position to column."""
    import pyarrow as pa

    if isinstance(data, pa.Table | pa.RecordBatch):
        return "the Arrow table", data.schema.names, data.column
    if _is_frame(data, "pandas"):
        return "the DataFrame", data.columns.tolist(), lambda i: data.iloc[:, i]
    if _is_frame(data, "polars"):
        return "the DataFrame", data.columns, lambda i: data.to_series(i).to_arrow()
    if _is_frame(data, "polars", "LazyFrame"):
        raise DataError("the data is a LazyFrame, which polars has not computed yet; pass data.collect()")
    if isinstance(data, Mapping):
        return "the dict of columns", list(data), lambda i: list(data.values())[i]
    raise DataError(
        f"cannot read data of type {type(data).__name__}; pass a path to {KINDS}, a pandas or polars DataFrame, an "
        "Arrow table, a dict of columns, a dict of counts keyed by tuples of attribute names, a Database, an Ibis "
        "table or a Spark DataFrame"
    )


def _is_frame(data: Any, library: str, name: str = "DataFrame") -> bool:
    # Asks only a library that is loaded already: data of a library that is not cannot exist.
    module = sys.modules.get(library)
    return module is not None and isinstance(data, getattr(module, name))


def _column(name: str, column: Callable[[int], Any], position: int) -> Any:
    unreadable = f"column {name!r} cannot be read; convert it to plain numbers, text or true/false"
    return _to_arrow(name, guarded(lambda: column(position), lambda _: unreadable))


def _to_arrow(name: str, values: Any) -> Any:
    """One column as an Arrow array whose type Arrow infers, or takes over from a typed column."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, np.ndarray):
        values = _native(values)
    elif not isinstance(values, list | tuple) and not hasattr(values, "__array__"):
        raise DataError(f"column {name!r} is of type {type(values).__name__}; use a list or a one-dimensional array")
    mixed = f"column {name!r} cannot be read: it mixes types or is not a plain column of numbers, text or true/false"
    array = guarded(lambda: _inferred(values), lambda _: mixed)
    if pa.types.is_floating(array.type) and _has_flags(values):
        raise DataError(mixed)
    return array


def _inferred(values: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, OverflowError):
        # Integers that Arrow does not take, or not beside fractions: numbers all the same, which have a fate.
        if not all(v is None or (isinstance(v, NUMBERS) and not isinstance(v, bool)) for v in values):
            raise
    return pa.array([None if v is None else _double(v) for v in values], pa.float64(), from_pandas=True)


def _double(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number > 0 or -1)


def _native(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The machine's own byte order, the only one that Arrow takes."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _has_flags(values: Any) -> bool:
    # Arrow takes True for 1.0 among floats: the one mixture that it does not refuse by itself.
    untyped = isinstance(values, list | tuple) or str(getattr(values, "dtype", "")) == "object"
    return untyped and any(isinstance(v, bool | np.bool_) for v in values)


def _engine_type(array: Any) -> Any:
    """Types that DuckDB cannot take from Arrow, replaced by types of at least the accuracy of a double."""
    import pyarrow as pa

    if pa.types.is_null(array.type):
        return array.cast(pa.int8())
    if pa.types.is_float16(array.type) or pa.types.is_decimal256(array.type):
        return array.cast(pa.float64())
    return array
