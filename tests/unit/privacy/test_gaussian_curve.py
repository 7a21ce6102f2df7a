"""Mu and the Gaussian curve are stated for batches with rounded noise, and for nothing else.

The accounting of an adaptive run bounds its zCDP: a selection of bounded range epsilon costs epsilon^2 / 8. Two tied
candidates that a row moves apart give randomised response of epsilon / 2, whose curve lies above that of
mu = sqrt(2 rho). OpenDP proves zCDP of its noise. So mu would promise more than is proven.
"""

from __future__ import annotations

import json
import math
import pathlib
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import qcompile as qc
from qcompile.cli.app import execute
from qcompile.errors import BudgetError, OptionError, StorageError
from qcompile.privacy.accounting import gaussian_delta
from qcompile.privacy.budget import Budget, has_gaussian_curve, without_mu
from qcompile.privacy.ledger.charges import Charge
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.release.provenance import MECHANISMS, NOISES
from tests.unit.plan.test_files import edit, members, rewrite

SOURCE = 'schema { a : integer 0..3 clip\n b : category {"x", "y"} other "z" }\nworkload { both : marginal(a, b) }\n'
TABLE = "a,b\n0,x\n3,y\n3,x\n"
RUN = ["run", "w.q", "--data", "t.csv"]

WITHOUT: dict[str, dict[str, Any]] = {
    "adaptive": {"mechanism": "adaptive"},
    "opendp": {"noise": "opendp"},
    "none": {"noise": "none"},
}
"""Runs without the curve."""


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.q").write_text(SOURCE)
    (tmp_path / "t.csv").write_text(TABLE)
    return tmp_path


def words(options: dict[str, Any]) -> list[str]:
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert execute(arguments) == 0
    return "".join(capsys.readouterr())


def has_mu(text: str) -> bool:
    return "mu" in text.replace(",", " ").replace('"', " ").split()


def test_the_accounting_of_a_selection_does_not_imply_the_curve() -> None:
    """Randomised response of epsilon / 2 costs epsilon^2 / 8 and is told apart better than a Gaussian of that rho."""
    rho = Fraction(45, 1000)
    epsilon = math.sqrt(8 * rho)
    told_apart = math.tanh(epsilon / 4)  # total variation between p and 1 - p, with odds e^(epsilon / 2)
    assert told_apart == pytest.approx(0.1489, abs=1e-4)
    assert told_apart > float(gaussian_delta(2 * rho, Fraction(0))) + 0.02


def test_the_curve_is_that_of_a_batch_with_rounded_noise() -> None:
    holding = {(m, n) for m in MECHANISMS for n in NOISES if has_gaussian_curve(m, n)}
    assert holding == {("batch", "rounded")}


@pytest.mark.parametrize(
    "budget", [Budget(epsilon=1, delta=1e-9), Budget(rho="1/49"), Budget(mu="0.3"), Budget(cost=1)], ids=repr
)
def test_a_description_without_mu_has_all_else(budget: Budget) -> None:
    for accounting in ("zcdp", "gaussian"):
        whole, rest = budget.describe(accounting), budget.describe(accounting, gaussian=False)
        assert has_mu(whole)
        assert not has_mu(rest)
        assert set(whole.split(", ")) - set(rest.split(", ")) == {t for t in whole.split(", ") if t.startswith("mu ")}
        assert without_mu(rest) == rest


@pytest.mark.parametrize("name", WITHOUT)
def test_a_budget_in_mu_is_refused(name: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where only zCDP is proven, a request in mu would be a promise of more; the message names what to give."""
    with pytest.raises(
        BudgetError, match=r"holds for a batch with noise='rounded' only.*; give epsilon and delta, or rho"
    ):
        qc.prepare(qc.compile(SOURCE), Budget(mu="0.3"), **WITHOUT[name])
    for more in (["--dry-run"], ["-o", "x.release"]):
        assert execute([*RUN, "--mu", "0.3", *words(WITHOUT[name]), *more]) == 3
        assert "a budget in mu holds for a batch" in capsys.readouterr().err
    assert not (folder / "x.release").exists()


@pytest.mark.parametrize("name", ["adaptive", "opendp"])
def test_gaussian_accounting_is_refused(name: str) -> None:
    """It is the curve of one batch of Gaussian noise, so that more rho would be spent than the request allows."""
    with pytest.raises(OptionError, match=r"accounting='gaussian' holds for .*use accounting='zcdp'"):
        qc.prepare(qc.compile(SOURCE), Budget(epsilon=1, delta=1e-9), accounting="gaussian", **WITHOUT[name])


@pytest.mark.parametrize("request_", [["--rho", "1/8"], ["--epsilon", "1", "--delta", "1e-6"], ["--cost", "1/4"]])
@pytest.mark.parametrize("name", ["batch", *WITHOUT])
def test_mu_is_shown_where_it_holds(
    name: str, request_: list[str], folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the dry run, the run, ``inspect`` as text and JSON, the ledger, the release's file and Python."""
    options = words(WITHOUT.get(name, {}))
    ledger = [] if name == "none" else ["--ledger", "l"]
    if ledger:
        assert not has_mu(printed(capsys, "ledger", "create", "l", "--rho", "1"))
    shown = [
        printed(capsys, *RUN, *request_, *options, "--dry-run", "-v"),
        printed(capsys, *RUN, *request_, *options, *ledger, "-v", "-o", "x.release"),
        printed(capsys, "inspect", "x.release").split("plan of qcompile")[0],
        json.dumps(json.loads(printed(capsys, "inspect", "x.release", "--json"))["release"]),
        str(json.loads(members(folder / "x.release")["document.json"])["provenance"]),
        qc.load_release("x.release").provenance.budget,
    ]
    assert [has_mu(text) for text in shown] == [name == "batch"] * len(shown)
    if ledger:
        assert not has_mu(printed(capsys, "ledger", "show", "l") + printed(capsys, "ledger", "show", "l", "--json"))


@pytest.mark.parametrize("name", ["adaptive", "opendp"])
def test_a_ledger_in_mu_takes_batches_with_rounded_noise(
    name: str, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mu of several releases adds up as its square over Gaussian mechanisms; one release in zCDP ends that."""
    assert "mu 1," in printed(capsys, "ledger", "create", "l", "--mu", "1")
    for more in (["--dry-run"], ["-o", "x.release"]):
        assert execute([*RUN, "--rho", "1/8", *words(WITHOUT[name]), "--ledger", "l", *more]) == 3
        assert "has its budget in mu" in capsys.readouterr().err
    assert not Ledger.open("l").entries
    printed(capsys, *RUN, "--mu", "1/2", "--ledger", "l", "-o", "x.release")
    assert Ledger.open("l").spent == Fraction(1, 8)
    shown = printed(capsys, "ledger", "show", "l")
    assert "budget     epsilon" in shown
    assert "mu 1," in shown
    assert "mu 1/2 (zcdp)" in shown or "mu 0.5 (zcdp)" in shown


def test_a_ledger_in_mu_refuses_charges_that_say_nothing_of_their_noise(tmp_path: pathlib.Path) -> None:
    """A bare amount of rho may be anybody's mechanism."""
    ledger = Ledger.create(tmp_path / "l", Budget(mu=1))
    for charge in ("1/8", Charge(rho=Fraction(1, 8), mechanism="batch", noise="opendp")):
        with pytest.raises(BudgetError, match="charge a ledger whose budget is in rho"):
            ledger.charge(charge)
    ledger.charge(Charge(rho=Fraction(1, 8), mechanism="batch", noise="rounded"))
    assert ledger.spent == Fraction(1, 8)


def test_what_earlier_versions_noted_of_mu_is_not_shown(tmp_path: pathlib.Path) -> None:
    """They described every ledger in mu, too, and took mu for adaptive runs."""
    ledger = Ledger.create(tmp_path / "l", Budget(rho=1))
    ledger.charge(Charge(rho=Fraction(9, 200), budget="mu 0.3 (zcdp)", mechanism="adaptive", noise="rounded"))
    ledger.charge(Charge(rho=Fraction(9, 200), budget="mu 0.3 (zcdp)", mechanism="batch", noise="rounded"))
    assert [e.charge.budget for e in ledger.entries] == ["rho 9/200 (zcdp)", "mu 0.3 (zcdp)"]
    with sqlite3.connect(tmp_path / "l") as connection:
        connection.execute("DROP TRIGGER facts_stay")
        connection.execute("UPDATE facts SET value = ? WHERE name = 'budget'", (Budget(rho=1).describe(),))
    assert ledger.snapshot.request == Budget(rho=1).describe(gaussian=False)


def _state(**terms: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["provenance"].update(terms)


def test_a_release_that_states_mu_without_the_curve_is_read_without_it(tmp_path: pathlib.Path) -> None:
    """Files of earlier versions, or of a forger."""
    release = qc.compile(SOURCE).run({"a": [0], "b": ["x"]}, Budget(rho="1/8"), mechanism="adaptive")
    release.save(tmp_path / "r")
    rewrite(tmp_path / "s", edit(members(tmp_path / "r"), _state(budget=Budget(rho="1/8").describe())))
    assert qc.load_release(tmp_path / "s").provenance == release.provenance


def test_a_release_with_gaussian_accounting_of_other_noise_is_refused(tmp_path: pathlib.Path) -> None:
    """Its charge would be above what its epsilon and delta allow."""
    qc.compile(SOURCE).run({"a": [0], "b": ["x"]}, Budget(rho="1/8"), noise="opendp").save(tmp_path / "r")
    rewrite(tmp_path / "s", edit(members(tmp_path / "r"), _state(accounting="gaussian")))
    with pytest.raises(StorageError, match=r"provenance\.budget must be a statement that follows"):
        qc.load_release(tmp_path / "s")
