"""Tasks that are left out whole."""

import numpy as np
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut, cross_val_score

from mmtfl import MMTFLClassifier, MMTFLRegressor
from mmtfl.model_selection import leave_task_out_scores

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
