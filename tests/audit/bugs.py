"""Faults that were made elsewhere, or could be made here, planted into the running code.

A bug is planted before a plan is compiled, by replacing a function, or afterwards, by changing the plan itself. It
names the detectors of this package that must object, and what they must say.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qcompile.api import Plan
from qcompile.plan import plan as planning
from qcompile.privacy import joint_distance
from qcompile.privacy.ledger.charges import Charge
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.noise.random_bytes import ByteSource, SeededSource
from qcompile.privacy.noise.rounded_gaussian import ExactCenters
from qcompile.privacy.noise.scale import Scale
from qcompile.privacy.unit import CountColumn, PrivacyUnit
from qcompile.queries.schema import Schema
from qcompile.release.values import NodeValues
from qcompile.run import mechanisms, randomness
from qcompile.strategy import KroneckerStrategy, MatrixPart, Strategy
from qcompile.support.arrays import Array, BoolArray, IntArray
from tests.audit.witness import current, normals

Patch = pytest.MonkeyPatch

Sampler = Callable[[Array, Array | float, float, ExactCenters, ByteSource], Any]
"""`rounded_gaussian`, or what takes its place."""


def untouched(plan: Plan) -> None:
    """Most bugs leave the plan alone."""


@dataclass(frozen=True)
class Bug:
    """A planted bug.

    Attributes:
      plant: replaces functions.
      caught_by: the detectors that must object, each with what it must say.
      plan: which of the audit's plans it shows in.
      tamper: changes the compiled plan.
    """

    plant: Callable[[Patch], None]
    caught_by: dict[str, str]
    plan: str = "plain"
    tamper: Callable[[Plan], None] = untouched


def nothing(patch: Patch) -> None:
    """No function is replaced."""


def sampler(change: Callable[[Sampler], Sampler]) -> Callable[[Patch], None]:
    """Replace the sampler by one made from it."""
    return lambda patch: patch.setattr(randomness, "rounded_gaussian", change(current(randomness, "rounded_gaussian")))


def less_noise(original: Sampler) -> Sampler:
    """Noise of scale 0.8."""
    return lambda scaled, error, s, exact, source: original(scaled, error, 0.8 * s, exact, source)


def mean_of_two(original: Sampler) -> Sampler:
    """Every node measured twice, the mean released, one measurement charged."""

    def broken(scaled: Array, error: Array | float, s: float, exact: ExactCenters, source: ByteSource) -> IntArray:
        two = [original(scaled, error, s, exact, source) for _ in range(2)]
        return np.asarray(np.rint((two[0] + two[1]) / 2), dtype=np.int64)

    return broken


def both_of_two(original: Sampler) -> Sampler:
    """Every node measured twice, both released, one measurement charged."""

    def broken(scaled: Array, error: Array | float, s: float, exact: ExactCenters, source: ByteSource) -> IntArray:
        return np.concatenate([original(scaled, error, s, exact, source) for _ in range(2)])

    return broken


def empty_cells_bare(original: Sampler) -> Sampler:
    """No noise where there is nothing to protect, as if."""

    def broken(scaled: Array, error: Array | float, s: float, exact: ExactCenters, source: ByteSource) -> IntArray:
        return np.where(scaled == 0, 0, original(scaled, error, s, exact, source))

    return broken


def rounded_first(original: Sampler) -> Sampler:
    """The exact answer is rounded to the grid, then noise is added: sensitivity grows unseen."""
    return lambda scaled, error, s, exact, source: original(
        np.rint(scaled), error, s, lambda rows: [Fraction(round(c)) for c in exact(rows)], source
    )


def uniform(original: Sampler) -> Sampler:
    """The right variance, the wrong law."""

    def broken(scaled: Array, error: Array | float, s: float, exact: ExactCenters, source: ByteSource) -> IntArray:
        u = np.frombuffer(source.take(8 * len(scaled)), dtype="<u8") * 2.0**-64
        return np.asarray(np.rint(scaled + s * math.sqrt(12) * (u - 0.5)), dtype=np.int64)

    return broken


def unrounded(patch: Patch) -> None:
    """Doubles with all their low-order bits are released (opendp/opendp#414)."""

    def rounded(sources: Callable[[str], ByteSource]) -> randomness.Noise:
        def add(strategy: Strategy, x: IntArray, scale: Scale, node: str) -> Array:
            exact = strategy.apply(x.astype(np.float64))
            bits = np.frombuffer(sources(node).take(8 * len(exact)), dtype="<i8")
            return np.asarray(exact + scale.sigma * normals(bits))

        return add

    patch.setattr(randomness, "rounded", rounded)


def smaller_scales(patch: Patch) -> None:
    """The plan itself asks for noise of scale 0.8, and exports it."""
    original = Plan.scales

    def broken(self: Plan, charge: Fraction) -> tuple[Scale, ...]:
        return tuple(replace(s, sigma=0.8 * s.sigma) for s in original(self, charge))

    patch.setattr(Plan, "scales", broken)


def charged_per_class(patch: Patch) -> None:
    """Nodes that share a solution are charged once for all."""
    original = current(planning, "exact_scales")

    def broken(losses: Any, members: Any, sensitivities: Any, charge: Fraction) -> tuple[Scale, ...]:
        found: tuple[Scale, ...] = original(losses, [1] * len(members), sensitivities, charge)
        return found

    patch.setattr(planning, "exact_scales", broken)


def doubled_column(patch: Patch) -> None:
    """The matrix that is measured counts one value twice; the declared one does not."""
    apply, exact_entries = KroneckerStrategy.apply, KroneckerStrategy.exact_entries

    def doubled(x: Any) -> Any:
        x = x.copy()
        x[(0,) * x.ndim if x.ndim else ()] *= 2
        return x

    patch.setattr(KroneckerStrategy, "apply", lambda self, x: apply(self, doubled(x)))
    patch.setattr(KroneckerStrategy, "exact_entries", lambda self, x: exact_entries(self, doubled(x)))


def stale_cost(plan: Plan) -> None:
    """Strategies grow after their cost was computed, and the cost that was remembered stays."""
    plan.scales(Fraction(1))
    for strategy in plan.strategies:
        assert isinstance(strategy, KroneckerStrategy)
        larger = (p.written_out() * np.where(np.arange(p.columns) == 0, 1.5, 1.0) for p in strategy.parts)
        # New parts: what other plans share with this one must not change.
        strategy.parts = tuple(MatrixPart(p.axes, p.shape, m) for p, m in zip(strategy.parts, larger, strict=True))


def one_attribute(patch: Patch) -> None:
    """Replaced rows are held to differ in a single attribute."""
    original = current(joint_distance, "_sets")

    def broken(*args: Any) -> tuple[BoolArray, BoolArray, IntArray]:
        differing, free, groups = original(*args)
        return differing[differing.sum(axis=1) <= 1], free, groups

    patch.setattr(joint_distance, "_sets", broken)


def leaving_is_cheap(patch: Patch) -> None:
    """A row that leaves the counts altogether is charged a quarter of what it costs."""
    original = current(joint_distance.JointDistance, "of")

    def broken(*args: Any, **options: Any) -> joint_distance.JointDistance:
        found: joint_distance.JointDistance = original(*args, **options)
        return replace(found, distances=tuple((*pairs, alone / 4) for *pairs, alone in found.distances))

    patch.setattr(joint_distance.JointDistance, "of", staticmethod(broken))


def rows_forgotten(patch: Patch) -> None:
    """A unit with two rows is charged as if it had one."""
    original = PrivacyUnit.sensitivity_squared
    patch.setattr(
        PrivacyUnit, "sensitivity_squared", lambda self, strategy: original(replace(self, contributions=1), strategy)
    )


def charged_as_added(patch: Patch) -> None:
    """A replaced row is charged as one that is added (smartnoise-core#360)."""
    original = PrivacyUnit.sensitivity_squared
    patch.setattr(PrivacyUnit, "is_joint", False)
    patch.setattr(
        PrivacyUnit, "sensitivity_squared", lambda self, s: original(replace(self, neighbours="add-remove"), s)
    )


def drop_forgotten(patch: Patch) -> None:
    """The number of rows is held to be public although a replaced row may be one that is dropped."""

    def of(neighbours: str, contributions: int, schema: Schema, counted: CountColumn | None = None) -> PrivacyUnit:
        return PrivacyUnit(neighbours=neighbours, contributions=contributions, fixed_rows=True)

    patch.setattr(PrivacyUnit, "of", staticmethod(of))


def one_stream(patch: Patch) -> None:
    """All nodes take their noise from the same stream of a seed (diffprivlib#31)."""
    patch.setattr(randomness, "SeededSource", lambda seed, node: SeededSource(seed, "the only stream"))


def default_seed(patch: Patch) -> None:
    """Every run has the same noise, as a seed is used where none was given."""
    original = current(mechanisms, "make_noise")
    patch.setattr(mechanisms, "make_noise", lambda kind, seed: original(kind, 0 if seed is None else seed))


def bits_replayed(patch: Patch) -> None:
    """Every node starts the same stream anew, as after a fork that copied a generator's state."""
    patch.setattr(randomness, "SystemSource", lambda: SeededSource(0))


def rounding_ignored(patch: Patch) -> None:
    """The product is less accurate than a bound of 0 says."""
    original = KroneckerStrategy.apply
    patch.setattr(KroneckerStrategy, "apply", lambda self, x: original(self, x) * (1 + 2.0**-36))
    patch.setattr(KroneckerStrategy, "rounding_error", lambda self, x: 0.0)


def charged_late(patch: Patch) -> None:
    """The ledger hears of a run after its noise was drawn."""
    charge, measure, waiting = Ledger.charge, current(mechanisms, "measure"), list[tuple[Ledger, Charge]]()

    def later(self: Ledger, entry: Charge) -> int:
        waiting.append((self, entry))
        return 1

    def then(*args: Any, **options: Any) -> Iterator[tuple[int, NodeValues]]:
        values: list[tuple[int, NodeValues]] = list(measure(*args, **options))
        for ledger, entry in waiting:
            charge(ledger, entry)
        return iter(values)

    patch.setattr(Ledger, "charge", later)
    patch.setattr(mechanisms, "measure", then)


def charged_half(patch: Patch) -> None:
    """The ledger records less than the run spends."""
    original = Ledger.charge
    patch.setattr(Ledger, "charge", lambda self, entry: original(self, replace(entry, rho=entry.rho / 2)))


MORE = "mu is at least"
COSTS = "costs .*, declared"

BUGS: dict[str, Bug] = {
    "noise scale 0.8": Bug(
        sampler(less_noise),
        {"draws": "from what its bits give", "attack": MORE, "law": "covariance", "answers": "covariance"},
    ),
    "noise scale 0.8, exported as such": Bug(smaller_scales, {"costs": COSTS, "attack": MORE}),
    "a node measured twice, the mean released": Bug(
        sampler(mean_of_two), {"draws": "2 draws for 1 numbers", "attack": MORE, "law": "covariance"}
    ),
    "a node measured twice, both released": Bug(
        sampler(both_of_two), {"draws": "rows exported", "attack": MORE, "law": "28 numbers for 14 measurements"}
    ),
    "equal nodes charged once": Bug(
        charged_per_class, {"costs": "all together cost", "attack": MORE}, plan="equal nodes"
    ),
    "one value's column doubled": Bug(doubled_column, {"draws": "the center is off", "attack": MORE}),
    "a strategy changed after its cost was computed": Bug(nothing, {"costs": COSTS, "attack": MORE}, tamper=stale_cost),
    "rows of one unit forgotten": Bug(rows_forgotten, {"costs": COSTS, "attack": MORE}, plan="two rows"),
    "a replaced row charged as an added one": Bug(charged_as_added, {"costs": COSTS, "attack": MORE}, plan="replaced"),
    "replaced rows that differ in one attribute": Bug(
        one_attribute, {"costs": "all together cost", "attack": MORE}, plan="replaced"
    ),
    "a row that leaves for a quarter": Bug(
        leaving_is_cheap, {"costs": "all together cost", "attack": MORE}, plan="total"
    ),
    "a dropped row forgotten": Bug(
        drop_forgotten,
        {"costs": "released exactly, though it differs", "attack": "without noise tells the tables apart"},
        plan="replaced or dropped",
    ),
    "noise shared by the nodes": Bug(
        one_stream,
        {"seeded draws": "share their noise", "attack": MORE, "law": "covariance", "answers": "covariance"},
    ),
    "the same noise in every run": Bug(default_seed, {"two runs": "share their noise"}),
    "the same noise in every node and run": Bug(
        bits_replayed, {"draws": "share their noise", "two runs": "share their noise"}
    ),
    "empty cells without noise": Bug(
        sampler(empty_cells_bare),
        {"draws of nothing": "from what its bits give", "law of nothing": "hardly any noise"},
    ),
    "rounded before the noise": Bug(sampler(rounded_first), {"draws": "from what its bits give"}),
    "noise of another law": Bug(
        sampler(uniform),
        {"draws": "from what its bits give", "law": "from Gaussian", "attack": MORE},
        plan="one number",
    ),
    "low-order bits released": Bug(unrounded, {"draws": "the result of 0 draws", "law": "no multiple of its grid"}),
    "rounding bound too small": Bug(rounding_ignored, {"draws": "the center is off"}),
    "charged after the noise was drawn": Bug(charged_late, {"ledger": "while the ledger held 0"}),
    "charged less than spent": Bug(charged_half, {"ledger": "while the ledger held 1/4"}),
}
"""By name."""
