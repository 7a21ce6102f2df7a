"""Lists and arrays in memory as one Ibis table with a column per attribute."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qcompile.data.sources.columns import SourceTable, find_halves, locate, require_types, type_text
from qcompile.data.sources.engine_errors import call_engine
from qcompile.errors import DataError
from qcompile.queries.schema import Schema

NUMBERS = (int, float, np.integer, np.floating)
"""Numbers of Python and NumPy, which a list may mix."""


def open_arrays(title: str, names: Sequence[object], column: Callable[[int], Any], schema: Schema) -> SourceTable:
    """Open the schema's columns of a table in memory; no other column is looked at.

    Args:
      title: the table's name in messages.
      names: of all its columns.
      column: from a position to a list or an array.
      schema: the columns to open.

    Raises:
      DataError: a column cannot be read, or does not fit the schema.
    """
    arrays = [_read_column(schema.names[i], column, p) for i, p in enumerate(locate(schema, names, title))]
    if len({len(array) for array in arrays}) > 1:
        raise DataError(f"{title}: the columns differ in length; every row needs a value or a null in each")
    return _in_memory(arrays, schema)


def _in_memory(arrays: list[Any], schema: Schema) -> SourceTable:
    import ibis
    import pyarrow as pa

    types = [array.type for array in arrays]
    kinds = require_types(schema, types)
    columns = {
        f"c{i}": _other_type(array) if kind == "other" else _engine_type(array)
        for i, (kind, array) in enumerate(zip(kinds, arrays, strict=True))
    }

    def explain(_: str) -> str:
        return "the data could not be read; convert its columns to plain numbers, text or true/false"

    table = call_engine(lambda: ibis.memtable(pa.table(columns)), explain)
    return SourceTable(table, kinds, explain, types=tuple(map(type_text, types)), halves=find_halves(types))


def _read_column(name: str, column: Callable[[int], Any], position: int) -> Any:
    unreadable = f"column {name!r} cannot be read; convert it to plain numbers, text or true/false"
    return _to_arrow(name, call_engine(lambda: column(position), lambda _: unreadable))


def _to_arrow(name: str, values: Any) -> Any:
    """Return one column as an Arrow array, of the type that it has or that Arrow infers."""
    import pyarrow as pa

    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, np.ndarray):
        values = _to_native(values)
    elif not isinstance(values, list | tuple) and not hasattr(values, "__array__"):
        raise DataError(f"column {name!r} is of type {type(values).__name__}; use a list or a one-dimensional array")
    mixed = f"column {name!r} cannot be read: it mixes types or is not a plain column of numbers, text or true/false"
    array = call_engine(lambda: _inferred(values), lambda _: mixed)
    if pa.types.is_floating(array.type) and _has_flags(values):
        raise DataError(mixed)
    return array


def _inferred(values: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.array(values, from_pandas=True)
    except (pa.ArrowInvalid, OverflowError):
        # Integers that Arrow does not take, or not beside fractions, are numbers all the same, which the policy covers.
        if not all(v is None or (isinstance(v, NUMBERS) and not isinstance(v, bool)) for v in values):
            raise
    return pa.array([None if v is None else _double(v) for v in values], pa.float64(), from_pandas=True)


def _double(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.copysign(math.inf, number > 0 or -1)


def _to_native(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Convert to the machine's own byte order, the only one that Arrow takes."""
    return values if values.dtype.isnative else values.astype(values.dtype.newbyteorder("="))


def _has_flags(values: Any) -> bool:
    # Arrow takes True for 1.0 among floats: the one mixture that it does not refuse by itself.
    untyped = isinstance(values, list | tuple) or str(getattr(values, "dtype", "")) == "object"
    return untyped and any(isinstance(v, bool | np.bool_) for v in values)


def _engine_type(array: Any) -> Any:
    """Replace types that DuckDB cannot take from Arrow by types of at least the accuracy of a double."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type) and not _is_taken(array.type.value_type):
        array = array.cast(array.type.value_type)
    if pa.types.is_null(array.type):
        return array.cast(pa.int8())
    return array if _is_taken(array.type) else array.cast(pa.float64())


def _other_type(array: Any) -> Any:
    """Replace a column that is neither numbers nor text: UUIDs by their text, all others by null, and 0 elsewhere."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if getattr(array.type, "extension_name", "") == "arrow.uuid":
        pieces = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return pa.chunked_array([_uuid_texts(piece.storage) for piece in pieces], pa.string())
    return pc.if_else(pc.is_null(array), pa.scalar(None, pa.int8()), pa.scalar(0, pa.int8()))


def _uuid_texts(storage: Any) -> Any:
    """Return the text of UUIDs, as DuckDB writes it, from an Arrow array of their 16 bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = pc.fill_null(storage, pa.scalar(bytes(16), storage.type))
    digits = b"".join(whole.to_pylist()).hex()
    ends = (0, 8, 12, 16, 20, 32)
    texts = ["-".join(digits[i + a : i + b] for a, b in itertools.pairwise(ends)) for i in range(0, len(digits), 32)]
    return pc.if_else(storage.is_valid(), pa.array(texts, pa.string()), pa.scalar(None, pa.string()))


def _is_taken(type_: Any) -> bool:
    import pyarrow as pa

    return not (pa.types.is_float16(type_) or pa.types.is_decimal256(type_))
