"""The journal of an unfinished run: measurements on disk, in parts, under a lock."""

from qcompile.run.journal.journal import Journal

__all__ = ["Journal"]
