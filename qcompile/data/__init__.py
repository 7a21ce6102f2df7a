"""Data: reading, encoding by the schema, and exact counting. Nothing here adds noise, and nothing is printed."""

from qcompile.data.choose import ENGINES
from qcompile.data.counts import ExactCounts, Rows
from qcompile.data.databases import Database
from qcompile.data.given import GivenCounts
from qcompile.data.opening import open_data, preflight, read
from qcompile.data.reading import Reading

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
