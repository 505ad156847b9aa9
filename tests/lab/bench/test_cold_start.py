"""Cold starts: which process is which, and what a failing one says."""

import json

import mmtfl_lab.bench.costs as costs


def test_the_first_fit_of_a_process_stands_beside_the_quickest_later_one(monkeypatch):
    codes = []

    def run(code):
        codes.append(compile(code, "fits", "exec"))  # what would run is a program
        return json.dumps([5.0, 0.2, 0.3])

    monkeypatch.setattr(costs, "run_apart", run)
    found = list(costs.cold_starts(["squared (2,2)", "logistic (2,2)"]))
    seconds = {"steady state": 0.2, "first fit of a process": 5.0}
    assert [{way.name: way.value for way in cost.ways} for cost in found] == [seconds] * 2
    assert len(codes) == 2
