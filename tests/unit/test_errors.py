"""Suggestions: found among few names and many, in a time that hostile names cannot stretch."""

from __future__ import annotations

import itertools
import time

import pytest

from qcompile.errors import MOST_COMPARED, did_you_mean

FEW = ["husage", "educ", "Income", "age"]
MANY = [f"column_{i}" for i in range(5 * MOST_COMPARED)] + FEW


@pytest.mark.parametrize("known", [FEW, MANY], ids=["few", "many"])
@pytest.mark.parametrize("name", ["husagee", "husag", "hsage", "husaeg", "musage", "husago", "HUSAGE"])
def test_a_name_with_one_mistake_is_recognised(name: str, known: list[str]) -> None:
    assert did_you_mean(name, known) == "did you mean 'husage'?"


@pytest.mark.parametrize("known", [FEW, MANY], ids=["few", "many"])
def test_names_that_differ_by_case_are_recognised(known: list[str]) -> None:
    assert did_you_mean("INCOME", known) == "did you mean 'Income'?"


def test_without_a_similar_name_some_are_listed() -> None:
    assert did_you_mean("zzz", FEW) == "known: husage, educ, Income, age"
    assert did_you_mean("zzz", MANY) == f"known: {', '.join(MANY[:8])}, ..."
    assert did_you_mean("zzz", []) == ""


def test_short_and_empty_names_among_many() -> None:
    for name in ("", "z", "zz", "zzq"):
        assert did_you_mean(name, MANY).startswith("known: column_0, ")


HOSTILE = {
    "very many": [f"name{i}" for i in range(50_000)],
    "anagrams": ["".join(p) for p in itertools.islice(itertools.permutations("aabbaabbab"), 5000)],
    "long anagrams": ["ab" * 99 + "ba" * i for i in range(1, 900)],
    "alike by case": ["".join(c) for c in itertools.product(*(("a", "A"),) * 12)],
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_fifty_suggestions_take_less_than_two_seconds(kind: str) -> None:
    names = HOSTILE[kind]
    start = time.process_time()
    for i in range(10):
        assert did_you_mean(f"{names[-1]}{i}", names)
    assert 5 * (time.process_time() - start) < 3


def test_a_name_in_another_unicode_form_is_described() -> None:
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    hint = did_you_mean(composed, ["cafe", "café2", decomposed])
    assert hint.startswith(f"did you mean {decomposed!r} in its decomposed Unicode form, 'cafe\\u0301'?")
    assert "'caf\\xe9'" in hint
    assert "in its composed Unicode form" in did_you_mean(decomposed, [composed])
    assert did_you_mean("cafe", [composed]) == f"did you mean {composed!r}?"
