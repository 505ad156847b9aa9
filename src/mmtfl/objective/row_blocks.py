"""Blocks of rows that are penalised together, in the layout of the kernels; docs/model.md section 11."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from mmtfl.objective.penalties import RowPenalty


class Blocks(NamedTuple):
    """Runs of rows, and the record of each run for the compiled row solver.

    Attributes
    ----------
    members, starts : ndarray of int
        Rows, block by block: block b is members[starts[b]:starts[b + 1]].
    records, places : ndarray
        What the row solver knows of each block; that of block b is records[places[b]:places[b + 1]].
    """

    members: np.ndarray
    starts: np.ndarray
    records: np.ndarray
    places: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each block."""
        return np.diff(self.starts)


def blocks_of(penalty: RowPenalty, rows: np.ndarray) -> Blocks:
    """The blocks of some rows of a penalty with groups, of which all rows are there, in their order."""
    assert penalty.known is not None
    groups = penalty.known.group_index[rows]
    _, first, own = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[own]  # blocks in the order of their first rows
    order = np.argsort(rank, kind="stable")
    members = rows[order].astype(np.intp)
    sizes = np.bincount(rank)
    starts = np.cumsum([0, *sizes]).astype(np.intp)
    numbers = penalty.row_numbers(len(penalty.known.positive))[members]
    whole = penalty.known.group_sizes[members[starts[:-1]]]
    strengths = penalty.group_strengths(numbers[starts[:-1], :2], whole)
    strengths[:, 0] = np.where(np.isinf(numbers[starts[:-1], 0]), np.inf, strengths[:, 0])
    scale, positive = np.hsplit(numbers[:, 2:], 2)
    parts = [
        np.concatenate([strengths[b], scale[lo:hi].ravel(), positive[lo:hi].ravel()])
        for b, (lo, hi) in enumerate(pairwise(starts))
    ]
    places = np.cumsum([0, *map(len, parts)]).astype(np.intp)
    return Blocks(members, starts, np.concatenate([np.empty(0), *parts]), places)


def block_violation(
    penalty: RowPenalty, A: np.ndarray, gradient: np.ndarray, curvature: np.ndarray
) -> np.ndarray:
    """Distance of each row to its block's best answer, in units of the gradient; eq. (8).

    The sum of the curvatures of a block's rows bounds that of the block, in every task.
    """
    from mmtfl.kernels.block_rows import block_violations

    if not len(A):
        return np.zeros(0)
    assert penalty.known is not None
    index = penalty.known.group_index
    bound = np.column_stack([np.bincount(index, column)[index] for column in curvature.T])
    blocks = blocks_of(penalty, np.arange(len(A)))
    return block_violations(
        penalty.row_solver(), np.ascontiguousarray(A), np.ascontiguousarray(gradient), bound,
        penalty.member_numbers, blocks.members, blocks.starts, blocks.records, blocks.places,
    )  # fmt: skip


def block_solutions(penalty: RowPenalty, slope: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Minimiser of each block's problem ``L/2 a^2 - g a + phi``."""
    from mmtfl.kernels.row_problem import solve_rows

    out, blocks = np.empty(slope.shape), blocks_of(penalty, np.arange(len(slope)))
    for b in range(len(blocks.sizes)):
        rows = blocks.members[blocks.starts[b] : blocks.starts[b + 1]]
        record = blocks.records[None, blocks.places[b] : blocks.places[b + 1]]
        found = np.empty((1, slope[rows].size))
        own = (part[rows].reshape(1, -1) for part in (slope, curvature))
        solve_rows(penalty.row_solver(), *own, penalty.member_numbers, record, found)
        out[rows] = found.reshape(len(rows), -1)
    return out
