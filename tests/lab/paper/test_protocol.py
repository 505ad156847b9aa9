"""The protocol: splits depend on what they are for, methods share them, cells survive interruption."""

from functools import partial

import numpy as np
import pytest

from mmtfl.datasets.simulate import make_tasks
from mmtfl_lab.paper import data_sets
from mmtfl_lab.paper.data_sets import (
    PROBLEMS,
    Problem,
    load_pool,
    make_split,
    pool_of_rows,
    pool_of_targets,
)
from mmtfl_lab.paper.methods import METHODS, Grid
from mmtfl_lab.paper.protocol import (
    Plan,
    Store,
    run_cell,
    run_cells,
    score_rows,
    support_f1,
)
from mmtfl_lab.paper.results import Results

COARSE = Grid(alphas=6, single=6, pairs=4, auto_folds=3)


def small_pool(seed, classification=False):
    data = make_tasks(
        3,
        80 if classification else 40,
        6,
        n_informative=2,
        noise=0.3,
        classification=classification,
        random_state=seed,
    )
    return pool_of_rows(
        data.X, data.y, data.task, by_class=classification, support=data.support, coef=data.coef
    )


@pytest.fixture
def small(monkeypatch):
    """A small problem under the name D1."""
    monkeypatch.setitem(PROBLEMS, "D1", Problem("D1", "D1", small_pool, "r2", "pooled"))
    load_pool.cache_clear()
    yield Plan(["D1"], ["stl", "mmtfl21"], [0.33, 0.5], repeats=2, grid=COARSE)
    load_pool.cache_clear()


def compute(plan):
    return partial(run_cell, seed=plan.seed, grid=plan.grid)


# -- splits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["D1", "D2"])
def test_a_split_has_every_task_in_proportion_and_no_row_twice(name):
    split = make_split(PROBLEMS[name], load_pool(name, 0), 0.25, "here")
    assert set(split.train.unit).isdisjoint(split.test.unit)
    assert len(split.train.unit) + len(split.test.unit) == len(load_pool(name, 0).group)
    assert set(np.bincount(split.train.task)) == {50}
    for train, test in split.folds(3):
        assert sorted([*train, *test]) == list(range(len(split.train.y)))
        assert set(split.train.task[train]) == set(split.train.task)


def test_splits_depend_on_their_purpose_alone():
    problem, pool = PROBLEMS["D1"], load_pool("D1", 0)
    one = make_split(problem, pool, 0.25, 0, "D1", 0.25, 1)
    make_split(problem, pool, 0.25, 0, "D1", 0.25, 2).folds(3)
    again = make_split(problem, pool, 0.25, 0, "D1", 0.25, 1)
    other = make_split(problem, pool, 0.25, 0, "D1", 0.25, 2)
    assert np.array_equal(one.train.unit, again.train.unit)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(one.folds(3), again.folds(3), strict=True))
    assert not np.array_equal(one.train.unit, other.train.unit)


def test_rows_of_one_unit_stay_together_in_split_and_folds():
    rng = np.random.default_rng(0)
    pool = pool_of_targets(rng.normal(size=(30, 4)), rng.normal(size=(30, 3)))
    problem = Problem("x", "x", lambda seed: pool, "r2", "mean")
    split = make_split(problem, pool, 0.5, "here")
    assert len(split.train.y) == 45
    assert set(split.train.unit).isdisjoint(split.test.unit)
    for train, test in split.folds(3):
        assert set(split.train.unit[train]).isdisjoint(split.train.unit[test])


def test_digits_are_balanced_tasks_and_components_come_from_training_alone(monkeypatch):
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(10), 30)
    images = rng.normal(size=(300, 100)) + label[:, None]
    monkeypatch.setattr(
        data_sets, "load_usps", lambda subset: type("Digits", (), {"X": images, "label": label})
    )
    problem, pool = PROBLEMS["usps"], data_sets._usps(0, n_images=300)
    split = make_split(problem, pool, 0.5, "here")
    assert split.train.X.shape == (300, 87)
    for t in range(10):
        rows = split.train.task == t
        assert split.train.y[rows].mean() == 0.5
        assert np.array_equal(pool.group[split.train.unit[rows]] == t, split.train.y[rows] == 1)
    assert set(split.train.unit).isdisjoint(split.test.unit)
    # the test part has no say in the components
    raw = pool.rows.X[split.train.unit]
    alone = problem.features(raw, raw[:1])[0]
    assert np.allclose(alone, split.train.X)


# -- scores ------------------------------------------------------------------------------------------------


def test_pooled_r2_is_about_the_means_of_the_tasks():
    y, task = np.array([1.0, 3.0, 101.0, 103.0]), np.array([0, 0, 1, 1])
    means = np.array([2.0, 2.0, 102.0, 102.0])
    assert score_rows("r2", y, means, task) == {"pooled": 0.0, "mean": 0.0}
    # halfway to the truth in one task: a quarter of its squares is left, and nothing is gained in the other
    half = means + np.array([-0.5, 0.5, 0.0, 0.0])
    assert score_rows("r2", y, half, task) == pytest.approx({"pooled": 0.375, "mean": 0.375})


def test_support_f1_counts_what_is_found_and_what_is_there():
    support = np.array([[True, True, False, False]])
    assert support_f1(support, np.array([[1.0, 0.0, 2.0, 0.0]])) == 0.5
    assert support_f1(support, np.array([[0.1, -3.0, 0.0, 0.0]])) == 1.0
    assert support_f1(support, np.zeros((1, 4))) == 0.0


# -- methods -----------------------------------------------------------------------------------------------


EVERY = list(METHODS.values())
LEAST = {"boosting": 0.5}  # steps do badly on straight lines; 0.75 for the others


@pytest.mark.parametrize("classification", [False, True])
@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.title)
def test_every_method_learns_more_than_nothing(method, classification):
    if (reason := method.why_not(classification)) is not None:
        pytest.skip(reason)
    pool = small_pool(0, classification)
    metric = "auc" if classification else "r2"
    problem = Problem("x", "x", lambda seed: pool, metric, "mean")
    split = make_split(problem, pool, 0.5, "here")
    fitted = method.fit(split, classification, {}, COARSE)
    score = score_rows(metric, split.test.y, fitted.predict(split.test.X, split.test.task), split.test.task)
    assert score["mean"] > LEAST.get(method.name, 0.75)
    assert np.broadcast_to(fitted.coef, pool.support.shape).shape == pool.support.shape


# -- cells -------------------------------------------------------------------------------------------------


def numbers(store, plan):
    return {
        cell: {name: value for name, value in result.items() if name != "seconds"}
        for cell, result in Results.of(plan, store).cells.items()
    }


def test_an_interrupted_run_goes_on_and_gives_the_same_numbers(small, tmp_path):
    whole, broken = Store(tmp_path / "a", small.settings), Store(tmp_path / "b", small.settings)
    whole.open()
    run_cells(small.cells(), compute(small), whole)
    broken.open()
    run_cells(reversed(small.cells()[3:5]), compute(small), broken)
    # a write cut short by a crash counts as not written
    broken.path(small.cells()[4]).write_text('{"cell": {"dataset"', encoding="utf-8")
    counted = []

    def counting(cell):
        counted.append(cell)
        return compute(small)(cell)

    broken.open()
    run_cells(small.cells(), counting, broken)
    assert len(counted) == len(small.cells()) - 1
    assert numbers(whole, small) == numbers(broken, small)
    assert len(numbers(whole, small)) == 8
