"""Noise scales, draws, memory and time of a run, predicted from its plan and options before any data is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from qcompile.adaptive.candidates import candidate_cells, candidate_nodes
from qcompile.errors import BudgetError
from qcompile.plan.basis import basis_strategies
from qcompile.plan.plan import Plan
from qcompile.privacy.noise.scale import PUBLIC, Scale, measurement_scale
from qcompile.release.values import PART
from qcompile.run.measure import draws
from qcompile.run.options import RunOptions
from qcompile.support.arrays import DEFAULT_MEMORY, cells, require_memory
from qcompile.support.threads import AHEAD

SMALLEST_SIGMA = 2.0**-24
"""Noise scales below this are refused: measurements of up to 10^9 rows then always fit into 64 bits of grid steps."""

ADAPTIVE_COPIES = 4
"""Numbers that an adaptive run holds per cell of all candidates: counts, estimates, measurements, working space."""

CELLS_A_SECOND = 2e6
"""Measured pace of an adaptive run per cell of its candidates, on one core; for estimates of time only."""

DRAWS_A_SECOND = 5e6
"""Measured pace of counting, measuring and drawing together, on one core; for estimates of time only."""

WORKING = 12
"""Numbers of eight bytes that measuring a table takes at a time, per cell of it; measured."""


@dataclass(frozen=True)
class Prediction:
    """The size of a run.

    Attributes:
      nodes: nodes that are measured; the candidates of an adaptive run.
      draws: Gaussian numbers to draw; None for an adaptive run, whose draws depend on its measurements.
      sigma: smallest and largest noise scale, in counts; the largest of an adaptive run is infinite.
      memory: bytes that measuring takes.
      seconds: a rough estimate.
    """

    nodes: int
    draws: int | None
    sigma: tuple[float, float]
    memory: int
    seconds: float


def predict_batch(plan: Plan, scales: Sequence[Scale], options: RunOptions) -> Prediction:
    """The size of a batch.

    Args:
      plan: what is measured.
      scales: one per class.
      options: of the run.

    Raises:
      BudgetError: the noise is too small to protect anybody.
      SizeError: the run does not fit in memory.
    """
    low, high = _sigma_range(scales)
    drawn, nodes = draws(plan, tuple(scales)), int(plan.closure.members.sum())
    memory = _streamed_bytes if options.output is not None else _held_bytes
    return Prediction(
        nodes=nodes,
        draws=drawn,
        sigma=(low * plan.unit.step, high * plan.unit.step),
        memory=memory(plan, drawn, options.threads, options.memory_limit),
        seconds=drawn / DRAWS_A_SECOND / options.threads + 1e-3 * nodes,
    )


def predict_adaptive(plan: Plan, scales: Sequence[Scale], options: RunOptions) -> Prediction:
    """The size of an adaptive run; ``scales`` as of `smallest_scales`, all else as for `predict_batch`."""
    low, _ = _sigma_range(scales)
    held = candidate_cells(plan)
    return Prediction(
        nodes=len(candidate_nodes(plan)),
        draws=None,
        sigma=(low * plan.unit.step, math.inf),
        memory=_held_bytes(plan, ADAPTIVE_COPIES * held, 1, options.memory_limit),
        seconds=held / CELLS_A_SECOND + 1e-2 * plan.closure.first_block,
    )


def smallest_scales(plan: Plan, rho: Fraction, basis: str) -> tuple[Scale, ...]:
    """The smallest noise that an adaptive run can have, one scale per class: all the budget on one node.

    Args:
      plan: gives the classes and the privacy unit.
      rho: of the whole run.
      basis: one of `qcompile.plan.basis.BASES`.

    Raises:
      OptionError: the plan cannot be measured in that basis.
    """
    sensitivities = [plan.unit.sensitivity_squared(s) for s in basis_strategies(plan, basis)]
    return tuple(measurement_scale(2 * rho, s) if s else PUBLIC for s in sensitivities)


def _sigma_range(scales: Sequence[Scale]) -> tuple[float, float]:
    """The smallest and largest scale of what is not public.

    Raises:
      BudgetError: the smallest protects nobody.
    """
    sigmas = [s.sigma for s in scales if s.sigma > 0]
    if min(sigmas) < SMALLEST_SIGMA:
        raise BudgetError(f"a noise scale of {min(sigmas):.2g} counts protects nobody; choose a smaller budget")
    return min(sigmas), max(sigmas)


def _held_bytes(plan: Plan, numbers: int, count: int, limit: int) -> int:
    """Bytes of a run that holds all its numbers, with the working space of its threads.

    Raises:
      SizeError: more than memory, or the limit, allows.
    """
    memory = 8 * numbers + _working_bytes(plan, count)
    remedy = (
        "write the release to a file as it is made (-o, output=...), raise the limit (--max-memory, max_memory=...)"
    )
    require_memory("this run", memory, f"{remedy}, or use fewer or smaller views", limit, itemsize=1)
    return memory


def _streamed_bytes(plan: Plan, numbers: int, count: int, limit: int) -> int:
    """Bytes of a run that writes its numbers, some at a time.

    Raises:
      SizeError: more than memory, or the limit, allows.
    """
    memory = _working_bytes(plan, count) + 8 * 4 * min(PART, numbers)
    remedy = "raise the limit (--max-memory, max_memory=...), give fewer workers, or use smaller views"
    require_memory("this run", memory, remedy, limit, itemsize=1)
    return memory


def _working_bytes(plan: Plan, count: int) -> int:
    """Bytes of the threads that measure the largest view.

    Raises:
      SizeError: its table is too large to be counted.
    """
    largest = max((cells(plan.workload.schema.shape(v)) for v in plan.tables), default=1)
    # Counting it needs as much, and is held to the same limit.
    require_memory("the largest table of counts", largest, "use smaller views", DEFAULT_MEMORY)
    return 8 * largest * (WORKING + AHEAD) * count
