"""Run a plan on data: the only module that joins a plan with data and budget.

The order matters: everything that can be refused is refused first, the charge is fixed before noise is drawn, and
what is measured does not depend on the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from qcompile.arrays import DEFAULT_MEMORY, cells, require_memory
from qcompile.checks import one_of, whole
from qcompile.errors import BudgetError, OptionError
from qcompile.files import require_place
from qcompile.plan import Plan
from qcompile.privacy.budget import Budget
from qcompile.release.files import plan_hash, schema_hash
from qcompile.release.measure import NOISES, delivered_scales, make_noise, measure
from qcompile.release.release import Provenance, Release
from qcompile.version import __version__

MECHANISMS = ("batch",)

NOT_PRIVATE = "NOT PRIVATE"

SMALLEST_SIGMA = 2.0**-24
"""Noise scales below this are refused: measurements of up to 10^9 rows then always fit into 64 bits of grid steps."""

DRAWS_A_SECOND = 5e6
"""Measured pace of counting, measuring and drawing together, on one core; for estimates of time only."""


@dataclass(frozen=True)
class DryRun:
    """What a run would do, computed without data and without spending anything.

    Attributes:
      charge: rho it would spend.
      budget: in words.
      nodes: number of measurements' nodes.
      draws: Gaussian numbers to draw.
      sigma: smallest and largest noise scale.
      memory: bytes that the release takes.
      seconds: rough estimate.
    """

    charge: Fraction
    budget: str
    nodes: int
    draws: int
    sigma: tuple[float, float]
    memory: int
    seconds: float


def dry_run(
    plan: Plan,
    budget: Budget,
    *,
    mechanism: str = "batch",
    noise: str = "rounded",
    accounting: str = "zcdp",
    max_memory: int | None = None,
    test_seed: int | None = None,
) -> DryRun:
    """Budget, scales, draws, memory and time of a run; charges nothing, and refuses what the run would refuse.

    Args:
      plan: what to measure.
      budget: what to spend.
      mechanism: as in `run`; likewise the other options.
      noise: see `run`.
      accounting: see `run`.
      max_memory: see `run`.
      test_seed: see `run`.

    Raises:
      OptionError: an option has a value it cannot take.
      BudgetError: the budget cannot be spent this way.
      SizeError: the run would not fit in memory.
    """
    one_of("mechanism", mechanism, MECHANISMS)
    one_of("noise", noise, NOISES)
    _check_combination(noise, accounting, test_seed)
    limit = DEFAULT_MEMORY if max_memory is None else whole("max_memory", max_memory, 1)
    if not isinstance(budget, Budget):
        raise OptionError(f"budget must be a Budget such as Budget(epsilon=1, delta='1e-9'), got {budget!r}")
    charge = budget.charge(accounting)
    scales, members = plan.scales(charge), plan.closure.members.tolist()
    draws = sum(m * s.rows for m, s in zip(members, plan.strategies, strict=True))
    largest = max((cells(plan.workload.schema.shape(v)) for v in plan.tables), default=1)
    sigmas = [s.sigma for s in scales]
    if min(sigmas) < SMALLEST_SIGMA:
        raise BudgetError(f"a noise scale of {min(sigmas):.2g} counts protects nobody; choose a smaller budget")
    memory = 8 * (draws + 4 * largest)
    require_memory("this run", memory // 8, "raise the limit, or use fewer or smaller views", limit)
    return DryRun(
        charge=charge,
        budget=budget.describe(accounting),
        nodes=sum(members),
        draws=draws,
        sigma=(min(sigmas), max(sigmas)),
        memory=memory,
        seconds=draws / DRAWS_A_SECOND + 1e-3 * sum(members),
    )


def run(
    plan: Plan,
    data: Any,
    budget: Budget,
    *,
    mechanism: str = "batch",
    noise: str = "rounded",
    accounting: str = "zcdp",
    output: str | Path | None = None,
    max_memory: int | None = None,
    test_seed: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Release:
    """Measure data once and return everything that may be published.

    Args:
      plan: what to measure.
      data: a CSV or Parquet path, a pandas or polars frame, a pyarrow table, a dict of columns, or a dict of exact
        counts by tuples of attribute names.
      budget: what to spend.
      mechanism: "batch".
      noise: "rounded", the exactly rounded Gaussian; "opendp", the slow cross-check; "none", for tests: the release is
        stamped NOT PRIVATE.
      accounting: "zcdp", what a ledger adds up; "gaussian", the exact Gaussian curve (smaller errors for the same
        epsilon and delta; rounded noise only).
      output: where to save the release, too.
      max_memory: bytes; more is refused before the work starts.
      test_seed: deterministic noise for tests: NOT PRIVATE, and stamped so.
      progress: called after every measured node with the number done and of all.

    Raises:
      OptionError: an option has a value it cannot take.
      BudgetError: the budget cannot be spent this way.
      DataError: the data does not fit the schema.
      SizeError: the work does not fit in memory.
      StorageError: the release cannot be saved at ``output``.
    """
    from qcompile.data.counts import open_data

    expected = dry_run(
        plan,
        budget,
        mechanism=mechanism,
        noise=noise,
        accounting=accounting,
        max_memory=max_memory,
        test_seed=test_seed,
    )
    if output is not None:
        require_place(output)
    scales = plan.scales(expected.charge)
    delivered = delivered_scales(noise, scales)
    counts = open_data(data, plan.workload.schema, plan.tables)
    values = measure(plan, counts, scales, make_noise(noise, test_seed), progress)
    release = Release(plan, _provenance(plan, expected, accounting, noise, test_seed), delivered, values)
    if output is not None:
        release.save(output)
    return release


def _provenance(plan: Plan, expected: DryRun, accounting: str, noise: str, test_seed: int | None) -> Provenance:
    stamps = []
    if noise == "none":
        stamps.append(f"{NOT_PRIVATE}: made without noise")
    if test_seed is not None:
        stamps.append(f"{NOT_PRIVATE}: made with a test seed")
    return Provenance(
        version=__version__,
        plan_hash=plan_hash(plan),
        schema_hash=schema_hash(plan),
        charge=expected.charge,
        budget=expected.budget,
        accounting=accounting,
        noise=noise,
        neighbours=plan.options.neighbours,
        contributions=plan.options.contributions,
        stamps=tuple(stamps),
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
