"""Pictures of fitted models, as scikit-learn's Display objects."""

from mmtfl.report.plots.history import HistoryDisplay
from mmtfl.report.plots.path import PathDisplay
from mmtfl.report.plots.prediction import PredictionDisplay
from mmtfl.report.plots.search import SearchDisplay
from mmtfl.report.plots.shared_part import SharedPartDisplay
from mmtfl.report.plots.sharing_map import SharingMapDisplay

__all__ = [
    "HistoryDisplay",
    "PathDisplay",
    "PredictionDisplay",
    "SearchDisplay",
    "SharedPartDisplay",
    "SharingMapDisplay",
]
