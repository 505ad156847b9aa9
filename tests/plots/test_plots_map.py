"""The sharing map: what is drawn, in which order, and whether it holds at any size."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl import MMTFLRegressor, RobustRegressor
from mmtfl.datasets import make_tasks
from mmtfl.plots import SharedPartDisplay, SharingMapDisplay
from report.fitted import HOSTILE, mixed, model_of


def image_of(display):
    return np.ma.filled(display.image_.get_array(), 0.0)


def tick_texts(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


# -- what is drawn -------------------------------------------------------------------------------------------


def test_the_image_holds_the_coefficients_by_name():
    A = mixed(20, 5)
    display = SharingMapDisplay.from_estimator(model_of(A))
    rows = [int(name[1:]) for name in display.features]
    assert_array_equal(image_of(display), A[np.ix_(rows, display.tasks)])
    assert tick_texts(display.ax_.yaxis) == display.features.tolist()
    assert tick_texts(display.ax_.xaxis) == [str(label) for label in display.tasks]


def test_the_image_can_hold_what_tasks_have_beside_the_common_part():
    data = make_tasks(n_tasks=4, n_samples=40, n_features=6, n_informative=3, random_state=0)
    model = MMTFLRegressor(2, 2, 0.5, pooling=0.9).fit(data.X, data.y, task=data.task)
    display = SharingMapDisplay.from_estimator(model, order="given", beside_common=True)
    rows = np.flatnonzero(model.coef_.any(axis=0))
    assert_allclose(image_of(display), (model.coef_ - model.common_).T[rows])
    assert display.colorbar_.ax.get_ylabel() == "distance from the common part (white: zero)"
    display = SharingMapDisplay.from_estimator(model, scaled=True, order="given", beside_common=True)
    assert_allclose(image_of(display), ((model.coef_ - model.common_) * data.X.std(axis=0)).T[rows])
    with pytest.raises(ValueError, match="no common part"):
        SharingMapDisplay.from_estimator(model_of(mixed(20, 5)), beside_common=True)


def test_features_that_no_task_uses_are_left_out_and_counted():
    A = mixed(20, 5)
    unused = int(np.count_nonzero(~A.any(axis=1)))
    display = SharingMapDisplay.from_estimator(model_of(A))
    assert 0 < unused == 20 - len(display.features)
    assert f"not shown: {unused} that no task uses" in display.ax_.get_title(loc="left")


def test_exact_zeros_are_white_and_small_coefficients_are_not():
    A = np.array([[1.0, 1e-9], [0.0, -1.0]])
    display = SharingMapDisplay.from_estimator(model_of(A))
    colours = display.image_.cmap(display.image_.norm(display.image_.get_array()))
    white = np.all(colours[..., :3] == 1.0, axis=-1)
    assert_array_equal(white, image_of(display) == 0.0)
    assert white.any()


def test_limits_are_centred_and_an_outlier_does_not_fade_the_rest():
    rng = np.random.default_rng(0)
    A = rng.uniform(0.5, 1.0, size=(30, 10))
    A[0, 0] = 1e4
    display = SharingMapDisplay.from_estimator(model_of(A))
    assert display.image_.norm.vmin == -display.image_.norm.vmax
    assert 0.5 < display.limit_ <= 1.0
    assert display.colorbar_.extend == "both"


def test_negative_cells_carry_a_dash():
    A = np.array([[1.0, -1.0], [0.0, -2.0], [3.0, 0.0]])
    display = SharingMapDisplay.from_estimator(model_of(A))
    (dashes,) = display.ax_.collections
    drawn = {(int(y), int(x)) for x, y in dashes.get_offsets()}
    assert drawn == {(int(i), int(j)) for i, j in np.argwhere(image_of(display) < 0)}


def test_coefficients_scale_to_spreads_of_features_and_targets():
    data = make_tasks(n_tasks=3, n_samples=50, n_features=6, n_informative=3, random_state=0)
    X, y = data.X * np.array([1, 10, 100, 1, 1, 1]), np.where(data.task == 1, 1000.0, 1.0) * data.y
    spread = np.array([y[data.task == t].std() for t in range(3)])
    for own_scale, unit in ((False, np.ones(3)), (True, spread)):
        model = MMTFLRegressor(p=1, k=1, alpha=1e-3, scale_targets=own_scale).fit(X, y, task=data.task)
        display = SharingMapDisplay.from_estimator(model, scaled=True)
        rows = [int(name[1:]) for name in display.features]
        expected = (model.coef_ / unit[:, None] * X.std(axis=0)).T[np.ix_(rows, display.tasks)]
        assert_allclose(image_of(display), expected)
        title = display.ax_.get_title(loc="left")
        assert "per s.d. of the feature" in title and ("s.d. of the target" in title) == own_scale


# -- order ---------------------------------------------------------------------------------------------------


def test_a_staircase_comes_out_as_one():
    T = 12
    A = np.zeros((4 * (T - 2), T))
    for j in range(len(A)):
        A[j, j // 4 : j // 4 + 3] = 1.0
    rng = np.random.default_rng(1)
    shuffled = A[rng.permutation(len(A))][:, rng.permutation(T)]
    display = SharingMapDisplay.from_estimator(model_of(shuffled))
    first = np.argmax(image_of(display) != 0.0, axis=1)
    last = T - 1 - np.argmax(image_of(display)[:, ::-1] != 0.0, axis=1)
    assert np.all(last - first == 2)  # tasks of one step are side by side again
    assert np.all(np.diff(first) >= 0)


def test_the_order_is_of_the_model_and_not_of_its_columns_and_rows():
    A, rng = mixed(40, 9), np.random.default_rng(2)
    features = np.array([f"f{j:02d}" for j in range(40)])
    tasks = np.array([f"t{t}" for t in range(9)])
    one = SharingMapDisplay.from_estimator(model_of(A, features=features, tasks=tasks))
    j, t = rng.permutation(40), rng.permutation(9)
    other = SharingMapDisplay.from_estimator(model_of(A[j][:, t], features=features[j], tasks=tasks[t]))
    assert one.features.tolist() == other.features.tolist()
    assert one.tasks.tolist() == other.tasks.tolist()
    assert_array_equal(image_of(one), image_of(other))


def test_a_task_set_apart_comes_last_and_does_not_make_features_single():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(250, 10)), np.repeat(list("eabcd"), 50)
    y = np.where(task == "e", X[:, 2:].sum(axis=1), X[:, 0] - X[:, 1]) + 0.1 * rng.normal(size=250)
    model = RobustRegressor(alpha_shared=0.3, alpha_outlier=0.6).fit(X, y, task=task)
    display = SharingMapDisplay.from_estimator(model)
    assert display.tasks[-1] == "e"
    assert display.kind.tolist() == ["shared"] * 2 + ["apart"] * 8


# -- sizes and names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [5, 5000])
@pytest.mark.parametrize("n_tasks", [3, 300])
def test_maps_of_any_size_are_drawn_and_labels_do_not_overlap(n_features, n_tasks):
    model = model_of(mixed(n_features, n_tasks))
    display = SharingMapDisplay.from_estimator(model)
    display.figure_.canvas.draw()
    assert min(text.get_fontsize() for text in display.figure_.findobj(plt.Text) if text.get_text()) >= 8
    box = display.ax_.get_window_extent()
    n_rows, n_columns = image_of(display).shape
    assert n_rows <= box.height  # no cell falls between pixels
    assert n_columns <= box.width
    for axis, edge in ((display.ax_.xaxis, 0), (display.ax_.yaxis, 1)):
        ends = sorted(
            label.get_window_extent().get_points()[:, edge].tolist() for label in axis.get_ticklabels()
        )
        assert ends and all(end <= start for (_, end), (start, _) in pairwise(ends))


def test_every_used_feature_leaves_a_mark_when_cells_stand_for_several():
    A = np.zeros((5000, 4))
    A[:, 0] = 1.0  # all are used
    A[1234, 2] = -7.0
    display = SharingMapDisplay.from_estimator(model_of(A))
    assert len(image_of(display)) < 5000
    assert np.count_nonzero(image_of(display) == -7.0) == 1
    assert "each cell stands for" in display.ax_.get_title(loc="left")


@pytest.mark.parametrize("Display", [SharingMapDisplay, SharedPartDisplay])
def test_hostile_names_are_drawn_as_text(Display):
    A = 1.0 + np.abs(mixed(len(HOSTILE), 5))
    tasks = ["$t", "_a", "b" * 200, "مهمة", "<b>$"]
    display = Display.from_estimator(model_of(A, features=HOSTILE, tasks=tasks))
    display.figure_.canvas.draw()
    texts = [text for ax in display.figure_.axes for text in ax.findobj(plt.Text)]
    drawn = [text.get_text() for text in texts]
    if Display is SharingMapDisplay:
        assert {"$x", "a_b$", "_private", "<script>alert(1)…script>", "tab new line", "$t"} <= set(drawn)
    assert not any("b" * 30 in text or "n" * 30 in text for text in drawn)
    named = [text for text in texts if "$" in text.get_text() and "mathdefault" not in text.get_text()]
    assert named
    assert not any(text.get_parse_math() for text in named)
