"""Load a saved model: the only module that knows every class a file may name."""

import inspect
import os
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mmtfl.errors import require
from mmtfl.estimators import two_strengths as two
from mmtfl.estimators.classification import MMTFLClassifier
from mmtfl.estimators.curves import Curves
from mmtfl.estimators.regression import MMTFLRegressor
from mmtfl.estimators.saving import LEARNED
from mmtfl.estimators.search import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.estimators.single_task import SingleTaskClassifierCV, SingleTaskRegressorCV
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.model_selection.splitting import TaskKFold, TaskTimeSplit
from mmtfl.persistence.archive import ModelFileError, read_archive
from mmtfl.solvers.path import Path
from mmtfl.tables.encoder import TableEncoder
from mmtfl.tables.recipe import TableRecipe
from mmtfl.tasks.frames import make_frame

ESTIMATORS = (
    *(MMTFLRegressor, MMTFLClassifier, MMTFLRegressorCV, MMTFLClassifierCV),
    *(SingleTaskRegressorCV, SingleTaskClassifierCV, TwoStrengthCV, two.DirtyRegressor, two.DirtyClassifier),
    *(two.RobustRegressor, two.RobustClassifier, two.LowRankRegressor, two.LowRankClassifier),
    *(two.CappedRegressor, two.CappedClassifier),
)
OTHERS = (Curves, Path, TableEncoder, TableRecipe, TaskKFold, TaskTimeSplit)
CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (*ESTIMATORS, *OTHERS)}


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that was saved with its ``save`` method.

    Nothing in the file is executed: it holds arrays and JSON, whose sizes, names and parameters are
    checked. Predictions equal those of the model that was saved, bit for bit.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : estimator
        Fitted.

    Raises
    ------
    ValueError
        If the file is something else, of a newer version, cut short or changed; one line that says which.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from mmtfl import MMTFLRegressor, load
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(60, 3)), np.repeat(["north", "south"], 30)
    >>> model = MMTFLRegressor(alpha=0.05).fit(X, X[:, 0], task=task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "model.mmtfl"))
    ...     loaded = load(os.path.join(folder, "model.mmtfl"))
    >>> bool(np.array_equal(loaded.predict(X, task=task), model.predict(X, task=task)))
    True
    >>> loaded.tasks_.tolist()
    ['north', 'south']
    """
    content = read_archive(path, make=_make)
    model = content.get("model") if isinstance(content, dict) else None
    if not isinstance(model, ESTIMATORS):
        raise ModelFileError(f"{os.fspath(path)!r} holds no model: give a file written by model.save(path).")
    return model


def _make(name: str, state: Any) -> Any:
    """Make an object of a name in the list; it is never imported by its name."""
    if name == "frame":
        return make_frame(state["columns"], state["backend"])
    if name == "series":
        return require("pandas", "frames").Series(state["values"], index=state["index"], name=state["name"])
    if name not in CLASSES:
        raise ValueError(f"{name[:60]!r} is no class of this version of mmtfl")
    cls = CLASSES[name]
    if hasattr(cls, "from_dict"):
        return cls.from_dict(state)
    return _make_model(cls, **state) if cls in ESTIMATORS else cls(**state)


def _make_model(cls: Any, parameters: dict[str, Any], learned: dict[str, Any]) -> Any:
    unknown = sorted(set(parameters) - set(inspect.signature(cls).parameters))
    if unknown:
        raise ValueError(f"{cls.__name__} has no parameter {unknown[0][:60]!r} in this version of mmtfl")
    model = cls(**parameters)
    model._check_parameters()
    for name, value in learned.items():
        # a method or a property must not be hidden by data
        if not LEARNED.fullmatch(name) or hasattr(cls, name):
            raise ValueError(f"{cls.__name__} cannot have learned {name[:60]!r}")
        vars(model)[name] = value
    if learned:  # a model that is searched over need not be fitted
        _check_shapes(model._fitted())
    return model


def _check_shapes(model: Any) -> None:
    """Check what every prediction needs."""
    n_tasks, n_features = model.coef_.shape
    shapes = {"coef_": (n_tasks, n_features), "intercept_": (n_tasks,), "tasks_": (n_tasks,)}
    shapes |= {"feature_names_in_": (n_features,)} if hasattr(model, "feature_names_in_") else {}
    shapes |= {"classes_": (2,)} if is_classifier(model) else {}
    wrong = [name for name, shape in shapes.items() if getattr(model, name).shape != shape]
    if wrong or model.n_features_in_ != n_features or len(np.unique(model.tasks_)) < n_tasks:
        raise ValueError(f"{(*wrong, 'n_features_in_')[0]} is not what a {type(model).__name__} has learned")
    if model.coef_.dtype.kind != "f" or model.intercept_.dtype.kind != "f":
        raise ValueError("coefficients are not numbers")
