"""The basis of curves: natural splines beside the line."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.interpolate import CubicSpline

from mmtfl.tasks.curve_basis import CurveBasis, learn_basis

RNG = np.random.default_rng(0)
COLUMNS = {
    "uniform": RNG.uniform(-3.0, 5.0, 400),
    "skewed": np.exp(1.5 * RNG.standard_normal(400)),
    "counts": RNG.poisson(3.0, 400).astype(float),
    "far from zero": 1e9 + RNG.standard_normal(400),
    "mostly zero": np.where(RNG.uniform(size=400) < 0.8, 0.0, RNG.uniform(1.0, 9.0, 400)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_curve_columns_are_orthogonal_to_constant_line_and_each_other(name):
    x, weights = COLUMNS[name], RNG.uniform(0.0, 2.0, 400)
    basis = learn_basis(x[:, None], weights)
    columns = basis.columns(x[:, None])
    line = x - np.average(x, weights=weights)
    full = np.column_stack([np.ones(400), line, columns])
    gram = full.T @ (weights[:, None] * full)
    size = np.sqrt(np.diag(gram))
    assert_allclose(gram / np.outer(size, size), np.eye(len(gram)), atol=1e-7)


@pytest.mark.parametrize("name", COLUMNS)
def test_line_and_curve_columns_span_the_natural_spline(name):
    x = COLUMNS[name]
    basis = learn_basis(x[:, None])
    knots = basis.low + basis.width * basis.knots[0][np.isfinite(basis.knots[0])]
    truth = CubicSpline(knots, RNG.standard_normal(len(knots)), bc_type="natural")
    inside = x[(x >= knots[0]) & (x <= knots[-1])]
    span = np.column_stack([np.ones_like(inside), inside - knots[0], basis.columns(inside[:, None])])
    fitted = span @ np.linalg.lstsq(span, truth(inside), rcond=None)[0]
    assert basis.n_columns == len(knots) - 2
    assert_allclose(fitted, truth(inside), atol=1e-7 * np.abs(truth(inside)).max())


def test_curves_go_on_as_straight_lines_without_a_jump_or_a_kink():
    x = COLUMNS["uniform"]
    basis = learn_basis(x[:, None])
    for end, away in ((basis.low[0], -1.0), (basis.low[0] + basis.width[0], 1.0)):
        h = 1e-5 * basis.width[0]
        near = basis.columns(end + np.array([-2.0, -1.0, 0.0, 1.0, 2.0])[:, None] * h)
        slopes = np.diff(near, axis=0) / h
        assert_allclose(slopes, slopes[[2]] * np.ones((4, 1)), atol=1e-3 * np.abs(slopes).max())
        far = basis.columns((end + away * np.array([1.0, 10.0, 100.0, 1e6]) * basis.width[0])[:, None])
        steps = np.diff(far, axis=0) / np.diff([1.0, 10.0, 100.0, 1e6])[:, None]
        assert_allclose(steps, steps[[0]] * np.ones((3, 1)), rtol=1e-6)


@pytest.mark.parametrize(("factor", "shift"), [(1000.0, 5.0), (0.01, -3.0), (-2.0, 1.0)])
def test_units_of_a_column_change_the_units_of_its_curve_and_nothing_else(factor, shift):
    x = COLUMNS["skewed"] if factor > 0 else np.append(COLUMNS["uniform"], -COLUMNS["uniform"])
    plain, other = (learn_basis(values[:, None]) for values in (x, factor * x + shift))
    here, there = plain.columns(x[:, None]), other.columns((factor * x + shift)[:, None])
    signs = np.sign((here * there).sum(axis=0))
    # quantiles of rows seen from the other end may be the neighbouring rows
    assert_allclose(
        there * signs, abs(factor) * here, atol=(1e-8 if factor > 0 else 0.05) * np.abs(there).max()
    )


def test_weights_count_as_repeated_rows_and_zeros_as_absent_ones():
    x, counts = COLUMNS["uniform"], RNG.integers(0, 3, 400)
    weighted, repeated = (
        learn_basis(x[:, None], counts.astype(float)),
        learn_basis(np.repeat(x, counts)[:, None]),
    )
    at = np.linspace(-5.0, 8.0, 50)[:, None]
    assert_allclose(weighted.columns(at), repeated.columns(at), atol=1e-9)


def test_columns_of_few_values_and_sparse_rows_stay_lines():
    few = np.column_stack([np.arange(100) % n for n in (1, 2, 5, 6)]).astype(float)
    assert learn_basis(few).curved.tolist() == [3]
    assert learn_basis(few[:, :3]) is None
    assert learn_basis(COLUMNS["uniform"][:, None], among=np.array([False])) is None
    assert learn_basis(sparse.csr_matrix(few)) is None


def test_a_basis_from_a_file_is_checked():
    parts = vars(learn_basis(COLUMNS["uniform"][:, None]))
    assert CurveBasis(**parts).n_columns == 4
    for wrong in (
        {"weights": parts["weights"][:2]},
        {"curved": np.array([7])},
        {"owner": parts["owner"] * 1.0},
    ):
        with pytest.raises(ValueError, match="curve"):
            CurveBasis(**parts | wrong)
