"""Helpers on arrays."""

from __future__ import annotations

import numpy as np

from qcompile.support.arrays import LARGEST_EXACT, marginalise


def test_a_table_is_summed_down_to_the_axes_that_are_kept_in_their_order() -> None:
    table = np.arange(24).reshape(2, 3, 4)
    assert marginalise(table, "abc", "ca").tolist() == table.sum(axis=1).tolist()
    assert marginalise(table, (5, 7, 9), (7,)).tolist() == table.sum(axis=(0, 2)).tolist()
    assert marginalise(table, "abc", "").shape == ()
    assert marginalise(table, "abc", "abc").tolist() == table.tolist()


def test_sums_keep_the_type_and_whole_numbers_stay_exact() -> None:
    counts = np.array([[LARGEST_EXACT, 1], [LARGEST_EXACT, 0]])
    assert marginalise(counts, "ab", "b").dtype == np.int64
    assert int(marginalise(counts, "ab", "")) == 2 * LARGEST_EXACT + 1
    assert marginalise(counts.astype(np.float64), "ab", "a").dtype == np.float64


def test_every_whole_number_up_to_the_largest_exact_one_is_a_double() -> None:
    assert float(LARGEST_EXACT) - 1 == LARGEST_EXACT - 1
    assert float(LARGEST_EXACT) + 1 == float(LARGEST_EXACT)
