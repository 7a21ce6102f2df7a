"""Without OpenDP a batch runs, and what needs it says what to install before anything is charged."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import pytest

import qcompile as qc
from qcompile.api import compile
from qcompile.errors import OptionError
from qcompile.privacy.noise.opendp_library import load_opendp

COUNTS: dict[Any, Any] = {("a", "b"): np.full((3, 2), 50)}


@pytest.fixture(autouse=True)
def without_opendp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)


def test_the_message_has_the_command() -> None:
    with pytest.raises(OptionError, match=r"pip install 'qcompile\[adaptive\]'"):
        load_opendp()


@pytest.mark.parametrize("options", [{"mechanism": "adaptive"}, {"noise": "opendp"}])
def test_what_needs_it_is_refused_before_the_charge(options: dict[str, Any], tmp_path: pathlib.Path) -> None:
    plan = compile("schema { a : integer 0..2\n b : integer 0..1 }\nworkload { p : marginal(a) * marginal(b) }")
    ledger = qc.Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    with pytest.raises(OptionError, match="need OpenDP"):
        plan.run(COUNTS, qc.Budget(rho=1), ledger=ledger, output=tmp_path / "r", strict_values=True, **options)
    assert not ledger.entries
    release = plan.run(COUNTS, qc.Budget(rho=1), ledger=ledger, output=tmp_path / "r", strict_values=True)
    assert release.answers("p").num_rows == 6
