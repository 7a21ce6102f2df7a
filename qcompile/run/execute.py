"""A prepared run, and its execution: the only module that joins a plan with data, ledger and noise.

The order matters. All that can be refused is refused first. Then the data is read and checked; then the charge is on
the ledger's disk; only then noise is drawn. With a ledger, a table that takes more memory than there is ends the run
after the charge, as any other table would: to refuse it for nothing would tell how large it is. The measurements of a
batch do not depend on the data, those of an adaptive run on released values alone. A run with an output keeps its
measurements on disk before it makes a release of them, so that it can be resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

from qcompile.data import Dataset, OpenedData, Reading, recognise
from qcompile.data.datasets.opened import ignore_progress
from qcompile.data.engines.counts import ExactCounts
from qcompile.errors import BudgetError, DataError, OptionError, SizeError, StorageError
from qcompile.plan.document import PlanDocument
from qcompile.plan.plan import Plan
from qcompile.privacy.ledger.charges import Charge, now
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.release.provenance import Provenance
from qcompile.release.release import Release
from qcompile.run.journal import Journal
from qcompile.run.mechanisms import Mechanism, Progress
from qcompile.run.options import RunOptions
from qcompile.run.place import Place, claim, finished_release, publish, real_path, require_apart
from qcompile.run.prediction import Prediction
from qcompile.run.reserve import Reservation, required_space, reserve
from qcompile.support.arrays import DEFAULT_MEMORY
from qcompile.support.memory import EXHAUSTED, constant_limit

MOST_ROWS = 2**40
"""Rows that a run with a ledger can measure. The budgets for which so many are too many are refused without data."""


def no_progress(phase: str, done: int, total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, eq=False, repr=False)
class PreparedRun:
    """A run with everything decided but the data: what a dry run shows, and what is executed.

    Attributes:
      plan: what is measured, with the column of counts.
      document: the plan, serialised.
      options: of the run.
      charge: what a ledger will record.
      terms: of the release.
      mechanism: draws the release.
      ledger: the account; None without one.
      remaining: rho that the ledger will have left; None without one, and for a resumed run, whose charge may be in it.
    """

    plan: Plan
    document: PlanDocument
    options: RunOptions
    charge: Charge
    terms: Provenance
    mechanism: Mechanism
    ledger: Ledger | None
    remaining: Fraction | None

    def __repr__(self) -> str:
        queries = f"{self.options.mechanism} of {self.plan.queries:,} queries"
        counted = "" if self.plan.counted is None else f", rows: {self.plan.counted}"
        return f"<PreparedRun: {queries}, rho {float(self.charge.rho):.6g}, noise {self.options.noise!r}{counted}>"

    @property
    def prediction(self) -> Prediction:
        """Noise scales, draws, memory and time."""
        return self.mechanism.prediction

    def execute(self, data: Any, progress: Progress = no_progress, *, confidential_progress: bool = False) -> Release:
        """Measure data and return all that may be published.

        Args:
          data: see `qcompile.data.opening.open_data`.
          progress: called with (phase, done, total); total is 0 when unknown. No number depends on the data but through
            the release, unless ``confidential_progress``. When it is called does depend on the data.
          confidential_progress: report the rows that are read, too, as ("reading", rows read, rows in all):
            CONFIDENTIAL numbers, for the curator's own screen, never for a log. Otherwise the phase "reading" is
            reported once, when it begins.

        Raises:
          OptionError: an option does not go with the data.
          BudgetError: the ledger has too little left; nothing is charged.
          DataError: the data does not fit the schema; nothing is charged.
          SizeError: the work does not fit in memory. Where that depends on the data, a ledger is charged nevertheless:
            otherwise a run that fails would tell the size of the table for nothing.
          StorageError: the release cannot be written, or another run to the same output is unfinished.
        """
        with self.open(data) as opened:
            return opened.execute(progress, confidential_progress=confidential_progress)

    def require_rows(self, total: int) -> None:
        """Refuse a number of rows that cannot be measured.

        With a ledger, up to `MOST_ROWS` rows can be measured whatever the data, see `prepare`.

        Raises:
          BudgetError: measurements might not fit into 64 bits; never with a ledger.
          SizeError: more rows than that, or than an adaptive run takes.
        """
        if self.ledger is None:
            self.mechanism.require(total)
        elif total > MOST_ROWS:
            raise SizeError("a run with a ledger takes up to 2^40 rows; divide the table")

    @contextmanager
    def open(self, data: Any) -> Iterator[OpenRun]:
        """Claim the place of the release and open data: columns and types are checked, and no value is read.

        Args:
          data: see `qcompile.data.opening.open_data`.

        Raises:
          OptionError, DataError, SizeError, StorageError: see `execute`; nothing is charged.
        """
        dataset, o = recognise(data), self.options
        self._require_fitting(dataset)
        require_apart(o.output, dataset.files(), self.ledger)
        k, counted = self.terms.contributions, (o.count_column, o.max_count, o.count_step)
        reading = Reading(o.unit, k, o.leaves_rows_out, *counted)
        limits = {"max_memory": o.max_memory, "workers": o.workers}
        with (
            claim(o, self._shared_terms(dataset), self.mechanism.check) as place,
            reserve(place.file, required_space(self.plan, self.document, o), paid=self._is_paid(place)) as reservation,
            dataset.open(self.plan.workload.schema, reading, engine=o.engine, **limits) as opened,
        ):
            yield OpenRun(self, place, opened, reservation)

    def _is_paid(self, place: Place) -> bool:
        """True for a resumed run that is charged, also where it was killed before it could note that."""
        if place.is_paid or place.journal is None or self.ledger is None or not self.options.resume:
            return place.is_paid
        return self.ledger.entry_of(place.journal.run) is not None

    def _require_fitting(self, dataset: Dataset) -> None:
        """Refuse counts in a run that was prepared to leave rows out: the release would say that it did."""
        if dataset.place == "counts" and self.options.leaves_rows_out:
            raise OptionError("counts have no rows to leave out; prepare the run with strict_values=True")

    def _shared_terms(self, dataset: Dataset) -> dict[str, Any]:
        """All that a resumed run must share, by names that a message may repeat.

        The paths of data, ledger and output are among them: a copy elsewhere would draw the rest a second time. Files
        of data come with the time of their last change, which says nothing of their contents.
        """
        o = self.options
        terms = {name.replace("_", " "): value for name, value in self.terms.data().items()}
        return terms | {
            "test seed": o.test_seed,
            "dataset": o.dataset,
            "strict values": not o.leaves_rows_out,
            "data": dataset.identity(),
            "ledger": None if self.ledger is None else real_path(self.ledger.path),
            "output": real_path(o.output),
        }


@dataclass(frozen=True, eq=False, repr=False)
class OpenRun:
    """A prepared run with its data open.

    Attributes:
      prepared: the run.
      place: of the release.
      data: columns and types are checked.
      reservation: holds the space on disk that the run will need.
    """

    prepared: PreparedRun
    place: Place
    data: OpenedData
    reservation: Reservation

    def execute(self, progress: Progress = no_progress, *, confidential_progress: bool = False) -> Release:
        """Read, charge, draw and publish; arguments and errors as of `PreparedRun.execute`."""
        run, ledger, place = self.prepared, self.prepared.ledger, self.place
        charge = replace(run.charge, time=now())  # before data is read: how long that takes depends on the data
        if (release := finished_release(place.journal, ledger)) is not None:
            return release
        with ExitStack() as stack:
            stack.enter_context(constant_limit(DEFAULT_MEMORY))
            progress("reading", 0, 0)
            shown = partial(progress, "reading") if confidential_progress else ignore_progress
            counts = self._count(stack, charge, shown)
            self.reservation.free_measurements()  # before the charge, which needs space of its own on a full disk
            entry = _spend(ledger, charge, place.journal)
            with _explain_spent(entry, place.journal):
                release = run.mechanism.draw(run.terms, counts, place.journal, progress)
                self.reservation.free_release()
                return publish(release, run.document, place, ledger, entry, progress)

    def _count(self, stack: ExitStack, charge: Charge, progress: Callable[[int, int], None]) -> ExactCounts:
        """Read the data; a table that is too large costs the charge, where there is a ledger.

        Raises:
          SizeError: the data takes more memory than there is.
          BudgetError, DataError: see `PreparedRun.execute`.
        """
        run, ledger, journal = self.prepared, self.prepared.ledger, self.place.journal
        try:
            counts = stack.enter_context(self.data.counts(run.plan.tables, progress))
            run.require_rows(counts.total)
        except MemoryError as e:  # a SizeError, or Python's own
            if ledger is None:
                raise
            with _explain_spent(_spend(ledger, charge, journal), journal):
                raise SizeError(str(e) or "reading takes more memory than there is") from None
        return counts


def _spend(ledger: Ledger | None, charge: Charge, journal: Journal | None) -> int | None:
    """Charge the ledger, but not twice for one run; returns the entry's number."""
    if ledger is None or journal is None:
        return None if ledger is None else ledger.charge(charge)
    if journal.charged is None:
        number = ledger.entry_of(journal.run)  # of a run that was killed before it could note its charge
        journal.note_charge(_charge_run(ledger, charge, journal) if number is None else number)
    return journal.charged


def _charge_run(ledger: Ledger, charge: Charge, journal: Journal) -> int:
    journal.paying = True
    try:
        return ledger.charge(replace(charge, run=journal.run, folder=str(journal.folder)))
    except (BudgetError, StorageError):
        journal.paying = _may_be_charged(ledger, journal.run)  # if not, nothing is left of the run
        raise


def _may_be_charged(ledger: Ledger, run: str) -> bool:
    """True if the ledger has a charge of the run, or cannot be read."""
    try:
        return ledger.entry_of(run) is not None
    except StorageError:
        return True


@contextmanager
def _explain_spent(entry: int | None, journal: Journal | None) -> Iterator[None]:
    """Add to an error after the charge that the budget is spent, and how to finish the run."""
    try:
        yield
    except (DataError, MemoryError, StorageError) as e:  # a SizeError is a MemoryError
        number = "" if entry is None else f": entry {entry} of the ledger"
        rest = "" if journal is None else "; finish the run with --resume, resume=True"
        kind = SizeError if isinstance(e, MemoryError) else type(e)
        raise kind(f"{str(e) or EXHAUSTED}; the budget is spent{number}{rest}") from None
