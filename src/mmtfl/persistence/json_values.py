"""Values as JSON has them."""

from __future__ import annotations

import math
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """A value as strict JSON types: infinities become text, NaN becomes None.

    Parameters
    ----------
    value : object
        Numbers, text, and lists, dicts, arrays and dataclasses of them.

    Returns
    -------
    object
        The same, fit for ``json.dumps(..., allow_nan=False)``.

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
