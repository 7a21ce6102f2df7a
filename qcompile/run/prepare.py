"""What a run would do, and what it refuses: decided from plan and options, before any data is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from qcompile.adaptive.candidates import candidate_cells, candidate_nodes
from qcompile.errors import BudgetError, OptionError
from qcompile.estimates.references import REFERENCES
from qcompile.plan.basis import BASES, basis_strategies
from qcompile.plan.plan import Plan
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger.charges import Charge, now
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.noise.scale import PUBLIC, Scale, measurement_scale
from qcompile.release.files import plan_hash
from qcompile.release.provenance import MECHANISMS, NOISES
from qcompile.release.values import PART
from qcompile.run.measure import draws
from qcompile.run.unfinished import require_none, require_one
from qcompile.support.arrays import DEFAULT_MEMORY, cells, require_memory
from qcompile.support.options import bool_option, one_of, whole
from qcompile.support.threads import AHEAD, threads

SMALLEST_SIGMA = 2.0**-24
"""Noise scales below this are refused: measurements of up to 10^9 rows then always fit into 64 bits of grid steps."""

ADAPTIVE_COPIES = 4
"""Numbers that an adaptive run holds per cell of all candidates: counts, estimates, measurements, what is worked on."""

CELLS_A_SECOND = 2e6
"""Measured pace of an adaptive run per cell of its candidates, on one core; for estimates of time only."""

DRAWS_A_SECOND = 5e6
"""Measured pace of counting, measuring and drawing together, on one core; for estimates of time only."""

WORKING = 12
"""Numbers of eight bytes that measuring a table takes at a time, per cell of it; measured."""


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
    output: str | Path | None = None,
    resume: bool = False,
    strict_values: bool = False,
    workers: int | None = None,
    max_memory: int | None = None,
    test_seed: int | None = None,
) -> DryRun:
    """Budget, scales, draws, memory and time of a run; charges nothing, and refuses what the run would refuse.

    Args:
      plan: what to measure.
      budget: what to spend.
      mechanism: as in `qcompile.run.execute.run`; likewise the other options.
      reference: see `run`.
      basis: see `run`.
      noise: see `run`.
      accounting: see `run`.
      ledger: see `run`.
      unit: see `run`.
      output: see `run`; without one, the measurements are held in memory.
      resume: see `run`; what a resumed run has charged is not charged again, so the ledger need not have it left.
      strict_values: see `run`.
      workers: see `run`.
      max_memory: see `run`.
      test_seed: see `run`.

    Raises:
      OptionError: an option has a value it cannot take.
      BudgetError: the budget cannot be spent this way, or the ledger has too little left.
      StorageError: there is no such ledger, or a run to the same output is unfinished.
      SizeError: the run would not fit in memory.
    """
    one_of("mechanism", mechanism, MECHANISMS)
    one_of("noise", noise, NOISES)
    count = threads(workers)
    _check_combination(noise, accounting, test_seed)
    one_of("reference", reference, REFERENCES)
    if one_of("basis", basis, BASES) != "compiled" and mechanism != "adaptive":
        raise OptionError(f"basis={basis!r} is for mechanism='adaptive'; a batch measures what the plan says")
    limit = DEFAULT_MEMORY if max_memory is None else whole("max_memory", max_memory, 1)
    if not isinstance(budget, Budget):
        raise OptionError(f"budget must be a Budget such as Budget(epsilon=1, delta='1e-9'), got {budget!r}")
    _check_output(output, mechanism, bool_option("resume", resume))
    if ledger is not None:
        _check_ledger(noise, test_seed)
        ledger = opened(ledger)
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
        expected = _expected(plan, budget, accounting, limit, count, streaming=output is not None)
    if ledger is None or resume:
        return expected
    ledger.require(charge_for(plan, expected, mechanism, noise, unit))
    return replace(expected, remaining=ledger.remaining - expected.charge)


def _expected(plan: Plan, budget: Budget, accounting: str, limit: int, count: int, streaming: bool) -> DryRun:
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
        memory=_streamed(plan, drawn, count, limit) if streaming else _held(plan, drawn, count, limit),
        seconds=drawn / DRAWS_A_SECOND / count + 1e-3 * nodes,
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
        memory=_held(plan, ADAPTIVE_COPIES * held, 1, limit),
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


def _held(plan: Plan, numbers: int, count: int, limit: int) -> int:
    """Bytes of a run that holds so many numbers, and what threads work on.

    Raises:
      SizeError: more than memory, or the limit, allows.
    """
    memory = 8 * numbers + _working(plan, count)
    remedy = (
        "write the release to a file as it is made (-o, output=...), raise the limit (--max-memory, max_memory=...)"
    )
    require_memory("this run", memory, f"{remedy}, or use fewer or smaller views", limit, itemsize=1)
    return memory


def _streamed(plan: Plan, numbers: int, count: int, limit: int) -> int:
    """Bytes of a run that writes the numbers that it draws, some at a time.

    Raises:
      SizeError: more than memory, or the limit, allows.
    """
    memory = _working(plan, count) + 8 * 4 * min(PART, numbers)
    remedy = "raise the limit (--max-memory, max_memory=...), give fewer workers, or use smaller views"
    require_memory("this run", memory, remedy, limit, itemsize=1)
    return memory


def _working(plan: Plan, count: int) -> int:
    """Bytes that threads take which measure the largest view.

    Raises:
      SizeError: its table is too large to be counted.
    """
    largest = max((cells(plan.workload.schema.shape(v)) for v in plan.tables), default=1)
    require_memory("the largest table of counts", largest, "use smaller views")  # what counting it will ask, too
    return 8 * largest * (WORKING + AHEAD) * count


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


def charge_for(plan: Plan, expected: DryRun, mechanism: str, noise: str, unit: str | None) -> Charge:
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


def opened(ledger: Ledger | str | Path) -> Ledger:
    """A ledger, given as such or by its path."""
    return ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)


def _check_output(output: str | Path | None, mechanism: str, resume: bool) -> None:
    """Refuse to resume what cannot be, and to begin anew what was not finished.

    Raises:
      OptionError: nothing is written, or the run is adaptive.
      StorageError: a run to that output is unfinished, and not to be resumed.
    """
    if resume and output is None:
        raise OptionError("resume=True finishes a run that was to write a release; give its output")
    if resume and mechanism != "batch":
        raise OptionError("an adaptive run cannot be resumed: what it measures next depends on all before; run it anew")
    if output is not None:
        (require_one if resume else require_none)(output)


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
