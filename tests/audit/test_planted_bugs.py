"""Every planted bug is caught by each detector that claims to, and no detector objects where there is no bug."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qcompile.api import Plan, compile
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Marginal, Prefix
from qcompile.queries.schema import Attribute, IntegerDomain, Policy
from qcompile.support.arrays import cells
from tests.audit.attack import check_attack, delivered_worst_pair
from tests.audit.bugs import BUGS
from tests.audit.exported import check_costs
from tests.audit.law import check_answers, check_measurements
from tests.audit.witness import Data, check_draws, check_ledger, check_runs_differ
from tests.conformance.helpers import family, integer, integers, workload

BUDGET = Budget(rho="1/2")
CHARGE = Fraction(1, 2)
SEED = 1

A, B = integers(3, 4)
DROPPED = Attribute("a", IntegerDomain(0, 2), Policy("drop"))
PAIR = (integer("p", 3), integer("q", 3))

ROWS = np.array([310, 0, 7, 99_999, 0, 0, 1, 12, 5, 4_000_001, 0, 33])
"""Counts of the first cells of any domain here: large, small and none."""


def small(a: Attribute = A, **options: Any) -> Plan:
    families = (family(Prefix(a), Marginal(B), weight=3), family(Prefix(B), name="b"))
    return compile(workload([a, B], *families), **options)


PLANS: dict[str, Callable[[], Plan]] = {
    "plain": small,
    "two rows": lambda: small(contributions=2),
    "replaced": lambda: small(neighbours="replace-one"),
    "replaced or dropped": lambda: small(DROPPED, neighbours="replace-one"),
    # Mostly the number of rows, and a little of the rest: it costs most to come and to go.
    "total": lambda: compile(
        workload([DROPPED], family(weight=1e4), family(Prefix(DROPPED))), neighbours="replace-one"
    ),
    "one number": lambda: compile(workload([A], family())),
    "equal nodes": lambda: compile(workload(PAIR, family(*map(Prefix, PAIR), choose=(1, 1), name="each"))),
}


def rows(plan: Plan) -> Data:
    names = plan.workload.schema.names
    shape = plan.workload.schema.shape(names)
    return {names: ROWS[: cells(shape)].reshape(shape)}


def nothing(plan: Plan) -> Data:
    return {names: np.zeros_like(table) for names, table in rows(plan).items()}


def flat(data: Data) -> np.ndarray[Any, np.dtype[np.int64]]:
    [table] = data.values()
    return table.ravel()


DETECTORS: dict[str, Callable[[Plan, Path], object]] = {
    "costs": lambda p, _: check_costs(p, CHARGE),
    "draws": lambda p, _: check_draws(p, rows(p), BUDGET),
    "draws of nothing": lambda p, _: check_draws(p, nothing(p), BUDGET),
    "seeded draws": lambda p, _: check_draws(p, rows(p), BUDGET, test_seed=SEED),
    "two runs": lambda p, _: check_runs_differ(p, rows(p), BUDGET),
    "ledger": lambda p, folder: check_ledger(p, rows(p), BUDGET, folder),
    "attack": lambda p, _: check_attack(p, CHARGE, delivered_worst_pair(p, CHARGE), 30_000, SEED),
    "law": lambda p, _: check_measurements(p, CHARGE, flat(rows(p)), 8_000, SEED),
    "law of nothing": lambda p, _: check_measurements(p, CHARGE, flat(nothing(p)), 8_000, SEED),
    "answers": lambda p, _: check_answers(p, CHARGE, flat(rows(p)), 4_000, SEED),
}
"""What the other tests of the audit call, on small plans."""

CAUGHT = [(name, detector) for name, bug in BUGS.items() for detector in bug.caught_by]


@pytest.mark.parametrize(("plan", "detector"), sorted({(BUGS[name].plan, detector) for name, detector in CAUGHT}))
def test_no_detector_objects_without_a_bug(plan: str, detector: str, tmp_path: Path) -> None:
    DETECTORS[detector](PLANS[plan](), tmp_path)


@pytest.mark.parametrize(("name", "detector"), CAUGHT)
def test_every_planted_bug_is_caught(name: str, detector: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    bug.plant(monkeypatch)
    plan = PLANS[bug.plan]()
    bug.tamper(plan)
    with pytest.raises(AssertionError, match=bug.caught_by[detector]):
        DETECTORS[detector](plan, tmp_path)


def test_every_detector_catches_a_bug() -> None:
    assert {detector for _, detector in CAUGHT} == set(DETECTORS)
