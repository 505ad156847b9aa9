"""Pictures of fitted models, as scikit-learn's Display objects; docs/plots.md shows them all."""

from mmtfl.report.plots import (
    HistoryDisplay,
    PathDisplay,
    PredictionDisplay,
    SearchDisplay,
    SharedPartDisplay,
    SharingMapDisplay,
)

__all__ = [
    "HistoryDisplay",
    "PathDisplay",
    "PredictionDisplay",
    "SearchDisplay",
    "SharedPartDisplay",
    "SharingMapDisplay",
]
