"""The one entrance to data: from whatever the user holds to exact tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from qcompile.data.choose_engine import ENGINES, known_rows
from qcompile.data.connect import Connected, connected
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.table import encoded
from qcompile.data.encode.units import with_columns
from qcompile.data.engines.counts import ExactCounts, Names, Rows, holds_counts
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.data.engines.pushdown import pushed
from qcompile.data.engines.stream import Batch, batches, load, row_bytes, streamed
from qcompile.errors import DataError, OptionError
from qcompile.queries.schema import Schema
from qcompile.support.arrays import DEFAULT_MEMORY
from qcompile.support.options import one_of, whole

PLAIN = Reading()

Progress = Callable[[int, int], None]


@contextmanager
def open_data(
    data: object,
    schema: Schema,
    views: Iterable[Names] = (),
    reading: Reading = PLAIN,
    *,
    engine: str = "auto",
    max_memory: int | None = None,
    workers: int | None = None,
    progress: Progress = lambda rows, total: None,
) -> Iterator[ExactCounts]:
    """Exact tables of data, which are counted while the context is open.

    Whatever has to be refused about the data is refused on entering: afterwards no error depends on a value.

    Args:
      data: a path to a .csv, .parquet, .arrow or .feather file, a folder of .parquet files, a list of paths of one
        kind; a pandas or polars DataFrame, an Arrow table, a dict of column name to list or array; a `Database`, an
        Ibis table, a Spark DataFrame; or a dict of counts keyed by tuples of attribute names. Columns are found by
        name; others are ignored.
      schema: the declared attributes.
      views: sets of attributes whose tables will be asked for; an engine that holds no rows plans its scans by them.
      reading: how rows become counts.
      engine: what counts, one of `choose_engine.ENGINES`: "memory" holds compact rows; "duckdb" reads the rows
        anew for each scan and holds none, except that with a unit it holds the codes of the rows; "database" has the
        table's own database count; "spark" has Spark read and count. "auto" is "memory" where the rows take a quarter
        of the memory at most, "duckdb" for larger files, and for all others the engine that has the table.
      max_memory: bytes that reading and counting may use; `qcompile.support.arrays.DEFAULT_MEMORY` where None.
      workers: threads; one per processor where None.
      progress: told how many rows have passed by, and of how many (0 where that is not known). CONFIDENTIAL numbers.

    Raises:
      OptionError: an option has a value it cannot take, or something is not installed.
      DataError: the data cannot be read, or does not fit the schema. The message holds no value of the data.
      SizeError: it does not fit in memory.
    """
    wanted = list(views)
    limit, threads = _limits(engine, max_memory, workers)
    if holds_counts(data):
        yield given(data, schema, wanted, reading)
        return
    require_attributes(schema)
    columns = with_columns(schema, reading)
    with (
        connected(data, columns, engine, row_bytes(schema, reading), limit, workers) as found,
        _counted(found, schema, wanted, reading, limit, threads, _told(progress, data)) as counts,
    ):
        yield counts


def preflight(data: object, schema: Schema, reading: Reading = PLAIN, engine: str = "auto") -> None:
    """Refuse data whose columns or types do not fit, without a look at a value.

    Args:
      data: as in `open_data`.
      schema: the declared attributes.
      reading: how the rows are read.
      engine: as in `open_data`.

    Raises:
      OptionError: an option has a value it cannot take, or something is not installed.
      DataError: columns are missing, or of other types; or there is no such data.
    """
    _limits(engine, None, None)
    if holds_counts(data):
        given(data, schema, (), reading)
        return
    require_attributes(schema)
    with connected(data, with_columns(schema, reading), engine, row_bytes(schema, reading)) as found:
        encoded(found.source, schema, reading)


@contextmanager
def _counted(
    found: Connected,
    schema: Schema,
    views: list[Names],
    reading: Reading,
    limit: int,
    threads: int,
    told: Callable[[Iterator[Batch]], Iterator[Batch]],
) -> Iterator[ExactCounts]:
    """The engine's tables."""
    codes = encoded(found.source, schema, reading)

    def stream() -> Iterator[Batch]:
        return told(batches(found.connection, codes, found.source.explain))

    if found.engine == "memory" or (found.engine == "duckdb" and reading.unit is not None):
        # To cut units, DuckDB holds far more than the codes: they may as well be kept.
        yield load(stream, schema, reading, limit, threads)
    elif found.engine == "duckdb":
        yield streamed(stream, schema, reading, views)
    elif found.engine == "spark":
        from qcompile.data.engines.spark import cached

        with cached(found.connection, codes, found.source.explain) as kept:
            yield pushed(found.connection, kept, schema, reading, views, found.source.explain, found.rows)
    else:
        yield pushed(found.connection, codes, schema, reading, views, found.source.explain)


def _told(progress: Progress, data: object) -> Callable[[Iterator[Batch]], Iterator[Batch]]:
    """What tells of the rows of a stream as they pass by."""

    def told(stream: Iterator[Batch]) -> Iterator[Batch]:
        done, total = 0, known_rows(data)
        for batch in stream:
            yield batch
            done += len(batch[0])
            progress(done, total)

    return told


def _limits(engine: str, max_memory: int | None, workers: int | None) -> tuple[int, int]:
    """Bytes and threads that may be used."""
    one_of("engine", engine, ENGINES)
    limit = DEFAULT_MEMORY if max_memory is None else whole("max_memory", max_memory, 1, "bytes")
    return limit, (os.cpu_count() or 1) if workers is None else whole("workers", workers, 1, "threads")


def given(data: Mapping[Any, Any], schema: Schema, views: Iterable[Names], reading: Reading) -> GivenCounts:
    """Counts that were made elsewhere: a dict keyed by tuples of names.

    Raises:
      OptionError: a unit, or a column of counts, beside counts.
      DataError: the counts do not fit the schema or each other, or a view has none.
    """
    if reading.unit is not None:
        raise OptionError(
            f"unit={reading.unit!r} cannot be used with counts: rows of a unit can be cut before counting only; give "
            "the table itself, or leave unit out if no unit has more rows than contributions"
        )
    if reading.count_column is not None:
        raise OptionError(
            f"count_column={reading.count_column!r} cannot be used with counts by tuples of names, which have no "
            "columns; leave it out"
        )
    counts = GivenCounts.of(data, schema)
    counts.require(views)
    return counts


def read(
    data: object, schema: Schema, *, unit: str | None = None, contributions: int = 1, leave_out: bool = False
) -> Rows:
    """A table encoded in memory, whatever its size, for those who want the rows.

    Args:
      data: as in `open_data`.
      schema: the declared attributes.
      unit: see `Reading`.
      contributions: see `Reading`.
      leave_out: see `Reading`.

    Raises:
      OptionError: an option has a value it cannot take.
      DataError: the data cannot be read, or does not fit the schema.
      SizeError: there are too many rows.
    """
    reading = Reading(unit, contributions, leave_out)
    require_attributes(schema)
    with connected(data, with_columns(schema, reading), "memory") as found:
        stream = partial(batches, found.connection, encoded(found.source, schema, reading), found.source.explain)
        return load(stream, schema, reading, DEFAULT_MEMORY, 1)


def require_attributes(schema: Schema) -> None:
    """Refuse a schema without attributes.

    Raises:
      DataError: it has none.
    """
    if not len(schema):
        raise DataError("the schema declares no attribute, so there is nothing to read")
