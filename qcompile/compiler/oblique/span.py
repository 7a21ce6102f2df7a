"""Whether all that oblique nodes leave can be answered from the nodes below them.

Ranks are decided with a tolerance: a direction in which almost nothing is left may be missing from what is measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qcompile.lattice.lattice import Lattice
from qcompile.lattice.oblique import LEFT, Oblique, lower_subsets, part_on, written_out
from qcompile.queries.workload import Workload
from qcompile.strategy import Strategy
from qcompile.support.arrays import Array

MISSING = 1e-10
"""Share of a query that may lie outside: less than the bias that centred rows have by their rounding errors."""


def spans_what_is_left(
    workload: Workload, lattice: Lattice, strategies: Sequence[Strategy], nodes: Sequence[Oblique]
) -> bool:
    """True if the measured nodes answer what every product on an oblique node leaves to them."""
    apart = {name for names in lattice.blocks for name in names}
    first = {tuple(sorted(o.members[0])): o for o in nodes}
    for family in workload.families:
        for product in family.products() if family.name not in apart else ():
            oblique = first.get(lattice.node_of(product.names))
            if oblique is not None:
                member = oblique.members[0]
                queries = written_out(product.factors, [lattice.schema.names[a] for a in member])
                if not _spans(lattice, strategies, oblique, member, queries):
                    return False
    return True


def _spans(
    lattice: Lattice, strategies: Sequence[Strategy], oblique: Oblique, member: tuple[int, ...], queries: Array
) -> bool:
    weights, scale = [lattice.centring[a] for a in member], np.abs(queries).max()
    left = oblique.leftover(queries, weights)
    for kept in lower_subsets(len(member)):
        part = part_on(left, weights, kept)
        if np.abs(part).max() <= LEFT * scale:
            continue
        node = tuple(sorted(member[a] for a in kept))
        index = lattice.index[node]
        c = int(lattice.class_of[index])
        if c < 0:
            return False
        places = [kept.index(member.index(node[i])) + 1 for i in lattice.orders[index]]
        columns = part.transpose(*places, 0)
        found = strategies[c].own.adjoint(strategies[c].represent(columns))
        if np.abs(found - columns).max() > MISSING * scale:
            return False
    return True
