"""Multitask feature learning: which features matter everywhere, which only somewhere, and what to predict."""

from mmtfl import datasets as datasets
from mmtfl import model_selection as model_selection
from mmtfl.data.tasks import Tasks
from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor
from mmtfl.objective.product import alpha_from_gammas, gammas_from_alpha
from mmtfl.selection.search import MMTFLClassifierCV, MMTFLRegressorCV, path

__version__ = "0.1.0"

__all__ = [
    "MMTFLClassifier",
    "MMTFLClassifierCV",
    "MMTFLRegressor",
    "MMTFLRegressorCV",
    "Tasks",
    "alpha_from_gammas",
    "gammas_from_alpha",
    "path",
]
