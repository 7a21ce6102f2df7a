"""The error of a workload over many attributes, extrapolated from a plan for a sample of its pairs."""

from __future__ import annotations

import math
from statistics import fmean

from qcompile.api import Plan


def extrapolated_rmse(plan: Plan, width: int) -> float:
    """RMSE at cost 1 of `random_pairs` over ``width`` attributes, from a plan of it over fewer of them.

    The Gram of a node sums over the families that reach it. So L grows as the number of pairs for the total, and as the
    number of partners for one attribute; pairs keep their L, of which the sample gives the mean of the roots.

    Args:
      plan: of a workload of 1-way and 2-way families, the former weighted by the ratio of the numbers of partners.
      width: number of attributes.
    """
    count = len(plan.workload.schema)
    ratios = 1.0, width / count, math.comb(width, 2) / math.comb(count, 2)
    partners = (width - 1) / (count - 1)
    growth = math.sqrt(ratios[2]), width * math.sqrt(partners), float(math.comb(width, 2))
    root = sum(g * fmean(r) for g, r in zip(growth, _roots(plan), strict=True))
    queries = sum(f.count * ratios[len(f.factors[0].names)] for f in plan.workload.families)
    return root / math.sqrt(queries)


def _roots(plan: Plan) -> tuple[list[float], list[float], list[float]]:
    """The square roots of L of the nodes on none, one and two attributes."""
    roots: tuple[list[float], list[float], list[float]] = [], [], []
    for c in plan.classes:
        roots[len(c.attributes)].extend([math.sqrt(c.loss)] * c.members)
    return roots
