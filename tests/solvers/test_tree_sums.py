"""Row norms over places: the same bits however the tasks are cut, and the right numbers."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl.solvers.shards import partial_norms, split_evenly, total_norms

NORMS = [1.0, 1.5, 2.0, 3.0, np.inf]


def cut_norms(sizes, cuts, p):
    bounds = [0, *cuts, len(sizes)]
    parts = [partial_norms(sizes[lo:hi], lo, p) for lo, hi in pairwise(bounds)]
    return total_norms(parts, p), parts


@settings(max_examples=60, deadline=None)
@given(n_tasks=st.integers(1, 70), seed=st.integers(0, 99), p=st.sampled_from(NORMS), data=st.data())
def test_the_bits_do_not_depend_on_the_cuts(n_tasks, seed, p, data):
    sizes = np.abs(np.random.default_rng(seed).standard_cauchy((n_tasks, 5)))
    sizes[:, 0] = 0.0
    cuts = data.draw(st.lists(st.integers(1, max(1, n_tasks - 1)), unique=True, max_size=8).map(sorted))
    cuts = [cut for cut in cuts if cut < n_tasks]
    whole, (cut, parts) = cut_norms(sizes, [], p)[0], cut_norms(sizes, cuts, p)
    assert max(len(lengths) for lengths, _ in parts) <= 2 * np.log2(n_tasks) + 1  # few rows travel
    assert_array_equal(whole, cut)
    assert_allclose(whole, np.linalg.norm(sizes, p, axis=0), rtol=1e-13)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
def test_sizes_whose_powers_leave_the_floats_have_norms(p):
    sizes = np.array([[1e-200, 1e200], [1e-200, 1e200], [1e-200, 0.0]])
    want = np.array([1e-200 * 3 ** (1 / p), 1e200 * 2 ** (1 / p)])
    assert_allclose(cut_norms(sizes, [1], p)[0], want, rtol=1e-14)


@settings(max_examples=60, deadline=None)
@given(costs=st.lists(st.floats(0.1, 1e3), min_size=1, max_size=60), n_parts=st.integers(1, 80))
def test_cuts_leave_no_part_empty(costs, n_parts):
    cuts = split_evenly(np.array(costs), n_parts)
    assert cuts[0] == 0 and cuts[-1] == len(costs)
    assert np.all(np.diff(cuts) > 0) and len(cuts) - 1 <= min(n_parts, len(costs))
