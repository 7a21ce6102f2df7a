"""The local engine: DuckDB through Ibis, in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qcompile.data.sources.engine_errors import call_engine, quiet

UNSAFE = "statistics_propagation"
"""An optimiser to switch off: it takes a column's minimum and maximum in a Parquet file, which leave NaN out, for a
proof that there is no NaN (2.0.1: a filter by isnan finds nothing)."""


@contextmanager
def connect_duckdb(memory: int | None = None, workers: int | None = None, path: Path | None = None) -> Iterator[Any]:
    """Yield an Ibis connection to a private DuckDB that never spills to disk nor fetches extensions.

    Args:
      memory: bytes that DuckDB may take itself; a share of the machine's where None.
      workers: threads; one per processor where None.
      path: of a database, which is only read; a database in memory where None.

    Raises:
      DataError: the database cannot be opened.
    """
    import ibis

    where = {} if path is None else {"database": str(path), "read_only": True}
    safe = {"temp_directory": "", "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    connection = call_engine(
        lambda: ibis.duckdb.connect(**where, **safe),
        lambda _: f"{path} cannot be opened as a DuckDB database; it may be damaged, or open in another program",
    )
    with quiet():
        _hide_progress(connection)
        connection.raw_sql("SET preserve_insertion_order = false")  # which it keeps rows in memory for
        connection.raw_sql(f"SET disabled_optimizers = '{UNSAFE}'")
        if memory is not None:
            connection.raw_sql(f"SET memory_limit = '{memory} B'")
        if workers is not None:
            connection.raw_sql(f"SET threads = {workers}")
    try:
        yield connection
    finally:
        connection.disconnect()


def _hide_progress(connection: Any) -> None:
    """Switch DuckDB's progress bar off where it is on: it appears on stdout after two seconds, and shows a time.

    In a Jupyter kernel without ipywidgets the bar is off, and DuckDB refuses to set it at all (duckdb issue 7590).
    """
    (shown,) = connection.raw_sql("SELECT current_setting('enable_progress_bar')").fetchone()
    if shown:
        connection.raw_sql("SET enable_progress_bar = false")


def read_memory_limit(connection: Any) -> int:
    """Return the bytes that DuckDB may take, to within a twentieth: DuckDB tells them as text, such as 4.6 GiB."""
    ((text,),) = connection.raw_sql("SELECT current_setting('memory_limit')").fetchall()
    number, unit = text.split()
    return int(float(number) * 1024 ** ("bytes", "KiB", "MiB", "GiB", "TiB").index(unit))


@contextmanager
def keep_nan(connection: Any) -> Iterator[None]:
    """Keep a user's own DuckDB connection from losing NaN, see `UNSAFE`; its settings are restored in the end."""
    before = connection.raw_sql("SELECT current_setting('disabled_optimizers')").fetchone()[0]
    connection.raw_sql(f"SET disabled_optimizers = '{before + ',' if before else ''}{UNSAFE}'")
    try:
        yield
    finally:
        connection.raw_sql(f"SET disabled_optimizers = '{before}'")
