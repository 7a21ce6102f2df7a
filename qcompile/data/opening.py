"""The entrance to data for one call: from the data that a user passes to exact tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

from qcompile.data.datasets.dataset import PLAIN, check_limits, require_attributes
from qcompile.data.datasets.opened import Progress, ignore_progress
from qcompile.data.encode.reading import Reading
from qcompile.data.encode.table import encode_table
from qcompile.data.encode.units import columns_to_open
from qcompile.data.engines.counts import ExactCounts, Rows
from qcompile.data.engines.cover import Names
from qcompile.data.engines.passes import Passes
from qcompile.data.engines.stream import load_rows, read_batches
from qcompile.data.recognition import recognise
from qcompile.queries.schema import Schema
from qcompile.support.arrays import DEFAULT_MEMORY


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
    progress: Progress = ignore_progress,
) -> Iterator[ExactCounts]:
    """Yield exact tables of data, which are counted while the context is open.

    Data that has to be refused is refused on entering: afterwards no error depends on a value.

    Args:
      data: a path to a CSV, TSV, JSON lines, Parquet or Arrow file, a folder or a pattern of files of one kind, or a
        list of them, see `qcompile.data.datasets.find_parts`; a pandas or polars DataFrame, an Arrow table, a dict of
        column name to list or array; an Arrow stream, a pyarrow dataset, a DuckDB relation; a `Database`, an Ibis
        table, a Spark DataFrame; a dict of counts keyed by tuples of attribute names; or a `Dataset`. Columns are found
        by name; others are ignored.
      schema: the declared attributes.
      views: sets of attributes whose tables will be asked for; an engine that holds no rows plans its scans by them.
      reading: how rows become counts.
      engine: the one that counts, one of `choose_engine.ENGINES`: "memory" holds compact rows; "duckdb" reads the rows
        anew for each scan and holds none, except that with a unit it holds the codes of the rows; "database" has the
        table's own database count; "spark" has Spark read and count. "auto" is "memory" where the rows take a quarter
        of the memory at most, "duckdb" for larger files, and for all others the engine that has the table.
      max_memory: bytes that reading and counting may use; `qcompile.support.arrays.DEFAULT_MEMORY` where None.
      workers: threads; one per processor where None.
      progress: called with (rows read, rows in all); the second is 0 when unknown. CONFIDENTIAL numbers.

    Raises:
      OptionError: an option has a value it cannot take, or something is not installed.
      DataError: the data cannot be read, or does not fit the schema. The message holds no value of the data.
      SizeError: it does not fit in memory.
    """
    check_limits(engine, max_memory, workers)
    limits = {"max_memory": max_memory, "workers": workers}
    with (
        recognise(data).open(schema, reading, engine=engine, **limits) as opened,
        opened.counts(views, progress) as counts,
    ):
        yield counts


def preflight(data: object, schema: Schema, reading: Reading = PLAIN, engine: str = "auto") -> None:
    """Refuse data whose columns or types do not fit. No value is read.

    Args:
      data: as in `open_data`.
      schema: the declared attributes.
      reading: how the rows are read.
      engine: as in `open_data`.

    Raises:
      OptionError: an option has a value it cannot take, or something is not installed.
      DataError: columns are missing, or of other types; or there is no such data.
    """
    check_limits(engine, None, None)
    with recognise(data).open(schema, reading, engine=engine):
        pass


def read(
    data: object, schema: Schema, *, unit: str | None = None, contributions: int = 1, leave_out: bool = False
) -> Rows:
    """Read and encode a table into memory, whatever its size.

    Args:
      data: as in `open_data`, but no counts.
      schema: the declared attributes.
      unit: see `Reading`.
      contributions: see `Reading`.
      leave_out: see `Reading`.

    Raises:
      OptionError: an option has a value it cannot take, or the data are counts, not rows.
      DataError: the data cannot be read, or does not fit the schema.
      SizeError: there are too many rows.
    """
    reading = Reading(unit, contributions, leave_out)
    require_attributes(schema)
    with recognise(data).connect(columns_to_open(schema, reading), "memory") as connected:
        source = connected.source
        batches = partial(read_batches, connected.connection, encode_table(source, schema, reading), source.explain)
        return load_rows(Passes(lambda _: batches()), schema, reading, DEFAULT_MEMORY, 1)
