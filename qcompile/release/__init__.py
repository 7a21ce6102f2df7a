"""Measure, reconstruct, answer: the part that sees data (`measure`), and what is made of its noisy output."""

from qcompile.release.release import Release
from qcompile.release.results import Answer, Marginal

__all__ = ["Answer", "Marginal", "Release"]
