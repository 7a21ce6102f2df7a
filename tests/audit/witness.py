"""A watched run: every draw with its center, scale, random bits and result, and the state of the ledger at that moment.

With the bits on record nothing about a release is left to chance: `check_draws` recomputes it from them and from the
exported matrices, in long doubles and by a formula of its own.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from qcompile.api import Plan, Release, prepare
from qcompile.plan.plan import Measurement
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.noise.random_bytes import ByteSource
from qcompile.privacy.noise.rounded_gaussian import ExactCenters
from qcompile.run import randomness
from qcompile.support.arrays import Array, IntArray

Data = dict[tuple[str, ...], IntArray]

LONG = np.longdouble

REPLAY = 1e-6
"""Grid steps by which the auditor's own formula, in doubles, may be off; a bug is off by far more."""

ROWS = 3
"""Rows of a draw whose center is compared with rational arithmetic."""


@dataclass(frozen=True, eq=False)
class Draw:
    """One call of the noise.

    Attributes:
      center: what it was given, in grid steps, ``(entries,)``.
      error: the bound of the rounding error of each entry.
      s: noise scale in grid steps.
      exact: gives the exact centers of some entries.
      bits: what it took from its random source, 64 bits each.
      result: what it returned.
      spent: rho on the ledger's disk at that moment; None without a ledger.
    """

    center: Array
    error: Array
    s: float
    exact: ExactCenters
    bits: IntArray
    result: IntArray
    spent: Fraction | None


class Tap:
    """A random source that keeps what it gave."""

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.taken = b""

    @property
    def private(self) -> bool:
        """That of the source."""
        return self._source.private

    def take(self, n: int) -> bytes:
        """The next bytes, kept."""
        data = self._source.take(n)
        self.taken += data
        return data

    def branch(self, label: bytes) -> ByteSource:
        """Further digits of single draws; not kept."""
        return self._source.branch(label)


def current(owner: Any, name: str) -> Any:
    """What a module or class has under a name now: the code as it is, or a planted bug."""
    return getattr(owner, name)


def watched_run(
    plan: Plan, data: Data, budget: Budget, ledger: Path | None = None, **options: Any
) -> tuple[Release, list[Draw]]:
    """Run a plan and record its draws, in their order."""
    drawn: list[Draw] = []
    original = current(randomness, "rounded_gaussian")

    def watched(scaled: Array, error: Array | float, s: float, exact: ExactCenters, source: ByteSource) -> IntArray:
        spent = None if ledger is None else Ledger.open(ledger).spent
        tap, center = Tap(source), scaled.copy()
        result: IntArray = original(scaled, error, s, exact, tap)
        bits = np.frombuffer(tap.taken, dtype="<u8").astype(np.int64)
        drawn.append(Draw(center, np.broadcast_to(error, center.shape), s, exact, bits, result, spent))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(randomness, "rounded_gaussian", watched)
        release = plan.run(data, budget, ledger=ledger, **options)
    return release, drawn


def check_draws(
    plan: Plan, data: Data, budget: Budget, note: object = "", accounting: str = "zcdp", **options: Any
) -> list[Draw]:
    """A run draws what the plan exports: every node once, at its scale, around its exact center, and releases that.

    Args:
      plan: what to run.
      data: one table over the whole domain.
      budget: what to spend.
      note: goes into the message of a failure.
      accounting: of the run.
      options: further ones of the run.

    Returns:
      The draws, in the order of the nodes.
    """
    charge = budget.charge(accounting)
    release, drawn = watched_run(plan, data, budget, accounting=accounting, **options)
    assert release.provenance.charge == charge, f"the release states another charge: {note}"
    measured = list(plan.measurements(Budget(rho=charge)))
    values = [v for v, c in zip(release.values, plan.closure.class_of.tolist(), strict=True) if c >= 0]
    found = []
    for m, released in zip(measured, values, strict=True):
        center, own_error = exported_center(m, data)
        if m.scale == 0:
            off = np.abs(np.sort(released) - np.sort(center)).max()
            assert off <= 0.5, f"a public answer is off by {off} grid steps, node {m.attributes}: {note}"
        else:
            found.append(_check_node(m, released, center, own_error, drawn, note))
    assert len(found) == len(drawn), f"{len(drawn)} draws for {len(found)} nodes: {note}"
    promised = prepare(plan, budget, accounting=accounting).prediction.draws
    assert sum(len(d.bits) for d in found) == promised, f"not the draws that were promised: {note}"
    check_own_bits(found, note)
    return found


def exported_center(measurement: Measurement, data: Data) -> tuple[Array, float]:
    """``B x`` in grid steps from the exported factors, in long doubles, with a bound of its own error.

    The order of rows is that of the factors, which may differ from that of the measurements.
    """
    [(names, table)] = data.items()
    gone = tuple(i for i, n in enumerate(names) if n not in measurement.attributes)
    x = table.sum(axis=gone).ravel().astype(LONG)
    matrix = functools.reduce(np.kron, [f.astype(LONG) for f in measurement.factors], np.ones((1, 1), dtype=LONG))
    largest = float((np.abs(matrix) @ x).max() / LONG(measurement.grid))
    own_error = float(np.finfo(LONG).eps) * (len(x) + len(measurement.factors) + 1) * largest
    return np.asarray(matrix @ x / LONG(measurement.grid)), own_error


def _check_node(
    m: Measurement, released: Any, center: Array, own_error: float, drawn: list[Draw], note: object
) -> Draw:
    where = f"node {m.attributes}: {note}"
    mine = [d for d in drawn if np.shares_memory(d.result, released)]
    assert len(mine) == 1, f"what is released is the result of {len(mine)} draws, {where}"
    [draw] = mine
    assert released.shape == center.shape, f"{released.shape} numbers, {center.shape} rows exported, {where}"
    assert draw.s * m.grid == m.scale, f"noise of scale {draw.s * m.grid!r}, exported {m.scale!r}, {where}"
    _check_center(draw, center, own_error, where)
    _check_replay(draw, where)
    return draw


def _check_center(draw: Draw, center: Array, own_error: float, where: str) -> None:
    """The center is the exported one, to its own bound of the rounding error; some rows in rational arithmetic."""
    # Sorting pairs the rows of two orders; no pairing brings the largest difference below that of the sorted ones.
    off = float(np.abs(np.sort(draw.center) - np.sort(center)).max())
    bound = float(draw.error.max())
    assert off <= bound + own_error, f"the center is off by {off:.3g} grid steps, bound {bound:.3g}, {where}"
    rows = np.arange(0, len(center), max(1, len(center) // ROWS))
    for row, exact in zip(rows.tolist(), draw.exact(rows), strict=True):
        difference = abs(Fraction(float(draw.center[row])) - exact)
        allowed = Fraction(float(draw.error[row]))
        assert difference <= allowed, f"row {row} is off by {float(difference):.3g} grid steps, {where}"


def _check_replay(draw: Draw, where: str) -> None:
    """The release is ``round(center + s Z)`` with Z the normal quantile of exactly the bits that were drawn."""
    assert len(draw.bits) == len(draw.result), f"{len(draw.bits)} draws for {len(draw.result)} numbers, {where}"
    off = (np.abs(draw.result - draw.center - draw.s * normals(draw.bits)) - draw.error).max()
    assert off <= 0.5 + REPLAY, f"a release is {off:.3g} grid steps from what its bits give, {where}"


def normals(bits: IntArray) -> Array:
    """Standard normals from 64 bits each: the first is the sign, the others the binary digits of the tail's double."""
    tail = ((bits & np.int64(2**63 - 1)).astype(np.float64) + 0.5) * 2.0**-64
    return np.asarray(np.where(bits < 0, 1.0, -1.0) * -ndtri(tail))


def check_own_bits(drawn: list[Draw], note: object = "") -> None:
    """No released number shares its random bits with another one, of these runs or nodes."""
    bits = np.concatenate([np.zeros(0, dtype=np.int64), *(d.bits for d in drawn)])
    shared = len(bits) - len(np.unique(bits))
    assert shared == 0, f"{shared} of {len(bits)} released numbers share their noise with another: {note}"


def check_runs_differ(plan: Plan, data: Data, budget: Budget, note: object = "") -> None:
    """Two private runs have no noise in common."""
    runs = [watched_run(plan, data, budget)[1] for _ in range(2)]
    check_own_bits(list(itertools.chain(*runs)), note)


def check_ledger(plan: Plan, data: Data, budget: Budget, folder: Path, note: object = "", **options: Any) -> None:
    """The charge is on the ledger's disk before the first draw, once, and it is the one that the release states."""
    path = folder / "audit.ledger"
    charge = budget.charge(options.get("accounting", "zcdp"))
    ledger = Ledger.create(path, Budget(rho=charge))
    release, drawn = watched_run(plan, data, budget, path, **options)
    for d in drawn:
        assert d.spent == charge, f"noise was drawn while the ledger held {d.spent} of the charge {charge}: {note}"
    assert [e.charge.rho for e in ledger.entries] == [charge], f"the ledger's entry is not the charge: {note}"
    assert release.provenance.charge == charge, f"the release states another charge: {note}"
    assert ledger.remaining == 0, f"{ledger.remaining} is left of a budget that was spent: {note}"
