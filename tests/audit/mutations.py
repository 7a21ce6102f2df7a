"""Forged files: every place of a document with another value, deleted or repeated, under hashes that fit.

A mutant is what a careful forger could write. It must be read with a meaning of its own, or be refused by a
`QCompileError`: never by a fault of the program, and never after a charge.
"""

from __future__ import annotations

import copy
import json
import pathlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from qcompile.plan.document import content_hash
from tests.unit.plan.test_files import members, reseal, rewrite

Place = tuple[str | int, ...]

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.0, 0.5, -0.5, 1e300, 5e-324, 10**18, -(10**18), 10**400, 2**63,
    "", "x", "0", "1/2", "\ud800", "\x1b[31m", "\u202e", "x" * 5000, "NaN", [], [0], [[]], [False], ["x"],
    {}, {"x": 0}, [None, None],
)  # fmt: skip
"""Values of every type, and those that Python confuses with others."""

DELETED, TWICE = object(), object()


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in a document, the inner ones included."""
    if place:
        yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*place, key))


def mutate(document: dict[str, Any], place: Place, value: Any) -> dict[str, Any]:
    """A copy with one place changed; the hash of the plan that a release states is made to fit."""
    changed = copy.deepcopy(document)
    holder: Any = changed
    for key in place[:-1]:
        holder = holder[key]
    last: Any = place[-1]
    if value is DELETED:
        del holder[last]
    elif value is TWICE and isinstance(holder, list):
        holder.insert(last, copy.deepcopy(holder[last]))
    elif value is TWICE:
        holder[f"{last} "] = holder[last]
    else:
        holder[last] = value
    return _restate(changed)


def _restate(document: dict[str, Any]) -> dict[str, Any]:
    """The stated hashes of plan and schema, where there are any, as a forger would compute them."""
    try:
        workload = document["plan"]["workload"]
        old = "plain_sse" not in document["plan"]  # formats 1 and 2
        schema = workload["schema"] if old else [workload["schema"], workload.get("read_from_data", False)]
        stated = {"plan_hash": content_hash(document["plan"]), "schema_hash": content_hash(schema)}
        document["provenance"].update({k: v for k, v in stated.items() if k in document["provenance"]})
    except (LookupError, TypeError, AttributeError):
        pass
    return document


def mutants(path: pathlib.Path, target: pathlib.Path, count: int, seed: int) -> Iterator[tuple[Place, Any]]:
    """Write mutants of a file, one at a time; yields the place and the value of each."""
    contents, rng = members(path), random.Random(seed)
    document = json.loads(contents["document.json"])
    where = list(places(document))
    for _ in range(count):
        place, value = rng.choice(where), rng.choice([*VALUES, DELETED, TWICE])
        # Surrogates and absurd numbers pass json as they are; a forger is not bound to what a writer would refuse.
        text = json.dumps(mutate(document, place, value)).encode()
        rewrite(target, reseal({**contents, "document.json": text}))
        yield place, value


def counts_for(plan: Any) -> dict[tuple[str, ...], Any]:
    """A small table for a plan, whatever its schema has become."""
    names = plan.workload.schema.names
    return {names: np.ones(plan.workload.schema.shape(names), dtype=np.int64)}
