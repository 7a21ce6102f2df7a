"""Data: reading, encoding by the schema, and exact counting. Nothing here adds noise, and nothing is printed."""

from qcompile.data.choose_engine import ENGINES
from qcompile.data.datasets.database import Database
from qcompile.data.datasets.dataset import Dataset
from qcompile.data.datasets.opened import OpenedData
from qcompile.data.encode.reading import Reading
from qcompile.data.engines.counts import ExactCounts, Rows
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.data.opening import open_data, preflight, read
from qcompile.data.recognition import recognise

__all__ = [
    "ENGINES",
    "Database",
    "Dataset",
    "ExactCounts",
    "GivenCounts",
    "OpenedData",
    "Reading",
    "Rows",
    "open_data",
    "preflight",
    "read",
    "recognise",
]
