"""Release files: the measurements with the plan they belong to, self-contained and hashed."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from qcompile import archive
from qcompile.allocation import PUBLIC, Scale
from qcompile.codec import ArrayStore, schema_data
from qcompile.errors import StorageError
from qcompile.plan import Plan
from qcompile.privacy.budget import ACCOUNTINGS
from qcompile.release.measure import NOISES, Values
from qcompile.release.provenance import Provenance, certain_stamps
from qcompile.release.release import Release
from qcompile.storage import NOT_UNDERSTOOD, plan_data, read_plan

KIND = "qcompile release"
VERSION = 3


def save_release(release: Release, path: str | Path) -> str:
    """Write a release; returns the hash of its contents.

    Raises:
      StorageError: the file cannot be written.
    """
    return archive.write(path, KIND, VERSION, *_contents(release))


def fill(path: Path, release: Release) -> str:
    """Write a release into a file that nobody reads yet; returns the hash of its contents.

    Raises:
      StorageError: the disk refuses.
    """
    try:
        return archive.fill(path, KIND, VERSION, *_contents(release))
    except OSError as e:
        raise StorageError(f"the release cannot be written: {e.strerror or e}") from None


def _contents(release: Release) -> tuple[dict[str, Any], dict[str, Any]]:
    store = ArrayStore()
    provenance = asdict(release.provenance)
    provenance["charge"] = str(release.provenance.charge)
    document = {
        "provenance": provenance,
        "plan": plan_data(release.plan, store),
        "scales": [[s.sigma, s.grid, str(s.cost)] for s in release.scales],
    }
    return document, {"measured": _joined(release.values), **store.arrays}


def load_release(path: str | Path) -> Release:
    """Read a release.

    Raises:
      StorageError: missing, damaged, changed, of another kind or version.
    """
    document, arrays, _ = archive.read(path, KIND, VERSION)
    measured = arrays.pop("measured", None)
    if measured is None:
        raise StorageError(f"{path} holds no measurements")
    try:
        plan = read_plan(document["plan"], ArrayStore.checked(arrays))
        facts: dict[str, Any] = dict(document["provenance"])
        facts["charge"], facts["stamps"] = _fraction(facts["charge"]), tuple(map(str, facts["stamps"]))
        provenance, scales = Provenance(**facts), _scales(plan, document["scales"])
        _check_terms(plan, provenance, document["plan"])
        _check_scales(plan, provenance, scales)
        return Release(plan, provenance, scales, _split(plan, measured, provenance.noise))
    except StorageError:
        raise
    except NOT_UNDERSTOOD as e:
        raise StorageError(f"{path} does not hold a release that this version of qcompile understands") from e


def plan_hash(plan: Plan) -> str:
    """A hash of everything in a plan."""
    store = ArrayStore()
    return _hash(plan_data(plan, store))  # arrays are named by their contents


def schema_hash(plan: Plan) -> str:
    """A hash of the schema, whether it was read from the data included."""
    schema = plan.workload.schema
    return _hash([schema_data(schema), schema.read_from_data])


def _hash(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _joined(values: tuple[Values, ...]) -> Values:
    present = [v for v in values if v.size]
    return np.concatenate(present) if present else np.zeros(0)


_FRACTION = re.compile(r"[0-9]{1,4000}(/[0-9]{1,4000})?")
"""What `str` makes of a fraction; not the exponents that `Fraction` reads, too, as 1e999999999 takes a gigabyte."""


def _fraction(text: Any) -> Fraction:
    if not isinstance(text, str) or not _FRACTION.fullmatch(text):
        raise ValueError("a fraction is two whole numbers")
    return Fraction(text)


def _scales(plan: Plan, data: list[list[Any]]) -> tuple[Scale, ...]:
    scales = tuple(Scale(float(sigma), float(grid), _fraction(cost)) for sigma, grid, cost in data)
    if len(scales) != len(plan.solutions) or not all(0 <= s.sigma < math.inf for s in scales):
        raise ValueError("the noise scales do not fit the plan")
    return scales


def _check_terms(plan: Plan, provenance: Provenance, plan_document: object) -> None:
    """The terms must be the plan's own, and the warnings that follow from them be there."""
    options = plan.options
    if not isinstance(provenance.unit, str | None):
        raise ValueError("a unit is the name of a column")
    texts = (provenance.version, provenance.budget, *provenance.stamps)
    if not all(isinstance(t, str) and t.isprintable() for t in texts):
        raise ValueError("terms are printable text")
    if provenance.plan_hash != _hash(plan_document) or provenance.schema_hash != schema_hash(plan):
        raise StorageError("the release states another plan or schema than it holds; measure again")
    certain = set(certain_stamps(plan, provenance.noise))
    if provenance.accounting not in ACCOUNTINGS or not certain <= set(provenance.stamps):
        raise ValueError("there is no such accounting, or a warning is missing")
    if (provenance.neighbours, provenance.contributions) != (options.neighbours, options.contributions):
        raise StorageError("the release states another privacy unit than its plan; measure again")
    if provenance.noise not in NOISES or provenance.charge <= 0:
        raise ValueError("there is no such noise, or nothing was charged")


def _check_scales(plan: Plan, provenance: Provenance, scales: tuple[Scale, ...]) -> None:
    """The noise that the file claims must be what its plan and its charge give, whoever wrote it.

    Costs are computed anew from the strategies; only what rounding may change from machine to machine is let through.
    """
    expected = plan.scales(provenance.charge)
    total = sum((s.cost * m for s, m in zip(scales, plan.closure.members.tolist(), strict=True)), Fraction(0))
    pairs = zip(scales, expected, strict=True)
    if total > 2 * provenance.charge or not all(_agree(s, e, provenance.noise) for s, e in pairs):
        raise StorageError(
            "the noise scales of the release contradict its charge; its standard errors and its privacy cannot both be "
            "as stated: measure again"
        )


SLACK = 1e-9
"""Relative: costs and scales agree to rounding errors only where another machine adds numbers in another order."""


def _agree(found: Scale, expected: Scale, noise: str) -> bool:
    if PUBLIC in (found, expected):
        return found == expected
    if abs(found.cost / expected.cost - 1) > SLACK:
        return False
    if noise == "opendp":  # enlarged until OpenDP's own accounting agrees, and not rounded to a grid
        return found.grid == 0 and found.sigma >= expected.sigma * (1 - SLACK)
    power_of_two = math.frexp(found.grid)[0] == 0.5
    return power_of_two and 256 <= found.sigma / found.grid < 512 and abs(found.sigma / expected.sigma - 1) <= SLACK


def _split(plan: Plan, measured: Values, noise: str) -> tuple[Values, ...]:
    """Cut the joined measurements at the nodes' numbers of rows."""
    rows = [s.rows for s in plan.strategies]
    counts = [rows[c] if c >= 0 else 0 for c in plan.closure.class_of.tolist()]
    if measured.shape != (sum(counts),) or measured.dtype != (np.int64 if noise == "rounded" else np.float64):
        raise ValueError("the measurements do not fit the plan and its noise")
    if not np.isfinite(measured).all():
        raise ValueError("measurements are finite")
    ends = np.cumsum(counts)
    return tuple(measured[e - n : e] for e, n in zip(ends, counts, strict=True))
