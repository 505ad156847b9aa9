"""The other displays: data on the artists, limits, hostile names, and models for which they make no sense."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

import mmtfl
from mmtfl import (
    DirtyRegressor,
    MMTFLRegressor,
    MMTFLRegressorCV,
    SingleTaskRegressorCV,
    TwoStrengthCV,
)
from mmtfl.datasets import make_tasks
from mmtfl.plots import HistoryDisplay, PathDisplay, SearchDisplay, SharedPartDisplay, SharingMapDisplay
from mmtfl.plots.figures import shown
from mmtfl.plots.fit_displays import Curve
from models import MODELS, fitted
from report.fitted import HOSTILE, mixed, model_of


@pytest.fixture(scope="module")
def data():
    return make_tasks(n_tasks=4, n_samples=40, n_features=10, n_informative=3, noise=0.5, random_state=0)


@pytest.fixture(scope="module")
def search(data):
    model = MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=15, cv=3, poolings=(0,))
    return model.fit(data.X, data.y, task=data.task)


# -- the shared part -----------------------------------------------------------------------------------------


def test_points_are_c_against_the_number_of_tasks():
    A = mixed(40, 8)
    model = model_of(A)
    display = SharedPartDisplay.from_estimator(model)
    n_using = np.count_nonzero(A, axis=1)
    kinds = {"shared": n_using == 8, "partial": (n_using > 1) & (n_using < 8), "single": n_using == 1}
    for kind, wanted in kinds.items():
        x, y = np.asarray(display.points_[kind].get_offsets()).T
        assert_allclose(y, model.c_[wanted])
        assert np.all(np.abs(x - n_using[wanted]) <= 0.3)
    assert display.ax_.get_ylim()[0] == 0.0


@pytest.mark.parametrize(("n_features", "n_tasks"), [(5, 3), (5000, 3), (5000, 300)])
def test_names_of_the_largest_features_do_not_overlap(n_features, n_tasks):
    display = SharedPartDisplay.from_estimator(model_of(mixed(n_features, n_tasks)))
    display.figure_.canvas.draw()
    boxes = [label.get_window_extent() for label in display.labels_]
    assert boxes
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    largest = display.features[np.argmax(display.size)]
    assert display.labels_[0].get_text() == largest


# -- the path ------------------------------------------------------------------------------------------------


def test_lines_are_norms_of_coefficients_and_the_choice_is_marked(search):
    display = PathDisplay.from_estimator(search)
    path = search.path_
    sizes = np.array([np.linalg.norm(path.coef(i), axis=0) for i in range(len(path))])
    at = int(np.argmin(np.abs(path.alphas - search.alpha_)))
    largest = np.lexsort((-sizes.max(axis=0), -sizes[at]))[:8]
    for line, j in zip(display.lines_, largest, strict=True):
        assert_allclose(line.get_xdata(), path.alphas)
        assert_allclose(line.get_ydata(), sizes[:, j])
    assert display.ax_.get_xscale() == "log"
    kept = dict(zip(path.alphas, path.n_kept, strict=True))
    ticks = zip(display.kept_.get_xticks(), display.kept_.get_xticklabels(), strict=True)
    assert [int(text.get_text()) for _, text in ticks] == [kept[x] for x in display.kept_.get_xticks()]
    assert_allclose(display.ax_.lines[-1].get_xdata(), search.alpha_)
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == [f"x{j}" for j in largest]


def test_the_path_function_can_be_drawn_with_names_and_in_axes_of_a_figure(data):
    found = mmtfl.path(data.X, data.y, data.task, p=2, k=2, alphas=10)
    figure, axes = plt.subplots(1, 2, layout="constrained")
    display = PathDisplay.from_path(found, features=HOSTILE[:10], ax=axes[1])
    figure.canvas.draw()
    assert display.figure_ is figure
    names = {text.get_text() for text in display.ax_.get_legend().get_texts()}
    assert {"$x", "a_b$"} & names
    assert len(names) == 8
    with pytest.raises(ValueError, match="3 names were given for 10 features"):
        PathDisplay.from_path(found, features=["a", "b", "c"])


# -- the search ----------------------------------------------------------------------------------------------


def test_curves_are_the_table_of_scores_with_standard_errors(search):
    display = SearchDisplay.from_estimator(search, relative=False)
    table = pd.DataFrame(search.cv_results_)
    assert len(display.curves) == 2
    for curve, (p, k) in zip(display.curves, ((2, 2), (2, 1)), strict=True):
        rows = table[(table.p == p) & (table.k == k)]
        folds = rows[[name for name in table if name.startswith("split")]].to_numpy()
        assert_allclose(curve.mean, rows.mean_test_score)
        assert_allclose(curve.error, folds.std(axis=1, ddof=1) / np.sqrt(3))
    winner = display.curves[1 if search.best_k_ == 1 else 0]
    assert winner.strength[winner.chosen] == search.alpha_
    assert_allclose(display.marks_["chosen"].get_xdata(), search.alpha_)
    assert_allclose(display.marks_["chosen"].get_ydata(), search.best_score_)
    assert_allclose(display.lines_[0].get_ydata(), winner.mean)
    low, high = display.ax_.get_ylim()
    assert low < search.best_score_ < high


def test_the_one_standard_error_choice_leaves_the_best_as_an_open_mark(data):
    model = MMTFLRegressorCV(pk=(2, 2), alphas=30, cv=3, poolings=(0,), selection="one_se").fit(
        data.X, data.y, task=data.task
    )
    display = SearchDisplay.from_estimator(model)
    (curve,) = display.curves
    assert curve.chosen == curve.one_se < curve.best
    assert set(display.marks_) == {"best score", "chosen"}
    assert_allclose(display.marks_["best score"].get_xdata(), curve.strength[curve.best])


def test_a_fall_at_one_end_does_not_flatten_the_rest_and_what_is_not_finite_is_left_out():
    alphas = np.geomspace(1.0, 1e-3, 20)
    mean = -1.0 + 0.5 * np.exp(-(np.log(alphas / 0.1) ** 2))
    mean[-4:] = -1e6, -1e6, -np.inf, np.nan
    display = SearchDisplay([Curve("(2, 1)", alphas, mean, np.full(20, 0.01), 6)]).plot()
    display.figure_.canvas.draw()
    low, high = display.ax_.get_ylim()
    assert -3.0 < low < high < 0.0


# -- scales and letters --------------------------------------------------------------------------------------


def test_a_path_is_drawn_on_the_scale_of_the_penalty(data):
    """Columns in other units change nothing that is drawn once features are standardised."""
    units = np.geomspace(0.01, 100.0, data.X.shape[1])
    options = {"standardize": True, "scale_targets": True, "alphas": 10}
    plain = MMTFLRegressorCV(pk=(2, 2), cv=3, poolings=(0,), **options).fit(data.X, data.y, task=data.task)
    other = MMTFLRegressorCV(pk=(2, 2), cv=3, poolings=(0,), **options).fit(
        data.X * units, data.y, task=data.task
    )
    drawn, same = PathDisplay.from_estimator(plain), PathDisplay.from_estimator(other)
    assert_allclose(same.sizes, drawn.sizes, atol=1e-3 * drawn.sizes.max())
    assert drawn.scaled == "per s.d. of the feature, in s.d. of the target"
    assert drawn.scaled in drawn.ax_.get_ylabel()
    in_units = PathDisplay.from_path(mmtfl.path(data.X, data.y, data.task, alphas=5))
    assert in_units.scaled == "" and "s.d." not in in_units.ax_.get_ylabel()


# -- the history ---------------------------------------------------------------------------------------------


def test_the_line_is_the_distance_to_the_last_value():
    display = HistoryDisplay(np.array([3.0, 2.0, 1.5, 1.5])).plot()
    assert_allclose(display.line_.get_xydata(), [[1, 1.5], [2, 0.5]])
    assert display.ax_.get_yscale() == "log"


@pytest.mark.parametrize("history", [[2.0], [2.0, 2.0], [2.0 + 4e-16, 2.0]])
def test_nothing_to_descend_is_said(history):
    display = HistoryDisplay(np.array(history)).plot()
    display.figure_.canvas.draw()
    assert "flat: the first pass reached it" in display.ax_.get_title(loc="left")


# -- all models ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "name"), MODELS)
def test_every_model_is_drawn(kind, name):
    model = fitted(kind, name)
    for display in (
        SharingMapDisplay.from_estimator(model, scaled=True),
        SharedPartDisplay.from_estimator(model),
        HistoryDisplay.from_estimator(model),
    ):
        display.figure_.canvas.draw()
        assert display.ax_.get_xlabel() and display.ax_.get_ylabel()
        plt.close(display.figure_)


@pytest.mark.parametrize("Display", [SharingMapDisplay, SharedPartDisplay, HistoryDisplay, PathDisplay])
def test_foreign_and_unfitted_models_are_refused(Display):
    with pytest.raises(TypeError, match=r"Ridge is not a model of mmtfl: pass an MMTFL"):
        Display.from_estimator(Ridge())
    with pytest.raises(NotFittedError):
        Display.from_estimator(MMTFLRegressor())
    with pytest.raises(NotFittedError):
        Display.from_estimator(TwoStrengthCV(DirtyRegressor()))


def test_displays_that_make_no_sense_for_a_model_say_what_does(data):
    model = DirtyRegressor().fit(data.X, data.y, task=data.task)
    with pytest.raises(TypeError, match=r"DirtyRegressor has no path: fit MMTFLRegressorCV"):
        PathDisplay.from_estimator(model)
    with pytest.raises(TypeError, match=r"DirtyRegressor did not search: fit MMTFLRegressorCV"):
        SearchDisplay.from_estimator(model)
    alone = SingleTaskRegressorCV(alphas=5, cv=3, per_task=True).fit(data.X, data.y, task=data.task)
    with pytest.raises(TypeError, match=r"one path per task: draw one of them"):
        PathDisplay.from_estimator(alone)
    assert PathDisplay.from_path(alone.path_[0], alpha=alone.alpha_[0]).sizes.shape == (5, 10)


# -- looks ---------------------------------------------------------------------------------------------------


def test_long_names_keep_both_ends():
    name = "blood_pressure_systolic_morning_left_arm"
    assert len(shown(name)) == 24
    assert shown(name).startswith("blood_pressure_")
    assert shown(name).endswith("eft_arm")
    assert shown("a\n b\t") == "a b"
    assert shown("\ud800\x00") == "\N{REPLACEMENT CHARACTER}" * 2
