"""Run a plan on data: the only module that joins a plan with data, budget and ledger.

The order matters: everything that can be refused is refused first, then the data is read and checked, then the charge
is on the ledger's disk, and only then noise is drawn. What is measured does not depend on the data.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from qcompile.adaptive.aim import Settings, adapt, require_selections
from qcompile.adaptive.basis import BASES, basis_strategies
from qcompile.adaptive.candidates import LARGEST_TOTAL, candidate_cells, candidate_nodes
from qcompile.adaptive.references import REFERENCES
from qcompile.allocation import PUBLIC, Scale, measurement_scale
from qcompile.arrays import DEFAULT_MEMORY, cells, require_memory
from qcompile.checks import bool_option, one_of, require_other, whole
from qcompile.data.counts import ExactCounts
from qcompile.errors import BudgetError, OptionError, SizeError, StorageError
from qcompile.keeping import Pending, pending
from qcompile.plan import Plan
from qcompile.privacy.budget import Budget
from qcompile.privacy.charges import Charge, now
from qcompile.privacy.ledger import Ledger
from qcompile.release.chance import Chance
from qcompile.release.files import fill, plan_hash, schema_hash
from qcompile.release.measure import NOISES, Noise, delivered_scales, draws, make_noise, measure, require_range
from qcompile.release.provenance import MECHANISMS, Provenance, stamps
from qcompile.release.release import Release
from qcompile.version import __version__

SMALLEST_SIGMA = 2.0**-24
"""Noise scales below this are refused: measurements of up to 10^9 rows then always fit into 64 bits of grid steps."""

ADAPTIVE_COPIES = 4
"""Numbers that an adaptive run holds per cell of all candidates: counts, estimates, measurements, what is worked on."""

CELLS_A_SECOND = 2e6
"""Measured pace of an adaptive run per cell of its candidates, on one core; for estimates of time only."""

Progress = Callable[[int, int], None]
"""Told how much is done, and of how much."""

DRAWS_A_SECOND = 5e6
"""Measured pace of counting, measuring and drawing together, on one core; for estimates of time only."""


@dataclass(frozen=True)
class DryRun:
    """What a run would do, computed without data and without spending anything.

    Attributes:
      charge: rho it would spend.
      budget: in words.
      request: as it was asked for.
      nodes: number of measurements' nodes.
      draws: Gaussian numbers to draw; None where that depends on what is measured.
      sigma: smallest and largest noise scale of what is drawn; infinite where that depends on what is measured.
      memory: bytes that the run takes.
      seconds: rough estimate.
      remaining: rho that the ledger would have left; None without one.
    """

    charge: Fraction
    budget: str
    request: str
    nodes: int
    draws: int | None
    sigma: tuple[float, float]
    memory: int
    seconds: float
    remaining: Fraction | None


def dry_run(
    plan: Plan,
    budget: Budget,
    *,
    mechanism: str = "batch",
    reference: str = "auto",
    basis: str = "compiled",
    noise: str = "rounded",
    accounting: str = "zcdp",
    ledger: Ledger | str | Path | None = None,
    unit: str | None = None,
    strict_values: bool = False,
    workers: int | None = None,
    max_memory: int | None = None,
    test_seed: int | None = None,
) -> DryRun:
    """Budget, scales, draws, memory and time of a run; charges nothing, and refuses what the run would refuse.

    Args:
      plan: what to measure.
      budget: what to spend.
      mechanism: as in `run`; likewise the other options.
      reference: see `run`.
      basis: see `run`.
      noise: see `run`.
      accounting: see `run`.
      ledger: see `run`.
      unit: see `run`.
      strict_values: see `run`.
      workers: see `run`.
      max_memory: see `run`.
      test_seed: see `run`.

    Raises:
      OptionError: an option has a value it cannot take.
      BudgetError: the budget cannot be spent this way, or the ledger has too little left.
      StorageError: there is no such ledger.
      SizeError: the run would not fit in memory.
    """
    one_of("mechanism", mechanism, MECHANISMS)
    one_of("noise", noise, NOISES)
    if workers is not None:
        whole("workers", workers, 1, "threads")
    _check_combination(noise, accounting, test_seed)
    one_of("reference", reference, REFERENCES)
    if one_of("basis", basis, BASES) != "compiled" and mechanism != "adaptive":
        raise OptionError(f"basis={basis!r} is for mechanism='adaptive'; a batch measures what the plan says")
    limit = DEFAULT_MEMORY if max_memory is None else whole("max_memory", max_memory, 1)
    if not isinstance(budget, Budget):
        raise OptionError(f"budget must be a Budget such as Budget(epsilon=1, delta='1e-9'), got {budget!r}")
    if ledger is not None:
        _check_ledger(noise, test_seed)
        ledger = _opened(ledger)
        if not bool_option("strict_values", strict_values):
            require_fates(plan)
    if unit is not None and plan.unit.public_total:
        raise OptionError(
            "with a unit column a unit may have no row that counts, so the number of rows is not public, but this plan "
            "(one row replaced) releases it exactly; compile it with contributions=2, or for rows added or removed"
        )
    if mechanism == "adaptive":
        _check_adaptive(plan, accounting)
        expected = _expected_adaptive(plan, budget, basis, limit)
    else:
        expected = _expected(plan, budget, accounting, limit)
    if ledger is None:
        return expected
    ledger.require(_charge(plan, expected, mechanism, noise, unit))
    return replace(expected, remaining=ledger.remaining - expected.charge)


def _expected(plan: Plan, budget: Budget, accounting: str, limit: int) -> DryRun:
    charge = budget.charge(accounting)
    scales = plan.scales(charge)
    sigmas = [s.sigma for s in scales if s.sigma > 0]
    _require_protection(min(sigmas))
    drawn, nodes = draws(plan, scales), int(plan.closure.members.sum())
    return DryRun(
        charge=charge,
        budget=budget.describe(accounting),
        request=_request(budget, accounting),
        nodes=nodes,
        draws=drawn,
        sigma=(min(sigmas), max(sigmas)),
        memory=_memory(plan, drawn, limit),
        seconds=drawn / DRAWS_A_SECOND + 1e-3 * nodes,
        remaining=None,
    )


def _expected_adaptive(plan: Plan, budget: Budget, basis: str, limit: int) -> DryRun:
    charge = budget.charge()
    sensitive = [s.sigma for s in adaptive_scales(plan, charge, basis) if s.sigma > 0]
    _require_protection(min(sensitive))
    held = candidate_cells(plan)
    return DryRun(
        charge=charge,
        budget=budget.describe(),
        request=_request(budget, "zcdp"),
        nodes=len(candidate_nodes(plan)),
        draws=None,
        sigma=(min(sensitive), math.inf),
        memory=_memory(plan, ADAPTIVE_COPIES * held, limit),
        seconds=held / CELLS_A_SECOND + 1e-2 * plan.closure.first_block,
        remaining=None,
    )


def adaptive_scales(plan: Plan, charge: Fraction, basis: str) -> tuple[Scale, ...]:
    """The smallest noise that an adaptive run can have, one scale per class: all the budget on one node.

    Raises:
      OptionError: the basis cannot be had.
    """
    sensitivities = [plan.unit.sensitivity_squared(s) for s in basis_strategies(plan, basis)]
    return tuple(measurement_scale(2 * charge, s) if s else PUBLIC for s in sensitivities)


def _request(budget: Budget, accounting: str) -> str:
    return f"{', '.join(f'{k} {v}' for k, v in budget.request.items())} ({accounting})"


def _require_protection(sigma: float) -> None:
    if sigma < SMALLEST_SIGMA:
        raise BudgetError(f"a noise scale of {sigma:.2g} counts protects nobody; choose a smaller budget")


def _memory(plan: Plan, numbers: int, limit: int) -> int:
    """Bytes of a run that holds so many numbers, and its largest table.

    Raises:
      SizeError: more than memory, or the limit, allows.
    """
    largest = max((cells(plan.workload.schema.shape(v)) for v in plan.tables), default=1)
    require_memory("the largest table of counts", largest, "use smaller views")  # what counting it will ask, too
    memory = 8 * (numbers + 4 * largest)
    require_memory("this run", memory // 8, "raise the limit, or use fewer or smaller views", limit)
    return memory


def _check_adaptive(plan: Plan, accounting: str) -> None:
    """Refuse what cannot be adapted.

    Raises:
      OptionError: with the reason and a next step.
    """
    if accounting != "zcdp":
        raise OptionError("accounting='gaussian' holds for a batch only; an adaptive run is accounted in zCDP")
    if plan.closure.blocks:
        raise OptionError("an adaptive run measures nodes, this plan has unsplit blocks; compile it with blocks=False")
    if not candidate_nodes(plan):
        raise OptionError("an adaptive run chooses among marginals, this workload has none; use mechanism='batch'")


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
    unit: str | None = None,
    strict_values: bool = False,
    workers: int | None = None,
    max_memory: int | None = None,
    test_seed: int | None = None,
    progress: Progress = lambda done, total: None,
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
      unit: the column that says whose row it is: at most `contributions` rows of each unit count, the others are left
        out before counting. Without it no unit may have more rows than the plan's `contributions`.
      strict_values: accept, although a ledger is charged, that a value without a fate in the schema ends the run with
        an error: whoever sees that error learns that there is such a value. Without it, and with a ledger, attributes
        without a policy are refused beforehand, and rows with a null in a clipped column are left out.
      workers: threads that measure; by default one per core. The measurements do not depend on it.
      max_memory: bytes; more is refused before the work starts.
      test_seed: deterministic noise for tests: NOT PRIVATE, and stamped so; refused with a ledger.
      progress: called after every measured node with the number done and of all.

    Raises:
      OptionError: an option has a value it cannot take.
      BudgetError: the budget cannot be spent this way, or the ledger has too little left; nothing is charged.
      DataError: the data does not fit the schema; nothing is charged.
      SizeError: the work does not fit in memory.
      StorageError: there is no such ledger, or the release cannot be saved at ``output``.
    """
    from qcompile.data.counts import holds_counts, open_data

    options: dict[str, Any] = {"mechanism": mechanism, "noise": noise, "accounting": accounting, "unit": unit}
    options |= {"reference": reference, "basis": basis}
    limits: dict[str, Any] = {"workers": workers, "max_memory": max_memory, "test_seed": test_seed}
    strict = bool_option("strict_values", strict_values) or ledger is None or holds_counts(data)
    expected = dry_run(plan, budget, ledger=ledger, strict_values=strict, **options, **limits)
    book = None if ledger is None else _opened(ledger)
    charge = _charge(plan, expected, mechanism, noise, unit)
    told = stamps(plan, noise, test_seed, leave_out=not strict)
    terms = _provenance(plan, expected, charge, accounting, reference, told)
    if mechanism == "batch":
        work = _batch(plan, terms, make_noise(noise, test_seed), progress, workers)
    else:
        work = _adaptive(plan, terms, basis, Chance(noise, test_seed), progress, workers)
    with _pending(output, data, book) as file:
        rows: dict[str, Any] = {"unit": unit, "contributions": terms.contributions, "leave_out": not strict}
        counts = open_data(data, plan.workload.schema, plan.tables, **rows)
        work.require(counts.total)
        number = None if book is None else book.charge(charge)
        release = work.release(counts)
        try:
            _publish(release, file, book, number)
        except StorageError as e:
            entry = "" if number is None else f": entry {number} of the ledger"
            raise StorageError(f"{e}; the budget is spent{entry}") from None
    return release


@dataclass(frozen=True)
class _Work:
    """What a run does with the counts.

    Attributes:
      require: refuses a number of rows that it cannot take, before anything is charged.
      release: draws.
    """

    require: Callable[[int], None]
    release: Callable[[ExactCounts], Release]


def _batch(plan: Plan, terms: Provenance, noise: Noise, progress: Progress, workers: int | None) -> _Work:
    scales = plan.scales(terms.charge)
    delivered = delivered_scales(terms.noise, scales)  # now, as it may refuse

    def require(total: int) -> None:
        if terms.noise == "rounded":
            require_range(plan.strategies, scales, total)

    def release(counts: ExactCounts) -> Release:
        return Release(plan, terms, delivered, measure(plan, counts, scales, noise, progress, workers))

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

    def release(counts: ExactCounts) -> Release:
        history, found = adapt(plan, counts, terms.charge, strategies, chance, settings, progress)
        values = tuple(found.get(i, np.zeros(0)) for i in range(len(plan.closure.nodes)))
        return Release(plan, terms, (), values, history)

    return _Work(require, release)


def _publish(release: Release, file: Pending | None, book: Ledger | None, number: int | None) -> None:
    """Give the release its file, where one was asked for, and note in the ledger what was paid for."""
    if file is None:
        return
    content = fill(file.hidden, release)
    file.publish()
    if book is not None and number is not None:
        try:
            book.record(number, file.target.name, content)
        except StorageError as e:  # no reason to hide the release that is there
            warnings.warn(f"{file.target} is written and paid for, but could not be noted: {e}", stacklevel=4)


def _pending(output: str | Path | None, data: Any, book: Ledger | None) -> AbstractContextManager[Pending | None]:
    """The file of a release, made before anything is spent; None where none was asked for.

    Raises:
      OptionError: it is the data or the ledger, or a file that SQLite takes for the ledger's own.
      StorageError: it cannot be written.
    """
    if output is None:
        return nullcontext()
    target = Path(output)
    if isinstance(data, str | Path):
        require_other(target, data)
    if book is not None:
        for end in ("", "-journal", "-wal", "-shm"):
            require_other(target, book.path.with_name(book.path.name + end))
            require_other(target, book.path.resolve().with_name(book.path.resolve().name + end))
    return pending(target)


def _opened(ledger: Ledger | str | Path) -> Ledger:
    return ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)


def _charge(plan: Plan, expected: DryRun, mechanism: str, noise: str, unit: str | None) -> Charge:
    """What a ledger records; its time is that before any data is read."""
    return Charge(
        rho=expected.charge,
        budget=expected.request,
        neighbours=plan.options.neighbours,
        contributions=plan.options.contributions,
        unit=unit,
        mechanism=mechanism,
        noise=noise,
        plan=plan_hash(plan),
        time=now(),
    )


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


def _check_combination(noise: str, accounting: str, test_seed: int | None) -> None:
    if accounting == "gaussian" and noise == "opendp":
        raise OptionError(
            "accounting='gaussian' holds for rounded noise only; use accounting='zcdp' with noise='opendp'"
        )
    if test_seed is None:
        return
    whole("test_seed", test_seed, 0)
    if noise == "opendp":
        raise OptionError("noise='opendp' draws from OpenDP's own generator; it cannot take a test seed")


def _check_ledger(noise: str, test_seed: int | None) -> None:
    if noise == "none":
        raise OptionError("noise='none' protects nobody and cannot be charged to a ledger; leave the ledger out")
    if test_seed is not None:
        raise OptionError(
            "a test seed makes noise that is NOT PRIVATE and cannot be charged to a ledger; leave out one of them"
        )


def require_fates(plan: Plan) -> None:
    """Refuse, before a table is read, a schema that lets a value end the run with an error: the error tells of it.

    A null in a clipped column takes its row out of the counts instead; where the number of rows is public it may not.

    Raises:
      OptionError: an attribute has no policy.
    """
    refusing = ("strict", "clip") if plan.unit.public_total else ("strict",)
    strict = [a.name for a in plan.workload.schema if a.policy.kind in refusing]
    if strict:
        names = ", ".join(map(repr, strict[:5])) + (", ..." if len(strict) > 5 else "")
        raise OptionError(
            f"with a ledger every value needs a fate, as an error would tell of the data, but {names} has none; declare"
            f" {'other or drop' if 'clip' in refusing else 'clip, other or drop'}, or accept such an error: "
            "--strict-values, strict_values=True"
        )
