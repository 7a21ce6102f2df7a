"""Batches of encoded rows from an engine; they become compact rows in memory, or tables at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.data.encode.acceptance import RowFilter
from qcompile.data.encode.cells import code_dtype
from qcompile.data.encode.reading import Reading
from qcompile.data.engines.add_rows import add_rows
from qcompile.data.engines.counts import ExactCounts, Rows
from qcompile.data.engines.cover import Names
from qcompile.data.engines.dialects import require_compilable, translate
from qcompile.data.engines.passes import Batch, Passes
from qcompile.data.engines.scans import Scans, plan_scans
from qcompile.data.sources.engine_errors import call_engine
from qcompile.errors import DataError, SizeError
from qcompile.queries.schema import Schema
from qcompile.support.arrays import IntArray, bytes_text, cells

BATCH = 2**20
"""Rows of a batch."""


def read_batches(connection: Any, expression: Any, explain: Callable[[str], str]) -> Iterator[Batch]:
    """Yield the rows of an expression in batches; the whole is never held.

    Raises:
      DataError: the engine refused the data, or lacks an operation.
    """
    reader = call_engine(lambda: _reader(connection, expression), explain)
    while True:
        batch = call_engine(lambda: next(reader, None), explain)
        if batch is None:
            return
        yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]


def _reader(connection: Any, expression: Any) -> Iterator[Any]:
    if connection.name != "duckdb":
        translated = translate(connection, expression)
        require_compilable(connection, translated)
        return iter(connection.to_pyarrow_batches(translated, chunk_size=BATCH))
    # Ibis has DuckDB make the whole result first.
    connection._run_pre_execute_hooks(expression)
    relation = connection.con.sql(connection.compile(expression))
    make = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    return iter(make(BATCH))


def hold_or_count(
    passes: Passes, schema: Schema, reading: Reading, views: Sequence[Names], limit: int, workers: int
) -> ExactCounts:
    """Hold the rows in memory where they fit, and count them scan by scan where they do not.

    So the number of rows decides memory and time only. To refuse what does not fit would tell how many rows count.

    Args:
      passes: over the encoded rows.
      schema: the attributes.
      reading: how the rows are read.
      views: whose tables will be asked for.
      limit: bytes that the rows may take.
      workers: threads that will count.

    Raises:
      DataError: the data is refused.
      SizeError: DuckDB ran out of its memory.
    """
    held = passes.make(partial(_hold, schema=schema, reading=reading, limit=limit, workers=workers))
    return count_stream(passes, schema, reading, views) if held is None else held


def load_rows(passes: Passes, schema: Schema, reading: Reading, limit: int, workers: int) -> Rows:
    """Read all rows into memory, in the smallest types; arguments as for `hold_or_count`.

    Raises:
      DataError: the data is refused.
      SizeError: there are too many rows. CONFIDENTIAL: that depends on the data.
    """
    held = passes.make(partial(_hold, schema=schema, reading=reading, limit=limit, workers=workers))
    if held is None:
        raise SizeError(f"the encoded table does not fit into {bytes_text(limit)}; count it with engine='duckdb'")
    return held


def _hold(batches: Iterator[Batch], schema: Schema, reading: Reading, limit: int, workers: int) -> Rows | None:
    """Return the encoded rows; None as soon as they take more than ``limit`` bytes."""
    row_filter = RowFilter(schema, reading)
    kept: list[list[npt.NDArray[Any]]] = [[] for _ in schema]
    weighted: list[npt.NDArray[np.float64]] = []
    rows, width = 0, row_bytes(schema, reading)
    for batch in batches:
        codes, weights = row_filter.apply(batch)
        rows += len(codes[0])
        if rows * width > limit:
            return None
        for column, code in zip(kept, codes, strict=True):
            column.append(code)
        if weights is not None:
            weighted.append(weights)
    row_filter.require()
    columns = {}
    for attribute, column in zip(schema, kept, strict=True):
        columns[attribute.name] = np.concatenate(column) if column else np.zeros(0, code_dtype(attribute))
        column.clear()  # at once, or the rows would be held twice
    weights = None if reading.count_column is None else np.concatenate([np.zeros(0), *weighted])
    return Rows(schema, columns, row_filter.total, weights, workers)


def row_bytes(schema: Schema, reading: Reading) -> int:
    """Return the bytes of an encoded row."""
    return sum(code_dtype(a).itemsize for a in schema) + (8 if reading.count_column is not None else 0)


def count_stream(passes: Passes, schema: Schema, reading: Reading, views: Sequence[Names]) -> Scans:
    """Count tables batch by batch, holding no rows. The first scan, made now, checks all rows.

    Args:
      passes: over the encoded rows.
      schema: the attributes.
      reading: how the rows are read.
      views: whose tables will be asked for.

    Raises:
      DataError: the data is refused.
      SizeError: a table is too large for the memory, or DuckDB ran out of its own.
    """
    planned = plan_scans(schema, views)
    first = [union.names for union in planned[0]] if planned else []
    held, total = passes.make(partial(scan, schema=schema, reading=reading, names=first))

    def again(names: Sequence[Names]) -> dict[Names, IntArray]:
        tables, later = passes.make(partial(scan, schema=schema, reading=reading, names=names))
        if later != total:
            raise DataError("the data changed while it was counted; do not write to it during a run")
        return tables

    return Scans(schema, total, planned, again, held)


def scan(
    batches: Iterator[Batch], schema: Schema, reading: Reading, names: Sequence[Names]
) -> tuple[dict[Names, IntArray], int]:
    """Count tables in one pass; a thread counts a batch while the engine makes the next one.

    Returns:
      The tables, and the number of rows that count.

    Raises:
      DataError: the data is refused.
    """
    row_filter = RowFilter(schema, reading)
    tables = {key: np.zeros(cells(schema.shape(key)), dtype=np.int64) for key in names}
    with ThreadPoolExecutor(1) as counting:
        previous: Future[None] | None = None
        for batch in batches:
            if previous is not None:
                previous.result()
            previous = counting.submit(_add, schema, row_filter, tables, batch)
        if previous is not None:
            previous.result()
    row_filter.require()
    return {key: table.reshape(schema.shape(key)) for key, table in tables.items()}, row_filter.total


def _add(schema: Schema, row_filter: RowFilter, tables: dict[Names, IntArray], batch: Batch) -> None:
    codes, weights = row_filter.apply(batch)
    for key, table in tables.items():
        add_rows(table, [codes[schema.positions[n]] for n in key] or [codes[0][:0]], schema.shape(key) or (1,), weights)
    if () in tables:
        tables[()][0] = row_filter.total
