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

from fractions import Fraction
from pathlib import Path
from typing import Any

from qcompile.errors import OptionError, StorageError
from qcompile.privacy.budget import Budget
from qcompile.privacy.exact_numbers import Number, exact, rounded_text
from qcompile.privacy.ledger import charges
from qcompile.privacy.ledger.charges import Charge, Entry
from qcompile.privacy.ledger.snapshot import Snapshot
from qcompile.privacy.ledger.sqlite_file import connect_ledger, create_file
from qcompile.privacy.unit import MOST_CONTRIBUTIONS, NEIGHBOURS
from qcompile.support.options import name_option, one_of, whole
from qcompile.support.text import plural
from qcompile.version import __version__


class Ledger:
    """The account of one dataset.

    Every call reopens the file, so a ledger may be shared by threads and processes. The file must be on a disk whose
    locks work; network drives often have none.

    Attributes:
      path: the file.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        try:
            snapshot = self.snapshot
        except StorageError as e:
            return f"<Ledger {str(self.path)!r}: {e}>"
        spent, left = rounded_text(snapshot.spent, up=True), rounded_text(snapshot.remaining)
        entries = plural(len(snapshot.entries), "entry", "entries")
        return f"<Ledger {str(self.path)!r}: rho {spent} spent, {left} left, {entries}>"

    @staticmethod
    def create(
        path: str | Path,
        budget: Budget,
        *,
        neighbours: str | None = None,
        contributions: int | None = None,
        dataset: str | None = None,
    ) -> Ledger:
        """A new ledger; a file that exists is never touched.

        Args:
          path: where.
          budget: all that may ever be spent on the dataset; its rho in zCDP counts. A budget in mu is for batches with
            rounded noise only; other charges are refused.
          neighbours: the relation that charges must refer to; that of the first charge where None.
          contributions: likewise the rows of one privacy unit.
          dataset: a name of the dataset, which every charge must declare; any may charge the ledger where None.

        Raises:
          StorageError: there is a file already, or none can be written.
          OptionError: an option has a value it cannot take.
        """
        if not isinstance(budget, Budget):
            raise OptionError(f"budget must be a Budget such as Budget(epsilon=1, delta='1e-9'), got {budget!r}")
        text = budget.describe(gaussian=budget.kind == "mu")
        fixed = {"rho": str(budget.rho), "budget": text, "version": __version__, "time": charges.now()}
        if budget.kind == "mu":
            fixed["mu"] = str(budget.amount)
        if neighbours is not None:
            fixed["neighbours"] = one_of("neighbours", neighbours, NEIGHBOURS)
        if contributions is not None:
            fixed["contributions"] = str(whole("contributions", contributions, 1, "rows", MOST_CONTRIBUTIONS))
        if dataset is not None:
            fixed["dataset"] = name_option("dataset", dataset)
        create_file(Path(path), fixed)
        return Ledger(path)

    @staticmethod
    def open(path: str | Path) -> Ledger:
        """An existing ledger.

        Raises:
          StorageError: there is none, or the file is damaged or something else.
        """
        ledger = Ledger(path)
        _ = ledger.snapshot
        return ledger

    @property
    def snapshot(self) -> Snapshot:
        """The present contents of the ledger."""
        with connect_ledger(self.path) as connection:
            return Snapshot.of(connection, self.path)

    @property
    def budget(self) -> Fraction:
        """The whole budget, in rho."""
        return self.snapshot.budget

    @property
    def entries(self) -> tuple[Entry, ...]:
        """All charges in their order."""
        return self.snapshot.entries

    @property
    def spent(self) -> Fraction:
        """Sum of all charges, in rho."""
        return self.snapshot.spent

    @property
    def remaining(self) -> Fraction:
        """The rest of the budget, in rho; never negative."""
        return self.snapshot.remaining

    def require(self, charge: Charge) -> None:
        """Refuse what `charge` would refuse now, and change nothing.

        Raises:
          OverspendError: more than is left.
          BudgetError: the charge is for another privacy unit or another dataset.
          StorageError: the file is missing or damaged.
        """
        self.snapshot.require(charges.check_charge(charge), self.path)

    def charge(self, charge: Charge | Number) -> int:
        """Spend, before anything is drawn: the charge is on disk when this returns.

        Args:
          charge: what and for what; a bare number is rho, for the ledger's dataset and privacy unit (one row added or
            removed where nothing is fixed yet).

        Returns:
          The entry's number.

        Raises:
          OverspendError: more than is left; the ledger is as it was.
          BudgetError: not a positive amount, or for another privacy unit or dataset than the ledger's.
          OptionError: the charge names a relation or a number of rows that cannot be.
          StorageError: the file is missing, damaged, or in use by another process for longer than a minute.
        """
        asked = charges.check_charge(charge if isinstance(charge, Charge) else self._bare(charge))
        with connect_ledger(self.path) as connection:
            connection.execute("BEGIN IMMEDIATE")  # the write lock first: nobody charges between the sum and the insert
            Snapshot.of(connection, self.path).require(asked, self.path)
            number = charges.insert_charge(connection, asked)
            connection.execute("COMMIT")
        return number

    def _bare(self, rho: Number) -> Charge:
        snapshot = self.snapshot
        fixed: dict[str, Any] = snapshot.unit
        return Charge(rho=exact("rho", rho), dataset=snapshot.dataset, **fixed)

    def entry_of(self, run: str) -> int | None:
        """The number of the charge of a run that has no release yet; None where it was not charged."""
        found = [e.number for e in self.entries if e.release == run and e.content is None]
        return found[0] if found else None

    def entry(self, number: int, run: str) -> Entry:
        """The charge of a run.

        Raises:
          StorageError: the ledger has no such entry, or it is another run's.
        """
        for found in self.entries:
            if found.number == number and (found.release == run or found.content is not None):
                return found
        raise StorageError(f"ledger {self.path} has no entry {number} of {run}; use the ledger that the run charged")

    def record(self, number: int, release: str, content: str) -> None:
        """Note which release a charge paid for.

        Args:
          number: of the entry.
          release: the file's name.
          content: the hash of its contents.

        Raises:
          StorageError: no such entry, or it has a release.
        """
        with connect_ledger(self.path) as connection:
            statement = "UPDATE entries SET release = ?, content = ? WHERE number = ? AND content IS NULL"
            if connection.execute(statement, (release, content, number)).rowcount != 1:
                raise StorageError(f"ledger {self.path} has no entry {number} that waits for its release")
