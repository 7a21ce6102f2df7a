"""Solvers: from the numeric problem of one class of nodes to a strategy with a certificate."""

from qcompile.solvers.solution import Solution
from qcompile.solvers.solver import SOLVERS, solve

__all__ = ["SOLVERS", "Solution", "solve"]
