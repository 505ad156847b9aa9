"""The models that a reader would try instead: scikit-learn's, tuned as their own users tune them.

Each has rows, targets (0 and 1 for classes) and the position of each row's task, and gives a function from
rows and tasks to predicted means.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LassoCV, LogisticRegressionCV, PoissonRegressor, RidgeCV
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

Predict = Callable[[Any, np.ndarray], np.ndarray]

FEWEST_ROWS = 5  # of a task with a model of its own; with fewer, or of a class, its mean serves
N_FOLDS = 3
STRENGTHS = np.logspace(-3, 5, 17)
MOST_CATEGORIES = 255  # of scikit-learn's boosting
MOST_DENSE = 10_000_000  # entries of indicator columns that are kept as an array
MOST_TUNED = 300_000  # entries of X up to which boosting has a grid of its own
LEAVES, TREES = (4, 16), (50, 150)


@dataclass(frozen=True)
class Rival:
    """A model to compare with: what it is called, and how it is fitted.

    Attributes
    ----------
    title : str
        In a table.
    words : str
        In a sentence, as a plural; ``{task}`` is what a task is called.
    fit : callable
        From X, y, task and the kind of targets to a function that predicts.
    """

    title: str
    words: str
    fit: Callable[[Any, np.ndarray, np.ndarray, str], Predict]


def fit_separate(X: Any, y: np.ndarray, task: np.ndarray, kind: str, *, lasso: bool = False) -> Predict:
    """One linear model for each task, each with its own strength.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.report.rivals import fit_separate
    >>> X, task = np.arange(20.0).reshape(-1, 1), np.repeat([0, 1], 10)
    >>> predict = fit_separate(X, np.where(task, -X[:, 0], X[:, 0]), task, "numbers")
    >>> predict(np.array([[5.0], [5.0]]), np.array([0, 1])).round(1).tolist()
    [5.0, -5.0]
    """
    mean = float(y.mean())  # for a task without rows
    models = {t: _fit_one(X[task == t], y[task == t], kind, lasso) for t in np.unique(task).tolist()}

    def predict(X: Any, task: np.ndarray) -> np.ndarray:
        out = np.empty(len(task))
        for t in np.unique(task).tolist():
            out[task == t] = models[t](X[task == t]) if t in models else mean
        return out

    return predict


def _fit_one(X: Any, y: np.ndarray, kind: str, lasso: bool) -> Callable[[Any], np.ndarray]:
    """A tuned linear model of some rows; their mean where they are too few, or too much alike."""
    rarer = min(np.sum(y > 0), np.sum(y <= 0)) if kind == "classes" else len(y)
    if len(y) < FEWEST_ROWS or rarer < N_FOLDS or np.ptp(y) == 0:
        mean = (y.sum() + 0.5) / (len(y) + 1.0) if kind == "classes" else float(y.mean())
        return lambda X: np.full(X.shape[0], mean)
    return _answer(_linear(X, kind, lasso).fit(X, y), kind)


def _linear(X: Any, kind: str, lasso: bool) -> Any:
    """Ridge or lasso, logistic or Poisson regression on standardised columns, with the strength by folds."""
    model: Any = RidgeCV(STRENGTHS)
    if kind == "classes":
        how = {"l1_ratios": (1.0,), "solver": "liblinear"} if lasso else {"l1_ratios": (0.0,)}
        folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
        model = LogisticRegressionCV(
            Cs=7, cv=folds, scoring="neg_log_loss", max_iter=500, use_legacy_attributes=False, **how
        )
    elif kind == "counts":
        grid = {"alpha": np.logspace(-4, 2, 7)}
        model = GridSearchCV(
            PoissonRegressor(max_iter=500), grid, cv=N_FOLDS, scoring="neg_mean_poisson_deviance"
        )
    elif lasso:
        model = LassoCV(cv=N_FOLDS, alphas=50, max_iter=5000)
    return make_pipeline(StandardScaler(with_mean=not sparse.issparse(X)), model)


def _answer(model: Any, kind: str) -> Callable[[Any], np.ndarray]:
    if kind == "classes":
        return lambda X: model.predict_proba(X)[:, 1]
    return model.predict


def fit_pooled(X: Any, y: np.ndarray, task: np.ndarray, kind: str, *, lasso: bool = False) -> Predict:
    """One linear model for the rows of all tasks, with the task as a category."""
    n_tasks = int(task.max()) + 1

    def table(X: Any, task: np.ndarray) -> Any:
        if not sparse.issparse(X) and len(task) * n_tasks <= MOST_DENSE:
            return np.hstack([X, np.eye(n_tasks)[task]])
        own = sparse.csr_matrix((np.ones(len(task)), (np.arange(len(task)), task)), (len(task), n_tasks))
        return sparse.hstack([sparse.csr_matrix(X), own], format="csr")

    answer = _fit_one(table(X, task), y, kind, lasso)
    return lambda X, task: answer(table(X, task))


def fit_for_new_tasks(X: Any, y: np.ndarray, task: np.ndarray, kind: str) -> Predict:
    """One linear model for the rows of all tasks, whatever the task."""
    answer = _fit_one(X, y, kind, lasso=False)
    return lambda X, task: answer(X)


def fit_boosting(X: Any, y: np.ndarray, task: np.ndarray, kind: str, *, with_task: bool = True) -> Predict:
    """Gradient boosting with the task as a category; size and number of trees by folds."""

    def table(X: Any, task: np.ndarray) -> np.ndarray:
        dense = X.toarray() if sparse.issparse(X) else X
        return np.column_stack([dense, task]) if with_task else dense

    categories = [X.shape[1]] if with_task and task.max() < MOST_CATEGORIES else None
    options = {"categorical_features": categories, "random_state": 0}
    scoring = {"numbers": "neg_mean_squared_error", "counts": "neg_mean_poisson_deviance"}
    if kind == "classes":
        model: Any = HistGradientBoostingClassifier(**options)
    else:
        loss = "squared_error" if kind == "numbers" else "poisson"
        model = HistGradientBoostingRegressor(loss=loss, **options)
    if np.ptp(y) == 0:
        return lambda X, task: np.full(X.shape[0], y[0], dtype=float)
    is_small = X.shape[0] * X.shape[1] <= MOST_TUNED
    if is_small:
        grid = {"max_leaf_nodes": LEAVES, "max_iter": TREES}
        model = GridSearchCV(model, grid, cv=N_FOLDS, scoring=scoring.get(kind, "neg_log_loss"))
    # many small trees: threads that wait for each other took twenty times as long as one
    with threadpool_limits(1 if is_small else None, user_api="openmp"):
        answer = _answer(model.fit(table(X, task), y), kind)
    return lambda X, task: answer(table(X, task))


RIVALS = {
    "separate": Rival("Separate models", "separate models for each {task}", fit_separate),
    "pooled": Rival("One model", "one linear model for all rows", fit_pooled),
    "boosting": Rival("Boosted trees", "boosted trees", fit_boosting),
}


def fit_quietly(rival: Rival, X: Any, y: np.ndarray, task: np.ndarray, kind: str) -> Predict:
    """Fit a rival to rows in random order, as its folds need them, without scikit-learn's warnings."""
    rows = np.random.default_rng(0).permutation(len(y))
    with warnings.catch_warnings(action="ignore"):
        return rival.fit(X[rows], y[rows], task[rows], kind)
