"""Formats and connections that rows come from."""
