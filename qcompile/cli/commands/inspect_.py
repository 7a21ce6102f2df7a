"""``qcompile inspect``: a plan, a workload or a release, as text, JSON or a graph."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from qcompile.cli.output import (
    COST,
    DELTA,
    EPSILON,
    MAX_MEMORY,
    MU,
    RHO,
    budget_of,
    limits_memory,
    read_plan,
    require_file,
    result,
    table_lines,
)
from qcompile.errors import OptionError

if TYPE_CHECKING:
    from qcompile.api import Release


@limits_memory
def inspect(
    file: str = typer.Argument(..., metavar="PLAN|FILE", help="A plan, a .q workload file or a release."),
    as_json: bool = typer.Option(False, "--json", help="The plan's numbers as one JSON object."),
    dot: bool = typer.Option(False, "--dot", help="The lattice as a graph for Graphviz."),
    epsilon: str | None = EPSILON,
    delta: str | None = DELTA,
    rho: str | None = RHO,
    mu: str | None = MU,
    cost: str | None = COST,
    max_memory: str | None = MAX_MEMORY,
) -> None:
    """Show what a plan measures and every predicted error; with a budget, the errors at that budget.

    Example: qcompile inspect couples.plan --epsilon 1 --delta 1e-6
    """
    from qcompile.api import load_release
    from qcompile.inspection.explain import as_json as plan_json
    from qcompile.inspection.explain import dot as plan_dot
    from qcompile.release.files import KIND
    from qcompile.support import archive

    if as_json and dot:
        raise OptionError("choose one of --json and --dot")
    require_file(file)
    if (as_json or dot) and any((epsilon, delta, rho, mu, cost)):
        raise OptionError("--json and --dot show errors at privacy cost 1; leave the budget out")
    budget = budget_of(epsilon=epsilon, delta=delta, rho=rho, mu=mu, cost=cost)
    release = load_release(file) if archive.kind_of(file) == KIND else None
    plan = release.plan if release else read_plan(file)
    if as_json:
        result(json.dumps(plan_json(plan) | _release_json(release), indent=1))
    elif dot:
        result(plan_dot(plan).rstrip())
    else:
        if release:
            result(_terms(release, archive.stated_hash(file, KIND)))
        if budget is not None:
            batch = " of a batch" if release and release.history is not None else ""
            result(f"predicted errors{batch} at {budget.describe()}")
            result("\n".join(table_lines(plan.summary(budget), limit=40)) + "\n")
        if release and release.history is not None:
            result(_rounds(release, release.history.basis))
        result(plan.explain().rstrip())


def _unit(column: str | None) -> str:
    from qcompile.support.text import printable

    return "" if column is None else f"; rows of each {printable(column)} cut to that number (as the file says)"


def _rounds(release: Release, basis: str) -> str:
    """Describe the rounds of an adaptive run and the coverage of each family; ends with the heading of the plan."""
    lines = [
        f"rounds, on the {basis} basis (least_sigma: smallest noise scale of a measurement; skipped: nodes that were",
        "accurate enough; next: growth of the budget of later rounds, as this one changed the estimates little)",
        "",
        *table_lines(release.rounds(), limit=40),
        "",
        "families (unbiased: number of queries that the measurements answer without a reference model)",
        "",
        *table_lines(release.coverage()),
        "",
        "the plan, with the errors of a batch run; the errors of this run depend on its selections",
    ]
    return "\n".join(lines)


def _release_json(release: Release | None) -> dict[str, Any]:
    if release is None:
        return {}
    terms = release.provenance.data()
    if release.history is None:
        return {"release": terms}
    return {"release": {**terms, "basis": release.history.basis, "rounds": release.rounds().to_pylist()}}


def _terms(release: Release, content: str) -> str:
    from qcompile.release.provenance import note_text
    from qcompile.support.text import printable

    p, schema = release.provenance, release.plan.workload.schema
    lines = [
        f"release of qcompile {p.version}",
        f"  charge       rho {p.charge} ({p.budget})",
        f"  mechanism    {p.mechanism}, reference {p.reference}",
        f"  noise        {p.noise} (as the file says), accounting {p.accounting}",
        f"  privacy      neighbouring tables differ in {release.plan.unit}{_unit(p.unit)}",
        f"  plan         {p.plan_hash}",
        f"  content      {content}",
        *(f"  WARNING      {stamp}" for stamp in p.stamps if note_text(stamp, schema) is None),
        *(f"  NOTE         {printable(note)}" for stamp in p.stamps if (note := note_text(stamp, schema)) is not None),
    ]
    return "\n".join(lines) + "\n"
