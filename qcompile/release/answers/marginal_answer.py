"""Marginals out of a release: contingency tables on any attributes that the measurements span."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qcompile.errors import OptionError, did_you_mean
from qcompile.lattice.apply_product import apply_product
from qcompile.queries.schema import Schema
from qcompile.queries.workload import Product
from qcompile.release.answers.answer_source import AnswerSource, marginal_product
from qcompile.release.answers.measurements import Measurements
from qcompile.release.answers.results import Marginal
from qcompile.release.answers.variant import choose_variant
from qcompile.support.arrays import Array


def estimate_marginal(
    measurements: Measurements, attributes: Sequence[str], estimate: str | None, processing: str | None
) -> Marginal:
    """A contingency table; arguments and errors as of `qcompile.release.release.Release.marginal`."""
    variant = choose_variant(measurements, estimate, processing, cell_by_cell=True)
    names = _require_names(measurements.plan.workload.schema, attributes)
    product = marginal_product(measurements.plan.closure, names)
    if variant.is_best:
        table = _best_table(measurements, product, variant.processing)
        errors = np.full(table.shape, np.nan)
    else:
        table, errors = _unbiased_table(measurements, product)
    labels = tuple(tuple(f.labels()) for f in product.factors)
    return Marginal(names, table, errors, variant.estimate, variant.processing, labels)


def _unbiased_table(measurements: Measurements, product: Product) -> tuple[Array, Array]:
    """Estimates and standard errors, both of shape ``product.shape``, from the source of the least total variance."""

    def variances(source: AnswerSource) -> Array:
        source.require_all_cells(product)
        return source.variances(product)

    spanning = [(float(v.sum()), i, v) for i, v in measurements.try_sources(variances)]
    _, least, variance = min(spanning, key=lambda s: s[:2])
    return measurements.sources[least].answers(product), np.asarray(np.sqrt(variance))


def _best_table(measurements: Measurements, product: Product, processing: str) -> Array:
    node = measurements.node_of(product)
    measurements.sources[0].require_all_cells(product, measured=False)
    return apply_product(measurements.plan.closure, product, measurements.best.table(node, processing))


def _require_names(schema: Schema, attributes: Sequence[str]) -> tuple[str, ...]:
    """The attributes of a marginal; refuses unknown and repeated ones."""
    names = (attributes,) if isinstance(attributes, str) else tuple(attributes)
    for i, name in enumerate(names):
        if name not in schema:
            raise OptionError(f"unknown attribute {name!r}; {did_you_mean(name, schema.names)}")
        if name in names[:i]:
            raise OptionError(f"attribute {name!r} is named twice")
    return names
