"""The counting engine: DuckDB through Ibis, in memory, and its errors without the values they quote.

Engines quote the offending line in their messages. Such a text must not leave: every call that can fail on
the data goes through `guarded`, which reports a message of our own and keeps no reference to the original.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from qcompile.errors import DataError

T = TypeVar("T")


@contextmanager
def engine() -> Iterator[Any]:
    """An Ibis connection to a private in-memory DuckDB that never spills to disk nor fetches extensions."""
    import ibis

    with quiet():
        connection = ibis.duckdb.connect(
            temp_directory="", autoinstall_known_extensions=False, autoload_known_extensions=False
        )
        # It would write on stdout after two seconds, and tell how long the data takes.
        connection.raw_sql("SET enable_progress_bar = false")
    try:
        yield connection
    finally:
        connection.disconnect()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the deprecations that Ibis and DuckDB raise between themselves; users cannot act on them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
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
    """
    import duckdb
    import pyarrow as pa

    try:
        with quiet():
            return call()
    except (duckdb.Error, pa.ArrowException, ValueError, TypeError, LookupError, OverflowError, OSError) as error:
        message = None if isinstance(error, duckdb.InterruptException) else explain(str(error))
    except RuntimeError as error:  # what Ctrl-C becomes while DuckDB works
        if "interrupted" not in str(error).lower():
            raise
        message = None
    # Raised outside of the handler: as __context__, the engine's error would reach whoever logs tracebacks.
    if message is None:
        raise KeyboardInterrupt
    raise DataError(message)
