"""The local engine: DuckDB through Ibis, in memory; and errors of engines without the values they quote.

Engines quote the offending line in their messages. Such a text must not leave: every call that can fail on
the data goes through `guarded`, which reports a message of our own and keeps no reference to the original.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from qcompile.errors import DataError, QCompileError, SizeError

T = TypeVar("T")

ERRORS = (
    ("duckdb", "Error"),
    ("ibis.common.exceptions", "IbisError"),
    ("psycopg", "Error"),
    ("py4j.protocol", "Py4JError"),
    ("pyarrow", "ArrowException"),
    ("pyspark.errors", "PySparkException"),
)
"""Modules and the roots of their errors. A module that is not loaded cannot have raised anything."""

UNSAFE = "statistics_propagation"
"""What DuckDB may not do: it takes a column's minimum and maximum in a Parquet file, which leave NaN out, for a proof
that there is no NaN (2.0.1: a filter by isnan finds nothing)."""

EXHAUSTED = "reading takes more memory than DuckDB may use, half of the limit; raise it: --max-memory, max_memory"


@contextmanager
def engine(memory: int | None = None, workers: int | None = None, path: Path | None = None) -> Iterator[Any]:
    """An Ibis connection to a private DuckDB that never spills to disk nor fetches extensions.

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
    connection = guarded(
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


@contextmanager
def nan_safe(connection: Any) -> Iterator[None]:
    """Keep a user's own DuckDB connection from losing NaN, see `UNSAFE`; in the end it is as before."""
    before = connection.raw_sql("SELECT current_setting('disabled_optimizers')").fetchone()[0]
    connection.raw_sql(f"SET disabled_optimizers = '{before + ',' if before else ''}{UNSAFE}'")
    try:
        yield
    finally:
        connection.raw_sql(f"SET disabled_optimizers = '{before}'")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the deprecations that Ibis and its engines raise between themselves; users cannot act on them."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        yield


def fetch(connection: Any, expression: Any, explain: Callable[[str], str]) -> list[dict[str, Any]]:
    """The rows of a small result, by column name.

    Raises:
      DataError: the engine refused the data, see `guarded`.
    """
    rows: list[dict[str, Any]] = guarded(lambda: connection.to_pyarrow(expression), explain).to_pylist()
    return rows


def guarded(call: Callable[[], T], explain: Callable[[str], str]) -> T:
    """The result of ``call``, or a DataError in our words.

    Args:
      call: what may fail on the data.
      explain: from the engine's text, which may hold values of the data, to a message that holds none.

    Raises:
      DataError: the engine refused the data.
      SizeError: DuckDB ran out of the memory that it was given.
    """
    try:
        with quiet():
            return call()
    except QCompileError:
        raise
    except (ValueError, TypeError, LookupError, OverflowError, OSError) as error:
        message: str | None = explain(str(error))
    except Exception as error:
        message = _engine_message(error, explain)
    # Raised outside of the handler: as __context__, the engine's error would reach whoever logs tracebacks.
    if message is None:
        raise KeyboardInterrupt
    if message is EXHAUSTED:
        raise SizeError(message)
    raise DataError(message)


def _engine_message(error: Exception, explain: Callable[[str], str]) -> str | None:
    """Our words for an engine's error; None for what Ctrl-C becomes while DuckDB works."""
    name = type(error).__name__
    if name == "OutOfMemoryException":
        return EXHAUSTED
    if name == "InterruptException" or (isinstance(error, RuntimeError) and "interrupted" in str(error).lower()):
        return None
    known = (getattr(sys.modules.get(module), root, None) for module, root in ERRORS)
    if isinstance(error, tuple(root for root in known if root is not None)):
        return explain(str(error))
    raise error
