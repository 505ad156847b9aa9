"""Row penalties: values, majorisers, duals and optimality residual, against the formulas written out."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.objective.penalties import make_penalty
from mmtfl.objective.row_sizes import gammas_from_alpha
from oracles import INF, row_penalties, row_sums

POWERS = [
    (2, 2), (1, 1), (2, 1), (1, 2), (3, 1.5), (1.5, 1), (1.5, 3), (4, 0.5), (2, 4), (1, 0.1),
    (1, INF), (2, INF), (1.5, INF), (INF, 1), (INF, 0.5), (INF, 3),
]  # fmt: skip
LOGS = [(1, "log"), (2, "log"), (1.5, "log")]
EVERY = [*POWERS, *LOGS]


def draw(seed=0, shape=(6, 4)):
    A = np.random.default_rng(seed).normal(size=shape)
    A[1] = 0.0
    A[2, :2] = 0.0
    return A


@pytest.mark.parametrize(("p", "k"), EVERY)
def test_value_is_the_sum_over_rows(p, k):
    for A in (draw(), 1e-3 * draw(1), draw(2, (3, 1)), np.zeros((4, 2)), np.zeros((0, 3))):
        expected = 0.7 * np.sum(row_penalties(A, p, k, eps=0.05))
        assert_allclose(make_penalty(p, k, 0.7, eps=0.05).value(A), expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("p", "k"), POWERS)
@pytest.mark.parametrize("scale", [1e-100, 1e100])
def test_value_is_homogeneous_without_overflow(p, k, scale):
    power = k if math.isinf(p) else p if math.isinf(k) else p * k / (p + k)
    A = draw()
    expected = scale**power * make_penalty(p, k, 1.0).value(A)
    assert_allclose(make_penalty(p, k, 1.0).value(scale * A), expected, rtol=1e-10)


@pytest.mark.parametrize(("p", "k"), EVERY)
def test_convex_exactly_where_the_inverses_sum_to_at_most_one(p, k):
    penalty = make_penalty(p, k, 1.0)
    expected = k != "log" and 1 / p + 1 / k <= 1 + 1e-12
    assert penalty.is_convex == expected
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(300):
        # pairs on one ray and pairs across: concave members fail on the ray, at rows far enough from zero
        U = rng.normal(size=(1, 3)) * 10 ** rng.uniform(-2, 2)
        V = U * rng.uniform(1, 30) if rng.random() < 0.5 else rng.normal(size=(1, 3))
        ends = penalty.value(U) + penalty.value(V)
        gaps.append((ends - 2 * penalty.value((U + V) / 2)) / ends)
    assert (min(gaps) >= -1e-12) == expected


# -- the majoriser of Algorithm 1 ------------------------------------------------------------------------

CONCAVE_IN_S = [(p, k) for p, k in EVERY if not math.isinf(p)]


@pytest.mark.parametrize(
    ("p", "k", "pooling"),
    [
        *((*member, 0.0) for member in CONCAVE_IN_S),
        *((p, k, pooling) for p, k in CONCAVE_IN_S if p in (1, 2) for pooling in (0.6, 0.95)),
    ],
)
def test_weights_touch_the_penalty_and_lie_above_it(p, k, pooling):
    penalty = make_penalty(p, k, 0.8, eps=0.05, pooling=pooling)
    A = draw()[[0, 3, 4, 5]]
    weights, S = penalty.weights(A), row_sums(A, p, pooling)
    for seed in range(20):
        other = A + np.random.default_rng(seed).normal(size=A.shape) * 10 ** (seed / 5 - 3)
        bound = penalty.value(A) + weights @ (row_sums(other, p, pooling) - S)
        assert penalty.value(other) <= bound * (1 + 1e-12)
    step = 1e-6
    for j in range(len(A)):  # tangent: the derivative in S_j is the weight
        shifted = A.copy()
        shifted[j] *= ((S[j] + step * S[j]) / S[j]) ** (1 / p)
        assert_allclose((penalty.value(shifted) - penalty.value(A)) / (step * S[j]), weights[j], rtol=1e-4)


@pytest.mark.parametrize(("p", "k"), [(p, k) for p, k in POWERS if not math.isinf(p) and not math.isinf(k)])
def test_weights_are_gamma1_over_c_to_the_p(p, k, alpha=0.8):
    penalty, A = make_penalty(p, k, alpha), draw()[[0, 3, 4, 5]]
    gamma1, _ = gammas_from_alpha(alpha, p=p, k=k)
    assert_allclose(penalty.weights(A), gamma1 * penalty.shared_part(A) ** -p, rtol=1e-10)
    assert_allclose(penalty.start_weight(), gamma1, rtol=1e-12)  # c = 1


def test_a_dropped_row_has_infinite_weight_except_where_c_never_moves():
    A = draw()
    for alpha in (1.0, np.zeros(len(A))):  # a strength may be zero in the units of its row
        assert np.isinf(make_penalty(2, 1, 1.0).at(alpha).weights(A)[1])
    assert np.isfinite(make_penalty(2, INF, 1.0).weights(A)).all()
    assert np.isfinite(make_penalty(2, "log", 1.0).weights(A)).all()


# -- duals (convex members) ------------------------------------------------------------------------------


# -- units and residual ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("p", "k"), EVERY)
def test_rescaled_measures_the_same_rows_in_other_units(p, k):
    A, factor = draw(), np.array([1.0, 4.0, 0.25, 1e3, 1e-3, 7.0])
    penalty = make_penalty(p, k, 0.8)
    assert_allclose(penalty.rescaled(factor).value(A / factor[:, None]), penalty.value(A), rtol=1e-12)
