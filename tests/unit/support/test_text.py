"""Numbers and nouns as they are printed."""

from __future__ import annotations

import math

import pytest

from qcompile.support.arrays import bytes_text
from qcompile.support.text import excess_text, gap_text, plural, share_text


@pytest.mark.parametrize(
    ("ratio", "text"), [(0.0031, "0.31 %"), (0.5, "50 %"), (1.3, "130 %"), (13.0, "1,300 %"), (1e4, "1,000,000 %")]
)
def test_excess_has_no_exponent(ratio: float, text: str) -> None:
    assert excess_text(ratio) == gap_text(ratio) == text


def test_gaps_that_are_no_number() -> None:
    assert gap_text(1e-8) == "<1e-5 %"
    assert gap_text(math.inf) == "unproven"


@pytest.mark.parametrize(
    ("share", "text"),
    [(6.417e-05, "0.01 %"), (4e-05, "<0.01 %"), (0.0, "0.00 %"), (0.3641, "36.41 %"), (1, "100.00 %")],
)
def test_shares_have_one_format(share: float, text: str) -> None:
    assert share_text(share) == text


def test_one_is_singular() -> None:
    assert [bytes_text(n) for n in (0, 1, 2)] == ["0 bytes", "1 byte", "2 bytes"]
    assert [plural(n, "family", "families") for n in (1, 1200)] == ["1 family", "1,200 families"]
