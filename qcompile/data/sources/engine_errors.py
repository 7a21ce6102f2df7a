"""Calls of engines, with their errors reworded.

Engines quote the offending line in their messages. Such a text must not leave: every call that can fail on
the data goes through `call_engine`, which reports a message of our own and keeps no reference to the original.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from qcompile.errors import DataError, QCompileError, SizeError

T = TypeVar("T")


ERRORS = (
    ("ibis.common.exceptions", "IbisError"),
    ("py4j.protocol", "Py4JError"),
    ("pyarrow", "ArrowException"),
    ("pyspark.errors", "PySparkException"),
)
"""Modules and the roots of their errors, beside those of `_is_of_a_driver`. A module that is not loaded cannot have
raised anything."""


EXHAUSTED = "reading takes more memory than DuckDB may use, half of the limit; raise it: --max-memory, max_memory"


class ExhaustedError(SizeError):
    """DuckDB ran out of its memory; the same work on fewer rows at a time may succeed."""


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the deprecations that Ibis and its engines raise between themselves; users cannot act on them."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        yield


def fetch(connection: Any, expression: Any, explain: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return the rows of a small result, by column name.

    Raises:
      DataError: the engine refused the data, see `call_engine`.
    """
    rows: list[dict[str, Any]] = call_engine(lambda: connection.to_pyarrow(expression), explain).to_pylist()
    return rows


def call_engine(call: Callable[[], T], explain: Callable[[str], str]) -> T:
    """Return the result of ``call``; reword the engine's errors.

    Args:
      call: a function that may fail on the data.
      explain: from the engine's text, which may hold values of the data, to a message that holds none.

    Raises:
      DataError: the engine refused the data.
      ExhaustedError: DuckDB ran out of its memory.
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
        raise ExhaustedError(message)
    raise DataError(message)


def _engine_message(error: Exception, explain: Callable[[str], str]) -> str | None:
    """Reword an engine's error; None for the error that Ctrl-C raises inside DuckDB."""
    name = type(error).__name__
    if name == "OutOfMemoryException":
        return EXHAUSTED
    if name == "InterruptException" or (isinstance(error, RuntimeError) and "interrupted" in str(error).lower()):
        return None
    known = (getattr(sys.modules.get(module), root, None) for module, root in ERRORS)
    if isinstance(error, tuple(root for root in known if root is not None)) or _is_of_a_driver(error):
        return explain(str(error))
    raise error


def _is_of_a_driver(error: Exception) -> bool:
    """True for the errors of a database driver: all have a root called Error (PEP 249)."""
    return any(kind.__name__ == "Error" for kind in type(error).__mro__)
