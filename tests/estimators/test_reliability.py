"""What docs/reliability.md promises: offsets, units and weights change nothing but the units of the answer.

Every test runs with RuntimeWarnings as errors, as all tests do.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

from mmtfl import (
    CappedClassifier,
    CappedRegressor,
    DirtyClassifier,
    DirtyRegressor,
    LowRankRegressor,
    MMTFLClassifier,
    MMTFLRegressor,
    MMTFLRegressorCV,
    RobustRegressor,
    Tasks,
    TwoStrengthCV,
    path,
)

few = settings(max_examples=6, deadline=None, derandomize=True)
MEMBERS = [(2, 2), (2, 1), (1, 1), (3, 1.5), (2, math.inf)]


def data(seed=0, n_tasks=4, size=30, n_features=6):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(n_tasks * size, n_features)), np.repeat(np.arange(n_tasks), size)
    return X, 2.0 * X[:, 0] - X[:, 1] + rng.normal(size=len(X)), labels


ADDITIVE = {
    "dirty": lambda unit: DirtyRegressor(alpha_shared=0.2 * unit, alpha_specific=0.1 * unit),
    "robust": lambda unit: RobustRegressor(alpha_shared=0.1 * unit, alpha_outlier=0.2 * unit),
    "low rank": lambda unit: LowRankRegressor(alpha_shared=0.2 * unit, alpha_outlier=0.3 * unit),
}


def by_hand(model, X, y, labels, penalty):
    """Squared loss of the coefficients in extended precision, plus a penalty."""
    X, y, coef = (np.asarray(part, dtype=np.longdouble) for part in (X, y, model.coef_))
    z = np.einsum("ij,ij->i", X, coef[labels]) + model.intercept_.astype(np.longdouble)[labels]
    return float(((y - z) ** 2).sum() / 2 / (len(y) / len(coef)) + penalty)


# -- offsets ---------------------------------------------------------------------------------------------


@few
@given(st.floats(2.0, 9.0), st.sampled_from(MEMBERS), st.sampled_from(["auto", "alternating", "block"]))
def test_a_constant_added_to_columns_changes_only_the_intercepts(exponent, member, solver):
    X, y, labels = data()
    shift = 10.0**exponent * np.array([1.0, -1.0, 1.0, 0.0, 1.0, 2.0])
    model = MMTFLRegressor(*member, alpha=0.05, solver=solver, tol=1e-9)
    here = model.fit(X, y, task=labels).coef_.copy()
    objective, intercept = model.objective_, model.intercept_.copy()
    model.fit(X + shift, y, task=labels)
    # what adding the constant has rounded off the columns
    rounding = 1e-7 + 1e-14 * 10.0**exponent
    assert_allclose(model.objective_, objective, rtol=rounding)
    assert_allclose(model.coef_, here, atol=100 * rounding)
    assert_allclose(model.intercept_ + model.coef_ @ shift, intercept, atol=100 * rounding)
    assert np.all(np.diff(model.history_) <= 1e-12 * model.history_[0])


@few
@given(st.floats(3.0, 12.0), st.sampled_from(MEMBERS), st.booleans())
def test_a_constant_added_to_targets_changes_only_the_intercepts(exponent, member, weighted):
    X, y, labels = data()
    shift = (10.0**exponent * np.array([1.0, -1.0, 0.5, 1.0]))[labels]
    weight = np.random.default_rng(1).uniform(0.5, 2.0, len(y)) if weighted else None
    model = MMTFLRegressor(*member, alpha=0.05, tol=1e-9)
    rounded = (y + shift) - shift
    here = model.fit(X, rounded, task=labels, sample_weight=weight).coef_.copy()
    objective, intercept = model.objective_, model.intercept_.copy()
    model.fit(X, y + shift, task=labels, sample_weight=weight)
    assert_allclose(model.objective_, objective, rtol=1e-7)
    assert_allclose(model.coef_, here, atol=1e-5)
    assert_allclose(model.intercept_ - shift[::30], intercept, atol=1e-5 + 1e-15 * 10.0**exponent)


@pytest.mark.parametrize("offset", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("k", [2, 1])
def test_a_classifier_of_columns_with_an_offset_is_the_same_classifier(k, offset):
    X, y, labels = data()
    plain = MMTFLClassifier(2, k, alpha=0.02, tol=1e-8).fit(X, y > 0, task=labels)
    shifted = MMTFLClassifier(2, k, alpha=0.02, tol=1e-8).fit(X + offset, y > 0, task=labels)
    assert shifted.converged_ and shifted.n_iter_ <= plain.n_iter_ + 2
    assert_allclose(shifted.objective_, plain.objective_, rtol=1e-6)


@pytest.mark.parametrize("kind", ADDITIVE)
def test_additive_models_see_neither_offset(kind):
    X, y, labels = data()
    plain = ADDITIVE[kind](1.0).fit(X, y, task=labels)
    shifted = ADDITIVE[kind](1.0).fit(X + 1e6, y - 1e6, task=labels)
    assert_allclose(shifted.objective_, plain.objective_, rtol=1e-7)
    assert_allclose(shifted.coef_, plain.coef_, atol=1e-5)


@pytest.mark.parametrize("storage", [sparse.csr_array, sparse.csc_array])
def test_a_full_sparse_column_with_an_offset_is_centred_too(storage):
    X, y, labels = data()
    X[:, 2:] *= np.random.default_rng(3).uniform(size=(len(X), 4)) < 0.3
    shifted = X + np.array([1e7, 0.0, 0.0, 0.0, 0.0, 0.0])
    here = MMTFLRegressor(alpha=0.05).fit(storage(X), y, task=labels)
    there = MMTFLRegressor(alpha=0.05).fit(storage(shifted), y, task=labels)
    assert_allclose(there.objective_, here.objective_, rtol=1e-6)


@pytest.mark.parametrize("loss", ["regressor", "classifier"])
def test_stored_tasks_with_offsets_give_the_answer_of_memory(tmp_path, loss):
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y, labels = data()
    X = X + np.where(labels == 2, 1e7, 1e3)[:, None]
    kind, target = (MMTFLRegressor, y + 1e8) if loss == "regressor" else (MMTFLClassifier, y > 0)
    columns = {f"x{j}": X[:, j] for j in range(6)} | {"y": target, "task": labels}
    pq.write_table(pa.table(columns), tmp_path / "rows.parquet")
    stored = Tasks.from_parquet(tmp_path / "rows.parquet", task="task", target="y")
    here = kind(alpha=0.02, tol=1e-9).fit(X, target, task=labels)
    there = kind(alpha=0.02, tol=1e-9).fit(stored)
    assert there.coef_.any()
    assert_allclose(there.objective_, here.objective_, rtol=1e-6)
    assert_allclose(there.coef_, here.coef_, atol=1e-4)


def test_a_search_over_two_strengths_is_as_quick_with_an_offset():
    X, y, labels = data(size=20, n_features=4)
    found = [
        TwoStrengthCV(DirtyClassifier(), strengths=3, cv=3).fit(X + offset, y > 0, task=labels)
        for offset in (0.0, 1e4)
    ]
    plain, shifted = (search.best_estimator_ for search in found)
    assert shifted.n_iter_ <= 2 * plain.n_iter_ + 2
    assert_allclose(found[1].best_score_, found[0].best_score_, rtol=1e-3)


# -- units -----------------------------------------------------------------------------------------------


@few
@given(st.integers(-70, 70), st.sampled_from([m for m in MEMBERS if m != (2, math.inf)]))
def test_targets_in_other_units_give_the_answer_in_those_units(exponent, member):
    X, y, labels = data()
    unit, (p, k) = 2.0 ** (6 * exponent), member
    power = p * k / (p + k)
    here = MMTFLRegressor(p, k, alpha=0.05).fit(X, y, task=labels)
    there = MMTFLRegressor(p, k, alpha=0.05 * unit ** (2 - power)).fit(X, y * unit, task=labels)
    assert_allclose(there.objective_ / unit**2, here.objective_, rtol=1e-7)
    assert_allclose(there.coef_ / unit, here.coef_, atol=1e-5)


@pytest.mark.parametrize("unit", [1e-120, 1e-40, 1e40, 1e120])
@pytest.mark.parametrize("kind", ADDITIVE)
def test_additive_models_take_any_unit_of_x_and_y(kind, unit):
    X, y, labels = data()
    here = ADDITIVE[kind](1.0).fit(X, y, task=labels)
    of_targets = ADDITIVE[kind](unit).fit(X, y * unit, task=labels)
    of_columns = ADDITIVE[kind](unit).fit(X * unit, y, task=labels)
    for there, factor in ((of_targets, 1.0 / unit), (of_columns, unit)):
        assert_allclose(there.coef_ * factor, here.coef_, atol=1e-6)
    assert_allclose(of_columns.objective_, here.objective_, rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_capped_models_take_any_unit_of_x_and_y(unit):
    X, y, labels = data()
    here = CappedRegressor(alpha=0.05, cap=0.5).fit(X, y, task=labels)
    there = CappedRegressor(alpha=0.05 * unit, cap=0.5 * unit).fit(X, y * unit, task=labels)
    assert_allclose(there.coef_ / unit, here.coef_, atol=1e-8)
    there = CappedRegressor(alpha=0.05 * unit, cap=0.5 / unit).fit(X * unit, y, task=labels)
    assert_allclose(there.coef_ * unit, here.coef_, atol=1e-8)


def test_large_columns_with_small_targets_are_a_problem_like_any_other():
    X, y, labels = data()
    here = MMTFLRegressor(2, 2, alpha=0.05).fit(X, y, task=labels)
    there = MMTFLRegressor(2, 2, alpha=0.05).fit(X * 1e81, y * 1e-81, task=labels)
    assert_allclose(there.coef_ * 1e162, here.coef_, rtol=1e-4, atol=1e-6)


def test_paths_and_searches_keep_their_units():
    X, y, labels = data(size=20)
    here = path(X, y, labels, p=2, k=1, alphas=4)
    there = path(X + 1e6, y * 2.0**200 + 2.0**240, labels, p=2, k=1, alphas=4)
    assert_allclose(there.alphas / 2.0 ** (200 * 4 / 3), here.alphas, rtol=1e-2)
    search = MMTFLRegressorCV(pk=[(2, 2)], alphas=4, cv=3)
    plain, moved = (clone_fit(search, X, target, labels) for target in (y, y * 2.0**200))
    assert_allclose(moved[0] / 2.0**200, plain[0], rtol=1e-6)
    assert_allclose(moved[1] / 2.0**200, plain[1], atol=1e-3)


def clone_fit(search, X, y, labels):
    found = search.fit(X, y, task=labels)
    return found.alpha_, found.coef_.copy()


def test_squares_that_leave_the_floats_are_refused_in_words():
    X, y, labels = data()
    with pytest.raises(ValueError, match="squares leave the range of floats"):
        MMTFLRegressor(alpha=1.0).fit(X, y * 1e200, task=labels)


# -- weights ---------------------------------------------------------------------------------------------


@few
@given(st.integers(-140, 140), st.sampled_from(MEMBERS))
def test_only_the_ratios_of_weights_matter(exponent, member):
    X, y, labels = data()
    weight = np.random.default_rng(2).uniform(0.5, 2.0, len(y))
    here = MMTFLRegressor(*member, alpha=0.05).fit(X, y, task=labels, sample_weight=weight)
    there = MMTFLRegressor(*member, alpha=0.05)
    there.fit(X, y, task=labels, sample_weight=weight * 4.0**exponent)
    assert_allclose(there.coef_, here.coef_, atol=1e-8)


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("seed", range(3))
def test_wild_weights_give_finite_answers(member, seed):
    X, y, labels = data(seed)
    weight = 10.0 ** np.random.default_rng(seed).uniform(-300, 300, len(y))
    model = MMTFLRegressor(*member, alpha=0.05, max_iter=5000).fit(X, y, task=labels, sample_weight=weight)
    for name in ("coef_", "intercept_", "objective_", "history_"):
        assert np.isfinite(getattr(model, name)).all(), name


@pytest.mark.parametrize("member", MEMBERS)
def test_a_row_with_all_of_the_weight_is_a_point_that_the_model_goes_through(member):
    X, y, _ = data(n_tasks=1)
    weight = np.ones(30)
    weight[7] = 1e18
    share = 29 / weight.sum()  # of the other rows, which decide the coefficients
    through = MMTFLRegressor(*member, alpha=0.05, fit_intercept=False).fit(
        np.delete(X - X[7], 7, axis=0), np.delete(y - y[7], 7)
    )
    model = MMTFLRegressor(*member, alpha=0.05 * share).fit(X, y, sample_weight=weight)
    assert through.coef_.any()
    assert model.converged_
    assert_allclose(model.coef_, through.coef_, atol=1e-5)
    assert_allclose(model.predict(X[7:8]), y[7], atol=1e-12)
    # a second fit computes the slopes anew, from the coefficients alone
    again = model.set_params(warm_start=True, max_iter=1).fit(X, y, sample_weight=weight)
    assert again.violation_ <= again.tol


@pytest.mark.parametrize("weight", [0.0, 1e-300, 1e-17])
def test_a_class_without_weight_is_no_class(weight):
    X, y, labels = data()
    y = y > 0
    sample_weight = np.where((labels == 1) & y, weight, 1.0)
    with pytest.raises(ValueError, match="Task 1 has only one class, False"):
        MMTFLClassifier(alpha=0.02).fit(X, y, task=labels, sample_weight=sample_weight)
    model = MMTFLClassifier(alpha=0.02, on_degenerate_task="base_rate")
    with pytest.warns(UserWarning, match=r"1 task left out .* 1 \(30 rows, False\)"):
        model.fit(X, y, task=labels, sample_weight=sample_weight)
    assert model.base_rate_tasks_.tolist() == [1] and np.isfinite(model.intercept_).all()


# -- honest numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1e-2, 1e-8])
@pytest.mark.parametrize("kind", [RobustRegressor, LowRankRegressor])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_objective_is_that_of_the_coefficients_at_small_strengths(kind, alpha):
    X, y, labels = data(size=8)
    model = kind(alpha_shared=alpha, alpha_outlier=2.0 * alpha, max_iter=50).fit(X, y, task=labels)
    P, Q = model.shared_.T, model.outlier_.T
    norm = np.linalg.norm(P, axis=1).sum() if kind is RobustRegressor else np.linalg.norm(P, "nuc")
    penalty = alpha * norm + 2.0 * alpha * np.linalg.norm(Q, axis=0).sum()
    assert_allclose(model.objective_, by_hand(model, X, y, labels, penalty), rtol=1e-7)


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("solver", ["auto", "alternating"])
def test_a_constant_target_leaves_nothing_to_explain(member, solver):
    X, _, labels = data()
    model = MMTFLRegressor(*member, alpha=1e-6, solver=solver).fit(X, np.full(len(X), 0.1), task=labels)
    assert not model.coef_.any() and model.objective_ == 0.0 and not np.diff(model.history_).any()
    assert_allclose(model.intercept_, 0.1, rtol=1e-15)


@pytest.mark.parametrize("alpha", [1e-3, 100.0])
def test_strongly_concave_members_do_not_warn(alpha):
    X, y, labels = data(size=12)
    model = MMTFLRegressor(3, 0.3, alpha=alpha).fit(X, y, task=labels)
    assert np.isfinite(model.objective_)


# -- order, repetition and units of columns ----------------------------------------------------------------

ESTIMATORS = {
    "squared": lambda p, k, **options: MMTFLRegressor(p, k, alpha=0.1, tol=1e-9, **options),
    "logistic": lambda p, k, **options: MMTFLClassifier(p, k, alpha=0.03, tol=1e-9, **options),
}
losses, members = st.sampled_from(sorted(ESTIMATORS)), st.sampled_from(MEMBERS)


def targets(y, loss):
    return y if loss == "squared" else y > 0.0


@few
@given(losses, members, st.integers(0, 1000))
def test_the_order_of_rows_tasks_and_features_does_not_matter(loss, member, seed):
    X, y, labels = data()
    rng = np.random.default_rng(seed)
    rows, tasks, features = rng.permutation(len(y)), rng.permutation(4), rng.permutation(6)
    here = ESTIMATORS[loss](*member).fit(X, targets(y, loss), task=labels)
    there = ESTIMATORS[loss](*member).fit(
        X[rows][:, features], targets(y[rows], loss), task=tasks[labels[rows]]
    )
    assert here.coef_.any()
    assert_allclose(there.objective_, here.objective_, rtol=1e-9)
    assert_allclose(there.coef_[tasks], here.coef_[:, features], atol=1e-5)
    assert_allclose(there.intercept_[tasks], here.intercept_, atol=1e-5)


@few
@given(losses, members, st.integers(0, 1000))
def test_a_repeated_row_is_a_row_of_weight_two(loss, member, seed):
    X, y, labels = data()
    times = np.random.default_rng(seed).integers(1, 3, len(y))
    rows = np.repeat(np.arange(len(y)), times)
    here = ESTIMATORS[loss](*member).fit(X, targets(y, loss), task=labels, sample_weight=times)
    there = ESTIMATORS[loss](*member).fit(X[rows], targets(y[rows], loss), task=labels[rows])
    assert here.coef_.any()
    assert_allclose(there.objective_, here.objective_, rtol=1e-9)
    assert_allclose(there.coef_, here.coef_, atol=1e-5)


@few
@given(losses, members, st.lists(st.floats(-60.0, 60.0), min_size=6, max_size=6))
def test_units_of_columns_do_not_matter_where_columns_are_standardized(loss, member, exponents):
    X, y, labels = data()
    units = 10.0 ** np.array(exponents)
    here = ESTIMATORS[loss](*member, standardize=True).fit(X, targets(y, loss), task=labels)
    there = ESTIMATORS[loss](*member, standardize=True).fit(X * units, targets(y, loss), task=labels)
    assert here.coef_.any()
    assert_allclose(there.objective_, here.objective_, rtol=1e-9)
    assert_allclose(there.coef_ * units, here.coef_, atol=1e-5)


def test_a_model_of_constant_columns_alone_ends_at_once():
    # their slopes are rounding, which no number of passes makes smaller
    y, labels = data()[1:]
    constant = np.full((len(y), 1), 3e5)
    for model, loss in (
        (DirtyRegressor(), "squared"),
        (MMTFLRegressor(2, 2), "squared"),
        (MMTFLClassifier(1, 1), "logistic"),
    ):
        found = model.fit(constant, targets(y, loss), labels)
        assert found.converged_
        assert found.n_iter_ <= 2
        assert not found.coef_.any()


def test_a_strength_next_to_the_smallest_float_counts():
    # coefficients of 1e192 have squares of 1e384: in the units of these data it is an ordinary strength
    X, y, labels = data()
    here = MMTFLRegressor(math.inf, 2, alpha=0.1).fit(X, y, task=labels)
    there = MMTFLRegressor(math.inf, 2, alpha=0.1e-290).fit(1e-145 * X, 1e45 * y, task=labels)
    assert_allclose(there.coef_ * 1e-190, here.coef_, atol=1e-6)
    assert_allclose(there.objective_ * 1e-90, here.objective_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_more_passes_go_further_where_classes_are_separable():
    # features past the cap are free and separate the classes: there is no minimum, and sweeps are bounded
    X, _, labels = data()
    some, more = (
        CappedClassifier(alpha=1e-3, cap=1e-3, tol=1e-13, max_iter=n).fit(X, X[:, 0] + X[:, 1] > 0.1, labels)
        for n in (1000, 3000)
    )
    assert not some.converged_
    assert some.n_iter_ < 1000
    assert more.n_iter_ > 2 * some.n_iter_  # as the warning says: raise max_iter
    assert more.objective_ < some.objective_
