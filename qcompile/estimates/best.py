"""The best estimates of marginals: biased, without standard errors, on sparse tables closer to the truth.

What was not measured is filled in by a reference, what was measured is shrunk towards it, and negative counts are
removed. The unbiased estimates stay beside them, untouched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from qcompile.errors import OptionError
from qcompile.estimates.consistent import consistent
from qcompile.estimates.grem import Estimates
from qcompile.estimates.nonnegative import integers, nonnegative
from qcompile.estimates.references import References
from qcompile.lattice.lattice import Node
from qcompile.support.arrays import LARGEST_EXACT, Array, marginalise

ESTIMATES = ("unbiased", "best")

PROCESSING = ("none", "nonnegative", "consistent", "integer")
"""Processing of best estimates.

- none: marginals agree with each other; small counts may come out negative.
- nonnegative: each marginal is projected by itself on non-negative counts with the estimated total.
- consistent: non-negative, and all marginals agree with each other.
- integer: non-negative, then rounded to whole numbers that keep the total.
"""


class BestEstimates:
    """Best estimates of all marginals in the closure.

    Args:
      estimates: the measurements.
      reference: one of `qcompile.estimates.references.REFERENCES`.
    """

    def __init__(self, estimates: Estimates, reference: str) -> None:
        self._estimates, self._lattice, self._reference = estimates, estimates.lattice, reference

    @cached_property
    def _model(self) -> Callable[[int], Array]:
        if self._reference == "none":
            return self._estimates.marginal
        return References(self._estimates, self._reference).estimate

    def table(self, node: int, processing: str) -> Array:
        """The estimated marginal on a node, axes in schema order.

        Args:
          node: its position.
          processing: one of `PROCESSING`.

        Raises:
          SizeError: there are too many cells to make them consistent.
          OptionError: tables cannot be made consistent to the tolerance, or counts are beyond all whole numbers.
        """
        if processing == "consistent":
            return self._from_views(node)
        table = self._model(node)
        if processing == "none":
            return table
        if processing == "integer" and self._estimates.rows > LARGEST_EXACT:
            raise OptionError("counts beyond 2^53 cannot be rounded to whole numbers; ask for processing='nonnegative'")
        table = nonnegative(table, self._estimates.rows)
        return integers(table, self._estimates.rows).astype(np.float64) if processing == "integer" else table

    def _from_views(self, node: int) -> Array:
        attributes = self._lattice.nodes[node]
        view = next(v for v in self._consistent if set(attributes) <= set(v))
        return marginalise(self._consistent[view], view, attributes)

    @cached_property
    def _consistent(self) -> Mapping[Node, Array]:
        nodes = self._lattice.nodes
        return consistent({nodes[i]: self._model(i) for i in self._lattice.maximal}, self._estimates.rows)
