"""The option that rewrites golden files: ``pytest tests/golden --update-golden``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expected parts of golden files")
