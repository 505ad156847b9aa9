"""Pictures of fitted models, as scikit-learn's Display objects."""

from mmtfl.plots.interval_display import IntervalDisplay
from mmtfl.plots.path_display import PathDisplay
from mmtfl.plots.search_display import HistoryDisplay, SearchDisplay
from mmtfl.plots.shared_part_display import SharedPartDisplay
from mmtfl.plots.sharing_map import SharingMapDisplay
from mmtfl.plots.support_display import EffectDisplay, SupportDisplay

__all__ = [
    "EffectDisplay",
    "HistoryDisplay",
    "IntervalDisplay",
    "PathDisplay",
    "SearchDisplay",
    "SharedPartDisplay",
    "SharingMapDisplay",
    "SupportDisplay",
]
