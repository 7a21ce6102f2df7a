"""Randomness, noise and private selection."""
