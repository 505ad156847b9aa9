"""fit and predict: the models as scikit-learn estimators."""

from mmtfl.estimators.classification import MMTFLClassifier
from mmtfl.estimators.regression import MMTFLRegressor

__all__ = ["MMTFLClassifier", "MMTFLRegressor"]
