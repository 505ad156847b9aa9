"""Plain values that come from a file: used only if they are of the kind they should be."""

from __future__ import annotations

from typing import Any

__all__ = ["expect"]


def expect(value: Any, *allowed: Any) -> Any:
    """The value, if it is of one of the types or equal to one of the values.

    Parameters
    ----------
    value : JSON types
        What was read.
    *allowed : type or plain value
        What it may be.

    Returns
    -------
    value
        As it came.

    Examples
    --------
    >>> from mmtfl.tables.expect import expect
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
