"""Data: reading, encoding by the schema, and exact counting. Nothing here adds noise, and nothing is printed."""

from qcompile.data.choose_engine import ENGINES
from qcompile.data.encode.reading import Reading
from qcompile.data.engines.counts import ExactCounts, Rows
from qcompile.data.engines.given_counts import GivenCounts
from qcompile.data.opening import open_data, preflight, read
from qcompile.data.sources.databases import Database

__all__ = [
    "ENGINES",
    "Database",
    "ExactCounts",
    "GivenCounts",
    "Reading",
    "Rows",
    "open_data",
    "preflight",
    "read",
]
