"""Measurements in the parts of a file: what is read, when, and that the cuts change nothing."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.api import Plan, Release, compile, load_release
from qcompile.errors import StorageError
from qcompile.privacy.budget import Budget
from qcompile.queries.factors import Marginal, Prefix
from qcompile.release import files
from qcompile.release import values as stored
from qcompile.release.values import NodeValues, StoredValues, cuts, narrow, parts
from qcompile.support import archive
from tests.conformance.helpers import family, integers, workload

BUDGET = Budget(rho="1/9")


@given(st.lists(st.integers(0, 40), max_size=60), st.integers(1, 50))
def test_parts_hold_every_measurement_once(rows: list[int], part: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored, "PART", part)
        found = cuts(rows)
        assert all(sum(rows[i] for i in nodes) >= part for nodes in found[:-1])
        assert [i for nodes in found for i in nodes if rows[i]] == [i for i, n in enumerate(rows) if n]
        starts = np.cumsum([0, *rows])
        values = [np.arange(a, a + n) for a, n in zip(starts, rows, strict=False)]
        read = StoredValues(dict(parts(rows, values)), rows, True, "x")
        assert len(read) == len(rows)
        assert all(np.array_equal(x, y) for x, y in zip(read, values, strict=True))


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=5))
def test_the_narrowest_type_keeps_every_number(numbers: list[int]) -> None:
    found = narrow(np.array(numbers, dtype=np.int64))
    assert found.tolist() == numbers
    size = max(n.bit_length() if n >= 0 else (-n - 1).bit_length() for n in numbers) + 1
    assert found.dtype.itemsize == next(b for b in (2, 4, 8) if 8 * b >= size)


@pytest.fixture(scope="module")
def plan() -> Plan:
    a, b, c = integers(12, 10, 8)
    families = (family(Prefix(a), Prefix(b), name="ab"), family(Marginal(c), Prefix(b), name="bc"))
    return compile(workload([a, b, c], *families, family(Prefix(a), Marginal(c), name="ac")))


@pytest.fixture
def large(plan: Plan, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Release, pathlib.Path]:
    """A release, and its file, which counts as large and has many parts."""
    monkeypatch.setattr(stored, "PART", 50)
    monkeypatch.setattr(files, "IN_MEMORY", 0)
    shape = plan.workload.schema.shape(plan.workload.schema.names)
    release = plan.run({plan.workload.schema.names: np.ones(shape, dtype=np.int64)}, BUDGET, test_seed=1)
    release.save(tmp_path / "x")
    return release, tmp_path / "x"


def test_a_large_file_answers_as_the_run_did(large: tuple[Release, pathlib.Path], tmp_path: pathlib.Path) -> None:
    release, path = large
    read = load_release(path)
    assert isinstance(read.values, StoredValues)
    for name in ("ab", "bc", "ac"):
        assert read.answers(name).equals(release.answers(name))
    assert np.array_equal(read.marginal(("c", "a")).array, release.marginal(("c", "a")).array)
    assert read.ask("count(a <= 3 and c = 2)") == release.ask("count(a <= 3 and c = 2)")
    read.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_only_the_parts_that_a_question_needs_are_read(
    large: tuple[Release, pathlib.Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, looked = load_release(large[1]), list[str]()
    arrays = archive.Archive.arrays

    def watched(self: archive.Archive, names: list[str]) -> dict[str, NodeValues]:
        looked.extend(names)
        return arrays(self, names)

    monkeypatch.setattr(archive.Archive, "arrays", watched)
    read.ask("count(a <= 3)")
    assert 0 < len(looked) < len(read.values.parts)  # type: ignore[attr-defined]
    before = len(looked)
    read.ask("count(a <= 5)")
    assert len(looked) == before, "what was read is kept"


def rewrite(path: pathlib.Path, change: Any) -> None:
    with archive.Archive.open(path, files.KIND, files.VERSION) as found:
        arrays = found.arrays(found.names)
        archive.write(path, files.KIND, files.VERSION, found.document, change(arrays))


def test_a_damaged_part_is_refused_when_it_is_read(large: tuple[Release, pathlib.Path]) -> None:
    _, path = large
    data = bytearray(path.read_bytes())
    with archive.Archive.open(path, files.KIND, files.VERSION) as found:
        last = found.arrays(found.names)[f"measured/{len(found.lazy('measured/')) - 1:05}"]
    where = bytes(data).index(last.tobytes())
    data[where] ^= 1
    path.write_bytes(data)
    read = load_release(path)
    assert read.ask("count(a <= 3)").estimate == pytest.approx(large[0].ask("count(a <= 3)").estimate)
    with pytest.raises(StorageError, match="wrong hash"):
        [v.sum() for v in read.values]


CHANGES: dict[str, Any] = {
    "a part fewer": lambda a: {n: v for n, v in a.items() if n != "measured/00001"},
    "a part more": lambda a: a | {"measured/99999": np.zeros(3, dtype=np.int16)},
}


@pytest.mark.parametrize("name", CHANGES)
def test_parts_that_are_not_the_plans_are_refused_at_once(name: str, large: tuple[Release, pathlib.Path]) -> None:
    rewrite(large[1], CHANGES[name])
    with pytest.raises(StorageError, match="do not fit its plan"):
        load_release(large[1])


@pytest.mark.parametrize("part", [np.zeros(3, dtype=np.int16), np.full(400, np.nan), np.zeros((2, 2), dtype=np.int64)])
def test_a_part_that_does_not_fit_is_refused_when_it_is_read(
    part: np.ndarray[Any, Any], large: tuple[Release, pathlib.Path]
) -> None:
    rewrite(large[1], lambda arrays: arrays | {"measured/00000": part})
    with pytest.raises(StorageError, match="do not fit its plan"):
        load_release(large[1]).ask("count(a <= 3)")
