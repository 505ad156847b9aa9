"""The losses, one file each: a `Loss` with a name in a file of this folder is one of all estimators."""

from importlib import import_module
from pkgutil import iter_modules

from mmtfl.objective.losses.huber import Huber
from mmtfl.objective.losses.logistic import Logistic
from mmtfl.objective.losses.loss import KINDS, Loss, best_constant, make_loss
from mmtfl.objective.losses.poisson import Poisson
from mmtfl.objective.losses.squared import Squared

__all__ = ["KINDS", "Huber", "Logistic", "Loss", "Poisson", "Squared", "best_constant", "make_loss"]


def _find_all() -> None:
    """Import every file of this folder, so that its loss is known."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")


_find_all()
