"""Every kind of model, each fitted once to small tasks when it is asked for."""

import warnings
from functools import cache

import numpy as np
from sklearn.base import clone

import mmtfl
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import TaskKFold

SEARCH = {"alphas": 4, "cv": 2}


def numbers(classification=False):
    sizes = {"n_tasks": 3, "n_samples": 40, "n_features": 5, "n_informative": 3}
    data = make_tasks(**sizes, noise=0.5, classification=classification, random_state=0)
    data.task = np.array(["berlin", "kairo", "łódź"])[np.unique(data.task, return_inverse=True)[1]]
    return data


REGRESSION, CLASSIFICATION = numbers(), numbers(classification=True)

REGRESSORS = {
    "family": mmtfl.MMTFLRegressor(alpha=0.1, standardize=True, scale_targets=True),
    "a loss per task": mmtfl.MMTFLRegressor(
        alpha=0.1, loss={"berlin": "squared", "kairo": "huber", "łódź": "squared"}, effects=True
    ),
    "curves": mmtfl.MMTFLRegressor(alpha=1e-3, pooling=0.9, curves=True, levels="shrunk", effects=True),
    "log edge": mmtfl.MMTFLRegressor(k="log", alpha=0.1),
    "row maxima": mmtfl.MMTFLRegressor(p=np.inf, k=1, alpha=np.float32(0.1)),
    "single task": mmtfl.MMTFLRegressor(p=1, k=np.inf, alpha=0.1),
    "search": mmtfl.MMTFLRegressorCV(pk=((2, 1), (1, "log")), **SEARCH),
    "search with folds": mmtfl.MMTFLRegressorCV(
        pk=np.array([[2, 2]]), alphas=np.array([1.0, 0.1]), cv=TaskKFold(3, random_state=1), scoring="r2"
    ),
    "dirty": mmtfl.DirtyRegressor(),
    "robust": mmtfl.RobustRegressor(),
    "low rank": mmtfl.LowRankRegressor(),
    "capped": mmtfl.CappedRegressor(),
    "two strengths": mmtfl.TwoStrengthCV(mmtfl.RobustRegressor(standardize=True), strengths=(3, [1.0]), cv=2),
    "two strengths capped": mmtfl.TwoStrengthCV(mmtfl.CappedRegressor(), strengths=2, cv=2),
    "separate": mmtfl.SingleTaskRegressorCV(**SEARCH),
    "separate strengths": mmtfl.SingleTaskRegressorCV(p=1, per_task=True, **SEARCH),
}
CLASSIFIERS = {
    "family": mmtfl.MMTFLClassifier(alpha=0.01),
    "search": mmtfl.MMTFLClassifierCV(pk=(2, 1), **SEARCH),
    "dirty": mmtfl.DirtyClassifier(),
    "robust": mmtfl.RobustClassifier(),
    "low rank": mmtfl.LowRankClassifier(),
    "capped": mmtfl.CappedClassifier(),
    "two strengths": mmtfl.TwoStrengthCV(mmtfl.DirtyClassifier(), strengths=2, cv=2),
    "separate": mmtfl.SingleTaskClassifierCV(**SEARCH),
    "separate strengths": mmtfl.SingleTaskClassifierCV(per_task=True, **SEARCH),
}
MODELS = [("regressor", name) for name in REGRESSORS] + [("classifier", name) for name in CLASSIFIERS]


def data_of(kind):
    return REGRESSION if kind == "regressor" else CLASSIFICATION


@cache
def fitted(kind, name):
    model, data = clone((REGRESSORS if kind == "regressor" else CLASSIFIERS)[name]), data_of(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny data: whether it converges does not matter here
        return model.fit(data.X, data.y, task=data.task)
