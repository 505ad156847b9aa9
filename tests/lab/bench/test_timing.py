"""The search for a tolerance, and the rounds of timing."""

import pytest

from mmtfl_lab.bench.comparison import loosest


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
