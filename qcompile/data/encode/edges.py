"""Edges of bins in the type of a column, as 0.7 in a column of 32-bit numbers is another number than the double 0.7."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from qcompile.data.sources.columns import SourceTable
from qcompile.queries.schema import Attribute, NumericDomain


def fit_to_column(attribute: Attribute, source: SourceTable, position: int) -> Attribute:
    """Return the attribute with the edges of its bins rounded to the type of its column."""
    float_type = source.float_type(position)
    if float_type is None or not isinstance(attribute.domain, NumericDomain):
        return attribute
    edges = round_edges(attribute.domain.edges, np.dtype(float_type))
    return replace(attribute, domain=replace(attribute.domain, edges=edges))


def round_edges(edges: tuple[float, ...], float_type: np.dtype[Any]) -> tuple[float, ...]:
    """Return the edges rounded to a type of floating numbers, as doubles, strictly increasing.

    An edge beyond the range of the type, or too close to a neighbour for it, stays as it is: no value of the type is
    equal to it.

    Args:
      edges: strictly increasing.
      float_type: float16 or float32.
    """
    with np.errstate(over="ignore", under="ignore"):
        rounded = [float(edge) for edge in np.asarray(edges).astype(float_type)]
    # Rounding keeps the order, so an edge can become equal to its neighbours only.
    beside = zip([None, *rounded[:-1]], rounded, [*rounded[1:], None], strict=True)
    apart = [math.isfinite(here) and here not in (left, right) for left, here, right in beside]
    return tuple(new if keep else old for old, new, keep in zip(edges, rounded, apart, strict=True))
