"""What the privacy layer refuses at its edges: full disks, locked ledgers, numbers that no proof covers."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import flint
import pytest
from hypothesis import given
from hypothesis import strategies as st

import qcompile as qc
from qcompile.errors import BudgetError, OptionError, StorageError
from qcompile.privacy import accounting
from qcompile.privacy.ball_arithmetic import rounded_up
from qcompile.privacy.ledger import charges, sqlite_file
from qcompile.privacy.ledger.charges import Charge
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.privacy.noise import exponential_mechanism
from qcompile.privacy.noise.random_bytes import SystemSource
from qcompile.privacy.noise.scale import PUBLIC, grid, measurement_scale, root_up


def test_a_ball_without_bounds_is_no_number() -> None:
    with pytest.raises(BudgetError, match="too extreme to be converted"):
        rounded_up(flint.arb("inf"))


def test_a_guarantee_that_no_precision_decides_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "gaussian_delta", lambda cost, epsilon: flint.arb("0.5 +/- 0.4"))
    assert not accounting._gaussian_holds(Fraction(1), Fraction(1), Fraction(1, 2))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("budget", 3, "must be text, got 3"), ("noise", None, "must be text"), ("run", "\ud800", "text in Unicode")],
)
def test_a_charge_is_made_of_text(tmp_path: pathlib.Path, field: str, value: Any, message: str) -> None:
    ledger = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    with pytest.raises(OptionError, match=message):
        ledger.charge(Charge(rho=Fraction(1, 2), **{field: value}))
    assert ledger.spent == 0


def test_a_charge_without_a_number_is_no_charge() -> None:
    class Nothing:
        lastrowid = None

        def execute(self, statement: str, values: tuple[Any, ...] = ()) -> Nothing:
            return self

        def __iter__(self) -> Iterator[Any]:
            return iter(())

    connection: Any = Nothing()
    with pytest.raises(StorageError, match="the charge could not be recorded; nothing was drawn"):
        charges.insert_charge(connection, Charge(rho=Fraction(1)))


def test_a_ledger_on_a_full_disk_is_not_there(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sqlite_file, "_fill", refuses)
    with pytest.raises(StorageError, match="No space left on device"):
        Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_in_use_is_waited_for_and_then_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    monkeypatch.setattr(sqlite_file, "WAIT", 0.05)
    with contextlib.closing(sqlite3.connect(tmp_path / "l", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(StorageError, match="in use by another process for 0 s, so nothing was noted: try again"):
            ledger.charge("1/2")
    assert ledger.spent == 0


def test_a_ledger_that_cannot_be_written_says_what_to_check(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(tmp_path / "l", qc.Budget(rho=1))

    def refuses(*_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(charges, "insert_charge", refuses)
    with pytest.raises(StorageError, match=r"cannot be used \(disk I/O error\); check permissions and disk"):
        ledger.charge("1/2")
    assert ledger.spent == 0


def test_runs_are_found_by_their_name_until_they_have_a_release(tmp_path: pathlib.Path) -> None:
    ledger = Ledger.create(tmp_path / "l", qc.Budget(rho=1))
    number = ledger.charge(Charge(rho=Fraction(1, 2), run="x (run a)"))
    assert ledger.entry_of("x (run a)") == number
    assert ledger.entry(number, "x (run a)").release == "x (run a)"
    with pytest.raises(StorageError, match=r"no entry 1 of x \(run b\)"):
        ledger.entry(number, "x (run b)")
    ledger.record(number, "x", "hash")
    assert ledger.entry_of("x (run a)") is None
    assert ledger.entry(number, "x (run a)").content == "hash"
    with pytest.raises(StorageError, match="no entry 1 that waits for its release"):
        ledger.record(number, "y", "other")
    text = repr(ledger)
    assert "rho 0.5 spent, 0.5 left, 1 entry" in text
    (tmp_path / "l").unlink()
    assert "there is no ledger" in repr(ledger)


def test_a_selection_whose_loss_stays_above_its_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Expensive:
        def map(self, sensitivity: int) -> float:
            return 1e9

    monkeypatch.setattr(exponential_mechanism, "_measurement", lambda scale: Expensive())
    with pytest.raises(BudgetError, match="stays above the share"):
        exponential_mechanism.selection_scale(1, Fraction(1))


def test_the_system_s_randomness_has_no_state_to_show() -> None:
    assert repr(SystemSource()) == "SystemSource()"


def test_public_numbers_have_no_variance() -> None:
    assert PUBLIC.variance == 0
    scale = measurement_scale(Fraction(2), Fraction(8))
    assert scale.sigma == 2
    assert scale.variance == 4 + scale.grid**2 / 12


@given(st.fractions(Fraction(1, 10**60), Fraction(10**60)))
def test_a_root_is_the_smallest_double_that_is_large_enough(square: Fraction) -> None:
    import math

    root = root_up(square)
    assert Fraction(root) ** 2 >= square
    assert Fraction(math.nextafter(root, 0)) ** 2 < square


def test_scales_beyond_doubles_are_refused() -> None:
    with pytest.raises(BudgetError, match="beyond the range of doubles"):
        root_up(Fraction(10**700))
    with pytest.raises(BudgetError, match="too extreme to be drawn"):
        grid(1e300)
