"""Strategies: what is measured on a node, and everything that follows from it."""

from qcompile.strategy.base import Strategy
from qcompile.strategy.cosine import CosineStrategy
from qcompile.strategy.fourier import FourierStrategy
from qcompile.strategy.kronecker import KroneckerStrategy
from qcompile.strategy.mixture import MixtureStrategy
from qcompile.strategy.parts import MatrixPart, Part, ResidualPart

__all__ = [
    "CosineStrategy",
    "FourierStrategy",
    "KroneckerStrategy",
    "MatrixPart",
    "MixtureStrategy",
    "Part",
    "ResidualPart",
    "Strategy",
]
