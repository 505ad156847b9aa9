"""Errors that tell the reader what to install."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["require"]


def require(module: str, extra: str | None = None) -> ModuleType:
    """Import an optional module, or say how to install it.

    Parameters
    ----------
    module : str
        Name of the module, possibly dotted.
    extra : str, optional
        The extra of this package that brings the module; None when no extra does.

    Returns
    -------
    module
        The imported module.

    Raises
    ------
    ImportError
        If the module is not installed.

    Examples
    --------
    >>> from mmtfl.errors import require
    >>> require("no_such_module", "frames")
    Traceback (most recent call last):
    ...
    ImportError: no_such_module is needed here and is not installed: pip install 'mmtfl[frames]'
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise  # the module is there, something it needs is not
        wanted = f"'mmtfl[{extra}]'" if extra else package
        message = f"{package} is needed here and is not installed: pip install {wanted}"
        raise ImportError(message, name=package) from None
