"""Save a fitted model as a tree of values in one file, and load it: every class that a file may name is here.

How to have something new saved: let `fit` assign it to an attribute whose name ends in ``_``. Numbers, text,
None, lists, tuples, dicts, arrays, frames and pandas Series need nothing more. A dataclass of mmtfl is saved
by its fields, another class by its ``as_dict`` and made again by its ``from_dict``: add such a class to
``OTHERS``.
"""

import inspect
import os
import re
import warnings
from dataclasses import fields
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils.validation import check_is_fitted

import mmtfl
from mmtfl.errors import require
from mmtfl.estimators import two_strengths as two
from mmtfl.estimators.classification import MMTFLClassifier
from mmtfl.estimators.fitted_curves import Curves
from mmtfl.estimators.regression import MMTFLRegressor
from mmtfl.estimators.search import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.estimators.single_task import SingleTaskClassifierCV, SingleTaskRegressorCV
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.model_selection.splitting import TaskKFold, TaskTimeSplit
from mmtfl.persistence.archive import ModelFileError, NotSavable, Packer, plain, read_archive, write_archive
from mmtfl.persistence.files import check_target
from mmtfl.solvers.path import Path
from mmtfl.tables.encoder import TableEncoder
from mmtfl.tables.recipe import TableRecipe
from mmtfl.tasks.curve_basis import CurveBasis
from mmtfl.tasks.frames import frame_backend, make_frame

ESTIMATORS = (
    *(MMTFLRegressor, MMTFLClassifier, MMTFLRegressorCV, MMTFLClassifierCV),
    *(SingleTaskRegressorCV, SingleTaskClassifierCV, TwoStrengthCV, two.DirtyRegressor, two.DirtyClassifier),
    *(two.RobustRegressor, two.RobustClassifier, two.LowRankRegressor, two.LowRankClassifier),
    *(two.CappedRegressor, two.CappedClassifier),
)
OTHERS = (CurveBasis, Curves, Path, TableEncoder, TableRecipe, TaskKFold, TaskTimeSplit)
CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (*ESTIMATORS, *OTHERS)}
STRENGTHS = ("p", "k", "alpha", "pooling", "cap", "alpha_shared", "alpha_specific", "alpha_outlier")
TRAINING = ("objective_", "violation_", "dual_gap_", "n_iter_", "converged_", "best_score_")
LEARNED = re.compile(r"[A-Za-z][A-Za-z0-9_]*_|_backend|_predicts_matrix")  # attributes that `fit` sets

# -- saving --------------------------------------------------------------------------------------------------


def save_model(model: Any, path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Save a fitted model in one file; see `Results.save`."""
    check_is_fitted(model)
    check_target(path, overwrite=overwrite)
    model._check_parameters()  # a file holds what can be loaded again
    states = _States()
    content = {"library": mmtfl.__version__, "about": about(model), "model": model}
    write_archive(path, content, state_of=states.state_of, overwrite=overwrite)
    if states.left_out:
        warnings.warn(
            f"Not kept in {os.fspath(path)!r}, which has no place for it: {', '.join(states.left_out)}. "
            "Predictions do not need it; set it again after loading, before another fit.",
            UserWarning,
            stacklevel=3,
        )


def about(model: Any) -> dict[str, Any]:
    """Describe a model for people who open the file, in plain JSON; `load` does not read it."""
    fitted = model._fitted()
    params = fitted.get_params(deep=False)
    strengths = {name: params[name] for name in STRENGTHS if name in params}
    chosen = {"p": "best_p_", "k": "best_k_", "pooling": "best_pooling_", "alpha": "alpha_"}
    strengths |= {name: getattr(fitted, found) for name, found in chosen.items() if hasattr(fitted, found)}
    return {
        "class": type(model).__name__,
        **plain(strengths),
        "tasks": fitted.tasks_.tolist(),
        "n_features": int(fitted.n_features_in_),
        "training": plain(
            {name.rstrip("_"): getattr(model, name) for name in TRAINING if hasattr(model, name)}
        ),
    }


class _States:
    """Names and states of the objects in a model, and the parameters and attributes that are left out."""

    def __init__(self) -> None:
        self.left_out: list[str] = []

    def state_of(self, value: Any) -> tuple[str, Any]:
        """The name of a value's kind, and its state."""
        if nw.dependencies.is_into_dataframe(value):
            frame = nw.from_native(value, eager_only=True)
            columns = {name: frame.get_column(name).to_numpy() for name in frame.columns}
            return "frame", {"backend": frame_backend(value), "columns": columns}
        if nw.dependencies.is_pandas_series(value):
            parts = {"values": value.to_numpy(), "index": np.asarray(value.index), "name": value.name}
            return "series", parts
        return type(value).__name__, self._fields(value)

    def _fields(self, value: Any) -> dict[str, Any]:
        if type(value) not in CLASSES.values():
            raise NotSavable(f"a {type(value).__name__}, which is no class that a file may name")
        if hasattr(value, "as_dict"):
            return value.as_dict()
        if isinstance(value, BaseEstimator):
            return {"parameters": self._parameters(value), "learned": self._learned(value)}
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}

    def _parameters(self, model: Any) -> dict[str, Any]:
        found = model.get_params(deep=False)
        for name, value in found.items():
            default = model._parameters[name].default
            if default is not inspect.Parameter.empty and self._obstacle(value):
                self.left_out.append(name)
                found[name] = default
        return found

    def _learned(self, model: Any) -> dict[str, Any]:
        learned = {}
        for name in sorted(vars(model).keys() - model.get_params(deep=False).keys()):
            if not LEARNED.fullmatch(name):
                self.left_out.append(name)
                continue
            learned[name] = vars(model)[name]
            if obstacle := self._obstacle(learned[name]):
                raise NotSavable(
                    f"{name} holds {obstacle}, which a model file has no place for: use numbers, strings, "
                    "lists, dicts and arrays, or delete the attribute before saving."
                )
        return learned

    def _obstacle(self, value: Any) -> NotSavable | None:
        """Why a value cannot be saved, if it cannot."""
        try:
            Packer(_States().state_of).pack(value)
        except NotSavable as error:
            return error
        return None


# -- loading -------------------------------------------------------------------------------------------------


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
