"""The additive family A = P + Q: norms for the parts, and the objective they make."""

from mmtfl.objective.additive.norms import ColumnNorm, EntryNorm, Norm, RowNorm, TraceNorm
from mmtfl.objective.additive.objective import AdditiveObjective
from mmtfl.objective.additive.split_rows import SplitRows

__all__ = ["AdditiveObjective", "ColumnNorm", "EntryNorm", "Norm", "RowNorm", "SplitRows", "TraceNorm"]
