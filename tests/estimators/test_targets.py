"""Every kind of target: huber and poisson, a loss per task, and offsets, by hand and against others."""

import cvxpy as cp
import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, PoissonRegressor
from sklearn.metrics import d2_tweedie_score, r2_score
from sklearn.model_selection import GridSearchCV

import mmtfl
from mmtfl import (
    CappedRegressor,
    DirtyRegressor,
    MMTFLClassifier,
    MMTFLRegressor,
    MMTFLRegressorCV,
    RobustRegressor,
    SingleTaskRegressorCV,
    TwoStrengthCV,
    path,
)
from mmtfl.model_selection import TaskKFold

LOSSES = {"count": "poisson", "death": "logistic", "stay": "squared"}
INF = np.inf
TRUTH = np.array([0.6, -0.5, 0.4, 0.0, 0.0, 0.0, 0.0, 0.0])


def drawn(kind, z, rng):
    if kind == "poisson":
        return rng.poisson(np.exp(z)).astype(float)
    if kind == "logistic":
        return (rng.random(len(z)) < expit(2.0 * z)).astype(float)
    return z + rng.normal(size=len(z))


def hospitals(n=60, seed=0, unit=1.0):
    """Three kinds of targets that depend on the same three features."""
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(3 * n, len(TRUTH))), np.repeat(list(LOSSES), n)
    y = np.concatenate([drawn(kind, X[task == t] @ TRUTH, rng) for t, kind in LOSSES.items()])
    y[task == "stay"] *= unit
    return X, y, task


def counts(n=50, seed=0, exposure=None):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(3 * n, len(TRUTH))), np.repeat([0, 1, 2], n)
    log_exposure = np.zeros(3 * n) if exposure is None else np.log(rng.uniform(*exposure, size=3 * n))
    y = rng.poisson(np.exp(0.3 + 0.2 * task + X @ TRUTH + log_exposure)).astype(float)
    return X, y, task, log_exposure


def parts(X, y, task):
    """X, y, 1/n of eq. (1) and label of every task."""
    labels = np.unique(task)
    return [(X[task == t], y[task == t], len(labels) / len(y), t) for t in labels]


def row_cost(kind, y, z, delta):
    """The loss of rows, in cvxpy."""
    if kind == "poisson":
        return cp.exp(z) - cp.multiply(y, z) + np.where(y > 0, y * np.log(np.maximum(y, 1.0)) - y, 0.0)
    if kind == "logistic":
        return cp.logistic(z) - cp.multiply(y, z)
    return 0.5 * (cp.square(y - z) if kind == "squared" else cp.huber(y - z, delta))


def slope(kind, y, z, delta=1.35):
    """Its derivative in z, by hand."""
    if kind == "poisson":
        return np.exp(z) - y
    if kind == "logistic":
        return expit(z) - y
    return np.clip(z - y, -delta, delta) if kind == "huber" else z - y


# -- huber and poisson ---------------------------------------------------------------------------------------


def test_huber_hardly_moves_with_targets_far_off_and_is_the_square_with_a_wide_delta():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 8))
    y = X @ TRUTH + 0.1 * rng.normal(size=100)
    spoilt = np.where(np.arange(100) % 20 == 0, y + 1e3, y)
    options = {"p": 2, "k": 2, "alpha": 1e-3}
    clean, far = (MMTFLRegressor(loss="huber", delta=0.3, **options).fit(X, t) for t in (y, spoilt))
    assert np.abs(clean.coef_ - far.coef_).max() < 0.1
    assert np.abs(MMTFLRegressor(**options).fit(X, spoilt).coef_ - clean.coef_).max() > 1.0
    wide, square = (
        MMTFLRegressor(tol=1e-10, **options, **more).fit(X, y)
        for more in ({"loss": "huber", "delta": 1e4}, {})
    )
    assert_allclose(wide.coef_, square.coef_, atol=1e-8)


@pytest.mark.parametrize("Model", [DirtyRegressor, CappedRegressor])
def test_the_other_models_have_losses_too(Model):
    X, y, task, _ = counts()
    model = Model(loss="poisson").fit(X, y, task=task)
    assert model.converged_ and 0.2 < model.score(X, y, task=task) < 1.0
    search = TwoStrengthCV(Model(loss="poisson"), strengths=3, cv=3).fit(X, y, task=task)
    assert (search.heldout_scores_["deviance_explained"] > 0.0).all()
    low, high = search.predict_interval(X, task=task, coverage=0.9).T
    assert 0.85 <= np.mean((low <= y) & (y <= high)) < 1.0
    assert np.all(low % 1.0 == 0.0) and (high - low).max() > (high - low).min()


# -- a loss per task -----------------------------------------------------------------------------------------


def balance(kind, y):
    """One over the root mean square of the derivatives at the best constant, by hand."""
    link = {"poisson": np.log, "logistic": lambda rate: np.log(rate / (1.0 - rate))}
    b = link.get(kind, float)(y.mean())
    return 1.0 / np.sqrt(np.mean(slope(kind, y, b) ** 2))


def test_mixed_losses_are_minimised_with_their_balance(alpha=0.3):
    X, y, task = hospitals(30, unit=1e3)
    model = MMTFLRegressor(2, 2, alpha, loss=LOSSES, tol=1e-9).fit(X, y, task=task)
    spread = y[task == "stay"].std()
    scaled = np.where(task == "stay", y / spread, y)
    A, b = cp.Variable((X.shape[1], 3)), cp.Variable(3)
    cost = 0.0
    for t, (X_t, y_t, w, label) in enumerate(parts(X, scaled, task)):
        factor = balance(LOSSES[label], y_t)
        cost += factor * w * cp.sum(row_cost(LOSSES[label], y_t, X_t @ A[:, t] + b[t], 1.35))
    least = cp.Problem(cp.Minimize(cost + alpha * cp.sum(cp.norm(A, 2, axis=1)))).solve(solver=cp.CLARABEL)
    assert 0 < model.c_.astype(bool).sum() < X.shape[1]
    assert_allclose(model.objective_, least, rtol=1e-6)
    assert_allclose(model.target_scale_, [1.0, 1.0, spread])
    assert_allclose(model.coef_ / model.target_scale_[:, None], A.value.T, atol=1e-4)
    assert 0.0 <= model.dual_gap_ <= 1e-6 * model.objective_


def test_predictions_and_scores_are_those_of_each_kind():
    X, y, task = hospitals(unit=100.0)
    model = MMTFLRegressor(2, 1, 0.05, loss=LOSSES).fit(X, y, task=task)
    z = {t: X @ model.coef_[i] + model.intercept_[i] for i, t in enumerate(model.tasks_.tolist())}
    predicted = model.predict(X, task=task)
    rows = {t: task == t for t in LOSSES}
    assert_allclose(predicted[rows["count"]], np.exp(z["count"][rows["count"]]))
    assert_allclose(predicted[rows["death"]], expit(z["death"][rows["death"]]))
    assert_allclose(predicted[rows["stay"]], z["stay"][rows["stay"]])
    d = rows["death"]
    assert_allclose(model.predict_proba(X[d], task=task[d])[:, 1], predicted[d])
    rate = y[d].mean()
    entropy = -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))
    likelihood = -np.mean(np.log(np.where(y[d] == 1.0, predicted[d], 1.0 - predicted[d])))
    c, s = rows["count"], rows["stay"]
    each = [
        d2_tweedie_score(y[c], predicted[c], power=1),
        1 - likelihood / entropy,
        r2_score(y[s], predicted[s]),
    ]
    assert_allclose(model.score(X, y, task=task), np.mean(each))
    with pytest.raises(ValueError, match="Task 'count', 'stay' has no classes: predict_proba is for rows of"):
        model.predict_proba(X, task=task)
    with pytest.raises(TypeError, match="the huber and the poisson loss alone"):
        model.predict_interval(X, task=task)
    assert not hasattr(MMTFLRegressor(), "predict_proba")
    model.set_params(unknown_task="mean")
    with pytest.raises(ValueError, match="nothing is known of the targets of a new task"):
        model.predict(X[:1], task=["new"])


def test_a_search_chooses_by_the_balanced_loss_and_tells_each_kind_apart():
    X, y, task = hospitals(100, unit=1e4)
    search = MMTFLRegressorCV(loss=LOSSES, pk=((2, 1), (1, 1)), poolings=(0,), alphas=12, cv=3)
    search.fit(X, y, task=task)
    assert set(np.flatnonzero(search.c_)) >= {0, 1, 2}
    table = search.heldout_scores_
    assert table["loss"].tolist() == ["poisson", "logistic", "squared"]
    assert (table["deviance_explained"] > 0.1).all()
    assert -5.0 < search.best_score_ < 0.0  # in units of the null slopes, not of 1e8


def test_weights_of_tasks_replace_the_balance():
    X, y, task = hospitals()
    given = MMTFLRegressor(2, 2, 0.3, loss=LOSSES, task_weight={"death": 2.0}, tol=1e-9).fit(X, y, task=task)
    scaled = np.where(task == "stay", y / y[task == "stay"].std(), y)
    r = np.empty(len(y))
    for i, t in enumerate(given.tasks_.tolist()):
        coef, b = given.coef_[i] / given.target_scale_[i], given.intercept_[i] / given.target_scale_[i]
        weight = (2.0 if t == "death" else 1.0) * len(y) / (len(y) + 60) / 60
        r[task == t] = weight * slope(LOSSES[t], scaled[task == t], X[task == t] @ coef + b)
    G = np.column_stack([X[task == t].T @ r[task == t] for t in given.tasks_])
    A = given.coef_.T / given.target_scale_
    size = np.linalg.norm(A, axis=1, keepdims=True)
    kept = size[:, 0] > 0
    assert kept.any()
    assert_allclose(G[kept], -0.3 * A[kept] / size[kept], atol=1e-7)


def test_effects_and_single_tasks_know_losses():
    X, y, task = hospitals(80)
    search = MMTFLRegressorCV(loss=LOSSES, pk=(2, 1), alphas=6, cv=3).fit(X, y, task=task)
    assert search.task_effects(0)["effect"].notna().all()
    with pytest.raises(ValueError, match="losses of their own"):
        search.effects()
    alone = SingleTaskRegressorCV(p=1, per_task=True, loss=LOSSES, alphas=6, cv=3).fit(X, y, task=task)
    assert alone.alpha_.shape == (3,) and (alone.heldout_scores_["deviance_explained"] > 0.0).all()


# -- offsets -------------------------------------------------------------------------------------------------


def test_an_exposure_is_a_weight_on_the_rate():
    """exp(o) e^z - y (z + o) is e^o (e^z - (y / e^o) z) and a constant: rates with exposures as weights."""
    X, y, _, offset = counts(exposure=(0.2, 4.0))
    exposure = np.exp(offset)
    ours = MMTFLRegressor(2, INF, 0.05, loss="poisson", tol=1e-10).fit(X, y, offset=offset)
    rate = PoissonRegressor(alpha=0.1 / exposure.mean(), tol=1e-12, solver="newton-cholesky")
    rate.fit(X, y / exposure, sample_weight=exposure)
    assert_allclose(ours.coef_[0], rate.coef_, atol=1e-7)
    assert_allclose(ours.predict(X, offset=offset), exposure * rate.predict(X), rtol=1e-6)
    assert_allclose(ours.predict(X), rate.predict(X), rtol=1e-6)
    null = exposure * y.sum() / exposure.sum()
    left, total = (np.sum(m - y - y * np.log(np.where(y > 0, m / np.maximum(y, 1e-9), 1.0)))
                   for m in (exposure * rate.predict(X), null))  # fmt: skip
    assert_allclose(ours.score(X, y, offset=offset), 1.0 - left / total, rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_an_offset_of_residuals_is_taken_off_the_target(loss):
    X, y, task = hospitals()
    offset = np.random.default_rng(1).normal(size=len(y)) * 3.0
    one = MMTFLRegressor(2, 1, 0.1, loss=loss, scale_targets=True).fit(
        X, y + offset, task=task, offset=offset
    )
    other = MMTFLRegressor(2, 1, 0.1, loss=loss, scale_targets=True).fit(X, y, task=task)
    assert_allclose(one.coef_, other.coef_, atol=1e-9)
    assert_allclose(one.predict(X, task=task, offset=offset), other.predict(X, task=task) + offset)
    assert_allclose(
        one.score(X, y + offset, task=task, offset=offset), other.score(X, y, task=task), rtol=1e-9
    )


def test_an_offset_of_a_classifier_is_a_column_whose_coefficient_is_one():
    X, y, task = hospitals(200)
    rows = task == "death"
    X, y, offset = X[rows], y[rows], 2.0 * X[rows] @ TRUTH
    model = MMTFLClassifier(2, INF, 1e3).fit(X, y, offset=offset)  # all coefficients are next to zero
    assert np.abs(model.coef_).max() < 1e-2
    assert_allclose(model.predict_proba(X, offset=offset)[:, 1], expit(offset + model.intercept_), atol=0.01)
    assert model.score(X, y, offset=offset) > 0.7 > model.score(X, y)
    plain = LogisticRegression(C=INF, tol=1e-10).fit(X, y)
    free = MMTFLClassifier(2, INF, 1e-9, tol=1e-10).fit(X, y, offset=offset)
    assert_allclose(free.coef_ + 2.0 * TRUTH, plain.coef_, atol=1e-3)


def test_offsets_go_with_their_rows_through_searches_and_scikit_learns_tools():
    X, y, task, offset = counts(exposure=(0.05, 20.0))
    order = np.random.default_rng(0).permutation(len(y))
    options = {"loss": "poisson", "pk": (2, 1), "alphas": 8, "cv": 3}
    with_offset = MMTFLRegressorCV(**options).fit(X[order], y[order], task=task[order], offset=offset[order])
    without = MMTFLRegressorCV(**options).fit(X[order], y[order], task=task[order])
    explained = [one.heldout_scores_["deviance_explained"] for one in (with_offset, without)]
    assert (explained[0] > 0.3).all() and (explained[0] > explained[1]).all()
    tuned = GridSearchCV(
        MMTFLRegressor(2, 2, loss="poisson"), {"alpha": [0.05, 1e3]}, cv=TaskKFold(3, random_state=0)
    )
    with sklearn.config_context(enable_metadata_routing=True):
        tuned.fit(X, y, task=task, offset=offset)
        assert tuned.best_params_ == {"alpha": 0.05} and tuned.best_score_ > 0.3


@pytest.fixture(scope="module")
def unequal():
    """A large task and two small ones that disagree with it."""
    rng = np.random.default_rng(3)
    task = np.repeat(["big", "mid", "tiny"], [120, 30, 15])
    X = rng.normal(size=(165, 4))
    slope = {"big": [2.0, 0.0, 0.0, 0.0], "mid": [0.0, 2.0, 0.5, 0.0], "tiny": [0.0, 1.5, 0.0, 1.0]}
    y = np.einsum("ij,ij->i", X, np.array([slope[t] for t in task])) + rng.normal(size=165)
    return X, y, task


def by_sample_weight(task, wanted):
    """Weights of the rows that say the same, by hand: n / T for every task, or a factor, with the sum n."""
    names, place = np.unique(task, return_inverse=True)
    sizes = np.bincount(place)
    factor = np.array([1.0 / sizes[t] if wanted == "equal" else wanted.get(names[t], 1.0) for t in range(3)])
    weights = factor[place]
    return weights * (len(task) / weights.sum())


@pytest.mark.parametrize("wanted", ["equal", {"tiny": 8.0, "mid": 2}])
@pytest.mark.parametrize(
    "model",
    [
        MMTFLRegressor(alpha=0.2),
        MMTFLRegressor(p=2, k=2, alpha=0.2, pooling=0.9, standardize=True),
        MMTFLRegressor(alpha=0.2, scale_targets=True, solver="alternating"),
        MMTFLClassifier(alpha=0.02),
        DirtyRegressor(),
        RobustRegressor(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_task_weight_is_the_same_weight_of_its_rows_with_the_old_sum(unequal, model, wanted):
    X, y, task = unequal
    y = np.where(y > 0, "yes", "no") if isinstance(model, MMTFLClassifier) else y
    found = clone(model).set_params(task_weight=wanted).fit(X, y, task=task)
    by_hand = clone(model).fit(X, y, task=task, sample_weight=by_sample_weight(task, wanted))
    without = clone(model).fit(X, y, task=task)
    assert_allclose(found.coef_, by_hand.coef_, atol=1e-9)
    assert_allclose(found.intercept_, by_hand.intercept_, atol=1e-9)
    assert abs(found.coef_ - without.coef_).max() > 1e-3


def test_held_out_scores_count_rows_as_they_came(unequal):
    X, y, task = unequal
    options = {"pk": (2, 1), "alphas": [0.5], "poolings": (0,), "cv": 3, "levels": "free"}
    search = MMTFLRegressorCV(**options, task_weight="equal").fit(X, y, task=task)
    losses = []
    for train, test in mmtfl.model_selection.TaskKFold(3, random_state=0).split(X, task=task):
        part = MMTFLRegressor(p=2, k=1, alpha=0.5, task_weight="equal")
        part.fit(X[train], y[train], task=task[train])
        losses.append(-0.5 * np.mean((y[test] - part.predict(X[test], task=task[test])) ** 2))
    assert_allclose(search.best_score_, np.mean(losses), rtol=1e-3)  # paths of a search are solved to 1e-4
    plain = MMTFLRegressorCV(**options).fit(X, y, task=task)
    assert abs(plain.best_score_ - search.best_score_) > 1e-3
    assert path(X, y, task, alphas=3, task_weight="equal").coef(2).shape == (3, 4)
