"""The tables and workloads of the adaptive benchmarks, and how wrong estimates of them are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

import qcompile as qc
from benchmarks.adult import Table, View, adult, census2000, cps91, mean_error
from qcompile.estimates.nonnegative import nonnegative
from qcompile.support.arrays import Array

DELTA = "1e-9"


@dataclass(frozen=True)
class Setting:
    """All marginals of some size of a table.

    Attributes:
      title: for people.
      load: reads the table; takes the folder with Adult's files.
      ways: attributes of each marginal.
      seeds: runs over which errors are averaged.
    """

    title: str
    load: Callable[[Path], Table]
    ways: int
    seeds: int


def made_up(folder: Path) -> Table:
    """A skewed table of 2,000 rows and five attributes that follow from each other, for trials; reads nothing."""
    stream = np.random.default_rng(5)
    columns = {"a": stream.geometric(0.3, 2000) - 1}
    for before, after in zip("abcd", "bcde", strict=True):
        columns[after] = columns[before] + stream.integers(0, 3, 2000)
    domain = dict(zip("abcde", (4, 5, 3, 6, 4), strict=True))
    return Table(domain, {name: np.minimum(columns[name], size - 1) for name, size in domain.items()})


SETTINGS: Mapping[str, Setting] = {
    "adult-2": Setting("Adult, all 2-way marginals", adult, 2, 3),
    "adult-3": Setting("Adult, all 3-way marginals", adult, 3, 1),
    "census2000-2": Setting("census2000, all 2-way marginals", lambda folder: census2000(), 2, 3),
    "cps91-2": Setting("cps91, all 2-way marginals", lambda folder: cps91(), 2, 3),
    "made-up-2": Setting("Made up, all 2-way marginals", made_up, 2, 2),
    "made-up-3": Setting("Made up, all 3-way marginals", made_up, 3, 1),
}
"""By the name that jobs and files have."""


@dataclass(frozen=True)
class World:
    """A setting, read and compiled.

    Attributes:
      table: the data.
      ways: attributes of each marginal.
    """

    table: Table
    ways: int

    @staticmethod
    def of(name: str, folder: Path) -> World:
        """The one of a name of `SETTINGS`; Adult's files are in ``folder``."""
        return World(SETTINGS[name].load(folder), SETTINGS[name].ways)

    @cached_property
    def plan(self) -> qc.Plan:
        """All marginals of so many attributes, uniform centring."""
        names = ", ".join(f"`{name}`: marginal" for name in self.table.domain)
        schema = "".join(f"  `{name}` : integer 0..{size - 1}\n" for name, size in self.table.domain.items())
        return qc.compile(f"schema {{\n{schema}}}\nworkload {{\n  all : each {self.ways} of ({names})\n}}\n")

    def adaptive(self, epsilon: float, reference: str, seed: int) -> qc.Release:
        """An adaptive run, its noise and selections seeded."""
        data, spent = self.table.columns, budget(epsilon)
        return self.plan.run(data, spent, mechanism="adaptive", reference=reference, test_seed=seed)

    def batch(self, epsilon: float, seed: int) -> qc.Release:
        """The batch at the same budget, its noise seeded."""
        return self.plan.run(self.table.columns, budget(epsilon), test_seed=seed)

    def errors(self, estimate: Callable[[View], Array]) -> Errors:
        """Of estimates of all views, asked for one after the other.

        Args:
          estimate: a marginal by its attributes, axes in their order.
        """
        raw, projected = list[float](), list[float]()
        for view in self.plan.workload.views:
            exact, found = self.table.exact([view]), estimate(view)
            raw.append(mean_error({view: found}, exact))
            projected.append(mean_error({view: nonnegative(found, float(found.sum()))}, exact))
        return Errors(float(np.mean(raw)), float(np.mean(projected)))


@dataclass(frozen=True)
class Errors:
    """Mean over the workload's marginals of ||estimate - truth||_1 / N.

    Attributes:
      raw: of the estimates as they are.
      projected: of the nearest tables with cells >= 0 and the same total.
    """

    raw: float
    projected: float

    def __str__(self) -> str:
        return f"{self.raw:.3f} / {self.projected:.3f}"


def budget(epsilon: float) -> qc.Budget:
    """Epsilon with the page's delta."""
    return qc.Budget(epsilon=epsilon, delta=DELTA)
