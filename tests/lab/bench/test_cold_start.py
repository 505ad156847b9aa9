"""Cold starts: which process is which, and what a failing one says."""

import json
import os

import pytest

import mmtfl_lab.bench.own_costs as own_costs


def test_first_and_later_processes_share_a_cache_that_starts_empty(monkeypatch):
    caches = []

    def run(code, NUMBA_CACHE_DIR):
        caches.append((NUMBA_CACHE_DIR, os.listdir(NUMBA_CACHE_DIR)))
        compile(code, "fits", "exec")  # what would run is a program
        with open(os.path.join(NUMBA_CACHE_DIR, "compiled"), "w") as file:
            file.write("kernel")
        return json.dumps([5.0, 0.2, 0.3] if len(caches) % 2 else [0.5, 0.25, 0.1])

    monkeypatch.setattr(own_costs, "run_apart", run)
    found = own_costs.cold_starts(["squared (2,2)", "logistic (2,2)"])
    assert [(start.ever, start.later, start.steady) for start in found] == [(5.0, 0.5, 0.1)] * 2
    assert [contents for _, contents in caches] == [[], ["compiled"]] * 2
    assert len({cache for cache, _ in caches}) == 2
    assert not any(os.path.exists(cache) for cache, _ in caches)


def test_a_process_that_fails_says_why():
    with pytest.raises(RuntimeError, match="A process of its own failed: ValueError: no luck"):
        own_costs.run_apart("raise ValueError('no luck')")


def test_processes_see_the_environment_given():
    assert own_costs.run_apart("import os; print(os.environ['COLOUR'])", COLOUR="blue").strip() == "blue"
