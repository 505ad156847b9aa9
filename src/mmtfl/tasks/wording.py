"""Wording that error messages, reports and plots share."""

from typing import Any

import numpy as np


def count(number: int, what: str) -> str:
    """Write a number of things: ``count(2, "row")`` is "2 rows"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def not_finite_kind(value: float) -> str:
    """Name of a value that is not finite: NaN or infinity."""
    return "NaN" if np.isnan(value) else "infinity"


def show(names: Any, index: Any) -> str:
    """Write the label or name at an index as Python would, without numpy's type; None means no names.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.wording import show
    >>> show(np.array([7, 8]), 1), show(["age"], 0), show(None, 3)
    ('8', "'age'", '3')
    """
    if names is None:
        return str(index)
    name = names[index]
    return repr(name.item() if isinstance(name, np.generic) else name)
