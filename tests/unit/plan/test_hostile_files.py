"""Hostile plans and releases: refused in one sentence, at once, frugally, and never believed."""

from __future__ import annotations

import io
import json
import math
import os
import pathlib
import struct
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qcompile.api import Plan, Release, compile, load_plan, load_release
from qcompile.errors import QCompileError, SizeError, StorageError
from qcompile.plan.encoding import COSINE_ARRAYS, ArrayStore, read_strategy
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Marginal, Prefix, Range
from qcompile.support import archive
from qcompile.support.arrays import Array, digest
from qcompile.support.json_fields import Field
from tests.conformance.helpers import family, integers, workload
from tests.unit.plan.test_files import edit, members, reseal, rewrite

Contents = dict[str, bytes]
ATTRIBUTES = integers(4, 3, 5)
COUNTS: dict[Any, Any] = {("a", "b", "c"): np.arange(60).reshape(4, 3, 5)}
SECONDS, MEMORY = 2.0, 2**22


@pytest.fixture(scope="module")
def plan() -> Plan:
    a, b, c = ATTRIBUTES
    pairs = family(Prefix(a), Range(b), Marginal(c), choose=(1, 2), name="pairs")
    return compile(workload(ATTRIBUTES, pairs, family(Prefix(a), Prefix(b), Prefix(c), name="all")))


@pytest.fixture
def saved(plan: Plan, tmp_path: pathlib.Path) -> pathlib.Path:
    plan.save(tmp_path / "x.plan")
    return tmp_path / "x.plan"


@pytest.fixture
def released(plan: Plan, tmp_path: pathlib.Path) -> pathlib.Path:
    plan.run(COUNTS, Budget(rho="1/3"), test_seed=1).save(tmp_path / "x.release")
    return tmp_path / "x.release"


def refusal(path: pathlib.Path, load: Callable[[pathlib.Path], object] = load_plan) -> str:
    """The message of the refusal: at once, one paragraph, printable."""
    start = time.process_time()
    with pytest.raises(QCompileError) as caught:
        load(path)
    elapsed = time.process_time() - start
    assert isinstance(caught.value, StorageError | SizeError)
    assert elapsed < SECONDS, elapsed
    message = str(caught.value).replace(str(path), "")
    assert message.isprintable()
    assert len(message) < 250
    return message


def frugally(path: pathlib.Path) -> str:
    """The message of a refusal that takes no more memory than the file and a little beside it."""
    tracemalloc.start()
    try:
        with pytest.raises(StorageError) as caught:
            load_plan(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MEMORY + path.stat().st_size, peak
    return str(caught.value)


# --- what is at the path ---


def test_what_is_no_file_is_refused_without_being_opened(tmp_path: pathlib.Path) -> None:
    """A pipe without a writer would block for ever, and /dev/zero never end."""
    pipe, loop, folder = tmp_path / "pipe", tmp_path / "loop", tmp_path / "folder"
    os.mkfifo(pipe)
    loop.symlink_to(loop)
    folder.mkdir()
    for load in (load_plan, load_release):
        assert "is a pipe or a device" in refusal(pipe, load)
        assert "is a pipe or a device" in refusal(pathlib.Path("/dev/zero"), load)
        assert "is a folder" in refusal(folder, load)
        assert "is not a qcompile" in refusal(loop, load)
        with pytest.raises(StorageError, match="no file"):
            load(tmp_path / "absent")
        with pytest.raises(StorageError, match="is not a qcompile"):
            load("zero\0character")
        with pytest.raises(StorageError, match="is not a qcompile"):
            load("x" * 5000)
    assert all(archive.kind_of(p) is None for p in (pipe, loop, folder, "/dev/zero", tmp_path / "absent", "a\0b"))


# --- the zip around the members ---


def test_a_file_cut_anywhere_is_refused(saved: pathlib.Path) -> None:
    data = saved.read_bytes()
    cuts = {*range(40), *range(0, len(data), max(1, len(data) // 40)), *range(len(data) - 120, len(data))}
    for cut in sorted(cuts):
        saved.write_bytes(data[:cut])
        with pytest.raises(StorageError):
            load_plan(saved)


def test_bytes_before_and_after_the_zip_are_refused(saved: pathlib.Path) -> None:
    data = saved.read_bytes()
    for changed in (data + b"x", data + data[-22:], data[:-1] + b"\x01", data + b"\0" * 200_000):
        saved.write_bytes(changed)
        assert "damaged" in refusal(saved)


def directory(data: bytes) -> int:
    """Where the directory starts."""
    return int(struct.unpack("<L", data[-6:-2])[0])


def with_directory_field(data: bytes, offset: int, value: bytes) -> bytes:
    """A field of the first entry of the directory replaced."""
    at = directory(data) + offset
    return data[:at] + value + data[at + len(value) :]


LIES: dict[str, Callable[[bytes], bytes]] = {
    "4 GB in the directory": lambda d: with_directory_field(d, 20, struct.pack("<LL", 2**32 - 2, 2**32 - 2)),
    "sizes that differ": lambda d: with_directory_field(d, 20, struct.pack("<L", 10)),
    "the last member again": lambda d: with_directory_field(d, 42, struct.pack("<L", directory(d) - 100)),
    "a member past the end": lambda d: with_directory_field(d, 42, struct.pack("<L", 2**31)),
    "another name in the member": lambda d: d[:30] + b"X" + d[31:],
    "an encrypted member": lambda d: with_directory_field(d, 8, b"\1\0"),
    "a directory of 4 GB": lambda d: d[:-10] + struct.pack("<L", 2**32 - 2) + d[-6:],
    "a directory past the end": lambda d: d[:-6] + struct.pack("<L", 2**32 - 2) + d[-2:],
    "a pointer to long numbers that are not there": lambda d: (
        d[:-22] + b"PK\6\7" + struct.pack("<LQL", 0, 2**60, 1) + d[-22:]
    ),
    "long numbers of 10^15 bytes": lambda d: (
        d[:-22]
        + b"PK\6\6" + struct.pack("<QHHLLQQQQ", 44, 45, 45, 0, 0, 1, 1, 10**15, 0)
        + b"PK\6\7" + struct.pack("<LQL", 0, len(d) - 22, 1)
        + d[-22:]
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_zip_that_lies_about_sizes_is_refused(lie: str, saved: pathlib.Path) -> None:
    before = saved.read_bytes()
    after = LIES[lie](before)
    assert after != before
    saved.write_bytes(after)
    assert refusal(saved)
    assert frugally(saved)


def test_long_sizes_of_a_single_member_are_refused(saved: pathlib.Path) -> None:
    """The directory's 64-bit extension claims 10^15 bytes."""
    data = saved.read_bytes()
    start = directory(data)
    name = struct.unpack("<H", data[start + 28 : start + 30])[0]
    extra = struct.pack("<HHQQ", 1, 16, 10**15, 10**15)
    entry = data[start : start + 20] + b"\xff" * 8 + data[start + 28 : start + 30] + struct.pack("<H", len(extra))
    entry += data[start + 32 : start + 46 + name] + extra
    changed = data[:start] + entry + data[start + 46 + name : -22]
    (size,) = struct.unpack("<L", data[-10:-6])
    saved.write_bytes(changed + data[-22:-10] + struct.pack("<L", size + len(extra)) + data[-6:])
    assert "unpacks to 1.0 PB" in refusal(saved)
    assert frugally(saved)


def test_compressed_members_are_refused_unpacked(saved: pathlib.Path) -> None:
    rewrite(saved, {**members(saved), "bomb.npy": bytes(2**26)}, zipfile.ZIP_DEFLATED)
    assert saved.stat().st_size < 2**20
    assert "not compressed" in refusal(saved)
    assert frugally(saved)


def test_overlapping_members_are_refused(saved: pathlib.Path) -> None:
    """A thousand entries that all point to the same bytes."""
    data = saved.read_bytes()
    start = directory(data)
    header = data[start : start + 46]
    name, size = data[start + 46 : start + 46 + header[28]], 1000 * (46 + header[28])
    entries = 1000 * (header + name)
    end = b"PK\5\6" + struct.pack("<HHHHLLH", 0, 0, 1000, 1000, size, start, 0)
    saved.write_bytes(data[:start] + entries + end)
    assert refusal(saved)


def test_a_million_members_are_refused_unlisted(tmp_path: pathlib.Path) -> None:
    entry = b"PK\1\2" + bytes(24) + struct.pack("<H", 1) + bytes(16) + b"x"
    assert len(entry) == 47
    path = tmp_path / "p"
    end = b"PK\5\6" + struct.pack("<HHHHLLH", 0, 0, 65535, 65535, 47 * 10**6, 0, 0)
    path.write_bytes(entry * 10**6 + end)
    assert "more members than" in refusal(path)
    assert frugally(path)
    assert archive.kind_of(path) is None


def test_repeated_members_are_refused(saved: pathlib.Path) -> None:
    """What the first of two members of one name holds is not what is hashed."""
    contents = list(members(saved).items())
    with zipfile.ZipFile(saved, "w") as z, warnings.catch_warnings(action="ignore"):
        for name, data in [("document.json", b"{}"), *contents]:
            z.writestr(name, data)
    assert "members that its manifest does not list" in refusal(saved)


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a\\b", "..", "con", "x" * 60_000, "a/../../b", "\x1b[2J"])
def test_a_members_name_is_never_a_path(name: str, saved: pathlib.Path, tmp_path: pathlib.Path) -> None:
    before = sorted(tmp_path.iterdir())
    rewrite(saved, {**members(saved), name: b"x"})
    assert "does not list" in refusal(saved)
    rewrite(saved, reseal({**members(saved)}))
    assert refusal(saved)
    assert sorted(tmp_path.iterdir()) == before


# --- the JSON ---


def with_json(text: str) -> Callable[[Contents], Contents]:
    return lambda c: reseal({**c, "document.json": text.encode()})


def with_manifest(text: str) -> Callable[[Contents], Contents]:
    return lambda c: {**c, "manifest.json": text.encode()}


TEXTS: dict[str, str] = {
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep objects": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "NaN": '{"options": NaN}',
    "infinity": '{"options": -Infinity}',
    "ten million digits": '{"options": ' + "9" * 10_000_000 + "}",
    "a name given twice": '{"options": {}, "options": {}}',
    "no object": "[]",
    "a text": '"plan"',
    "no UTF-8": "\udcff",
    "half a character": '{"options": "\\ud800"}',
    "nothing": "",
    "other things": '{"a": 1}',
}


@pytest.mark.parametrize("name", TEXTS)
def test_json_that_is_none_is_refused(name: str, saved: pathlib.Path) -> None:
    raw = TEXTS[name].encode("utf-8", "surrogateescape")
    contents = members(saved)
    rewrite(saved, reseal({**contents, "document.json": raw}))
    assert refusal(saved)
    rewrite(saved, {**contents, "manifest.json": raw})
    assert refusal(saved)


@pytest.mark.parametrize("version", [0, -1, 10**9, "2", True, 2.0, None, [2], "9" * 10**6, "\x1b[2J"])
def test_any_other_version_is_refused(version: Any, saved: pathlib.Path) -> None:
    rewrite(saved, reseal(members(saved), version=version))
    assert "format version" in refusal(saved)


@pytest.mark.parametrize(
    "kind", ["qcompile release", "sandwich", "", 7, None, ["qcompile plan"], "x" * 10**6, "\x1b[2J"]
)
def test_any_other_kind_is_refused(kind: Any, saved: pathlib.Path) -> None:
    rewrite(saved, reseal(members(saved), kind=kind))
    assert "not a qcompile plan file" in refusal(saved)


def test_a_document_that_is_too_long_is_refused(saved: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = members(saved)
    size = len(contents["document.json"])
    assert len(contents["manifest.json"]) < size
    monkeypatch.setattr(archive, "MAX_DOCUMENT", size - 1)
    assert "at most" in refusal(saved)
    monkeypatch.setattr(archive, "MAX_DOCUMENT", size)
    assert load_plan(saved)
    monkeypatch.setattr(archive, "MAX_DOCUMENT", 100)  # the manifest, too
    assert "damaged" in refusal(saved)


# --- the arrays ---


def header(descr: str, shape: str, fortran: str = "False", version: bytes = b"\1\0") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    length = struct.pack("<H" if version == b"\1\0" else "<L", len(text))
    return b"\x93NUMPY" + version + length + text


HEADERS: dict[str, bytes] = {
    "10^15 numbers": header("'<f8'", "(1000000000000000,)"),
    "10^15 numbers nested": header("'<f8'", "(1000, 1000000, 1000000)"),
    "more than 64 bits": header("'<f8'", "(" + "9" * 300 + ",)"),
    "negative": header("'<f8'", "(-1,)"),
    "negative product": header("'<f8'", "(-2, -2)") + bytes(32),
    "a shape of text": header("'<f8'", "('4',)"),
    "true": header("'<f8'", "(True,)") + bytes(8),
    "nested": header("'<f8'", "((2,), 2)"),
    "deep": header("'<f8'", "(" * 9000 + ")" * 9000),
    "no tuple": header("'<f8'", "4") + bytes(32),
    "objects": header("'|O'", "(1,)") + b"cos\nsystem\n(S'true'\ntR.",
    "a structure": header("[('a', '<f8')]", "(1,)") + bytes(8),
    "complex": header("'<c16'", "(1,)") + bytes(16),
    "text": header("'<U1'", "(1,)") + bytes(4),
    "times": header("'<M8[s]'", "(1,)") + bytes(8),
    "Fortran order": header("'<f8'", "(2, 2)", "True") + bytes(32),
    "a later version": header("'<f8'", "(1,)", version=b"\2\0") + bytes(8),
    "an early version": header("'<f8'", "(1,)", version=b"\0\0") + bytes(8),
    "a body too short": header("'<f8'", "(4,)") + bytes(31),
    "a body too long": header("'<f8'", "(4,)") + bytes(33),
    "70 axes": header("'<f8'", "(" + "1, " * 70 + ")") + bytes(8),
    "no numbers of 10^18": header("'<f8'", "(1000000000000000000, 1000000000000000000, 0)"),
    "only a magic word": b"\x93NUMPY\1\0",
    "a length past the end": b"\x93NUMPY\1\0\xff\xff{}",
    "empty": b"",
    "code": header("__import__('os').system('true')", "(1,)"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_an_array_that_is_none_is_refused(name: str, saved: pathlib.Path) -> None:
    contents = members(saved)
    array = next(n for n in contents if n.endswith(".npy"))
    rewrite(saved, reseal({**contents, array: HEADERS[name]}))
    assert refusal(saved)
    assert frugally(saved)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (1, 1, 4), (0,), (3, 0, 2)])
@pytest.mark.parametrize("dtype", ["<f8", "<i8", "|b1", "|u1", "<f4"])
def test_arrays_come_back(shape: tuple[int, ...], dtype: str, tmp_path: pathlib.Path) -> None:
    """And a file cannot be changed through what was read from it."""
    array = np.ones(shape, dtype)
    archive.write(tmp_path / "f", "kind", 1, {}, {"x": array})
    _, arrays, _ = archive.read(tmp_path / "f", "kind", 1)
    np.testing.assert_array_equal(arrays["x"].reshape(shape), array)
    assert arrays["x"].dtype == array.dtype
    assert not (arrays["x"].size and arrays["x"].flags.writeable)


# --- what a consistent file may claim ---


def schema_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["workload"]["schema"]
    return found


def strategy_of(document: dict[str, Any]) -> dict[str, Any]:
    """Of the last class, on three axes."""
    found: dict[str, Any] = document["solutions"][-1]["strategy"]
    return found


def with_domain(*ends: Any) -> Callable[[dict[str, Any]], None]:
    return lambda d: schema_of(d)[0]["domain"].update(integer=list(ends))


def with_choice(attributes: int, low: int, high: int) -> Callable[[dict[str, Any]], None]:
    def change(d: dict[str, Any]) -> None:
        new = [{**schema_of(d)[0], "name": f"x{i}"} for i in range(attributes)]
        schema_of(d).extend(new)
        chosen = d["workload"]["families"][0]
        chosen["factors"], chosen["choose"] = [{"kind": "prefix", "attributes": [a["name"]]} for a in new], [low, high]

    return change


def as_one_product(d: dict[str, Any]) -> None:
    with_choice(40, 0, 40)(d)
    d["workload"]["families"][0]["choose"] = None


def in_a_block(d: dict[str, Any]) -> None:
    with_choice(40, 1, 40)(d)
    d["blocks"] = [[d["workload"]["families"][0]["name"]]]


def schema_attribute(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda d: schema_of(d)[0].update(fields)


def first_family(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda d: d["workload"]["families"][0].update(fields)


def option(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda d: d["options"].update(fields)


CLAIMS: dict[str, Callable[[dict[str, Any]], None]] = {
    "10^18 values": with_domain(0, 10**18),
    "10^300 values": with_domain(0, 10**300),
    "backwards": with_domain(3, 0),
    "true for an integer": with_domain(False, True),
    "text for integers": with_domain("0", "3"),
    "lists for integers": with_domain([0], [3]),
    "fractions for integers": with_domain(0.0, 3.0),
    "nothing for an integer": with_domain(0, None),
    "three ends": with_domain(0, 1, 3),
    "no category": schema_attribute(domain={"category": []}),
    "a category that is a number": schema_attribute(domain={"category": [0.5, 1, 2, 3]}),
    "a category that is nothing": schema_attribute(domain={"category": [None, 1, 2, 3]}),
    "edges backwards": schema_attribute(domain={"numeric": [1, 0], "closed": True}),
    "edges beyond doubles": schema_attribute(domain={"numeric": [0, 10**400], "closed": True}),
    "infinite edges": schema_attribute(domain={"numeric": [0, "inf"], "closed": True}),
    "no domain": schema_attribute(domain={}),
    "a name that is a number": schema_attribute(name=7),
    "a name of another attribute": schema_attribute(name="b"),
    "an unknown policy": schema_attribute(policy="ignore"),
    "a policy with a number": schema_attribute(policy="other", other=7),
    "cyclic in words": schema_attribute(cyclic="no"),
    "a million attributes": lambda d: d["workload"].update(schema=[0] * 10**6),
    "subsets of forty": with_choice(40, 1, 40),
    "twenty of forty": with_choice(40, 20, 20),
    "subsets of ten thousand": with_choice(10_000, 1, 9_999),
    "forty in one product": as_one_product,
    "subsets of forty in a block": in_a_block,
    "more chosen than there are": first_family(choose=[1, 10**9]),
    "a weight of 0": first_family(weight=0),
    "a weight that is text": first_family(weight="1"),
    "an infinite weight": first_family(weight=1e999),
    "a weight beyond doubles": first_family(weight=10**400),
    "weights far apart": first_family(weight=1e12),
    "a shape of 10^18": lambda d: strategy_of(d).update(shape=[10**18, 3, 5]),
    "a negative shape": lambda d: strategy_of(d).update(shape=[-4, -3, 5]),
    "a shape of text": lambda d: strategy_of(d).update(shape="435"),
    "a million axes": lambda d: strategy_of(d).update(shape=[1] * 10**6),
    "axes twice": lambda d: strategy_of(d)["parts"][0].update(axes=[1]),
    "negative axes": lambda d: strategy_of(d)["parts"][0].update(axes=[-3]),
    "no parts": lambda d: strategy_of(d).update(parts=[]),
    "a mixture of mixtures": lambda d: d["solutions"][-1].update(
        strategy={"kind": "mixture", "terms": [{"kind": "mixture", "terms": []}] * 2}
    ),
    "a mixture of one": lambda d: d["solutions"][-1].update(
        strategy={"kind": "mixture", "terms": [strategy_of(d)]}
    ),
    "a matrix that is no matrix": lambda d: strategy_of(d)["parts"][0].update(matrix=d["class_of"]),
    "a kernel of another shape": lambda d: d["solutions"][-1].update(
        strategy={"kind": "fourier", "kernel": strategy_of(d)["parts"][0]["matrix"]}
    ),
    "an infinite loss": lambda d: d["solutions"][0].update(loss=1e999),
    "a loss beyond doubles": lambda d: d["solutions"][0].update(loss=10**400),
    "another relation": option(neighbours="none"),
    "a gap in words": option(gap="small"),
    "a negative gap": option(gap=-1.0),
    "a true number of rows": option(contributions=True),
    "many blocks of nothing": lambda d: d.update(blocks=[[]] * 10**5),
    "an unknown block": lambda d: d.update(blocks=[["\x1b[2J"]]),
    "a plan of nothing": lambda d: d["workload"].update(families=[]),
}  # fmt: skip


def forged_cosines() -> dict[str, tuple[Array, Array, Array, Array]]:
    """What each array of a cosine strategy might be in a forged file, beside three that fit."""
    half, weights, x, gains = np.array([1.0, 0.0, -0.5, 0.0]), np.ones(3), np.array([[1.0], [0.0], [-1.0]]), np.ones(1)
    half = half - (half.sum() + half[1:-1].sum()) / 6
    return {
        "a filter of another length": (half[:-1], weights, x, gains),
        "a filter with a constant part": (half + 1, weights, x, gains),
        "a filter of nothing": (0 * half, weights, x, gains),
        "no weights": (half[:1], weights[:0], x[:0], gains),
        "weights of two axes": (half, weights[:, None], x, gains),
        "a weight of 0": (half, np.array([1.0, 0.0, 1.0]), x, gains),
        "directions of another length": (half, weights, x[:2], gains),
        "directions with a total": (half, weights, x + 1, gains),
        "a gain too many": (half, weights, x, np.ones(2)),
        "a gain of 0": (half, weights, x, np.zeros(1)),
        "a gain that takes all": (half, weights, x, -np.ones(1)),
        "an infinite gain": (half, weights, x, np.array([np.inf])),
    }


@pytest.mark.parametrize("case", forged_cosines())
def test_forged_cosine_strategies_are_refused(case: str) -> None:
    store = ArrayStore()
    data = {name: store.put(a) for name, a in zip(COSINE_ARRAYS, forged_cosines()[case], strict=True)}
    with pytest.raises(StorageError):
        read_strategy(Field({"kind": "cosine", **data}), store)


FORGED_PARTS: list[dict[str, Any]] = [
    {"axes": [0, 1]},
    {"axes": [1]},
    {"residual": 0},
    {"residual": -1.0},
    {"matrix": ""},
]


@pytest.mark.parametrize("part", FORGED_PARTS, ids=str)
def test_a_forged_residual_basis_is_refused(part: dict[str, Any], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "p.plan"
    compile("schema { a : integer 0..1 clip }\nworkload { m : marginal(a) }").save(path)
    load_plan(path)

    def forge(document: dict[str, Any]) -> None:
        (found,) = (s for s in document["solutions"] if s["strategy"].get("shape") == [2])
        assert found["strategy"]["parts"] == [{"axes": [0], "residual": 1.0}]
        found["strategy"]["parts"][0].update(part)

    rewrite(path, edit(members(path), forge))
    with pytest.raises(StorageError):
        load_plan(path)


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_forged_plan_is_refused(claim: str, saved: pathlib.Path) -> None:
    rewrite(saved, edit(members(saved), CLAIMS[claim]))
    assert refusal(saved)


def test_a_forged_plan_of_many_values_is_refused_before_any_array_is_made(saved: pathlib.Path) -> None:
    """As many values as are read: their weights alone, and the vectors of the matrices, would take gigabytes."""
    rewrite(saved, edit(members(saved), with_domain(0, 13 * 10**7)))
    tracemalloc.start()
    try:
        assert "more than its arrays are long" in refusal(saved)
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()


def test_random_queries_and_forms_of_absurd_size_are_refused(saved: pathlib.Path) -> None:
    absurd = [
        {"kind": "random", "attributes": ["a"], "p": 0.5, "count": 10**15, "seed": 1},
        {"kind": "random", "attributes": ["a"], "p": 0.5, "count": -1, "seed": 1},
        {"kind": "affine", "attributes": ["a", "b"], "coefficients": [10**30, 1], "thresholds": None}
        | {"constant": 0, "at_least": False},
        {"kind": "abs", "attributes": ["a", "b"], "coefficients": ["1", 1], "thresholds": None}
        | {"constant": 0, "at_least": False},
    ]  # fmt: skip
    contents = members(saved)
    for factor in absurd:
        rewrite(saved, edit(contents, first_family(factors=[factor], choose=None)))
        assert refusal(saved)


# --- a forged strategy buys nothing ---


def packed(array: np.ndarray[Any, Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def scaled(contents: Contents, factor: float) -> Contents:
    """Every matrix of every strategy multiplied, names by content and hashes made to fit."""
    text = contents["document.json"].decode()
    names = {p["matrix"] for s in json.loads(text)["solutions"] for p in s["strategy"]["parts"]}
    new = dict(contents)
    for name in names:
        array = np.load(io.BytesIO(new.pop(f"{name}.npy"))) * factor
        made = "arrays/" + digest(array)[:32]
        text = text.replace(name, made)
        new[f"{made}.npy"] = packed(array)
    return reseal({**new, "document.json": text.encode()})


@pytest.mark.parametrize("factor", [2.0, 0.5, 1e-3, 1e6])
def test_a_scaled_strategy_costs_the_charge_all_the_same(factor: float, saved: pathlib.Path) -> None:
    """Its noise grows with it: costs are computed from what is measured, not read."""
    rewrite(saved, scaled(members(saved), factor))
    forged, budget = load_plan(saved), Budget(rho="1/3")
    found = forged.scales(budget.rho)
    assert sum(s.cost * m for s, m in zip(found, forged.closure.members.tolist(), strict=True)) <= 2 * budget.rho
    for s, strategy in zip(found, forged.strategies, strict=True):
        columns = strategy.apply(np.eye(math.prod(strategy.shape)).reshape(*strategy.shape, -1))
        norm = max(sum(Fraction(float(v)) ** 2 for v in c) for c in columns.T)
        assert norm <= s.cost * Fraction(s.sigma) ** 2
    release = forged.run(COUNTS, budget, test_seed=1)
    assert release.provenance.charge == budget.rho
    assert release.scales == found


@pytest.mark.parametrize("factor", [1e-170, 1e-60, 0.0, 1e170, 1e60])
def test_a_strategy_whose_squares_vanish_is_refused(factor: float, saved: pathlib.Path) -> None:
    """A sensitivity that underflows to 0 would be measured without noise."""
    rewrite(saved, scaled(members(saved), factor))
    assert "too large or too small" in refusal(saved)


# --- releases ---


def scale(index: int, position: int, value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda d: d["scales"][index].__setitem__(position, value)


def times(position: int, factor: float) -> Callable[[dict[str, Any]], Any]:
    def change(d: dict[str, Any]) -> None:
        for s in d["scales"]:
            s[position] *= factor

    return change


def all_times(factor: int) -> Callable[[dict[str, Any]], Any]:
    """Noise and grid larger, costs smaller: agreeing with each other, not with the charge."""

    def change(d: dict[str, Any]) -> None:
        for s in d["scales"]:
            s[:] = [s[0] * factor, s[1] * factor, str(Fraction(s[2]) / factor**2)]

    return change


def provenance(**fields: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda d: d["provenance"].update(fields)


CONTRADICTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "smaller noise": times(0, 0.5),
    "larger noise": times(0, 2.0),
    "slightly smaller noise": times(0, 1 - 1e-6),
    "a smaller grid": times(1, 0.5),
    "noise, grid and costs that agree": all_times(2),
    "another grid": scale(0, 1, 3.0),
    "no grid": scale(0, 1, 0.0),
    "a negative grid": scale(0, 1, -1.0),
    "no noise": scale(0, 0, 0.0),
    "infinite noise": scale(0, 0, 1e999),
    "noise in words": scale(0, 0, "much"),
    "noise beyond doubles": scale(0, 0, 10**400),
    "no cost": scale(0, 2, "0"),
    "a negative cost": scale(0, 2, "-1/3"),
    "a cost that is no text": scale(0, 2, 0.1),
    "a cost that takes a gigabyte": scale(0, 2, "1e999999999"),
    "a cost over zero": scale(0, 2, "1/0"),
    "a cost of many digits": scale(0, 2, "9" * 10**6),
    "a smaller charge": provenance(charge="1/4"),
    "a larger charge": provenance(charge="1/2"),
    "no charge": provenance(charge="0"),
    "a negative charge": provenance(charge="-1/3"),
    "a charge that takes a gigabyte": provenance(charge="1e999999999"),
    "a charge beyond doubles": provenance(charge="1/1" + "0" * 2000),
    "another noise": provenance(noise="opendp"),
    "an unknown noise": provenance(noise="laplace"),
    "another relation": provenance(neighbours="replace-one"),
    "more rows": provenance(contributions=2),
    "an unknown fact": provenance(colour="red"),
    "one scale more": lambda d: d["scales"].append(d["scales"][0]),
    "scales of two": lambda d: d["scales"].__setitem__(0, [1.0, 2.0]),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_release_that_contradicts_itself_is_refused(name: str, released: pathlib.Path) -> None:
    rewrite(released, edit(members(released), CONTRADICTIONS[name]))
    assert refusal(released, load_release)


@pytest.mark.parametrize("noise", ["rounded", "opendp", "none"])
@pytest.mark.parametrize("accounting", ["zcdp", "gaussian"])
def test_honest_releases_are_read(noise: str, accounting: str, plan: Plan, tmp_path: pathlib.Path) -> None:
    if (noise, accounting) == ("opendp", "gaussian"):
        return
    made = plan.run(COUNTS, Budget(epsilon=1, delta="1e-9"), noise=noise, accounting=accounting)
    made.save(tmp_path / "r")
    found = load_release(tmp_path / "r")
    assert found.scales == made.scales
    assert [v.tolist() for v in found.values] == [v.tolist() for v in made.values]


MEASURED = "measured/00000.npy"

VALUES: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "doubles": lambda v: v.astype(np.float64),
    "nan": lambda v: np.full(v.shape, np.nan),
    "unsigned": lambda v: v.astype(np.uint64),
    "flags": lambda v: v > 0,
    "one fewer": lambda v: v[:-1],
    "one more": lambda v: np.append(v, 0),
    "two axes": lambda v: v[:, None],
    "a number": lambda v: v[0],
}


@pytest.mark.parametrize("name", VALUES)
def test_measurements_of_another_kind_are_refused(name: str, released: pathlib.Path) -> None:
    contents = members(released)
    values = np.load(io.BytesIO(contents[MEASURED]))
    rewrite(released, reseal({**contents, MEASURED: packed(VALUES[name](values))}))
    assert refusal(released, load_release)


def test_measurements_without_noise_must_be_finite(plan: Plan, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r"
    plan.run(COUNTS, Budget(rho=1), noise="none").save(path)
    contents = members(path)
    values = np.load(io.BytesIO(contents[MEASURED]))
    for bad in (np.nan, np.inf, -np.inf):
        rewrite(path, reseal({**contents, MEASURED: packed(np.append(values[:-1], bad))}))
        assert refusal(path, load_release)


def test_nothing_is_made_of_a_file_that_is_refused(released: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a release nor an array over its bytes exists before all hashes were compared."""
    made: list[str] = []
    monkeypatch.setattr(archive, "_array", lambda data: made.append("array"))
    monkeypatch.setattr(Release, "__init__", lambda *_: made.append("release"))
    contents = members(released)
    rewrite(released, {**contents, MEASURED: contents[MEASURED][:-1] + b"\x7f"})
    assert "wrong hash" in refusal(released, load_release)
    assert not made
