"""One ridge or lasso for the rows of all tasks, with an intercept for each task.

For the squared loss, features and targets measured from the means of their task make the intercepts vanish
from the problem. For the logistic loss the intercepts are the coefficients of the tasks' indicator columns,
which are scaled up so far that the penalty on them is next to nothing. The same is done where X is sparse,
because subtracting means would make it dense.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from mmtfl.estimators.coefficient_path import path
from mmtfl.estimators.single_task import better_of_ridge_and_lasso
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Squared
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers.path import alpha_grid
from mmtfl.tasks.container import Tasks

Fold = tuple[np.ndarray, np.ndarray]
LENGTH = 1e4  # of an indicator column: the penalty on an intercept is that much smaller
RATIOS = {2: 1e-5, 1: None}  # smallest over largest strength of ridge and lasso
TOL = 1e-4
ROUNDING = 1e-10  # of a column's values, below which it does not vary
MOST_DENSE = 10_000_000  # entries of indicator columns that are kept as an array


@dataclass(frozen=True)
class Pooled:
    """A linear model with the same coefficients in all tasks.

    Attributes
    ----------
    coef : ndarray (d,)
        Coefficients, in units of the targets as fitted.
    intercept : ndarray (n_tasks,)
        One for each task.
    unit : ndarray (n_tasks,)
        By which predictions of each task are multiplied; 1 where targets are in one unit.
    p : int
        2 if ridge was chosen, 1 if the lasso was.
    alpha : float
        The strength chosen.
    """

    coef: np.ndarray
    intercept: np.ndarray
    unit: np.ndarray
    p: int
    alpha: float

    def decision(self, X: Any, observation_task: np.ndarray) -> np.ndarray:
        """Predicted values, or log odds, of rows of tasks given by position."""
        return (X @ self.coef + self.intercept[observation_task]) * self.unit[observation_task]


def fit_pooled(
    X: Any,
    y: np.ndarray,
    observation_task: np.ndarray,
    folds: Sequence[Fold],
    *,
    classify: bool = False,
    standardize: bool = False,
    fit_intercept: bool = True,
    scale_tasks: bool = False,
    n_strengths: int = 20,
) -> Pooled:
    """Tune ridge and lasso on the rows of all tasks, and keep the better one.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
        Rows of all tasks.
    y : ndarray of shape (n,)
        Targets; 0 and 1 for classes.
    observation_task : ndarray of shape (n,) of int
        Position of the task of each row.
    folds : sequence of (train, test)
        Row numbers, by which the strength is chosen.
    classify : bool
        Whether the loss is logistic.
    standardize : bool
        Whether features are brought to unit spread within tasks.
    fit_intercept : bool
        Whether tasks have intercepts.
    scale_tasks : bool
        Whether each task's targets are brought to unit spread, as is right for targets in different units.
    n_strengths : int
        Strengths tried for ridge, and for lasso.

    Returns
    -------
    Pooled
        Fitted on all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.model_selection import TaskKFold
    >>> from mmtfl_lab.paper.pooled import fit_pooled
    >>> X, task = np.arange(12.0).reshape(-1, 1), np.repeat([0, 1], 6)
    >>> y = 2.0 * X[:, 0] + np.array([10.0, -10.0])[task]
    >>> model = fit_pooled(X, y, task, list(TaskKFold(3, random_state=0).split(X, task=task)))
    >>> model.coef.round(2).tolist(), model.intercept.round().tolist()
    ([2.0], [10.0, -10.0])
    """
    n_tasks = int(observation_task.max()) + 1

    options = {"classify": classify, "standardize": standardize}
    options |= {"fit_intercept": fit_intercept, "scale_tasks": scale_tasks}

    def part(rows: Any) -> _Part:
        return _Part(X[rows], np.asarray(y, dtype=float)[rows], observation_task[rows], n_tasks, **options)

    whole, parts = part(np.arange(len(y))), [(part(train), test) for train, test in folds]

    def search(p: int) -> tuple[float, tuple[int, np.ndarray]]:
        alphas = whole.strengths(p, n_strengths, RATIOS[p])
        held_out = [
            fitted.losses(p, alphas, X[test], y[test], observation_task[test]) for fitted, test in parts
        ]
        loss = np.sum(held_out, axis=0)
        return -float(loss.min()), (p, alphas[: int(loss.argmin()) + 1])

    return whole.models(*better_of_ridge_and_lasso(search))[-1]


class _Part:
    """Some rows, measured from the means of their task where there are intercepts."""

    def __init__(self, X, y, observation_task, n_tasks, *, classify, standardize, fit_intercept, scale_tasks):
        is_sparse = sparse.issparse(X)
        self.observation_task, self.n_tasks, self.classify = observation_task, n_tasks, classify
        self.unit = _units(y, observation_task, n_tasks) if scale_tasks and not classify else np.ones(n_tasks)
        y = y / self.unit[observation_task]
        self.x_mean, self.y_mean = np.zeros((n_tasks, X.shape[1])), np.zeros(n_tasks)
        largest = _largest(X)
        if fit_intercept:
            self.y_mean = _means(y, observation_task, n_tasks)
        if fit_intercept and not is_sparse:
            self.x_mean = _means(X, observation_task, n_tasks)
            X = X - self.x_mean[observation_task]
        spread = StandardScaler(with_mean=False).fit(X).var_ ** 0.5
        # a column that does not vary within tasks is divided by infinity: it becomes zero
        self.scale = np.where(spread > ROUNDING * largest, spread if standardize else 1.0, np.inf)
        self.X = X @ sparse.diags(1.0 / self.scale) if is_sparse else X / self.scale
        self.residual = y - (0.5 if classify and not fit_intercept else self.y_mean[observation_task])
        self.target = y if classify else self.residual
        self.has_indicators = fit_intercept and (classify or is_sparse)

    def strengths(self, p: int, n_strengths: int, ratio: float | None) -> np.ndarray:
        """A grid of strengths, from one at which the coefficients nearly vanish; by the gradient at zero."""
        design = Design(Tasks.from_rows(self.X, self.residual), fit_intercept=False)
        penalty = make_penalty(float(p), np.inf, 1.0)
        return alpha_grid(Problem(design, Squared()), penalty, n_strengths, ratio)

    def models(self, p: int, alphas: np.ndarray) -> list[Pooled]:
        """The model at every strength."""
        loss = "logistic" if self.classify else "squared"
        X = self._with_indicators() if self.has_indicators else self.X
        options: dict[str, Any] = {"loss": loss, "fit_intercept": False, "tol": TOL}
        found = path(X, self.target, p=p, k=np.inf, alphas=alphas, **options)
        return [self._model(found.coef(i)[0], p, float(alpha)) for i, alpha in enumerate(found.alphas)]

    def losses(
        self, p: int, alphas: np.ndarray, X: Any, y: np.ndarray, observation_task: np.ndarray
    ) -> np.ndarray:
        """Loss of other rows at every strength, in units of each task."""
        z = np.array([model.decision(X, observation_task) for model in self.models(p, alphas)])
        if self.classify:
            return np.logaddexp(0.0, np.where(y > 0, -z, z)).sum(axis=1)
        return (((y - z) / self.unit[observation_task]) ** 2).sum(axis=1)

    def _with_indicators(self) -> Any:
        n_rows = len(self.observation_task)
        place = (np.full(n_rows, LENGTH), (np.arange(n_rows), self.observation_task))
        columns = sparse.csr_matrix(place, shape=(n_rows, self.n_tasks))
        if sparse.issparse(self.X) or n_rows * self.n_tasks > MOST_DENSE:
            return sparse.hstack([sparse.csr_matrix(self.X), columns], format="csr")
        return np.hstack([self.X, columns.toarray()])

    def _model(self, found: np.ndarray, p: int, alpha: float) -> Pooled:
        n_features = len(self.scale)
        coef = found[:n_features] / self.scale
        own = LENGTH * found[n_features:] if self.has_indicators else 0.0
        intercept = own - self.x_mean @ coef + (0.0 if self.classify else self.y_mean)
        return Pooled(coef, intercept, self.unit, p, alpha)


def _means(values: np.ndarray, observation_task: np.ndarray, n_tasks: int) -> np.ndarray:
    """Mean of each task; that of all rows for a task that has none."""
    mean = values.mean(axis=0)
    groups = [values[observation_task == t] for t in range(n_tasks)]
    return np.array([group.mean(axis=0) if len(group) else mean for group in groups])


def _units(y: np.ndarray, observation_task: np.ndarray, n_tasks: int) -> np.ndarray:
    groups = [y[observation_task == t] for t in range(n_tasks)]
    return np.array([group.std() if len(group) and np.ptp(group) > 0 else 1.0 for group in groups])


def _largest(X: Any) -> np.ndarray:
    """Largest absolute value of each column."""
    found = abs(X).max(axis=0)
    return found.toarray().ravel() if sparse.issparse(found) else np.asarray(found).ravel()
