"""Answers of a release, with standard errors."""
