"""The architecture page: its examples do what it says, and what it names exists."""

import gc
import io
import re
import runpy
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import GammaRegressor

import architecture.coefficients
import mmtfl
from architecture.elastic_rows import ElasticRows
from architecture.gamma_loss import Gamma
from architecture.intercept_display import InterceptDisplay
from architecture.process_engine import ProcessEngine
from architecture.waves_dataset import ENTRY, make_waves
from mmtfl import MMTFLRegressor, MMTFLRegressorCV
from mmtfl.cli import main as cli
from mmtfl.datasets import simulate
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Logistic
from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.problem import Problem
from mmtfl.solvers import solve
from mmtfl.solvers.path import alpha_max
from oracles import conic_loss, make_problem, minimum
from test_rooms import ENGINE_USERS, ORDER

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "tests" / "architecture").glob("*.py"))
ALPHA = 0.3


def problem_of(data, loss):
    return Problem(Design(data.tasks), loss)


# -- the page ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_page_shows_every_example_as_it_is_run(path):
    assert f"```python\n{path.read_text(encoding='utf-8')}```" in PAGE


def test_files_and_folders_the_page_names_exist():
    named = set(re.findall(r"`((?:src/mmtfl/|tests/|docs/|[a-z_]+/)[\w./]*)`", PAGE))
    assert len(named) > 30
    missing = [
        name for name in named if not any((ROOT / base / name).exists() for base in ("", "src/mmtfl", "src"))
    ]
    assert missing == []


def test_the_picture_has_the_rooms_in_their_order_and_is_as_drawn():
    drawing = runpy.run_path(str(ROOT / "examples" / "rooms.py"))
    rooms = [name for _, floor in drawing["FLOORS"] for name, _ in floor]
    assert rooms[::-1] == ORDER
    assert ENGINE_USERS[0] == drawing["ENGINE_USERS"]
    assert (ROOT / "docs" / "images" / "rooms.svg").read_text(encoding="utf-8") == drawing["draw"]()


def test_the_page_says_the_order_of_the_rooms_and_nothing_calls_the_laboratory():
    sentence = re.search(r"from the bottom up:\s(.*?)\.\n", PAGE, re.DOTALL)[1]
    assert re.findall(r"`(\w+)/`", sentence) == ORDER
    source = ROOT / "src" / "mmtfl"
    assert not [path for path in source.rglob("*.py") if "mmtfl_lab" in path.read_text(encoding="utf-8")]


def first_visits(call):
    """(file, function) of ours in the order in which a call first reaches them."""
    source, seen = str(ROOT / "src" / "mmtfl"), {}

    def look(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(source):
            file = Path(frame.f_code.co_filename).relative_to(source).as_posix()
            seen.setdefault((file, frame.f_code.co_qualname), len(seen))

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(seen)


def way(name):
    """The (file, function) pairs of a table on the page."""
    table = PAGE.split(f"<!-- {name} -->")[1].strip().split("\n\n")[0]
    return re.findall(r"^\| \d+ \| `(.*?)` \| `(.*?)` \|", table, re.MULTILINE)


def fit_waves(folder):
    data = make_waves(random_state=0)
    MMTFLRegressor(2, 2, 0.1).fit(data.X, data.y, task=data.task)


def cv_waves(folder):
    simulate.as_table(make_waves(random_state=0))[0].to_csv(folder / "table.csv", index=False)
    words = ["--task", "task", "--target", "y", "--pk", "2,2", "--alphas", "5", "--folds", "2", "--quiet"]
    assert cli.main(["cv", str(folder / "table.csv"), *words, "-o", str(folder / "model.mmtfl")]) == 0


@pytest.mark.parametrize(("name", "call"), [("fit", fit_waves), ("cv", cv_waves)])
def test_a_row_goes_the_way_the_page_says(name, call, tmp_path):
    steps = way(name)
    assert len(steps) > 10
    visits = first_visits(lambda: call(tmp_path))
    known = list(dict.fromkeys(steps))  # a step that comes again is found at its first visit
    assert [step for step in known if step not in visits] == []
    assert sorted(known, key=visits.index) == known


# -- a loss --------------------------------------------------------------------------------------------------


def amounts():
    """Tasks with positive targets, in exp(normal)."""
    data = make_problem(3)
    return replace(data, y=tuple(np.exp(0.5 * y) for y in data.y))


@pytest.mark.parametrize("solver", ["block", "alternating"])
def test_the_new_loss_is_minimised(solver, alpha=0.15):
    data = amounts()
    found = solve(problem_of(data, Gamma()), make_penalty(2, 2, alpha), solver=solver, tol=1e-9)
    assert found.converged and found.dual_gap <= 1e-8 * found.objective
    A, b = cp.Variable((data.n_features, data.n_tasks)), cp.Variable(data.n_tasks)
    loss = 0.0
    for t, (X, y, w) in enumerate(zip(data.X, data.y, data.row_weights, strict=True)):
        z = X @ A[:, t] + b[t]
        loss += (w * y) @ cp.exp(-z) + w @ z - w @ (np.log(y) + 1.0)
    least = minimum(loss + alpha * cp.sum(cp.norm(A, 2, axis=1)))
    assert_allclose(found.objective, least, rtol=1e-6)
    assert 0 < found.A.any(axis=1).sum() < data.n_features


def test_the_file_of_a_new_loss_makes_it_one_of_the_estimators(tmp_path, alpha=0.05):
    X, y, task = amounts().tasks.to_rows()
    one = task == 2
    ours = MMTFLRegressor(2, np.inf, alpha, loss="gamma", tol=1e-10).fit(X[one], y[one])
    theirs = GammaRegressor(alpha=2.0 * alpha, tol=1e-12, solver="newton-cholesky").fit(X[one], y[one])
    assert_allclose(ours.coef_[0], theirs.coef_, atol=1e-8)
    assert_allclose(ours.score(X[one], y[one]), theirs.score(X[one], y[one]), atol=1e-10)
    assert_allclose(ours.predict(X[one]), theirs.predict(X[one]), rtol=1e-8)
    search = MMTFLRegressorCV(loss={0: "gamma", 1: "huber", 2: "gamma"}, alphas=5, cv=3).fit(X, y, task=task)
    assert search.heldout_scores_["loss"].tolist() == ["gamma", "huber", "gamma"]
    search.save(tmp_path / "model")
    assert_array_equal(mmtfl.load(tmp_path / "model").predict(X, task=task), search.predict(X, task=task))
    with pytest.raises(
        ValueError, match="Task 1 has the target -1 in its row 2, but the gamma loss needs amo"
    ):
        MMTFLRegressor(loss="gamma").fit(X, np.where(np.arange(len(y)) == 15, -1.0, y), task=task)


# -- a penalty -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["block", "alternating"])
@pytest.mark.parametrize("ridge", [0.5, 3.0])
def test_the_new_penalty_is_minimised(solver, ridge):
    data = make_problem(1)
    found = data.solve(ElasticRows(2, ALPHA, ridge), solver=solver, tol=1e-9)
    assert found.converged and found.dual_gap <= 1e-8 * data.ours().null_value
    A, b = cp.Variable((data.n_features, data.n_tasks)), cp.Variable(data.n_tasks)
    rows = cp.sum(cp.norm(A, 2, axis=1)) + 0.5 * ridge * cp.sum_squares(A)
    assert_allclose(found.objective, minimum(conic_loss(data, A, b) + ALPHA * rows), rtol=1e-6)
    assert 0 < found.A.any(axis=1).sum() < data.n_features


def test_the_new_penalty_serves_every_loss_path_and_unit():
    data = make_problem(2, loss="logistic", sizes=(30, 25))
    problem = problem_of(data, Logistic())
    top = alpha_max(problem, ElasticRows(2, 1.0, 0.5))
    assert not solve(problem, ElasticRows(2, 1.001 * top, 0.5)).A.any()
    assert solve(problem, ElasticRows(2, 0.999 * top, 0.5)).A.any()
    # columns so large that the solver works in other units: every row then has numbers of its own
    huge = Problem(Design(data.tasks, column_scale=np.full(data.n_features, 1e-120)), Logistic())
    penalty = ElasticRows(2, 0.2 * top, 0.5)
    found = solve(huge, penalty.rescaled(np.full(data.n_features, 1e120)), tol=1e-9)
    assert_allclose(found.A * 1e120, solve(problem, penalty, tol=1e-9).A, atol=1e-6)


# -- an engine -----------------------------------------------------------------------------------------------


def test_the_new_engine_gives_the_bits_of_this_process():
    data = make_problem(3, sizes=(14, 9, 21, 30, 12))
    X, y, task = data.tasks.to_rows()
    options = {"p": 2, "k": 1, "alpha": 0.1, "solver": "alternating"}
    here = MMTFLRegressor(**options).fit(X, y, task=task)
    with ProcessEngine(2) as engine:
        assert engine.map(pow, engine.place(int, ["2", "3", "4"]), [3, 2, 1]) == [8, 9, 4]
        there = MMTFLRegressor(**options, engine=engine).fit(X, y, task=task)
        gc.collect()
        modules = engine.place(import_module, ["architecture.process_engine"] * 2)
        kept = engine.map(getattr, modules, ["_KEPT"] * 2, keep=True)
        assert engine.map(len, kept) == [2, 2]  # of the fit nothing is left: these are the two just made
    assert here.coef_.any()
    for name in ("coef_", "intercept_", "history_"):
        assert_array_equal(getattr(there, name), getattr(here, name))


# -- a dataset, a plot, a command ----------------------------------------------------------------------------


def test_the_new_dataset_is_written_and_its_truth_is_found(monkeypatch, tmp_path):
    monkeypatch.setitem(simulate.CATALOGUE, ENTRY.name, ENTRY)
    path = tmp_path / "waves.csv"
    assert cli.main(["datasets", "waves", "--seed", "3", "--noise", "0.01", "-o", str(path), "--quiet"]) == 0
    frame, data = pd.read_csv(path), make_waves(noise=0.01, random_state=3)
    assert frame["task"].unique().tolist() == data.task_names
    model = MMTFLRegressor(2, 2, 1e-3).fit(frame[data.feature_names], frame["y"], task=frame["task"])
    order = [model.tasks_.tolist().index(name) for name in data.task_names]
    assert_allclose(model.coef_[order], data.coef, atol=0.02)


@pytest.fixture(scope="module")
def model():
    data = make_waves(random_state=0)
    y = data.y + np.array([5.0, -1.0, 2.0])[data.task]
    return MMTFLRegressor(2, 2, 0.1).fit(data.X, y, task=np.array(data.task_names)[data.task])


def test_the_new_plot_shows_the_intercepts(model):
    display = InterceptDisplay.from_estimator(model)
    names = [label.get_text() for label in display.ax_.get_yticklabels()]
    assert names == ["north", "south", "west"]
    shown = dict(zip(names, [bar.get_width() for bar in display.bars_], strict=True))
    assert shown == dict(zip(model.tasks_.tolist(), model.intercept_.tolist(), strict=True))
    assert_allclose(display.mean_.get_xdata(), model.intercept_.mean())


def test_the_new_command_writes_the_coefficients(model, monkeypatch, tmp_path, capsys):
    known = "Write the coefficients of a model.", "MODEL [-o TABLE]"
    monkeypatch.setitem(cli.COMMANDS, "coefficients", known)
    monkeypatch.setitem(sys.modules, "mmtfl.cli.coefficients", architecture.coefficients)
    model.save(tmp_path / "waves.mmtfl")
    assert cli.main(["coefficients", str(tmp_path / "waves.mmtfl")]) == 0
    frame = pd.read_csv(io.StringIO(capsys.readouterr().out))
    table = frame.pivot(index="task", columns="feature", values="coefficient")
    table = table.reindex(index=model.tasks_, columns=[f"x{j}" for j in range(10)]).fillna(0.0)
    assert 0 < len(frame) < model.coef_.size
    assert_allclose(table.to_numpy(), model.coef_, rtol=1e-6)
