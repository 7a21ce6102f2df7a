"""Release files: the measurements with the plan they belong to, self-contained and hashed."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from qcompile import archive
from qcompile.allocation import Scale
from qcompile.codec import ArrayStore, schema_data
from qcompile.errors import StorageError
from qcompile.plan import Plan
from qcompile.release.measure import Values
from qcompile.release.release import Provenance, Release
from qcompile.storage import plan_data, read_plan

KIND = "qcompile release"
VERSION = 2


def save_release(release: Release, path: str | Path) -> str:
    """Write a release; returns the hash of its contents.

    Raises:
      StorageError: the file cannot be written.
    """
    store = ArrayStore()
    provenance = asdict(release.provenance)
    provenance["charge"] = str(release.provenance.charge)
    document = {
        "provenance": provenance,
        "plan": plan_data(release.plan, store),
        "scales": [[s.sigma, s.grid, str(s.cost)] for s in release.scales],
    }
    arrays = {"measured": _joined(release.values), **store.arrays}
    return archive.write(path, KIND, VERSION, document, arrays)


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
        plan = read_plan(document["plan"], ArrayStore(arrays))
        facts: dict[str, Any] = dict(document["provenance"])
        facts["charge"], facts["stamps"] = Fraction(facts["charge"]), tuple(facts["stamps"])
        return Release(plan, Provenance(**facts), _scales(plan, document["scales"]), _split(plan, measured))
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        if isinstance(e, StorageError):
            raise
        raise StorageError(f"{path} does not hold a release that this version of qcompile understands") from e


def plan_hash(plan: Plan) -> str:
    """A hash of everything in a plan."""
    store = ArrayStore()
    return _hash(plan_data(plan, store))  # arrays are named by their contents


def schema_hash(plan: Plan) -> str:
    """A hash of the schema."""
    return _hash(schema_data(plan.workload.schema))


def _hash(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _joined(values: tuple[Values, ...]) -> Values:
    present = [v for v in values if v.size]
    return np.concatenate(present) if present else np.zeros(0)


def _scales(plan: Plan, data: list[list[Any]]) -> tuple[Scale, ...]:
    scales = tuple(Scale(float(sigma), float(grid), Fraction(cost)) for sigma, grid, cost in data)
    if len(scales) != len(plan.solutions) or not all(0 < s.sigma < math.inf and 0 <= s.grid < math.inf for s in scales):
        raise ValueError("the noise scales do not fit the plan")
    return scales


def _split(plan: Plan, measured: Values) -> tuple[Values, ...]:
    """Cut the joined measurements at the nodes' numbers of rows."""
    rows = [s.rows for s in plan.strategies]
    counts = [rows[c] if c >= 0 else 0 for c in plan.closure.class_of.tolist()]
    if measured.shape != (sum(counts),) or measured.dtype.kind not in "if":
        raise ValueError("the number of measurements does not fit the plan")
    ends = np.cumsum(counts)
    return tuple(measured[e - n : e] for e, n in zip(ends, counts, strict=True))
