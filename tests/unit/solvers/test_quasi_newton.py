"""The quasi-Newton method against the interior point, and problems of low rank on few of their cells."""

import numpy as np
import pytest

from qcompile.queries.factors import Affine
from qcompile.solvers.exact.certificate import DualProblem, Incumbent, RootBlock, evaluate
from qcompile.solvers.exact.envelope import envelope
from qcompile.solvers.exact.interior_point import interior_point
from qcompile.solvers.exact.quasi_newton import quasi_newton
from qcompile.support.arrays import Array
from tests.conformance.helpers import integers


def distances(n: int, bend: float = 0.0) -> Array:
    """Sums of two axes of n cells, centred with bent weights: a root of full row rank."""
    a, b = integers(n, n)
    u = 1 + bend * np.cos(np.arange(n))
    u /= u.sum()
    rows = Affine([a, b], [1, 1]).contract([None, None])
    rows = rows - np.tensordot(rows, u, axes=(1, 0))[:, None, :]
    rows = (rows - np.tensordot(rows, u, axes=(2, 0))[:, :, None]).reshape(-1, n * n)
    _, s, vt = np.linalg.svd(rows, full_matrices=False)
    kept = s > 1e-10 * s[0]
    return np.asarray(s[kept, None] * vt[kept])


def posed(root: Array) -> DualProblem:
    n = root.shape[1]
    return DualProblem((RootBlock(root, np.arange(n)),), np.ones(n))


@pytest.mark.parametrize("n", [4, 9])
def test_it_comes_near_to_the_largest_value(n: int) -> None:
    problem = posed(distances(n))
    start = evaluate(problem, problem.uniform())
    best = Incumbent(start)
    interior_point(problem, start, best, 1e-9)
    found = quasi_newton(problem, problem.uniform())
    assert best.bound * (1 - 1e-4) < found.value**2 <= best.point.loss
    assert found.mu.sum() == pytest.approx(1)
    assert found.mu.min() >= 0


def test_orbits_count_as_often_as_they_have_cells() -> None:
    root = distances(4)[:, :8]
    single = posed(root)
    twice = DualProblem((RootBlock(root / np.sqrt(2), np.arange(8)),), np.full(8, 2.0))
    one, two = quasi_newton(single, single.uniform()), quasi_newton(twice, twice.uniform())
    assert two.value == pytest.approx(one.value / np.sqrt(2) / np.sqrt(2), rel=1e-4)
    assert 2 * two.mu.sum() == pytest.approx(1)


def test_few_cells_carry_a_problem_of_low_rank_also_from_a_warm_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qcompile.solvers.exact.envelope.HESSIAN_WORK", 0.0)
    n = 20
    cold = envelope(distances(n), (n, n), None, 1e-3)
    bent = distances(n, 0.05)
    warm, reference = envelope(bent, (n, n), cold.mu, 1e-3), envelope(bent, (n, n), None, 1e-3)
    assert warm.loss == pytest.approx(reference.loss, rel=2e-4)
    for found in (cold, warm, reference):
        assert np.count_nonzero(found.mu) < n * n / 2
        assert found.point.loss / found.point.bound - 1 < 5e-3
