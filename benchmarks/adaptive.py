"""Adaptive runs: what they cost, how wrong they are, and beside what.

``python benchmarks/adaptive.py [--quick] [--pgm FILE.json] [-o FILE.md]``

Plots are written beside the page. A full run takes some 20 minutes on two cores; AIM with Private-PGM, which takes
longer, is measured by ``benchmarks/pgm.py`` and read from its file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import ablation, costs, curves, inaxis, pgm
from benchmarks.adult import ADULT
from benchmarks.fresh import Job, Run, fresh
from benchmarks.report import page, write
from benchmarks.settings import DELTA
from benchmarks.targets import Target, listed

INTRODUCTION = f"""\
Errors are *L1/N*: the mean over the workload's marginals of ||estimate - truth||_1 / N, N the number of rows; *raw*
of estimates as they are, *projected* of the nearest tables with cells from 0 and the same total. Delta is {DELTA}.
Noise and selections are those of any run, but seeded, so that errors can be repeated (and nobody is protected).
Tables: Adult, 48,842 rows of 14 attributes coded as in McKenna et al. 2022; census2000, 29,501 rows of five
attributes, and cps91, 5,634 rows of ten, coded in `benchmarks/adult.py`. Two choices of
the mechanism were made by errors on these very tables: the order of the entropy that counts effective cells (all three
tables), and the weights of candidates (Adult). Sections say what they compare; a target that is not met says so."""

MISSING = """\
## AIM with Private-PGM

Not measured yet: `python benchmarks/pgm.py` (with the extra `bench`) takes about an hour and leaves its results in
`benchmarks/results/pgm.json`, from where this page takes them."""


@dataclass(frozen=True)
class Scope:
    """What a page is about.

    Attributes:
      large: the setting with many cells, of the ablation and the costs.
      small: the setting of the seeds.
      curves: settings.
      epsilons: of the curves.
      ablation: epsilons of the ablation.
      seeds: number of seeds for the small setting.
    """

    large: str
    small: str
    curves: Sequence[str]
    epsilons: Sequence[float]
    ablation: Sequence[float]
    seeds: int


FULL = Scope("adult-3", "adult-2", ("adult-2", "adult-3", "census2000-2", "cps91-2"), curves.EPSILONS, (10.0, 1.0), 10)
QUICK = Scope("made-up-3", "made-up-2", ("made-up-2",), (1.0, 10.0), (1.0,), 2)

EPSILON = 1.0
"""Of the seeds, and of what Private-PGM is compared at."""


def sections(
    run_jobs: Run, scope: Scope, folder: Path, images: Path, prefix: str, results: Sequence[Mapping[str, Any]]
) -> list[str]:
    """All sections, measured now but for Private-PGM.

    Args:
      run_jobs: how.
      scope: what.
      folder: with Adult's files.
      images: the folder for plots.
      prefix: of their names.
      results: of `benchmarks.pgm.measure`; none where they were not measured.
    """
    found = curves.measured(run_jobs, scope.curves, folder, scope.epsilons)
    job = Job(f"{scope.seeds} seeds", costs.spread, (scope.small, folder, EPSILON, scope.seeds))
    spread = run_jobs([job], 1)[0]
    return [
        ablation.section(run_jobs, scope.large, folder, scope.ablation),
        curves.section(found, images, prefix),
        costs.section(run_jobs, scope.large, scope.small, folder),
        costs.spread_section(spread, scope.small, EPSILON),
        inaxis.section(scope is QUICK),
        beside(results, spread),
    ]


def beside(results: Sequence[Mapping[str, Any]], spread: costs.Spread) -> str:
    """Private-PGM and the seeds of the adaptive run beside each other, as Markdown.

    Args:
      results: of `benchmarks.pgm.measure`.
      spread: of the same workload at the epsilon `EPSILON`.
    """
    same = [r for r in results if r["epsilon"] == EPSILON]
    if not same:
        return MISSING
    ours, error = float(np.mean(spread.seconds)), float(np.mean(spread.errors))
    goals = [
        Target(
            f"times as fast as with a model limit of {r['model_mb']:g} MB ({r['cpu']:.0f} s of processor time, "
            f"{r['seconds']:.0f} s on a machine that did other work, too; error {r['error']:.4f})",
            min(r["seconds"], r["cpu"]) / ours,
            at_least=100,
        )
        for r in same
    ]
    text = (
        f"An adaptive run with the reference auto answers the same workload at the same budget in {ours:.3f} s, with\n"
        f"all estimates, at a mean error of {error:.4f} (the section on seeds). That is:"
    )
    return "\n\n".join([pgm.section(results), text, listed(goals)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the page and its plots."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a small made-up table alone")
    parser.add_argument("--data", type=Path, default=ADULT, help="the folder with adult.csv and adult-domain.json")
    parser.add_argument("--pgm", type=Path, default=pgm.RESULTS, help="results of benchmarks/pgm.py")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the page; plots are written beside it")
    chosen = parser.parse_args(arguments)
    scope = QUICK if chosen.quick else FULL
    results = json.loads(chosen.pgm.read_text()) if scope is FULL and chosen.pgm.exists() else []
    where = (chosen.output.parent, chosen.output.stem)
    write(page("Adaptive runs", [INTRODUCTION], sections(fresh, scope, chosen.data, *where, results)), chosen.output)


if __name__ == "__main__":
    main()
