"""Groups of rows and time order: no split separates a group, none predicts the past from the future."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, KFold, LeaveOneGroupOut, cross_val_score

from mmtfl import MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.model_selection import TaskKFold, TaskTimeSplit, leave_task_out_scores, tasks_train_test_split

FAST = {"pk": (2, 2), "poolings": (0,), "alphas": 8, "cv": 3}


@pytest.fixture(scope="module")
def visits():
    """Rows of 40 patients in 3 tasks; the patient alone tells the target, and the features."""
    rng = np.random.default_rng(0)
    patient = rng.integers(40, size=240)
    task = np.array(["a", "b", "c"])[rng.integers(3, size=240)]
    marks, target = rng.normal(size=(40, 60)), rng.normal(size=40)
    return marks[patient], target[patient], task, patient


def random_structure(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(30, 120))
    group = rng.integers(int(rng.integers(8, 40)), size=n)
    return group, rng.choice(list("abcd"), n), rng.integers(2, size=n)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("stratify", [False, True])
def test_folds_keep_groups_together_and_tasks_and_classes_in_training(seed, stratify):
    group, task, y = random_structure(seed)
    splitter = TaskKFold(3, random_state=seed, stratify=stratify)
    tested = np.zeros(len(group), dtype=int)
    for train, test in splitter.split(group, y, task=task, groups=group):
        assert not set(group[train]) & set(group[test])
        assert len(train) + len(test) == len(group)
        cells = set(zip(task, y, strict=True)) if stratify else set(task)
        assert cells == (set(zip(task[train], y[train], strict=True)) if stratify else set(task[train]))
        tested[test] += 1
    assert tested.max() == 1
    assert tested.mean() > 0.7


def test_the_only_group_of_a_task_is_always_trained_on():
    task, group = np.repeat(["a", "b"], [8, 4]), np.array([1, 1, 2, 2, 3, 3, 4, 4, 9, 9, 9, 9])
    parts = list(TaskKFold(2, random_state=0).split(task, task=task, groups=group))
    assert all((task[train] == "b").sum() == 4 for train, _ in parts)
    assert_array_equal(np.sort(np.concatenate([test for _, test in parts])), np.arange(8))


def test_a_random_split_keeps_groups_together_and_meets_its_share():
    group, task, _ = random_structure(3)
    for seed in range(5):
        parts = tasks_train_test_split(group, group, task, groups=group, train_size=0.5, random_state=seed)
        assert not set(parts[0]) & set(parts[1])
        assert set(parts[4]) == set(task)
        assert 0.3 < len(parts[1]) / len(group) < 0.7


def test_a_search_cannot_learn_what_only_the_group_knows(visits):
    X, y, task, patient = visits
    apart = MMTFLRegressorCV(**FAST).fit(X, y, task=task)
    together = MMTFLRegressorCV(**FAST).fit(X, y, task=task, groups=patient)
    assert apart.heldout_scores_["r2"].mean() > 0.5  # rows of a patient in training give it away
    assert together.heldout_scores_["r2"].mean() < 0.1
    # intervals are as wide as patients are apart
    assert np.median(together.heldout_errors_["error"]) > 2 * np.median(apart.heldout_errors_["error"])


def test_other_splitters_get_the_groups_and_are_refused_if_they_separate_them(visits):
    X, y, task, patient = visits
    options = {**FAST, "cv": GroupKFold(3)}
    search = MMTFLRegressorCV(**options).fit(X, y, task=task, groups=patient)
    assert search.heldout_scores_["r2"].mean() < 0.1
    with pytest.raises(ValueError, match="trains and tests rows of the same group"):
        MMTFLRegressorCV(**{**options, "cv": KFold(3)}).fit(X, y, task=task, groups=patient)
    with pytest.raises(ValueError, match="groups has 3"):
        MMTFLRegressorCV(**FAST).fit(X, y, task=task, groups=[1, 2, 3])


# -- time --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [None, 0.5])
def test_a_row_is_tested_after_all_rows_of_its_task_that_are_trained_on(first):
    rng = np.random.default_rng(0)
    task = rng.choice(list("aaaaabbc"), 80)
    parts = list(TaskTimeSplit(4, first=first).split(task, task=task))
    for train, test in parts:
        for label in set(task[test]):
            assert train[task[train] == label].max() < test[task[test] == label].min()
    tested = np.concatenate([test for _, test in parts])
    assert len(np.unique(tested)) == len(tested)
    share = 0.45 if first else 0.75  # a little less than asked for: small tasks are tested late
    assert abs(len(tested) / 80 - share) < 0.03


def test_small_tasks_are_tested_late_and_single_rows_never():
    task = np.array(list("aaaaaaaaaabbc"))
    parts = list(TaskTimeSplit(3).split(task, task=task))
    assert [task[test].tolist().count("b") for _, test in parts] == [0, 0, 1]
    assert all("c" in task[train] and "c" not in task[test] for train, test in parts)


def test_rows_of_a_tested_group_are_left_out_of_the_past():
    task, group = np.repeat("a", 12), np.array([0, 1, 2, 3, 4, 4, 4, 4, 1, 5, 6, 7])
    for train, test in TaskTimeSplit(3).split(task, task=task, groups=group):
        assert not set(group[train]) & set(group[test])


def test_a_search_in_time_does_not_see_the_future():
    rng = np.random.default_rng(0)
    time, task = np.arange(200), np.array(list("ab"))[rng.integers(2, size=200)]
    X = np.column_stack([time > 100, rng.normal(size=200)]).astype(float)  # unknown to the past
    y = 3.0 * X[:, 0] + rng.normal(size=200)
    shuffled = MMTFLRegressorCV(**FAST).fit(X, y, task=task)
    own = {"cv": TaskTimeSplit(2, first=0.4)}
    in_time = MMTFLRegressorCV(**{**FAST, **own}).fit(X, y, task=task)
    assert shuffled.heldout_scores_["r2"].min() > 0.5 > in_time.heldout_scores_["r2"].max()
    assert in_time.heldout_scores_["n_rows"].sum() < 0.61 * 200


def test_classes_in_time_leave_tasks_out_until_they_have_both():
    task = np.repeat(["a", "b"], 12)
    y = np.concatenate([[0, 1] * 6, [0] * 7 + [1, 0, 1, 0, 1]])
    parts = list(TaskTimeSplit(3, stratify=True).split(task, y, task=task))
    assert "b" not in task[parts[0][0]]
    assert "b" in task[parts[2][1]]


pd = pytest.importorskip("pandas")


def rows(n_tasks=5, n_rows=20, seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(n_tasks * n_rows, 3)), np.repeat(np.arange(n_tasks), n_rows)
    return X, X @ [1.0, -2.0, 0.0] + 0.5 * rng.normal(size=len(X)), task


def test_scores_are_those_of_fits_without_the_task():
    X, y, task = rows()
    model = MMTFLRegressor(2, 2, 0.05, pooling=0.9, unknown_task="common")
    table = leave_task_out_scores(model, X, y, task)
    assert table["task"].tolist() == [0, 1, 2, 3, 4] and table["n_rows"].tolist() == [20] * 5
    out = task == 3
    fitted = MMTFLRegressor(2, 2, 0.05, pooling=0.9).fit(X[~out], y[~out], task=task[~out])
    by_hand = r2_score(y[out], X[out] @ fitted.common_ + fitted.common_intercept_)
    assert table["score"][3] == pytest.approx(by_hand, abs=1e-9)


def test_classes_frames_and_scikit_learns_tools():
    X, y, task = rows()
    labels = np.array([f"site {t}" for t in task])
    frame = pd.DataFrame(X, columns=list("abc")).assign(site=labels)
    model = MMTFLClassifier(2, 2, 0.02, task_column="site", unknown_task="mean")
    classes = np.where(y > 0, "yes", "no")
    table = leave_task_out_scores(model, frame, classes, labels, cv=GroupKFold(2))
    assert table["score"].min() > 0.7
    scores = cross_val_score(model, frame, classes, groups=labels, cv=LeaveOneGroupOut())
    alone = leave_task_out_scores(model, frame, classes, labels)
    np.testing.assert_allclose(scores, alone["score"])


def test_what_cannot_be_left_out_is_refused():
    X, y, task = rows()
    with pytest.raises(ValueError, match="refuses tasks it has not seen"):
        leave_task_out_scores(MMTFLRegressor(), X, y, task)
