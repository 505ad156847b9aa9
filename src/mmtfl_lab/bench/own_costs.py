"""What mmtfl costs by itself: growth with the size of a problem, a search, and the first fit of a process."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

import mmtfl
from mmtfl_lab.bench.comparison import timed
from mmtfl_lab.bench.judged_problems import RaggedTasks, largest_alpha, make_ragged, relative_gap

# -- growth with rows, features, tasks and active rows -------------------------------------------------------

TOL = 1e-6
_SHARE = 0.1  # of alpha_max, where the number of active rows is not the question
_TRUE_SHARE = 0.03  # of the features


@dataclass(frozen=True)
class Curve:
    """Seconds of a (2, 2) fit against one size, with the exponent of the fitted power law.

    Attributes
    ----------
    size : str
        What varies.
    title : str
        What does not.
    values, seconds : list of float
        The points.
    gap : float
        The largest relative duality gap among the fits.
    """

    size: str
    title: str
    values: list[float]
    seconds: list[float]
    gap: float

    @property
    def exponent(self) -> float:
        """Slope of log seconds against log size, by least squares.

        Examples
        --------
        >>> from mmtfl_lab.bench.own_costs import Curve
        >>> round(Curve("d", "", [1.0, 2.0, 4.0], [3.0, 12.0, 48.0], 0.0).exponent, 6)
        2.0
        """
        return float(np.polyfit(np.log(self.values), np.log(self.seconds), 1)[0])


def growth_curves(sizes: dict, repeats: int) -> Iterator[Curve]:
    """A curve for each of n, d, T and the number of active rows, and the step in T of the last comparison."""
    base, each = sizes["base"], sizes["each"]
    for size in ("n", "d", "T"):
        fixed = {name: value for name, value in base.items() if name != size}
        fits = ((v, *_fit(_tasks(**{**base, size: v}), _SHARE, repeats)) for v in sizes[size])
        yield _curve(size, _title(fixed, _SHARE), fits)
    table = _tasks(**base)
    found = [_fit(table, share, repeats) for share in sizes["shares"]]
    yield _curve("active rows", _title(base), ((kept, seconds, kept, gap) for seconds, kept, gap in found))
    del table
    many = ((T, *_fit(_tasks(T=T, **each), _SHARE, repeats)) for T in sizes["tasks"])
    yield _curve("many T", _title(each, _SHARE), many)


def _title(fixed: dict[str, int], share: float | None = None) -> str:
    sizes = ", ".join(f"{name} = {value}" for name, value in fixed.items())
    return sizes if share is None else f"{sizes}, {share:g} of alpha_max"


def _tasks(*, n: int, d: int, T: int) -> RaggedTasks:
    gc.collect()  # the largest tables do not fit beside each other on a small machine
    return make_ragged(n_tasks=T, least=n, most=n, n_features=d, n_true=max(2, int(_TRUE_SHARE * d)))


def _curve(size: str, title: str, fits: Iterable[tuple[float, float, int, float]]) -> Curve:
    """The curve of fits as (value, seconds, rows kept, gap)."""
    values, seconds, _, gaps = zip(*fits, strict=True)
    return Curve(size, title, [float(value) for value in values], list(seconds), max(gaps))


def _fit(data: RaggedTasks, share: float, repeats: int) -> tuple[float, int, float]:
    """Least seconds of a fit, the rows kept, and the gap."""
    alpha = share * largest_alpha(data)
    model = mmtfl.MMTFLRegressor(2, 2, alpha, fit_intercept=False, tol=TOL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent = min(timed(lambda: model.fit(data.X, data.y, data.task))[0] for _ in range(repeats))
    gap = relative_gap(data, model.coef_.T, model.intercept_, alpha=alpha)
    return spent, int(np.count_nonzero(model.c_)), gap


# -- a search over folds, strengths and members --------------------------------------------------------------

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
        model = mmtfl.MMTFLRegressorCV(MEMBERS, poolings=(0,), alphas=alphas, cv=folds, search="full")
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


# -- the first fit, in processes of their own ----------------------------------------------------------------

_FITS = """
import json, time, warnings
import numpy as np
from mmtfl import MMTFLClassifier, MMTFLRegressor
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, task = rng.normal(size=(200, 30)), np.repeat(np.arange(4), 50)
y = X[:, 0] + rng.normal(size=200)
def seconds(model, y):
    begin = time.perf_counter()
    model.fit(X, y, task)
    return time.perf_counter() - begin
model = {model}
print(json.dumps([seconds(model, {target}) for _ in range(5)]))
"""
MODELS = {
    "squared (2,2)": ("MMTFLRegressor(2, 2, alpha=0.1)", "y"),
    "squared (2,1)": ("MMTFLRegressor(2, 1, alpha=0.1)", "y"),
    "squared (1,2)": ("MMTFLRegressor(1, 2, alpha=0.1)", "y"),
    "logistic (2,2)": ("MMTFLClassifier(2, 2, alpha=0.01)", "y > 0"),
}
_IMPORT = (
    "import time; start = time.perf_counter(); from {module} import *; print(time.perf_counter() - start)"
)


@dataclass(frozen=True)
class ColdStart:
    """Seconds of one model: the first fit ever, the first of a later process, and a fit after others."""

    model: str
    ever: float
    later: float
    steady: float


@dataclass(frozen=True)
class ImportTime:
    """The least seconds that an import takes in a fresh process."""

    module: str
    seconds: float


def cold_starts(names: Iterable[str]) -> list[ColdStart]:
    """The named models, each with a compiler cache of its own, empty at first."""
    found = []
    for name in names:
        model, target = MODELS[name]
        code = _FITS.format(model=model, target=target)
        with tempfile.TemporaryDirectory() as cache:
            first, again = (json.loads(run_apart(code, NUMBA_CACHE_DIR=cache)) for _ in range(2))
        found.append(ColdStart(name, first[0], again[0], min(first[1:] + again[1:])))
    return found


def import_times(repeats: int) -> list[ImportTime]:
    """All names of mmtfl beside those of scikit-learn's linear models, alternated."""
    modules = ("mmtfl", "sklearn.linear_model")
    best = dict.fromkeys(modules, float("inf"))
    for _ in range(repeats):
        for module in modules:
            best[module] = min(best[module], float(run_apart(_IMPORT.format(module=module))))
    return [ImportTime(module, seconds) for module, seconds in best.items()]


def run_apart(code: str, **environment: str) -> str:
    """What a Python program prints in a process of its own."""
    command, env = [sys.executable, "-c", code], {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise RuntimeError(f"A process of its own failed: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout
