"""Brute force: query matrices written from their definitions, and mechanisms expanded to the full domain.

Nothing here uses the structure of the compiler: rows are queries, columns the cells of a domain in C order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from qcompile.plan.plan import Measurement
from qcompile.privacy.budget import Budget
from qcompile.privacy.unit import PrivacyUnit
from qcompile.queries.factors import Abs, Affine, Circular, Factor, Marginal, Prefix, Range
from qcompile.queries.factors.threshold import Threshold
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, Policy, Schema
from qcompile.queries.workload import Family, Product, Workload
from qcompile.support.arrays import Array, IntArray

UNIT = Budget(cost=1)


def integer(name: str, size: int, low: int = 0) -> Attribute:
    return Attribute(name, IntegerDomain(low, low + size - 1))


def with_other(attribute: Attribute, *, cyclic: bool = False) -> Attribute:
    """The attribute with one more cell, for everything else."""
    return replace(attribute, policy=Policy("other", "unknown"), cyclic=cyclic)


def category(name: str, size: int) -> Attribute:
    return Attribute(name, CategoryDomain(tuple(f"{name}{i}" for i in range(size))))


def integers(*sizes: int) -> list[Attribute]:
    """Attributes a, b, c, ... with values from 0."""
    return [integer(chr(ord("a") + i), n) for i, n in enumerate(sizes)]


def family(*factors: Factor, name: str = "", weight: float = 1.0, choose: tuple[int, int] | None = None) -> Family:
    """A family named after its factors."""
    text = name or " * ".join(f"{f.kind}({', '.join(f.names)})" for f in factors) or "total"
    return Family(text, text, factors, weight, choose)


def workload(attributes: Iterable[Attribute], *families: Family) -> Workload:
    return Workload(Schema(tuple(attributes)), families)


def query_matrix(factor: Factor) -> Array:
    """One row per query, from the definition of the factor's kind; explicit kinds give their own matrix."""
    codes = list(np.ndindex(factor.shape))
    if isinstance(factor, Threshold):
        return _threshold_matrix(factor)
    if not isinstance(factor, Marginal | Prefix | Range | Circular):
        return factor.contract([None] * len(factor.shape)).reshape(factor.count, -1)
    # The other cell is in no order: its column stays 0.
    n = factor.shape[0] if isinstance(factor, Marginal) else factor.attributes[0].domain.size
    sets: dict[type[Factor], list[set[int]]] = {
        Marginal: [{i} for i in range(n)],
        Prefix: [set(range(c + 1)) for c in range(n)],
        Range: [set(range(lo, hi + 1)) for lo in range(n) for hi in range(lo, n)],
        Circular: [{(s + k) % n for k in range(length)} for s in range(n) for length in range(1, n + 1)],
    }
    return np.array([[float(code[0] in s) for code in codes] for s in sets[type(factor)]])


def _threshold_matrix(factor: Threshold) -> Array:
    values = []
    for code in np.ndindex(factor.shape):
        form = factor.constant
        for c, a, i in zip(factor.coefficients, factor.attributes, code, strict=True):
            assert isinstance(a.domain, IntegerDomain)
            form += c * (a.domain.low + i)
        values.append(abs(form) if isinstance(factor, Abs) else form)
    levels = sorted(set(values)) if factor.thresholds is None else factor.thresholds
    holds: Callable[[int, int], bool] = int.__ge__ if factor.at_least else int.__le__
    return np.array([[float(holds(v, c)) for v in values] for c in levels])


def product_matrix(schema: Schema, product: Product) -> Array:
    """The queries of a product on the full domain: ``(count, cells of the schema)``."""
    tensor = np.ones(())
    for f in product.factors:
        tensor = np.multiply.outer(tensor, query_matrix(f).reshape(-1, *f.shape))
    starts = np.cumsum([0] + [1 + len(f.shape) for f in product.factors])[:-1].tolist()
    where = {n: s + 1 + i for s, f in zip(starts, product.factors, strict=True) for i, n in enumerate(f.names)}
    names = schema.order(product.names)
    matrix = tensor.transpose(*starts, *(where[n] for n in names)).reshape(product.count, -1)
    return expand(schema, names, matrix)


def expand(schema: Schema, names: Sequence[str], matrix: Array) -> Array:
    """Rows on the marginal over ``names`` (schema order) as rows on the full domain."""
    shape = [a.size if a.name in names else 1 for a in schema]
    rows = matrix.reshape(-1, *shape)
    return np.broadcast_to(rows, (rows.shape[0], *(a.size for a in schema))).reshape(rows.shape[0], -1).copy()


def node_matrix(measurement: Measurement) -> Array:
    """B, from the exported factors alone."""
    result: Array = np.ones((1, 1))
    for f in measurement.factors:
        result = np.asarray(np.kron(result, f), dtype=np.float64)
    return result


def mechanism(schema: Schema, measurements: Iterable[Measurement]) -> Array:
    """All noisy measurements stacked on the full domain, each row divided by its noise scale."""
    none = np.zeros((0, math.prod(a.size for a in schema)))
    noisy = (m for m in measurements if m.scale > 0)
    return np.concatenate([none, *(expand(schema, m.attributes, node_matrix(m)) / m.scale for m in noisy)])


def known(schema: Schema, measurements: Iterable[Measurement]) -> Array:
    """What is measured without noise, on the full domain."""
    none = np.zeros((0, math.prod(a.size for a in schema)))
    return np.concatenate([none, *(expand(schema, m.attributes, node_matrix(m)) for m in measurements if m.scale == 0)])


def neighbour_distances(columns: Array, unit: PrivacyUnit) -> Array:
    """``|M (x - x')|^2`` over neighbouring tables, one row per table pair: all of them, written out.

    Args:
      columns: ``(rows, cells)``.
      unit: who may change what; up to two rows.
    """
    n, k = columns.shape[1], unit.contributions
    sizes = [k] if unit.public_total else range(k + 1)
    histograms = [c for size in sizes for c in itertools.combinations_with_replacement(range(n), size)]
    images = np.array([columns[:, list(h)].sum(axis=1) for h in histograms])
    if unit.neighbours == "add-remove":
        return np.asarray((images**2).sum(axis=1))
    return np.asarray(((images[:, None, :] - images[None, :, :]) ** 2).sum(axis=2))


def least_squares_variances(queries: Array, rows: Array, exact: Array | None = None) -> Array:
    """Variance of the best linear unbiased answer of each query from ``rows x`` plus unit noise, ``exact x`` known.

    Fails where a query is not in the row space, instead of returning a number for it.
    """
    if exact is not None and len(exact):
        unknown = np.eye(exact.shape[1]) - np.linalg.pinv(exact) @ exact
        queries, rows = queries @ unknown, rows @ unknown
    inverse = np.linalg.pinv(rows, rcond=1e-9)
    weights = queries @ inverse
    error = np.abs(weights @ rows - queries).max()
    if not error < 1e-7 * max(1.0, float(np.abs(queries).max())):
        raise ArithmeticError(f"a query is not in the span of the measurements: off by {error}")
    return np.asarray((weights**2).sum(axis=1))


def split(q: Array, u: Sequence[Array]) -> dict[tuple[int, ...], Array]:
    """A query's parts on every subset of its axes, by ``I = 1 u' + (I - 1 u')`` written out as matrices."""
    parts = {}
    for kept in itertools.product((False, True), repeat=q.ndim):
        x = q
        for axis in reversed(range(q.ndim)):
            n = q.shape[axis]
            operator = np.eye(n) - np.outer(u[axis], np.ones(n)) if kept[axis] else u[axis][:, None]
            x = np.moveaxis(np.tensordot(x, operator, axes=(axis, 0)), -1, axis)
        axes = tuple(i for i, k in enumerate(kept) if k)
        parts[axes] = x.reshape([q.shape[i] for i in axes])
    return parts


def some_weights(size: int, stream: int = 0) -> Array:
    """Positive centring weights that are not uniform (for size > 1) and sum to 1."""
    u = 1 + 0.8 * np.sin(1.0 + 2.3 * np.arange(size) + stream)
    return np.asarray(u / u.sum())


def some_counts(schema: Schema, rows: int = 10**6) -> IntArray:
    """A skewed table over the full domain with exactly ``rows`` rows, some of its cells empty."""
    shape = tuple(a.size for a in schema)
    n = math.prod(shape)
    weight = np.abs(np.sin(1.0 + 1.7 * np.arange(n))) ** 3 * (np.arange(n) % 5 != 3)
    counts = np.floor(rows * weight / weight.sum()).astype(np.int64)
    counts[0] += rows - counts.sum()
    return np.asarray(counts.reshape(shape))


KINDS: dict[str, Callable[[Attribute, Attribute], tuple[Factor, ...]]] = {
    "marginal": lambda a, b: (Marginal(a), Marginal(b)),
    "prefix": lambda a, b: (Prefix(a), Prefix(b)),
    "range": lambda a, b: (Range(a), Range(b)),
    "circular": lambda a, b: (Circular(a), Circular(b)),
    "affine": lambda a, b: (Affine([a, b], [1, 1]),),
    "abs": lambda a, b: (Abs([a, b], [1, -1]),),
}
"""Two-way products of each structured kind, by name."""
