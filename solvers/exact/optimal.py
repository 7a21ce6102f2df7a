"""The optimal strategy of one problem: on the short side or dense, in symmetric blocks, by two iterations.

The interior point solves what is small enough for its Hessian to full precision. Larger problems take the fixed point;
where that is slow the interior point finishes on the cells that matter, and the certificate, always computed on all
cells, brings back those that were left out wrongly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np

from qcompile.lattice.lattice import Problem
from qcompile.solvers.bounds.roots import dense_gram, dense_roots, short_root, span_gram, term_rank
from qcompile.solvers.exact import certificate
from qcompile.solvers.exact.certificate import Incumbent, RootBlock, evaluate, restrict, strategy_rows
from qcompile.solvers.exact.fixed_point import fixed_point
from qcompile.solvers.exact.interior_point import interior_point, most_orbits, work
from qcompile.solvers.exact.symmetry import Symmetry, SymmetryBlock, find_symmetry, matrix_invariant, root_invariant
from qcompile.solvers.route import Route
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy
from qcompile.support.arrays import Array, bytes_text
from qcompile.support.memory import has_room

DENSE_CELLS = 4096
"""Cells up to which a dense Gram is decomposed: 128 MB a matrix, about a minute an iteration without symmetry."""

QUICK_CELLS = 2000
"""Cells up to which that is a matter of seconds an iteration."""

SHORT_RANK = 2500
"""Rows of R up to which the short side is taken: a few seconds an iteration."""

SHORT_ENTRIES = 2**26
"""Entries of R up to which the short side is taken (512 MB)."""

SHORT_COPIES = 8
"""Arrays as large as R that the short side holds at once."""

COPIES = 6
"""Square matrices that the dense route holds at once."""

HESSIAN_WORK = 1e10
"""Multiplications of a Hessian up to which the interior point is taken: about half a second."""

POLISHED = 1e-8
"""The gap that the interior point aims at whatever was asked: the last digits cost two or three iterations."""

POLISHED_WORK = 1e9
"""Multiplications of a Hessian up to which these iterations are nothing to think about."""

PATIENCE = 40
"""Fixed-point iterations between attempts to finish on the active cells."""

ROUNDS = 40

IDLE = 1e-6
"""Orbits with less than this share of the largest weight carry none."""

EXCHANGES = 8
"""Rounds of exchanging idle orbits for violated ones."""

FEWEST_ACTIVE = 1024
"""Orbits that the interior point may always take."""

SPARE_ORBITS = 4
"""Orbits that it may take for each one that the optimum needs at most."""

SMALLEST_START = 1e-9
"""The interior point starts away from the boundary."""


@dataclass(frozen=True, eq=False)
class Optimal(Route):
    """The optimum of a problem as a whole.

    Attributes:
      gap: relative tolerance of the certified gap.
    """

    name: ClassVar[str] = "optimal"

    gap: float = 1e-3

    def why_not(self, problem: Problem) -> str | None:
        """A reason past the limits of both sides."""
        # A single term has no cheaper kind of certificate to wait for: its limit is that of a few minutes.
        limit = min(SHORT_RANK, DENSE_CELLS) if len(problem.terms) == 1 else DENSE_CELLS
        if not _is_short(problem) and problem.cells > limit:
            return f"{problem.cells} cells at full rank, dense limit {limit}"
        need = 8 * _numbers(problem)
        return None if has_room(need) else f"it needs {bytes_text(need)} of memory"

    def is_slow(self, problem: Problem) -> bool:
        """True if an iteration takes so long that approximations should be tried first."""
        return problem.cells > QUICK_CELLS and not _is_short(problem) and _largest_block(problem) > QUICK_CELLS

    def solve(self, problem: Problem) -> Solution:
        """The optimal strategy to a certified relative gap of the squared error."""
        self.require(problem)
        return solve_with_weights(problem, self.gap)[0]


def _numbers(problem: Problem) -> int:
    """Numbers that live at once: roots and their decomposition on the short side, square matrices elsewhere."""
    if _is_short(problem):
        return SHORT_COPIES * sum(term_rank(t) for t in problem.terms) * problem.cells
    return COPIES * problem.cells**2


def _largest_block(problem: Problem) -> int:
    """Columns of the largest symmetric block of a dense Gram."""
    return max(len(b.orbits) for b in _dense_symmetry(problem, dense_gram(problem), span_gram(problem)).blocks)


_SYMMETRIES: WeakKeyDictionary[Problem, Symmetry] = WeakKeyDictionary()


def _dense_symmetry(problem: Problem, gram: Array, span: Array) -> Symmetry:
    """The symmetry of a dense Gram, which is asked for before the problem is solved, and then once more."""
    found = _SYMMETRIES.get(problem)
    if found is None:
        found = _SYMMETRIES[problem] = find_symmetry(problem.shape, matrix_invariant(gram, span))
    return found


def solve_with_weights(problem: Problem, gap: float) -> tuple[Solution, Array]:
    """The optimal strategy, and the weights mu of its strategy's point on all cells, ``(cells,)``."""
    short = _is_short(problem)
    symmetry, pairs = _short_blocks(problem) if short else _dense_blocks(problem)
    posed = certificate.DualProblem(tuple(RootBlock(root, s.orbits) for s, root in pairs), symmetry.sizes)
    best = optimise(posed, gap)
    parts = zip(pairs, strategy_rows(posed, best.point), strict=True)
    rows = np.concatenate([s.expand(b) for (s, _), b in parts])
    side = f"rank {len(rows)} of {problem.cells}" if short else "dense"
    label = f"optimal, {side}" + (f", {len(pairs)} symmetric blocks" if len(pairs) > 1 else "")
    weights = np.zeros(problem.cells)
    for s, _ in pairs:
        weights[s.cell] = best.point.mu[s.orbits[s.column]]
    return Solution(KroneckerStrategy.dense(problem.shape, rows), best.point.loss, best.bound, label), weights


def optimise(posed: certificate.DualProblem, gap: float) -> Incumbent:
    """The best point found, normally within ``gap``; its certificate says how far it got."""
    point = evaluate(posed, posed.uniform())
    best = Incumbent(point)
    if work(posed) <= HESSIAN_WORK and len(posed.sizes) <= _active_orbits(posed):
        wanted = min(gap, POLISHED) if work(posed) <= POLISHED_WORK else gap / 4
        point = interior_point(posed, point, best, wanted)
    for _ in range(ROUNDS):
        if best.gap <= gap:
            break
        before = best.gap
        point = fixed_point(posed, point, best, gap, PATIENCE)
        if best.gap > gap:
            _finish(posed, point, best, gap)
        if best.gap > 0.999 * before:
            break
    return best


def _finish(posed: certificate.DualProblem, point: certificate.DualPoint, best: Incumbent, gap: float) -> None:
    """The interior point on as many orbits as are affordable, the heaviest first; violated ones take idle ones' places.

    The certificate of each result is computed on all orbits.
    """
    most = min(_active_orbits(posed), int(np.sqrt(2 * HESSIAN_WORK / sum(b.root.shape[0] ** 2 for b in posed.blocks))))
    score, weights = point.mu, point.mu
    for _ in range(EXCHANGES):
        active = np.sort(np.argsort(-score, kind="stable")[:most])
        part = restrict(posed, active)
        start = np.maximum(weights[active], SMALLEST_START)
        inner = evaluate(part, start / (part.sizes @ start))
        inner = interior_point(part, inner, Incumbent(inner), gap / 4)
        weights = np.zeros(len(posed.sizes))
        weights[active] = inner.mu
        whole = evaluate(posed, weights)
        best.add(whole)
        excess = whole.variances / whole.value - 1
        if best.gap <= gap or not (excess > gap).any():
            break
        # Weighted orbits stay; the most violated of the others come next.
        score = np.where(weights > IDLE * weights.max(), 2.0, np.maximum(excess, 0) / (1 + excess.max()))


def _active_orbits(posed: certificate.DualProblem) -> int:
    """Orbits that an optimum can need, with many to spare.

    K is a convex combination of as many matrices as there are orbits, in a space of ``r (r + 1) / 2`` dimensions for
    each block: by Caratheodory's theorem one orbit more than the dimensions is enough.
    """
    dimensions = sum(r * (r + 1) // 2 for r in (len(b.root) for b in posed.blocks))
    return min(most_orbits(), FEWEST_ACTIVE + SPARE_ORBITS * dimensions)


def _is_short(problem: Problem) -> bool:
    """True if the terms' own ranks leave a root much smaller than the square matrix."""
    total = 0
    for t in problem.terms:
        total += term_rank(t)
        if total * 2 > problem.cells and len(problem.terms) > 1 and problem.cells <= DENSE_CELLS:
            return False
        if total > SHORT_RANK or total * problem.cells > SHORT_ENTRIES:
            return False
    return len(problem.terms) == 1 or total * 2 <= problem.cells or problem.cells > DENSE_CELLS


BlockRoots = list[tuple[SymmetryBlock, Array]]


def _short_blocks(problem: Problem) -> tuple[Symmetry, BlockRoots]:
    root = short_root(problem)
    symmetry = find_symmetry(problem.shape, root_invariant(root))
    if len(symmetry.blocks) == 1:
        return symmetry, [(symmetry.blocks[0], root)]
    # The ranks add up to that of the root: an asymmetry that was taken for rounding error adds no direction.
    parts = [np.linalg.svd(s.restrict_rows(root), full_matrices=False)[1:] for s in symmetry.blocks]
    least = np.sort(np.concatenate([values for values, _ in parts]))[-len(root)]
    roots = [np.ascontiguousarray(v[v >= least, None] * vt[v >= least]) for v, vt in parts]
    return symmetry, [(s, r) for s, r in zip(symmetry.blocks, roots, strict=True) if len(r)]


def _dense_blocks(problem: Problem) -> tuple[Symmetry, BlockRoots]:
    gram, span = dense_gram(problem), span_gram(problem)
    symmetry = _dense_symmetry(problem, gram, span)
    roots = dense_roots([(s.restrict(gram), s.restrict(span)) for s in symmetry.blocks])
    return symmetry, [(s, r) for s, r in zip(symmetry.blocks, roots, strict=True) if len(r)]
