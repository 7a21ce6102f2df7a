"""Mixtures of Kronecker strategies: the strategy against its matrix written out, and the solver against optima."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from qcompile.api import Plan, compile, load_plan
from qcompile.errors import IntegrityError, SizeError, StorageError
from qcompile.lattice.lattice import Problem
from qcompile.lattice.projection import Projection
from qcompile.plan.encoding import ArrayStore, read_strategy, strategy_data
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Matrix, Prefix, Range
from qcompile.queries.factors.base import Factor
from qcompile.solvers.auto import Auto
from qcompile.solvers.composite import mixture
from qcompile.solvers.composite.sawtooth import Sawtooth
from qcompile.solvers.exact import optimal
from qcompile.solvers.exact.optimal import Optimal
from qcompile.solvers.route import RouteFailed
from qcompile.solvers.solution import Solution
from qcompile.strategy import FourierStrategy, KroneckerStrategy, MatrixPart, MixtureStrategy
from qcompile.strategy.base import Block
from qcompile.strategy.mixture import Plain
from qcompile.support.arrays import Array
from qcompile.support.json_fields import Field
from tests.conformance.helpers import (
    UNIT,
    family,
    integer,
    integers,
    least_squares_variances,
    mechanism,
    product_matrix,
    some_counts,
    with_other,
    workload,
)
from tests.unit.solvers.test_bounds import attributes, group, loss_written_out, problem


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.asarray(np.sin(seed + np.arange(1.0, 1 + math.prod(shape)) ** 1.3).reshape(shape))


def centred(*shape: int, rows: int, seed: int) -> Array:
    x = numbers(rows, *shape, seed=seed)
    for axis in range(1, x.ndim):
        x = x - x.mean(axis=axis, keepdims=True)
    return x.reshape(rows, -1)


def example(*shape: int) -> MixtureStrategy:
    """A centred product of full rank (its parts out of order), a product of low rank and a dense low-rank term."""
    d = len(shape)
    parts = [MatrixPart((i,), (n,), centred(n, rows=n + 1, seed=i)) for i, n in enumerate(shape)]
    low = [MatrixPart((i,), (n,), centred(n, rows=1, seed=7 + i)) for i, n in enumerate(shape)]
    dense = MatrixPart(tuple(range(d))[::-1], shape[::-1], centred(*shape[::-1], rows=2, seed=11))
    return MixtureStrategy(
        [KroneckerStrategy(shape, parts[::-1]), KroneckerStrategy(shape, low), KroneckerStrategy(shape, [dense])]
    )


def circulant(*shape: int) -> MixtureStrategy:
    """A convolution that measures every centred frequency, and a dense low-rank term."""
    power = 1 + np.abs(numbers(*shape, seed=5))
    for axis in range(power.ndim):
        np.moveaxis(power, axis, 0)[0] = 0.0
    mirrored = np.roll(np.flip(power), [1] * power.ndim, axis=tuple(range(power.ndim)))
    base = FourierStrategy(np.ascontiguousarray(np.fft.ifftn(power + mirrored).real))
    return MixtureStrategy([base, KroneckerStrategy.dense(shape, centred(*shape, rows=2, seed=3))])


STRATEGIES = {
    "one axis": example(5),
    "two axes": example(4, 3),
    "three axes": example(3, 2, 4),
    "circulant, one axis": circulant(5),
    "circulant, two axes": circulant(4, 3),
}
each = pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=list(STRATEGIES))


def written_out(strategy: MixtureStrategy) -> Array:
    """B by definition, columns in C order of the canonical axes: never by `apply`."""
    return np.concatenate([term_written_out(t) for t in strategy.terms])


def term_written_out(t: Plain) -> Array:
    if isinstance(t, FourierStrategy):
        cells = list(np.ndindex(t.shape))
        places = [[tuple((i - j) % m for i, j, m in zip(a, b, t.shape, strict=True)) for b in cells] for a in cells]
        return np.array([[t.kernel[d] for d in row] for row in places])
    tensor = np.ones((1, 1))
    for p in t.parts:
        tensor = np.asarray(np.kron(tensor, p.written_out()), dtype=np.float64)
    order = [a for p in t.parts for a in p.axes]
    tensor = tensor.reshape((len(tensor), *(t.shape[a] for a in order)))
    back = (0, *(1 + order.index(a) for a in range(len(t.shape))))
    return np.asarray(tensor.transpose(back).reshape(len(tensor), -1))


@each
def test_products_and_pseudo_inverses(strategy: MixtureStrategy) -> None:
    b, n = written_out(strategy), math.prod(strategy.shape)
    inverse = np.linalg.pinv(b, rcond=1e-10)
    assert strategy.rows == len(b)
    assert strategy.rank == np.linalg.matrix_rank(b, tol=1e-9) == math.prod(m - 1 for m in strategy.shape)
    for batch in ((), (3,), (2, 2)):
        x, y = numbers(*strategy.shape, *batch, seed=3), numbers(len(b), *batch, seed=4)
        flat = x.reshape(n, *batch)
        for found, expected in (
            (strategy.apply(x), np.tensordot(b, flat, 1)),
            (strategy.represent(x), np.tensordot(inverse.T, flat, 1)),
            (strategy.adjoint(y), np.tensordot(b.T, y, 1).reshape(x.shape)),
            (strategy.solve(y), np.tensordot(inverse, y, 1).reshape(x.shape)),
        ):
            np.testing.assert_allclose(found, expected, atol=1e-8 * max(1.0, float(np.abs(expected).max())))


@each
def test_factors_in_every_order_of_the_axes(strategy: MixtureStrategy) -> None:
    b, shape = written_out(strategy), strategy.shape
    for order in itertools.permutations(range(len(shape))):
        (found,) = strategy.factors(order)
        expected = b.reshape((len(b), *shape)).transpose((0, *(1 + a for a in order))).reshape(len(b), -1)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.T @ found, expected.T @ expected, atol=1e-9)


@each
def test_sensitivity_is_an_exact_upper_bound_and_tight(strategy: MixtureStrategy) -> None:
    """From the exact doubles of the parts: the largest *sum* of column norms, not the sum of the largest."""
    totals = []
    for cell in np.ndindex(strategy.shape):
        total = Fraction(0)
        for t in strategy.terms:
            if isinstance(t, FourierStrategy):
                total += sum(Fraction(float(v)) ** 2 for v in t.kernel.ravel())
                continue
            norms = []
            for p in t.parts:
                column = np.ravel_multi_index([cell[a] for a in p.axes], p.shape)
                norms.append(sum(Fraction(float(v)) ** 2 for v in p.written_out()[:, column]))
            total += math.prod(norms, start=Fraction(1))
        totals.append(total)
    exactly, bound = max(totals), strategy.sensitivity_squared
    assert exactly <= bound <= exactly * (1 + Fraction(1, 10**12))
    assert isinstance(strategy.base, FourierStrategy) or bound < sum(t.sensitivity_squared for t in strategy.terms)


@each
def test_exact_entries_and_the_bound_on_rounding(strategy: MixtureStrategy) -> None:
    b = written_out(strategy)
    x = np.floor(np.abs(numbers(*strategy.shape, seed=1)) * 10**9).astype(np.int64)
    floats = strategy.apply(x.astype(np.float64))
    bound = strategy.rounding_error(x.astype(np.float64))
    assert 0 < bound < 1e-11 * int(x.sum())
    bounds = strategy.rounding_errors(x.astype(np.float64))
    for row, found in enumerate(strategy.exact_entries(x)(np.arange(strategy.rows))):
        assert abs(found - Fraction(float(floats[row]))) <= Fraction(float(bounds[row])) <= Fraction(bound * 1.001)
        assert float(found) == pytest.approx(float(b[row] @ x.ravel()), abs=1e-5)


A, B, C = attributes(3, 2, 4)
COVERS: list[tuple[str, list[Factor]]] = [
    ("one axis", [Prefix(*attributes(5))]),
    ("two axes", [Prefix(attributes(4, 3)[0]), Range(attributes(4, 3)[1])]),
    ("two axes", [Affine(attributes(4, 3)[::-1], [1, -1])]),
    ("three axes", [Affine([C, A], [1, 2]), Range(B)]),
    ("three axes", [Prefix(C), Range(B), Prefix(A)]),
    ("three axes", [Matrix([A, B, C], numbers(3, 24))]),
    ("circulant, one axis", [Prefix(*attributes(5))]),
    ("circulant, two axes", [Prefix(attributes(4, 3)[0]), Range(attributes(4, 3)[1])]),
    ("circulant, two axes", [Affine(attributes(4, 3), [1, 1])]),
]


@pytest.mark.parametrize(("name", "factors"), COVERS)
def test_variances_and_traces(name: str, factors: list[Factor]) -> None:
    """q' V^+ q for every query of a product, with tr(G V^+) for the same product's Gram."""
    strategy = STRATEGIES[name]
    b, d = written_out(strategy), len(strategy.shape)
    covariance = np.linalg.pinv(b.T @ b, rcond=1e-12, hermitian=True)
    blocks, groups, starts, tensor = [], [], [], np.ones(())
    where: dict[int, int] = {}
    for f in factors:
        axes = ["abc".index(n) for n in f.names]
        projection = Projection(f, (True,) * len(axes), tuple(np.full(n, 1 / n) for n in f.shape))
        blocks.append(Block(projection, axes))
        groups.append(group(f))
        starts.append(tensor.ndim)
        where |= {a: tensor.ndim + 1 + i for i, a in enumerate(axes)}
        tensor = np.multiply.outer(tensor, projection.matrix)
    counts = [f.count for f in factors]
    rows = tensor.transpose((*starts, *(where[a] for a in range(d)))).reshape(math.prod(counts), -1)
    expected = np.einsum("qi,ij,qj->q", rows, covariance, rows).reshape(counts)
    found = np.ones(counts)
    for part in strategy.variances(blocks):
        found = found * part
    np.testing.assert_allclose(found, expected, atol=1e-8 * max(1.0, float(expected.max())))
    assert strategy.trace(groups) == pytest.approx(float(expected.sum()), rel=1e-7)


@each
def test_a_stored_mixture_is_the_same(strategy: MixtureStrategy) -> None:
    store = ArrayStore()
    data = strategy_data(strategy, store)
    found = read_strategy(Field(data), ArrayStore(store.arrays))
    assert isinstance(found, MixtureStrategy)
    assert (written_out(found) == written_out(strategy)).all()
    assert found.sensitivity_squared == strategy.sensitivity_squared


def test_stored_mixtures_that_contradict_themselves_are_refused() -> None:
    store = ArrayStore()
    data = strategy_data(example(4, 3), store)
    other = strategy_data(example(4, 2), store)
    with pytest.raises(StorageError, match="a list of 2 or more"):
        read_strategy(Field({"kind": "mixture", "terms": data["terms"][:1]}), store)
    with pytest.raises(StorageError, match="free of contradictions"):
        read_strategy(Field({"kind": "mixture", "terms": [data["terms"][0], other["terms"][0]]}), store)
    twice = {**data["terms"][0], "parts": data["terms"][0]["parts"] * 2}
    with pytest.raises(ValueError, match="every axis once"):
        read_strategy(Field({"kind": "mixture", "terms": [twice, twice]}), store)
    wide = {**data["terms"][0], "shape": [4, 4]}
    with pytest.raises(ValueError, match="a column per cell"):
        read_strategy(Field({"kind": "mixture", "terms": [wide, wide]}), store)


def test_rows_outside_the_first_terms_span_are_refused() -> None:
    base = KroneckerStrategy.dense((4,), centred(4, rows=5, seed=1))
    stack = MixtureStrategy([base, KroneckerStrategy.dense((4,), np.ones((1, 4)))])
    with pytest.raises(IntegrityError, match="must span the rows"):
        stack.solve(np.ones(6))


def test_the_low_rank_part_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(what: str, entries: int, remedy: str) -> None:
        raise SizeError(f"{what}: {entries}")

    monkeypatch.setattr("qcompile.strategy.mixture.require_memory", refuse)
    with pytest.raises(SizeError, match=f"low-rank part of a mixture: {4 * 3 * 12}"):
        example(4, 3).solve(np.ones(example(4, 3).rows))
    with pytest.raises(SizeError, match="matrix of a node"):
        example(4, 3).factors((0, 1))


def pair(*shape: int) -> Problem:
    """Prefix x prefix + affine + abs on one pair."""
    a, b = attributes(*shape)
    forms = [Affine([a, b], [1, 1])], [Abs([a, b], [1, -1])]
    return problem(shape, (1.0, [Prefix(a), Prefix(b)]), (2.0, forms[0]), (0.5, forms[1]))


def mixed(p: Problem, gap: float = 1e-4) -> Solution:
    return Auto(gap).mixture.solve(p)


@pytest.mark.parametrize("shape", [(5, 4), (8, 8), (12, 12)])
def test_a_mixture_is_near_the_optimum(shape: tuple[int, int]) -> None:
    p = pair(*shape)
    found, optimum = mixed(p), Optimal(1e-6).solve(p)
    assert optimum.bound <= found.loss <= 1.06 * optimum.loss
    assert found.loss == pytest.approx(loss_written_out(p, found.strategy.factors((0, 1))), rel=1e-6)
    assert float(found.strategy.sensitivity_squared) == pytest.approx(1, abs=1e-9)


def model(p: Problem) -> mixture._Model:
    return mixture._Model.of(p, MixtureStrategy(Auto(1e-4).mixture.kernels(p)))


def test_the_gradient_is_that_of_the_loss() -> None:
    m, alpha = model(pair(5, 4)), np.array([0.5, 0.2, 0.4])
    _, gradient = m.loss(alpha)
    step = 1e-6
    for k in range(3):
        e = step * np.eye(3)[k]
        assert gradient[k] == pytest.approx((m.loss(alpha + e)[0] - m.loss(alpha - e)[0]) / (2 * step), rel=1e-6)


def test_no_other_weights_are_better() -> None:
    m = model(pair(6, 5))

    def normalised(alpha: Array) -> float:
        return m.loss(alpha)[0] * float((alpha @ m.norms).max())

    best = normalised(m.optimise())
    assert float((m.optimise() @ m.norms).max()) == pytest.approx(1, abs=1e-12)
    rng = np.random.default_rng(1)
    for alpha in (*rng.dirichlet(np.ones(3), 200), *(m.optimise() * rng.uniform(0.9, 1.1, (50, 3)))):
        assert normalised(np.maximum(alpha, 1e-4)) >= best * (1 - 1e-7)


def test_one_term_of_several_full_products_is_no_mixture() -> None:
    a, b = attributes(5, 4)
    both = problem((5, 4), (1.0, [Prefix(a), Prefix(b)]), (1.0, [Range(a), Range(b)]))
    assert "no term is of rank" in (Auto().mixture.why_not(both) or "")
    assert "single term" in (Auto().mixture.why_not(problem((5,), (1.0, [Prefix(a)]))) or "")


def test_terms_that_no_other_spans_are_no_mixture() -> None:
    a, b = attributes(5, 4)
    p = problem((5, 4), (1.0, [Affine([a, b], [1, 1])]), (1.0, [Abs([a, b], [1, -1])]))
    with pytest.raises(RouteFailed, match="no term spans the queries of all others"):
        Auto(1e-4).mixture.solve(p)


@pytest.mark.parametrize("n", [2, 3, 10, 41])
def test_a_prefix_is_a_circulant_and_one_query(n: int) -> None:
    p = problem((n,), (1.0, [Prefix(*attributes(n))]))
    ramp = (n - 1) / (2 * n) - np.arange(n) / n
    rest = p.terms[0].groups[0].gram.matrix - n * np.outer(ramp, ramp)
    np.testing.assert_allclose(np.roll(rest, (1, 1), (0, 1)), rest, atol=1e-12 * n)
    found, optimum = Sawtooth().solve(p), Optimal(1e-6).solve(p)
    assert optimum.bound <= found.loss <= 1.25 * optimum.loss
    assert found.loss == pytest.approx(loss_written_out(p, found.strategy.factors((0,))), rel=1e-6)
    assert Sawtooth().why_not(problem((n,), (1.0, [Range(*attributes(n))]))) == "no centred prefix alone"


@pytest.mark.parametrize("n", [2, 10])
def test_prefixes_beside_an_other_cell_are_the_same_sawtooths(n: int) -> None:
    """With that cell as the last of the order they would have one query more, the total, which centring makes 0."""
    p = problem((n + 1,), (1.0, [Prefix(with_other(integer("a", n)))]))
    whole = problem((n + 1,), (1.0, [Prefix(*attributes(n + 1))]))
    gram = p.terms[0].groups[0].gram.matrix
    np.testing.assert_allclose(gram, whole.terms[0].groups[0].gram.matrix, atol=1e-12 * n**2)
    found, expected = Sawtooth().solve(p), Sawtooth().solve(whole)
    assert found.loss == pytest.approx(expected.loss, rel=1e-9)
    assert found.loss == pytest.approx(loss_written_out(p, found.strategy.factors((0,))), rel=1e-6)
    with_ranges = problem((n + 1,), (1.0, [Range(with_other(integer("a", n)))]))
    assert Sawtooth().why_not(with_ranges) == "no centred prefix alone"


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan whose pair is past the dense limit and takes a mixture, beside a third attribute."""
    monkeypatch.setattr(optimal, "DENSE_CELLS", 20)
    monkeypatch.setattr(optimal, "SHORT_ENTRIES", 400)
    a, b, c = integers(6, 5, 2)
    found = compile(
        workload(
            [a, b, c],
            family(Prefix(a), Prefix(b), name="p"),
            family(Affine([a, b], [1, 1]), name="f"),
            family(Prefix(c)),
        )
    )
    (taken,) = [c for c in found.classes if c.attributes == ("a", "b")]
    assert taken.solver == "mixture of 2 strategies"
    assert {"residual basis", "Fourier basis", "optimal"} <= dict(taken.refused).keys()
    assert 0 < taken.gap < 0.2
    return found


def test_a_plan_with_a_mixture_predicts_what_brute_force_finds(plan: Plan) -> None:
    schema = plan.workload.schema
    rows = mechanism(schema, plan.measurements(UNIT))
    assert (rows**2).sum(axis=0).max() == pytest.approx(1, rel=1e-6)
    for f in plan.workload.families:
        (product,) = f.products()
        variances = least_squares_variances(product_matrix(schema, product), rows)
        errors = plan.family_errors(f)
        assert errors.total == pytest.approx(float(variances.sum()), rel=1e-4)
        assert errors.largest == pytest.approx(float(variances.max()), rel=1e-4)


def test_a_plan_with_a_mixture_runs_and_comes_back_from_its_file(plan: Plan, tmp_path: Path) -> None:
    plan.save(tmp_path / "plan")
    back = load_plan(tmp_path / "plan")
    schema = plan.workload.schema
    x = some_counts(schema)
    truth = {f.name: product_matrix(schema, next(f.products())) @ x.ravel() for f in plan.workload.families}
    release = back.run({("a", "b", "c"): x}, Budget(rho=1), noise="none")
    for name, expected in truth.items():
        np.testing.assert_allclose(np.asarray(release.answers(name)["estimate"]), expected, rtol=1e-7, atol=1e-4)
    noisy = back.run({("a", "b", "c"): x}, Budget(rho=1), test_seed=5)
    errors = np.asarray(noisy.answers("p")["estimate"]) - truth["p"]
    deviations = np.asarray(noisy.answers("p")["std_error"])
    assert np.abs(errors / deviations).max() < 6
    assert back.explain() == plan.explain()
