"""The optimal strategy as a semidefinite program, by CVXPY: Clarabel first, then SCS. The independent route.

With G = R' R the problem is ``min tr(Z)`` over ``[[V, R'], [R, Z]]`` positive semidefinite, ``diag V <= 1`` (optimal
matrix mechanism, Yuan et al. 2016; QuerySmasher, arXiv 2604.00868, equation 4). An optimal V has the row space of R:
with ``R = T diag(s) U`` (singular values) and ``w = diag(s)^1/2 U`` it is ``V = w' X w``, and the program becomes

    min sum_i s_i Z_ii   over   [[X, I], [I, Z]] psd,   w_j' X w_j <= 1 for every cell j,

a cone of twice the rank instead of cells plus rank. With the scale ``sum s = cells``, X and Z are near the identity:
SCS needs a hundred iterations where it needed thousands.

Nothing that a conic solver reports is believed. V is scaled to unit cost and its loss computed as any other strategy's;
the multipliers of ``diag V <= 1``, made non-negative with sum 1, are a mu whose S(mu)^2 is a proven lower bound
(`certificate`). The status only decides what the result is called and whether another solver is asked.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from qcompile.errors import OptionError
from qcompile.lattice.lattice import Problem
from qcompile.solvers.bounds.roots import dense_gram, dense_root, short_root, span_gram, term_rank
from qcompile.solvers.exact import certificate
from qcompile.solvers.exact.certificate import RootBlock, evaluate
from qcompile.solvers.route import Route, RouteOptions, solve_total
from qcompile.solvers.solution import Solution
from qcompile.strategy import KroneckerStrategy
from qcompile.support.arrays import Array

CONIC_RANK = 200
"""Rank of a node of that many cells up to which the program is solved: 25 seconds of SCS."""

CONIC_ENTRIES = CONIC_RANK**3 // 2
"""Coefficients of the constraints, cells * rank^2 / 2, up to which the program is solved."""

CONIC_CELLS = 1000
"""Cells at low rank up to which the program is solved: 15 seconds for abs on 30 x 30 cells."""

OUTCOMES: Mapping[str, str] = {
    "optimal": "optimal",
    "optimal_inaccurate": "inaccurate",
    "user_limit": "inaccurate",
    "infeasible": "failed",
    "infeasible_inaccurate": "failed",
    "unbounded": "failed",
    "unbounded_inaccurate": "failed",
    "infeasible_or_unbounded": "failed",
    "solver_error": "failed",
}
"""The meaning of each status of CVXPY; `outcome` has the rule for any other."""


def outcome(status: str) -> str:
    """One of "optimal", "inaccurate", "failed"; a status unknown here promises nothing, so it is "inaccurate"."""
    return OUTCOMES.get(status, "inaccurate")


@dataclass(frozen=True, slots=True)
class Backend:
    """A conic solver.

    Attributes:
      name: for people.
      solver: CVXPY's name.
      rank: the largest rank it is asked for.
      tolerances: its options that take the tolerance.
      options: its other options.
      finest: the smallest tolerance it is asked for.
      coarsest: the largest.
    """

    name: str
    solver: str
    rank: int
    tolerances: tuple[str, ...]
    options: Mapping[str, int]
    finest: float
    coarsest: float

    def settings(self, gap: float) -> dict[str, float]:
        """Its options for a wanted certified gap, which is normally a tenth of the tolerance or less."""
        tolerance = min(max(gap / 10, self.finest), self.coarsest)
        return {**dict.fromkeys(self.tolerances, tolerance), **self.options}


BACKENDS = (
    # It factors a dense matrix of order 2 rank^2: 1 s at rank 20, 3 s at 30, 9 s at 40. One thread, so that the
    # result does not depend on the machine. Its last digits cost two iterations: they are always asked for.
    Backend("Clarabel", "CLARABEL", 32, ("tol_gap_abs", "tol_gap_rel", "tol_feas"), {"max_threads": 1}, 1e-8, 1e-8),
    Backend("SCS", "SCS", CONIC_RANK, ("eps_abs", "eps_rel"), {"max_iters": 5000}, 1e-9, 1e-6),
)


@dataclass(frozen=True, eq=False)
class Posed:
    """The program of one problem.

    Attributes:
      values: s, the singular values of R scaled to sum to the number of cells; ``(rank,)``.
      columns: w, ``(rank, cells)``.
      dual: R itself, for the certificate.
    """

    values: Array
    columns: Array
    dual: certificate.DualProblem


@dataclass(frozen=True, eq=False)
class ConicResult:
    """The unverified result of a conic solver.

    Attributes:
      status: CVXPY's word for it.
      x: X, ``(rank, rank)``; None where there is none.
      mu: multipliers of the cells' constraints, ``(cells,)``; None where there are none.
    """

    status: str
    x: Array | None
    mu: Array | None


@dataclass(frozen=True, eq=False)
class Conic(Route):
    """The optimal strategy of one problem by a conic solver, certified independently of it.

    Attributes:
      gap: the certified relative gap above which a second solver is tried.
    """

    name: ClassVar[str] = "conic"
    option: ClassVar[str | None] = "conic"
    one_thread: ClassVar[bool] = True  # CVXPY keeps state of its own

    gap: float = 1e-3

    @classmethod
    def of(cls, options: RouteOptions) -> Self:
        """With the gap."""
        return cls(options.gap)

    def why_not(self, problem: Problem) -> str | None:
        """A reason where the program is too large."""
        rank = _rank_at_most(problem)
        if problem.cells <= CONIC_CELLS and problem.cells * rank * rank // 2 <= CONIC_ENTRIES:
            return None
        limits = f"conic limit {CONIC_RANK} cells at full rank, {CONIC_CELLS} at low rank"
        return f"{problem.cells} cells at rank {rank}, {limits}"

    def solve(self, problem: Problem) -> Solution:
        """The best of the solvers' strategies by certified gap.

        Its label names the solver, with "inaccurate" behind it where the solver did not call its result optimal;
        `Solution.refused` has the others, with the reasons.

        Raises:
          SizeError: the program is too large.
          OptionError: no solver returned a strategy that spans the queries.
        """
        self.require(problem)
        return _solve(problem, self.gap) if problem.shape else solve_total(problem)


def _solve(problem: Problem, gap: float) -> Solution:
    """Ask the solvers in turn until one certifies the gap."""
    posed = _pose(problem)
    solutions: list[Solution] = []
    refused: list[tuple[str, str]] = []
    for backend in BACKENDS:
        if len(posed.values) > backend.rank:
            refused.append((f"conic, {backend.name}", f"rank {len(posed.values)}, limit {backend.rank}"))
            continue
        answer = _ask(posed, backend, gap)
        solution = _certify(problem, posed, answer, backend.name)
        if solution is None:
            refused.append((f"conic, {backend.name}", f"status {answer.status!r} without a usable strategy"))
            continue
        solutions.append(solution)
        if outcome(answer.status) == "optimal" and solution.gap <= gap:
            break
    return _best(problem, solutions, refused)


def _best(problem: Problem, solutions: list[Solution], refused: list[tuple[str, str]]) -> Solution:
    """The smallest certified gap; the others become refusals."""
    if not solutions:
        tried = "; ".join(f"{label}: {reason}" for label, reason in refused)
        raise OptionError(
            f"solver='conic' found no strategy for a node of {problem.cells} cells ({tried}); "
            "use solver='exact' or 'auto'"
        )
    best = min(solutions, key=lambda s: s.gap)
    lost = [(s.solver, f"certified gap {s.gap:.1e}") for s in solutions if s is not best]
    return replace(best, refused=(*refused, *lost))


def _rank_at_most(problem: Problem) -> int:
    return min(problem.cells, sum(term_rank(t) for t in problem.terms))


def _pose(problem: Problem) -> Posed:
    """R on the span of the terms, and its scaled singular value decomposition."""
    short = len(problem.terms) == 1 or _rank_at_most(problem) < problem.cells
    root = short_root(problem) if short else dense_root(dense_gram(problem), span_gram(problem))
    _, values, rows = np.linalg.svd(root, full_matrices=False)
    values = values * (problem.cells / values.sum())
    dual = certificate.DualProblem((RootBlock(root, np.arange(problem.cells)),), np.ones(problem.cells))
    return Posed(values, np.sqrt(values)[:, None] * rows, dual)


def _ask(posed: Posed, backend: Backend, gap: float) -> ConicResult:
    """One solver's answer, whatever its status; its warnings about accuracy are statuses and need no second channel."""
    import cvxpy as cp

    w, rank = posed.columns, len(posed.values)
    x, z = (cp.Variable((rank, rank), symmetric=True) for _ in range(2))
    costs = cp.sum(cp.multiply(w, x @ w), axis=0) <= 1
    cone = cp.bmat([[x, np.eye(rank)], [np.eye(rank), z]]) >> 0
    program = cp.Problem(cp.Minimize(posed.values @ cp.diag(z) / posed.values.sum()), [costs, cone])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program.solve(solver=backend.solver, verbose=False, **backend.settings(gap))
    except cp.SolverError:
        return ConicResult("solver_error", None, None)
    return ConicResult(str(program.status), x.value, costs.dual_value)


def _certify(problem: Problem, posed: Posed, answer: ConicResult, name: str) -> Solution | None:
    """The strategy of an answer with its true loss and a proven bound; None where it does not span the queries."""
    word = outcome(answer.status)
    rows = None if word == "failed" or answer.x is None else _rows(posed, answer.x)
    if rows is None:
        return None
    strategy = KroneckerStrategy.dense(problem.shape, rows)
    if strategy.rank < len(posed.values):
        return None
    loss = sum(t.weighted * strategy.trace(t.groups) for t in problem.terms)
    bound = evaluate(posed.dual, _weights(answer.mu, problem.cells)).bound
    return Solution(strategy, loss, bound, f"conic, {name}" + ("" if word == "optimal" else f", {word}"))


def _rows(posed: Posed, x: Array) -> Array | None:
    """B of full row rank with unit cost, ``(rank, cells)``, from X projected on the positive definite cone.

    None where X has a direction without any weight: nothing could be answered there.
    """
    if not np.isfinite(x).all():
        return None
    values, vectors = np.linalg.eigh((x + x.T) / 2)
    if values[0] <= len(values) * certificate.EPS * values[-1]:
        return None
    rows = np.sqrt(values)[:, None] * (vectors.T @ posed.columns)
    return np.asarray(rows / np.sqrt((rows * rows).sum(axis=0).max()))


def _weights(mu: Array | None, cells: int) -> Array:
    """Multipliers as weights on the cells, non-negative with sum 1; uniform where there are none."""
    weights = np.zeros(cells) if mu is None else np.maximum(np.nan_to_num(mu, posinf=0.0, neginf=0.0), 0.0)
    total = weights.sum()
    return np.asarray(weights / total) if total > 0 else np.full(cells, 1 / cells)
