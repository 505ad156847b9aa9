"""The additive family by a conic solver: nothing here calls our objective or solvers."""

import warnings

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


def minimum(expression):
    """Minimum of a convex expression, at the tightest tolerance that the solver itself calls reached."""
    problem = cp.Problem(cp.Minimize(expression))
    for tolerance in (1e-10, 1e-9, 1e-8):
        options = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            problem.solve(solver=cp.CLARABEL, **options)
        if problem.status == cp.OPTIMAL:
            break
    assert problem.status == cp.OPTIMAL
    return problem.value
