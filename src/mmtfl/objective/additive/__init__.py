"""The additive family A = P + Q: norms for the parts, and the penalty they make."""

from mmtfl.objective.additive.norms import ColumnNorm, EntryNorm, Norm, RowNorm, TraceNorm
from mmtfl.objective.additive.split_rows import SplitRows
from mmtfl.objective.additive.two_norms import TwoNorms

__all__ = ["ColumnNorm", "EntryNorm", "Norm", "RowNorm", "SplitRows", "TraceNorm", "TwoNorms"]
