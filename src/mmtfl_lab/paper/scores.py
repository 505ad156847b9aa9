"""Scores of predictions, and of the features found."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import f1_score, r2_score, roc_auc_score

__all__ = ["score_rows", "support_f1"]


def score_rows(metric: str, y: np.ndarray, z: np.ndarray, task: np.ndarray) -> dict[str, float]:
    """Score predictions of all rows at once, and as the mean over tasks.

    Parameters
    ----------
    metric : {"r2", "f1", "auc"}
        Coefficient of determination, F1 of class 1, or area under the ROC curve.
    y : ndarray of shape (n,)
        Targets; 0 and 1 for classes.
    z : ndarray of shape (n,)
        Predictions; log odds for classes.
    task : ndarray of shape (n,)
        Task of each row. Tasks whose targets are all equal have no score.

    Returns
    -------
    dict
        ``pooled`` and ``mean``.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.paper.scores import score_rows
    >>> score_rows("f1", np.array([0, 1, 0, 1]), np.array([-1.0, 2.0, -1.0, 1.0]), np.array([0, 0, 1, 1]))
    {'pooled': 1.0, 'mean': 1.0}
    """
    function = _METRICS[metric]
    labels, code = np.unique(task, return_inverse=True)
    parts = [code == t for t in range(len(labels))]
    own = [function(y[rows], z[rows]) for rows in parts if np.ptp(y[rows]) > 0]
    if metric == "r2":
        means = np.array([y[rows].mean() for rows in parts])
        # about the tasks' own means: to know that torques differ in size explains nothing
        pooled = 1.0 - np.sum((y - z) ** 2) / np.sum((y - means[code]) ** 2)
    else:
        pooled = function(y, z)
    return {"pooled": float(pooled), "mean": float(np.mean(own))}


_METRICS = {
    "r2": r2_score,
    "f1": lambda y, z: f1_score(y, z > 0.0, zero_division=0.0),
    "auc": roc_auc_score,
}


def support_f1(support: np.ndarray, coef: np.ndarray) -> float:
    """F1 of the entries that are not zero, against those of the truth.

    Parameters
    ----------
    support, coef : ndarray of shape (n_tasks, n_features)
        What is not zero in truth, and what was learned.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.paper.scores import support_f1
    >>> round(support_f1(np.array([[True, True, False]]), np.array([[0.3, 0.0, 0.0]])), 3)
    0.667
    """
    found = np.broadcast_to(coef != 0.0, support.shape)
    both = int(np.count_nonzero(found & support))
    either = int(np.count_nonzero(found) + np.count_nonzero(support))
    return 2.0 * both / max(either, 1)
