"""Centring weights from the optimum of one axis, in closed form: where the search for the best ones starts.

Let V, of unit diagonal, be the optimum of an attribute's own queries, not split. With ``u = V^-1 1 / (1' V^-1 1)`` and
p the inverse of that sum, ``V = p 11' + R`` with R u = 0: the total and the centred node measure exactly V. For
products of one-attribute factors these weights are the best of all; elsewhere they are a good start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qcompile.lattice.gram import Gram
from qcompile.lattice.projection import Projection, zero_weights
from qcompile.queries.factors import Factor
from qcompile.queries.workload import Workload
from qcompile.solvers.exact.envelope import envelope
from qcompile.support.arrays import Array

LARGEST_CELLS = 1024
"""Cells of an axis up to which its optimum is computed: a few seconds."""

GAP = 1e-7
"""Certified gap of that optimum where it is cheap."""

SMALLEST_SHARE = 1e-9
"""Eigenvalues of V below this share of the largest count as zero."""

LARGEST_SUM = 20.0
"""Sum of the absolute weights beyond which they are no start."""


def axis_weights(workload: Workload, name: str, apart: Sequence[str] = ()) -> Array | None:
    """The weights of an attribute from the optimum of its own queries; None where they are of no use.

    Args:
      workload: the families.
      name: of the attribute.
      apart: names of the families that do not matter here.
    """
    size = workload.schema[name].size
    if size > LARGEST_CELLS:
        return None
    gram = np.zeros((size, size))
    for f in workload.families:
        for x in f.factors if f.name not in apart else ():
            if name in x.names:
                others = math.prod(y.count for y in f.factors if y is not x) if f.choose is None else 1
                gram += f.weight * others * _uncentred(x, name)
    return _splitting_weights(Gram((), (size,), matrix=gram)) if gram.any() else None


def _uncentred(factor: Factor, name: str) -> Array:
    """The Gram of a factor's queries on one axis, the others contracted with equal weights, ``(size, size)``."""
    kept = tuple(n == name for n in factor.names)
    u = tuple(zero_weights(n) if k else np.full(n, 1 / n) for n, k in zip(factor.shape, kept, strict=True))
    gram = Projection(factor, kept, u).gram()
    return gram.matrix if isinstance(gram, Gram) else np.zeros((1, 1))


def _splitting_weights(gram: Gram) -> Array | None:
    """``V^-1 1 / (1' V^-1 1)`` of the optimum V."""
    rows = envelope(gram.root, gram.shape, None, GAP).rows
    values, vectors = np.linalg.eigh(rows.T @ rows)
    kept = values > SMALLEST_SHARE * values[-1]
    inverse = vectors[:, kept] @ (vectors[:, kept].sum(axis=0) / values[kept])
    total = float(inverse.sum())
    useful = total > 0 and float(np.abs(inverse).sum()) <= LARGEST_SUM * total
    return np.asarray(inverse / total) if useful else None
