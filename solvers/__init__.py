"""Solvers: from the numeric problem of one class of nodes to a strategy with a certificate."""

from qcompile.solvers.choose import SOLVERS, solve
from qcompile.solvers.solution import Solution

__all__ = ["SOLVERS", "Solution", "solve"]
