"""The vocabulary of queries: one class per kind of factor."""

from qcompile.queries.factors.base import Factor
from qcompile.queries.factors.circular import Circular
from qcompile.queries.factors.explicit import Matrix, Predicate, Random
from qcompile.queries.factors.marginal import Marginal
from qcompile.queries.factors.prefix import Prefix
from qcompile.queries.factors.range import Range
from qcompile.queries.factors.threshold import Abs, Affine
from qcompile.queries.factors.whole_axis import Whole

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
