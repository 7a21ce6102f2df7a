"""From syntax tree to canonical text."""
