"""A lock on a folder that ends with the process, by SQLite: it works wherever a ledger works."""

from __future__ import annotations

import sqlite3
from contextlib import ExitStack
from pathlib import Path

from qcompile.errors import StorageError

LOCK = "lock"


def lock_folder(folder: Path) -> sqlite3.Connection:
    """Lock a folder against other processes and other threads; closing the connection ends the lock.

    The file of the lock stays empty: a lock needs no transaction that writes.

    Raises:
      StorageError: another holds the lock, or the disk has no locks.
    """
    try:
        with ExitStack() as failed:
            connection = sqlite3.connect(folder / LOCK, timeout=0, isolation_level=None, check_same_thread=False)
            failed.callback(connection.close)
            connection.execute("PRAGMA journal_mode = MEMORY")  # no second file
            connection.execute("BEGIN EXCLUSIVE")
            failed.pop_all()
            return connection
    except sqlite3.Error as e:
        if "locked" in str(e):
            raise StorageError(f"{folder} is in use by another run; wait for its end") from None
        raise StorageError(f"{folder} cannot be locked ({e}); use a disk whose locks work") from None
