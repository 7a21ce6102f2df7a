"""Measure, reconstruct, answer: the part that sees data (`measure`), and what is made of its noisy output."""

from qcompile.release.release import Answer, Marginal, Release

__all__ = ["Answer", "Marginal", "Release"]
