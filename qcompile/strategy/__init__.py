"""Strategies: what is measured on a node, and everything that follows from it."""

from qcompile.strategy.base import Strategy
from qcompile.strategy.fourier import FourierStrategy
from qcompile.strategy.kronecker import KroneckerStrategy, Part
from qcompile.strategy.mixture import MixtureStrategy

__all__ = ["FourierStrategy", "KroneckerStrategy", "MixtureStrategy", "Part", "Strategy"]
