"""The row problem where something is known of its entries: scales, signs, zeros; docs/model.md section 11.

The problem is diagonal in the entries, so with scales s it is that of g / s and L / s^2, of which the answer
is divided by s. What is excluded is zero, what is free of penalty has no part in the norm, and an entry that
may not be negative has no use for a negative slope. The record of a row is its alpha and eps, the scales of
its entries, and which of them are positive; that of the member ends in the address of its own row solver.
"""

import numpy as np
from numba import carray

from mmtfl.kernels.row_problem import call, compiled_row_solver

GONE = 1e300  # the strength of a row without penalised entries, of which those free of penalty are left


def _known_row(g_at, L_at, n, member_at, row_at, present_at, thorough, out_at):
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


def row_solver():
    """Address of the compiled solver of rows of which something is known."""
    return compiled_row_solver(_known_row).address
