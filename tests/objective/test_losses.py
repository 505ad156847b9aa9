"""Losses: derivatives by finite differences, the curvature bound, best constants, and conjugates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from oracles import LOSSES

ROWS = 9


def draw(name, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=ROWS) if name == "squared" else np.where(rng.random(ROWS) < 0.4, -1.0, 1.0)
    return y, 2 * rng.normal(size=ROWS), rng.uniform(0.1, 2.0, size=ROWS)


def row_loss(name, y, z):
    return 0.5 * (y - z) ** 2 if name == "squared" else np.log1p(np.exp(-y * z))


@pytest.mark.parametrize("name", LOSSES)
def test_value_is_the_weighted_sum_of_rows(name):
    y, z, w = draw(name)
    assert_allclose(LOSSES[name].value(y, z, w), np.sum(w * row_loss(name, y, z)), rtol=1e-13)


@pytest.mark.parametrize("name", LOSSES)
def test_gradient_and_hessian_by_finite_differences(name, h=1e-5):
    loss = LOSSES[name]
    y, z, w = draw(name)
    for i in range(ROWS):
        step = h * (np.arange(ROWS) == i)
        slope = (loss.value(y, z + step, w) - loss.value(y, z - step, w)) / (2 * h)
        bend = (loss.gradient(y, z + step, w) - loss.gradient(y, z - step, w)) / (2 * h)
        assert_allclose(loss.gradient(y, z, w)[i], slope, rtol=1e-6, atol=1e-9)
        assert_allclose(np.eye(ROWS)[i] * loss.hessian(y, z, w), bend, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_curvature_bounds_the_hessian_and_is_reached(name):
    loss = LOSSES[name]
    z = np.linspace(-8, 8, 801)
    ones = np.ones_like(z)
    bend = loss.hessian(ones, z, ones)
    assert bend.max() <= loss.curvature * (1 + 1e-12)
    assert_allclose(bend.max(), loss.curvature, rtol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("at", [-9.0, -0.7, 0.0, 1e-10, 3.0, 40.0])
def test_the_parabola_of_the_majorant_lies_above_the_loss_and_none_that_is_flatter_does(name, at):
    loss, y, w = LOSSES[name], np.ones(1), np.full(1, 0.7)
    start = np.full(1, at)
    bend, value = loss.majorant(y, start, w), loss.value(y, start, w)
    slope = loss.gradient(y, start, w)[0]
    z = np.linspace(-60.0, 60.0, 2401)
    true = w[0] * row_loss(name, 1.0, z)

    def parabola(bend):
        return value + slope * (z - at) + 0.5 * bend * (z - at) ** 2

    assert np.all(parabola(bend) >= true - 1e-12 * (1.0 + true))
    assert np.any(parabola(0.99 * bend) < true)


@pytest.mark.parametrize("name", LOSSES)
def test_null_intercept_is_the_best_constant(name):
    loss = LOSSES[name]
    y, _, w = draw(name)
    found = minimize_scalar(lambda b: loss.value(y, np.full(ROWS, b), w), bracket=(-1.0, 1.0), tol=1e-12)
    assert_allclose(loss.null_intercept(y, w), found.x, atol=1e-6)
    assert_allclose(loss.gradient(y, np.full(ROWS, loss.null_intercept(y, w)), w).sum(), 0.0, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("shrink", [1.0, 0.6, 0.0])
def test_dual_is_the_least_loss_plus_linear_term(name, shrink):
    # the dual point of z is -l'(z): the dual value is min over u of l(u) - shrink l'(z) u, row by row
    loss = LOSSES[name]
    y, z, w = draw(name)
    slope = loss.gradient(y, z, w) / w
    expected = 0.0
    for i in range(ROWS):
        u = np.linspace(-60, 60, 240001)
        expected += w[i] * np.min(row_loss(name, y[i], u) - shrink * slope[i] * u)
    assert_allclose(loss.dual(y, z, w, shrink), expected, atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_fenchel_young_holds_with_equality_at_the_dual_point(name):
    loss = LOSSES[name]
    y, z, w = draw(name)
    assert_allclose(loss.value(y, z, w) - loss.gradient(y, z, w) @ z, loss.dual(y, z, w, 1.0), rtol=1e-12)


def test_logistic_is_finite_far_out_and_symmetric_in_the_label():
    loss, w = LOSSES["logistic"], np.ones(4)
    z = np.array([1e4, -1e4, 800.0, 0.0])
    for y in (np.ones(4), -np.ones(4)):
        for part in (
            loss.value(y, z, w),
            loss.gradient(y, z, w),
            loss.hessian(y, z, w),
            loss.dual(y, z, w, 1.0),
        ):
            assert np.all(np.isfinite(part))
        assert_allclose(loss.value(y, z, w), loss.value(-y, -z, w))
        assert_allclose(loss.gradient(y, z, w), -loss.gradient(-y, -z, w))
