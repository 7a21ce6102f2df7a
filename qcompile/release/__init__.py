"""Measure, reconstruct, answer: the part that sees data (`measure`), and what is made of its noisy output."""

from qcompile.release.answers.results import Answer, Marginal
from qcompile.release.release import Release

__all__ = ["Answer", "Marginal", "Release"]
