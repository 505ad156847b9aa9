"""Norms of the additive family by a conic solver and by numpy."""

import cvxpy as cp
import numpy as np

from mmtfl.objective.norms import ColumnNorm, EntryNorm, TraceNorm


def conic_norm(norm, A):
    """A norm as a cvxpy expression."""
    if isinstance(norm, EntryNorm):
        return norm.alpha * cp.sum(cp.abs(A))
    if isinstance(norm, TraceNorm):
        return norm.alpha * cp.normNuc(A)
    axis = 0 if isinstance(norm, ColumnNorm) else 1
    return norm.alpha * cp.sum(cp.norm(A, getattr(norm, "p", 2), axis=axis))


def plain_norm(norm, A):
    """A norm by numpy."""
    if isinstance(norm, EntryNorm):
        return norm.alpha * np.abs(A).sum()
    if isinstance(norm, TraceNorm):
        return norm.alpha * np.linalg.norm(A, "nuc")
    axis = 0 if isinstance(norm, ColumnNorm) else 1
    return norm.alpha * np.linalg.norm(A, getattr(norm, "p", 2), axis=axis).sum()
