"""The linear predictor of rows: of tasks that were fitted, and of tasks never seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import t as student
from sklearn.utils import gen_batches

from mmtfl.core import columns
from mmtfl.estimators.fitted_curves import join_curves
from mmtfl.estimators.shrunk_levels import level_model
from mmtfl.inference.marginal_levels import NODES
from mmtfl.tasks.checks import check_finite_design

CHUNK = 1 << 18  # entries predicted at a time: float32 rows are widened by parts, never as a whole


def predict(model: Any, X: Any, place: np.ndarray | None) -> np.ndarray:
    """Predict rows of the tasks at these places, or, without places, every row for every task.

    Tasks never seen have places from the number of tasks on. Curve columns are made for some rows at a time.
    """
    wide = join_curves(model)
    coef, intercept = wide.coef_, wide.intercept_
    if place is not None and (place >= len(coef)).any():
        coef, intercept = _with_unknown_tasks(wide, X, place)
    if model.curves_ is None:
        z = predict_rows(X, coef, intercept, place)
    else:
        widened, parts = model.curves_.basis.widened, []
        for part in gen_batches(X.shape[0], max(1, CHUNK // coef.shape[1])):
            rows = X[part].toarray() if sparse.issparse(X) else X[part]
            parts.append(predict_rows(widened(rows), coef, intercept, None if place is None else place[part]))
        z = np.concatenate(parts)
    if not np.isfinite(z).all():  # an entry of X that is not finite shows in z, even times zero
        known = place is not None and (place < len(model.tasks_)).all()  # an unknown task has no label
        who = {"observation_task": place if known else None, "labels": model.tasks_}
        check_finite_design(X, **who, feature_names=getattr(model, "feature_names_in_", None))
    return z


def predict_rows(X: Any, coef: np.ndarray, intercept: np.ndarray, place: np.ndarray | None) -> np.ndarray:
    """Predict row i with the coefficients of task place[i]; without places every task on every row."""
    if place is not None and not sparse.issparse(X):
        return columns.predict_rows(X, place, coef, intercept)
    if place is not None and len(coef) > 1:
        entries = X.tocoo()
        with np.errstate(invalid="ignore"):
            terms = entries.data * coef[place[entries.row], entries.col]
        return np.bincount(entries.row, terms, minlength=X.shape[0]) + intercept[place]
    if sparse.issparse(X):
        z = np.asarray(X @ coef.T)
    else:
        z = np.empty((X.shape[0], len(coef)))
        for part in gen_batches(X.shape[0], max(1, CHUNK // X.shape[1])):
            np.matmul(X[part], coef.T, out=z[part])
    z += intercept
    return z if place is None else z[:, 0]


# -- tasks never seen ----------------------------------------------------------------------------------------


def _with_unknown_tasks(model: Any, X: Any, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and intercepts with those of the tasks never seen added, one for each label."""
    n_new = int(place.max()) + 1 - len(model.tasks_)
    if model.unknown_task != "common":
        slopes, intercept = model._mean_slopes(), model.intercept_.mean()
    elif "levels_" in vars(model):
        slopes = model._common_slopes()
        intercept = expected_levels(model, X, place)[0] - slopes @ model.levels_["reference"]
    else:
        slopes, intercept = model._pooled_slopes(), model.common_intercept_
    new = np.broadcast_to(intercept, n_new)
    return np.vstack([model.coef_, np.tile(slopes, (n_new, 1))]), np.append(model.intercept_, new)


def expected_levels(
    model: Any, X: Any, place: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Level of each task never seen at the reference point, and its variance, by the means of its rows.

    Rows of such tasks have places from the number of tasks on.
    """
    columns, of_levels = level_model(model._learned_levels())
    w = columns.place(_means_of_new(X, place, len(model.tasks_), weights))
    return of_levels.expected(w), of_levels.variance(w)


def averaged_over_levels(model: Any, z: np.ndarray, X: Any, place: np.ndarray | None) -> np.ndarray:
    """The linear predictor at which a class or a count of a task never seen has its mean over all levels."""
    n_tasks, loss = len(model.tasks_), model._loss
    if place is None or "levels_" not in vars(model) or model.unknown_task != "common" or loss.on_residuals:
        return z
    new = np.flatnonzero(place >= n_tasks)
    if not len(new):
        return z
    spread = np.sqrt(expected_levels(model, X, place)[1])[place[new] - n_tasks]
    x, weight = np.polynomial.hermite_e.hermegauss(NODES)
    mean = loss.mean(z[new, None] + spread[:, None] * x) @ (weight / weight.sum())
    z = z.copy()
    z[new] = np.log(mean) - np.log1p(-mean) if loss.has_classes else loss.link(mean)
    return z


def _means_of_new(X: Any, place: np.ndarray, n_tasks: int, weights: np.ndarray | None) -> np.ndarray:
    """Means of the columns over the rows of each task never seen."""
    rows = np.flatnonzero(place >= n_tasks)
    new, weight = place[rows] - n_tasks, np.ones(len(rows)) if weights is None else weights[rows]
    sizes = np.bincount(new, weight)
    pick = sparse.csr_array((weight / sizes[new], (new, rows)), shape=(len(sizes), X.shape[0]))
    means = pick @ X
    return means.toarray() if sparse.issparse(means) else np.asarray(means)


def error_of_new_tasks(model: Any, X: Any, place: np.ndarray, share: float) -> np.ndarray:
    """Half the width, for rows of tasks never seen, of what their level and slopes may add to a prediction.

    It is a quantile of Student's t, as the spread of the levels is told by the tasks: one degree of freedom
    for each but one.
    """
    n_tasks, reference = len(model.tasks_), model._learned_levels()["reference"]
    rows = np.flatnonzero(place >= n_tasks)
    far, wide = X[rows], join_curves(model)
    far = far.toarray() if sparse.issparse(far) else np.asarray(far, dtype=float)
    if wide is not model:
        far = model.curves_.basis.widened(far)
    apart = wide.coef_ - wide._common_slopes()
    scatter = np.sum(((far - reference) @ apart.T) ** 2, axis=1) / max(n_tasks - 1, 1)
    variance = expected_levels(model, X, place)[1][place[rows] - n_tasks]
    return student.ppf(0.5 + 0.5 * share, max(n_tasks - 1, 1)) * np.sqrt(variance + scatter)
