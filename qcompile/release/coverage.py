"""How far the families of a workload were measured."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from qcompile.queries.workload import Product
from qcompile.release.answers.measurements import Measurements
from qcompile.strategy.variances import node_parts

if TYPE_CHECKING:
    import pyarrow as pa


def coverage_table(measurements: Measurements) -> pa.Table:
    """One row per family: family, queries, unbiased (the number of queries with an unbiased estimate)."""
    import pyarrow as pa

    families = measurements.plan.workload.families
    unbiased = [sum(_count_estimable(measurements, p) for p in f.products()) for f in families]
    return pa.table(
        {"family": [f.name for f in families], "queries": [f.count for f in families], "unbiased": unbiased}
    )


def _count_estimable(measurements: Measurements, product: Product) -> int:
    """The number of a product's queries with an unbiased estimate: all, where all nodes below it were measured."""
    source = next(s for s in measurements.sources if s.lattice.only is None)
    if all(math.isfinite(measurements.variances[part.node]) for part in node_parts(source.lattice, product)):
        return product.count
    return int(np.isfinite(source.variances(product)).sum())
