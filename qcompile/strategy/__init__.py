"""Strategies: what is measured on a node, and everything that follows from it."""

from qcompile.strategy.base import Strategy
from qcompile.strategy.fourier import FourierStrategy
from qcompile.strategy.kronecker import KroneckerStrategy, Part

__all__ = ["FourierStrategy", "KroneckerStrategy", "Part", "Strategy"]
