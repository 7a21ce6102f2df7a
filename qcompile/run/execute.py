"""Run a plan on data: the only module that joins a plan with data, budget and ledger.

The order matters: everything that can be refused is refused first, then the data is read and checked, then the charge
is on the ledger's disk, and only then noise is drawn. What is measured does not depend on the data. A batch that is to
write a release keeps what it draws on disk before anything is made of it, so that it can be resumed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from qcompile.adaptive.aim import Settings, adapt, require_selections
from qcompile.adaptive.candidates import LARGEST_TOTAL
from qcompile.data.engines.counts import ExactCounts
from qcompile.errors import BudgetError, DataError, SizeError, StorageError
from qcompile.plan.basis import basis_strategies
from qcompile.plan.plan import Plan
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger.charges import Charge
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.release.files import KIND, fill, load_release, rows_of, schema_hash, written
from qcompile.release.provenance import Provenance, stamps
from qcompile.release.release import Release
from qcompile.release.values import Values
from qcompile.run.journal import Journal
from qcompile.run.measure import collected, measure, require_range
from qcompile.run.prepare import DryRun, adaptive_scales, charge_for, dry_run, opened
from qcompile.run.randomness import Chance, Noise, delivered_scales, make_noise
from qcompile.run.unfinished import unfinished
from qcompile.support import archive
from qcompile.support.numbered_backup import Pending, pending
from qcompile.support.options import bool_option, require_other
from qcompile.version import __version__

Progress = Callable[[str, int, int], None]
"""Told what is done, how much of it, and of how much; 0 where nobody knows."""


def run(
    plan: Plan,
    data: Any,
    budget: Budget,
    *,
    mechanism: str = "batch",
    reference: str = "auto",
    basis: str = "compiled",
    noise: str = "rounded",
    accounting: str = "zcdp",
    ledger: Ledger | str | Path | None = None,
    output: str | Path | None = None,
    resume: bool = False,
    engine: str = "auto",
    unit: str | None = None,
    count_column: str | None = None,
    strict_values: bool = False,
    workers: int | None = None,
    max_memory: int | None = None,
    test_seed: int | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Release:
    """Measure data once and return everything that may be published.

    Args:
      plan: what to measure.
      data: a CSV or Parquet path, a pandas or polars frame, a pyarrow table, a dict of columns, or a dict of exact
        counts by tuples of attribute names.
      budget: what to spend.
      mechanism: "batch" measures every node as the plan says; "adaptive" chooses, round by round, what the estimates
        so far are worst at (AIM+GReM).
      reference: the model that best estimates are shrunk towards: "none", "independence", "tree", "loglinear" or
        "auto"; an adaptive run uses it inside the loop, too.
      basis: what an adaptive run measures nodes with: "compiled", the plan's own strategies, or "residual".
      noise: "rounded", the exactly rounded Gaussian; "opendp", the slow cross-check; "none", for tests: the release is
        stamped NOT PRIVATE.
      accounting: "zcdp", what a ledger adds up; "gaussian", the exact Gaussian curve (smaller errors for the same
        epsilon and delta; rounded noise only).
      ledger: the account that is charged before any noise is drawn: a `Ledger` or its path.
      output: where to save the release, too; a file that is there already is kept as ``output.1``, ``output.2``, ...
        A batch then needs little memory, however much it measures, and can be resumed: until the release has its name,
        the folder ``output.unfinished`` holds what was drawn.
      resume: finish the run that was to write ``output`` and was stopped or killed. Plan, data, budget and options must
        be those it was begun with; nothing is charged twice, and nothing that is on disk is drawn again.
      engine: what counts: "memory", "duckdb", "database", "spark" or "auto", see `qcompile.data.opening.open_data`.
      unit: the column that says whose row it is: at most `contributions` rows of each unit count, the others are left
        out before counting. Without it no unit may have more rows than the plan's `contributions`.
      count_column: the column that says how many rows each row of the data stands for.
      strict_values: accept, although a ledger is charged, that a value without a fate in the schema ends the run with
        an error: whoever sees that error learns that there is such a value. Without it, and with a ledger, attributes
        without a policy are refused beforehand, and rows with a null in a clipped column are left out.
      workers: threads that measure; by default one per core. The measurements do not depend on it.
      max_memory: bytes; more is refused before the work starts.
      test_seed: deterministic noise for tests: NOT PRIVATE, and stamped so; refused with a ledger.
      progress: called with what is done, after every measured node, and every part of the file that was written.

    Raises:
      OptionError: an option has a value it cannot take.
      BudgetError: the budget cannot be spent this way, or the ledger has too little left; nothing is charged.
      DataError: the data does not fit the schema; nothing is charged.
      SizeError: the work does not fit in memory.
      StorageError: there is no such ledger, the release cannot be saved at ``output``, or there is an unfinished run
        that is not to be resumed, or none that is.
    """
    from qcompile.data.encode.reading import Reading
    from qcompile.data.engines.counts import holds_counts
    from qcompile.data.opening import open_data

    options: dict[str, Any] = {"mechanism": mechanism, "noise": noise, "accounting": accounting, "unit": unit}
    options |= {"reference": reference, "basis": basis, "output": output, "resume": resume}
    limits: dict[str, Any] = {"workers": workers, "max_memory": max_memory, "test_seed": test_seed}
    strict = bool_option("strict_values", strict_values) or ledger is None or holds_counts(data)
    expected = dry_run(plan, budget, ledger=ledger, strict_values=strict, **options, **limits)
    book = None if ledger is None else opened(ledger)
    charge = charge_for(plan, expected, mechanism, noise, unit)
    told = stamps(plan, noise, test_seed, leave_out=not strict)
    terms = _provenance(plan, expected, charge, accounting, reference, told)
    if mechanism == "batch":
        work = _batch(plan, terms, make_noise(noise, test_seed), progress, workers)
    else:
        work = _adaptive(plan, terms, basis, Chance(noise, test_seed), progress, workers)
    further = {"test seed": test_seed, "count column": count_column, "strict values": strict}
    begun_with = _plain(terms) | further | _places(data, book, output)
    engines: dict[str, Any] = {"engine": engine, "max_memory": max_memory, "workers": workers}
    engines |= {"progress": partial(progress, "reading")}
    reading = Reading(unit, terms.contributions, leave_out=not strict, count_column=count_column)
    _require_apart(output, data, book)
    with _place(output, mechanism, begun_with, plan, resume) as place:
        if (release := _finished(place.journal, book)) is not None:
            return release
        with open_data(data, plan.workload.schema, plan.tables, reading, **engines) as counts:
            work.require(counts.total)
            number = _spend(book, charge, place.journal)
            with _spent(number, place.journal):
                return _publish(work.release(counts, place.journal), place, book, number, progress)


@dataclass(frozen=True)
class _Place:
    """Where a release goes.

    Attributes:
      journal: keeps what a batch draws on disk; None where nothing is to be written, or the run is adaptive.
      file: the release in the making; None where nothing is to be written.
    """

    journal: Journal | None = None
    file: Pending | None = None


@contextmanager
def _place(
    output: str | Path | None, mechanism: str, begun_with: dict[str, Any], plan: Plan, resume: bool
) -> Iterator[_Place]:
    """Where the release goes, made before anything is spent.

    Raises:
      StorageError: it cannot be written, or (see `unfinished`) not begun or not resumed.
    """
    with ExitStack() as stack:
        if output is None:
            yield _Place()
        elif mechanism == "batch":
            journal = stack.enter_context(unfinished(output, begun_with, rows_of(plan), resume=resume))
            yield _Place(journal, journal.pending())
        else:
            yield _Place(file=stack.enter_context(pending(output)))


def _plain(terms: Provenance) -> dict[str, Any]:
    """The terms as plain data, by names that a message may repeat."""
    return {name.replace("_", " "): str(v) if name == "charge" else v for name, v in asdict(terms).items()}


def _places(data: object, book: Ledger | None, output: str | Path | None) -> dict[str, Any]:
    """What a run reads, charges and writes: a copy of it elsewhere would draw what is missing a second time."""
    return {
        "data": _state(data),
        "ledger": None if book is None else os.path.realpath(book.path),
        "output": None if output is None else os.path.realpath(output),
    }


def _state(data: object) -> list[list[Any]]:
    """Files and when they were last changed, so that a run is not resumed on another table; nothing for frames.

    Neither says anything of what is in the files.
    """
    return [[os.path.realpath(path), path.stat().st_mtime_ns] for path in _files(data)]


def _files(data: object) -> list[Path]:
    """The files that data is read from, those in a folder and that of a database included."""
    given = data if isinstance(data, list | tuple) else [getattr(data, "url", data)]
    named = [Path(d) for d in given if isinstance(d, str | Path)]
    try:
        inside = [sorted(p.iterdir()) if p.is_dir() else [p] for p in named]
        return [path for paths in inside for path in paths if path.is_file()]
    except OSError:  # which reading it will explain
        return []


def _finished(journal: Journal | None, book: Ledger | None) -> Release | None:
    """The release of a resumed run that was killed when all was done but tidying up; None of any other.

    Raises:
      StorageError: the ledger notes another release than there is.
    """
    if journal is None or book is None or journal.charged is None:
        return None
    content = book.entry(journal.charged, journal.run).content
    if content is None:
        return None
    if archive.stated_hash(journal.target, KIND) != content:
        raise StorageError(
            f"{journal.target} is not what the run in {journal.folder} has written; look for it under "
            f"{journal.target.name}.1 and so on, and delete the folder"
        )
    journal.remove()
    return load_release(journal.target)


def _spend(book: Ledger | None, charge: Charge, journal: Journal | None) -> int | None:
    """Charge the ledger, but not twice for one run; returns the entry's number."""
    if book is None or journal is None:
        return None if book is None else book.charge(charge)
    if journal.charged is None:
        journal.paying = True
        number = book.entry_of(journal.run)  # of a run that was killed before it could note its charge
        try:
            journal.note_charge(book.charge(replace(charge, run=journal.run)) if number is None else number)
        except BudgetError:  # refused, so that nothing is paid
            journal.paying = False
            raise
    return journal.charged


@contextmanager
def _spent(number: int | None, journal: Journal | None) -> Iterator[None]:
    """Say of what goes wrong from here on that the budget is gone, and what is left to do."""
    try:
        yield
    except (DataError, SizeError, StorageError) as e:
        entry = "" if number is None else f": entry {number} of the ledger"
        rest = "" if journal is None else "; finish the run with --resume, resume=True"
        raise type(e)(f"{e}; the budget is spent{entry}{rest}") from None


@dataclass(frozen=True)
class _Work:
    """What a run does with the counts.

    Attributes:
      require: refuses a number of rows that it cannot take, before anything is charged.
      release: draws; with a journal, what it lacks.
    """

    require: Callable[[int], None]
    release: Callable[[ExactCounts, Journal | None], Release]


def _batch(plan: Plan, terms: Provenance, noise: Noise, progress: Progress, workers: int | None) -> _Work:
    scales = plan.scales(terms.charge)
    delivered = delivered_scales(terms.noise, scales)  # now, as it may refuse

    def require(total: int) -> None:
        if terms.noise == "rounded":
            require_range(plan.strategies, scales, total)

    def release(counts: ExactCounts, journal: Journal | None) -> Release:
        done = set[int]() if journal is None else journal.nodes
        measured = _counted(measure(plan, counts, scales, noise, workers, done), progress, len(done), plan)
        if journal is None:
            return Release(plan, terms, delivered, collected(measured, len(plan.closure.nodes)))
        journal.keep(measured)
        return Release(plan, terms, delivered, journal)

    return _Work(require, release)


def _adaptive(
    plan: Plan, terms: Provenance, basis: str, chance: Chance, progress: Progress, workers: int | None
) -> _Work:
    strategies = basis_strategies(plan, basis)
    settings = Settings(basis=basis, reference=terms.reference, workers=workers)
    require_selections(plan, terms.charge, chance, settings)

    def require(total: int) -> None:
        if total > LARGEST_TOTAL:
            raise SizeError("an adaptive run takes up to 2^44 rows; use mechanism='batch'")
        if terms.noise == "rounded":
            require_range(strategies, adaptive_scales(plan, terms.charge, basis), total)

    def release(counts: ExactCounts, _: Journal | None) -> Release:
        history, found = adapt(plan, counts, terms.charge, strategies, chance, settings, partial(progress, "spending"))
        values = tuple(found.get(i, np.zeros(0)) for i in range(len(plan.closure.nodes)))
        return Release(plan, terms, (), values, history)

    return _Work(require, release)


def _counted(
    measured: Iterator[tuple[int, Values]], progress: Progress, done: int, plan: Plan
) -> Iterator[tuple[int, Values]]:
    """Tell of each node that was measured."""
    total = int((plan.closure.class_of >= 0).sum())
    for number, found in enumerate(measured, start=done + 1):
        progress("measuring", number, total)
        yield found


def _publish(release: Release, place: _Place, book: Ledger | None, number: int | None, progress: Progress) -> Release:
    """Give the release its file, where one was asked for, and note in the ledger what was paid for."""
    file, journal = place.file, place.journal
    if file is None:
        return release
    content = fill(file.hidden, release, partial(progress, "writing"))
    if journal is None or not _is_there(file.target, content):
        file.publish()
    if book is not None and number is not None:
        try:
            book.record(number, file.target.name, content)
        except StorageError as e:  # no reason to hide the release that is there
            warnings.warn(f"{file.target} is written and paid for, but could not be noted: {e}", stacklevel=4)
    if journal is None:
        return release
    journal.remove()
    return written(file.target, release)


def _is_there(target: Path, content: str) -> bool:
    """Whether a run that is resumed had given its release the name already."""
    return target.exists() and archive.kind_of(target) == KIND and archive.stated_hash(target, KIND) == content


def _require_apart(output: str | Path | None, data: Any, book: Ledger | None) -> None:
    """Refuse to write a release over what the run reads.

    Raises:
      OptionError: it is the data or the ledger, or a file that SQLite takes for the ledger's own.
    """
    if output is None:
        return
    for path in _files(data):
        require_other(output, path)
    if book is not None:
        for end in ("", "-journal", "-wal", "-shm"):
            require_other(output, book.path.with_name(book.path.name + end))
            require_other(output, book.path.resolve().with_name(book.path.resolve().name + end))


def _provenance(
    plan: Plan, expected: DryRun, charge: Charge, accounting: str, reference: str, told: tuple[str, ...]
) -> Provenance:
    """The terms of a release are those of its charge."""
    return Provenance(
        version=__version__,
        plan_hash=charge.plan,
        schema_hash=schema_hash(plan),
        charge=charge.rho,
        budget=expected.budget,
        accounting=accounting,
        noise=charge.noise,
        neighbours=charge.neighbours,
        contributions=charge.contributions,
        mechanism=charge.mechanism,
        reference=reference,
        unit=charge.unit,
        stamps=told,
    )
