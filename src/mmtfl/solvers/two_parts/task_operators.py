"""One task's whole design as a linear map, centred and weighted without a copy, and its eigenvectors."""

from functools import cached_property

import numpy as np
from scipy import sparse

from mmtfl.objective.design import Design

_NOTHING = 1e-13  # eigenvalues below this share of the largest are rounding


class TaskOperator:
    """a -> sqrt(h) (X - mean_h) a for the rows of one task, with row weights h.

    Examples
    --------
    >>> import numpy as np
    >>> operator = TaskOperator(np.array([[1.0], [3.0]]), np.ones(1), np.ones(2), centred=True)
    >>> operator.forward(np.array([2.0]))
    array([-2.,  2.])
    """

    def __init__(self, X, inverse_scale: np.ndarray, weight: np.ndarray, *, centred: bool):
        self._X, self._scale, self._root = X, inverse_scale, np.sqrt(weight)
        self.n_features = X.shape[1]
        self._means = np.zeros(self.n_features)
        if centred:
            self._means = np.asarray(X.T @ weight) * inverse_scale / weight.sum()

    def forward(self, a: np.ndarray) -> np.ndarray:
        """Image of the coefficients a."""
        return self._root * (self._X @ (self._scale * a) - self._means @ a)

    def adjoint(self, r: np.ndarray) -> np.ndarray:
        """Correlation of every column with r."""
        v = self._root * r
        return self._scale * (self._X.T @ v) - self._means * v.sum()

    def columns(self, index: np.ndarray) -> np.ndarray:
        """Some columns of the map as a matrix."""
        X = self._X[:, index] if len(index) < self.n_features else self._X
        X = X.toarray() if sparse.issparse(X) else X
        return (X * self._scale[index] - self._means[index]) * self._root[:, None]

    @cached_property
    def mean_curvature(self) -> float:
        """Mean square sum of a column, in one direction drawn as good as any: a guess of the curvature."""
        signs = np.where(np.arange(self.n_features) % 2, 1.0, -1.0)
        return float(np.sum(self.forward(signs) ** 2)) / self.n_features


def task_designs(design: Design) -> list:
    """Rows of each task's X in float64, by reference where they can be."""
    tasks = design.tasks
    X = tasks.X.tocsr() if sparse.issparse(tasks.X) else tasks.X
    if X.dtype != np.float64:
        X = X.astype(np.float64)
    if tasks.rows is None:
        return [X[rows] for _, rows in design.segments()]
    if design.is_complete:
        return [X] * design.n_tasks
    return [X[tasks.rows[rows]] for _, rows in design.segments()]


def task_operators(design: Design, designs: list, weight: np.ndarray) -> list[TaskOperator]:
    """The operator of every task."""
    return [
        TaskOperator(designs[t], design.inverse_scale, weight[rows], centred=design.fit_intercept)
        for t, rows in design.segments()
    ]


class TaskBasis:
    """Eigenvectors of X X' of a task's operator, from the smaller of its two sides.

    `eigenvalues` are those above rounding; `rotate` goes from rows to the basis and `back` returns.
    """

    def __init__(self, operator: TaskOperator):
        X = operator.columns(np.arange(operator.n_features))
        tall = X.shape[0] > X.shape[1]
        values, vectors = np.linalg.eigh(X.T @ X if tall else X @ X.T)
        kept = values > _NOTHING * max(values[-1], 0.0)
        self.eigenvalues = values[kept]
        # orthonormal in the space of rows
        self._rows = X @ (vectors[:, kept] / np.sqrt(self.eigenvalues)) if tall else vectors[:, kept]

    def rotate(self, r: np.ndarray) -> np.ndarray:
        """Coordinates of r, or of each column of r, in the basis."""
        return self._rows.T @ r

    def back(self, r: np.ndarray) -> np.ndarray:
        """From coordinates in the basis to rows."""
        return self._rows @ r
