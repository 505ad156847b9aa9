"""The losses of the core beside those of `mmtfl.objective.losses`, which have tests of their own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl.core.losses import HuberLoss, LogisticLoss, PoissonLoss, SquaredLoss, evaluate
from mmtfl.objective.losses import Huber, Logistic, Poisson, Squared

RNG = np.random.default_rng(0)
Z, WEIGHT = 2.0 * RNG.normal(size=40), RNG.uniform(0.1, 2.0, size=40)
NUMBERS, COUNTS = RNG.normal(size=40), RNG.poisson(2.0, size=40).astype(float)
SIGNS = np.where(NUMBERS > 0.0, 1.0, -1.0)
PAIRS = {
    "squared": (SquaredLoss, (), Squared(), NUMBERS),
    "logistic": (LogisticLoss, (), Logistic(), SIGNS),
    "huber": (HuberLoss, (0.7,), Huber(0.7), NUMBERS),
    "poisson": (PoissonLoss, (0.0, 1.0), Poisson(), COUNTS),
}


@pytest.mark.parametrize("name", PAIRS)
def test_values_slopes_and_second_derivatives_are_those_of_the_formulas(name):
    Compiled, numbers, plain, y = PAIRS[name]
    value, slopes, bends = evaluate(Compiled(y, WEIGHT, *numbers), Z, 0.0)
    # a constant that is free of z may differ
    shift = evaluate(Compiled(y, WEIGHT, *numbers), np.zeros(40), 0.0)[0]
    expected = plain.value(y, Z, WEIGHT) - plain.value(y, np.zeros(40), WEIGHT)
    assert_allclose(value - shift, expected, rtol=1e-12)
    assert_allclose(slopes, plain.gradient(y, Z, WEIGHT), rtol=1e-12)
    hessian = plain.hessian(y, Z, WEIGHT)
    assert_allclose(bends[hessian > 1e-3], hessian[hessian > 1e-3], rtol=1e-12)


def test_far_out_the_loss_of_a_count_goes_on_as_a_line():
    for z in (301.0, 1e6, 1e150):
        compiled, slopes, _ = evaluate(PoissonLoss(np.ones(1), np.ones(1), 0.0, 1.0), np.array([z]), 0.0)
        plain = Poisson().value(np.ones(1), np.array([z]), np.ones(1))
        assert_allclose([compiled, plain], np.exp(300.0) * (z - 299.0), rtol=1e-12)
        assert_allclose(slopes, np.exp(300.0), rtol=1e-12)
