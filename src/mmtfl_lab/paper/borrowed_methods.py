"""Methods of other packages: boosted trees of scikit-learn, and the pretrained lasso of `ptlasso`."""

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from mmtfl.errors import require
from mmtfl_lab.paper.data_sets import Split

LEAVES = (4, 16)  # of a tree
TREES = 150
MOST_CATEGORIES = 255  # of scikit-learn's boosting
PRETRAINING = (0.0, 0.25, 0.5, 0.75, 1.0)

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _held_out_loss(split: Split, classify: bool, options: Mapping[str, Any]) -> Callable:
    """Return the function of rows and predictions (n_candidates, n_rows) that gives each candidate's loss."""
    train = split.train
    code = np.unique(train.task, return_inverse=True)[1]
    unit = centre_and_unit(split, options)[1]

    def loss(rows: np.ndarray, z: np.ndarray) -> np.ndarray:
        if classify:
            return np.logaddexp(0.0, np.where(train.y[rows] > 0, -z, z)).sum(axis=1)
        return (((train.y[rows] - z) / unit[code[rows]]) ** 2).sum(axis=1)

    return loss


def centre_and_unit(split: Split, options: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and spread of each task's targets; 0 and 1 where they are not to be scaled."""
    labels, code = np.unique(split.train.task, return_inverse=True)
    if not options.get("scale_targets") or split.pool.one_unit:
        return np.zeros(len(labels)), np.ones(len(labels))
    own = [split.train.y[code == t] for t in range(len(labels))]
    return np.array([y.mean() for y in own]), np.array([y.std() or 1.0 for y in own])


# -- boosting ------------------------------------------------------------------------------------------------


def fit_boosting(
    split: Split, classify: bool, options: Mapping[str, Any], n_folds: int
) -> tuple[Predict, dict[str, Any]]:
    """scikit-learn's boosted trees with the task as a category; size and number of trees by the folds."""
    train, folds = split.train, split.folds(n_folds)
    labels, code = np.unique(train.task, return_inverse=True)
    centre, unit = centre_and_unit(split, {} if classify else options)
    y = train.y if classify else (train.y - centre[code]) / unit[code]
    kind = HistGradientBoostingClassifier if classify else HistGradientBoostingRegressor
    as_category = [train.X.shape[1]] if len(labels) <= MOST_CATEGORIES else None

    def table(X: np.ndarray, task: np.ndarray) -> np.ndarray:
        return np.column_stack([X, np.searchsorted(labels, task)])

    def model(n_leaves: int, n_trees: int) -> Any:
        return kind(
            max_leaf_nodes=n_leaves, max_iter=n_trees, categorical_features=as_category, early_stopping=False,
            random_state=0,
        )  # fmt: skip

    Z, losses = table(train.X, train.task), np.zeros((len(LEAVES), TREES))
    loss = _held_out_loss(split, classify, options)
    for row, n_leaves in enumerate(LEAVES):
        for rows, test in folds:
            fitted = model(n_leaves, TREES).fit(Z[rows], y[rows])
            staged = fitted.staged_decision_function if classify else fitted.staged_predict
            own = code[test]
            z = np.array([np.ravel(z) for z in staged(Z[test])])
            losses[row] += loss(test, z * unit[own] + centre[own])
    best = divmod(int(np.argmin(losses)), TREES)
    chosen = {"leaves": LEAVES[best[0]], "trees": best[1] + 1}
    final = model(chosen["leaves"], chosen["trees"]).fit(Z, y)
    answer = final.decision_function if classify else final.predict

    def predict(X: np.ndarray, task: np.ndarray) -> np.ndarray:
        own = np.searchsorted(labels, task)
        return np.ravel(answer(table(X, task))) * unit[own] + centre[own]

    return predict, chosen


# -- the pretrained lasso ------------------------------------------------------------------------------------


def no_pretrained_lasso(classify: bool) -> str | None:
    """Say why the pretrained lasso cannot be run; None if it can."""
    if find_spec("ptlasso") is None:
        return "the package ptlasso is not installed"
    return "ptlasso is run for numbers only" if classify else None


def fit_pretrained_lasso(
    split: Split, options: Mapping[str, Any], n_folds: int
) -> tuple[Predict, dict[str, Any]]:
    """The pretrained lasso of `ptlasso`, whose own folds choose how much is pretrained."""
    train = split.train
    labels, code = np.unique(train.task, return_inverse=True)
    spread = train.X.std(axis=0) if options.get("standardize") else np.ones(train.X.shape[1])
    spread[spread == 0.0] = 1.0
    centre, unit = centre_and_unit(split, options)
    model = require("ptlasso").PretrainedLassoCV(
        alphas=list(PRETRAINING), cv=n_folds, fit_intercept=options.get("fit_intercept", True)
    )
    model.fit(train.X / spread, (train.y - centre[code]) / unit[code], code)

    def predict(X: np.ndarray, task: np.ndarray) -> np.ndarray:
        own = np.searchsorted(labels, task)
        return np.asarray(model.predict(X / spread, own)) * unit[own] + centre[own]

    return predict, {"pretraining": float(model.alpha_)}
