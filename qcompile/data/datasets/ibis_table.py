"""Ibis table expressions, on any backend."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, final

from qcompile.data.choose_engine import Place
from qcompile.data.datasets.dataset import TableDataset
from qcompile.data.datasets.opened import ConnectedTable
from qcompile.data.sources.duckdb import keep_nan
from qcompile.data.sources.ibis_columns import open_ibis_table
from qcompile.errors import OptionError
from qcompile.queries.schema import Schema

PLACES: dict[str, Place] = {"duckdb": "duckdb", "pyspark": "spark"}
"""Names of backends to where their tables are; "server" for all others."""


@final
@dataclass(frozen=True, eq=False)
class IbisTable(TableDataset):
    """An Ibis table expression.

    Attributes:
      table: the expression.
    """

    table: Any

    @classmethod
    def recognise(cls, data: object) -> IbisTable | None:
        """Return the table of an Ibis expression; None of anything else."""
        module = sys.modules.get("ibis.expr.types")  # a library that is not loaded cannot have made any
        return cls(data) if module is not None and isinstance(data, module.Table) else None

    @property
    def place(self) -> Place:
        """The place of the backend.

        Raises:
          OptionError: the table is bound to no connection, or to several.
        """
        return PLACES.get(self.backend().name, "server")

    def backend(self) -> Any:
        """Return the Ibis connection.

        Raises:
          OptionError: the table is bound to none, or to several.
        """
        from ibis.common.exceptions import IbisError

        try:
            return self.table._find_backend(use_default=True)
        except IbisError:
            raise OptionError("the Ibis table is not bound to one connection; pass connection.table(name)") from None

    def columns(self) -> list[object]:
        """Return the names of all columns; see `Dataset.columns`."""
        return list(self.table.columns)

    @contextmanager
    def _connect(self, columns: Schema, engine: str, memory: int, workers: int | None) -> Iterator[ConnectedTable]:
        connection = self.backend()
        with keep_nan(connection) if connection.name == "duckdb" else nullcontext():
            source = open_ibis_table(self.table, columns, connection, "the Ibis table")
            yield ConnectedTable(engine, connection, source)
