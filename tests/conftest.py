"""Hypothesis profiles, the marker of wide tests, and the Adult tables."""

from __future__ import annotations

import fnmatch
import os
import pathlib
import sys

import hypothesis
import pytest

hypothesis.settings.register_profile("dev", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
sys.path.append(str(ROOT))  # for the routes and reports of benchmarks/, which is not installed
WIDE = pathlib.Path(__file__).with_name("wide.txt")


def wide_tests() -> dict[str, list[str]]:
    """The patterns of parameters by test, from `wide.txt`."""
    found: dict[str, list[str]] = {}
    for line in WIDE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            test, _, pattern = line.partition("[")
            found.setdefault(test, []).append(pattern.removesuffix("]") or "*")
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of `wide.txt`."""
    wide = wide_tests()
    for item in items:
        test, _, parameters = item.nodeid.partition("[")
        if any(fnmatch.fnmatchcase(parameters.removesuffix("]"), pattern) for pattern in wide.get(test, ())):
            item.add_marker(pytest.mark.wide)


@pytest.fixture(scope="session")
def adult_folder() -> pathlib.Path:
    """The folder with adult.csv; its absence is a skip on a laptop and a failure in CI."""
    folder = SHARED / "data"
    if not folder.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{folder} is missing; CI must not skip the Adult tests")
        pytest.skip(f"{folder} is absent")
    return folder


@pytest.fixture(autouse=True)
def memory_of_any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default limit of 8 GiB, on machines of any size."""
    monkeypatch.setattr("qcompile.support.memory.default_limit", lambda: 8 * 2**30)
