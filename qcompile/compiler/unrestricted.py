"""The distance of a plan from the best of all matrix mechanisms, not only of those that keep its decomposition.

The unrestricted problem is that of one node (QuerySmasher, arXiv 2604.00868, equation 4; Yuan et al. 2016) on the
whole domain, with the queries as they are: all families in a single block. On a small domain it is solved; the optimum
of a single product is that of its factors, one by one; all else has the bound of `qcompile.compiler.separable_bound`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from qcompile.compiler.separable_bound import separable_bound, too_large
from qcompile.errors import InternalError
from qcompile.lattice.decompose import decompose
from qcompile.lattice.lattice import Problem
from qcompile.queries.workload import Family, Workload
from qcompile.solvers.bounds.roots import dense_gram, dense_roots, span_gram
from qcompile.solvers.exact import certificate
from qcompile.solvers.exact.certificate import Incumbent, RootBlock, evaluate
from qcompile.solvers.exact.fixed_point import fixed_point
from qcompile.solvers.exact.symmetry import Symmetry, find_symmetry, matrix_invariant
from qcompile.support.arrays import Array, cells, outer

LIMIT = 1024
"""Cells up to which the optimum over the whole domain is sought."""

GAP = 1e-3
"""Relative gap at which the search for the optimum stops."""

CLOSE = 1e-2
"""Gap up to which what the search found is called the optimum."""

WORK = 4e9
"""Cubes of block sizes, over all iterations, that a search may take: two seconds at most."""

ITERATIONS = 200

ROUNDING = 1e-11
"""Relative allowance for rounding errors, of this bound and of plans, whose classes share Grams of twelve digits."""

UNIFORM = 0.1
"""Share of uniform weights in the start of a search, which must be positive everywhere."""


@dataclass(frozen=True)
class Unrestricted:
    """A lower bound of the best matrix mechanism for a workload.

    Attributes:
      loss_lower_bound: proven, of its total weighted squared error at cost 1; None where nothing is known.
      method: how the bound was found; where there is none, why not.
    """

    loss_lower_bound: float | None
    method: str

    def excess(self, sse: float) -> float | None:
        """At most how much a total squared error at cost 1 exceeds the least possible one, relatively."""
        return None if self.loss_lower_bound is None else max(0.0, sse / self.loss_lower_bound - 1)


def unrestricted_problem(workload: Workload) -> Problem:
    """The problem of the whole domain: its cells are those of all attributes that some family mentions.

    Attributes that none mentions change nothing: the loss of a Kronecker product is the product of the losses, and
    that of the all-ones matrix is 1.
    """
    return _whole(workload)[0]


def _whole(workload: Workload) -> tuple[Problem, tuple[int, ...]]:
    """The problem, and the attribute at each of its axes."""
    closure = decompose(workload, blocks=[[f.name for f in workload.families]])
    node, order = closure.nodes[-1], closure.orders[-1]
    return closure.classes[int(closure.class_of[-1])], tuple(node[i] for i in order)


@lru_cache(maxsize=16)
def unrestricted(workload: Workload, limit: int = LIMIT) -> Unrestricted:
    """The best lower bound that can be had in two or three seconds.

    Args:
      workload: the queries.
      limit: cells up to which the optimum over the whole domain is sought.
    """
    single = _factors(workload)
    if len(single) > 1:
        factors = [unrestricted(part, limit) for part in single]
        if all(f.method.startswith("optimum") for f in factors):
            return _product(factors, workload.families[0].weight)
    return _unsplit(workload, limit)


def _factors(workload: Workload) -> list[Workload]:
    """The factors of a workload that is a single product, as workloads of their own; else nothing."""
    products = [p for f in workload.families if f.views <= 1 for p in f.products()]
    if len(workload.families) > 1 or len(products) != 1:
        return []
    (family,) = workload.families
    return [Workload(workload.schema, (Family(family.name, family.text, (factor,)),)) for factor in products[0].factors]


def _product(factors: Sequence[Unrestricted], weight: float) -> Unrestricted:
    """Losses, and lower bounds of them, multiply over the factors of a Kronecker product."""
    bounds = [f.loss_lower_bound or 0.0 for f in factors]
    return Unrestricted(weight * math.prod(bounds), "optimum of every factor")


def _unsplit(workload: Workload, limit: int) -> Unrestricted:
    names = {name for f in workload.families for x in f.factors for name in x.names}
    size = cells([a.size for a in workload.schema if a.name in names])
    reason = too_large(workload)
    if size > limit:
        if reason is not None:
            return Unrestricted(None, f"the domain has {_count(size)} cells, and {reason}")
        return Unrestricted(separable_bound(workload).bound, f"separable bound, the domain has {_count(size)} cells")
    separable = None if reason else separable_bound(workload)
    best = _search(workload, None if separable is None else separable.mu)
    bound = max(best.bound * (1 - ROUNDING), 0.0 if separable is None else separable.bound)
    gap = best.point.loss / bound - 1
    if gap < -1e-9:
        raise InternalError(f"a lower bound of {bound!r} was derived, but an error of {best.point.loss!r} is attained")
    return Unrestricted(bound, "optimum over the whole domain" if gap <= CLOSE else "dual bound over the whole domain")


def _search(workload: Workload, mu: Sequence[Array] | None) -> Incumbent:
    """The fixed point on the whole domain, in symmetric blocks, from product weights."""
    problem, attributes = _whole(workload)
    gram, span = dense_gram(problem), span_gram(problem)
    symmetry = find_symmetry(problem.shape, matrix_invariant(gram, span))
    roots = dense_roots([(s.restrict(gram), s.restrict(span)) for s in symmetry.blocks])
    pairs = zip(symmetry.blocks, roots, strict=True)
    posed = certificate.DualProblem(tuple(RootBlock(r, s.orbits) for s, r in pairs if len(r)), symmetry.sizes)
    start = posed.uniform() if mu is None else _start(symmetry, outer([mu[i] for i in attributes]).ravel())
    point = evaluate(posed, start)
    best = Incumbent(point)
    iterations = int(WORK / sum(float(len(b.root)) ** 3 for b in posed.blocks))
    fixed_point(posed, point, best, GAP, min(ITERATIONS, iterations))
    return best


def _start(symmetry: Symmetry, mu: Array) -> Array:
    """Weights of the cells as weights of the orbits."""
    first = symmetry.blocks[0]  # of the trivial character, whose columns are all the orbits
    mean = np.bincount(first.orbits[first.column], mu[first.cell]) / symmetry.sizes
    return (1 - UNIFORM) * mean + UNIFORM / len(mu)


def _count(size: int) -> str:
    """A number of cells, which may be beyond any float: two digits where it is long."""
    if size < 10**7:
        return f"{size:,}"
    power, rest = divmod(math.log10(size), 1)
    digits = round(10**rest, 1)
    return f"{digits:g}e{power:.0f}" if digits < 10 else f"1e{power + 1:.0f}"
