"""What users of neighbouring tools met with, from the file to the answers, as they would do it here.

Each test is a situation in which some tool has failed somebody: odd labels, names and orders, odd encodings of files,
tables without rows, schemas of one kind only, edges that look alike. Most go through the command line, with the noise
left out where the answer must be exact. What concerns the single steps is tested beside them.
"""

from __future__ import annotations

import csv
import itertools
import pathlib
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import qcompile as qc
from qcompile.cli.app import execute
from qcompile.errors import IntegrityError, WorkloadError
from qcompile.grammar.reading.words import name_text, string_text
from qcompile.queries.schema import NumericDomain

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(autouse=True)
def _folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)


def write(data: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """A table as CSV with all fields in quotes, or as Parquet, by the ending of the name."""
    rows = [list(row) for row in rows]
    if data.endswith(".parquet"):
        pq.write_table(pa.table([[row[i] for row in rows] for i in range(len(header))], names=list(header)), data)
        return
    with open(data, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL).writerows([list(header), *rows])


def run(program: str, data: str, *options: str) -> None:
    """``qcompile run`` without noise (or as the options say), to ``out.release``."""
    pathlib.Path("w.q").write_text(program, encoding="utf-8")
    noise = () if options else ("--noise", "none")
    assert execute(["run", "w.q", "--data", data, "--rho", "1", *noise, *options, "-o", "out.release"]) == 0


def answers(family: str, ending: str = ".csv") -> list[dict[str, str]]:
    """``qcompile answers`` to a file, read again: one dict of texts a row."""
    target = f"answers{ending}"
    assert execute(["answers", "out.release", family, "-o", target]) == 0
    if ending == ".parquet":
        return [{k: str(v) for k, v in row.items()} for row in pq.read_table(target).to_pylist()]
    with open(target, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


RESULTS = ("estimate", "std_error", "lower", "upper")


def counts(family: str, ending: str = ".csv") -> dict[tuple[str, ...], int]:
    """Labels in the order of their columns, and the answer, which is whole without noise."""
    found = {}
    for row in answers(family, ending):
        assert float(row["estimate"]) == pytest.approx(round(float(row["estimate"])), abs=1e-6)
        found[tuple(v for k, v in row.items() if k not in RESULTS)] = round(float(row["estimate"]))
    return found


LABELS = [
    "NO",
    "null",
    "1e3",
    "?",
    "<=50K",
    "NULL",
    "nan",
    "",
    " x ",
    "a,b",
    '"',
    "'",
    "\\",
    "two\nlines",
    "01",
    "true",
]
LABELS += ["😀", "café", "%s", "{0}", "-", "None", "=1+1", "a: b"]


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_labels_that_other_programs_take_for_something_else(data: str, ending: str) -> None:
    """Norway, nulls, numbers and punctuation: from the schema and the data to the answers, letter by letter."""
    write(data, ["x"], [[label] for i, label in enumerate(LABELS) for _ in range(i + 1)])
    run(f"schema {{ x : category {{{', '.join(map(string_text, LABELS))}}} }}\nworkload {{ m : marginal(x) }}", data)
    assert counts("m", ending) == {(label,): i + 1 for i, label in enumerate(LABELS)}
    assert [row["x"] for row in answers("m", ending)] == LABELS
    release = qc.load_release("out.release")
    for i, label in enumerate(LABELS):
        assert release.ask(f"count(x = {string_text(label)})").estimate == pytest.approx(i + 1, abs=1e-6)


def test_codes_with_a_gap_keep_their_cells_labels_and_order() -> None:
    """Codes 4, 1, 2 are three cells, not four or five, in the order of the schema."""
    write("t.csv", ["code"], [[1]] * 3 + [[2]] * 5 + [[4]] * 7)
    run("schema { code : category {4, 1, 2} }\nworkload { m : marginal(code); p : prefix(code) }", "t.csv")
    assert list(counts("m").items()) == [(("4",), 7), (("1",), 3), (("2",), 5)]
    assert list(counts("p").values()) == [7, 10, 15]


UNKNOWN = ["", "smith ", " smith", "Smith", "smit", "tinker", "other"]


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_an_unknown_category_never_becomes_a_known_one(unknown: str, capsys: pytest.CaptureFixture[str]) -> None:
    write("t.csv", ["job"], [["cook"], ["smith"], [unknown], ["cook"]])
    program = 'schema {{ job : category {{"cook", "smith"}} {} }}\nworkload {{ jobs : marginal(job); rows : total }}'
    run(program.format('other "none of these"'), "t.csv")
    assert counts("jobs") == {("cook",): 2, ("smith",): 1, ("none of these",): 1}
    run(program.format("drop"), "t.csv")
    assert counts("jobs") == {("cook",): 2, ("smith",): 1}
    assert counts("rows") == {(): 3}
    pathlib.Path("w.q").write_text(program.format(""))
    capsys.readouterr()
    assert execute(["run", "w.q", "--data", "t.csv", "--rho", "1", "-o", "refused.release"]) == 2
    refused = capsys.readouterr().err
    assert "attribute 'job' has nulls or values outside its domain" in refused
    assert not (unknown.strip() and unknown in refused.replace("declare drop or other", ""))
    assert not pathlib.Path("refused.release").exists()


NAMES = ["capital-gain", "hours per week", "a.b", 'say "x"', "it's", "`tick`", "union", "each", "😀", "é", "x" * 300]
NAMES += ["weight", "total", "estimate's", " lead", "select * from t", "c0", "{name}", "%s", "a,b", "\\n", "rows"]


@pytest.mark.parametrize("data", ["t.csv", "t.parquet"])
def test_names_that_need_quotes(data: str) -> None:
    """Hyphens, spaces, points, quotes, an emoji, keywords, 300 letters: in the schema, the table and the answers."""
    write(data, [*reversed(NAMES)], [[NAMES.index(n) % 3 for n in reversed(NAMES)], [0] * len(NAMES)])
    lines = "\n".join(f"{name_text(n)} : integer 0..2" for n in NAMES)
    families = "\n".join(f"f{i} : marginal({name_text(n)})" for i, n in enumerate(NAMES))
    run(f"schema {{\n{lines}\n}}\nworkload {{\n{families}\n}}", data)
    for i, name in enumerate(NAMES):
        rows = answers(f"f{i}")
        assert next(iter(rows[0])) == name
        found = [round(float(row["estimate"])) for row in rows]
        assert found == [int(k == i % 3) + int(k == 0) for k in range(3)]


def test_four_orders_of_columns() -> None:
    """Schema, file, query and question each have their own order; the axes are those of the query."""
    rng = random.Random(4)
    rows = [{"a": rng.randrange(2), "b": rng.choice("xyz"), "c": rng.randrange(5, 9)} for _ in range(300)]
    write("t.csv", ["ignored", "c", "a", "b", "A"], [[9, r["c"], r["a"], r["b"], "?"] for r in rows])
    schema = 'schema { b : category {"z", "y", "x"}; a : integer 0..1; c : integer 5..8 }'
    run(f"{schema}\nworkload {{ cab : marginal(c, a, b); ac : marginal(a) * marginal(c) }}", "t.csv")
    truth = Counter((str(r["c"]), str(r["a"]), str(r["b"])) for r in rows)
    found = counts("cab")
    assert list(found) == list(itertools.product("5678", "01", "zyx"))
    assert {k: n for k, n in found.items() if n} == truth
    assert list(counts("ac")) == list(itertools.product("01", "5678"))
    release = qc.load_release("out.release")
    for names in itertools.permutations("abc"):
        array = release.marginal(names).array
        assert array.shape == tuple({"a": 2, "b": 3, "c": 4}[n] for n in names)
        back = array.transpose([names.index(n) for n in "cab"])
        assert np.rint(back).astype(int).ravel().tolist() == list(found.values())


LINES = ["ages : prefix(age) * marginal(job)", "jobs : marginal(job)", "sums : affine(age + kids <= *)"]
ATTRIBUTES = ["age : integer 0..3", 'job : category {"cook", "smith"}', "kids : integer 0..2"]


def test_every_order_of_lines_and_attributes_answers_alike() -> None:
    """Each of 6 orders of the attributes and of the families, twice: the same answers and errors, label by label."""
    rng = random.Random(5)
    rows = [[rng.randrange(4), rng.choice(["cook", "smith"]), rng.randrange(3)] for _ in range(200)]
    data = {n: [row[i] for row in rows] for i, n in enumerate(("age", "job", "kids"))}
    found: list[dict[tuple[str, str], tuple[float, float]]] = []
    orders = list(itertools.permutations(range(3)))
    for first, second in [*zip(orders, orders, strict=True), *zip(orders, reversed(orders), strict=True)]:
        attributes, lines = "\n".join(ATTRIBUTES[i] for i in first), "\n".join(LINES[i] for i in second)
        text = f"schema {{\n{attributes}\n}}\nworkload {{\n{lines}\n}}"
        release = qc.compile(text).run(data, qc.Budget(rho=1), noise="none")
        found.append(
            {
                (name, str([row[k] for k in sorted(set(row) - set(RESULTS))])): (row["estimate"], row["std_error"])
                for name in ("ages", "jobs", "sums")
                for row in release.answers(name).to_pylist()
            }
        )
    for other in found[1:]:
        assert other.keys() == found[0].keys()
        for key, values in other.items():
            assert values == pytest.approx(found[0][key], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("weight", ["1e-300", "1e300"])
def test_the_size_of_all_weights_together_changes_nothing(weight: str) -> None:
    text = "schema {{ a : integer 0..9; b : integer 0..4 }} workload {{ t : each 1..2 of all weight {} }}"
    assert qc.compile(text.format(weight)).rmse() == pytest.approx(qc.compile(text.format(1)).rmse(), rel=1e-6)


PEOPLE = "age,job\n41,cook\n17,caf\u00e9\n"
PROGRAM = 'schema { age : integer 0..99 drop; job : category {"cook", "café"} }\nworkload { m : marginal(job) }'

READ_ALIKE = {
    "as it is": PEOPLE.encode(),
    "a byte order mark": b"\xef\xbb\xbf" + PEOPLE.encode(),
    "CRLF": PEOPLE.replace("\n", "\r\n").encode(),
    "byte order mark, CRLF, quotes": b"\xef\xbb\xbf" + b'"age","job"\r\n"41","cook"\r\n"17","caf\xc3\xa9"\r\n',
    "no line end at the end": PEOPLE.rstrip().encode(),
    "empty lines at the end": PEOPLE.encode() + b"\n\n",
}


@pytest.mark.parametrize("name", READ_ALIKE)
def test_files_of_other_programs_that_are_read_alike(name: str) -> None:
    pathlib.Path("t.csv").write_bytes(READ_ALIKE[name])
    run(PROGRAM, "t.csv")
    assert counts("m") == {("cook",): 1, ("café",): 1}


REFUSED = {
    "UTF-16, as spreadsheets save it": (PEOPLE.encode("utf-16"), "is encoded in UTF-16; convert it to UTF-8"),
    "UTF-16 without a mark": (
        b"age,job\n41,cook\n".decode().encode("utf-16-le"),
        "seems to be encoded in UTF-16; convert it to UTF-8",
    ),
    "colons": (PEOPLE.replace(",", ":").encode(), "names none of the schema's attributes"),
    "Windows letters": (PEOPLE.encode("cp1252"), "is not encoded in UTF-8"),
    "no header": (PEOPLE.partition("\n")[2].encode(), "is the header line missing?"),
    "a column missing": (b"age,work\n41,cook\n", "lacks 1 of the 2 columns of the schema: 'job'"),
    "a column twice": (b"age,job,job\n41,cook,cook\n", "has 2 columns called 'job'; keep one of them"),
    "spaces behind the commas": (b"age, job\n41, cook\n", "lacks 1 of the 2 columns of the schema: 'job'"),
    "a field too many": (b"age,job\n41,cook,9\n", "check that every line has as many fields as the header"),
    "zero bytes": (b"", "is empty (zero bytes); a CSV file needs at least a header line"),
    "a spreadsheet": (b"PK\x03\x04" + bytes(40), "is a zip archive or a spreadsheet"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_that_are_refused_with_the_reason(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason and a next step, exit code 2, nothing of the file's content, and no release."""
    raw, expected = REFUSED[name]
    pathlib.Path("t.csv").write_bytes(raw)
    pathlib.Path("w.q").write_text(PROGRAM, encoding="utf-8")
    assert execute(["run", "w.q", "--data", "t.csv", "--rho", "1", "-o", "out.release"]) == 2
    message = capsys.readouterr().err
    assert expected in message
    assert "Traceback" not in message
    assert not any(value in message for value in ("41", "cook", "caf"))
    assert not pathlib.Path("out.release").exists()


NO_ROWS: dict[str, Callable[[], object]] = {
    "t.csv": lambda: pathlib.Path("t.csv").write_text("job,age\n"),
    "t.parquet": lambda: pq.write_table(
        pa.table(
            {"age": pa.array([], pa.int16()), "job": pa.array([], pa.string()), "when": pa.array([], pa.date32())}
        ),
        "t.parquet",
    ),
}


@pytest.mark.parametrize("data", NO_ROWS)
def test_a_table_without_rows_is_a_table(data: str) -> None:
    """All cells, all labels and the types of the answers are there; the answers are the noise alone."""
    NO_ROWS[data]()
    run(PROGRAM.replace("marginal(job)", "prefix(age) * marginal(job)"), data)
    empty = answers("m")
    assert {float(row["estimate"]) for row in empty} == {0.0}
    assert len(empty) == 200
    run(PROGRAM.replace("marginal(job)", "prefix(age) * marginal(job)"), data, "--test-seed", "1")
    assert execute(["answers", "out.release", "m", "-o", "noisy.parquet"]) == 0
    noisy = pq.read_table("noisy.parquet")
    labels = [t.value_type if pa.types.is_dictionary(t) else t for t in noisy.schema.types[:2]]
    assert labels + noisy.schema.types[2:] == [pa.string()] * 2 + [pa.float64()] * 4
    z = np.asarray(noisy["estimate"]) / np.asarray(noisy["std_error"])
    assert 0.2 < np.abs(z).mean() < 2
    assert np.abs(z).max() < 6


KINDS = {
    "all categorical": ('a : category {"x", "y"}\nb : category {true, false}', ["x", "true"], 3 * 3 - 1),
    "all numeric": ("a : integer 0..2\nb : numeric [0, 1.5, 3]", ["1", "2.5"], 4 * 3 - 1),
    "one attribute": ("a : integer 0..2", ["1"], 3),
    "one attribute of one value": ('a : category {"x"}', ["x"], 1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_of_one_kind_only(kind: str) -> None:
    schema, row, queries = KINDS[kind]
    header = ["a", "b"][: len(row)]
    write("t.csv", header, [row] * 4)
    run(f"schema {{\n{schema}\n}}\nworkload {{ all : each 1..{len(row)} of all; rows : total }}", "t.csv")
    found = answers("all")
    assert len(found) == queries
    assert max(float(r["estimate"]) for r in found) == pytest.approx(4)
    assert counts("rows") == {(): 4}


def test_a_schema_of_no_attribute_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pathlib.Path("w.q").write_text("schema { }\nworkload { rows : total }\n")
    write("t.csv", ["a"], [["1"]])
    assert execute(["run", "w.q", "--data", "t.csv", "--rho", "1", "-o", "out.release"]) == 2
    assert "w.q:1:" in capsys.readouterr().err


@pytest.mark.parametrize("sizes", [[1], [1, 3], [2, 1, 2]], ids=str)
@pytest.mark.parametrize("kind", ["marginal", "prefix", "range"])
@pytest.mark.parametrize("solver", ["auto", "rp", "rp+"])
def test_attributes_of_one_value(sizes: list[int], kind: str, solver: str) -> None:
    """No residual stands for such an attribute, no error is infinite or not a number, and answers are exact."""
    names = "abc"[: len(sizes)]
    schema = "\n".join(f"{n} : integer 1..{s}" for n, s in zip(names, sizes, strict=True))
    product = " * ".join(f"{kind}({n})" for n in names)
    plan = qc.compile(f"schema {{\n{schema}\n}}\nworkload {{ all : {product}; rows : total }}", solver=solver)
    for node in (m.attributes for m in plan.measurements(qc.Budget(rho=1))):
        assert all(sizes[names.index(n)] > 1 for n in node)
    rng = random.Random(6)
    data = {n: [rng.randint(1, s) for _ in range(50)] for n, s in zip(names, sizes, strict=True)}
    release = plan.run(data, qc.Budget(rho=1), noise="none")
    table = release.answers("all")
    assert table.num_rows == plan.queries - 1
    assert np.isfinite(np.asarray(table["std_error"])).all()
    assert min(table["std_error"].to_pylist()) > 0
    truth = Counter(zip(*data.values(), strict=True))
    array = release.marginal(tuple(names)).array
    for cell in np.ndindex(*sizes):
        assert array[cell] == pytest.approx(truth[tuple(c + 1 for c in cell)], abs=1e-6)


def test_edges_that_look_alike_stay_apart() -> None:
    """Bins as narrow as 10^-12: distinct labels whose ends are the declared edges, and values that fall between."""
    edges = (0.1, 0.1 + 1e-12, 0.2)
    listed = ", ".join(map(repr, edges))
    pq.write_table(pa.table({"x": [0.1, 0.1 + 5e-13, 0.1 + 1e-12, 0.15, 0.2]}), "t.parquet")
    run(f"schema {{ x : numeric [{listed}] }}\nworkload {{ m : marginal(x); p : prefix(x) }}", "t.parquet")
    found = counts("m")
    assert list(found.values()) == [2, 3]
    labels = [label for (label,) in found]
    assert [tuple(map(float, label.strip("[])").split(","))) for label in labels] == [edges[:2], edges[1:]]
    assert [float(label.split()[1]) for (label,) in counts("p")] == [*edges[1:]]
    again = qc.parse(f"schema {{ x : numeric {labels[0]} }}\nworkload {{ total }}").schema["x"].domain
    assert again == NumericDomain(edges[:2], closed=False)


WRONG_EDGES = {
    "[3, 2]": "edge 2 (2) is below edge 1 (3)",
    "[1, 1]": "edge 2 (1) equals edge 1 (1)",
    "[0, 1, 1.0]": "edge 3 (1.0) equals edge 2 (1)",
    "[1]": "one edge makes no bin",
    "[]": "a numeric domain is its bin edges in square brackets",
    "[nan]": "a numeric domain is its bin edges in square brackets",
    "[0, nan]": "unexpected 'nan'",
    "[0, inf)": "unexpected 'inf'",
    "[0, 1e999]": "edge 2 (1e999) is too large for a double",
}


@pytest.mark.parametrize("edges", WRONG_EDGES)
def test_edges_that_make_no_bins(edges: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message shows the attribute's line and says which edge it is about."""
    pathlib.Path("w.q").write_text(
        f"schema {{\n  age : integer 0..9\n  pay : numeric {edges}\n}}\nworkload {{ total }}\n"
    )
    assert execute(["check", "w.q"]) == 2
    message = capsys.readouterr().err
    assert message.startswith("w.q:3:")
    assert WRONG_EDGES[edges] in message
    assert f"    3 |   pay : numeric {edges}" in message


@pytest.mark.parametrize(
    "edges", [(3.0, 2.0), (1.0, 1.0), (1.0,), (), (float("nan"),), (0.0, float("nan")), (0.0, 1e999)]
)
def test_edges_that_make_no_bins_from_python(edges: tuple[float, ...]) -> None:
    with pytest.raises(IntegrityError, match="edge"):
        NumericDomain(edges)


def test_an_attribute_declared_twice_is_shown_at_both_places() -> None:
    with pytest.raises(WorkloadError) as caught:
        qc.parse("schema {\n  age : integer 0..9\n  job : integer 0..1\n  age : integer 0..5\n}\nworkload { total }")
    found = caught.value.diagnostics
    assert [d.message for d in found if d.severity == "error"] == ["attribute 'age' is declared twice"]
    shown = "\n".join(map(str, found))
    assert "    4 |   age : integer 0..5" in shown
    assert "    2 |   age : integer 0..9" in shown


FAMILIES = "m : marginal(a, b); p : prefix(a) * marginal(b); r : range(n); e : each 1..2 of all"


@pytest.mark.parametrize("options", [("batch", "unbiased"), ("batch", "best"), ("adaptive", "best")], ids=str)
def test_answers_have_the_declared_labels_and_no_others(options: tuple[str, str]) -> None:
    """Whatever the data and the processing, no None, -1, nan or empty label comes out that was not put in."""
    mechanism, estimate = options
    declared = {"a": ["x", "y"], "b": ["5", "7", "rest"], "n": ["[0, 2)", "[2, 4)"]}
    plan = qc.compile(
        f'schema {{ a : category {{"x", "y"}} drop; b : category {{5, 7}} other "rest"; n : numeric [0, 2, 4) clip }}'
        f"\nworkload {{ {FAMILIES} }}"
    )
    data = {"a": ["x", None, "y", "?"] * 9, "b": [5.0, -1.0, None, 7.0] * 9, "n": [0.0, -1.0, 9.0, 3.9] * 9}
    release = plan.run(data, qc.Budget(rho=1), mechanism=mechanism, test_seed=3)
    table = release.answers("m", estimate=estimate)
    assert [(r["a"], r["b"]) for r in table.to_pylist()] == [*itertools.product(declared["a"], declared["b"])]
    for row in release.answers("e", estimate=estimate).to_pylist():
        named = {n: row[n] for n in declared if row[n]}
        assert 1 <= len(named) <= 2
        assert all(str(v) in [*declared[n], *uppers(n)] for n, v in named.items())


def uppers(name: str) -> list[str]:
    """What prefixes of the bins are called."""
    return ["< 2", "< 4"] if name == "n" else []


UNITS = "schema { age : integer 0..9 clip }\nworkload { ages : marginal(age); rows : total }"


@pytest.mark.parametrize("contributions", [1, 2, 5])
def test_a_person_has_several_rows(contributions: int) -> None:
    """At most k rows of each person count, and all errors are those of one row times k."""
    write("t.csv", ["person", "age"], [[f"p{i % 7}", i % 10] for i in range(28)])
    pathlib.Path("w.q").write_text(UNITS)
    assert execute(["compile", "w.q", "-o", "one.plan"]) == 0
    assert execute(["compile", "w.q", "--contributions", str(contributions), "-o", "w.plan"]) == 0
    line = ["run", "w.plan", "--data", "t.csv", "--rho", "1", "--noise", "none", "--unit", "person"]
    assert execute([*line, "-o", "out.release"]) == 0
    assert counts("rows") == {(): 7 * min(contributions, 4)}
    one = qc.load_plan("one.plan").rmse()
    assert qc.load_plan("w.plan").rmse() == pytest.approx(contributions * one)


@pytest.mark.parametrize("contributions", ["0", "-1", "1.5", "many"])
def test_a_person_has_no_such_number_of_rows(contributions: str) -> None:
    pathlib.Path("w.q").write_text(UNITS)
    assert execute(["compile", "w.q", "--contributions", contributions]) == 2


def test_messages_have_no_holes() -> None:
    """In every message that is on file: no placeholder without its value, no object without a text."""
    texts = [f.read_text(encoding="utf-8") for f in [*GOLDEN.glob("errors/*.txt"), *GOLDEN.glob("cli/*.txt")]]
    assert sum(text.count("error: ") for text in texts) > 200
    printed = [line for text in texts for line in text.splitlines() if "error: " in line]
    holes = re.compile(r"\{[a-z_.!]*\}|%[sdr]\b|<[\w.]+ object at|<class |\bNone\b|\bnan\b(?!')|\bself\b")
    assert [line for line in printed if holes.search(re.sub(r"got .*|'[^']*'", "", line))] == []
