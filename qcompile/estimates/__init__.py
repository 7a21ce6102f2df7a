"""Estimates of marginals from noisy measurements, and models of what was not measured."""
