"""Pictures of fitted models, as scikit-learn's Display objects."""

from mmtfl.plots.effect_displays import CurveDisplay, ForestDisplay, IntervalDisplay
from mmtfl.plots.fit_displays import HistoryDisplay, PathDisplay, SearchDisplay
from mmtfl.plots.sharing_map import SharedPartDisplay, SharingMapDisplay

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
