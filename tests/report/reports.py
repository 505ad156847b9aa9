"""Models whose reports are looked at, with names that mean harm."""

import numpy as np

from mmtfl import MMTFLRegressor

HOSTILE = [
    "<script>window.pwned = 1; alert(1)</script>",
    '"><img src=x onerror="window.pwned = 1">',
    "</script><script>window.pwned = 1</script>",
    "=cmd|' /C calc'!A0",
    "{{7*7}}{% raw %}",
    "long " + "x" * 295,
    "\u202eעברית \u200fشكل",
    "&lt;b&gt; & \u2028 \u2029 'quote'",
    "\U0001f600 emoji",
    "javascript:alert(1)",
    "-->]]><!--",
    "plain",
]


def frame(X, names):
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def hostile_problem():
    """Rows of four tasks and twelve features, all with hostile names; some features are used."""
    rng = np.random.default_rng(0)
    tasks = [f"task {name}" for name in HOSTILE[:4]]
    X = rng.normal(size=(160, len(HOSTILE)))
    task = np.repeat(tasks, 40)
    y = X[:, :6].sum(axis=1) + np.where(task == tasks[1], 2.0, 0.0) * X[:, 7] + 0.1 * rng.normal(size=160)
    return frame(X, HOSTILE), y, task


def hostile_model():
    X, y, task = hostile_problem()
    model = MMTFLRegressor(p=1, k=2, alpha=0.1, standardize=True, scale_targets=True).fit(X, y, task=task)
    model.provenance_ = {"command": "mmtfl fit '<script>window.pwned = 1</script>.csv'", "sha256": "ab" * 32}
    return model


def large_model(n_features=2000, n_tasks=50):
    """A model with a coefficient in half of its cells, which needs no fit."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5 * n_tasks, 3)), rng.normal(size=5 * n_tasks)
    model = MMTFLRegressor(alpha=0.5).fit(X, y, task=np.repeat(np.arange(n_tasks), 5))
    A = rng.normal(size=(n_features, n_tasks)) * (rng.random((n_features, n_tasks)) < 0.5)
    model.coef_ = np.ascontiguousarray(A.T)
    model.c_ = np.linalg.norm(A, axis=1) ** (2 / 3)
    model.n_features_in_, model.feature_spread_ = n_features, np.ones(n_features)
    model.feature_names_in_ = np.array([f"feature number {j:04d}" for j in range(n_features)], dtype=object)
    return model
