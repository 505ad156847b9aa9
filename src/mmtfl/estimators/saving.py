"""A fitted model as JSON and arrays, and back with every part of it checked.

JSON has no tuples, infinities, arrays or estimators: each is an object with one name that says what it is,
as in ``{"tuple": [1, 2]}`` or ``{"array": 3}``. A name from a file is looked up in a given list, never
imported.
"""

import inspect
import math
import os
import re
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.learned_attributes import Unsound, check_learned
from mmtfl.persistence.archive import can_store, write_archive
from mmtfl.persistence.files import check_target
from mmtfl.persistence.json_values import plain

STRENGTHS = ("p", "k", "alpha", "pooling", "cap", "alpha_shared", "alpha_specific", "alpha_outlier")
TRAINING = ("objective_", "violation_", "dual_gap_", "n_iter_", "converged_", "best_score_")
DEEPEST = 40  # far beyond any model, far below what Python's recursion allows
NONFINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
LEARNED = re.compile(r"[A-Za-z][A-Za-z0-9_]*_|_backend|_predicts_matrix")  # attributes that `fit` sets
_COMPUTED = "B_"  # earlier versions kept it in their files


class NotSavable(TypeError):
    """A value with no place in a saved model."""


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
        packer = Packer()
        packed = packer.pack_model(self)
        content = {"library": mmtfl.__version__, "about": about(self), "model": packed}
        write_archive(path, content, packer.arrays, overwrite=overwrite)
        if packer.left_out:
            warnings.warn(
                f"Not kept in {os.fspath(path)!r}, which has no place for it: {', '.join(packer.left_out)}. "
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


def model_from_state(
    content: Any,
    arrays: list[np.ndarray],
    classes: Mapping[str, Any],
    needed: Mapping[str, tuple[str, ...]],
) -> Any:
    """Make a fitted model from the content of a file.

    Parameters
    ----------
    content, arrays
        What the file holds.
    classes : mapping of str to class
        All the classes a file may name.
    needed : mapping of str to tuple of str
        What a fitted model of each class has, beyond what all have.

    Returns
    -------
    model : estimator
        Fitted; parameters, names and shapes are checked.
    """
    if not isinstance(content, dict) or not {"library", "model"} <= set(content):
        raise Unsound("it holds no model")
    unpacker = Unpacker(arrays, classes)
    model = unpacker.unpack_model(content["model"])
    if any(array is not None for array in unpacker.arrays):
        raise Unsound("it has arrays that belong to nothing")
    check_is_fitted(model)
    for part in unpacker.models:
        learned = vars(part).keys() - part.get_params(deep=False).keys()
        if learned:  # a model that is searched over need not be fitted
            check_learned(part, needed[type(part).__name__])
            _complete(part)
    return model


def _complete(model: Any) -> None:
    """Add what files of versions without pooling lack: there was no common part."""
    learned = vars(model)
    learned.pop(_COMPUTED, None)
    if "best_p_" in learned:
        learned.setdefault("best_pooling_", 0.0)
    if "c_" in learned:
        learned.setdefault("common_", np.zeros(len(learned["c_"])))


# -- values ------------------------------------------------------------------------------------------------


class Packer:
    """Converts values to JSON, and collects the arrays.

    Attributes
    ----------
    arrays : list of ndarray
        Arrays met so far: ``{"array": i}`` is the i-th.
    left_out : list of str
        Parameters and attributes with no place in a file.
    """

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self.left_out: list[str] = []

    def pack(self, value: Any, depth: int = 0) -> Any:
        """Pack one value."""
        if depth > DEEPEST:
            raise NotSavable(f"values nested more than {DEEPEST} deep")
        if value is None or isinstance(value, bool | np.bool_):
            return None if value is None else bool(value)
        if isinstance(value, str):
            return str(value)
        if isinstance(value, Integral):
            return int(value)
        if isinstance(value, Real):
            number = float(value)
            return number if math.isfinite(number) else {"float": str(number)}
        if isinstance(value, np.ndarray):
            return self._pack_array(value)
        if isinstance(value, list):
            return [self.pack(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return {"tuple": [self.pack(item, depth + 1) for item in value]}
        if isinstance(value, dict) and all(type(key) is int for key in value) and value:
            return {"numbered": [[key, self.pack(item, depth + 1)] for key, item in value.items()]}
        if isinstance(value, dict):
            return {"dict": self._pack_items(value, depth)}
        if hasattr(value, "as_dict") and _is_ours(value):
            state = self._pack_items(value.as_dict(), depth)
            return {"object": {"class": type(value).__name__, "state": state}}
        if isinstance(value, BaseEstimator):
            return {"model": self.pack_model(value, depth + 1)}
        raise NotSavable(f"a {type(value).__name__}")

    def _pack_items(self, items: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        for key in items:
            if not isinstance(key, str):
                raise NotSavable(f"a dict with the key {key!r}, which is not a string")
        return {str(key): self.pack(item, depth + 1) for key, item in items.items()}

    def _pack_array(self, array: np.ndarray) -> dict[str, Any]:
        if array.dtype.kind == "O":
            values = [self.pack(item) for item in array.ravel().tolist()]
            if any(isinstance(item, dict | list) for item in values):
                raise NotSavable("an array of objects")
            return {"objects": {"shape": list(array.shape), "values": values}}
        if type(array) is not np.ndarray or not can_store(array):
            raise NotSavable(f"an array of dtype {array.dtype}")
        self.arrays.append(array)
        return {"array": len(self.arrays) - 1}

    def pack_model(self, model: Any, depth: int = 0) -> dict[str, Any]:
        """Pack an estimator: its class by name, its parameters, and what it has learned."""
        if not _is_ours(model):
            raise NotSavable(
                f"{type(model).__name__} is not an estimator of mmtfl, and a file names no other class: "
                "fit the class of mmtfl it was made from, and save that."
            )
        params = model.get_params(deep=False)
        parameters = {name: self._pack_parameter(model, name, params[name], depth) for name in params}
        learned = {}
        for name in sorted(vars(model).keys() - params.keys()):
            if not LEARNED.fullmatch(name):
                self.left_out.append(name)
                continue
            try:
                learned[name] = self.pack(vars(model)[name], depth + 1)
            except NotSavable as error:
                raise NotSavable(
                    f"{name} holds {error}, which a model file has no place for: use numbers, strings, "
                    "lists, dicts and arrays, or delete the attribute before saving."
                ) from None
        return {"class": type(model).__name__, "parameters": parameters, "learned": learned}

    def _pack_parameter(self, model: Any, name: str, value: Any, depth: int) -> Any:
        known = len(self.arrays)
        try:
            return self.pack(value, depth + 1)
        except NotSavable:
            default = model._parameters[name].default
            if default is inspect.Parameter.empty:
                raise
            del self.arrays[known:]
            self.left_out.append(name)
            return self.pack(default, depth + 1)


class Unpacker:
    """Converts JSON and arrays back to values; every array is used once.

    Parameters
    ----------
    arrays : list of ndarray
        The arrays of the file.
    classes : mapping of str to class
        All the classes a file may name: estimators, and classes with ``from_dict``.
    """

    def __init__(self, arrays: list[np.ndarray], classes: Mapping[str, Any]):
        self.arrays: list[np.ndarray | None] = list(arrays)
        self.classes = classes
        self.models: list[Any] = []

    def unpack(self, packed: Any, depth: int = 0) -> Any:
        """Unpack one value."""
        if depth > DEEPEST:
            raise Unsound(f"values are nested more than {DEEPEST} deep")
        if packed is None or isinstance(packed, bool | int | float | str):
            return packed
        if isinstance(packed, list):
            return [self.unpack(item, depth + 1) for item in packed]
        if len(packed) != 1:
            raise Unsound("a value is of no known kind")
        ((kind, content),) = packed.items()
        if kind == "float" and content in NONFINITE:
            return NONFINITE[content]
        if kind == "tuple" and isinstance(content, list):
            return tuple(self.unpack(item, depth + 1) for item in content)
        if kind == "dict" and isinstance(content, dict):
            return {key: self.unpack(item, depth + 1) for key, item in content.items()}
        if kind == "numbered":
            return {key: self.unpack(item, depth + 1) for key, item in _numbered(content)}
        if kind == "array" and type(content) is int:
            return self._take_array(content)
        if kind == "objects":
            return _object_array(*_fields(content, "shape", "values"))
        if kind == "model":
            return self.unpack_model(content, depth + 1)
        if kind == "object":
            name, state = _fields(content, "class", "state")
            return self._unpack_object(name, state, depth)
        raise Unsound(f"a value is of the unknown kind {kind[:40]!r}")

    def _take_array(self, i: int) -> np.ndarray:
        array = self.arrays[i] if 0 <= i < len(self.arrays) else None
        if array is None:
            raise Unsound(f"array {i} is missing, or used twice")
        self.arrays[i] = None
        return array

    def _unpack_object(self, name: str, state: Any, depth: int) -> Any:
        cls: Any = self.classes.get(name)
        if not hasattr(cls, "from_dict") or not isinstance(state, dict):
            raise Unsound(f"{name[:40]!r} is not a known kind of object")
        return cls.from_dict({key: self.unpack(item, depth + 1) for key, item in state.items()})

    def unpack_model(self, content: Any, depth: int = 0) -> Any:
        """Unpack an estimator; its parameters are checked, what it has learned is not yet."""
        name, parameters, learned = _fields(content, "class", "parameters", "learned")
        cls = self.classes.get(name)
        if not (isinstance(cls, type) and issubclass(cls, BaseEstimator)):
            raise Unsound(f"{name[:60]!r} is not an estimator of this version of mmtfl")
        if not isinstance(parameters, dict) or not isinstance(learned, dict):
            raise Unsound(f"the parameters of {name} are not named")
        unknown = sorted(set(parameters) - set(inspect.signature(cls).parameters))
        if unknown:
            raise Unsound(f"{name} has no parameter {unknown[0][:60]!r} in this version of mmtfl")
        model = cls(**{key: self.unpack(item, depth + 1) for key, item in parameters.items()})
        model._check_parameters()
        for key, item in learned.items():
            # a method or a property must not be hidden by data
            if not LEARNED.fullmatch(key) or (hasattr(cls, key) and key != _COMPUTED):
                raise Unsound(f"{name} cannot have learned {key[:60]!r}")
            vars(model)[key] = self.unpack(item, depth + 1)
        self.models.append(model)
        return model


def _is_ours(value: Any) -> bool:
    """Tell whether a value is of a class of mmtfl: `mmtfl.load` knows no others."""
    return type(value).__module__.partition(".")[0] == "mmtfl"


def _fields(content: Any, *names: str) -> list[Any]:
    """Return the values of an object with exactly these names; "class" must be a string."""
    if not isinstance(content, dict) or set(content) != set(names):
        raise Unsound(f"a value should have {', '.join(names)}, and nothing else")
    if names[0] == "class" and not isinstance(content["class"], str):
        raise Unsound("a class has no name")
    return [content[name] for name in names]


def _numbered(content: Any) -> list[Any]:
    """Return the items of a dict whose keys are whole numbers, such as labels of tasks."""
    pairs = content if isinstance(content, list) else [None]
    if not all(isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int for pair in pairs):
        raise Unsound("a dict with numbers for keys is not made of pairs")
    return pairs


def _object_array(shape: Any, values: Any) -> np.ndarray:
    plain = isinstance(values, list) and not any(isinstance(item, dict | list) for item in values)
    if not plain or not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise Unsound("an array of objects is not made of plain values")
    if math.prod(shape) != len(values) or len(shape) > 8 or math.prod(max(n, 1) for n in shape) >= 1 << 59:
        raise Unsound("an array of objects has a wrong shape")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)
