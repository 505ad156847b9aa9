"""What people do all day: searches, predictions, and wide tables in little memory; each in several ways."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

import mmtfl
from mmtfl.errors import install_hint
from mmtfl_lab.bench.judged_problems import RaggedTasks
from mmtfl_lab.bench.libraries import block_columns
from mmtfl_lab.bench.own_costs import run_apart

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

    def ratio(self, name: str) -> float | None:
        """The cost of a way over that of the first."""
        found = next((way.value for way in self.ways if way.name == name), None)
        return None if found is None or not self.ways[0].value else found / self.ways[0].value


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

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
