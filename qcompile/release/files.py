"""Release files: the measurements with the plan they belong to, self-contained and hashed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from qcompile.adaptive.history import History
from qcompile.errors import BudgetError, InternalError, StorageError
from qcompile.plan.basis import basis_strategies
from qcompile.plan.document import PlanDocument, content_hash
from qcompile.plan.encoding import ArrayStore, schema_data
from qcompile.plan.files import read_plan
from qcompile.plan.plan import Plan
from qcompile.privacy.noise.scale import Scale
from qcompile.release.provenance import Provenance, certain_stamps
from qcompile.release.read_provenance import read_provenance
from qcompile.release.release import Release
from qcompile.release.rounds import history_data, read_history
from qcompile.release.scales import is_composed_jointly, read_scale, scale_data, scales_agree
from qcompile.release.upgrades import OLDEST, upgrade_measurements, upgrade_release
from qcompile.release.values import IN_MEMORY, MEASURED, StoredValues, is_measured, parts
from qcompile.support import archive
from qcompile.support.files import replacing
from qcompile.support.json_fields import Field

KIND = "qcompile release"
VERSION = 7
"""Version 6 lacked the column of counts, and residual bases that are not written out."""


def save_release(release: Release, path: str | Path) -> str:
    """Write a release; returns the hash of its contents.

    Raises:
      StorageError: the file cannot be written.
    """
    with replacing(path) as temporary:
        return fill(temporary, release, PlanDocument.of(release.plan))


def fill(
    path: Path,
    release: Release,
    plan: PlanDocument,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> str:
    """Write a release into a file that nobody reads yet, a part at a time; returns the hash of its contents.

    Args:
      path: the file.
      release: its contents.
      plan: the release's plan, serialised.
      progress: called before every part with the number done and of all.

    Raises:
      StorageError: the disk refuses.
    """
    rows = rows_of(release.plan, release.history)
    try:
        measured = parts(rows, release.values, progress)
        return archive.fill(path, KIND, VERSION, _contents(release, plan), dict(plan.arrays), measured)
    except OSError as e:
        raise StorageError(f"the release cannot be written: {e.strerror or e}") from None


def _contents(release: Release, plan: PlanDocument) -> dict[str, Any]:
    return {
        "provenance": release.provenance.data(),
        "plan": dict(plan.data),
        "scales": [scale_data(s) for s in release.scales],
        "history": None if release.history is None else history_data(release.history),
    }


def load_release(path: str | Path) -> Release:
    """Read a release; of a large one the terms and the plan only, and the rest when it is asked for.

    Raises:
      StorageError: missing, damaged, changed, of another kind or version.
    """
    file = archive.Archive.open(path, KIND, VERSION, OLDEST)
    upgraded = upgrade_release(file.document, file.version)
    document = Field(upgraded).read_object("provenance", "plan", "scales", "history")
    arrays, measured = _read(file)
    plan = read_plan(document["plan"], ArrayStore.check(arrays))
    provenance = read_provenance(document["provenance"])
    plan = replace(plan, counted=provenance.counted)
    _check_terms(plan, provenance, document["plan"].value)
    scales, history = _scales_and_history(plan, provenance, document)
    rows = rows_of(plan, history)
    measured = upgrade_measurements(measured, rows, file.version)
    values = StoredValues(measured, rows, is_whole(provenance), path)
    # Of few measurements all are looked at now, so that a file that does not fit is refused now.
    return Release(plan, provenance, scales, tuple(values) if isinstance(measured, dict) else values, history)


def stated_plan_hash(path: str | Path) -> str:
    """The hash of the plan as a release file states it; the formats 1 and 2 state that of a plan in their own form.

    Raises:
      StorageError: it is no release.
    """
    with archive.Archive.open(path, KIND, VERSION, OLDEST) as file:
        terms = Field(file.document).read_mapping().get("provenance", Field(None)).read_mapping()
    return terms.get("plan_hash", Field(None)).read_text()


def _read(file: archive.Archive) -> tuple[archive.Arrays, archive.Arrays]:
    """The plan's arrays, and the measurements: of a large file each of these when it is looked up."""
    if sum(map(file.size, file.names)) > IN_MEMORY:
        return file.arrays(name for name in file.names if not is_measured(name)), file.lazy(MEASURED.rstrip("/"))
    arrays = file.arrays(file.names)  # all of them verified before one is looked into
    file.close()
    measured = {name: array for name, array in arrays.items() if is_measured(name)}
    return {name: array for name, array in arrays.items() if name not in measured}, measured


def is_whole(provenance: Provenance) -> bool:
    """True if measurements are whole multiples of a grid."""
    return provenance.noise == "rounded" and provenance.mechanism == "batch"


def _scales_and_history(
    plan: Plan, provenance: Provenance, document: dict[str, Field]
) -> tuple[tuple[Scale, ...], History | None]:
    """The scales of a batch, or what an adaptive run did."""
    stated, history = document["scales"].read_list(), document["history"]
    if provenance.mechanism == "adaptive":
        if stated:
            document["scales"].refuse("empty: the scales of an adaptive run are in its rounds")
        return (), read_history(history, plan, provenance.charge, provenance.noise, provenance.reference)
    if history.value is not None:
        history.refuse("null: a batch has no rounds")
    scales = tuple(map(read_scale, stated))
    if len(scales) != len(plan.solutions):
        document["scales"].refuse("one noise scale for each solution of the plan")
    _check_scales(plan, provenance, scales)
    return scales, None


def written(path: Path, release: Release) -> Release:
    """A release whose measurements are read from the file that it was written to.

    Raises:
      StorageError: they cannot be.
    """
    _, measured = _read(archive.Archive.open(path, KIND, VERSION))
    values = StoredValues(measured, rows_of(release.plan, release.history), is_whole(release.provenance), path)
    return replace(release, values=values)


def rows_of(plan: Plan, history: History | None = None) -> list[int]:
    """Number of measurements of each node, by position; 0 where it is not measured."""
    class_of = plan.closure.class_of.tolist()
    if history is None:
        return [plan.strategies[c].rows if c >= 0 else 0 for c in class_of]
    strategies, held = basis_strategies(plan, history.basis), {s.node for s in history.steps}
    return [strategies[c].rows if i in held else 0 for i, c in enumerate(class_of)]


def schema_hash(plan: Plan) -> str:
    """A hash of the schema, whether it was read from the data included."""
    schema = plan.workload.schema
    return content_hash([schema_data(schema), schema.read_from_data])


def _check_terms(plan: Plan, provenance: Provenance, plan_document: object) -> None:
    """The terms must be the plan's own, and the warnings that follow from them be there."""
    options = plan.options
    if provenance.plan_hash != content_hash(plan_document) or provenance.schema_hash != schema_hash(plan):
        raise StorageError("the release states another plan or schema than it holds; measure again")
    if not set(certain_stamps(plan, provenance.noise)) <= set(provenance.stamps):
        raise StorageError("the release lacks a warning that follows from its plan and noise; measure again")
    if (provenance.neighbours, provenance.contributions) != (options.neighbours, options.contributions):
        raise StorageError("the release states another privacy unit than its plan; measure again")
    if provenance.accounting != "zcdp" and (provenance.mechanism == "adaptive" or provenance.noise == "opendp"):
        raise StorageError("the release states an accounting that its mechanism or noise does not have; measure again")


def _check_scales(plan: Plan, provenance: Provenance, scales: tuple[Scale, ...]) -> None:
    """The noise that the file claims must be what its plan and its charge give, whoever wrote it.

    Costs are recomputed from the strategies; only differences by rounding between machines are accepted.
    """
    try:
        jointly = is_composed_jointly(provenance.noise)
        expected = plan.scales(provenance.charge, jointly)
    except (BudgetError, InternalError):
        raise StorageError("the release states a charge that its plan cannot spend; measure again") from None
    # Joint costs are those of the expected scales, which are the stated ones; they do not add up node by node.
    alone = not jointly or plan.joint is None
    total = sum((s.cost * m for s, m in zip(scales, plan.closure.members.tolist(), strict=True)), Fraction(0))
    pairs = zip(scales, expected, strict=True)
    if (alone and total > 2 * provenance.charge) or not all(scales_agree(s, e, provenance.noise) for s, e in pairs):
        raise StorageError(
            "the noise scales of the release contradict its charge; its standard errors and its privacy cannot both be "
            "as stated: measure again"
        )
