"""The papers' own routes, to compare with."""
