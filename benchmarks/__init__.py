"""Reproducible tables of errors, times and memory; run by hand, a small one by the tests."""
