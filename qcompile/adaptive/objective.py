"""The effect of measuring a node on a chosen marginal: its price in privacy, and the error that it leaves.

Measuring node A with its strategy V_A at variance sigma^2 costs s_A / sigma^2 (s_A the squared sensitivity) and leaves
the error sigma^2 tr(G_A V_A^+), where G_A comes from the workload's families on the marginal and inside it. A marginal
that no family asks for is selected as a step towards larger ones, and then all its cells count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property

from qcompile.adaptive.resolutions import Level, block_matrix, block_starts
from qcompile.estimates.corrector import is_residual_basis
from qcompile.lattice.lattice import Lattice, Node, subsets
from qcompile.plan.plan import Plan
from qcompile.queries.factors import Factor, Marginal, Matrix
from qcompile.queries.workload import Product
from qcompile.strategy import Strategy
from qcompile.strategy.variances import node_parts, part_errors


class Objective:
    """Losses of the nodes below a marginal.

    Args:
      plan: gives families and lattice.
      strategies: B per class, as they will be measured.
    """

    def __init__(self, plan: Plan, strategies: Sequence[Strategy]) -> None:
        self._lattice: Lattice = plan.closure
        self._families = plan.workload.families
        self._strategies = tuple(strategies)

    @cached_property
    def _products(self) -> dict[Node, list[tuple[Product, float]]]:
        """The products of all families with their weights, by attributes."""
        found: dict[Node, list[tuple[Product, float]]] = {}
        for family in self._families:
            for product in family.products():
                node = self._lattice.node_of(product.names)
                found.setdefault(node, []).append((product, family.weight))
        return found

    def losses(self, node: int) -> dict[int, float]:
        """Weighted squared error per unit of noise variance, by node below a marginal; nodes without any left out."""
        chosen = self._lattice.nodes[node]
        total: dict[int, float] = {}
        if chosen in self._products:
            for inside in subsets(chosen):
                for product, weight in self._products.get(inside, []):
                    for i, loss in self._product_losses(product).items():
                        total[i] = total.get(i, 0.0) + weight * loss
        return total if node in total else self._product_losses(self._cells_of(chosen))

    def levels(self, node: int, sensitivities: Sequence[Fraction], shrunk: bool) -> tuple[Level, ...]:
        """The resolutions at which a marginal is looked at: its cells, and blocks where its families add them up.

        Args:
          node: the marginal.
          sensitivities: squared, per class.
          shrunk: whether measurements of a node that is measured as its cells are will be shrunk.
        """
        attributes = [self._lattice.schema.attributes[a] for a in self._lattice.nodes[node]]
        whole = [Marginal(a) for a in attributes]
        alike = shrunk and is_residual_basis(self._strategies[int(self._lattice.class_of[node])])
        fine = Level((), math.prod(f.count for f in whole), self._spread(Product(tuple(whole)), sensitivities), alike)
        added = {n for p, _ in self._products.get(self._lattice.nodes[node], []) for n in summed_attributes(p)}
        if not any(a.name in added and a.size > 2 for a in attributes):
            return (fine,)
        blocks: list[Factor] = [
            Matrix([a], block_matrix(a.size)) if a.name in added else Marginal(a) for a in attributes
        ]
        starts = tuple(block_starts(a.size) if a.name in added else None for a in attributes)
        spread = self._spread(Product(tuple(blocks)), sensitivities)
        return fine, Level(starts, math.prod(f.count for f in blocks), spread, False)

    def _spread(self, product: Product, sensitivities: Sequence[Fraction]) -> float:
        """Ratio of a query's standard error to sigma when a product is measured from scratch at cost 1/sigma^2.

        1 for cells on the residual basis: the best allocation then equals Gaussian noise on the whole marginal.
        """
        losses = self._product_losses(product)
        roots = [math.sqrt(loss * sensitivities[int(self._lattice.class_of[i])]) for i, loss in losses.items()]
        return sum(roots) / math.sqrt(product.count)

    def _cells_of(self, node: Node) -> Product:
        return Product(tuple(Marginal(self._lattice.schema.attributes[i]) for i in node))

    def _product_losses(self, product: Product) -> dict[int, float]:
        parts = node_parts(self._lattice, product)
        errors = {p.node: part_errors(p, self._strategies[int(self._lattice.class_of[p.node])])[0] for p in parts}
        return {i: e for i, e in errors.items() if e > 0}


def summed_attributes(product: Product) -> Iterator[str]:
    """The attributes along which a product's queries add up neighbouring values."""
    return (name for f in product.factors if f.kind not in ("marginal", "whole") for name in f.names)
