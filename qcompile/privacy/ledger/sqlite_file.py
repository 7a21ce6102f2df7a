"""The ledger's SQLite file: its layout, and how it is made and opened."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from qcompile.errors import StorageError
from qcompile.support.files import (
    finish_file,
    hidden_file,
    place,
    require_place,
    require_short_name,
    shorten,
    sync_folder,
    usual_mode,
)

APPLICATION = 0x71636C67  # "qclg", in the file's header: tells a ledger from any other SQLite file
VERSION = 2

OLDEST = 1
"""Has entries without `dataset` and `folder`, and no name of a dataset; it is charged as it is."""

WAIT = 60.0
"""Seconds to wait for another process that is charging; a charge takes milliseconds."""

_LAYOUT = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  time TEXT NOT NULL, rho TEXT NOT NULL, budget TEXT NOT NULL, neighbours TEXT NOT NULL,
  contributions INTEGER NOT NULL, unit TEXT, mechanism TEXT NOT NULL, noise TEXT NOT NULL, plan TEXT NOT NULL,
  version TEXT NOT NULL, release TEXT, content TEXT{later});
"""

_SEALS = """
CREATE TRIGGER facts_closed BEFORE INSERT ON facts BEGIN SELECT RAISE(ABORT, 'a ledger keeps its budget'); END;
CREATE TRIGGER facts_stay BEFORE UPDATE ON facts BEGIN SELECT RAISE(ABORT, 'a ledger keeps its budget'); END;
CREATE TRIGGER facts_remain BEFORE DELETE ON facts BEGIN SELECT RAISE(ABORT, 'a ledger keeps its budget'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'a charge is never undone'); END;
CREATE TRIGGER entries_once BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'a charge is never changed'); END;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
WHEN OLD.content IS NOT NULL OR (NEW.number, NEW.time, NEW.rho, NEW.budget, NEW.neighbours, NEW.contributions, NEW.unit,
  NEW.mechanism, NEW.noise, NEW.plan, NEW.version{new})
  IS NOT (OLD.number, OLD.time, OLD.rho, OLD.budget, OLD.neighbours, OLD.contributions, OLD.unit,
  OLD.mechanism, OLD.noise, OLD.plan, OLD.version{old})
BEGIN SELECT RAISE(ABORT, 'a charge is never changed'); END;
"""
"""Against accidents: who can write the file can also drop a trigger."""

_LATER: dict[int, dict[str, str]] = {
    1: {"later": "", "new": "", "old": ""},
    2: {
        "later": ",\n  dataset TEXT, folder TEXT NOT NULL",
        "new": ", NEW.dataset, NEW.folder",
        "old": ", OLD.dataset, OLD.folder",
    },
}


def tables_sql(version: int) -> str:
    """The statements that make the tables of a format."""
    return _LAYOUT.format(**_LATER[version])


def triggers_sql(version: int) -> str:
    """The statements that make the triggers of a format."""
    return _SEALS.format(**_LATER[version])


def create_file(path: Path, facts: Mapping[str, str]) -> None:
    """Fill a hidden file and give it its name, which fails where the name is taken.

    Raises:
      StorageError: there is a file already, or none can be written.
    """
    taken = f"{path} exists already; a ledger is never written over: give another name, or use the one that is there"
    if os.path.lexists(path):
        raise StorageError(taken)
    target = require_place(path)
    require_short_name(target)
    try:
        with hidden_file(target) as temporary:
            _fill(temporary, facts)
            finish_file(temporary, usual_mode())
            os.link(temporary, target)
            sync_folder(target.parent)
    except FileExistsError:
        raise StorageError(taken) from None
    except OSError as e:
        raise StorageError(f"cannot write {shorten(path)}: {e.strerror or e}") from None
    except sqlite3.Error as e:
        raise StorageError(f"cannot write {shorten(path)}: {e}; check the space on the disk") from None


def _fill(path: Path, facts: Mapping[str, str]) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; PRAGMA synchronous = EXTRA;"
        )
        connection.executescript(tables_sql(VERSION))
        connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())
        connection.executescript(triggers_sql(VERSION))


@contextmanager
def connect_ledger(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is closed afterwards; what was not committed is undone.

    Raises:
      StorageError: there is no file, it is damaged or something else, or another process has locked it for `WAIT`.
    """
    _require_file(path)
    # By URI, as sqlite3.connect would make a missing file.
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            _require_ledger(connection, path)
            yield connection
    except sqlite3.OperationalError as e:
        raise StorageError(_unusable_message(path, e)) from None
    except sqlite3.DatabaseError as e:
        raise (StorageError(_foreign_message(path)) if "not a database" in str(e) else damage_error(path)) from None


def damage_error(path: Path) -> StorageError:
    """The error for a ledger whose contents cannot be what was written."""
    return StorageError(
        f"ledger {path} is damaged; restore it from a backup and add what was spent since: a new one would forget past "
        "charges"
    )


def _require_file(path: Path) -> None:
    """Refuse what is no file before SQLite opens it, which would wait for a pipe.

    The file is not opened here: closing it would drop the locks that another thread's connection holds on it.
    """
    try:
        there = place(path)
    except (OSError, ValueError) as e:
        raise StorageError(f"ledger {shorten(path)} cannot be read: {getattr(e, 'strerror', None) or e}") from None
    if there == "nothing":
        raise StorageError(f"there is no ledger {path}; create one with: qcompile ledger create {path}")
    if there != "file":
        raise StorageError(_foreign_message(path))
    names = path.stat().st_nlink
    if names > 1:
        raise StorageError(
            f"ledger {path} has {names} names (hard links). SQLite finds a charge that was cut short by the name of "
            "the file, so that charges by several names can be lost; keep one name, and remove the others"
        )


def _foreign_message(path: Path) -> str:
    return f"{path} is not a ledger of qcompile; name the ledger of this dataset"


def read_facts(connection: sqlite3.Connection) -> dict[str, str]:
    """Constants of the ledger: rho, budget, version, time; neighbours, contributions and dataset if they were fixed."""
    return dict(connection.execute("SELECT name, value FROM facts").fetchall())


def _require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise StorageError(_foreign_message(path))
    if not OLDEST <= version <= VERSION:
        raise StorageError(
            f"{path} has ledger format {version}, this qcompile reads {OLDEST} to {VERSION}; use the one that wrote it"
        )


def _unusable_message(path: Path, error: sqlite3.OperationalError) -> str:
    if "locked" in str(error):
        return f"ledger {path} has been in use by another process for {WAIT:.0f} s, so nothing was noted: try again"
    return f"ledger {path} cannot be used ({error}); check permissions and disk, and see what it holds: ledger show"
