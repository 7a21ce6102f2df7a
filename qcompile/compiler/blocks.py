"""The choice of families to answer unsplit: a greedy search over blocks.

Costs and variances of independent mechanisms add, whatever they measure. So the total error of a plan with blocks is
(sum over blocks of sqrt(L_block) + sum over nodes of sqrt(L_A))^2: a family leaves the decomposition where its block
costs less than what the nodes save. With many attributes that share low-order nodes the decomposition wins; with few,
and with families across attributes, blocks do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from qcompile.errors import SizeError
from qcompile.lattice.decompose import decompose
from qcompile.lattice.lattice import Problem
from qcompile.plan.allocation import root_total
from qcompile.queries.workload import Family, Workload
from qcompile.solvers.auto import Auto
from qcompile.solvers.composite.kronecker import factorise
from qcompile.solvers.solution import Solution
from qcompile.solvers.solver import solve
from qcompile.support.arrays import Array, cells

Blocks = tuple[tuple[str, ...], ...]

LOOSE = 2e-2
"""Certified gap while searching, on problems that take long; the plan is solved to its own gap afterwards."""

SMALL_CELLS = 400
"""Problems of up to this size are solved to `TIGHT` while searching."""

TIGHT = 1e-3

LARGEST_BLOCK = 2**20
"""Cells of the largest block that is considered: its measurements are as many at full rank."""

LEAST_GAIN = 1e-3
"""Relative fall of the total error for which a further block is made."""


@dataclass(frozen=True)
class Effort:
    """Limits of a search, in numbers that do not depend on the machine.

    Attributes:
      work: multiplications of one iteration on the largest block (see `work_of`).
      families: of the largest workload, counting a choice's products.
      trials: assignments tried.
    """

    work: float
    families: int
    trials: int


EFFORTS: Mapping[str, Effort] = {"auto": Effort(1e9, 400, 60), "yes": Effort(3e10, 4000, 400)}


def choose_blocks(
    workload: Workload,
    centring: Mapping[str, Array],
    effort: Effort,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Blocks:
    """The blocks that a greedy search finds; none where the decomposition alone is best.

    Args:
      workload: the families.
      centring: weights of the attributes for what stays decomposed.
      effort: limits.
      progress: called with (assignments tried, most assignments).
    """
    search = _Search(workload, centring, effort, progress)
    best: Blocks = ()
    if sum(f.views for f in workload.families) > effort.families or next(search.moves(best), None) is None:
        return best
    error = search.error(best)
    while True:
        candidates = [(search.error(b), b) for b in search.moves(best)]
        candidate, blocks = min(candidates, default=(error, best))
        if not candidate < error * (1 - LEAST_GAIN):
            return best
        best, error = blocks, candidate


@dataclass
class _Search:
    """Assignments of families to blocks, each evaluated once; equal problems are solved once."""

    workload: Workload
    centring: Mapping[str, Array]
    effort: Effort
    progress: Callable[[int, int], None]
    _solved: dict[Hashable, Solution] = field(default_factory=dict)
    _errors: dict[Blocks, float] = field(default_factory=dict)

    def error(self, blocks: Blocks) -> float:
        """The total error with these blocks; infinite where it cannot be had, or past the number of trials."""
        key = tuple(sorted(blocks))
        if key not in self._errors:
            if len(self._errors) >= self.effort.trials:
                return float("inf")
            self._errors[key] = self._evaluate(blocks)
            self.progress(len(self._errors), self.effort.trials)
        return self._errors[key]

    def _evaluate(self, blocks: Blocks) -> float:
        try:
            lattice = decompose(self.workload, self.centring, blocks)
            block_classes = {int(c) for c in lattice.class_of[lattice.first_block :] if c >= 0}
            if any(work_of(lattice.classes[c]) > self.effort.work for c in block_classes):
                return float("inf")
            self._solve(lattice.classes)
        except SizeError:
            return float("inf")
        losses = np.array([self._solved[p.key].loss for p in lattice.classes])
        return root_total(losses, lattice.members) ** 2

    def _solve(self, problems: Sequence[Problem]) -> None:
        """Solve those that are new; together, so that they share their factors."""
        new = {p.key: p for p in problems if p.key not in self._solved}
        for gap, small in ((TIGHT, True), (LOOSE, False)):
            these = tuple(p for p in new.values() if (p.cells <= SMALL_CELLS) is small)
            self._solved.update(zip((p.key for p in these), solve(these, Auto(gap)), strict=True))

    def moves(self, blocks: Blocks) -> Iterator[Blocks]:
        """Assignments one step away: another block, a block with more families, two blocks in one."""
        inside = {name for names in blocks for name in names}
        for group in self._groups:
            rest = tuple(n for n in group if n not in inside)
            if rest and self._fits(rest):
                yield (*blocks, rest)
            for i, names in enumerate(blocks):
                if rest and self._fits(joined := (*names, *rest)):
                    yield (*blocks[:i], joined, *blocks[i + 1 :])
        for i in range(len(blocks)):
            for j in range(i):
                if self._fits(joined := (*blocks[j], *blocks[i])):
                    yield (*blocks[:j], joined, *blocks[j + 1 : i], *blocks[i + 1 :])

    @property
    def _groups(self) -> list[tuple[str, ...]]:
        """Each family, the families within each family's attributes, those that are linked, and all."""
        families = self.workload.families
        single = [(f.name,) for f in families]
        within = [tuple(g.name for g in families if _names(g) <= _names(f)) for f in families]
        everything = tuple(f.name for f in families)
        return list(dict.fromkeys([everything, *_components(families), *within, *single]))

    def _fits(self, names: Sequence[str]) -> bool:
        used = {n for name in names for n in _names(self.workload.family(name))}
        return cells(self.workload.schema.shape(sorted(used))) <= LARGEST_BLOCK


def work_of(problem: Problem) -> float:
    """Multiplications of one iteration: rank^2 cells of the dearest Kronecker factor, bounds of ranks where unknown."""
    factors = factorise(problem)
    if factors is None:
        rank = sum(math.prod(g.gram.rank_bound for g in t.groups) for t in problem.terms)
        return float(min(rank, problem.cells) ** 2 * problem.cells)
    rest = work_of(factors.rest) if factors.rest is not None else 0.0
    return max(rest, *(float(g.gram.rank_bound**2 * g.gram.cells) for g in factors.groups))


def _names(family: Family) -> frozenset[str]:
    return frozenset(n for x in family.factors for n in x.names)


def _components(families: Sequence[Family]) -> list[tuple[str, ...]]:
    """Families linked by common attributes, directly or through others."""
    components: list[tuple[set[str], list[str]]] = []
    for f in families:
        names, members = set(_names(f)), [f.name]
        for other in [c for c in components if c[0] & names]:
            components.remove(other)
            names |= other[0]
            members = [*other[1], *members]
        components.append((names, members))
    return [tuple(members) for _, members in components]
