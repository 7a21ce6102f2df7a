"""Counting engines: one interface, `qcompile.data.engines.counts.ExactCounts`, and several ways to fill its tables."""
