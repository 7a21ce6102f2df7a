"""Counting engines: one small interface, `qcompile.data.counts.ExactCounts`, and several ways to fill its tables."""
