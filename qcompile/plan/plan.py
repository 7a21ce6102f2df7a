"""The plan: frozen data that says what will be measured, how well, and at which share of the budget.

A plan has no budget; a budget only rescales it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from qcompile.lattice.lattice import Lattice
from qcompile.plan.allocation import (
    exact_scales,
    joint_error,
    joint_scales,
    least_precisions,
    root_total,
    unit_variances,
)
from qcompile.plan.joint_certificate import least_error
from qcompile.plan.objective import Limit, Solved, limits
from qcompile.plan.options import Options
from qcompile.privacy.joint_distance import JointDistance
from qcompile.privacy.noise.scale import Scale
from qcompile.privacy.unit import CountColumn, PrivacyUnit
from qcompile.queries.workload import Family, Workload
from qcompile.solvers.solution import Solution
from qcompile.strategy import Strategy
from qcompile.strategy.variances import ErrorSummary, family_errors
from qcompile.support.arrays import Array
from qcompile.support.text import plural
from qcompile.version import __version__

if TYPE_CHECKING:
    import networkx as nx

    from qcompile.privacy.budget import Budget


@dataclass(frozen=True, kw_only=True)
class ClassSummary:
    """One distinct problem that was solved.

    Attributes:
      attributes: of the first member node.
      block: True if the members are unsplit blocks rather than nodes of the closure.
      members: number of nodes that share the problem.
      cells: of a member.
      rank: of its strategy.
      solver: the route taken.
      refused: routes not taken, each with the reason.
      loss: weighted squared error of a member at unit cost spent on it.
      bound: proven lower bound of the loss.
      gap: ``loss / bound - 1``.
      share: of the budget, per member; for joint costs of all pairs of rows weighted as the best division weighs them.
        Either way it is the member's share of the total error.
    """

    attributes: tuple[str, ...]
    block: bool
    members: int
    cells: int
    rank: int
    solver: str
    refused: tuple[tuple[str, str], ...]
    loss: float
    bound: float
    gap: float
    share: float


@dataclass(frozen=True, eq=False, repr=False)
class Measurement:
    """The measurement of one node or block: ``y = g round((B x + sigma Z) / g)``.

    Attributes:
      attributes: of the node, in schema order.
      strategy: B, on the node's axes in canonical order.
      order: the node axis at each canonical position.
      scale: sigma.
      grid: g, a power of two.
      cost: the node's own privacy cost, exactly. Where rows are replaced the nodes' costs add up to more than the cost
        of all of them, as no pair of rows is the worst for every node.
    """

    attributes: tuple[str, ...]
    strategy: Strategy
    order: tuple[int, ...]
    scale: float
    grid: float
    cost: Fraction

    def __repr__(self) -> str:
        names = ", ".join(self.attributes) or "total"
        return f"<Measurement of {names}: {self.strategy.rows:,} rows, scale {self.scale:.6g}, grid {self.grid:g}>"

    @property
    def factors(self) -> tuple[Array, ...]:
        """Matrices whose Kronecker product is B, axes in schema order; a single one where there is no structure."""
        return self.strategy.factors([self.order.index(i) for i in range(len(self.order))])


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """A compiled workload.

    Attributes:
      workload: what was compiled.
      closure: the lattice of nodes as arrays.
      solutions: one per class.
      options: how it was compiled.
      plain_sse: total weighted squared error at cost 1 of the plain decomposition (of another objective, its value),
        where other designs were compared with it; None where there was nothing to compare.
      precisions: 1/sigma^2 per class, up to a common factor, where the plan is charged by its worst pair of rows; None
        where every node is charged by its own.
      version: of the qcompile that compiled it; part of its hash, so that a file written again keeps its hash.
      solved: the weights of an objective other than the total error; None for that.
      counted: the column of counts of a run, which says what a row is; None in a plan by itself, and not in its file.
    """

    workload: Workload
    closure: Lattice
    solutions: tuple[Solution, ...]
    options: Options
    plain_sse: float | None = None
    precisions: tuple[float, ...] | None = None
    version: str = __version__
    solved: Solved | None = None
    counted: CountColumn | None = None

    def __repr__(self) -> str:
        size = f"{self.queries:,} queries in {plural(len(self.workload.families), 'family', 'families')}"
        return f"<Plan: {size}, rmse {self.rmse():.4g} at cost 1, solver {self.options.solver!r}>"

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.workload.queries

    @property
    def views(self) -> int:
        """Number of distinct attribute sets among the families."""
        return len(self.workload.views)

    @cached_property
    def tables(self) -> tuple[tuple[str, ...], ...]:
        """The attribute sets whose exact counts a run needs, smallest first: those of the blocks, and other views."""
        apart = {name for names in self.closure.blocks for name in names}
        views = self.workload.views_of(f for f in self.workload.families if f.name not in apart) if apart else None
        blocks = [self.closure.names(n) for n in self.closure.nodes[self.closure.first_block :]]
        order = self.workload.schema.positions
        needed = {*(self.workload.views if views is None else views), *blocks}
        return tuple(sorted(needed, key=lambda v: (len(v), [order[n] for n in v])))

    @cached_property
    def losses(self) -> Array:
        """L per class."""
        return np.array([s.loss for s in self.solutions])

    @cached_property
    def strategies(self) -> tuple[Strategy, ...]:
        """B per class."""
        return tuple(s.strategy for s in self.solutions)

    @cached_property
    def unit(self) -> PrivacyUnit:
        """The privacy unit, which says what tables are neighbours."""
        options = self.options
        return PrivacyUnit.of(options.neighbours, options.contributions, self.workload.schema, self.counted)

    @cached_property
    def sensitivities(self) -> Array:
        """Squared sensitivity per class between neighbouring tables, for predictions."""
        return np.array([self.unit.predicted(s) for s in self.strategies])

    @cached_property
    def joint(self) -> JointDistance | None:
        """The costs of all pairs of rows; None where every node is charged by its own worst pair."""
        # With a largest count of a row, its number of rows is no longer public, and what was public needs noise.
        alone = replace(self, counted=None).unit
        if self.precisions is None or alone.public_total != self.unit.public_total:
            return None
        return self.unit.joint_distance(self.closure, self.strategies)

    def divided(self) -> Plan:
        """The plan with its budget divided by joint costs, where its privacy unit has them."""
        if not self.unit.is_joint:
            return self
        sums = self.unit.joint_distance(self.closure, self.strategies).matrix
        noisy, variances = sums.any(axis=0), self.unit_sigma_squared
        # Where all nodes have the same worst pair their own division is the best one, to the last digit.
        own = np.divide(1.0, variances, out=np.zeros(len(variances)), where=noisy)
        found, _ = least_precisions(self._weights, sums)
        best = min((own, found), key=lambda x: joint_error(self._weights, x, sums))
        return replace(self, precisions=tuple(best.tolist()))

    @property
    def _weights(self) -> Array:
        """The losses of all nodes of a class together."""
        return self.losses * self.closure.members

    @cached_property
    def gap(self) -> float:
        """Certified relative gap of the total squared error to that of the best plan of its decomposition.

        Where every node is charged by itself it is ``(sum sqrt(c L) / sum sqrt(bound))^2 - 1``: c is the squared
        sensitivity of a node and ``bound`` a lower bound of the least possible c L: that of the certificate where rows
        are added or removed; see `PrivacyUnit.certified` where one is replaced. For joint costs see `least_error`.
        """
        least = self._least_error
        return max(0.0, self.sse() / least - 1) if least > 0 else math.inf

    @property
    def _least_error(self) -> float:
        if self.joint is not None:
            _, weights = least_precisions(self._weights, self.joint.matrix)
            return least_error(self.closure, self.solutions, self.joint, weights) * self.unit.largest**2
        raw = set(self.closure.class_of[self.closure.first_block :].tolist())
        raw |= {c for c, s in enumerate(self.strategies) if s.own is not s}  # rows that are not centred
        problems = enumerate(zip(self.closure.classes, self.solutions, strict=True))
        bounds = [self.unit.certified(p, s.bound, c not in raw) for c, (p, s) in problems]
        return root_total(np.array(bounds), self.closure.members) ** 2

    @cached_property
    def unit_sigma_squared(self) -> Array:
        """Noise variance per class at cost 1, for the plan's privacy unit."""
        if self.joint is None or self.precisions is None:
            return unit_variances(self.losses, self.closure.members, self.sensitivities)
        x = np.array(self.precisions)
        peak = self.unit.largest**2 * float((self.joint.matrix @ x).max())
        return np.asarray(np.divide(peak, x, out=np.zeros(len(x)), where=x > 0))

    @cached_property
    def limits(self) -> Mapping[str, Limit]:
        """What each family's variances may be, by its name; empty where the objective is the total error."""
        return limits(self.workload, self.options)

    def sse(self, cost: float = 1.0) -> float:
        """Total weighted squared error at a privacy cost; ``(sum sqrt(c L))^2 / cost`` where nodes cost their own.

        The weights are those of the families; with another objective those that it was solved for.
        """
        if self.joint is None:
            return root_total(self.losses * self.sensitivities, self.closure.members) ** 2 / cost
        return float(self._weights @ self.unit_sigma_squared) / cost

    def rmse(self, cost: float = 1.0) -> float:
        """Root of the mean unweighted variance of a query at a privacy cost."""
        return math.sqrt(self._unweighted / self.queries / cost)

    @cached_property
    def _unweighted(self) -> float:
        """Sum of all queries' variances at cost 1."""
        if self.solved is not None:  # the Grams are those of weighted queries
            return sum(self.family_errors(f).total for f in self.workload.families)
        total = 0.0
        for c, (problem, solution) in enumerate(zip(self.closure.classes, self.solutions, strict=True)):
            errors = sum(t.unweighted * solution.strategy.trace(t.groups) for t in problem.terms)
            total += float(self.closure.members[c] * self.unit_sigma_squared[c]) * errors
        return total

    @cached_property
    def _family_errors(self) -> dict[str, ErrorSummary]:
        return {}

    def family_errors(self, family: Family) -> ErrorSummary:
        """Sum and maximum of a family's predicted variances at cost 1."""
        if family.name not in self._family_errors:
            self._family_errors[family.name] = family_errors(
                self.closure.source(family.name), self.strategies, self.unit_sigma_squared, family.products()
            )
        return self._family_errors[family.name]

    @cached_property
    def classes(self) -> tuple[ClassSummary, ...]:
        """The distinct problems that were solved, in the order of their first nodes."""
        first: dict[int, int] = {}
        for position, c in enumerate(self.closure.class_of.tolist()):
            first.setdefault(c, position)
        return tuple(self._class_summary(c, first[c]) for c in range(len(self.solutions)))

    def _class_summary(self, c: int, position: int) -> ClassSummary:
        s, errors = self.solutions[c], self.losses * self.unit_sigma_squared
        return ClassSummary(
            attributes=self.closure.names(self.closure.nodes[position]),
            block=position >= self.closure.first_block,
            members=int(self.closure.members[c]),
            cells=self.closure.classes[c].cells,
            rank=s.strategy.rank,
            solver=s.solver,
            refused=s.refused,
            loss=s.loss,
            bound=s.bound,
            gap=s.gap,
            share=float(errors[c] / (errors @ self.closure.members)),
        )

    @cached_property
    def lattice(self) -> nx.DiGraph[tuple[str, ...]]:
        """The closure as a graph; nodes carry attributes, cells, block, rank, solver, loss, bound, gap and share.

        A block is an extra node, ``block=True``, without edges.
        """
        graph = self.closure.graph()
        for position, c in enumerate(self.closure.class_of.tolist()):
            graph.nodes[self.closure.key(position)].update(_node_data(self.classes[c] if c >= 0 else None))
        return graph

    def scales(self, charge: Fraction, jointly: bool = True) -> tuple[Scale, ...]:
        """Exact noise scales per class for a charge rho, in steps of the histogram (counts, unless a run has weights).

        Args:
          charge: rho, exactly.
          jointly: charge the worst pair of rows, as far as the plan allows it, rather than every node by itself.

        Raises:
          InternalError: the recomputed cost does not match the charge.
        """
        sensitivities = [self.unit.sensitivity_squared(s) for s in self.strategies]
        if jointly and self.joint is not None and self.precisions is not None:
            return joint_scales(self.precisions, sensitivities, self.joint, self.unit.steps, charge)
        return exact_scales(self.losses.tolist(), self.closure.members.tolist(), sensitivities, charge)

    def measurements(self, budget: Budget, accounting: str = "zcdp") -> Iterator[Measurement]:
        """The measurements at a budget, node by node, smallest nodes first, then block by block."""
        scales = self.scales(budget.charge(accounting))
        for index, node in enumerate(self.closure.nodes):
            c = int(self.closure.class_of[index])
            if c >= 0:
                s, step = scales[c], self.unit.step
                yield Measurement(
                    attributes=self.closure.names(node),
                    strategy=self.strategies[c],
                    order=self.closure.orders[index],
                    scale=s.sigma * step,
                    grid=s.grid * step,
                    cost=s.cost,
                )


def _node_data(summary: ClassSummary | None) -> dict[str, Any]:
    if summary is None:  # a zero Gram: nothing to measure
        return {"rank": 0, "solver": "not measured", "loss": 0.0, "bound": 0.0, "gap": 0.0, "share": 0.0}
    keys = ("rank", "solver", "loss", "bound", "gap", "share")
    return {k: getattr(summary, k) for k in keys}
