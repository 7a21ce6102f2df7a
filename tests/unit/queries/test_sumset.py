"""Sumsets against all combinations, and their bounds."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qcompile.errors import SizeError
from qcompile.queries.factors.sumset import sumset

terms = st.builds(
    lambda start, step, count: range(start, start + step * (count - 1) + 1, step),
    st.integers(-50, 50),
    st.integers(1, 40),
    st.integers(1, 6),
)


@given(st.lists(terms, min_size=1, max_size=5))
def test_the_values_are_those_of_all_combinations(parts: list[range]) -> None:
    assert sumset("it", parts).tolist() == sorted({sum(c) for c in itertools.product(*parts)})


QUICK = {
    "two large ones": ([range(10**6), range(10**6)], 2 * 10**6 - 1),
    "a thousand": ([range(1000)] * 1000, 999_001),
    "coarse after fine": ([range(0, 10**9, 1000), range(1000)], 10**9),
    "no progression": ([range(0, 2 * 10**5, 2), range(0, 3 * 10**5, 3)], 5 * 10**5 - 6),
    "far apart": ([range(1000), range(0, 10**15, 10**12)], 10**6),
}


@pytest.mark.parametrize("name", QUICK)
def test_large_sums_are_found_at_once(name: str) -> None:
    parts, count = QUICK[name]
    start = time.process_time()
    if count > 2**26:
        with pytest.raises(SizeError, match=r"the values of it needs 8\.0 GB"):
            sumset("it", parts)
    else:
        assert len(sumset("it", parts)) == count
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    "parts",
    [
        [range(10**12)],
        [range(10**9), range(0, 10**18, 10**10)],
        [range(0, 2**i * 3 + 1, 2**i * 3) for i in range(60)],
        [range(0, 10**6 + i, 10**6 + i - 1) for i in range(1000)],
    ],
)
def test_sums_of_too_many_values_or_steps_are_refused(parts: list[range]) -> None:
    start = time.process_time()
    with pytest.raises(SizeError, match="use bins or smaller domains"):
        sumset("it", parts)
    assert time.process_time() - start < 8
