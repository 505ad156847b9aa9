"""`path`: the coefficients along a grid of strengths."""

import warnings
from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from mmtfl.engines.threads import one_blas_thread
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.search import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.model_selection.cross_validation import MemberPath, member_paths
from mmtfl.objective.losses import make_loss
from mmtfl.objective.problem import Problem
from mmtfl.solvers.path import Path, Paths, solve_path


def path(
    X: Any,
    y: Any,
    task: Any = None,
    *,
    p: float = 2,
    k: float | str = 1,
    alphas: int | np.ndarray = 100,
    loss: str | Mapping[Any, str] = "squared",
    delta: float = 1.35,
    sample_weight: Any = None,
    offset: Any = None,
    alpha_ratio: float | None = None,
    fit_intercept: bool = True,
    standardize: bool = False,
    scale_targets: bool = False,
    task_column: str | None = None,
    task_weight: Any = None,
    levels: str = "free",
    max_iter: int = 1000,
    tol: float = 1e-7,
    eps: float = 1e-2,
    pooling: float = 0.0,
    penalty_weight: Any = None,
    positive: Any = False,
    feature_groups: Any = None,
    absent_features: str = "error",
    categorical_features: str | None = None,
) -> Path:
    """Coefficients of one member of the family along a grid of strengths.

    Parameters
    ----------
    X, y, task, sample_weight, offset
        Data, as in ``MMTFLRegressor.fit``.
    p, k, fit_intercept, standardize, scale_targets, task_column, task_weight, max_iter, tol, eps, pooling
        As in ``MMTFLRegressor``.
    penalty_weight, positive, feature_groups, absent_features, categorical_features
        As in ``MMTFLRegressor``.
    alphas, alpha_ratio
        As in ``MMTFLRegressorCV``.
    levels
        As in ``MMTFLRegressor``. With "shrunk", levels of classes and counts have a prior that is found
        without slopes; those of numbers are free along a path.
    loss, delta
        As in ``MMTFLRegressor``; "logistic" is classification (then ``scale_targets`` must be False).

    Returns
    -------
    path : Path
        ``alphas`` (largest first), ``coef(i)`` of shape (n_tasks, n_features), ``intercepts``, ``n_kept``.

    Examples
    --------
    >>> from mmtfl import path
    >>> from mmtfl.datasets import make_tasks
    >>> data = make_tasks(n_tasks=3, n_samples=30, n_features=8, n_informative=2, noise=0.1, random_state=0)
    >>> found = path(data.X, data.y, data.task, p=2, k=2, alphas=5)
    >>> found.n_kept.tolist()
    [0, 2, 2, 7, 8]
    >>> found.coef(4).shape
    (3, 8)
    """
    prepared, problem, of_member = _prepare(**locals())
    with one_blas_thread():
        found = solve_path(problem, of_member.member, of_member.alphas, max_iter=max_iter, tol=tol)
    short = int(np.count_nonzero(~found.converged))
    if short:
        warnings.warn(
            f"path stopped short of tol={tol:g} at {short} of {len(found)} strengths. Raise max_iter (now "
            f"{max_iter}), loosen tol, or put the features on one scale with standardize=True.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found.scaled(prepared.column_scale, prepared.target_scale).without(prepared.tasks.absent)


def path_strengths(X: Any, y: Any, task: Any = None, **options: Any) -> np.ndarray:
    """The alphas of `path` with these arguments, largest first, without a fit at any of them."""
    arguments = signature(path).bind(X, y, task, **options)
    arguments.apply_defaults()
    return _prepare(**arguments.arguments)[2].alphas


def _prepare(
    X, y, task, sample_weight, offset, *, p, k, pooling, loss, delta, scale_targets,
    **options: Any,
) -> tuple[Prepared, Problem, MemberPath]:  # fmt: skip
    """The data of a path, the problem that they make, and the member with its alphas."""
    options |= {"pk": (p, k), "poolings": (pooling,)}
    if isinstance(loss, str):
        make_loss(loss, {"delta": delta})  # tells of names that are none, where "logistic" is one
    if loss != "logistic":
        model: Any = MMTFLRegressorCV(scale_targets=scale_targets, loss=loss, delta=delta, **options)
    elif scale_targets:
        raise ValueError("scale_targets=True does not go with loss='logistic': classes have no scale.")
    else:
        model = MMTFLClassifierCV(**options)
    model._check_parameters()
    prepared = model._with_prior(model._prepare(X, y, task, sample_weight, offset))
    with one_blas_thread():
        problem = prepared.problem()
        members = model._members(None, prepared.known)
        (of_member,) = member_paths(Paths(problem), members, model._alphas(), model.alpha_ratio)
    return prepared, problem, of_member
