"""From text to syntax tree, with every error at its place."""
