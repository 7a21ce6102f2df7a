"""The ledger: what has been spent on one dataset, in a SQLite file that cannot be overspent.

A charge is one transaction: it takes the write lock, adds up what is recorded, refuses or inserts, and is on disk when
`Ledger.charge` returns, before any noise is drawn. Processes that charge at once wait for each other. A process that
dies leaves either no charge or a whole one; SQLite undoes what was half-written when the file is next opened. Nothing
but a release's hash and name is ever added to an entry, and no entry is changed or removed: triggers refuse it.

Amounts are exact fractions, written as text and added up in exact arithmetic. zCDP composes by adding rho (Bun, Steinke
2016, Lemma 1.7), also where later queries depend on earlier releases. It adds up per privacy unit: all charges of a
ledger are for one relation of neighbouring tables.
"""

from __future__ import annotations

import sqlite3
from fractions import Fraction
from pathlib import Path

from qcompile.checks import one_of, whole
from qcompile.errors import BudgetError, OptionError, OverspendError, StorageError
from qcompile.privacy import charges
from qcompile.privacy.budget import Budget
from qcompile.privacy.charges import Charge, Entry
from qcompile.privacy.exact import Number, exact, rounded_text
from qcompile.privacy.ledger_file import connected, create, facts
from qcompile.privacy_unit import NEIGHBOURS
from qcompile.version import __version__


class Ledger:
    """The account of one dataset.

    Every call opens the file anew, so a ledger may be shared by threads and processes. The file must be on a disk whose
    locks work; network drives often have none.

    Attributes:
      path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @staticmethod
    def create(
        path: str | Path,
        budget: Budget,
        *,
        neighbours: str | None = None,
        contributions: int | None = None,
    ) -> Ledger:
        """A new ledger; a file that exists is never touched.

        Args:
          path: where.
          budget: all that may ever be spent on the dataset; its rho in zCDP counts.
          neighbours: the relation that charges must refer to; that of the first charge where None.
          contributions: likewise the rows of one privacy unit.

        Raises:
          StorageError: there is a file already, or none can be written.
          OptionError: an option has a value it cannot take.
        """
        if not isinstance(budget, Budget):
            raise OptionError(f"budget must be a Budget such as Budget(epsilon=1, delta='1e-9'), got {budget!r}")
        given = {"rho": str(budget.rho), "budget": budget.describe(), "version": __version__, "time": charges.now()}
        if neighbours is not None:
            given["neighbours"] = one_of("neighbours", neighbours, NEIGHBOURS)
        if contributions is not None:
            given["contributions"] = str(whole("contributions", contributions, 1, "rows"))
        create(Path(path), given)
        return Ledger(path)

    @staticmethod
    def open(path: str | Path) -> Ledger:
        """An existing ledger.

        Raises:
          StorageError: there is none, or the file is damaged or something else.
        """
        ledger = Ledger(path)
        with connected(ledger.path) as connection:
            facts(connection)
        return ledger

    @property
    def budget(self) -> Fraction:
        """All that may ever be spent, in rho."""
        with connected(self.path) as connection:
            return Fraction(facts(connection)["rho"])

    @property
    def request(self) -> str:
        """The budget in words, as it was asked for."""
        with connected(self.path) as connection:
            return facts(connection)["budget"]

    @property
    def created(self) -> str:
        """When, UTC."""
        with connected(self.path) as connection:
            return facts(connection)["time"]

    @property
    def unit(self) -> tuple[str, int] | None:
        """Relation and rows of one unit that charges must refer to; None before the first charge, if not given."""
        with connected(self.path) as connection:
            found = _unit(connection)
        neighbours, contributions = found.get("neighbours"), found.get("contributions")
        return None if neighbours is None or contributions is None else (neighbours, int(contributions))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges in their order."""
        with connected(self.path) as connection:
            return charges.read(connection)

    @property
    def spent(self) -> Fraction:
        """Sum of all charges, in rho."""
        with connected(self.path) as connection:
            return charges.spent(connection)

    @property
    def remaining(self) -> Fraction:
        """What is left, in rho; never negative."""
        with connected(self.path) as connection:
            return Fraction(facts(connection)["rho"]) - charges.spent(connection)

    def require(self, charge: Charge) -> None:
        """Refuse what `charge` would refuse now, and change nothing.

        Raises:
          OverspendError: more than is left.
          BudgetError: the charge refers to another privacy unit.
          StorageError: the file is missing or damaged.
        """
        with connected(self.path) as connection:
            _require(connection, charge, self.path)

    def charge(self, charge: Charge | Number) -> int:
        """Spend, before anything is drawn: the charge is on disk when this returns.

        Args:
          charge: what and for what; a bare number is rho.

        Returns:
          The entry's number.

        Raises:
          OverspendError: more than is left; the ledger is as it was.
          BudgetError: not a positive amount, or for another privacy unit than the ledger's.
          StorageError: the file is missing, damaged, or in use by another process for longer than `WAIT`.
        """
        asked = charge if isinstance(charge, Charge) else Charge(rho=exact("rho", charge))
        exact("rho", asked.rho)
        with connected(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")  # the write lock first: nobody charges between the sum and the insert
            _require(connection, asked, self.path)
            number = charges.insert(connection, asked)
            connection.execute("COMMIT")
        return number

    def record(self, number: int, release: str, content: str) -> None:
        """Note which release a charge paid for.

        Args:
          number: of the entry.
          release: the file's name.
          content: the hash of its contents.

        Raises:
          StorageError: no such entry, or it has a release.
        """
        with connected(self.path) as connection:
            statement = "UPDATE entries SET release = ?, content = ? WHERE number = ? AND content IS NULL"
            if connection.execute(statement, (release, content, number)).rowcount != 1:
                raise StorageError(f"ledger {self.path} has no entry {number} that waits for its release")


def _unit(connection: sqlite3.Connection) -> dict[str, str]:
    """What charges must agree with: as given when the ledger was made, the rest as in the first charge."""
    first = connection.execute("SELECT neighbours, contributions FROM entries ORDER BY number LIMIT 1").fetchone()
    fixed = {} if first is None else {"neighbours": first[0], "contributions": str(first[1])}
    return fixed | {k: v for k, v in facts(connection).items() if k in ("neighbours", "contributions")}


def _require(connection: sqlite3.Connection, charge: Charge, path: Path) -> None:
    for name, fixed in _unit(connection).items():
        if str(getattr(charge, name)) != fixed:
            raise BudgetError(
                f"ledger {path} adds up charges for {name} {fixed}, this one is for {getattr(charge, name)}; losses of "
                "different privacy units do not add up: compile the plan for the ledger's"
            )
    remaining = Fraction(facts(connection)["rho"]) - charges.spent(connection)
    if charge.rho > remaining:
        raise OverspendError(_overspent(path, charge.rho, remaining), charge.rho, remaining)


def _overspent(path: Path, requested: Fraction, remaining: Fraction) -> str:
    parts = {"requested": requested, "remaining": remaining, "short by": requested - remaining}
    listed = ", ".join(f"{name} {_amount(value)}" for name, value in parts.items())
    return f"ledger {path} has too little left of its rho: {listed}; nothing was charged, ask for less"


def _amount(value: Fraction) -> str:
    """Exactly where that is short, else to six digits."""
    text = str(value)
    return text if len(text) <= 20 else rounded_text(value)
