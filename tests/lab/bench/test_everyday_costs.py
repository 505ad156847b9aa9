"""Searches, predictions and memory, measured on tiny tables."""

import json

import pytest

import mmtfl_lab.bench.costs as costs
import mmtfl_lab.bench.costs as everyday
from mmtfl_lab.bench.costs import Way, memory, predict, searches


def test_searches_are_timed_and_what_is_absent_says_why(monkeypatch):
    monkeypatch.setattr(everyday.shutil, "which", lambda name: None)
    monkeypatch.setattr(everyday, "import_module", lambda name: 1 / 0)
    found = {cost.key: cost.ways for cost in searches(n_samples=12, alphas=3)}
    assert list(found) == ["search (2,2)", "single tasks", "default search"]
    assert [way.value for way in found["search (2,2)"]] == [
        pytest.approx(found["search (2,2)"][0].value),
        None,
    ]
    assert "ZeroDivisionError" in found["search (2,2)"][1].note
    ours, sklearn, glmnet = found["single tasks"]
    assert ours.value > 0 and sklearn.value > 0
    assert glmnet == Way(glmnet.name, None, "skipped: R is not installed (Debian: r-cran-glmnet)")
    assert [way.name for way in found["default search"]] == ["one thread", "two threads"]


def test_predictions_and_memory_are_measured():
    cost = predict(n_rows=300, n_features=4, n_tasks=2)
    assert all(way.value > 0 for way in cost.ways) and len(cost.ways) == 2
    cost = memory(n_rows=60, n_features=200_000, n_tasks=20, n_entries=400)
    assert [way.name for way in cost.ways] == ["(2,2)", "(2,1)"]
    assert all(3 < way.value < 500 for way in cost.ways)  # usable_ alone is 4 MB


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
