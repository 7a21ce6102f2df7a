"""The answer to one query that is written as text."""

from __future__ import annotations

import math
from dataclasses import replace

from qcompile import grammar
from qcompile.errors import WorkloadError
from qcompile.lattice.apply_product import apply_product
from qcompile.queries.workload import Product
from qcompile.release.answers.measurements import Measurements
from qcompile.release.answers.results import Answer
from qcompile.release.answers.single_query import coefficients
from qcompile.release.answers.variant import Variant, choose_variant, interval_method


def answer_query(measurements: Measurements, query: str, estimate: str | None, processing: str | None) -> Answer:
    """The answer to a single query; arguments and errors as of `qcompile.release.release.Release.ask`."""
    variant = choose_variant(measurements, estimate, processing, cell_by_cell=False)
    product, findings = grammar.check_query(query, measurements.plan.workload.schema)
    if product is None:
        raise WorkloadError(findings)
    answer = _answer(measurements, product, variant)
    return replace(answer, notes=tuple(f"{f.message}; {f.hint}" if f.hint else f.message for f in findings))


def _answer(measurements: Measurements, product: Product, variant: Variant) -> Answer:
    if variant.is_best:
        return _best_answer(measurements, product, variant)
    answers = [answer for _, answer in measurements.try_sources(lambda source: source.ask(product))]
    value, variance = min(answers, key=lambda a: a[1])
    return Answer(value, math.sqrt(variance), interval_method(measurements, "pointwise"))


def _best_answer(measurements: Measurements, product: Product, variant: Variant) -> Answer:
    closure, node = measurements.plan.closure, measurements.node_of(product)
    for _ in coefficients(closure, measurements.strategies, product):  # refuses queries outside the span
        pass
    answer = apply_product(closure, product, measurements.best.table(node, variant.processing))
    return Answer(float(answer.item()), math.nan, str(variant))
