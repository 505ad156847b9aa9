"""Compiled accelerated steps against their twins in numpy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.kernels.accelerated_steps import BY_ROWS, BY_SINGULAR_VALUES, prox
from mmtfl.objective.norms import RowNorm, TraceNorm
from mmtfl.solvers.part_solvers import _SharedPart, accelerate

NORMS = {"rows": (BY_ROWS, RowNorm(1.0)), "singular values": (BY_SINGULAR_VALUES, TraceNorm(1.0))}


def compiled_prox(kind, Z, threshold):
    out = np.empty(Z.T.shape)
    prox(kind, np.ascontiguousarray(Z.T), threshold, out)
    return out.T


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5), (1, 6), (6, 1)], ids=str)
@pytest.mark.parametrize("name", NORMS)
def test_the_compiled_prox_is_that_of_the_norm(name, shape):
    kind, norm = NORMS[name]
    Z = np.random.default_rng(3).normal(size=shape)
    threshold = 0.5 * norm.dual_norm(Z)
    expected = norm.at(threshold).prox(Z, 1.0)
    assert expected.any() and np.linalg.norm(expected) < 0.9 * np.linalg.norm(Z)
    assert_allclose(compiled_prox(kind, Z, threshold), expected, atol=1e-13)


@pytest.mark.parametrize("size", [1e-200, 1e200])
@pytest.mark.parametrize("name", NORMS)
def test_the_compiled_prox_knows_sizes_whose_squares_are_no_floats(name, size):
    kind, norm = NORMS[name]
    Z = np.random.default_rng(4).normal(size=(6, 3))
    expected = norm.at(0.5).prox(Z, 1.0)
    assert_allclose(compiled_prox(kind, size * Z, 0.5 * size) / size, expected, atol=1e-13)


def test_small_singular_values_are_found_beside_large_ones():
    """Eigenvalues of squares would not tell them from rounding."""
    rng = np.random.default_rng(5)
    U, V = (np.linalg.qr(rng.normal(size=(n, 4)))[0] for n in (9, 6))
    sizes = np.array([1e6, 1.0, 1e-4, 1e-6])
    found = compiled_prox(BY_SINGULAR_VALUES, (U * sizes) @ V.T, 1e-5)
    assert_allclose(found, (U * np.maximum(sizes - 1e-5, 0.0)) @ V.T, atol=1e-9)
    left = np.linalg.svd(found - 1e6 * np.outer(U[:, 0], V[:, 0]), compute_uv=False)
    assert_allclose(left[:3], [1.0 - 1e-5, 9e-5, 1e-5], atol=1e-9)
    assert np.linalg.matrix_rank(found, tol=1e-9) == 3


def test_zero_stays_zero():
    for kind, _ in NORMS.values():
        assert not compiled_prox(kind, np.zeros((3, 4)), 0.1).any()


@pytest.mark.parametrize("name", NORMS)
def test_compiled_steps_are_those_in_numpy(name):
    """Three tasks, of which the last is closed for Q."""
    kind, norm = NORMS[name]
    rng = np.random.default_rng(6)
    x, target = [rng.normal(size=(n, 5)) for n in (6, 4, 8)], [rng.normal(size=n) for n in (6, 4, 8)]
    eigenvalues = [rng.uniform(1.0, 9.0, 6), rng.uniform(1.0, 9.0, 4), np.zeros(8)]
    start, norm = rng.normal(size=(5, 3)), norm.at(1.5)
    limits = {"curvature": 2.0, "tolerance": 1e-7, "relative": 0.0, "most_steps": 500}
    plain, compiled = (_SharedPart(0.8, x, target, eigenvalues, np.zeros(3)) for _ in range(2))
    expected = accelerate(start, plain.forward, plain.residual, plain.gradient, norm.prox, **limits)
    P, image, curvature, n_steps = compiled.compiled_steps(kind, norm.alpha, start, **limits)
    assert 20 < n_steps < 500 and plain.lengths.any()
    assert abs(n_steps - expected[3]) <= 1  # a step more or less, where a move is next to the tolerance
    assert_allclose(P, expected[0], atol=1e-6)
    assert_allclose(image, compiled.forward(P - start), atol=1e-12)
    assert_allclose(compiled.lengths, plain.lengths, atol=1e-6)
    assert_allclose(curvature, expected[2], rtol=1e-6)
