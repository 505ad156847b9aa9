"""Errors that tell the reader what to install."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["install_hint", "require"]


def install_hint(extra: str) -> str:
    """Say how an extra of this package is installed.

    Parameters
    ----------
    extra : str
        Name of the extra.

    Examples
    --------
    >>> from mmtfl.errors import install_hint
    >>> print(install_hint("plots"))
    it comes with the extra 'plots' of mmtfl (in a checkout: pip install '.[plots]')
    """
    return f"it comes with the extra {extra!r} of mmtfl (in a checkout: pip install '.[{extra}]')"


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
    ImportError: no_such_module is needed here and is not installed: it comes with the extra 'frames' of
    mmtfl (in a checkout: pip install '.[frames]')
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise  # the module is there, something it needs is not
        remedy = install_hint(extra) if extra else f"pip install {package}"
        message = f"{package} is needed here and is not installed: {remedy}"
        raise ImportError(message, name=package) from None
