"""Models with coefficients as a test wants them, and names that break careless drawing."""

import numpy as np

from mmtfl import MMTFLRegressor

HOSTILE = [
    *(
        "$x",
        "a_b$",
        "$\\frac{",
        "_private",
        "<script>alert(1)</script>",
        "=cmd()",
        "שלום עולם",
        "العمر بالسنوات",
    ),
    *("n" * 300, "tab\tnew\nline", "\u202eevil", "{x}%", "^2", "\\alpha", "", " ", "\x00", "\ud800"),
]


def model_of(A, *, features=None, tasks=None, c=None):
    """A regressor that has learned the coefficients A (features by tasks)."""
    d, T = A.shape
    model = MMTFLRegressor()
    model.curves_ = model.usable_ = None
    model.feature_spread_ = np.ones(d)
    model.coef_, model.intercept_ = np.ascontiguousarray(A.T), np.zeros(T)
    model.tasks_ = np.arange(T) if tasks is None else np.asarray(tasks)
    model.n_features_in_ = d
    if features is not None:
        model.feature_names_in_ = np.array(features, dtype=object)
    model.c_ = np.sqrt(np.abs(A).sum(axis=1)) if c is None else c
    model.history_, model.violation_ = np.array([3.0, 2.0, 1.5, 1.5]), 1e-8
    return model


def mixed(d, T, seed=0):
    """Coefficients of which some are shared, some partial, some single and some zero, in random order."""
    rng = np.random.default_rng(seed)
    A = np.zeros((d, T))
    for j in range(d):
        first, width = rng.integers(T), [T, max(T // 3, 1), 1, 0][j % 4]
        A[j, (first + np.arange(width)) % T] = rng.normal(size=width)
    return A[rng.permutation(d)][:, rng.permutation(T)]
