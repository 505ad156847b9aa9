"""Warnings of this package, and errors that tell the reader what to install."""

from importlib import import_module
from types import ModuleType

__all__ = ["SmallTaskWarning", "UnitsWarning", "install_hint", "require"]


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


class SmallTaskWarning(UserWarning):
    """Some tasks have too few rows to say much of their own.

    Given by `fit` where there are several tasks and some have fewer than five rows, or fewer than ten and no
    coefficient.

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from mmtfl import MMTFLRegressor, SmallTaskWarning
    >>> X, task = np.random.default_rng(0).normal(size=(23, 2)), ["Aker"] * 20 + ["Bern"] * 3
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = MMTFLRegressor(alpha=0.1).fit(X, X[:, 0], task=task)
    >>> [one.category is SmallTaskWarning for one in caught], str(caught[0].message).partition(":")[0]
    ([True], '1 of 2 tasks has too few rows to say much of its own')
    """


class UnitsWarning(UserWarning):
    """The units of the columns decide what a fit keeps and drops.

    Given by `fit` without ``standardize`` where every column that is kept has at least a hundred times the
    standard deviation of every column that is dropped.

    Examples
    --------
    >>> import numpy as np, warnings
    >>> from mmtfl import MMTFLRegressor, UnitsWarning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2)) * [1000.0, 1.0]
    >>> y = X[:, 0] / 1000 + X[:, 1]
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = MMTFLRegressor(alpha=3.0).fit(X, y)
    >>> [one.category is UnitsWarning for one in caught], model.coef_.any(axis=0).tolist()
    ([True], [True, False])
    """


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
