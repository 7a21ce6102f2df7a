"""Releases of older formats as documents of the newest one, a step for each format.

A step adds what the format before it could not say, with the value that its releases had. The hashes of plan and schema
that a release states are checked against what its file holds, and restated where a step changes what they are hashes
of: so a release that was read can be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from qcompile.errors import StorageError
from qcompile.plan.document import content_hash
from qcompile.plan.upgrades import upgrade_plan
from qcompile.release.values import MEASURED, cuts, name
from qcompile.support.json_fields import Field

Document = Mapping[str, Any]

PLAN_FORMATS = {1: 1, 2: 2, 3: 3, 4: 3, 5: 3, 6: 4, 7: 5}
"""Per format of a release, that of the plan in it."""

OLDEST = min(PLAN_FORMATS)
"""The oldest format of releases that is read: the first that there was."""

LAST_IN_ONE = 4
"""The last format with all measurements in a single array."""

LAST_OLD_HASHES = 2
"""The last format whose schema hash leaves out the mark of a schema that was read from data."""


def _add_unit(release: Document) -> Document:
    """2 to 3: no column told privacy units apart."""
    return _with_terms(release, unit=None)


def _add_history(release: Document) -> Document:
    """3 to 4: every release was a batch."""
    return {"history": None, **_with_terms(release, mechanism="batch", reference="auto")}


def _keep(release: Document) -> Document:
    """Steps that change the plan or the arrays alone, or allow further terms: 6 to 7, a column of counts."""
    return release


STEPS: dict[int, Callable[[Document], Document]] = {
    1: _keep, 2: _add_unit, 3: _add_history, 4: _keep, 5: _keep, 6: _keep,
}  # fmt: skip
"""By the format that a step begins with."""


def upgrade_release(release: Document, version: int) -> Document:
    """Return a release as the newest format writes it.

    Args:
      release: the document of a release file.
      version: its format.

    Raises:
      StorageError: it is no release of that format, or states the hash of another plan or schema.
    """
    plan = Field(release).read_mapping().get("plan", Field(None)).read_mapping()
    old = {member: field.value for member, field in plan.items()}
    upgraded = upgrade_plan(old, PLAN_FORMATS[version])
    if version <= LAST_OLD_HASHES:
        _check_old_hashes(release, old)
        release = {**release, "provenance": {**release["provenance"], **_hashes(upgraded)}}
    release = {**release, "plan": upgraded}
    for number, step in STEPS.items():
        if number >= version:
            release = step(release)
    return release


def _with_terms(release: Document, **terms: Any) -> Document:
    """A release with further terms, where its own do not say."""
    stated = Field(release).read_mapping().get("provenance", Field(None)).read_mapping()
    return {**release, "provenance": {**terms, **{term: field.value for term, field in stated.items()}}}


def _check_old_hashes(release: Document, plan: Document) -> None:
    terms = _with_terms(release)["provenance"]
    schema = _schema(plan)
    if terms.get("plan_hash") != content_hash(plan) or terms.get("schema_hash") != content_hash(schema):
        raise StorageError("the release states another plan or schema than it holds; measure again")


def _hashes(plan: Document) -> dict[str, str]:
    return {"plan_hash": content_hash(plan), "schema_hash": content_hash([_schema(plan), False])}


def _schema(plan: Document) -> Any:
    """The attributes of a plan's schema."""
    workload = Field(plan).read_mapping().get("workload", Field(None)).read_mapping()
    return workload.get("schema", Field(None)).value


def upgrade_measurements(
    arrays: Mapping[str, npt.NDArray[Any]], rows: Sequence[int], version: int
) -> Mapping[str, npt.NDArray[Any]]:
    """Return the measurements in parts, cut as the newest format cuts them.

    Args:
      arrays: the measurements of a file, by name.
      rows: number of measurements per node.
      version: the file's format.

    Raises:
      StorageError: there are no measurements, or not as many as the plan has.
    """
    if version > LAST_IN_ONE:
        return arrays
    whole = arrays.get(MEASURED.removesuffix("/"))
    if whole is None or whole.shape != (sum(rows),):
        raise StorageError("the file has measurements that do not fit its plan; measure again")
    ends = np.cumsum([0, *rows])
    return {name(i): whole[ends[part.start] : ends[part.stop]] for i, part in enumerate(cuts(rows))}
