"""Plan and release files: what comes back is what was saved, and nothing else is read."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import pathlib
import pickle
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qcompile.api import Plan, compile, load_plan, load_release
from qcompile.errors import StorageError
from qcompile.plan.document import PlanDocument
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Abs, Affine, Circular, Marginal, Matrix, Predicate, Prefix, Random, Range
from qcompile.queries.schema import Attribute, CategoryDomain, IntegerDomain, NumericDomain, Policy, Schema
from qcompile.queries.workload import Family, Workload
from qcompile.release.files import schema_hash
from qcompile.support import archive
from qcompile.support.arrays import digest

A = Attribute("a", IntegerDomain(-2, 2), Policy("clip"))
B = Attribute("b", IntegerDomain(0, 3), Policy("drop"), cyclic=True)
C = Attribute("c c`\n", CategoryDomain(("NO", "null", 1, True, "1e3", "<=50K")), Policy("other", "é 🙂"))
D = Attribute("d", NumericDomain((0.1, 0.1 + 1e-12, 0.2), closed=False))


def workload() -> Workload:
    families = {
        "total": (),
        "one": (Prefix(A), Marginal(C)),
        "two": (Range(D), Circular(B)),
        "affine": (Affine([A, B], [2, -3], [-1, 4]),),
        "abs": (Abs([B, A], [1, -1], constant=2, at_least=True), Marginal(D)),
        "random": (Random([A, D], 0.25, 3, 9),),
        "matrix": (Matrix([B], np.array([[0.1, -2, 3, 1 / 3]]), "m.npy"),),
        "count": (Predicate([A, B], np.eye(5, 4, dtype=bool), "a = b"),),
    }
    made = [Family(name, f"text of {name}", f, weight=1.0 + i) for i, (name, f) in enumerate(families.items())]
    made.append(Family("each", "each", (Prefix(A), Range(B), Marginal(C)), choose=(1, 2), aliases=("again", "twice")))
    return Workload(Schema((A, C, B, D)), tuple(made))


U = {"a": np.array([0.1, 0.2, 0.3, 0.25, 0.15]), "d": np.array([1 / 3, 2 / 3])}


@pytest.fixture(scope="module")
def plan() -> Plan:
    return compile(workload(), centring=U, contributions=2, gap=1e-4)


@pytest.fixture
def saved(plan: Plan, tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "x.plan"
    plan.save(path)
    return path


def counts() -> dict[Any, Any]:
    shape = workload().schema.shape(workload().schema.names)
    return {workload().schema.names: np.arange(math.prod(shape)).reshape(shape) % 7}


def test_a_plan_comes_back(plan: Plan, saved: pathlib.Path) -> None:
    found = load_plan(saved)
    assert found.explain() == plan.explain()
    assert found.options == plan.options
    assert found.workload.schema == plan.workload.schema
    assert found.workload.families == plan.workload.families
    assert PlanDocument.of(found).hash == PlanDocument.of(plan).hash
    assert schema_hash(found) == schema_hash(plan)
    budget = Budget(epsilon=1, delta="1e-9")
    for m, n in zip(found.measurements(budget), plan.measurements(budget), strict=True):
        assert (m.attributes, m.order, m.scale, m.grid, m.cost) == (n.attributes, n.order, n.scale, n.grid, n.cost)
        for f, g in zip(m.factors, n.factors, strict=True):
            np.testing.assert_array_equal(f, g)
    again = (r.run(counts(), budget, test_seed=5) for r in (found, plan))
    left, right = (np.concatenate(r.values) for r in again)
    np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("solver", ["rp", "wff", "exact"])
def test_strategies_of_every_kind_come_back(solver: str, tmp_path: pathlib.Path) -> None:
    made = compile(workload(), solver=solver)
    made.save(tmp_path / "p")
    assert load_plan(tmp_path / "p").explain() == made.explain()


def test_equal_plans_are_equal_bytes(plan: Plan, saved: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Two compilations, and a plan that was read and written again."""
    compile(workload(), centring=U, contributions=2, gap=1e-4).save(tmp_path / "second")
    load_plan(saved).save(tmp_path / "third")
    assert saved.read_bytes() == (tmp_path / "second").read_bytes() == (tmp_path / "third").read_bytes()


@pytest.mark.parametrize("noise", ["rounded", "none"])
def test_a_release_comes_back(plan: Plan, noise: str, tmp_path: pathlib.Path) -> None:
    release = plan.run(counts(), Budget(rho="1/49"), noise=noise, output=tmp_path / "direct")
    release.save(tmp_path / "saved")
    assert (tmp_path / "direct").read_bytes() == (tmp_path / "saved").read_bytes()
    found = load_release(tmp_path / "saved")
    assert found.provenance == release.provenance
    assert found.scales == release.scales
    for family in workload().families:
        assert found.answers(family.name).equals(release.answers(family.name), check_metadata=True)
    np.testing.assert_array_equal(found.marginal("a").array, release.marginal("a").array)
    assert found.plan.explain() == plan.explain()


def members(path: pathlib.Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as z:
        return {name: z.read(name) for name in z.namelist()}


def rewrite(path: pathlib.Path, contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as z:
        for name, data in contents.items():
            z.writestr(name, data)


def reseal(contents: dict[str, bytes], **changes: Any) -> dict[str, bytes]:
    """With the manifest made to fit, as a careful forger would."""
    manifest = json.loads(contents["manifest.json"])
    manifest["sha256"] = {n: hashlib.sha256(d).hexdigest() for n, d in contents.items() if n != "manifest.json"}
    return {**contents, "manifest.json": json.dumps({**manifest, **changes}).encode()}


def edit(contents: dict[str, bytes], change: Callable[[dict[str, Any]], None]) -> dict[str, bytes]:
    document = json.loads(contents["document.json"])
    change(document)
    return reseal({**contents, "document.json": json.dumps(document).encode()})


def pickled(contents: dict[str, bytes]) -> dict[str, bytes]:
    name = next(n for n in contents if n.endswith(".npy"))
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return reseal({**contents, name: buffer.getvalue()})


def drop_array(contents: dict[str, bytes]) -> dict[str, bytes]:
    name = next(n for n in contents if n.endswith(".npy"))
    return reseal({n: d for n, d in contents.items() if n != name})


def without_attribute(contents: dict[str, bytes]) -> dict[str, bytes]:
    return edit(contents, lambda d: d["workload"]["schema"].pop())


def infinite_strategy(contents: dict[str, bytes]) -> dict[str, bytes]:
    strategy = json.loads(contents["document.json"])["solutions"][1]["strategy"]
    name = strategy["parts"][0]["matrix"] + ".npy"
    array = np.load(io.BytesIO(contents[name]))
    array[0] = np.inf
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return reseal({**contents, name: buffer.getvalue()})


DAMAGES: dict[str, tuple[str, Callable[[dict[str, bytes]], dict[str, bytes]]]] = {
    "an edited number": (
        "wrong hash",
        lambda c: {**c, "document.json": c["document.json"].replace(b'"gap": 0.0001', b'"gap": 0.0002')},
    ),
    "an added member": ("manifest does not list", lambda c: {**c, "more.npy": b"x"}),
    "a removed member": ("manifest does not list", lambda c: {n: d for n, d in c.items() if n != "document.json"}),
    "another kind": ("is a sandwich file", lambda c: reseal(c, kind="sandwich")),
    "another version": ("format version 99", lambda c: reseal(c, version=99)),
    "no manifest": ("damaged", lambda c: {n: d for n, d in c.items() if n != "manifest.json"}),
    "a manifest that is no JSON": ("damaged", lambda c: {**c, "manifest.json": b"{"}),
    "a manifest that is a list": ("damaged", lambda c: {**c, "manifest.json": b"[]"}),
    "an array that is a pickle": ("damaged", pickled),
    "an array that is missing": ("does not hold", drop_array),
    "a factor of an unknown kind": ("kind must be one of", lambda c: edit(c, with_factor_kind("median"))),
    "an attribute that is not there": ("understands", without_attribute),
    "solutions that are not there": ("another version", lambda c: edit(c, lambda d: d["solutions"].pop())),
    "solutions exchanged": ("does not fit its node", lambda c: edit(c, lambda d: d["solutions"].reverse())),
    "an unknown option": ("understands", lambda c: edit(c, lambda d: d["options"].update(colour="red"))),
    "a missing section": ("understands", lambda c: edit(c, lambda d: d.pop("centring"))),
    "a loss that is negative": ("understands", lambda c: edit(c, lambda d: d["solutions"][1].update(loss=-1.0))),
    "a loss that is text": ("understands", lambda c: edit(c, lambda d: d["solutions"][1].update(loss="much"))),
    "a strategy that is infinite": ("not what it is called", infinite_strategy),
    "half a row per person": ("understands", lambda c: edit(c, lambda d: d["options"].update(contributions=0.5))),
    "no rows per person": ("understands", lambda c: edit(c, lambda d: d["options"].update(contributions=0))),
}  # fmt: skip


def with_factor_kind(kind: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["workload"]["families"][1]["factors"][0]["kind"] = kind

    return change


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_changed_plan_is_refused(damage: str, saved: pathlib.Path) -> None:
    message, change = DAMAGES[damage]
    before = members(saved)
    after = change(before)
    assert after != before
    rewrite(saved, after)
    with pytest.raises(StorageError, match=message):
        load_plan(saved)


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(keep: float, saved: pathlib.Path) -> None:
    data = saved.read_bytes()
    saved.write_bytes(data[: int(keep * len(data))])
    with pytest.raises(StorageError, match="damaged"):
        load_plan(saved)


def test_every_flipped_byte_of_the_contents_is_noticed(saved: pathlib.Path) -> None:
    data = bytearray(saved.read_bytes())
    original = members(saved)
    noticed = 0
    for position in range(100, len(data), max(1, len(data) // 60)):
        changed = bytearray(data)
        changed[position] ^= 0x10
        saved.write_bytes(changed)
        try:
            load_plan(saved)
        except StorageError:
            noticed += 1
        else:
            assert members(saved) == original  # only a byte of the container that carries nothing
    assert noticed > 40


def test_foreign_files_are_refused(saved: pathlib.Path, tmp_path: pathlib.Path, plan: Plan) -> None:
    (tmp_path / "pickle").write_bytes(pickle.dumps({"a": 1}))
    (tmp_path / "text").write_text("language 1")
    rewrite(tmp_path / "zip", {"a": b"b"})
    rewrite(tmp_path / "compressed", members(saved), zipfile.ZIP_DEFLATED)
    plan.run(counts(), Budget(rho=1)).save(tmp_path / "release")
    for name in ("pickle", "text", "zip", "compressed", "release", "absent", "."):
        with pytest.raises(StorageError):
            load_plan(tmp_path / name)
    with pytest.raises(StorageError, match="is a qcompile plan file, not a qcompile release file"):
        load_release(saved)
    with pytest.raises(StorageError, match="no file"):
        load_plan(tmp_path / "absent")


def test_a_file_that_unpacks_to_more_than_memory_is_refused(
    saved: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "DEFAULT_MEMORY", 1000)
    with pytest.raises(StorageError, match="more than is read"):
        load_plan(saved)


def test_saving_is_all_or_nothing(plan: Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p"
    path.write_bytes(b"old")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StorageError, match="No space left"):
        plan.save(path)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["p"]
    with pytest.raises(StorageError, match="cannot write"):
        plan.save(tmp_path / "absent" / "p")


RELEASE_DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a scale that is missing": lambda d: d["scales"].pop(),
    "a scale that is negative": lambda d: d["scales"][0].__setitem__(0, -1.0),
    "a charge that is no number": lambda d: d["provenance"].update(charge="much"),
    "a fact that is missing": lambda d: d["provenance"].pop("noise"),
    "no plan": lambda d: d.pop("plan"),
    "no provenance": lambda d: d.pop("provenance"),
    "a column that is a number": lambda d: d["provenance"].update(unit=5),
    "an accounting that is none": lambda d: d["provenance"].update(accounting=7),
    "a budget that rewrites the terminal": lambda d: d["provenance"].update(budget="\x1b[2Jrho 0"),
    "a stamp that rewrites the terminal": lambda d: d["provenance"].update(stamps=["\x1b[2J"]),
    "another plan's hash": lambda d: d["provenance"].update(plan_hash="0" * 64),
    "a schema's hash that is a number": lambda d: d["provenance"].update(schema_hash=3),
    "another solver in its plan": lambda d: d["plan"]["options"].update(solver="\x1b[2J"),
    "a plan that was changed": lambda d: d["plan"]["options"].update(gap=0.5),
    "more rows than anybody has": lambda d: d["plan"]["options"].update(contributions=10**200),
}


@pytest.mark.parametrize("damage", RELEASE_DAMAGES)
def test_a_changed_release_is_refused(damage: str, plan: Plan, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r"
    plan.run(counts(), Budget(rho=1)).save(path)
    rewrite(path, edit(members(path), RELEASE_DAMAGES[damage]))
    with pytest.raises(StorageError):
        load_release(path)


def test_a_warning_cannot_be_taken_out(plan: Plan, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r"
    plan.run(counts(), Budget(rho=1), noise="none").save(path)
    rewrite(path, edit(members(path), lambda d: d["provenance"].update(stamps=[])))
    with pytest.raises(StorageError, match="lacks a warning"):
        load_release(path)


def test_arrays_are_what_they_are_called(plan: Plan, saved: pathlib.Path) -> None:
    """The plan's hash covers their names: another array under the same name would not show."""
    contents = members(saved)
    first, second, *_ = sorted(n for n in contents if n.endswith(".npy"))
    rewrite(saved, reseal({**contents, first: contents[second]}))
    with pytest.raises(StorageError, match="not what it is called"):
        load_plan(saved)


def test_a_circulant_must_be_symmetric(tmp_path: pathlib.Path) -> None:
    """What follows from a kernel rests on it, the error bound of the exact rounding too."""
    path = tmp_path / "p"
    compile("schema { m: integer 1..12 cyclic } workload { c: circular(m) }", solver="wff").save(path)
    contents = members(path)
    kernel = next(
        s["strategy"]["kernel"] for s in json.loads(contents["document.json"])["solutions"] if "kernel" in s["strategy"]
    )
    forged = np.lib.format.read_array(io.BytesIO(contents[f"{kernel}.npy"])).copy()
    forged[1:] += 0.1 * np.sin(2 * np.pi * np.arange(1, len(forged)) / len(forged))
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, forged)
    name = f"arrays/{digest(forged)[:32]}"
    document = contents["document.json"].replace(kernel.encode(), name.encode())
    contents = {n: d for n, d in contents.items() if n != f"{kernel}.npy"}
    rewrite(path, reseal({**contents, "document.json": document, f"{name}.npy": buffer.getvalue()}))
    with pytest.raises(StorageError, match="understands"):
        load_plan(path)


def test_a_release_with_other_measurements_is_refused(plan: Plan, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r"
    plan.run(counts(), Budget(rho=1)).save(path)
    for array in (np.zeros(3, dtype=np.int64), np.array(["x"] * 3), np.zeros((2, 2))):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, array, allow_pickle=False)
        rewrite(path, reseal({**members(path), "measured/00000.npy": buffer.getvalue()}))
        with pytest.raises(StorageError):
            load_release(path)


def test_files_hold_nothing_of_the_data_but_measurements(plan: Plan, tmp_path: pathlib.Path) -> None:
    """Two tables, one seed: every member but the measurements is the same."""
    shape = workload().schema.shape(workload().schema.names)
    for name, value in (("p", 1), ("q", 1000)):
        data = {workload().schema.names: np.full(shape, value)}
        plan.run(data, Budget(rho=1), test_seed=1, output=tmp_path / name)
    left, right = members(tmp_path / "p"), members(tmp_path / "q")
    changed = {n for n in left if left[n] != right.get(n)}
    assert left.keys() == right.keys()
    assert changed == {"measured/00000.npy", "manifest.json"}
