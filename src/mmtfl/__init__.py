"""Multitask feature learning: which features matter everywhere, which only somewhere, and what to predict."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmtfl import datasets as datasets
    from mmtfl import model_selection as model_selection
    from mmtfl import plots as plots
    from mmtfl.engines.dask import DaskEngine
    from mmtfl.errors import SmallTaskWarning, UnitsWarning
    from mmtfl.estimators.classification import MMTFLClassifier
    from mmtfl.estimators.coefficient_path import path
    from mmtfl.estimators.model_files import load
    from mmtfl.estimators.regression import MMTFLRegressor
    from mmtfl.estimators.search import MMTFLClassifierCV, MMTFLRegressorCV
    from mmtfl.estimators.single_task import SingleTaskClassifierCV, SingleTaskRegressorCV
    from mmtfl.estimators.two_strength_search import TwoStrengthCV
    from mmtfl.estimators.two_strengths import (
        CappedClassifier,
        CappedRegressor,
        DirtyClassifier,
        DirtyRegressor,
        LowRankClassifier,
        LowRankRegressor,
        RobustClassifier,
        RobustRegressor,
    )
    from mmtfl.objective.row_sizes import alpha_from_gammas, gammas_from_alpha
    from mmtfl.tables.encoder import TableEncoder
    from mmtfl.tasks.container import Tasks

__version__ = "0.2.0"

__all__ = [
    "CappedClassifier",
    "CappedRegressor",
    "DaskEngine",
    "DirtyClassifier",
    "DirtyRegressor",
    "LowRankClassifier",
    "LowRankRegressor",
    "MMTFLClassifier",
    "MMTFLClassifierCV",
    "MMTFLRegressor",
    "MMTFLRegressorCV",
    "RobustClassifier",
    "RobustRegressor",
    "SingleTaskClassifierCV",
    "SingleTaskRegressorCV",
    "SmallTaskWarning",
    "TableEncoder",
    "Tasks",
    "TwoStrengthCV",
    "UnitsWarning",
    "alpha_from_gammas",
    "gammas_from_alpha",
    "load",
    "path",
]

# Names are looked up when first asked for (PEP 562): `mmtfl --help` then needs no scikit-learn, and a script
# pays for what it uses.
_HOMES = {
    "mmtfl.tasks.container": ("Tasks",),
    "mmtfl.tables.encoder": ("TableEncoder",),
    "mmtfl.engines.dask": ("DaskEngine",),
    "mmtfl.errors": ("SmallTaskWarning", "UnitsWarning"),
    "mmtfl.estimators.two_strengths": (
        *("CappedClassifier", "CappedRegressor", "DirtyClassifier", "DirtyRegressor"),
        *("LowRankClassifier", "LowRankRegressor", "RobustClassifier", "RobustRegressor"),
    ),
    "mmtfl.estimators.classification": ("MMTFLClassifier",),
    "mmtfl.estimators.regression": ("MMTFLRegressor",),
    "mmtfl.objective.row_sizes": ("alpha_from_gammas", "gammas_from_alpha"),
    "mmtfl.estimators.two_strength_search": ("TwoStrengthCV",),
    "mmtfl.estimators.search": ("MMTFLClassifierCV", "MMTFLRegressorCV"),
    "mmtfl.estimators.coefficient_path": ("path",),
    "mmtfl.estimators.single_task": ("SingleTaskClassifierCV", "SingleTaskRegressorCV"),
    "mmtfl.estimators.model_files": ("load",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = ("datasets", "model_selection", "plots")


def __getattr__(name: str):
    if name in _MODULES:
        return import_module(f"mmtfl.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'mmtfl' has no attribute {name!r}")
    import_module("mmtfl.core")  # where it is not built, say so now and not in the middle of a fit
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(["__doc__", "__version__", *__all__, *_MODULES])
