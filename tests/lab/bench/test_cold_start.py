"""Cold starts: which process is which, and what a failing one says."""

import json
import os

import pytest

import mmtfl_lab.bench.costs as costs


def test_first_and_later_processes_share_a_cache_that_starts_empty(monkeypatch):
    caches = []

    def run(code, NUMBA_CACHE_DIR):
        caches.append((NUMBA_CACHE_DIR, os.listdir(NUMBA_CACHE_DIR)))
        compile(code, "fits", "exec")  # what would run is a program
        with open(os.path.join(NUMBA_CACHE_DIR, "compiled"), "w") as file:
            file.write("kernel")
        return json.dumps([5.0, 0.2, 0.3] if len(caches) % 2 else [0.5, 0.25, 0.1])

    monkeypatch.setattr(costs, "run_apart", run)
    found = list(costs.cold_starts(["squared (2,2)", "logistic (2,2)"]))
    seconds = {"steady state": 0.1, "first fit ever": 5.0, "first fit of a later process": 0.5}
    assert [{way.name: way.value for way in cost.ways} for cost in found] == [seconds] * 2
    assert [contents for _, contents in caches] == [[], ["compiled"]] * 2
    assert len({cache for cache, _ in caches}) == 2
    assert not any(os.path.exists(cache) for cache, _ in caches)


def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="A process of its own failed: ValueError: no luck"):
        costs.run_apart("raise ValueError('no luck')")


def test_processes_see_the_environment_given():
    assert costs.run_apart("import os; print(os.environ['COLOUR'])", COLOUR="blue").strip() == "blue"
