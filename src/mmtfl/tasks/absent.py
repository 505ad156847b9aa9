"""Features that some tasks do not have: columns that are missing in all rows of a task."""

from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.wording import abbreviate

ABSENT_REMEDY = (
    " Where a task has no value of a feature at all, absent_features='allow' leaves the feature out for it."
)


def take_absent(X: Any, observation_task: np.ndarray, n_tasks: int) -> tuple[Any, np.ndarray | None]:
    """Return X with zeros in columns that are missing in all rows of a task, and which these are.

    Scattered missing values stay. Without such columns X is returned as it is, with None.

    Examples
    --------
    >>> import numpy as np
    >>> X, absent = take_absent(np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([0, 1]), 2)
    >>> X, absent
    (array([[1., 2.],
           [3., 0.]]), array([[False, False],
           [False,  True]]))
    """
    rows, columns = _missing(X)
    if not rows.size:
        return X, None
    counts = np.zeros((n_tasks, X.shape[1]), dtype=np.intp)
    np.add.at(counts, (observation_task[rows], columns), 1)
    absent = counts == np.bincount(observation_task, minlength=n_tasks)[:, None]
    if not absent.any():
        return X, None
    fill = absent[observation_task[rows], columns]
    return _with_zeros(X, rows[fill], columns[fill]), absent


def take_absent_shared(X: Any, observed: np.ndarray) -> tuple[Any, np.ndarray | None]:
    """The same for tasks that observe rows of one X: `observed` (n_tasks, n_rows) tells which.

    A missing value is filled where no task that observes its row has the feature.
    """
    rows, columns = _missing(X)
    if not rows.size:
        return X, None
    missing = np.zeros(X.shape, dtype=bool)
    missing[rows, columns] = True
    seen = observed.astype(float) @ ~missing  # rows of the task that have the feature
    absent = seen == 0.0
    if not absent.any():
        return X, None
    needed = (observed.T.astype(float) @ ~absent)[rows, columns] > 0.0
    return _with_zeros(X, rows[~needed], columns[~needed]), absent


def fill_absent(X: Any, absent: np.ndarray, observation_task: np.ndarray | None, names: Any) -> Any:
    """X to predict, with zeros where a row's task does not have a feature; None: rows of all tasks.

    A position beyond those of `absent` is an unknown task, of which nothing is known.
    """
    rows, columns = _missing(X)
    if not rows.size:
        return X
    if observation_task is None:
        lacking = np.unique(columns[np.any(absent, axis=0)[columns]])
        if lacking.size:
            told = abbreviate([str(j) if names is None else str(names[j]) for j in lacking])
            raise ValueError(
                f"Input X contains NaN in {told}, which some tasks have and others do not: pass task= to "
                "predict each row by its own task."
            )
        return X
    absent = np.vstack([absent, np.zeros(absent.shape[1], dtype=bool)])
    fill = absent[observation_task[rows], columns]
    return _with_zeros(X, rows[fill], columns[fill])


def _missing(X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of missing values; clean data cost one pass."""
    if sparse.issparse(X):
        entries = X.tocoo(copy=False)
        missing = np.isnan(entries.data)
        return entries.row[missing], entries.col[missing]
    with np.errstate(all="ignore"):
        if not np.isnan(X.sum()):
            return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    rows, columns = np.nonzero(np.isnan(X))
    return rows, columns


def _with_zeros(X: Any, rows: np.ndarray, columns: np.ndarray) -> Any:
    if not rows.size:
        return X
    if not sparse.issparse(X):
        X = X.copy()
        X[rows, columns] = 0.0
        return X
    entries = X.tocoo()
    codes = entries.row.astype(np.int64) * X.shape[1] + entries.col
    kept = ~np.isin(codes, rows.astype(np.int64) * X.shape[1] + columns)
    parts = (entries.data[kept], (entries.row[kept], entries.col[kept]))
    return type(X)(sparse.coo_matrix(parts, shape=X.shape))
