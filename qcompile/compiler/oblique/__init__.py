"""The search for oblique nodes: what maximal nodes measure of the nodes below them."""
