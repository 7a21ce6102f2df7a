"""The joint distribution of everything that is released, from many releases of one table.

What is expected comes from the exported matrices and scales: measurements have independent Gaussian errors of variance
``sigma^2 + g^2 / 12``; answers, as the best linear estimates from them, have covariance ``Q M^+ M^+' Q'`` with M the
measurements' rows over their standard deviations and Q the queries. Each statistic is compared with its own standard
error; how many of these are allowed follows from the number of comparisons and `ALARM`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from qcompile.api import Plan, Release
from qcompile.plan.plan import Measurement
from qcompile.privacy.budget import Budget
from qcompile.support.arrays import Array, IntArray
from tests.audit.attack import normal_quantile, releases
from tests.audit.exported import on_domain
from tests.conformance.helpers import product_matrix

ALARM = 1e-7
"""Chance that one statistic of a correct release is found wrong anywhere."""

FAMILY = 4.0
"""Standard errors allowed to the mean squared error of one family."""


def allowed(comparisons: int) -> float:
    """Standard errors that one of many comparisons may be off."""
    return float(-normal_quantile(ALARM / (2 * comparisons)))


def exact_measurements(plan: Plan, charge: Fraction, table: IntArray) -> Array:
    """What is measured of a table, without noise, ``(numbers,)`` in counts."""
    return np.asarray(releases(plan, charge, table, 1, 0, "none")[0])


def declared_deviations(plan: Plan, charge: Fraction) -> Array:
    """Standard deviation of each measurement as exported, ``(numbers,)``; 0 where it is public."""
    measured = plan.measurements(Budget(rho=charge))
    return np.concatenate([np.full(m.strategy.rows, _deviation(m)) for m in measured])


def _deviation(m: Measurement) -> float:
    return float(np.sqrt(m.scale**2 + m.grid**2 / 12)) if m.scale else 0.0


def check_measurements(
    plan: Plan, charge: Fraction, table: IntArray, repetitions: int, seed: int, note: object = ""
) -> None:
    """Every measurement has Gaussian noise of the declared variance, independent of every other's, on the grid.

    Args:
      plan: what is released.
      charge: rho.
      table: counts ``(cells,)``.
      repetitions: number of releases.
      seed: of the noise.
      note: goes into the message of a failure.
    """
    released = releases(plan, charge, table, repetitions, seed)
    center, deviation = exact_measurements(plan, charge, table), declared_deviations(plan, charge)
    assert released.shape[1] == len(center), f"{released.shape[1]} numbers for {len(center)} measurements: {note}"
    noisy = deviation > 0
    errors = (released - center)[:, noisy] / deviation[noisy]
    check_own_noise(errors, note)
    check_covariance(errors, np.eye(int(noisy.sum())), note)
    check_gaussian(errors, note)
    check_on_grid(plan, charge, released, note)


def check_on_grid(plan: Plan, charge: Fraction, released: Array, note: object = "") -> None:
    """Measurements are multiples of the exported grid and use its last bit: nothing of a double leaks through."""
    measured = list(plan.measurements(Budget(rho=charge)))
    grid = np.concatenate([np.full(m.strategy.rows, m.grid) for m in measured])
    steps = released / grid
    assert (steps == np.rint(steps)).all(), f"a measurement is no multiple of its grid: {note}"
    noisy = declared_deviations(plan, charge) > 0
    assert ((steps[:, noisy] % 2).mean(axis=0) > 0.3).all(), f"the grid is coarser than exported: {note}"


def check_own_noise(errors: Array, note: object = "") -> None:
    """No number goes without noise in any release, and no two numbers have the same.

    Args:
      errors: over their standard deviations, ``(repetitions, numbers)``.
      note: goes into the message of a failure.
    """
    spread = errors.std(axis=0)
    assert (spread > 0.5).all(), f"{int((spread <= 0.5).sum())} numbers have hardly any noise: {note}"
    # On a grid of at least 256 steps a sigma an error is exactly 0 in one release of 600, at most.
    zeros = (errors == 0).mean(axis=0)
    assert (zeros < 0.01 + 5 * 0.05 / np.sqrt(len(errors))).all(), f"a number is often released without noise: {note}"
    distinct = len(np.unique(errors, axis=1).T)
    assert distinct == errors.shape[1], f"{errors.shape[1] - distinct} numbers have the noise of another one: {note}"


def check_covariance(errors: Array, expected: Array, note: object = "") -> None:
    """Means are 0 and covariances the expected ones, each to its own standard error.

    Args:
      errors: ``(repetitions, numbers)``.
      expected: their covariance.
      note: goes into the message of a failure.
    """
    n, k = errors.shape
    limit, variances = allowed(k * (k + 3) // 2), np.diag(expected)
    mean = np.abs(errors.mean(axis=0)) / np.sqrt(variances / n)
    assert mean.max() <= limit, f"a mean is {mean.max():.1f} standard errors from 0, allowed {limit:.1f}: {note}"
    found = errors.T @ errors / n
    off = np.abs(found - expected) / np.sqrt((np.multiply.outer(variances, variances) + expected**2) / n)
    i, j = np.unravel_index(int(off.argmax()), off.shape)
    text = f"covariance of {i} and {j} is {found[i, j]:.4g}, predicted {expected[i, j]:.4g}, {off.max():.1f} standard"
    assert off.max() <= limit, f"{text} errors off, allowed {limit:.1f}: {note}"


def check_gaussian(errors: Array, note: object = "") -> None:
    """All errors together follow the normal law (Kolmogorov, Smirnov), and so do their tails.

    Args:
      errors: over their standard deviations, ``(repetitions, numbers)``, independent.
      note: goes into the message of a failure.
    """
    from scipy.special import ndtr

    x = np.sort(errors.ravel())
    n = len(x)
    distance = np.abs(ndtr(x) - (np.arange(n) + 0.5) / n).max()
    # Massart's bound; rounding to at least 256 steps a sigma moves the law by half a step's chance.
    limit = np.sqrt(np.log(2 / ALARM) / (2 * n)) + 0.4 / 512 + 0.5 / n
    assert distance <= limit, f"the noise is {distance:.4f} from Gaussian, allowed {limit:.4f}: {note}"
    # The fourth moment has the variance 96 / n.
    fourth = abs(float((x**4).mean()) - 3) / np.sqrt(96 / n)
    assert fourth <= allowed(1), f"the fourth moment of the noise is {fourth:.1f} standard errors from 3: {note}"


def linear_map(release: Release, estimate: str, attributes: Sequence[str] = ()) -> Array:
    """How a release turns measurements into answers: answers of unit vectors, ``(queries, numbers)``.

    Args:
      release: any release of the plan.
      estimate: the family whose answers are wanted; "" for the marginal on ``attributes``.
      attributes: of the marginal.
    """
    sizes = [len(v) for v in release.values]
    columns = []
    for unit in np.eye(sum(sizes)):
        values = tuple(np.split(unit, np.cumsum(sizes)[:-1]))
        columns.append(answers(replace(release, values=values), estimate, attributes))
    return np.stack(columns, axis=1)


def answers(release: Release, family: str, attributes: Sequence[str] = ()) -> Array:
    """The public answers: of a family, or the cells of a marginal."""
    if family:
        return np.asarray(release.answers(family)["estimate"].to_numpy())
    return release.marginal(tuple(attributes)).array.ravel()


def predicted_covariance(plan: Plan, charge: Fraction, queries: Array, only: int | None = None) -> Array:
    """Covariance of the best linear answers from the exported measurements, ``(queries, queries)``.

    Args:
      plan: what is measured.
      charge: rho.
      queries: rows on the whole domain.
      only: position of the block that answers; all nodes outside blocks where None.
    """
    positions = [i for i, c in enumerate(plan.closure.class_of.tolist()) if c >= 0]
    wanted = range(plan.closure.first_block) if only is None else [only]
    measured = zip(positions, plan.measurements(Budget(rho=charge)), strict=True)
    schema, used = plan.workload.schema, [m for i, m in measured if i in wanted]
    public = [on_domain(schema, m) for m in used if not m.scale]
    if public:
        known = np.concatenate(public)
        queries = queries - queries @ np.linalg.pinv(known) @ known
    rows = np.concatenate([on_domain(schema, m) / _deviation(m) for m in used if m.scale])
    weights = queries @ np.linalg.pinv(rows, rcond=1e-9)
    assert np.allclose(weights @ rows, queries, atol=1e-7 * np.abs(queries).max()), (
        "not in the span of what is measured"
    )
    return np.asarray(weights @ weights.T)


def check_answers(
    plan: Plan, charge: Fraction, table: IntArray, repetitions: int, seed: int, note: object = ""
) -> None:
    """The answers of every family have the predicted covariance, and the standard errors that the release states.

    Args:
      plan: what is released.
      charge: rho.
      table: counts ``(cells,)``.
      repetitions: number of releases.
      seed: of the noise.
      note: goes into the message of a failure.
    """
    schema = plan.workload.schema
    release = plan.run({schema.names: table.reshape(schema.shape(schema.names))}, Budget(rho=charge), test_seed=seed)
    errors = releases(plan, charge, table, repetitions, seed) - exact_measurements(plan, charge, table)
    for f in plan.workload.families:
        queries = np.concatenate([product_matrix(schema, p) for p in f.products()])
        expected = predicted_covariance(plan, charge, queries, plan.closure.source(f.name).only)
        stated = release.answers(f.name)
        error = (stated["upper"].to_numpy() - stated["lower"].to_numpy()) / (2 * 1.959963984540054)
        _check_estimates(errors @ linear_map(release, f.name).T, expected, error, f"{f.name}: {note}")


def check_cells(
    plan: Plan,
    charge: Fraction,
    table: IntArray,
    repetitions: int,
    seed: int,
    attributes: Sequence[str],
    note: object = "",
) -> None:
    """The cells of a marginal, empty ones too, have the predicted covariance; arguments as in `check_answers`."""
    schema = plan.workload.schema
    release = plan.run({schema.names: table.reshape(schema.shape(schema.names))}, Budget(rho=charge), test_seed=seed)
    errors = releases(plan, charge, table, repetitions, seed) - exact_measurements(plan, charge, table)
    shape = [a.size if a.name in attributes else 1 for a in schema]
    cells = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    queries = np.broadcast_to(cells, (len(cells), *(a.size for a in schema))).reshape(len(cells), -1)
    ordered = schema.order(attributes)
    stated = release.marginal(ordered).std_error.ravel()
    estimates = errors @ linear_map(release, "", ordered).T
    _check_estimates(estimates, predicted_covariance(plan, charge, queries), stated, f"{attributes}: {note}")
    check_own_noise(estimates / stated, note)


def _check_estimates(errors: Array, expected: Array, stated: Array, note: object) -> None:
    """Covariances one by one; the family as a whole more sharply; and the stated standard errors."""
    variances = np.diag(expected)
    np.testing.assert_allclose(stated**2, variances, rtol=1e-6, atol=1e-12 * variances.max(), err_msg=str(note))
    noisy = variances > 1e-12 * variances.max()
    check_covariance(errors[:, noisy], expected[np.ix_(noisy, noisy)], note)
    each = (errors[:, noisy] ** 2 / variances[noisy]).mean(axis=1)
    off = abs(each.mean() - 1) / (each.std(ddof=1) / np.sqrt(len(each)))
    assert off <= FAMILY, f"the mean squared error is {off:.1f} standard errors from its prediction: {note}"
