"""The row problem: one feature of all tasks, solved in its own diagonal metric; docs/model.md section 5.

    minimise over a in R^T   sum_t L_t/2 a_t^2 - g_t a_t + phi(||a||_p)

with curvatures L_t >= 0 and slopes g_t (``g = L z`` for a prox at z). At a stationary point every task obeys
a scalar equation once the row's norm is known, so a row costs one root.

Each p has its own solver, in `sum_and_max_norms` or `smooth_norms`. A solver is compiled when it is first
needed and is passed by address (`row_solver`): a first fit compiles only the solver it needs, and the callers
of row solvers are compiled once for all of them.
"""

from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from mmtfl.kernels.compiling import compiled_callback
from mmtfl.kernels.row_functions import (
    LOGARITHM,
    POWER,
    copy,
    entry,
    exact,
    fill,
    norm_p,
    row_value,
)
from mmtfl.kernels.smooth_norms import (
    smallest_root,
    solve_concave_euclidean,
    solve_euclidean,
    solve_general,
    solve_group_lasso,
    step_euclidean,
    step_general,
)
from mmtfl.kernels.sum_and_max_norms import solve_max_norm, solve_separable, solve_sum_norm

# A row solver is called by its address: numba takes 30 us to pass a function as an argument, which is longer
# than many kernels run. Its arguments are g, L, their length, member, row, present row, thorough and out, the
# arrays as pointers. `member` holds the parameters that all rows share and `row` those of this row, its
# strength first, so a penalty may have any number of parameters.
_ROW = types.CPointer(types.float64)
_SIGNATURE = types.void(_ROW, _ROW, types.intp, _ROW, _ROW, _ROW, types.boolean, _ROW)


def _call(typing_context, address, g, L, member, row, present, thorough, out):
    """Call the row solver at an address; see `row_solver`."""
    signature = types.void(address, g, L, member, row, present, thorough, out)

    def generate(context, builder, signature, arguments):
        def array(i):
            return context.make_array(signature.args[i])(context, builder, arguments[i])

        flag = context.data_model_manager[types.boolean].as_argument(builder, arguments[6])
        rows = [array(i).data for i in range(1, 6)]
        passed = [*rows[:2], array(1).nitems, *rows[2:], flag, array(7).data]
        kinds = [context.get_argument_type(kind) for kind in _SIGNATURE.args]
        function = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(builder.inttoptr(arguments[0], function.as_pointer()), passed)
        return context.get_dummy_value()

    return signature, generate


call: Any = intrinsic(_call)


@exact
def _present_is_better(g, L, kind, p, r, alpha, eps, present, out):
    """Replace `out` by zero if zero is as good, and tell whether the present row is better than both."""
    value = row_value(out, g, L, kind, p, r, alpha, eps)
    if value >= 0.0:
        fill(out, 0.0)
        value = 0.0
    if norm_p(present, p) == 0.0:
        return False
    current = row_value(present, g, L, kind, p, r, alpha, eps)
    # up to rounding: near a minimum both values agree, and the move must still be made
    return value > current + 1e-12 * abs(current)


# alpha is finite in all of these: the callers set a row of infinite strength to zero themselves.


def _separable_row(g, L, n, member, row, present, thorough, out):
    solve_separable(carray(g, n), carray(L, n), member[0], row[0], carray(out, n))


def _sum_norm_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    r, alpha, eps = member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    solve_sum_norm(g, L, POWER, r, alpha, eps, present, thorough, out)
    if r < 1.0 and _present_is_better(g, L, POWER, 1.0, r, alpha, eps, present, out):
        copy(present, out)


def _group_lasso_row(g, L, n, member, row, present, thorough, out):
    solve_group_lasso(carray(g, n), carray(L, n), row[0], carray(present, n), carray(out, n))


def _euclidean_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    r, alpha, eps = member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    solve_euclidean(g, L, POWER, r, alpha, eps, norm_p(present, 2.0), out)


def _concave_euclidean_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    r, alpha, eps = member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    solve_concave_euclidean(g, L, r, alpha, out)
    if _present_is_better(g, L, POWER, 2.0, r, alpha, eps, present, out):
        step_euclidean(g, L, POWER, r, alpha, eps, present, out)


def _max_norm_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    r, alpha, eps = member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    solve_max_norm(g, L, POWER, r, alpha, eps, out)
    if r < 1.0 and _present_is_better(g, L, POWER, np.inf, r, alpha, eps, present, out):
        copy(present, out)


def _general_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    p, r, alpha, eps = member[0], member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    start = 0.0 if thorough else norm_p(present, p)
    solve_general(g, L, POWER, p, r, alpha, eps, start, out)
    if r < 1.0 and _present_is_better(g, L, POWER, p, r, alpha, eps, present, out):
        step_general(g, L, POWER, p, r, alpha, eps, present, out)


def _logarithm_row(g_at, L_at, n, member, row, present_at, thorough, out_at):
    p, r, alpha, eps = member[0], member[1], row[0], row[1]
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    if p == 1.0:
        solve_sum_norm(g, L, LOGARITHM, r, alpha, eps, present, thorough, out)
    elif p == 2.0:
        solve_euclidean(g, L, LOGARITHM, r, alpha, eps, norm_p(present, 2.0), out)
    else:
        solve_general(g, L, LOGARITHM, p, r, alpha, eps, 0.0 if thorough else norm_p(present, p), out)
    smallest = np.empty(n)
    smallest_root(g, L, p, alpha, eps, smallest)
    value = row_value(out, g, L, LOGARITHM, p, r, alpha, eps)
    if row_value(smallest, g, L, LOGARITHM, p, r, alpha, eps) < value:
        copy(smallest, out)
    if _present_is_better(g, L, LOGARITHM, p, r, alpha, eps, present, out):
        if p == 1.0:
            copy(present, out)
        elif p == 2.0:
            step_euclidean(g, L, LOGARITHM, r, alpha, eps, present, out)
        else:
            step_general(g, L, LOGARITHM, p, r, alpha, eps, present, out)


@cache
def compiled_row_solver(function):
    """Compile a row solver of the signature above."""
    return compiled_callback(_SIGNATURE, function, error_model="numpy")


def row_solver(kind, p, r):
    """Address of the compiled solver of the row problem of a member (p, r).

    Without a present row (zeros) the answer is exact for convex members and for p = 1 and p = inf; for the
    other concave ones it is the better of zero and the largest stationary row (for p = 2 and equal
    curvatures that is exact too). The answer is never worse than the present row. With `thorough` off,
    concave members but those of p = 2 and p = inf look only at zero and the stationary row next to the
    present one.
    """
    if kind == LOGARITHM:
        function = _logarithm_row
    elif r == p:
        function = _separable_row
    elif p == 1.0:
        function = _sum_norm_row
    elif p == 2.0 and r == 1.0:
        function = _group_lasso_row
    elif p == 2.0:
        function = _euclidean_row if r > 1.0 else _concave_euclidean_row
    else:
        function = _max_norm_row if p == np.inf else _general_row
    return compiled_row_solver(function).address


@entry
def solve_rows(solve, G, L, member, strengths, out):
    """Solve every row of G (rows, tasks); `strengths` holds the parameters of each row, alpha first."""
    zero = np.zeros(G.shape[1])
    for j in range(G.shape[0]):
        if strengths[j, 0] < np.inf:
            call(solve, G[j], L[j], member, strengths[j], zero, True, out[j])
        else:
            fill(out[j], 0.0)


@entry
def row_violations(solve, A, gradient, L, member, strengths):
    """Distance of every row from the solution of its own problem, in units of the gradient; eq. (8)."""
    n_rows, n_tasks = A.shape
    out = np.zeros(n_rows)
    g, best = np.empty(n_tasks), np.empty(n_tasks)
    for j in range(n_rows):
        for t in range(n_tasks):
            g[t] = L[j, t] * A[j, t] - gradient[j, t]
        if strengths[j, 0] < np.inf:
            call(solve, g, L[j], member, strengths[j], A[j], True, best)
        else:
            fill(best, 0.0)
        for t in range(n_tasks):
            out[j] = max(out[j], L[j, t] * abs(A[j, t] - best[t]))
    return out


# -- rows of which something is known: scales, signs, zeros; docs/model.md section 11 ------------------------


GONE = 1e300  # the strength of a row without penalised entries, of which those free of penalty are left


def _known_row(g_at, L_at, n, member_at, row_at, present_at, thorough, out_at):
    """Solve the problem of one row in the scales of its entries.

    The problem is diagonal in the entries, so with scales s it is that of g / s and L / s^2, of which the
    answer is divided by s. What is excluded is zero, what is free of penalty has no part in the norm, and an
    entry that may not be negative has no use for a negative slope. The record of a row is its alpha and eps,
    the scales of its entries, and which of them are positive; that of the member ends in the address of its
    own row solver.
    """
    g, L, present, out = carray(g_at, n), carray(L_at, n), carray(present_at, n), carray(out_at, n)
    member, row = carray(member_at, 5), carray(row_at, 2 + 2 * n)
    own_g, own_L, own_present, own_out = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    m = 0
    for t in range(n):
        scale, positive, slope = row[2 + t], row[2 + n + t] > 0.0, g[t]
        if positive:
            slope = max(slope, 0.0)
        out[t] = 0.0
        if scale == 0.0:
            if L[t] > 0.0:
                out[t] = slope / L[t]
        elif scale < np.inf:
            own_g[m], own_L[m] = slope / scale, L[t] / scale / scale
            own_present[m] = (max(present[t], 0.0) if positive else present[t]) * scale
            m += 1
    if m == 0 or row[0] >= GONE:
        return
    solve = int(member[4])
    call(solve, own_g[:m], own_L[:m], member, row[:2], own_present[:m], thorough, own_out[:m])
    m = 0
    for t in range(n):
        scale = row[2 + t]
        if 0.0 < scale < np.inf:
            out[t] = own_out[m] / scale
            m += 1


def known_row_solver():
    """Address of the compiled solver of rows of which something is known."""
    return compiled_row_solver(_known_row).address
