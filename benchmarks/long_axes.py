"""Compile time, peak memory, error and certified gap of prefixes and ranges over one long axis.

``python benchmarks/long_axes.py [-o FILE.md]``
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.growth import INTRODUCTION, run, section
from benchmarks.measure import Job
from benchmarks.report import megabytes, page, write
from benchmarks.series import LONG_AXES
from benchmarks.workloads import products

BELOW = """\
Below 512 values the optimum of a prefix is computed densely; from there on the cosine basis is taken. The gap is
certified, and that of the plan: of the squared error, at the default tolerance of 1e-3."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print every series."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("-o", "--output", type=Path, help="write the page to this file instead of printing it")
    chosen = parser.parse_args(arguments)
    baseline = float(run("start-up", Job(products("prefix", 2, 1, "1"))).values["peak"])
    sections = [section(s, None, baseline) for s in LONG_AXES]
    introduction = [INTRODUCTION.format(baseline=megabytes(baseline)), BELOW]
    write(page("Long axes", introduction, sections), chosen.output)


if __name__ == "__main__":
    main()
