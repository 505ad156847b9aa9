"""Python values as JSON and arrays, and back: what a saved model is made of.

JSON has no tuples, infinities, arrays or estimators: each is an object with one name that says what it is,
as in ``{"tuple": [1, 2]}`` or ``{"array": 3}``. A name from a file is looked up in a given list, never
imported.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from mmtfl.persistence.archive import can_store

DEEPEST = 40  # far beyond any model, far below what Python's recursion allows
NONFINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
PRIVATE = ("_backend", "_predicts_matrix")  # learned by fit, though they are no one's to read
LEARNED = re.compile(r"[A-Za-z][A-Za-z0-9_]*_")


class NotSavable(TypeError):
    """A value with no place in a saved model."""


class Unsound(ValueError):
    """Packed values that no model has written."""


def is_learned(name: str) -> bool:
    """Tell whether an attribute is something that `fit` has learned, by its name."""
    return name in PRIVATE or LEARNED.fullmatch(name) is not None


class Packer:
    """Turns values into JSON, and keeps the arrays apart.

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
        if isinstance(value, dict):
            return {"dict": self._pack_items(value, depth)}
        if isinstance(value, BaseEstimator):
            return {"model": self.pack_model(value, depth + 1)}
        if hasattr(value, "as_dict") and _is_ours(value):
            state = self._pack_items(value.as_dict(), depth)
            return {"object": {"class": type(value).__name__, "state": state}}
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
        learned = {name: value for name, value in vars(model).items() if name not in params}
        self.left_out += [name for name in learned if not is_learned(name)]
        return {
            "class": type(model).__name__,
            "parameters": {
                name: self._pack_parameter(model, name, value, depth) for name, value in params.items()
            },
            "learned": {
                name: self._pack_learned(name, learned[name], depth)
                for name in sorted(filter(is_learned, learned))
            },
        }

    def _pack_parameter(self, model: Any, name: str, value: Any, depth: int) -> Any:
        known = len(self.arrays)
        try:
            return self.pack(value, depth + 1)
        except NotSavable:
            default = inspect.signature(type(model)).parameters[name].default
            if default is inspect.Parameter.empty:
                raise
            del self.arrays[known:]
            self.left_out.append(name)
            return self.pack(default, depth + 1)

    def _pack_learned(self, name: str, value: Any, depth: int) -> Any:
        try:
            return self.pack(value, depth + 1)
        except NotSavable as error:
            raise NotSavable(
                f"{name} holds {error}, which a model file has no place for: use numbers, strings, lists, "
                "dicts and arrays, or delete the attribute before saving."
            ) from None


class Unpacker:
    """Turns JSON and arrays back into values; every array is used once.

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
        if kind == "array" and type(content) is int:
            return self._take_array(content)
        if kind == "objects":
            return _object_array(**_fields(content, "shape", "values"))
        if kind == "model":
            return self.unpack_model(content, depth + 1)
        if kind == "object":
            return self._unpack_object(depth=depth, **_named_class(_fields(content, "class", "state")))
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
        fields = _named_class(_fields(content, "class", "parameters", "learned"))
        name, parameters, learned = fields["name"], fields["parameters"], fields["learned"]
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
            if not is_learned(key) or hasattr(cls, key):
                raise Unsound(f"{name} cannot have learned {key[:60]!r}")
            vars(model)[key] = self.unpack(item, depth + 1)
        self.models.append(model)
        return model

    def check_all_used(self) -> None:
        """Check that no array is left over."""
        if any(array is not None for array in self.arrays):
            raise Unsound("it has arrays that belong to nothing")


def _is_ours(value: Any) -> bool:
    """Whether `mmtfl.load` will know the class, which is never one of the user's own."""
    return type(value).__module__.partition(".")[0] == "mmtfl"


def _fields(content: Any, *names: str) -> dict[str, Any]:
    if not isinstance(content, dict) or set(content) != set(names):
        raise Unsound(f"a value should have {', '.join(names)}, and nothing else")
    return content


def _named_class(fields: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(fields["class"], str):
        raise Unsound("a class has no name")
    return {"name": fields["class"], **{key: value for key, value in fields.items() if key != "class"}}


def _object_array(shape: Any, values: Any) -> np.ndarray:
    plain = isinstance(values, list) and not any(isinstance(item, dict | list) for item in values)
    if not plain or not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise Unsound("an array of objects is not made of plain values")
    if math.prod(shape) != len(values) or len(shape) > 8 or math.prod(max(n, 1) for n in shape) >= 1 << 59:
        raise Unsound("an array of objects has a wrong shape")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array.reshape(shape)
