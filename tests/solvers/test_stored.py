"""Fits of tasks that stay in files: the answer of those in memory, within the memory that was allowed."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier

from mmtfl import (
    CappedRegressor,
    DirtyClassifier,
    DirtyRegressor,
    MMTFLClassifier,
    MMTFLClassifierCV,
    MMTFLRegressor,
    SingleTaskClassifierCV,
    SingleTaskRegressorCV,
    Tasks,
    TwoStrengthCV,
)
from mmtfl.engines.threads import Streaming
from mmtfl.model_selection import TaskKFold
from mmtfl.objective.losses import Logistic, Squared
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers import solve as solve_problem
from mmtfl.solvers.placed import OpenTasks, PlacedDesign, plan
from oracles import frame_of, make_problem, solve

SIZES = (60, 7, 45, 90, 33)


@pytest.fixture(scope="module")
def frame():
    frame = frame_of(make_problem(3, sizes=SIZES, d=8).tasks)
    frame["class"] = np.where(frame.y > frame.y.median(), "yes", "no")
    return frame


@pytest.fixture(scope="module")
def stored(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tasks")
    frame.drop(columns="class").to_parquet(folder / "a.parquet", row_group_size=50)
    return Tasks.from_parquet(folder, task="task", target="y")


@pytest.fixture(scope="module")
def classes(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("classes")
    frame.drop(columns="y").to_parquet(folder / "a.parquet", row_group_size=50)
    return Tasks.from_parquet(folder, task="task", target="class")


def features(frame):
    return frame[[f"x{j}" for j in range(8)]]


# -- the same answer -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k"), [(2, 1), (1, 1), (2, 2)])
def test_classification_is_that_of_the_rows_in_memory(p, k, classes, frame):
    there = MMTFLClassifier(p, k, 0.03).fit(classes)
    here = MMTFLClassifier(p, k, 0.03, solver="alternating").fit(features(frame), frame["class"], frame.task)
    assert here.coef_.any() and there.classes_.tolist() == ["no", "yes"]
    assert_allclose(there.coef_, here.coef_, atol=1e-8)
    assert_array_equal(there.predict(features(frame), frame.task), here.predict(features(frame), frame.task))


@pytest.mark.parametrize("loss", [Squared(), Logistic()])
def test_parts_that_come_and_go_have_the_bits_of_the_whole(loss, stored, classes):
    data = stored if loss.is_quadratic else classes
    if not loss.is_quadratic:
        from mmtfl.estimators.inputs import with_two_classes

        data = with_two_classes(classes)
    penalty = make_penalty(1.5, 1, 0.1 if loss.is_quadratic else 0.03)
    found = [
        solve_problem(OpenTasks(data, loss, fit_intercept=True, engine=engine).problem(), penalty)
        for engine in (None, Streaming(1, 1), Streaming(3, 1), Streaming(5, 0))
    ]
    assert found[0].A.any()
    for other in found[1:]:
        assert_array_equal(other.A, found[0].A)
        assert_array_equal(other.history, found[0].history)
        assert other.violation == found[0].violation


@pytest.mark.parametrize(
    ("p", "k", "pooling"),
    [(2, 1, 0), (1, 1, 0), (2, 2, 0), (2, float("inf"), 0), (2, 2, 0.8), (2, float("inf"), 0.8)],
)
def test_without_the_finish_the_passes_go_on_and_are_judged_honestly(p, k, pooling, stored, monkeypatch):
    penalty = make_penalty(p, k, 0.2, pooling=pooling)
    problem = OpenTasks(stored, Squared(), fit_intercept=True).problem()
    finished = solve_problem(problem, penalty, max_iter=1000, tol=1e-7)
    monkeypatch.setattr(PlacedDesign, "can_gather", lambda self, n_columns: False)
    passes = solve_problem(problem, penalty, max_iter=3000, tol=1e-7)
    in_memory = stored.load()
    exact = solve(in_memory, Squared(), penalty, solver="alternating", start=passes.A, max_iter=1)
    assert_allclose(passes.objective, finished.objective, rtol=1e-4)
    # one look at all rows in memory finds the same objective, violation and gap
    assert_allclose(passes.objective, in_memory_value(in_memory, penalty, passes), rtol=1e-12)
    assert np.isfinite(passes.violation) and exact.objective <= passes.objective * (1 + 1e-9)
    if penalty.is_convex:
        assert passes.objective - finished.objective <= passes.dual_gap + 1e-12


def in_memory_value(tasks, penalty, solution):
    n = tasks.n_samples / tasks.n_tasks
    loss = sum(
        0.5 * np.sum((view.y - view.X @ a - b) ** 2) / n
        for view, a, b in zip(tasks, solution.A.T, solution.intercept, strict=True)
    )
    return loss + penalty.value(solution.A)


def test_a_warm_start_begins_where_the_last_fit_ended(stored):
    model = MMTFLRegressor(2, 1, 0.2, warm_start=True).fit(stored)
    first, coef = model.n_iter_, model.coef_.copy()
    model.fit(stored)
    assert model.n_iter_ < first
    assert_allclose(model.coef_, coef, atol=1e-6)


# -- what needs all rows loads them --------------------------------------------------------------------------


BOTH = TwoStrengthCV(CappedRegressor(), 3, 2)
LOADING = [
    MMTFLRegressor(2, 1, 0.2, solver="block"),
    MMTFLRegressor(np.inf, 1, 0.2, standardize=True),
    DirtyRegressor(0.2, 0.1, scale_targets=True),
    CappedRegressor(0.2, 0.5),
    SingleTaskRegressorCV(2, 4, 2, per_task=True),
    BOTH,
    DirtyClassifier(0.03, 0.02),
    MMTFLClassifierCV(((2, 2), (2, 1)), 4, 2),
    SingleTaskClassifierCV(1, 4, TaskKFold(2, random_state=3, stratify=True)),
]


@pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")  # one task has 7 rows
@pytest.mark.parametrize("model", LOADING, ids=lambda model: type(model).__name__)
def test_a_model_that_needs_all_rows_loads_them(model, stored, classes, frame):
    data, y = (classes, frame["class"]) if is_classifier(model) else (stored, frame.y)
    X = np.ascontiguousarray(features(frame))  # the layout of a loaded X: another has other last bits
    there, here = clone(model).fit(data), clone(model).fit(X, y, frame.task)
    assert here.coef_.any() and there.feature_names_in_.tolist() == list(features(frame).columns)
    for name in ("coef_", "intercept_", "tasks_", "task_sizes_"):
        assert_array_equal(getattr(there, name), getattr(here, name), err_msg=name)
    for name, column in vars(here).get("cv_results_", {}).items():
        assert_array_equal(there.cv_results_[name], column, err_msg=name)
    assert len(there.predict(features(frame), frame.task)) == len(frame)


@pytest.mark.parametrize("model", [MMTFLRegressor(np.inf), SingleTaskRegressorCV(), BOTH])
def test_rows_that_do_not_fit_are_told_before_they_are_read(model, stored):
    n_bytes = 8 * 9 * 4 * sum(SIZES)  # eight features and the target, four times over
    small = replace(stored, pieces=[], memory_limit=1_000_000)
    name = type(getattr(model, "estimator", model)).__name__
    needed = f"{name}, which needs all rows in memory, needs about {n_bytes / 1e6:.1f} MB, and memory_limit="
    with pytest.raises(MemoryError, match=rf"{needed}1\.0 MB leaves 0\.0 MB for data .* Raise memory_limit"):
        clone(model).fit(small)


# -- what cannot be done is told -----------------------------------------------------------------------------


def test_what_stored_tasks_cannot_do_is_told(stored, frame):
    with pytest.raises(ValueError, match="nothing else"):
        MMTFLRegressor().fit(stored, frame.y)
    with pytest.raises(ValueError, match="nothing else"):
        DirtyRegressor(task_column="task").fit(stored)
    for Model in (MMTFLClassifier, DirtyClassifier):
        with pytest.raises(ValueError, match="Only binary"):
            Model().fit(stored)
    problem = OpenTasks(stored, Squared(), fit_intercept=True).problem()
    with pytest.raises(ValueError, match="solver='block' needs all rows"):
        solve_problem(problem, make_penalty(2, 2, 0.1), solver="block")
    with pytest.raises(ValueError, match="p=inf"):
        solve_problem(problem, make_penalty(np.inf, 1, 0.1))


# -- memory --------------------------------------------------------------------------------------------------


class Sizes:
    """What `plan` asks of stored tasks."""

    def __init__(self, n_tasks, memory_limit):
        self.n_tasks, self.memory_limit, self.labels = n_tasks, memory_limit, np.arange(n_tasks)


@pytest.mark.parametrize("limit", [200, 400, 800, 1600, 100_000])
def test_planned_parts_fit_beside_each_other(limit):
    held = np.random.default_rng(0).uniform(1e6, 9e6, size=120)
    cuts, n_kept = plan(held, Sizes(120, limit * 1_000_000), lambda: 50_000_000)
    room = 0.6 * (limit - 150) * 1e6
    parts = np.add.reduceat(held, cuts[:-1])
    assert cuts[0] == 0 and cuts[-1] == 120 and n_kept <= len(parts)
    streamed = parts[n_kept:].max(initial=0.0)
    assert parts[:n_kept].sum() + streamed <= room * (1 + 1e-12)
    assert (n_kept == len(parts) == 1) == (held.sum() <= room)


FIT = r"""
import re, sys
import numpy as np
from mmtfl import MMTFLClassifier, MMTFLRegressor, Tasks
Model, target = {"squared": (MMTFLRegressor, "y"), "logistic": (MMTFLClassifier, "label")}[sys.argv[2]]
features = [f"x{j}" for j in range(40)]
stored = Tasks.from_parquet(sys.argv[1], task="task", target=target, features=features,
                            memory_limit=sys.argv[3])
model = Model(2, 1, 0.02, tol=1e-4).fit(stored)
# getrusage would tell the peak of the parent, from before this program was started in its place
peak = re.search(r"VmHWM:\s+(\d+) kB", open("/proc/self/status").read())[1]
print(1024 * int(peak), np.count_nonzero(model.c_))
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """24 tasks of 20 000 rows and 40 features: 154 MB of numbers."""
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    for t in range(24):
        X = rng.normal(size=(20_000, 40))
        y = X[:, :3] @ rng.normal(size=3) + rng.normal(size=len(X))
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(40)])
        frame = frame.assign(y=y, label=y > 0)
        (folder / f"task={t}").mkdir()
        frame.to_parquet(folder / f"task={t}" / "a.parquet", row_group_size=5000, compression=None)
    return folder


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="peak memory is told by Linux")
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_fit_stays_within_its_memory_limit(loss, large):
    """Peak memory of a process: the libraries take 260 MB, and the logistic fit without a limit 570 MB."""
    done = subprocess.run(
        [sys.executable, "-c", FIT, str(large), loss, "450MB"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    peak, n_kept = map(int, done.stdout.split())
    assert peak <= 450_000_000
    assert 3 <= n_kept < 40


@pytest.mark.parametrize("tiny", [0.0, 1e-17])
def test_a_class_without_weight_in_files_is_absent(tiny, tmp_path):
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(60, 2)), np.repeat(["a", "b"], 30)
    y = X[:, 0] + rng.normal(size=60) > 0
    weight = np.where((task == "b") & y, tiny, 1.0)
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(task=task, y=np.where(y, "yes", "no"), weight=weight)
    frame.to_parquet(tmp_path / "t.parquet")
    stored = Tasks.from_parquet(tmp_path / "t.parquet", task="task", target="y", weight="weight")
    with pytest.raises(ValueError, match=r"Task 'b' has no row of class 'yes' with weight"):
        MMTFLClassifier(alpha=0.02).fit(stored)
