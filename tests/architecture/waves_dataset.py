"""A new dataset: stations that hear the same waves, each with amplitudes of its own."""

import numpy as np
from sklearn.utils import Bunch, check_random_state

from mmtfl.datasets.simulate import Entry


def make_waves(n_samples=100, noise=0.1, *, random_state=None):
    """Three stations, ten candidate frequencies, of which all stations hear 2 and 5."""
    rng = check_random_state(random_state)
    time = rng.uniform(size=3 * n_samples)
    task = np.repeat(np.arange(3), n_samples)
    X = np.sin(2.0 * np.pi * np.outer(time, np.arange(1, 11)))
    coef = np.zeros((3, 10))
    coef[:, [1, 4]] = [[1.0, 2.0], [-1.0, 1.0], [3.0, -2.0]]
    y = np.einsum("ij,ij->i", X, coef[task]) + noise * rng.standard_normal(len(time))
    return Bunch(
        X=X, y=y, task=task, coef=coef, support=coef != 0.0,
        feature_names=[f"wave{j}" for j in range(1, 11)], task_names=["north", "west", "south"],
        DESCR="Waves: 3 stations, frequencies 2 and 5 heard by all of them.",
    )  # fmt: skip


ENTRY = Entry("waves", "stations that hear the same waves", make_waves, 300, 3, 10)
