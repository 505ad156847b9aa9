"""Multitask feature learning: which features matter everywhere, which only somewhere, and what to predict."""

from mmtfl import datasets as datasets
from mmtfl import model_selection as model_selection
from mmtfl.data.tasks import Tasks
from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor
from mmtfl.estimators.additive import (
    DirtyClassifier,
    DirtyRegressor,
    LowRankClassifier,
    LowRankRegressor,
    RobustClassifier,
    RobustRegressor,
)
from mmtfl.estimators.capped import CappedClassifier, CappedRegressor
from mmtfl.objective.product import alpha_from_gammas, gammas_from_alpha
from mmtfl.selection.additive_search import TwoStrengthCV
from mmtfl.selection.search import MMTFLClassifierCV, MMTFLRegressorCV, path
from mmtfl.selection.single_task import SingleTaskClassifierCV, SingleTaskRegressorCV

__version__ = "0.1.0"

__all__ = [
    "CappedClassifier",
    "CappedRegressor",
    "DirtyClassifier",
    "DirtyRegressor",
    "LowRankClassifier",
    "LowRankRegressor",
    "MMTFLClassifier",
    "MMTFLClassifierCV",
    "MMTFLRegressor",
    "MMTFLRegressorCV",
    "RobustClassifier",
    "RobustRegressor",
    "SingleTaskClassifierCV",
    "SingleTaskRegressorCV",
    "Tasks",
    "TwoStrengthCV",
    "alpha_from_gammas",
    "gammas_from_alpha",
    "path",
]
