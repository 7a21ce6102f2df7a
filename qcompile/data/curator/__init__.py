"""CONFIDENTIAL facts for the curator of the data alone."""
