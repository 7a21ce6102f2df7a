"""The optimal strategy of one problem by the fixed point: on the short side, or dense in symmetric blocks."""

from __future__ import annotations

import numpy as np

from qcompile.arrays import Array
from qcompile.lattice import Problem
from qcompile.solvers.fixed_point import FixedPoint, RootBlock, solve_blocks, strategy_rows
from qcompile.solvers.roots import dense_gram, dense_root, short_root, span_gram, term_rank
from qcompile.solvers.solution import Solution
from qcompile.solvers.symmetry import find_symmetry
from qcompile.strategy import KroneckerStrategy

DENSE_CELLS = 4096
"""Cells up to which a dense Gram is decomposed: 128 MB a matrix, about a minute an iteration without symmetry."""

SHORT_ENTRIES = 2**26
"""Entries of R up to which the short side is taken (512 MB)."""

POLISH_WORK = 3e8
"""Multiplications (rank * rank * cells an iteration) spent on a tighter gap than asked: a tenth of a second."""


def polish(rank: int, cells: int) -> int:
    """Iterations that go on past the gap asked for, since they cost next to nothing."""
    return int(POLISH_WORK / (float(rank) * rank * cells))


def why_not(problem: Problem) -> str | None:
    """The reason this route cannot be taken, or None."""
    if _short(problem) or problem.cells <= DENSE_CELLS:
        return None
    return f"{problem.cells} cells at full rank, dense limit {DENSE_CELLS}"


def solve_exact(problem: Problem, gap: float) -> Solution:
    """The optimal strategy to a certified relative gap.

    Raises:
      numpy.linalg.LinAlgError: never for a positive semidefinite Gram; a sign of a defect.
    """
    return _solve_short(problem, gap) if _short(problem) else _solve_dense(problem, gap)


def _short(problem: Problem) -> bool:
    """Whether the terms' own ranks leave a root much smaller than the square matrix."""
    total = 0
    for t in problem.terms:
        total += term_rank(t)
        if total * 2 > problem.cells and len(problem.terms) > 1 and problem.cells <= DENSE_CELLS:
            return False
        if total * problem.cells > SHORT_ENTRIES:
            return False
    return len(problem.terms) == 1 or total * 2 <= problem.cells or problem.cells > DENSE_CELLS


def _solve_short(problem: Problem, gap: float) -> Solution:
    root = short_root(problem)
    rank, n = root.shape
    blocks = [RootBlock(root, np.arange(n, dtype=np.int64))]
    found = solve_blocks(blocks, np.ones(n), gap, polish(rank, n))
    rows = strategy_rows(blocks[0], found.point.eigen[0], found.point.peak)
    return _solution(problem, rows, found, f"fixed point, rank {rank} of {n}")


def _solve_dense(problem: Problem, gap: float) -> Solution:
    gram, span = dense_gram(problem), span_gram(problem)
    symmetry = find_symmetry(problem.shape, gram, span)
    pairs = [(s, dense_root(s.restrict(gram), s.restrict(span))) for s in symmetry.blocks]
    pairs = [(s, root) for s, root in pairs if len(root)]
    blocks = [RootBlock(root, s.orbits) for s, root in pairs]
    largest = max(len(b.root) for b in blocks)
    found = solve_blocks(blocks, symmetry.sizes, gap, polish(largest, largest))
    rows = [
        s.expand(strategy_rows(b, e, found.point.peak))
        for (s, _), b, e in zip(pairs, blocks, found.point.eigen, strict=True)
    ]
    label = f"fixed point, dense{f' in {len(blocks)} symmetric blocks' if len(blocks) > 1 else ''}"
    return _solution(problem, np.concatenate(rows), found, label)


def _solution(problem: Problem, rows: Array, found: FixedPoint, label: str) -> Solution:
    strategy = KroneckerStrategy.dense(problem.shape, rows)
    return Solution(strategy, found.point.loss, found.bound, label)
