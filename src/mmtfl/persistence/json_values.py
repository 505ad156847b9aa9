"""Conversion of values to strict JSON types, and checks of values that were read."""

import math
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Convert numbers, text, and lists, dicts, arrays and dataclasses of them to strict JSON types.

    The result is fit for ``json.dumps(..., allow_nan=False)``: infinity becomes text, NaN becomes None.

    Examples
    --------
    >>> from mmtfl.persistence.json_values import plain
    >>> plain({"k": float("inf"), "score": float("nan"), 3: (1, 2)})
    {'k': 'inf', 'score': None, '3': [1, 2]}
    """
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def expect(value: Any, *allowed: Any) -> Any:
    """Return a value that was read from a file, if it is of an allowed type or equal to an allowed value.

    Examples
    --------
    >>> from mmtfl.persistence.json_values import expect
    >>> expect("mean", "mean", "median", None)
    'mean'
    >>> expect(True, int)
    Traceback (most recent call last):
    ...
    ValueError: True is out of place
    """
    if any(type(value) is kind if isinstance(kind, type) else value == kind for kind in allowed):
        return value
    raise ValueError(f"{value!r} is out of place")
