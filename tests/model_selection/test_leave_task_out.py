"""Tasks that are left out whole."""

import numpy as np
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score

from mmtfl import MMTFLClassifier, MMTFLRegressor
from mmtfl.model_selection import LeaveTaskOut, leave_task_out_scores

pd = pytest.importorskip("pandas")


def rows(n_tasks=5, n_rows=20, seed=0):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(n_tasks * n_rows, 3)), np.repeat(np.arange(n_tasks), n_rows)
    return X, X @ [1.0, -2.0, 0.0] + 0.5 * rng.normal(size=len(X)), task


def test_it_splits_as_scikit_learn_does_by_group():
    X, y, task = rows()
    mixed = np.random.default_rng(1).permutation(task)
    found = list(LeaveTaskOut().split(X, y, task=mixed))
    expected = list(LeaveOneGroupOut().split(X, y, mixed))
    assert len(found) == LeaveTaskOut().get_n_splits(task=mixed) == 5
    for (train, test), (their_train, their_test) in zip(found, expected, strict=True):
        assert np.array_equal(train, their_train) and np.array_equal(test, their_test)


@pytest.mark.parametrize("n_splits", [2, 3, 50])
def test_every_task_is_left_out_once_and_groups_have_as_many_tasks(n_splits):
    X, _, task = rows(n_tasks=7)
    parts = [
        (set(task[train]), set(task[test])) for train, test in LeaveTaskOut(n_splits).split(X, task=task)
    ]
    assert len(parts) == LeaveTaskOut(n_splits).get_n_splits(task=task) == min(n_splits, 7)
    assert sorted(t for _, test in parts for t in test) == list(range(7))
    assert all(not train & test for train, test in parts)
    sizes = [len(test) for _, test in parts]
    assert max(sizes) - min(sizes) <= 1


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
    table = leave_task_out_scores(model, frame, classes, labels, cv=LeaveTaskOut(2))
    assert table["score"].min() > 0.7
    scores = cross_val_score(model, frame, classes, groups=labels, cv=LeaveTaskOut())
    alone = leave_task_out_scores(model, frame, classes, labels)
    np.testing.assert_allclose(scores, alone["score"])


def test_what_cannot_be_left_out_is_refused():
    X, y, task = rows()
    with pytest.raises(ValueError, match="refuses tasks it has not seen"):
        leave_task_out_scores(MMTFLRegressor(), X, y, task)
    with pytest.raises(ValueError, match="two tasks or more"):
        next(LeaveTaskOut().split(X, task=np.zeros(len(X), dtype=int)))
    with pytest.raises(ValueError, match="needs the task of each row"):
        next(LeaveTaskOut().split(X))
    with pytest.raises(ValueError, match="2 groups or more"):
        LeaveTaskOut(1)
