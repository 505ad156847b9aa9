"""Arrays that have travelled lie anywhere in memory and may be read-only: answers have the same bits."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mmtfl import MMTFLRegressor, MMTFLRegressorCV
from mmtfl.solvers.shards import Shard
from oracles import make_problem

SIZES = (14, 9, 21, 30, 12, 17, 8)


class Travelling:
    """An engine in this process whose arguments and results all go through pickle, to a chosen address."""

    is_here = False

    def __init__(self, n_slots, shift, writable):
        self.n_slots, self.shift, self.writable = n_slots, shift, writable

    def __deepcopy__(self, memo):
        return self

    def _at_address(self, buffer):
        """The same bytes, `shift` bytes behind a multiple of 64."""
        source = np.frombuffer(buffer.raw(), dtype=np.uint8)
        room = np.empty(source.size + 128, dtype=np.uint8)
        first = -room.ctypes.data % 64 + self.shift
        room[first : first + source.size] = source
        view = memoryview(room[first : first + source.size])
        return view if self.writable else view.toreadonly()

    def _travel(self, value):
        if isinstance(value, Shard):  # it stays where it was placed
            return value
        buffers = []
        sent = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        return pickle.loads(sent, buffers=[self._at_address(buffer) for buffer in buffers])

    def place(self, load, sources, *, name="load"):
        return [load(self._travel(source)) for source in sources]

    def map(self, function, *columns, keep=False, name="map"):
        calls = [tuple(map(self._travel, call)) for call in zip(*columns, strict=True)]
        results = [function(*call) for call in calls]
        return results if keep else [self._travel(result) for result in results]


@pytest.mark.parametrize(("n_slots", "shift", "writable"), [(1, 8, True), (2, 4, False), (3, 1, True)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_neither_the_address_nor_the_number_of_parts_changes_a_bit(n_slots, shift, writable, order):
    X, y, task = make_problem(3, sizes=SIZES, d=16).tasks.to_rows()
    X, engine = np.asarray(X, order=order), Travelling(n_slots, shift, writable)
    for p in (2, 1):
        there = MMTFLRegressor(p, 1, 0.2, engine=engine, standardize=True).fit(X, y, task)
        here = MMTFLRegressor(p, 1, 0.2, solver="alternating", standardize=True).fit(X, y, task)
        assert here.coef_.any()
        assert_array_equal(there.coef_, here.coef_)
        assert_array_equal(there.history_, here.history_)
    options = {"pk": ((2, 2), (2, 1)), "alphas": 4, "cv": 3}
    options["levels"] = "free"  # levels come from products of matrices, whose last bits hang on addresses
    searched = MMTFLRegressorCV(**options, engine=engine).fit(X, y, task)
    alone = MMTFLRegressorCV(**options, solver="alternating").fit(X, y, task)
    for name, column in alone.cv_results_.items():
        assert_array_equal(searched.cv_results_[name], column)
    assert_array_equal(searched.coef_, alone.coef_)
