"""A report on a model whose tasks do not have all features."""

import numpy as np

from mmtfl import MMTFLRegressor
from mmtfl.report.evaluation import evaluate


def test_tasks_are_judged_without_the_features_they_lack():
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(120, 4)) + 5.0, np.repeat(["u", "v", "w"], 40)
    y = 2.0 * X[:, 0] + np.where(site == "w", 0.0, X[:, 1]) + 0.1 * rng.normal(size=120)
    X[site == "w", 1] = np.nan
    model = MMTFLRegressor(2, 2, alpha=0.01, absent_features="allow").fit(X, y, task=site)
    found = evaluate(model, X, y, site)
    assert [scores.label for scores in found.tasks] == ["u", "v", "w"]
    assert all(scores.own > 0.95 for scores in found.tasks)
