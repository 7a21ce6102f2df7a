"""Data: reading, encoding by the schema, and exact counting. Nothing here adds noise, and nothing is printed."""

from qcompile.data.counts import ExactCounts, Rows, open_data, read
from qcompile.data.given import GivenCounts

__all__ = ["ExactCounts", "GivenCounts", "Rows", "open_data", "read"]
