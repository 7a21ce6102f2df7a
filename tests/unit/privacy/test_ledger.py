"""The ledger: exact to the end, never overspent, never undone, whoever writes and whatever dies."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from qcompile.cli.app import execute
from qcompile.errors import BudgetError, OptionError, OverspendError, StorageError
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger import charges
from qcompile.privacy.ledger import sqlite_file as ledger_file
from qcompile.privacy.ledger.charges import Charge
from qcompile.privacy.ledger.ledger import Ledger


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Ledger:
    return Ledger.create(tmp_path / "one.ledger", Budget(rho=1))


PARTS: dict[str, list[Any]] = {
    "0.1, 0.2, 0.7": [0.1, 0.2, 0.7],
    "3 equal parts": ["1/3"] * 3,
    "7 equal parts": [Fraction(1, 7)] * 7,
    "49 equal parts": ["1/49"] * 49,
}


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_parts_spend_exactly_all(parts: list[Any], ledger: Ledger) -> None:
    """opendp#2131, #2789: 0.1 + 0.2 + 0.7 of 1, and 3, 7, 49 equal parts, all run; the ledger ends at exactly 1."""
    for part in parts:
        ledger.charge(part)
    assert ledger.spent == 1
    assert ledger.remaining == 0
    with pytest.raises(OverspendError):
        ledger.charge("1e-100")


@settings(max_examples=20)
@given(st.lists(st.fractions(Fraction(1, 1000), Fraction(1, 3), max_denominator=10**12), min_size=1, max_size=6))
def test_any_fractions_add_up(tmp_path_factory: pytest.TempPathFactory, parts: list[Fraction]) -> None:
    made = Ledger.create(tmp_path_factory.mktemp("l") / "l", Budget(rho=sum(parts)))
    assert [made.charge(p) for p in parts] == list(range(1, len(parts) + 1))
    assert made.remaining == 0


def test_an_overspend_has_the_numbers_and_changes_nothing(ledger: Ledger) -> None:
    """PyDP#263, openmed#2457: an exhausted budget is a typed error with numbers; the ledger's bytes are the same."""
    ledger.charge("2/3")
    before = ledger.path.read_bytes()
    with pytest.raises(OverspendError, match="requested 1/2, remaining 1/3, short by 1/6") as caught:
        ledger.charge(0.5)
    assert (caught.value.requested, caught.value.remaining) == (Fraction(1, 2), Fraction(1, 3))
    assert caught.value.short_by == Fraction(1, 6)
    assert caught.value.exit_code == 3
    assert ledger.path.read_bytes() == before
    assert [p.name for p in ledger.path.parent.iterdir()] == ["one.ledger"]


@pytest.mark.parametrize("amount", [0, -1, float("nan"), float("inf"), "x", "", None, True])
def test_no_other_amounts(amount: Any, ledger: Ledger) -> None:
    with pytest.raises(BudgetError, match="rho"):
        ledger.charge(amount)
    with pytest.raises(BudgetError, match="rho"):
        ledger.charge(Charge(rho=amount))
    assert ledger.entries == ()


def test_an_entry_says_what_was_spent_for_what(ledger: Ledger) -> None:
    charge = Charge(
        rho=Fraction(1, 7),
        budget="asked",
        neighbours="replace-one",
        contributions=2,
        unit="home",
        mechanism="batch",
        noise="rounded",
        plan="abc",
        time="2026-01-02T03:04:05+00:00",
    )
    assert ledger.snapshot.unit == {}
    number = ledger.charge(charge)
    (entry,) = Ledger.open(ledger.path).entries
    assert (entry.number, entry.charge, entry.release, entry.content) == (number, charge, None, None)
    assert ledger.snapshot.unit == {"neighbours": "replace-one", "contributions": 2, "unit": "home"}
    ledger.record(number, "x.release", "f00")
    (entry,) = ledger.entries
    assert (entry.charge, entry.release, entry.content) == (charge, "x.release", "f00")


def test_a_charge_without_a_time_gets_one(ledger: Ledger) -> None:
    ledger.charge(1)
    assert len(ledger.entries[0].charge.time) == len("2026-01-02T03:04:05+00:00") == len(ledger.snapshot.facts["time"])


def test_a_release_is_recorded_once(ledger: Ledger) -> None:
    number = ledger.charge("1/2")
    ledger.record(number, "x", "f00")
    for wrong in (number, number + 1):
        with pytest.raises(StorageError, match=f"no entry {wrong} that waits"):
            ledger.record(wrong, "y", "bad")
    assert ledger.entries[0].release == "x"


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries",
        "UPDATE entries SET rho = '1/1000'",
        "UPDATE entries SET contributions = 5",
        "UPDATE entries SET number = 7",
        "UPDATE facts SET value = '100' WHERE name = 'rho'",
        "DELETE FROM facts",
        "INSERT OR REPLACE INTO facts VALUES ('rho', '1000')",
        "INSERT INTO facts VALUES ('contributions', '7')",
        "INSERT OR REPLACE INTO entries SELECT number, time, '1/1000', budget, neighbours, contributions, unit,"
        " mechanism, noise, plan, version, release, content, dataset, folder FROM entries",
        "UPDATE entries SET dataset = 'another'",
        "UPDATE entries SET folder = '/'",
    ],
)
def test_no_charge_is_undone_or_changed(statement: str, ledger: Ledger) -> None:
    ledger.charge("1/2")
    connection = sqlite3.connect(ledger.path)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    connection.close()
    assert ledger.spent == Fraction(1, 2)


def test_charges_are_for_one_privacy_unit(tmp_path: pathlib.Path) -> None:
    """Losses of different units do not add up: the first charge, or who made the ledger, decides."""
    one = Charge(rho=Fraction(1, 9))
    ninth = Fraction(1, 9)
    other = [Charge(rho=ninth, neighbours="replace-one"), Charge(rho=ninth, contributions=2)]
    first = Ledger.create(tmp_path / "first", Budget(rho=1))
    first.charge(one)
    given = Ledger.create(tmp_path / "given", Budget(rho=1), neighbours="add-remove", contributions=1)
    assert given.snapshot.unit == {"neighbours": "add-remove", "contributions": 1}
    for ledger in (first, given):
        for charge in other:
            with pytest.raises(BudgetError, match="different privacy units do not add up"):
                ledger.charge(charge)
            with pytest.raises(BudgetError, match="different privacy units do not add up"):
                ledger.require(charge)
        ledger.charge(one)
    part = Ledger.create(tmp_path / "part", Budget(rho=1), contributions=2)
    assert part.snapshot.unit == {"contributions": 2}
    with pytest.raises(BudgetError):
        part.charge(one)
    part.charge(other[1])
    assert part.snapshot.unit == {"neighbours": "add-remove", "contributions": 2, "unit": None}


def test_a_ledger_is_of_one_dataset(tmp_path: pathlib.Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Budget(rho=1), dataset="survey 2026")
    assert ledger.snapshot.dataset == "survey 2026"
    others = (("survey 2025", "is for 'survey 2025'"), (None, "names none"))
    for other, named in others:
        charge = Charge(rho=Fraction(1, 9), dataset=other)
        for refuse in (ledger.charge, ledger.require):
            with pytest.raises(BudgetError, match=f"account of the dataset 'survey 2026', and this charge {named}"):
                refuse(charge)
    assert ledger.spent == 0
    ledger.charge(Charge(rho=Fraction(1, 9), dataset="survey 2026"))
    ledger.charge("1/9")  # by hand: to this ledger
    assert [e.charge.dataset for e in ledger.entries] == ["survey 2026"] * 2


def test_a_ledger_without_a_name_takes_any_dataset_and_records_it(ledger: Ledger) -> None:
    for name in ("one", None):
        ledger.charge(Charge(rho=Fraction(1, 9), dataset=name, folder="/f"))
    assert [(e.charge.dataset, e.charge.folder) for e in ledger.entries] == [("one", "/f"), (None, "/f")]
    assert ledger.snapshot.dataset is None


@pytest.mark.parametrize("name", ["", " ", " a", "a\n", "\x1b[1m", 3, True])
def test_a_name_of_a_dataset_is_text_on_one_line(name: Any, tmp_path: pathlib.Path) -> None:
    with pytest.raises(OptionError, match="dataset must be a name"):
        Ledger.create(tmp_path / "l", Budget(rho=1), dataset=name)
    assert not list(tmp_path.iterdir())


def test_a_ledger_with_two_names_is_refused_at_every_opening(ledger: Ledger, tmp_path: pathlib.Path) -> None:
    """SQLite names its journal after the path: a charge by the other name could be rolled back by this one."""
    ledger.charge("1/9")
    other = tmp_path / "other.ledger"
    os.link(ledger.path, other)
    uses: list[Callable[[pathlib.Path], Any]] = [
        Ledger.open,
        lambda path: Ledger(path).charge("1/9"),
        lambda path: Ledger(path).record(1, "x", "f00"),
        lambda path: Ledger(path).snapshot,
    ]
    for use in uses:
        for path in (ledger.path, other):
            with pytest.raises(StorageError, match=r"has 2 names \(hard links\).*keep one name"):
                use(path)
    other.unlink()
    assert ledger.spent == Fraction(1, 9)


LIMITED = """
import resource, sys
from qcompile.errors import StorageError
from qcompile.privacy.budget import Budget
from qcompile.privacy.ledger.ledger import Ledger
if sys.argv[2] == "charge":
    ledger = Ledger.create(sys.argv[1], Budget(rho=1))
size = int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    Ledger.create(sys.argv[1], Budget(rho=1)) if sys.argv[2] == "create" else ledger.charge("1/9")
except StorageError as e:
    print(e)
"""


@pytest.mark.parametrize(("step", "size"), [("create", 8192), ("create", 0), ("charge", 512), ("charge", 0)])
def test_a_full_disk_is_a_typed_error_and_no_charge(step: str, size: int, tmp_path: pathlib.Path) -> None:
    """As under ``ulimit -f``: files cannot grow beyond a size."""
    path = tmp_path / "l"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(path), step, str(size)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"cannot write {path}: " if step == "create" else f"ledger {path} cannot be used (")
    if step == "create":
        assert not list(tmp_path.iterdir())
    else:
        assert Ledger.open(path).spent == 0


def test_what_sqlite_refuses_at_creation_is_a_typed_error(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(ledger_file, "_fill", full)
    with pytest.raises(StorageError, match=r"cannot write .*: database or disk is full; check the space on the disk"):
        Ledger.create(tmp_path / "l", Budget(rho=1))
    assert not list(tmp_path.iterdir())


def test_an_amount_is_shown_as_epsilon_at_the_delta_of_the_budget(tmp_path: pathlib.Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Budget(epsilon=2, delta="1e-6"))
    ledger.charge(Budget(epsilon=1, delta="1e-6").rho)
    snapshot = ledger.snapshot
    assert snapshot.delta == Fraction(1, 10**6)
    assert (snapshot.epsilon_text(snapshot.spent, up=True), snapshot.epsilon_text(Fraction(0), up=True)) == ("1", "0")
    rest = snapshot.epsilon_text(snapshot.remaining, up=False)
    ledger.charge(Budget(epsilon=rest, delta="1e-6").rho)  # what is said to be left can be had
    assert 0 <= ledger.remaining < Fraction(1, 10**4) * ledger.budget
    assert Ledger.create(tmp_path / "m", Budget(rho=1)).snapshot.delta == Fraction(1, 10**9)


def test_require_changes_nothing(ledger: Ledger) -> None:
    before = ledger.path.read_bytes()
    ledger.require(Charge(rho=Fraction(1)))
    with pytest.raises(OverspendError):
        ledger.require(Charge(rho=Fraction(2)))
    assert ledger.path.read_bytes() == before


def test_a_budget_of_epsilon_and_delta_is_its_rho(tmp_path: pathlib.Path) -> None:
    budget = Budget(epsilon=1, delta="1e-9")
    made = Ledger.create(tmp_path / "l", budget)
    assert made.budget == budget.rho
    assert made.snapshot.request == budget.describe(gaussian=False)
    made.charge(budget.rho)
    assert made.remaining == 0


def test_an_existing_file_is_never_touched(ledger: Ledger, tmp_path: pathlib.Path) -> None:
    before = ledger.path.read_bytes()
    with pytest.raises(StorageError, match="never written over"):
        Ledger.create(ledger.path, Budget(rho=100))
    assert ledger.path.read_bytes() == before
    dangling = tmp_path / "link"
    dangling.symlink_to(tmp_path / "nowhere")
    with pytest.raises(StorageError, match="never written over"):
        Ledger.create(dangling, Budget(rho=1))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "one.ledger"]


WRONG: dict[str, tuple[Callable[[pathlib.Path], Any], str]] = {
    "missing": (lambda p: None, "there is no ledger"),
    "a folder": (lambda p: p.mkdir(), "not a ledger of qcompile"),
    "a pipe": (lambda p: os.mkfifo(p), "not a ledger of qcompile"),
    "empty": (lambda p: p.write_bytes(b""), "not a ledger of qcompile"),
    "text": (lambda p: p.write_text("rho 1\n" * 100), "not a ledger of qcompile"),
    "another database": (lambda p: sqlite3.connect(p).execute("CREATE TABLE t (x)").connection.close(), "not a ledger"),
}


@pytest.mark.parametrize("case", WRONG)
def test_other_files_are_no_ledgers(case: str, tmp_path: pathlib.Path) -> None:
    make, message = WRONG[case]
    make(tmp_path / "l")
    for use in (lambda: Ledger.open(tmp_path / "l"), lambda: Ledger(tmp_path / "l").charge(1)):
        with pytest.raises(StorageError, match=message):
            use()
    assert not (tmp_path / "l").is_file() or case != "missing"


def test_a_damaged_ledger_is_refused_not_reset(ledger: Ledger) -> None:
    ledger.charge("1/2")
    whole = ledger.path.read_bytes()
    for damaged in (whole[:5000], whole[: len(whole) // 2], whole[:100] + b"\xff" * 4000 + whole[4100:]):
        ledger.path.write_bytes(damaged)
        with pytest.raises(StorageError):
            _ = ledger.charge("1/4"), ledger.entries
    assert len(whole) > 5000


@pytest.mark.parametrize("value", ["x", "1/0", "-1", "nan", ""])
def test_amounts_that_were_tampered_with_are_refused(value: str, ledger: Ledger) -> None:
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    connection.execute("DROP TRIGGER entries_stay")
    ledger.charge("1/2")
    connection.execute("UPDATE entries SET rho = ?", (value,))
    connection.close()
    with pytest.raises(StorageError, match="damaged"):
        ledger.charge("1/4")


@pytest.mark.parametrize("table", ["facts", "entries"])
@pytest.mark.parametrize("value", [b"abc", "x", None, "epsilon 1 at delta 7 (zcdp)"])
def test_values_that_no_charge_has_written_are_a_typed_error(value: Any, table: str, ledger: Ledger) -> None:
    """SQLite takes any type in any column; what is read is what was once written, or the ledger is damaged."""
    ledger.charge("1/2")
    whole = ledger.path.read_bytes()
    names = ["budget", "contributions", "time"] if table == "facts" else ["budget", "contributions", "content", "plan"]
    for name in names:
        connection = sqlite3.connect(ledger.path, isolation_level=None)
        for trigger in ("facts_closed", "facts_stay", "facts_remain", "entries_stay"):
            connection.execute(f"DROP TRIGGER {trigger}")
        try:
            if table == "facts":
                connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
            else:
                connection.execute(f"UPDATE entries SET {name} = ?", (value,))
        except sqlite3.IntegrityError:
            assert value is None
        connection.close()
        for command in ("show", "verify"):
            assert execute(["ledger", command, str(ledger.path)]) in (0, 2)
        if isinstance(value, bytes) or (name == "contributions" and value is not None):
            with pytest.raises(StorageError, match="damaged"):
                ledger.charge("1/4")
        ledger.path.write_bytes(whole)


def test_another_format_is_refused(ledger: Ledger) -> None:
    connection = sqlite3.connect(ledger.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StorageError, match="format 99"):
        Ledger.open(ledger.path)


@pytest.mark.parametrize("wrong", [{"neighbours": "swap"}, {"contributions": 0}, {"contributions": True}])
def test_create_checks_its_options(wrong: dict[str, Any], tmp_path: pathlib.Path) -> None:
    with pytest.raises(OptionError):
        Ledger.create(tmp_path / "l", Budget(rho=1), **wrong)
    with pytest.raises(OptionError, match="must be a Budget"):
        Ledger.create(tmp_path / "l", 1)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_path_with_odd_characters(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a?mode=ro #%41 é.ledger"
    Ledger.create(path, Budget(rho=1)).charge("1/2")
    assert Ledger.open(path).remaining == Fraction(1, 2)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_who_waits_too_long_is_told_and_nothing_is_charged(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_file, "WAIT", 0.05)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StorageError, match="in use by another process"):
        ledger.charge("1/2")
    other.close()
    assert ledger.entries == ()
    ledger.charge("1/2")


def test_threads_never_overspend(ledger: Ledger) -> None:
    refused: list[BudgetError] = []

    def spend() -> None:
        for _ in range(5):
            try:
                ledger.charge("1/15")
            except OverspendError as e:
                refused.append(e)

    threads = [threading.Thread(target=spend) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (len(ledger.entries), len(refused)) == (15, 10)
    assert ledger.spent == 1


SPENDER = """
import sys
from qcompile.privacy.ledger.ledger import Ledger
from qcompile.errors import OverspendError
sys.stdin.readline()
done = 0
for _ in range(int(sys.argv[3])):
    try:
        Ledger.open(sys.argv[1]).charge(sys.argv[2])
        done += 1
    except OverspendError:
        pass
print(done)
"""


def spender(ledger: Ledger, rho: str, times: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", SPENDER, str(ledger.path), rho, str(times)]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_twenty_processes_never_overspend(ledger: Ledger) -> None:
    """All start at once and ask for twice what there is: exactly all of it is granted, and none waits for ever."""
    processes = [spender(ledger, "1/50", 5) for _ in range(20)]
    for p in processes:
        assert p.stdin
        p.stdin.write("go\n")
        p.stdin.flush()
    granted = [int(p.communicate(timeout=90)[0]) for p in processes]
    assert [p.returncode for p in processes] == [0] * 20
    assert sum(granted) == 50
    assert ledger.spent == 1
    assert len(ledger.entries) == 50


def test_killed_at_any_moment_a_charge_is_whole_or_absent(tmp_path: pathlib.Path) -> None:
    """kill -9 in the middle of many charges: the file opens, adds up, and can be charged on."""
    made = Ledger.create(tmp_path / "l", Budget(rho=1000))
    for attempt in range(8):
        process = spender(made, "1/7", 10**6)
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
        before, deadline = len(made.entries), time.monotonic() + 60
        while len(made.entries) < before + 2 and time.monotonic() < deadline:
            time.sleep(0.001 * attempt)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        entries = made.entries
        assert len(entries) >= before + 2
        assert made.spent == Fraction(len(entries), 7)
        assert made.charge("1/7") == len(entries) + 1


def test_a_half_made_ledger_has_no_name(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", fails)
    with pytest.raises(StorageError, match="No space left"):
        Ledger.create(tmp_path / "l", Budget(rho=1))
    assert not list(tmp_path.iterdir())


def test_unrelated_fractions_add_up_past_what_python_prints(tmp_path: pathlib.Path) -> None:
    ledger = Ledger.create(tmp_path / "l", Budget(rho=1))
    for i in range(8):
        ledger.charge(Fraction(10**860, 10**890 + 2 * i + 1))
    with pytest.raises(OverspendError, match="requested 2, remaining 1, short by 1"):
        ledger.charge(2)
    assert execute(["ledger", "show", str(ledger.path)]) == 0
    assert execute(["ledger", "show", str(ledger.path), "--json"]) == 0


def test_a_refusal_can_be_sent_between_processes(ledger: Ledger) -> None:
    with pytest.raises(OverspendError) as caught:
        ledger.charge(2)
    home = pickle.loads(pickle.dumps(caught.value))
    assert (str(home), home.short_by) == (str(caught.value), 1)


@pytest.mark.parametrize(
    "wrong", [{"contributions": None}, {"contributions": 0}, {"neighbours": "swap"}, {"contributions": 10**30}]
)
def test_a_charge_that_cannot_be_is_not_called_damage(wrong: dict[str, Any], ledger: Ledger) -> None:
    with pytest.raises(OptionError):
        ledger.charge(Charge(rho=Fraction(1, 2), **wrong))
    ledger.charge(Charge(rho="1/2"))  # type: ignore[arg-type]
    assert ledger.spent == Fraction(1, 2)


@pytest.mark.parametrize("name", ["y" * 250, "y" * 300, "a\0b"])
def test_names_that_cannot_be(name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(StorageError):
        Ledger.create(tmp_path / name, Budget(rho=1))
    with pytest.raises(StorageError):
        Ledger.open(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_amounts_are_stored_exactly(ledger: Ledger) -> None:
    ledger.charge(Fraction(1, 3 * 10**30))
    connection = sqlite3.connect(ledger.path)
    ((stored,),) = connection.execute("SELECT rho FROM entries").fetchall()
    connection.close()
    assert stored == "1/3" + "0" * 30
    assert json.loads(json.dumps(str(ledger.remaining))) == str(1 - Fraction(1, 3 * 10**30))


def test_a_ledger_shows_what_is_spent_and_left(ledger: Ledger) -> None:
    ledger.charge("1/4")
    assert repr(ledger) == f"<Ledger {str(ledger.path)!r}: rho 0.25 spent, 0.75 left, 1 entry>"


def test_a_missing_ledger_says_so_where_it_is_shown(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "none"
    assert repr(Ledger(path)).startswith(f"<Ledger {str(path)!r}: there is no ledger {path}; create one with")


def test_a_run_finds_its_own_charge(ledger: Ledger) -> None:
    """By its name until the release is recorded, by its number afterwards; another run's charge is refused."""
    ledger.charge(Charge(rho=Fraction(1, 8), run="other"))
    number = ledger.charge(Charge(rho=Fraction(1, 4), run="mine"))
    assert ledger.entry_of("mine") == number == 2
    assert ledger.entry_of("nobody") is None
    assert ledger.entry(number, "mine").charge.rho == Fraction(1, 4)
    for wrong in ((1, "mine"), (3, "mine")):
        with pytest.raises(StorageError, match=f"has no entry {wrong[0]} of mine; use the ledger that the run charged"):
            ledger.entry(*wrong)
    ledger.record(number, "mine.release", "hash")
    assert ledger.entry_of("mine") is None
    assert ledger.entry(number, "mine").release == "mine.release"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"plan": 3}, "plan must be text, got 3"),
        ({"noise": None}, "noise must be text, got None"),
        ({"unit": 3}, "unit must be text, got 3"),
        ({"mechanism": "\ud800"}, "mechanism must be text in Unicode"),
    ],
)
def test_texts_of_a_charge_must_be_text(wrong: dict[str, Any], message: str, ledger: Ledger) -> None:
    with pytest.raises(OptionError, match=message):
        ledger.charge(Charge(rho=Fraction(1, 8), **wrong))
    assert ledger.entries == ()


def test_a_charge_without_a_number_is_refused() -> None:
    """SQLite's interface allows an insert without a row number; nothing may be drawn then."""

    class Unnumbered(sqlite3.Connection):
        def execute(self, *arguments: Any) -> Any:
            return types.SimpleNamespace(lastrowid=None) if arguments[1:] else super().execute(*arguments)

    connection = sqlite3.connect(":memory:", factory=Unnumbered)
    with pytest.raises(StorageError, match="could not be recorded; nothing was drawn"):
        charges.insert_charge(connection, Charge(rho=Fraction(1)))
    connection.close()


def test_a_name_that_is_taken_meanwhile_is_not_written_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process may create the file between the first look and the last step."""
    path = tmp_path / "one"
    fill = ledger_file._fill

    def fill_late(temporary: pathlib.Path, facts: Any) -> None:
        fill(temporary, facts)
        path.write_text("another's")

    monkeypatch.setattr(ledger_file, "_fill", fill_late)
    with pytest.raises(StorageError, match="exists already"):
        Ledger.create(path, Budget(rho=1))
    assert path.read_text() == "another's"
    assert list(tmp_path.iterdir()) == [path]


def test_an_unusable_ledger_names_the_reason(ledger: Ledger) -> None:
    """A table that is gone is no damage that SQLite sees, but nothing can be charged."""
    connection = sqlite3.connect(ledger.path)
    connection.execute("DROP TABLE entries")
    connection.close()
    with pytest.raises(StorageError, match=r"cannot be used \(no such table: entries\); check permissions and disk"):
        ledger.charge("1/8")
