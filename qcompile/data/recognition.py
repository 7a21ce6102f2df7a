"""The one decision about the kind of the data."""

from __future__ import annotations

from qcompile.data.datasets.arrow_stream import ArrowStream
from qcompile.data.datasets.count_tables import CountTables
from qcompile.data.datasets.database import Database
from qcompile.data.datasets.dataset import Dataset
from qcompile.data.datasets.files import Files
from qcompile.data.datasets.frame import Frame
from qcompile.data.datasets.ibis_table import IbisTable
from qcompile.data.datasets.spark_frame import SparkFrame
from qcompile.data.sources.file_formats import FILES
from qcompile.errors import DataError

KINDS: tuple[type[Dataset], ...] = (Files, Database, IbisTable, SparkFrame, CountTables, Frame, ArrowStream)
"""The kinds of data, in the order in which they are tried."""


def recognise(data: object) -> Dataset:
    """Return the dataset that the data is; a dataset is returned as it is.

    No library is imported, no file is touched, and no value is looked at.

    Args:
      data: see `qcompile.data.opening.open_data`.

    Raises:
      DataError: the data is of no kind that can be read.
    """
    if isinstance(data, Dataset):
        return data
    for kind in KINDS:
        dataset = kind.recognise(data)
        if dataset is not None:
            return dataset
    raise DataError(
        f"cannot read data of type {type(data).__name__}; pass a path to {FILES}, a pandas or polars DataFrame, an "
        "Arrow table, dataset or stream, a DuckDB relation, a dict of columns, a dict of counts keyed by tuples of "
        "attribute names, a Database, an Ibis table or a Spark DataFrame"
    )
