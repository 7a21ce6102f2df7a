"""Differences between the databases of Ibis: operations that one lacks, written by others that it has."""

from __future__ import annotations

from typing import Any

from qcompile.errors import DataError


def translate(connection: Any, expression: Any) -> Any:
    """Return an Ibis expression with the same values in operations that the database has.

    A database without a test for not-a-number has none, or has one that differs from itself.

    Args:
      connection: the Ibis backend.
      expression: of tables on it.
    """
    import ibis.expr.operations as ops

    if connection.has_operation(ops.IsNan):
        return expression

    def replace(node: Any, arguments: dict[str, Any] | None) -> Any:
        kept = node if arguments is None else node.__recreate__(arguments)
        return ops.NotEquals(kept.arg, kept.arg) if isinstance(kept, ops.IsNan) else kept

    return expression.op().replace(replace).to_expr()


def require_compilable(connection: Any, expression: Any) -> None:
    """Refuse a query that cannot be written in the database's language. Nothing is sent.

    Args:
      connection: the Ibis backend.
      expression: as `translate` returns it.

    Raises:
      DataError: an operation is missing.
    """
    from ibis.common.exceptions import IbisError

    try:
        connection.compile(expression)
    except (IbisError, NotImplementedError):
        reason = f"{connection.name} lacks an operation that counting needs"
        raise DataError(f"{reason}; copy the table to a file, DuckDB or PostgreSQL, and count that") from None
