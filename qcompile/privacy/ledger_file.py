"""The ledger's SQLite file: its layout, and how it is made and opened."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from qcompile.errors import BudgetError, StorageError
from qcompile.files import require_place, usual_mode

APPLICATION = 0x71636C67  # "qclg", in the file's header: tells a ledger from any other SQLite file
VERSION = 1

WAIT = 60.0
"""Seconds to wait for another process that is charging; a charge takes milliseconds."""

_LAYOUT = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  time TEXT NOT NULL, rho TEXT NOT NULL, budget TEXT NOT NULL, neighbours TEXT NOT NULL,
  contributions INTEGER NOT NULL, mechanism TEXT NOT NULL, noise TEXT NOT NULL, plan TEXT NOT NULL,
  version TEXT NOT NULL, release TEXT, content TEXT);
CREATE TRIGGER facts_stay BEFORE UPDATE ON facts BEGIN SELECT RAISE(ABORT, 'a ledger keeps its budget'); END;
CREATE TRIGGER facts_remain BEFORE DELETE ON facts BEGIN SELECT RAISE(ABORT, 'a ledger keeps its budget'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'a charge is never undone'); END;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries
WHEN OLD.content IS NOT NULL OR (NEW.number, NEW.time, NEW.rho, NEW.budget, NEW.neighbours, NEW.contributions,
  NEW.mechanism, NEW.noise, NEW.plan, NEW.version) IS NOT (OLD.number, OLD.time, OLD.rho, OLD.budget, OLD.neighbours,
  OLD.contributions, OLD.mechanism, OLD.noise, OLD.plan, OLD.version)
BEGIN SELECT RAISE(ABORT, 'a charge is never changed'); END;
"""


def create(path: Path, facts: Mapping[str, str]) -> None:
    """Fill a hidden file and give it its name, which fails where the name is taken.

    Raises:
      StorageError: there is a file already, or none can be written.
    """
    taken = f"{path} exists already; a ledger is never written over: give another name, or use the one that is there"
    if path.exists() or path.is_symlink():
        raise StorageError(taken)
    require_place(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    try:
        _fill(Path(name), facts)
        os.chmod(name, usual_mode())
        os.link(name, path)
    except FileExistsError:
        raise StorageError(taken) from None
    except OSError as e:
        raise StorageError(f"cannot write {path}: {e.strerror or e}") from None
    finally:
        os.unlink(name)


def _fill(path: Path, facts: Mapping[str, str]) -> None:
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(
            f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; PRAGMA synchronous = EXTRA;"
        )
        connection.executescript(f"BEGIN; {_LAYOUT} COMMIT;")
        connection.executemany("INSERT INTO facts VALUES (?, ?)", facts.items())


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that is closed afterwards; what was not committed is undone.

    Raises:
      StorageError: there is no file, it is damaged or something else, or another process has locked it for `WAIT`.
    """
    if not path.is_file():
        raise StorageError(f"there is no ledger {path}; create one with: qcompile ledger create {path}")
    # By URI, as sqlite3.connect would make a missing file.
    uri = f"{path.absolute().as_uri()}?mode=rw"
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            _require_ledger(connection, path)
            yield connection
    except (BudgetError, StorageError):
        raise
    except sqlite3.OperationalError as e:
        raise StorageError(_unusable(path, e)) from None
    except (sqlite3.DatabaseError, ArithmeticError, LookupError, ValueError, TypeError):
        raise StorageError(
            f"{path} is not a ledger, or is damaged; restore it from a backup and add what was spent since: a new one "
            "would forget past charges"
        ) from None


def facts(connection: sqlite3.Connection) -> dict[str, str]:
    """What was fixed when the ledger was made: rho, budget, version, time; neighbours and contributions where given."""
    return dict(connection.execute("SELECT name, value FROM facts").fetchall())


def _require_ledger(connection: sqlite3.Connection, path: Path) -> None:
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise StorageError(f"{path} is not a ledger of qcompile; name the ledger of this dataset")
    if version != VERSION:
        raise StorageError(
            f"{path} has ledger format {version}, this qcompile reads {VERSION}; use the one that wrote it"
        )


def _unusable(path: Path, error: sqlite3.OperationalError) -> str:
    if "locked" in str(error):
        return f"ledger {path} has been in use by another process for {WAIT:.0f} s; nothing was charged: try again"
    return f"ledger {path} cannot be used ({error}); check permissions and disk, and see what it holds: ledger show"
