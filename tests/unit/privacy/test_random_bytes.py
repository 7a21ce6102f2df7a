"""Randomness: one home in the code, reproducible and independent streams in tests, no reproducible one elsewhere."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.errors import OptionError
from qcompile.privacy.noise.random_bytes import ByteSource, SeededSource, SystemSource

ROOT = pathlib.Path(__file__).resolve().parents[3]
OTHER_SOURCES = re.compile(r"os\.urandom|getrandom|^\s*(import|from) (random|secrets|uuid)\b", re.MULTILINE)
PACKAGES = ("qcompile", "grammar", "solvers")


def modules() -> list[pathlib.Path]:
    return [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def test_randomness_comes_from_one_module() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in modules() if OTHER_SOURCES.search(path.read_text())}
    assert found == {"qcompile/privacy/noise/random_bytes.py"}


def test_no_numpy_generator_in_the_privacy_package() -> None:
    texts = [path.read_text() for path in (ROOT / "qcompile" / "privacy").rglob("*.py")]
    assert len(texts) > 5
    assert not any(re.search(r"np\.random|numpy\.random", text) for text in texts)


def test_the_system_never_repeats() -> None:
    source = SystemSource()
    assert source.private
    assert len(source.take(32)) == 32
    assert source.take(32) != source.take(32)
    assert source.branch(b"a").take(32) != source.branch(b"a").take(32)


@given(st.lists(st.integers(0, 200_000), max_size=5))
def test_bytes_do_not_depend_on_the_cuts(sizes: list[int]) -> None:
    source = SeededSource(7, "node")
    pieces = [source.take(size) for size in sizes]
    assert [len(piece) for piece in pieces] == sizes
    assert b"".join(pieces) == SeededSource(7, "node").take(sum(sizes))


def test_streams_differ() -> None:
    def streams(seed: int) -> list[ByteSource]:
        top = [SeededSource(seed, name) for name in ("", "a", "b", "ab", b"\0", b"a\0")]
        return [*top, *(source.branch(label) for source in top for label in (b"", b"a", b"b", b"ab", b"\0"))]

    starts = [source.take(16) for seed in (0, 1, 255, 256, 10**30) for source in streams(seed)]
    assert len(set(starts)) == len(starts) == 5 * (6 + 30)


def test_branches_do_not_depend_on_the_position() -> None:
    source = SeededSource(1, "a")
    before = source.branch(b"x").take(64)
    source.take(100_000)
    assert source.branch(b"x").take(64) == before


def test_streams_are_uniform_and_uncorrelated() -> None:
    n = 1 << 18
    streams = [np.frombuffer(SeededSource(3, str(i)).take(n), dtype=np.uint8) for i in range(6)]
    for stream in streams:
        counts = np.bincount(stream, minlength=256)
        statistic = ((counts - n / 256) ** 2).sum() / (n / 256)
        assert abs(statistic - 255) < 6 * np.sqrt(2 * 255)
    correlations = np.corrcoef(np.array(streams, dtype=np.float64)) - np.eye(6)
    assert np.abs(correlations).max() < 6 / np.sqrt(n)


def test_seeded_sources_say_that_they_are_not_private() -> None:
    assert not SeededSource(1).private
    assert "NOT PRIVATE" in repr(SeededSource(1))


@pytest.mark.parametrize("seed", [-1, True, 1.0, "1", None])
def test_seeds_are_whole_numbers(seed: object) -> None:
    with pytest.raises(OptionError, match="test seed must be an integer >= 0"):
        SeededSource(seed)  # type: ignore[arg-type]


def test_a_branch_of_the_system_is_the_system() -> None:
    """What the operating system gives next is independent of everything before, so it needs no streams."""
    source = SystemSource()
    assert source.branch(b"node") is source
    assert source.private
    assert repr(source) == "SystemSource()"
    assert source.take(32) != source.branch(b"node").take(32)
