"""The benchmark of in-axis operations: its baselines compute the same, and its section is whole."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks import inaxis
from benchmarks.inaxis import Times, decomp_matrices, dense, least, rotating
from benchmarks.measure import ROOT
from benchmarks.routes.inaxis import decomp


@pytest.mark.parametrize("shape", [(), (4,), (3, 5), (1, 3), (2, 3, 4), (3, 1, 2, 4), (17, 18, 19)], ids=str)
def test_the_dense_baselines_agree_with_in_axis_operations(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    for size in range(len(shape) + 1):
        for kept in itertools.combinations(range(len(shape)), size):
            matrices = decomp_matrices(shape, kept)
            expected = decomp(x, kept).reshape([n - 1 if axis in kept else 1 for axis, n in enumerate(shape)])
            for route in (dense, rotating):
                found = route(matrices, x)
                assert found.shape == expected.shape
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


def test_the_dense_baselines_multiply_any_matrices() -> None:
    rng = np.random.default_rng(1)
    matrices = [rng.normal(size=size) for size in ((2, 3), (5, 4), (1, 2))]
    x = rng.normal(size=(3, 4, 2))
    expected = np.einsum("ai,bj,ck,ijk->abc", *matrices, x)
    np.testing.assert_allclose(dense(matrices, x), expected, atol=1e-12)
    np.testing.assert_allclose(rotating(matrices, x), expected, atol=1e-12)


def test_routes_take_turns_and_each_is_timed() -> None:
    calls: list[str] = []
    found = least([lambda: calls.append("a"), lambda: calls.append("b")], 0.0)
    assert calls == ["a", "b"]
    assert all(0 <= seconds < 1 for seconds in found)
    assert Times(3.0, 6.0, 1.5).ratios == (2.0, 4.0)


def test_a_setting_that_does_not_fit_into_memory_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inaxis, "MEMORY", 3 * 8 * 16**3)
    monkeypatch.setattr(inaxis, "SECONDS", 0.01)
    text = inaxis.section()
    assert "| 16^3 " in text
    assert "| 16^4 " not in text


def test_a_quick_page_from_the_command_line(tmp_path: Path) -> None:
    target = tmp_path / "page.md"
    command = [sys.executable, "benchmarks/inaxis.py", "--quick", "-o", str(target)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = target.read_text()
    assert text.count("| shape ") == 4
    assert text.count("| mean ") == 4
    for shape in ("16^2", "16^3", "2^3", "4^3", "8^3"):
        assert f"| {shape} " in text
    assert "Mean over all shapes: in-axis is " in text
    assert str(ROOT) not in text
