"""Pictures of fitted models, as scikit-learn's Display objects."""

from mmtfl.plots.curve_display import CurveDisplay
from mmtfl.plots.forest_display import ForestDisplay
from mmtfl.plots.interval_display import IntervalDisplay
from mmtfl.plots.path_display import PathDisplay
from mmtfl.plots.search_display import HistoryDisplay, SearchDisplay
from mmtfl.plots.shared_part_display import SharedPartDisplay
from mmtfl.plots.sharing_map import SharingMapDisplay

__all__ = [
    "CurveDisplay",
    "ForestDisplay",
    "HistoryDisplay",
    "IntervalDisplay",
    "PathDisplay",
    "SearchDisplay",
    "SharedPartDisplay",
    "SharingMapDisplay",
]
