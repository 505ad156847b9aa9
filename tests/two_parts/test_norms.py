"""Norms of the parts: prox against a conic solver, duality, and the row problem of two parts."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.objective.norms import ColumnNorm, EntryNorm, RowNorm, SplitRows, TraceNorm
from oracles import minimum
from two_parts.conic_parts import conic_norm

NORMS = [EntryNorm(0.7), RowNorm(0.7), RowNorm(0.7, np.inf), ColumnNorm(0.7), TraceNorm(0.7)]


@pytest.mark.parametrize("scale", [0.3, 1.0, 5.0])
@pytest.mark.parametrize("norm", NORMS, ids=repr)
def test_prox_is_the_minimiser(norm, scale):
    rng = np.random.default_rng(0)
    for shape in ((5, 3), (2, 4), (1, 1)):
        Z, step = scale * rng.normal(size=shape), 0.8
        found = norm.prox(Z, step)
        A = cp.Variable(shape)
        best = minimum(cp.sum_squares(A - Z) / (2 * step) + conic_norm(norm, A))
        here = np.sum((found - Z) ** 2) / (2 * step) + norm.value(found)
        assert here <= best + 1e-8 * max(1.0, best)


def test_row_norms_other_than_two_and_inf_are_refused():
    with pytest.raises(ValueError, match="p = 2 and p = inf"):
        RowNorm(1.0, p=1.5)


# -- the pair (RowNorm, EntryNorm) as one row penalty --------------------------------------------------------

STRENGTHS = [(1.0, 0.6), (1.0, 0.9), (0.5, 0.5), (0.3, 2.0), (2.0, 0.7), (9.0, 0.5), (2.0, 1.0)]


@pytest.mark.parametrize("strengths", STRENGTHS, ids=str)
@pytest.mark.parametrize("p", [2.0, np.inf])
def test_split_is_the_cheapest_one(p, strengths):
    rng = np.random.default_rng(4)
    A = rng.normal(size=(6, 4)) * rng.choice([0.0, 1.0, 4.0], size=(6, 4))
    shared, specific = RowNorm(strengths[0], p), EntryNorm(strengths[1])
    penalty = SplitRows.of(shared, specific)
    P, Q = penalty.split(A)
    B = cp.Variable(A.shape)
    best = minimum(conic_norm(shared, B) + conic_norm(specific, A - B))
    assert_allclose(P + Q, A, atol=1e-14)
    assert_allclose(shared.value(P) + specific.value(Q), best, rtol=1e-7)
    assert_allclose(penalty.value(A), best, rtol=1e-7)
    assert np.all(P * A >= 0.0) and np.all(Q * A >= 0.0)
