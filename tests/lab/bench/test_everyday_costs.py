"""Searches, predictions and memory, measured on tiny tables."""

import pytest

import mmtfl_lab.bench.costs as everyday
from mmtfl_lab.bench.costs import Cost, Way, memory, predict, searches


def test_ratios_are_to_the_first_way():
    cost = Cost("key", "title", "s", [Way("ours", 2.0), Way("theirs", 3.0), Way("absent", None, "skipped")])
    assert cost.ratio("theirs") == 1.5
    assert cost.ratio("absent") is None and cost.ratio("unknown") is None


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


def test_glmnet_that_fails_is_a_line_with_its_last_words(monkeypatch, tmp_path):
    program = tmp_path / "Rscript"
    program.write_text("#!/bin/sh\necho 'there is no package called glmnet' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    table = everyday.mmtfl.datasets.make_d1(n_samples=3, random_state=0)
    assert everyday._glmnet(table, 3).note == "skipped: there is no package called glmnet"
    program.write_text("#!/bin/sh\necho 0.25\n")
    assert everyday._glmnet(table, 3).value == 0.25


def test_predictions_and_memory_are_measured():
    cost = predict(n_rows=300, n_features=4, n_tasks=2)
    assert all(way.value > 0 for way in cost.ways) and len(cost.ways) == 2
    cost = memory(n_rows=60, n_features=200_000, n_tasks=20, n_entries=400)
    assert [way.name for way in cost.ways] == ["(2,2)", "(2,1)"]
    assert all(3 < way.value < 500 for way in cost.ways)  # usable_ alone is 4 MB


def test_memory_is_skipped_where_the_system_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(everyday, "_STATUS", tmp_path / "status")
    cost = memory(n_rows=60, n_features=300, n_tasks=2, n_entries=400)
    assert [way.value for way in cost.ways] == [None, None]
    assert all(way.note.startswith("skipped: this system has no ") for way in cost.ways)
