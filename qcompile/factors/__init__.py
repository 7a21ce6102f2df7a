"""The vocabulary of queries: one class per kind of factor."""

from qcompile.factors.base import Factor
from qcompile.factors.circular import Circular
from qcompile.factors.explicit import Matrix, Predicate, Random
from qcompile.factors.marginal import Marginal
from qcompile.factors.prefix import Prefix
from qcompile.factors.range import Range
from qcompile.factors.threshold import Abs, Affine
from qcompile.factors.whole import Whole

__all__ = [
    "Abs",
    "Affine",
    "Circular",
    "Factor",
    "Marginal",
    "Matrix",
    "Predicate",
    "Prefix",
    "Random",
    "Range",
    "Whole",
]
