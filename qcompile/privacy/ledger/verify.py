"""The check of a ledger as an auditor makes it: nothing is believed that can be computed."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from qcompile.privacy.exact_numbers import amount_text
from qcompile.privacy.ledger.snapshot import Snapshot
from qcompile.privacy.ledger.sqlite_file import connect_ledger, tables_sql, triggers_sql


def verify_ledger(path: Path) -> tuple[Snapshot, list[str]]:
    """Read a ledger and look for what a ledger cannot become by charges alone.

    The file, its tables and triggers; numbers of the entries, which count from 1 without a gap, so that a charge that
    was removed is noticed; amounts, summed exactly; dataset and privacy unit of every charge.

    Args:
      path: the ledger.

    Returns:
      Its contents, and a sentence for each problem.

    Raises:
      StorageError: it cannot be read at all.
    """
    with connect_ledger(path) as connection:
        snapshot = Snapshot.of(connection, path)
        problems = [*_check_file(connection), *_check_layout(connection), *_check_numbers(connection, snapshot)]
    return snapshot, [*problems, *_check_charges(snapshot)]


def _check_file(connection: sqlite3.Connection) -> Iterator[str]:
    [[state], *_] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    if state != "ok":
        yield f"the file is damaged: {state}"


def _check_layout(connection: sqlite3.Connection) -> Iterator[str]:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(tables_sql(version) + triggers_sql(version))
        expected, present = _objects(fresh), _objects(connection)
    for name in sorted({*expected, *present}):
        if name not in present:
            yield f"{name} is missing, without which entries can be changed or removed"
        elif name not in expected:
            yield f"{name} is none of a ledger's"
        elif expected[name] != present[name]:
            yield f"{name} was changed"


def _objects(connection: sqlite3.Connection) -> dict[str, str]:
    """Tables and triggers by name, with the statements that made them, but for the blanks."""
    rows = connection.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    return {f"{kind} {name}": " ".join(sql.split()) for kind, name, sql in rows}


def _check_numbers(connection: sqlite3.Connection, snapshot: Snapshot) -> Iterator[str]:
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'entries'").fetchone() or (0,)
    numbers = [e.number for e in snapshot.entries]
    if numbers != list(range(1, last[0] + 1)):
        yield f"entries were removed or renumbered: {last[0]} charges were made, {len(numbers)} are there"


def _check_charges(snapshot: Snapshot) -> Iterator[str]:
    spent, named = Fraction(0), {} if snapshot.dataset is None else {"dataset": snapshot.dataset}
    expected = snapshot.unit | named
    for entry in snapshot.entries:
        spent += entry.charge.rho
        if spent > snapshot.budget:
            yield (
                f"entry {entry.number} exceeds the budget: rho {amount_text(spent)} of {amount_text(snapshot.budget)}"
            )
        for name, fixed in expected.items():
            if getattr(entry.charge, name) != fixed:
                yield f"entry {entry.number} has {name} {getattr(entry.charge, name)!r}, the ledger has {fixed!r}"
