import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtfl.core.sorting import falling_order

KEYS = st.lists(st.floats(allow_nan=False) | st.integers(0, 3).map(float), max_size=60)


@given(KEYS, st.randoms(use_true_random=False))
def test_the_order_is_a_permutation_along_which_keys_fall(keys, random):
    keys = np.array(keys, dtype=float)
    start = random.sample(range(keys.size), keys.size)
    order = np.array(start, dtype=np.intp)
    falling_order(keys, order)
    assert sorted(order) == sorted(start)
    assert np.all(keys[order][:-1] >= keys[order][1:])


@given(KEYS.filter(len), st.data())
def test_a_part_of_the_entries_is_sorted_without_the_others(keys, data):
    keys = np.array(keys, dtype=float)
    chosen = data.draw(st.sets(st.integers(0, keys.size - 1)))
    order = np.array(sorted(chosen), dtype=np.intp)
    falling_order(keys, order)
    assert set(order) == chosen
    assert np.array_equal(keys[order], np.sort(keys[order])[::-1])


@pytest.mark.parametrize("n", [127, 128, 129, 1000])
def test_long_lists_are_sorted(n):
    keys = np.random.default_rng(n).integers(0, n, size=n).astype(float)
    order = np.arange(n)
    falling_order(keys, order)
    assert np.array_equal(keys[order], np.sort(keys)[::-1])
    assert np.array_equal(np.sort(order), np.arange(n))


@pytest.mark.parametrize("n", [5, 500])
def test_places_stay_in_range_where_keys_are_nan(n):
    order = np.arange(n)
    falling_order(np.full(n, np.nan), order)
    assert order.min() >= 0 and order.max() < n
