"""The search for a tolerance, and the rounds of timing."""

import pytest

from mmtfl_lab.bench.comparison import alternate, loosest
from mmtfl_lab.bench.libraries import LADDER


@pytest.mark.parametrize("hint", [None, 1e-2, 1e-5, 1e-10, 3e-7])
@pytest.mark.parametrize("enough", [1e-2, 1e-4, 1e-7, 1e-10])
def test_the_loosest_tolerance_that_suffices_is_found_from_any_hint(enough, hint):
    tried = []

    def suffices(tolerance):
        tried.append(tolerance)
        return tolerance <= enough * 1.001

    assert loosest(suffices, hint=hint) == pytest.approx(enough)
    assert len(tried) == len(set(tried))  # runs are costly: none twice


def test_nothing_is_found_where_no_tolerance_suffices():
    assert loosest(lambda tolerance: False, hint=1e-4) is None


def test_a_good_hint_saves_runs():
    tried = []
    loosest(lambda tolerance: tried.append(tolerance) or tolerance < 2e-8, hint=1e-8)
    assert tried == [LADDER[6], LADDER[5]]


def test_calls_take_turns():
    order = []
    found = alternate({name: lambda name=name: order.append(name) for name in "abc"}, repeats=3)
    assert order == list("abc") * 3
    assert set(found) == set("abc")
    assert all(0.0 <= seconds < 10.0 for seconds in found.values())
