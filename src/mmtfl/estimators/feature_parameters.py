"""Parameters that say what is known of the features; docs/features.md."""

from __future__ import annotations

from typing import Any

from mmtfl.estimators.declaration import Declared, Valid, choice, parameter


class WeightParameters(Declared):
    """What is known of single features."""

    penalty_weight: Any = parameter(
        Valid("array-like of shape (n_features,) or (n_tasks, n_features), dict or frame", [object]),
        "How strongly each feature is penalised, 1 for those not named: 0 is never penalised, inf is left "
        "out. A weight multiplies what the coefficient would cost alone; see docs/features.md. A dict or a "
        "frame has the features by name, a frame one row per task (labels are the index).",
        default=None,
        remedy="Give a number per feature, such as {'age': 0}.",
    )
    positive: Any = parameter(
        Valid("bool, or array-like of bool or of names", ["boolean", "array-like"]),
        "Whether coefficients must not be negative: all of them, or those of some features.",
        default=False,
        remedy="Use True, or a list of the features whose coefficients must not be negative.",
    )


class KnownFeatureParameters(WeightParameters):
    """What is known of the features before the fit."""

    feature_groups: Any = parameter(
        Valid("list of lists of names or positions, or dict of them", ["array-like", dict]),
        "Features that are kept or dropped together, in all tasks, such as the levels of a category or the "
        "basis of a spline: they share one c. Features not named are groups of one. See docs/features.md.",
        default=None,
        remedy="Give lists of features, such as [['red', 'green'], ['spline_1', 'spline_2']].",
    )


class AbsentParameters(Declared):
    """Features that some tasks do not have."""

    absent_features: str = parameter(
        choice("error", "allow"),
        "What `fit` does with a column that is missing (NaN) in all rows of a task: refuse, or take it for a "
        "feature that the task does not have. Its coefficient is then zero there, what `predict` gets for it "
        "is ignored, and what is shared is learned from the tasks that have it. Scattered missing values "
        "are always refused.",
        default="error",
        remedy="Use 'error' to be told of missing columns, 'allow' for features that some tasks do not have.",
    )
