"""The losses: a `Loss` with a name in a file of this folder is one of all estimators."""

from importlib import import_module
from pkgutil import iter_modules

from mmtfl.objective.losses.built_in import Huber, Logistic, Poisson, Squared
from mmtfl.objective.losses.loss import KINDS, Loss, best_shifts, make_loss

__all__ = ["KINDS", "Huber", "Logistic", "Loss", "Poisson", "Squared", "best_shifts", "make_loss"]


def _find_all() -> None:
    """Import every file of this folder, so that its loss is known."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


_find_all()
