"""Shared fixtures: hypothesis profiles and the Adult tables."""

from __future__ import annotations

import os
import pathlib

import hypothesis
import pytest

hypothesis.settings.register_profile("dev", deadline=None, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def adult_folder() -> pathlib.Path:
    """The folder with adult.csv; its absence is a skip on a laptop and a failure in CI."""
    folder = SHARED / "data"
    if not folder.exists():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{folder} is missing; CI must not skip the Adult tests")
        pytest.skip(f"{folder} is absent")
    return folder
