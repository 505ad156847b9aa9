"""What work costs, done in several ways: searches, predictions, wide tables, first fits and imports."""

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import mmtfl
from mmtfl.errors import install_hint
from mmtfl_lab.bench.comparison import timed
from mmtfl_lab.bench.judged_problems import RaggedTasks, largest_alpha, make_ragged, relative_gap
from mmtfl_lab.bench.libraries import block_columns

Clock = Callable[[], float]
_FOLDS = 5
_SECONDS = "s of the processor"


@dataclass(frozen=True)
class Way:
    """One way to do the work: what it costs, or None and the reason in `note`."""

    name: str
    value: float | None
    note: str = ""


@dataclass(frozen=True)
class Cost:
    """One piece of work in several ways, ours first."""

    key: str
    title: str
    unit: str
    ways: list[Way]
    below: str = ""

    def value(self, name: str) -> float | None:
        """The cost of a way, if it was measured."""
        return next((way.value for way in self.ways if way.name == name), None)

    def ratio(self, name: str) -> float | None:
        """The cost of a way over that of the first."""
        first, found = self.ways[0].value, self.value(name)
        return found / first if first and found is not None else None


def _spent(call: Callable[[], Any], clock: Clock = time.process_time, repeats: int = 2) -> float:
    """The least of a few runs, by default in seconds of the processor."""
    best = float("inf")
    for _ in range(repeats):
        begin = clock()
        call()
        best = min(best, clock() - begin)
    return best


# -- searches ------------------------------------------------------------------------------------------------


def searches(*, n_samples: int, alphas: int) -> Iterator[Cost]:
    """Searches on the paper's D1: one member, single tasks, and the default one on one and two threads."""
    table = mmtfl.datasets.make_d1(n_samples=n_samples, random_state=0)
    sizes = f"T = {len(np.unique(table.task))}, n_t = {n_samples}, d = {table.X.shape[1]}"
    shape = f"D1: {sizes}; {alphas} alphas"

    def search(model: Any) -> Callable[[], Any]:
        return lambda: model.fit(table.X, table.y, task=table.task)

    with warnings.catch_warnings(action="ignore"):
        one = mmtfl.MMTFLRegressorCV((2, 2), poolings=(0,), alphas=alphas, cv=_FOLDS)
        ways = [Way("mmtfl, (2,2)", _spent(search(one))), _adelie(table, alphas)]
        yield Cost("search (2,2)", f"Search of (2,2); {shape}, {_FOLDS} folds", _SECONDS, ways)
        single = mmtfl.SingleTaskRegressorCV(1, per_task=True, alphas=alphas, cv=_FOLDS)
        ways = [Way("mmtfl, single tasks", _spent(search(single)))]
        ways += [_lasso_cv(table, alphas), _glmnet(table, alphas)]
        yield Cost("single tasks", f"A lasso per task; {shape}, {_FOLDS} folds", _SECONDS, ways)
        clock = [
            Way(name, _spent(search(mmtfl.MMTFLRegressorCV(alphas=alphas, n_jobs=n)), time.perf_counter))
            for name, n in (("one thread", 1), ("two threads", 2))
        ]
        yield Cost("default search", f"The default search; {shape}", "s on the clock", clock)


def _by_task(table: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for label in np.unique(table.task):
        yield table.X[table.task == label], table.y[table.task == label]


def _lasso_cv(table: Any, alphas: int) -> Way:
    from sklearn.linear_model import LassoCV

    def fit() -> None:
        for X, y in _by_task(table):
            LassoCV(alphas=alphas, cv=_FOLDS).fit(X, y)

    return Way("scikit-learn, LassoCV per task", _spent(fit))


def _adelie(table: Any, alphas: int) -> Way:
    """`cv_grpnet` of the block design, centred by hand: it has no intercept per task."""
    name = "adelie, cv_grpnet"
    try:
        adelie: Any = import_module("adelie")
    except Exception as error:  # a library that does not fit the others installed fails in its own way
        return Way(name, None, f"skipped: {type(error).__name__}; {install_hint('bench')}")
    parts = [(X - X.mean(axis=0), y - y.mean()) for X, y in _by_task(table)]
    task = np.repeat(np.arange(len(parts)), [len(y) for _, y in parts])
    data = RaggedTasks(np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts]), task)

    def fit() -> None:
        adelie.cv_grpnet(
            X=np.asfortranarray(block_columns(data).toarray()),
            glm=adelie.glm.gaussian(data.y),
            groups=np.arange(data.X.shape[1]) * data.n_tasks,
            penalty=np.ones(data.X.shape[1]),
            n_folds=_FOLDS,
            lmda_path_size=alphas,
            intercept=False,
            n_threads=1,
            progress_bar=False,
        )

    return Way(name, _spent(fit))


_R_CODE = """
suppressMessages(library(glmnet))
x <- as.matrix(read.csv("{folder}/x.csv", header = FALSE))
y <- scan("{folder}/y.csv", quiet = TRUE)
task <- scan("{folder}/task.csv", quiet = TRUE)
fit <- function() for (t in unique(task))
  cv.glmnet(x[task == t, ], y[task == t], nfolds = {folds}, nlambda = {alphas})
cat(min(system.time(fit())[["user.self"]], system.time(fit())[["user.self"]]))
"""


def _glmnet(table: Any, alphas: int) -> Way:
    """R's glmnet, timed inside R."""
    name = "R's glmnet, cv.glmnet per task"
    if shutil.which("Rscript") is None:
        return Way(name, None, "skipped: R is not installed (Debian: r-cran-glmnet)")
    with tempfile.TemporaryDirectory() as folder:
        task = np.unique(table.task, return_inverse=True)[1]
        for part, values in (("x", table.X), ("y", table.y), ("task", task)):
            np.savetxt(Path(folder, f"{part}.csv"), values, delimiter=",")
        code = _R_CODE.format(folder=folder, folds=_FOLDS, alphas=alphas)
        done = subprocess.run(["Rscript", "-e", code], capture_output=True, text=True, check=False)
    if done.returncode:
        return Way(name, None, f"skipped: {(done.stderr.strip().splitlines() or ['R failed'])[-1]}")
    return Way(name, float(done.stdout))


# -- predictions ---------------------------------------------------------------------------------------------


def predict(*, n_rows: int, n_features: int, n_tasks: int) -> Cost:
    """Predictions of many rows, whose tasks are mixed, beside one linear model for all of them."""
    from sklearn.linear_model import LinearRegression

    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(n_rows, n_features)), rng.integers(0, n_tasks, n_rows)
    few = slice(0, 100 * n_tasks)
    y = X[few, 0] + rng.normal(size=100 * n_tasks)
    ours = mmtfl.MMTFLRegressor(alpha=0.1).fit(X[few], y, task=task[few])
    theirs = LinearRegression().fit(X[few], y)
    ways = [
        Way("mmtfl, predict(X, task)", _spent(lambda: ours.predict(X, task=task), repeats=5)),
        Way("scikit-learn, LinearRegression", _spent(lambda: theirs.predict(X), repeats=5)),
    ]
    title = f"Predict {n_rows:,} rows of {n_features} features, {n_tasks} tasks"
    return Cost("predict", title, _SECONDS, ways)


# -- memory --------------------------------------------------------------------------------------------------

_STATUS = Path("/proc/self/status")
_MEMORY = """
import warnings
import numpy as np
from scipy import sparse
from mmtfl import MMTFLRegressor
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
n, d, n_entries = {n_rows}, {n_features}, {n_entries}
place = rng.integers(0, n, n_entries), rng.integers(0, d, n_entries)
X = sparse.csr_array((rng.normal(size=n_entries), place), shape=(n, d))
y, task = X[:, :50].sum(axis=1) + 0.1 * rng.normal(size=n), np.arange(n) % {n_tasks}
model, small = MMTFLRegressor(2, {k}, alpha=0.1), X[:200, :30].toarray()
small += rng.normal(size=small.shape)
model.fit(sparse.csr_array(small), y[: len(small)], task=task[: len(small)])  # compiles, or loads the code
def peak():  # getrusage would give that of the process that started this one, where it is larger
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024
before = peak()
model.set_params(alpha=0.002).fit(X, y, task=task)
print(peak() - before)
"""


def memory(*, n_rows: int, n_features: int, n_tasks: int, n_entries: int) -> Cost:
    """Peak memory of a fit of a wide sparse table above that of a small fit, in processes of their own."""
    numbers = {"n_rows": n_rows, "n_features": n_features, "n_tasks": n_tasks, "n_entries": n_entries}
    codes = {f"(2,{k})": _MEMORY.format(**numbers, k=k) for k in (2, 1)}
    if _STATUS.exists():
        ways = [Way(name, float(run_apart(code, OMP_NUM_THREADS="1"))) for name, code in codes.items()]
    else:
        ways = [Way(name, None, f"skipped: this system has no {_STATUS}") for name in codes]
    title = f"Memory of a sparse fit: {n_features:,} features, {n_entries:,} entries, {n_tasks} tasks"
    return Cost("memory", title, "MB above a small fit", ways)


# -- a search over folds, strengths and members --------------------------------------------------------------

MEMBERS = ((2, 2), (1, 1), (2, 1), (1, 2))
_PATH_TOL = 1e-4  # the tolerance of the search's own paths


def search_cost(*, n_samples: int, alphas: int, every: int) -> Cost:
    """The search on D2, its paths one by one, and cold paths, of which every `every`-th strength is timed.

    The search has everything included: grids, folds, scores, the final path and fit. The paths are those of
    every fold and member on the grids that the search found; cold ones fit every strength from zero.
    """
    table = mmtfl.datasets.make_d2(n_samples=n_samples, random_state=0)
    folds = list(mmtfl.model_selection.TaskKFold(_FOLDS, random_state=0).split(table.X, table.y, table.task))
    with warnings.catch_warnings(action="ignore"):
        model = mmtfl.MMTFLRegressorCV(MEMBERS, poolings=(0,), alphas=alphas, cv=folds, search="full")
        search, _ = timed(lambda: model.fit(table.X, table.y, task=table.task))
        grids = {(p, k): _grid(model.cv_results_, p, k) for p, k in MEMBERS}
        separate, _ = timed(lambda: _each(_path, table, folds, grids))
        chosen = {pk: grid[every // 2 :: every] for pk, grid in grids.items()}
        few, _ = timed(lambda: _each(_fits, table, folds, chosen))
    share = len(chosen[MEMBERS[0]]) / alphas
    title = f"D2: T = 20, n_t = {n_samples}, d = 100; {_FOLDS} folds x {alphas} alphas x {len(MEMBERS)} (p,k)"
    ways = [
        Way("MMTFLRegressorCV, everything included", search),
        Way("20 separate paths (mmtfl.path)", separate),
        Way("20 cold paths (every alpha from zero)", few / share),
    ]
    below = f"Cold paths: {100 * share:.0f} % of the alphas timed, evenly spaced; scaled up."
    return Cost("cv", f"Search; {title}", "s", ways, below)


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


def cold_starts(names: Iterable[str]) -> Iterator[Cost]:
    """The first fit of a process beside later ones."""
    for name in names:
        model, target = MODELS[name]
        code = _FITS.format(model=model, target=target)
        first, *others = json.loads(run_apart(code))
        ways = [Way("steady state", min(others)), Way("first fit of a process", first)]
        yield Cost(f"cold {name}", f"Cold start of {name}", "s", ways)


def import_times(repeats: int) -> Cost:
    """All names of mmtfl beside those of scikit-learn's linear models, alternated."""
    modules = ("mmtfl", "sklearn.linear_model")
    rounds = [[float(run_apart(_IMPORT.format(module=module))) for module in modules] for _ in range(repeats)]
    ways = [Way(module, min(seconds)) for module, *seconds in zip(modules, *rounds, strict=True)]
    return Cost("import", "Import in a fresh process", "s", ways)


def run_apart(code: str, **environment: str) -> str:
    """What a Python program prints in a process of its own."""
    command, env = [sys.executable, "-c", code], {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    if done.returncode:
        raise RuntimeError(f"A process of its own failed: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout


# -- how the time of a fit grows with rows, features, tasks and active rows ----------------------------------


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
        >>> from mmtfl_lab.bench.costs import Curve
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
    with warnings.catch_warnings(action="ignore"):
        spent = min(timed(lambda: model.fit(data.X, data.y, data.task))[0] for _ in range(repeats))
    gap = relative_gap(data, model.coef_.T, model.intercept_, alpha=alpha)
    return spent, int(np.count_nonzero(model.c_)), gap
