"""The `repr` of what a session holds is one line of what matters; nothing floods a notebook or a log."""

from pathlib import Path

import pytest

import qcompile as qc

SOURCE = "schema { %s } workload { all : each 1..2 of all }"


def _plan(attributes: int) -> qc.Plan:
    names = [f"attribute_{i} : integer 0..{5 + i} clip" for i in range(attributes)]
    return qc.compile(SOURCE % "\n".join(names), solver="rp")


@pytest.mark.parametrize("attributes", [2, 30])
def test_it_is_one_short_line_at_any_size(attributes: int) -> None:
    plan = _plan(attributes)
    release = plan.run({name: [0] for name in plan.workload.schema.names}, qc.Budget(rho=1), noise="none")
    measurement = next(plan.measurements(qc.Budget(rho=1)))
    strategy, problem = plan.strategies[-1], plan.closure.classes[-1]
    marginal = release.marginal(plan.workload.schema.names[:2])
    parts = [plan.workload, plan.workload.schema, plan.workload.families[0], plan.closure, problem, strategy]
    for value in [plan, release, *parts, measurement, marginal]:
        text = repr(value)
        assert len(text.splitlines()) == 1
        assert len(text) <= 160, text
        assert type(value).__name__ in text


def test_it_says_what_matters() -> None:
    plan = _plan(2)
    release = plan.run({"attribute_0": [0], "attribute_1": [0]}, qc.Budget(rho=1), noise="none")
    assert repr(plan) == f"<Plan: 55 queries in 1 family, rmse {plan.rmse():.4g} at cost 1, solver 'rp'>"
    assert repr(plan.workload) == "<Workload: 55 queries in 1 family over 2 attributes>"
    assert repr(plan.closure) == "<Lattice: 4 nodes, 0 blocks, 4 classes>"
    assert repr(release) == "<Release: batch, 55 queries in 1 family, rho 1, NOT PRIVATE>"
    assert repr(release.marginal(("attribute_1", "attribute_0"))) == (
        "<Marginal of attribute_1, attribute_0: 7 x 6 cells, unbiased>"
    )


def test_a_ledger_says_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = qc.Ledger.create(path, qc.Budget(rho="1/2"))
    ledger.charge("1/4")
    assert repr(ledger) == f"<Ledger {str(path)!r}: rho 0.25 spent, 0.25 left, 1 entry>"
    path.unlink()
    assert "there is no ledger" in repr(ledger)
