"""A whole run on tiny problems: results, verdicts, tables, JSON and pictures."""

import json
from dataclasses import replace

import pytest

import mmtfl
from mmtfl_lab.bench.comparison import CaseResult, Row
from mmtfl_lab.bench.costs import Cost, Curve, Way, memory, predict
from mmtfl_lab.bench.judged_problems import PAIRS
from mmtfl_lab.bench.libraries import NOT_RUN
from mmtfl_lab.bench.rendering import draw, make_tables, to_markdown
from mmtfl_lab.bench.run import (
    _WARM_UP,
    COMPARED,
    Results,
    run,
)
from mmtfl_lab.bench.speed_targets import verdicts

SEARCH = Cost("cv", "D2", "s", [Way("search", 2.0), Way("20 cold paths (every alpha from zero)", 12.0)])
OTHERS = ("scikit-learn, LassoCV per task", "R's glmnet, cv.glmnet per task")


@pytest.fixture(scope="module")
def results():
    found = run(COMPARED, ["scikit-learn", "textbook"], repeats=1, sizes=_WARM_UP)
    found.costs = [
        SEARCH,
        Cost("search (2,2)", "one member", "s", [Way("ours", 1.0), Way("adelie, cv_grpnet", 2.0)]),
        Cost(
            "single tasks", "a lasso per task", "s", [Way("ours", 1.0), *(Way(name, 2.0) for name in OTHERS)]
        ),
        Cost("default search", "threads", "s", [Way("one thread", 3.0), Way("two threads", 2.0)]),
        Cost("predict", "rows", "s", [Way("ours", 1.0), Way("scikit-learn, LinearRegression", 1.5)]),
        Cost("memory", "megabytes", "MB", [Way("(2,2)", 100.0), Way("(2,1)", None, "skipped: a reason")]),
        Cost(
            "cold squared (2,2)",
            "cold start",
            "s",
            [Way("steady state", 0.01), Way("first fit of a process", 0.4)],
        ),
        Cost("import", "imports", "s", [Way("mmtfl", 1.2), Way("sklearn.linear_model", 1.0)]),
    ]
    found.growth = [
        Curve("n", "d = 3", [1.0, 2.0], [0.1, 0.2], 1e-9),
        Curve("many T", "", [2, 20], [1, 11], 0.0),
    ]
    return found


def test_every_problem_is_run_once(results):
    assert [case.key for case in results.cases] == [
        *("ragged 0.3", "ragged 0.1", "ragged 0.05", "wide 0.3", "wide 0.1", "tall 0.1", "tall 0.01"),
        *("shared 0.1", "shared 0.02", "path", "logistic 0.3", "logistic 0.1", "sparse 0.3", "sparse 0.1"),
        *("concave (2,1)", "concave (1,1)", "concave (1,2)"),
        *(f"additive {pair.name} {share}" for pair in PAIRS for share in (0.3, 0.1)),
    ]
    assert not results.failed
    for case in results.cases:
        assert case.best("mmtfl").seconds > 0
    assert {row.library for row in results.case("path").rows} == {"mmtfl", "scikit-learn"}
    assert {row.library for row in results.case("concave (1,1)").rows} == {"mmtfl", "textbook"}


def test_results_are_plain_json(results):
    plain = json.loads(json.dumps(results.as_dict(), allow_nan=False))
    assert plain["versions"]["mmtfl"] == mmtfl.__version__
    assert plain["growth"][0]["exponent"] == pytest.approx(1.0)
    assert {entry["met"] for entry in plain["targets"]} <= {True, False, None}
    assert len(plain["cases"]) == 25


def test_tables_say_what_was_measured(results):
    text = to_markdown(results, "mmtfl bench")
    assert text.startswith("`mmtfl bench`\n\nProcessor: ")
    titles = [table.title for table in make_tables(results)]
    assert titles[0] == "Targets"
    assert len(titles) == len(set(titles)) == 1 + 25 + 8 + 1
    for table in make_tables(results):
        assert all(len(row) == len(table.header) for row in table.rows)
        assert table.title in text
    assert "| 20 cold paths (every alpha from zero) | 12 | 6.00 |" in text
    assert "| adelie, cv_grpnet | 2 | 2.00 |" in text
    assert "| (2,1) | skipped: a reason | - |" in text


def test_verdicts_follow_from_the_numbers():
    results = Results(["ragged"], False, 1)
    case = CaseResult("ragged 0.1", "title", 0.001, 1e-10, 3)
    case.rows = [Row("mmtfl", "a", 1e-4, 0.010, 10.0, 0.0), Row("adelie", "b", 1e-8, 0.029, 29.0, 0.0)]
    results.cases = [case]
    results.costs = [SEARCH]
    found = {(verdict.problem, verdict.against): verdict for verdict in verdicts(results)}
    assert found["ragged 0.1", "adelie"].measured == pytest.approx(2.9)
    assert found["ragged 0.1", "adelie"].met is False
    assert found["ragged 0.1", "one pass"].met is True
    assert found["search, 5 folds x 100 alphas x 4 (p,k)", "20 cold paths"].met is True
    assert found["ragged (2,2)", "mutar"].met is None
    assert found["ragged (2,2)", "mutar"].note == NOT_RUN["mutar"]
    assert len(found) == 4  # what was not run has no verdict
    assert verdicts(replace(results, quick=True)) == []  # small problems are not those of the targets


def test_everyday_costs_are_judged_by_their_ratios(results):
    found = {(verdict.problem, verdict.against): verdict for verdict in verdicts(results)}
    assert found["default search", "two threads over one"].measured == pytest.approx(1.5)
    assert found["default search", "two threads over one"].met is False
    assert found["predict", "scikit-learn, LinearRegression"].met is True
    assert found["memory, a million sparse features", "a small fit"].met is True


def test_pictures_are_drawn(results, tmp_path):
    written = draw(results, tmp_path)
    assert [path.name for path in written] == ["times.png", "growth.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written)


def test_predictions_and_memory_are_measured():
    cost = predict(n_rows=300, n_features=4, n_tasks=2)
    assert all(way.value > 0 for way in cost.ways) and len(cost.ways) == 2
    cost = memory(n_rows=60, n_features=200_000, n_tasks=20, n_entries=400)
    assert [way.name for way in cost.ways] == ["(2,2)", "(2,1)"]
    assert all(3 < way.value < 500 for way in cost.ways)  # usable_ alone is 4 MB
