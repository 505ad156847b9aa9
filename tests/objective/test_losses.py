"""Losses: derivatives by finite differences, the curvature bound, best constants, and conjugates."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mmtfl.objective.losses
from architecture.gamma_loss import Gamma
from mmtfl.objective.losses import KINDS, Huber, Logistic, Poisson, Squared, make_loss
from mmtfl.objective.losses.by_rows import LossOnRows

ROWS = 9
DELTA = 0.8
LOSSES = {
    "squared": Squared(),
    "logistic": Logistic(),
    "from zero": Logistic(from_zero=True),
    "huber": Huber(DELTA),
    "poisson": Poisson(),
    "gamma": Gamma(),
}
BOUNDED = [name for name, loss in LOSSES.items() if loss.curvature is not None]


def draw(name, seed=0):
    rng = np.random.default_rng(seed)
    targets = {
        "logistic": np.where(rng.random(ROWS) < 0.4, -1.0, 1.0),
        "from zero": (rng.random(ROWS) < 0.4).astype(float),
        "poisson": rng.poisson(1.5, size=ROWS).astype(float),
        "gamma": rng.exponential(size=ROWS),
    }
    y = targets.get(name, rng.normal(size=ROWS))
    return y, 2 * rng.normal(size=ROWS), rng.uniform(0.1, 2.0, size=ROWS)


def row_loss(name, y, z):
    if name == "squared":
        return 0.5 * (y - z) ** 2
    if name == "huber":
        return np.where(np.abs(y - z) <= DELTA, 0.5 * (y - z) ** 2, DELTA * (np.abs(y - z) - 0.5 * DELTA))
    if name == "poisson":  # minus the log-likelihood, from its value at the best z
        return np.exp(z) - y * z - (y - y * np.log(y) if y > 0 else 0.0)
    if name == "gamma":
        return y * np.exp(-z) + z - np.log(y) - 1.0
    return np.log1p(np.exp(-(2.0 * y - 1.0 if name == "from zero" else y) * z))


@pytest.mark.parametrize("name", LOSSES)
def test_value_is_the_weighted_sum_of_rows(name):
    y, z, w = draw(name)
    rows = [weight * row_loss(name, *at) for *at, weight in zip(y, z, w, strict=True)]
    assert_allclose(LOSSES[name].value(y, z, w), np.sum(rows), rtol=1e-13)


@pytest.mark.parametrize("name", LOSSES)
def test_no_loss_is_negative_and_the_best_prediction_of_a_row_has_none(name):
    loss, (y, _, w) = LOSSES[name], draw(name)
    best = {"logistic": 60.0 * y, "from zero": 60.0 * (2.0 * y - 1.0)}.get(name, loss.link(y))
    assert_allclose(loss.value(y, best, w), 0.0, atol=1e-14)
    for shift in (-0.7, 0.4):
        assert loss.value(y, best + shift, w) > 0.0


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


@pytest.mark.parametrize("name", BOUNDED)
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


@pytest.mark.parametrize("name", ["logistic", "poisson", "gamma"])
def test_losses_are_finite_far_out(name):
    loss, w, z = LOSSES[name], np.ones(4), np.array([1e4, -1e4, 900.0, 0.0])
    for y in (np.ones(4), -np.ones(4)) if name == "logistic" else (np.array([1.0, 2.0, 5.0, 1.0]),):
        parts = [loss.value(y, z, w), loss.gradient(y, z, w), loss.hessian(y, z, w) ** 2, loss.mean(z)]
        assert all(np.all(np.isfinite(part)) for part in parts)
    if name == "logistic":  # symmetric in the label
        assert np.isfinite(loss.dual(y, z, w, 1.0))
        assert_allclose(loss.value(y, z, w), loss.value(-y, -z, w))
        assert_allclose(loss.gradient(y, z, w), -loss.gradient(-y, -z, w))


def test_a_file_put_beside_the_losses_is_found(tmp_path, monkeypatch):
    (tmp_path / "halved.py").write_text(
        "from mmtfl.objective.losses import Squared\n\n\nclass Halved(Squared):\n    name = 'halved'\n"
    )
    folder = Path(mmtfl.objective.losses.__file__).parent
    monkeypatch.setattr(mmtfl.objective.losses, "__path__", [str(folder), str(tmp_path)])
    try:
        mmtfl.objective.losses._find_all()
        assert make_loss("halved", {}).name == "halved"
    finally:
        KINDS.pop("halved", None)
        sys.modules.pop("mmtfl.objective.losses.halved", None)


# -- losses on rows ------------------------------------------------------------------------------------------


def mixed(known=True):
    """Four tasks of three kinds with factors: the loss, targets, z, weights and the known part."""
    rng = np.random.default_rng(2)
    names, sizes = ["poisson", "squared", "from zero", "poisson"], [5, 4, 6, 3]
    y = np.concatenate(
        [draw(name, seed)[0][:n] for seed, (name, n) in enumerate(zip(names, sizes, strict=True))]
    )
    n = len(y)
    shift = rng.normal(size=n) if known else None
    factors, offsets = np.array([2.0, 0.5, 3.0, 1.0]), np.concatenate([[0], np.cumsum(sizes)])
    loss = LossOnRows([LOSSES[name] for name in names], offsets, factors, shift)
    return names, loss, y, rng.normal(size=n), rng.uniform(0.1, 2.0, size=n)


@pytest.mark.parametrize("known", [False, True])
def test_a_loss_on_rows_is_that_of_each_task_times_its_factor_at_z_plus_the_known_part(known):
    names, loss, y, z, w = mixed(known)
    shift = loss.known if known else np.zeros_like(z)
    parts = [slice(lo, hi) for lo, hi in pairwise(loss.offsets)]
    value, dual, null = 0.0, 0.6 * loss.gradient(y, z, w) @ shift, loss.null_intercepts(y, w, loss.offsets)
    for name, part, factor, b in zip(names, parts, loss.factors, null, strict=True):
        own = LOSSES[name]
        at = y[part], (z + shift)[part], factor * w[part]
        value, dual = value + own.value(*at), dual + own.dual(*at, 0.6)
        for question in ("gradient", "hessian", "majorant"):
            assert_allclose(getattr(loss, question)(y, z, w)[part], getattr(own, question)(*at), rtol=1e-14)
        assert_allclose(loss.mean(z)[part], own.mean(at[1]), rtol=1e-14)
        assert_allclose(own.gradient(y[part], b + shift[part], w[part]).sum(), 0.0, atol=1e-11)
    assert_allclose(loss.value(y, z, w), value, rtol=1e-13)
    assert_allclose(loss.dual(y, z, w, 0.6), dual, rtol=1e-12)
    assert_allclose(loss.mean(np.stack([z, 2 * z]))[1], loss.mean(2 * z))
