"""Encoding: from values to cells, and the choice of rows that are counted."""
