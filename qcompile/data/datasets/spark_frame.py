"""Spark DataFrames."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

from qcompile.data.choose_engine import Place
from qcompile.data.datasets.dataset import TableDataset
from qcompile.data.datasets.opened import ConnectedTable
from qcompile.data.sources.ibis_columns import open_ibis_table
from qcompile.queries.schema import Schema


@final
@dataclass(frozen=True, eq=False)
class SparkFrame(TableDataset):
    """A Spark DataFrame.

    Attributes:
      frame: the DataFrame.
    """

    frame: Any

    @classmethod
    def recognise(cls, data: object) -> SparkFrame | None:
        """Return the frame of a Spark DataFrame; None of anything else."""
        module = sys.modules.get("pyspark.sql")  # a library that is not loaded cannot have made any
        return cls(data) if module is not None and isinstance(data, module.DataFrame) else None

    @property
    def place(self) -> Place:
        """In a Spark cluster."""
        return "spark"

    def columns(self) -> list[object]:
        """Return the names of all columns; see `Dataset.columns`."""
        return list(self.frame.columns)

    @contextmanager
    def _connect(self, columns: Schema, engine: str, memory: int, workers: int | None) -> Iterator[ConnectedTable]:
        from qcompile.data.engines import spark

        with (
            spark.connect_session(self.frame.sparkSession) as connection,
            spark.view_frame(connection, self.frame) as table,
        ):
            source = open_ibis_table(table, columns, connection, "the Spark DataFrame")
            yield ConnectedTable(engine, connection, source)
