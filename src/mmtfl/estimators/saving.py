"""A fitted model as a tree of values for one file; `mmtfl.estimators.loading` reads it again.

How to have something new saved: let `fit` assign it to an attribute whose name ends in ``_``. Numbers, text,
None, lists, tuples, dicts, arrays, frames and pandas Series need nothing more. A dataclass of mmtfl is saved
by its fields, another class by its ``as_dict`` and made again by its ``from_dict``: add such a class to
``OTHERS`` in `mmtfl.estimators.loading`, the list of classes that a file may name.
"""

import inspect
import os
import re
import warnings
from dataclasses import fields
from typing import Any

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mmtfl.persistence.archive import NotSavable, Packer, write_archive
from mmtfl.persistence.files import check_target
from mmtfl.persistence.json_values import plain
from mmtfl.tasks.frames import frame_backend

STRENGTHS = ("p", "k", "alpha", "pooling", "cap", "alpha_shared", "alpha_specific", "alpha_outlier")
TRAINING = ("objective_", "violation_", "dual_gap_", "n_iter_", "converged_", "best_score_")
LEARNED = re.compile(r"[A-Za-z][A-Za-z0-9_]*_|_backend|_predicts_matrix")  # attributes that `fit` sets


class Savable:
    """`save` for estimators."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Save the fitted model in one file, for `mmtfl.load`.

        Predictions of the loaded model are the same, bit for bit. Parameters with no place in a file, such
        as an engine or a splitter of your own, are left out with a warning: predictions do not need them.

        Parameters
        ----------
        path : str or path
            The file, by custom ``something.mmtfl``. It is written whole or not at all.
        overwrite : bool, default=True
            Whether a file of that name may be replaced.
        """
        import mmtfl

        check_is_fitted(self)
        check_target(path, overwrite=overwrite)
        self._check_parameters()  # type: ignore[attr-defined]  # a file holds what can be loaded again
        states = _States()
        content = {"library": mmtfl.__version__, "about": about(self), "model": self}
        write_archive(path, content, state_of=states.state_of, overwrite=overwrite)
        if states.left_out:
            warnings.warn(
                f"Not kept in {os.fspath(path)!r}, which has no place for it: {', '.join(states.left_out)}. "
                "Predictions do not need it; set it again after loading, before another fit.",
                UserWarning,
                stacklevel=2,
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
        from mmtfl.estimators.loading import CLASSES

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
