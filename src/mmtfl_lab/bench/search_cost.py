"""What a search over folds, strengths and members costs, against the same paths one by one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

import mmtfl
from mmtfl_lab.bench.timing import timed

MEMBERS = ((2, 2), (1, 1), (2, 1), (1, 2))
_FOLDS = 5
_PATH_TOL = 1e-4  # the tolerance of the search's own paths


@dataclass(frozen=True)
class SearchCost:
    """Seconds of the search, of its paths one by one, and of cold paths.

    Attributes
    ----------
    title : str
        The table searched.
    search : float
        ``MMTFLRegressorCV.fit``, everything included: grids, folds, scores, the final path and fit.
    separate : float
        ``mmtfl.path`` for every fold and member, on the grids that the search found.
    cold : float
        ``MMTFLRegressor.fit`` from zero for every fold, member and strength of those grids.
    timed_share : float
        Share of the cold fits that was timed; `cold` is their time over this share.
    """

    title: str
    search: float
    separate: float
    cold: float
    timed_share: float


def search_cost(*, n_samples: int, alphas: int, every: int) -> SearchCost:
    """Time the three on D2, one thread; cold fits at every `every`-th strength stand for the others."""
    table = mmtfl.datasets.make_d2(n_samples=n_samples, random_state=0)
    folds = list(mmtfl.model_selection.TaskKFold(_FOLDS, random_state=0).split(table.X, table.y, table.task))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mmtfl.MMTFLRegressorCV(MEMBERS, alphas=alphas, cv=folds)
        search, _ = timed(lambda: model.fit(table.X, table.y, task=table.task))
        grids = {(p, k): _grid(model.cv_results_, p, k) for p, k in MEMBERS}
        separate, _ = timed(lambda: _each(_path, table, folds, grids))
        chosen = {pk: grid[every // 2 :: every] for pk, grid in grids.items()}
        few, _ = timed(lambda: _each(_fits, table, folds, chosen))
    share = len(chosen[MEMBERS[0]]) / alphas
    title = f"D2: T = 20, n_t = {n_samples}, d = 100; {_FOLDS} folds x {alphas} alphas x {len(MEMBERS)} (p,k)"
    return SearchCost(title, search, separate, few / share, share)


def _grid(results: dict, p: float, k: float) -> np.ndarray:
    return np.asarray(results["alpha"])[(results["p"] == p) & (results["k"] == k)]


def _each(work, table, folds, grids: dict) -> None:
    for train, _ in folds:
        for (p, k), alphas in grids.items():
            work(table.X[train], table.y[train], table.task[train], p=p, k=k, alphas=alphas)


def _path(X, y, task, *, p: float, k: float, alphas: np.ndarray) -> None:
    mmtfl.path(X, y, task, p=p, k=k, alphas=alphas, tol=_PATH_TOL)


def _fits(X, y, task, *, p: float, k: float, alphas: np.ndarray) -> None:
    for alpha in alphas:
        mmtfl.MMTFLRegressor(p, k, alpha=float(alpha), tol=_PATH_TOL).fit(X, y, task)
