"""The single-task baseline, tuned fairly: ridge or lasso for every task, each with its own strength.

At k = inf the tasks of the family do not meet, so one path over all tasks holds the models of every task at
every strength. Each task then takes its own strength from it, and the better of ridge and lasso, by its own
held-out rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mmtfl.estimators.search import path

__all__ = ["SingleTasks", "fit_single_tasks"]

Fold = tuple[np.ndarray, np.ndarray]
_TOL = 1e-4


@dataclass(frozen=True)
class SingleTasks:
    """One linear model per task.

    Attributes
    ----------
    labels : ndarray (T,)
        Tasks, sorted.
    coef : ndarray (T, d)
        Coefficients.
    intercept : ndarray (T,)
        Intercepts.
    p : ndarray (T,)
        2 where ridge was chosen, 1 where the lasso was.
    """

    labels: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    p: np.ndarray

    def decision(self, X: np.ndarray, task: np.ndarray) -> np.ndarray:
        """Predicted value, or log odds, of every row."""
        t = np.searchsorted(self.labels, task)
        return np.einsum("ij,ij->i", X, self.coef[t]) + self.intercept[t]


def fit_single_tasks(
    X: np.ndarray,
    y: np.ndarray,
    task: np.ndarray,
    folds: Sequence[Fold],
    *,
    classify: bool = False,
    standardize: bool = False,
    fit_intercept: bool = True,
    n_strengths: int = 30,
) -> SingleTasks:
    """Tune and fit ridge and lasso on every task alone, and keep the better one of each.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of all tasks.
    y : ndarray of shape (n,)
        Targets; 0 and 1 for classes.
    task : ndarray of shape (n,)
        Task of each row.
    folds : sequence of (train, test)
        Row numbers; every task must be in every training part.
    classify : bool
        Whether the loss is logistic.
    standardize : bool
        Whether each task's features are brought to unit spread, with the statistics of the rows fitted.
    fit_intercept : bool
        Whether each task has a constant.
    n_strengths : int
        Strengths tried for ridge, and for lasso.

    Returns
    -------
    SingleTasks
        Fitted on all rows.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.model_selection import TaskKFold
    >>> from mmtfl_lab.paper.single_tasks import fit_single_tasks
    >>> data = make_tasks(3, 40, 8, n_informative=2, noise=0.3, random_state=0)
    >>> folds = list(TaskKFold(3, random_state=0).split(data.X, task=data.task))
    >>> model = fit_single_tasks(data.X, data.y, data.task, folds)
    >>> model.coef.shape, model.p.tolist()
    ((3, 8), [1, 1, 1])
    """
    labels, code = np.unique(task, return_inverse=True)
    held_out, fitted = {}, {}
    options = {"classify": classify, "standardize": standardize, "fit_intercept": fit_intercept}
    for p in (2, 1):
        whole = _Models(X, y, code, p, n_strengths, **options)
        parts = [(_Models(X[i], y[i], code[i], p, whole.alphas, **options), test) for i, test in folds]
        held_out[p] = sum(part.losses(X[test], y[test], code[test]) for part, test in parts)
        fitted[p] = whole
    best = {p: loss.min(axis=1) for p, loss in held_out.items()}
    chosen = np.where(best[2] <= best[1], 2, 1)
    models = [fitted[p].of_task(t, int(held_out[p][t].argmin())) for t, p in enumerate(chosen.tolist())]
    coef, intercept = (np.array(part) for part in zip(*models, strict=True))
    return SingleTasks(labels, coef, intercept, chosen)


class _Models:
    """Ridge or lasso of all tasks at all strengths, fitted on some rows, each task on its own scale."""

    def __init__(self, X, y, code, p, strengths, *, classify, standardize, fit_intercept):
        rows = [code == t for t in range(int(code.max()) + 1)]
        self.n_tasks, self.classify = len(rows), classify
        one = np.ones(X.shape[1])
        self.x_scale = np.array([_spread(X[mine]) if standardize else one for mine in rows])
        # targets on one scale, so that one grid of strengths suits all tasks
        self.y_scale = np.array([1.0 if classify else _spread(y[mine]) for mine in rows])
        X, y = X / self.x_scale[code], y if classify else y / self.y_scale[code]
        options = {"loss": "logistic" if classify else "squared", "fit_intercept": fit_intercept, "tol": _TOL}
        self.path = path(X, y, code, p=p, k=np.inf, alphas=strengths, **options)
        self.alphas = self.path.alphas

    def losses(self, X, y, code):
        """Summed loss of each task's rows at every strength, (n_tasks, n_strengths)."""
        X, y = X / self.x_scale[code], y / self.y_scale[code]
        out = np.zeros((self.n_tasks, len(self.alphas)))
        for i in range(len(self.alphas)):
            z = np.einsum("ij,ij->i", X, self.path.coef(i)[code]) + self.path.intercepts[i][code]
            loss = np.logaddexp(0.0, np.where(y > 0, -z, z)) if self.classify else 0.5 * (y - z) ** 2
            out[:, i] = np.bincount(code, loss, minlength=self.n_tasks)
        return out

    def of_task(self, t, i):
        """Coefficients and intercept of one task at one strength, in the units of X and y."""
        coef = self.path.coef(i)[t] / self.x_scale[t]
        return self.y_scale[t] * coef, self.y_scale[t] * self.path.intercepts[i][t]


def _spread(values):
    """Standard deviation, one where nothing varies."""
    most = np.abs(values).max(axis=0)
    power = np.frexp(most)[1]  # a power of two changes no digit, and no square overflows
    spread = np.ldexp(np.std(np.ldexp(values, -power), axis=0), power)
    return np.where(spread > 1e-12 * most, spread, 1.0)
