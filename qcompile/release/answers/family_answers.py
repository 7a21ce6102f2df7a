"""The answers of a family as a table, one product at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from qcompile.errors import OptionError
from qcompile.lattice.apply_product import apply_product
from qcompile.release.answers import intervals
from qcompile.release.answers.intervals import Width
from qcompile.release.answers.measurements import Measurements
from qcompile.release.answers.selection import SelectedAnswers, require_product
from qcompile.release.answers.tables import Answers, Layout
from qcompile.release.answers.variance_cache import VarianceCache
from qcompile.release.answers.variant import Variant, choose_variant, interval_method

if TYPE_CHECKING:
    import pyarrow as pa


def read_family(
    measurements: Measurements,
    selection: SelectedAnswers,
    alpha: float,
    simultaneous: bool,
    estimate: str | None,
    processing: str | None,
) -> pa.RecordBatchReader:
    """The selected answers in batches; arguments and errors as of `qcompile.release.release.Release.answers`."""
    cell_by_cell = all(f.kind == "marginal" for f in selection.family.factors)
    variant = choose_variant(measurements, estimate, processing, cell_by_cell)
    if variant.is_best:
        return _read_best(measurements, selection, simultaneous, variant)
    width = simultaneous_width(measurements, selection, alpha) if simultaneous else intervals.pointwise(alpha)
    width = replace(width, method=interval_method(measurements, width.method))
    return Layout(selection, width, str(variant)).reader(_unbiased_rows(measurements, selection))


def _read_best(
    measurements: Measurements, selection: SelectedAnswers, simultaneous: bool, variant: Variant
) -> pa.RecordBatchReader:
    if simultaneous:
        raise OptionError("no intervals hold for best estimates, which are biased; ask for estimate='unbiased'")
    if measurements.source_of(selection.family).lattice.only is not None:
        raise OptionError(f"family {selection.family.name!r} was measured as a block; ask for estimate='unbiased'")
    _ = measurements.best  # refuses now what does not fit in memory, not when the first batch is read
    return Layout(selection, None, str(variant)).reader(_best_rows(measurements, selection, variant.processing))


def _unbiased_rows(measurements: Measurements, selection: SelectedAnswers) -> Iterator[Answers]:
    source = measurements.source_of(selection.family)
    cache = VarianceCache(source)
    for product in selection.products():
        require_product(product)
        yield product, source.answers(product), cache.variances(product)


def _best_rows(measurements: Measurements, selection: SelectedAnswers, processing: str) -> Iterator[Answers]:
    for product in selection.products():
        require_product(product)
        table = measurements.best.table(measurements.node_of(product), processing)
        yield product, apply_product(measurements.plan.closure, product, table), None


def simultaneous_width(measurements: Measurements, selection: SelectedAnswers, alpha: float) -> Width:
    """The half-width of joint intervals: simulated where that takes seconds, Bonferroni's bound beyond."""
    products = list(selection.products()) if selection.count <= intervals.SIMULATED_QUERIES else []
    source = measurements.source_of(selection.family)
    nodes = {i for p in products for i in source.nodes_of(p)}
    class_of = measurements.plan.closure.class_of
    numbers = sum(measurements.strategies[int(class_of[i])].rows for i in nodes) * intervals.SIMULATIONS
    if not products or numbers > intervals.SIMULATED_NUMBERS:
        width = intervals.bonferroni(alpha, selection.count)
    else:
        pairs = [(p, source.variances(p)) for p in products]
        width = intervals.simulated(alpha, lambda first, count: source.largest_z(pairs, first, count))
    return width if selection.whole else replace(width, method=f"{width.method}, over the selected answers")
