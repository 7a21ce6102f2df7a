"""The budget that a release states must follow from its charge and accounting."""

from __future__ import annotations

import json
import pathlib
from functools import partial
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.api import compile, load_release
from qcompile.errors import StorageError
from tests.unit.plan.test_files import edit, members, rewrite

COUNTS: dict[Any, Any] = {("a",): np.arange(4)}

BUDGETS: list[tuple[dict[str, Any], str]] = [
    ({"rho": 1}, "zcdp"),
    ({"rho": "1/49"}, "gaussian"),
    ({"mu": "0.3"}, "zcdp"),
    ({"cost": 1e-9}, "gaussian"),
    ({"epsilon": 1, "delta": "1e-9"}, "zcdp"),
    ({"epsilon": 1, "delta": "1e-9"}, "gaussian"),
    ({"rho": 10**9}, "zcdp"),
    ({"rho": 1e6}, "gaussian"),
    ({"rho": 1e-60}, "zcdp"),
]

CLAIMS = [
    "epsilon 0.0001 at delta 1e-30 (zcdp)",
    "rho 0.5",
    "rho 1, mu 1",
    "rho 1, cost 1.9",
    "rho 1, delta 1e-9 at epsilon 1",
    "epsilon 10.1083 at delta 1e-9 (gaussian)",
    "no risk at all",
    "rho 1, and none beyond",
    "rho 1/0",
    "rho -1",
    "rho 0",
    "",
    "epsilon 1e300 at delta 2 (zcdp)",
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("stated") / "r"
    plan = compile("schema { a : integer 0..3 }\nworkload { p : prefix(a) }")
    plan.run(COUNTS, qc.Budget(rho=1), output=path)
    return path


@pytest.mark.parametrize(("budget", "accounting"), BUDGETS)
def test_every_budget_of_a_run_is_read(budget: dict[str, Any], accounting: str, tmp_path: pathlib.Path) -> None:
    plan = compile("schema { a : integer 0..3 }\nworkload { p : prefix(a) }")
    made = plan.run(COUNTS, qc.Budget(**budget), accounting=accounting, output=tmp_path / "r")
    assert load_release(tmp_path / "r").provenance.budget == made.provenance.budget


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_that_does_not_follow_is_refused(claim: str, release: pathlib.Path, tmp_path: pathlib.Path) -> None:
    rewrite(tmp_path / "x", edit(members(release), lambda d: d["provenance"].update(budget=claim)))
    with pytest.raises(StorageError, match=r"provenance\.budget must be a statement that follows"):
        load_release(tmp_path / "x")


def state(claim: str, document: dict[str, Any]) -> None:
    """Replace the statement of a release about its budget."""
    document["provenance"]["budget"] = claim


def test_a_weaker_claim_is_true(release: pathlib.Path, tmp_path: pathlib.Path) -> None:
    stated = json.loads(members(release)["document.json"])["provenance"]["budget"]
    for claim in (stated, "rho 1", "rho 2, mu 2", "epsilon 20 at delta 1e-9 (zcdp)"):
        rewrite(tmp_path / "x", edit(members(release), partial(state, claim)))
        assert load_release(tmp_path / "x").provenance.budget == claim
