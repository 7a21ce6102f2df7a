"""Deliberate mistakes in data files, budgets, options, plans and queries, with everything that is printed for each.

The expected texts stand in ``cli/mistakes.txt``, stdout and stderr apart; ``pytest tests/golden --update-golden``
rewrites it. Read them as a newcomer would: what is wrong, and what to do next.
"""

from __future__ import annotations

import pathlib
import shlex
import zipfile

import pyarrow
import pyarrow.parquet
import pytest

from qcompile.cli.app import execute

EXPECTED = pathlib.Path(__file__).parent / "cli" / "mistakes.txt"

WORKLOAD = """
schema { age : integer 0..9
         job : category {"cook", "smith"} }
workload { ages : prefix(age)
           jobs : marginal(job) }
"""

MORE_PLANS: dict[str, tuple[str, ...]] = {
    "total": ("schema { age : integer 0..9 clip }\nworkload { rows : total }\n",),
    "blocks": (
        "schema { a : integer 0..9 clip; b : integer 0..9 clip }\nworkload { sums : affine(a + b <= *) }\n",
        "--blocks",
        "yes",
    ),
    "skewed": (
        "schema { a : integer 0..9 clip; b : integer 0..9 clip }\nworkload { both : prefix(a) * prefix(b) }\n",
        "--centring",
        "optimised",
    ),
}
"""Workloads, each with the options that it is compiled with."""

FILES: dict[str, bytes] = {
    "good.csv": b"age,job\n3,cook\n4,smith\n",
    "no-column.csv": b"age,jobs\n3,cook\n",
    "unknown-category.csv": b"age,job\n3,zeppelinist\n",
    "text-in-number.csv": b"age,job\nseventytwo,cook\n",
    "outside.csv": b"age,job\n7777,cook\n",
    "null.csv": b"age,job\n,cook\n",
    "empty.csv": b"",
    "no-header.csv": b"3,cook\n4,smith\n",
    "twice.csv": b"age,job,age\n3,cook,3\n",
    "half.csv.gz": b"\x1f\x8b\x08\x00\x00",
    "lines.jsonl": b'{"age": 3}\n{"age": 3, "job": "cook"}\n',
    "utf16.csv": "age,job\n3,cook\n".encode("utf-16"),
    "latin1.csv": "age,job\n3,caf\xe9\n".encode("latin-1"),
    "ragged.csv": b"age,job\n3,cook\n4\n5,cook,8888,9999\n",
    "table.xlsx": b"PK",
    "broken.parquet": b"PAR1 is not enough",
    "text.plan": b"not a plan",
    "bad.q": b"schema { age : integer 0..9 }\nworkload { ages : prefix(agee) }\n",
    "utf16.q": "schema {}".encode("utf-16"),
    "empty.q": b"",
    "unclosed.q": b"schema { age : integer 0..9 }\nworkload { ages : prefix(age }\n",
}

# Columns of type text and float where the schema declares whole numbers.
TABLES: dict[str, dict[str, list[str] | list[float]]] = {
    "text.parquet": {"age": ["seventytwo"], "job": ["cook"]},
    "fraction.parquet": {"age": [7777.5], "job": ["cook"]},
}

SECRETS = ("zeppelinist", "seventytwo", "7777", "8888", "9999", "caf\xe9")

RUN = "run w.plan -o out.release --data"

# Command line and the exit code it must have: 2 for the user's mistakes, 3 for budgets.
MISTAKES: list[tuple[str, int]] = [
    *(
        (f"{RUN} {name} --rho 1", 2)
        for name in (*FILES, *TABLES)
        if name.endswith((".csv", ".gz", ".jsonl", ".xlsx", ".parquet"))
        if name != "good.csv"
    ),
    (f"{RUN} nowhere.csv --rho 1", 2),
    (f"{RUN} . --rho 1", 2),
    (f"{RUN} good.csv --rho 1 --data good.csv", 2),
    (f"{RUN} good.csv --rho 1 --data text.parquet", 2),
    (f"{RUN} good.csv --rho 1 --data l.db --table t", 2),
    (f"{RUN} 'none*.csv' --rho 1", 2),
    (f"{RUN} https://example.org/good.csv --rho 1", 2),
    (f"{RUN} good.csv --epsilon 0 --delta 1e-9", 3),
    (f"{RUN} good.csv --epsilon -1 --delta 1e-9", 3),
    (f"{RUN} good.csv --epsilon nan --delta 1e-9", 3),
    (f"{RUN} good.csv --epsilon inf --delta 1e-9", 3),
    (f"{RUN} good.csv --epsilon abc --delta 1e-9", 3),
    (f"{RUN} good.csv --epsilon '' --delta 1e-9", 3),
    (f"{RUN} good.csv --epsilon 1 --delta 0", 3),
    (f"{RUN} good.csv --epsilon 1 --delta 1", 3),
    (f"{RUN} good.csv --epsilon 1 --delta nan", 3),
    (f"{RUN} good.csv --epsilon 1", 3),
    (f"{RUN} good.csv --delta 1e-9", 3),
    (f"{RUN} good.csv --epsilon 1 --delta 1e-9 --rho 1", 3),
    (f"{RUN} good.csv --rho 0", 3),
    (f"{RUN} good.csv --rho 1/0", 3),
    (f"{RUN} good.csv --rho 1e400", 3),
    (f"{RUN} good.csv", 2),
    (f"{RUN} good.csv --rho 1 --noise laplace", 2),
    (f"{RUN} good.csv --rho 1 --noise opendp --accounting gaussian", 2),
    (f"{RUN} good.csv --rho 1 --accounting renyi", 2),
    (f"{RUN} good.csv --rho 1 --mechanism magic", 2),
    (f"{RUN} good.csv --rho 1 --max-memory plenty", 2),
    (f"{RUN} good.csv --rho 1 --max-memory 10B", 2),
    (f"{RUN} good.csv --rho 1 --test-seed -1", 2),
    (f"{RUN} good.csv --rho 1 --test-seed 1 --noise opendp", 2),
    ("run w.plan --rho 1 -o out.release", 2),
    ("run w.plan --rho 1 --data good.csv", 2),
    ("run w.plan --rho 1 --data good.csv -o nowhere/out.release", 2),
    ("run w.plan --rho 1 --data good.csv -o good.csv", 2),
    ("run w.plan --rho 1 --data good.csv -o ./w.plan", 2),
    ("run w.plan --rho 1 --max-memory plenty --dry-run", 2),
    ("run text.plan --rho 1 --data good.csv -o out.release", 2),
    ("run w.release --rho 1 --data good.csv -o out.release", 2),
    ("run nowhere.plan --rho 1 --data good.csv -o out.release", 2),
    ("inspect cut.plan", 2),
    ("inspect edited.plan", 2),
    ("inspect forged.plan", 2),
    ("inspect text.plan", 2),
    ("inspect w.plan --json --dot", 2),
    ("diff w.plan", 2),
    ("diff w.plan nowhere.plan", 2),
    ("diff nowhere.q w.plan", 2),
    ("diff w.plan .", 2),
    ("diff w.plan cut.plan", 2),
    ("diff edited.plan w.plan", 2),
    ("diff w.plan text.plan", 2),
    ("diff w.plan w.release", 2),
    ("diff w.plan bad.q", 2),
    ("compile w.q --solver best", 2),
    ("compile w.q --gap 0", 2),
    ("compile w.q --gap nan", 2),
    ("compile w.q --contributions 0", 2),
    ("compile w.q -o nowhere/w.plan", 2),
    ("compile w.q -o w.q", 2),
    ("compile bad.q", 2),
    ("compile utf16.q", 2),
    ("check bad.q", 2),
    ("check empty.q", 2),
    ("check unclosed.q", 2),
    ("check nowhere.q", 2),
    ("check w.plan", 2),
    ("check w.release", 2),
    ("compile w.plan", 2),
    ("fmt w.plan", 2),
    ("compile w.q --wrong", 2),
    ("inspect", 2),
    ("fmt .", 2),
    ("answers w.plan", 2),
    ("answers good.csv", 2),
    ("answers cut.release", 2),
    ("answers edited.release", 2),
    ("answers nowhere.release", 2),
    ("answers w.release agess", 2),
    ("answers w.release ages --alpha 2", 2),
    ("answers w.release ages --alpha nan", 2),
    ("answers w.release ages -o ages.docx", 2),
    ("answers w.release ages -o nowhere/ages.csv", 2),
    ("answers w.release ages --of agee", 2),
    ("answers w.release ages --of job", 2),
    ("answers w.release ages --where agee=1", 2),
    ("answers w.release ages --where 'age=<= 11'", 2),
    ("answers w.release ages --where age", 2),
    ("answers w.release ages --all", 2),
    ("answers w.release --of age", 2),
    ("ask w.release 'count(age in 0..3 and job = \"cook\")'", 2),
    ("ask w.plan total", 2),
    ("ask w.release total --alpha 0", 2),
    ("ask w.release ''", 2),
    ("ask w.release 'prefix(age)'", 2),
    ("ask w.release 'count(age = 1) count(age = 2)'", 2),
    ("ask w.release 'COUNT(age = 1)'", 2),
    ("ask w.release 'mean(age)'", 2),
    ("ask w.release 'count(agee = 1)'", 2),
    ("ask w.release 'count(job = \"cok\")'", 2),
    ("ask w.release 'count(age ='", 2),
    ("compile w.q --neighbours replace", 2),
    (f"{RUN} good.csv --rho 3 --ledger l --strict-values", 3),
    (f"{RUN} good.csv --rho 3 --ledger l --strict-values --dry-run", 3),
    (f"{RUN} good.csv --rho 1 --ledger l", 2),
    (f"{RUN} good.csv --rho 1 --ledger nowhere", 2),
    (f"{RUN} good.csv --rho 1 --ledger good.csv", 2),
    (f"{RUN} good.csv --rho 1 --ledger w.plan", 2),
    (f"{RUN} good.csv --rho 1 --ledger l --strict-values --noise none", 2),
    (f"{RUN} good.csv --rho 1 --ledger l --strict-values --test-seed 1", 2),
    ("run w.plan --data good.csv --rho 1 --ledger l --strict-values -o l", 2),
    (f"{RUN} outside.csv --rho 1 --ledger l --strict-values", 2),
    (f"{RUN} good.csv --rho 1 --unit person", 2),
    (f"{RUN} good.csv --rho 1 --unit jobb", 2),
    (f"{RUN} good.csv --rho 1 --workers 0", 2),
    ("run replaced.plan --data good.csv --rho 1 -o out.release --unit job", 2),
    ("run replaced.plan --data good.csv --rho 1 -o out.release --ledger l --strict-values", 3),
    ("ledger create l --rho 1", 2),
    ("ledger create new", 2),
    ("ledger create new --rho 0", 3),
    ("ledger create new --epsilon 1 --delta 0", 3),
    ("ledger create new --rho 1 --neighbours swap", 2),
    ("ledger create new --rho 1 --contributions 0", 2),
    ("ledger create nowhere/new --rho 1", 2),
    ("ledger show nowhere", 2),
    ("ledger show w.release", 2),
    ("ledger show cut.ledger", 2),
    ("schema draft nowhere.csv", 2),
    ("schema draft empty.csv", 2),
    ("schema draft good.csv -o good.csv", 2),
    ("schema draft good.csv -o w.q", 2),
    ("schema draft utf16.csv", 2),
    (f"{RUN} good.csv --rho 1 --mechanism adaptiv", 2),
    (f"{RUN} good.csv --rho 1 --mechanism adaptive --reference trees", 2),
    (f"{RUN} good.csv --rho 1 --mechanism adaptive --basis residuals", 2),
    (f"{RUN} good.csv --rho 1 --mechanism adaptive --accounting gaussian", 2),
    (f"{RUN} good.csv --rho 1 --mechanism adaptive --max-memory 100", 2),
    (f"{RUN} good.csv --rho 1e30 --mechanism adaptive", 3),
    (f"{RUN} good.csv --rho 1 --basis residual", 2),
    (f"{RUN} good.csv --mu 0.3 --mechanism adaptive", 3),
    (f"{RUN} good.csv --mu 0.3 --noise opendp", 3),
    (f"{RUN} good.csv --rho 1 --max-count 3", 2),
    (f"{RUN} good.csv --rho 1 --count-column n --count-step 0.1", 2),
    (f"{RUN} good.csv --rho 1 --count-column n --max-count 1 --count-step 0.3", 2),
    (f"{RUN} good.csv --rho 1 --count-column n --max-count many", 2),
    (f"{RUN} good.csv --rho 1 --count-column n --max-count 1e12", 2),
    ("run total.plan --data good.csv --rho 1 --mechanism adaptive -o out.release", 2),
    ("run blocks.plan --data good.csv --rho 1 --mechanism adaptive -o out.release", 2),
    ("run skewed.plan --data good.csv --rho 1 --mechanism adaptive --basis residual -o out.release", 2),
    ("answers w.release ages --estimate bets", 2),
    ("answers w.release ages --processing integer", 2),
    ("answers w.release ages --estimate best --processing integers", 2),
    ("answers adaptive.release ages --estimate unbiased --processing nonnegative", 2),
    ("ask adaptive.release 'count(age = 1 and job = \"cook\")'", 2),
    ("ask w.release total --estimate worst", 2),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a workload, its plan, a release and every faulty file."""
    path = tmp_path_factory.mktemp("cli")
    (path / "w.q").write_text(WORKLOAD)
    for name, content in FILES.items():
        (path / name).write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        assert execute(["compile", "w.q"]) == 0
        assert execute(["compile", "w.q", "--neighbours", "replace-one", "-o", "replaced.plan"]) == 0
        assert execute(["ledger", "create", "l", "--rho", "2", "--neighbours", "add-remove"]) == 0
        assert (
            execute(["run", "w.plan", "--data", "good.csv", "--rho", "1", "--test-seed", "1", "-o", "w.release"]) == 0
        )
        for name, options in MORE_PLANS.items():
            (path / f"{name}.q").write_text(options[0])
            assert execute(["compile", f"{name}.q", *options[1:]]) == 0
        adaptive = ["run", "w.plan", "--data", "good.csv", "--rho", "1", "--test-seed", "1", "--mechanism", "adaptive"]
        assert execute([*adaptive, "-o", "adaptive.release"]) == 0
    for name, columns in TABLES.items():
        pyarrow.parquet.write_table(pyarrow.table(columns), path / name)
    for kind in ("plan", "release"):
        whole = (path / f"w.{kind}").read_bytes()
        (path / f"cut.{kind}").write_bytes(whole[: len(whole) // 2])
        (path / f"edited.{kind}").write_bytes(edited(whole))
    forge(path / "w.plan", path / "forged.plan")
    (path / "cut.ledger").write_bytes((path / "l").read_bytes()[:5000])
    return path


EDITED = b'"contributions": 1', b'"contributions": 0'


def edited(content: bytes) -> bytes:
    """Other bytes in a stored member, as a text editor would leave them: the zip's own checksum is wrong."""
    assert EDITED[0] in content
    return content.replace(*EDITED)


def forge(source: pathlib.Path, target: pathlib.Path) -> None:
    """The same edit made with a zip tool, which mends the checksum: only the hash in the manifest is wrong."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for member in old.infolist():
            content = old.read(member)
            new.writestr(member, edited(content) if member.filename == "document.json" else content)


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Every file: a refused command must neither write, change nor remove one."""
    return {f.name: f.read_bytes() for f in folder.iterdir()}


def section(name: str, text: str) -> str:
    return f"--- {name}\n{text.rstrip()}\n" if text.strip() else ""


def test_mistakes(
    folder: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("qcompile.support.threads.os.cpu_count", lambda: 2)  # memory is stated for as many threads
    shown, before = [], contents(folder)
    for line, code in MISTAKES:
        found = execute(shlex.split(line))
        out, err = capsys.readouterr()
        assert found == code, f"{line}: exit code {found}\n{out}{err}"
        assert "Traceback" not in out + err, line
        assert not any(secret in out + err for secret in SECRETS), line
        assert err, line
        assert contents(folder) == before, line
        shown.append(f"=== qcompile {line}\nexit {found}\n{section('stdout', out)}{section('stderr', err)}")
    text = "\n".join(shown)
    if request.config.getoption("--update-golden", default=False):
        EXPECTED.write_text(text, encoding="utf-8")
    assert text == EXPECTED.read_text(encoding="utf-8")


def test_enough_mistakes() -> None:
    assert len({line for line, _ in MISTAKES}) >= 85
