"""Release files: the measurements with the plan they belong to, self-contained and hashed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from qcompile import archive
from qcompile.adaptive.basis import basis_strategies
from qcompile.adaptive.references import REFERENCES
from qcompile.allocation import Scale
from qcompile.codec import ArrayStore, schema_data
from qcompile.errors import StorageError
from qcompile.plan import Plan
from qcompile.privacy.budget import ACCOUNTINGS
from qcompile.release.measure import NOISES, Values
from qcompile.release.provenance import MECHANISMS, Provenance, certain_stamps
from qcompile.release.release import Release
from qcompile.release.rounds import history_data, read_history
from qcompile.release.scales import agree, read_fraction, read_scale, scale_data
from qcompile.storage import NOT_UNDERSTOOD, plan_data, read_plan

KIND = "qcompile release"
VERSION = 4


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
        "scales": [scale_data(s) for s in release.scales],
        "history": None if release.history is None else history_data(release.history),
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
        facts["charge"], facts["stamps"] = read_fraction(facts["charge"]), tuple(map(str, facts["stamps"]))
        provenance = Provenance(**facts)
        _check_terms(plan, provenance, document["plan"])
        read = _read_batch if provenance.mechanism == "batch" else _read_adaptive
        return read(plan, provenance, document, measured)
    except StorageError:
        raise
    except NOT_UNDERSTOOD as e:
        raise StorageError(f"{path} does not hold a release that this version of qcompile understands") from e


def _read_batch(plan: Plan, provenance: Provenance, document: dict[str, Any], measured: Values) -> Release:
    if document["history"] is not None:
        raise ValueError("a batch has no rounds")
    scales = _scales(plan, document["scales"])
    _check_scales(plan, provenance, scales)
    rows = [plan.strategies[c].rows if c >= 0 else 0 for c in plan.closure.class_of.tolist()]
    kind = np.int64 if provenance.noise == "rounded" else np.float64
    return Release(plan, provenance, scales, _split(rows, measured, kind))


def _read_adaptive(plan: Plan, provenance: Provenance, document: dict[str, Any], measured: Values) -> Release:
    if document["scales"]:
        raise ValueError("the scales of an adaptive run are in its rounds")
    terms = (provenance.charge, provenance.noise, provenance.reference)
    history = read_history(document["history"], plan, *terms)
    strategies, held = basis_strategies(plan, history.basis), {s.node for s in history.steps}
    rows = [strategies[c].rows if i in held else 0 for i, c in enumerate(plan.closure.class_of.tolist())]
    return Release(plan, provenance, (), _split(rows, measured, np.float64), history)


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


def _scales(plan: Plan, data: list[list[Any]]) -> tuple[Scale, ...]:
    scales = tuple(map(read_scale, data))
    if len(scales) != len(plan.solutions):
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
    if provenance.mechanism == "adaptive" and provenance.accounting != "zcdp":
        raise ValueError("an adaptive run is accounted in zCDP")
    if provenance.mechanism not in MECHANISMS or provenance.reference not in REFERENCES:
        raise ValueError("there is no such mechanism or reference")
    if provenance.noise not in NOISES or provenance.charge <= 0:
        raise ValueError("there is no such noise, or nothing was charged")


def _check_scales(plan: Plan, provenance: Provenance, scales: tuple[Scale, ...]) -> None:
    """The noise that the file claims must be what its plan and its charge give, whoever wrote it.

    Costs are computed anew from the strategies; only what rounding may change from machine to machine is let through.
    """
    expected = plan.scales(provenance.charge)
    total = sum((s.cost * m for s, m in zip(scales, plan.closure.members.tolist(), strict=True)), Fraction(0))
    pairs = zip(scales, expected, strict=True)
    if total > 2 * provenance.charge or not all(agree(s, e, provenance.noise) for s, e in pairs):
        raise StorageError(
            "the noise scales of the release contradict its charge; its standard errors and its privacy cannot both be "
            "as stated: measure again"
        )


def _split(rows: list[int], measured: Values, kind: type) -> tuple[Values, ...]:
    """Cut the joined measurements at the nodes' numbers of rows."""
    if measured.shape != (sum(rows),) or measured.dtype != kind:
        raise ValueError("the measurements do not fit the plan and its noise")
    if not np.isfinite(measured).all():
        raise ValueError("measurements are finite")
    ends = np.cumsum(rows)
    return tuple(measured[e - n : e] for e, n in zip(ends, rows, strict=True))
