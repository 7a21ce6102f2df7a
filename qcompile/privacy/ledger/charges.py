"""Charges in a ledger's table: the amount, its purpose, and the release that it paid for."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from qcompile.errors import OptionError, StorageError
from qcompile.privacy.budget import has_gaussian_curve
from qcompile.privacy.exact_numbers import exact, finite
from qcompile.privacy.unit import MOST_CONTRIBUTIONS, NEIGHBOURS
from qcompile.support.options import one_of, whole
from qcompile.version import __version__

_COLUMNS = ("time", "rho", "budget", "neighbours", "contributions", "unit", "mechanism", "noise", "plan")

_LATER = ("dataset", "folder")
"""Columns that ledgers of format 1 lack."""


@dataclass(frozen=True, kw_only=True)
class Charge:
    """An amount to charge and its purpose; all of it public.

    Attributes:
      rho: exactly.
      budget: as it was asked for.
      neighbours: the relation that rho refers to.
      contributions: rows of one privacy unit.
      unit: the column by which rows were cut to that number, or the text of a column of counts each unit of which is
        such a row; None where neither is.
      mechanism: "batch", or what else spends.
      noise: how it was drawn.
      plan: hash of the plan.
      time: UTC, when the run began, ISO 8601; now where it is empty.
      run: of a run that may be resumed, its name, recorded in place of the release until there is one.
      dataset: the name of the dataset, as its user declares it; None where it is not named.
      folder: of a run that may be resumed, the folder of its measurements until there is a release.
    """

    rho: Fraction
    budget: str = ""
    neighbours: str = "add-remove"
    contributions: int = 1
    unit: str | None = None
    mechanism: str = ""
    noise: str = ""
    plan: str = ""
    time: str = ""
    run: str = ""
    dataset: str | None = None
    folder: str = ""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A recorded charge.

    Attributes:
      number: from 1, in the order of the charges.
      charge: what was spent.
      version: of qcompile.
      release: name of the file that it paid for, or, before there is one, of the run that is to write it; None where
        neither was recorded: the charge counts all the same.
      content: hash of that file's contents.
    """

    number: int
    charge: Charge
    version: str
    release: str | None
    content: str | None


def check_charge(charge: Charge) -> Charge:
    """The charge with its amount as a fraction.

    Raises:
      BudgetError: the amount is none.
      OptionError: relation, rows or texts are not what they can be.
    """
    for name in ("budget", "unit", "mechanism", "noise", "plan", "time", "run", "dataset", "folder"):
        value = getattr(charge, name)
        if not (isinstance(value, str) or (name in ("unit", "dataset") and value is None)):
            raise OptionError(f"{name} must be text, got {value!r}")
        if value is not None and value != value.encode(errors="replace").decode():
            raise OptionError(f"{name} must be text in Unicode, got {value!r}")
    one_of("neighbours", charge.neighbours, NEIGHBOURS)
    rows = whole("contributions", charge.contributions, 1, "rows", MOST_CONTRIBUTIONS)
    return replace(charge, rho=exact("rho", charge.rho), contributions=rows)


def insert_charge(connection: sqlite3.Connection, charge: Charge) -> int:
    """Write a charge, and return its number."""
    values = {name: getattr(charge, name) for name in _columns(connection)}
    values |= {"rho": str(charge.rho), "time": charge.time or now(), "version": __version__}
    values |= {"release": charge.run or None}
    statement = f"INSERT INTO entries ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"
    number = connection.execute(statement, tuple(values.values())).lastrowid
    if number is None:
        raise StorageError("the charge could not be recorded; nothing was drawn")
    return number


def read_entries(connection: sqlite3.Connection) -> tuple[Entry, ...]:
    """All charges in their order; raises ValueError if an amount is invalid."""
    columns = ("number", "version", "release", "content", *_columns(connection))
    rows = connection.execute(f"SELECT {', '.join(columns)} FROM entries ORDER BY number")
    return tuple(_entry(dict(zip(columns, row, strict=True))) for row in rows)


def _columns(connection: sqlite3.Connection) -> tuple[str, ...]:
    """The columns of a charge in a ledger of any format."""
    present = {row[1] for row in connection.execute("PRAGMA table_info(entries)")}
    return (*_COLUMNS, *(name for name in _LATER if name in present))


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _amount(text: str) -> Fraction:
    value = finite("rho", text)
    if value <= 0:  # only tampering writes that; it would give budget back
        raise ValueError("a charge is above 0")
    return value


_NUMBERS, _NULLABLE = ("number", "contributions"), ("unit", "dataset", "release", "content")
"""Columns with whole numbers, and columns that may be NULL; all others hold text."""


def _require_types(row: dict[str, Any]) -> None:
    """Refuse what SQLite takes in any column, and no charge writes: bytes, numbers for text, NULL.

    Raises:
      ValueError: a value has another type than its column.
    """
    for name, value in row.items():
        fits = type(value) is (int if name in _NUMBERS else str)
        if not (fits or (value is None and name in _NULLABLE)):
            raise ValueError(f"{name} has another type")


def _entry(row: dict[str, Any]) -> Entry:
    _require_types(row)
    charged = {name: row.pop(name) for name in (*_COLUMNS, *_LATER) if name in row}
    if str(charged["budget"]).startswith("mu ") and not has_gaussian_curve(charged["mechanism"], charged["noise"]):
        charged["budget"] = f"rho {charged['rho']} (zcdp)"  # earlier versions took mu where it does not hold
    return Entry(charge=Charge(**{**charged, "rho": _amount(charged["rho"])}), **row)
