"""Numbers as JSON has them, and JSON as a page can hold it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np

# characters that could end the element or the line that JSON stands in
_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


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
    >>> from mmtfl.report.plain import plain
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


def as_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE)
