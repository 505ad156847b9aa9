"""Least-squares models of blocks of rows, for sweeps over groups of features; docs/model.md section 11."""

from collections.abc import Callable

import numpy as np

from mmtfl.objective.known_features import blocks_of
from mmtfl.objective.penalties import RowPenalty

_NOTHING = 1e-13  # eigenvalues below this share of the largest are rounding


def block_model(
    penalty: RowPenalty, rows: np.ndarray, grams: Callable[[np.ndarray], np.ndarray], curvature: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The blocks of some rows, the curvature of their entries, and bases in which it is diagonal.

    `grams` gives the Gram matrices of some rows in every task, and `curvature` is that of single rows. The
    Euclidean norm does not change where a task's entries of a block are turned, so for
    p = 2 a block is solved exactly in the eigenvectors of its Gram matrices. For other p, with pooling, and
    where the entries of a block differ in scale or have signs, their curvature is bounded instead.
    """
    blocks = blocks_of(penalty, rows)
    of_entries, bases, basis_at, room = [np.empty(0)], [np.empty(0)], [], 0
    for b, size in enumerate(blocks.sizes):
        members = blocks.members[blocks.starts[b] : blocks.starts[b + 1]]
        own, basis = curvature[members], None
        if size > 1:
            matrices = grams(members)
            own, basis = _turned(matrices) if can_turn(penalty, members) else (_bounds(matrices, own), None)
        of_entries.append(own.ravel())
        basis_at.append(-1 if basis is None else room)
        if basis is not None:
            bases.append(basis.ravel())
            room += basis.size
    return (*blocks, np.concatenate(of_entries), np.concatenate(bases), np.array(basis_at, dtype=np.intp))


def can_turn(penalty: RowPenalty, members: np.ndarray) -> bool:
    """Whether the penalty of a block does not change where its entries are turned within a task."""
    known = penalty.known
    assert known is not None
    scale = known.scale[members]
    alike = not known.positive[members].any() and bool(np.all(scale == scale[0]))
    return penalty.p == 2.0 and not penalty.is_centred and alike


def _turned(grams: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Curvature of a block's entries, (n, n_tasks), in the eigenvectors of its Gram matrices."""
    values, vectors = np.linalg.eigh(grams)
    values[values <= _NOTHING * values[:, -1:]] = 0.0
    return values.T, vectors


def _bounds(grams: np.ndarray, curvature: np.ndarray) -> np.ndarray:
    """Curvature of single entries, (n, n_tasks), that bounds a block's.

    That is the largest eigenvalue of the Gram matrix with a diagonal of ones, in units of the diagonal. A
    constant column has no curvature.
    """
    diagonal = np.diagonal(grams, axis1=1, axis2=2)
    unit = np.divide(1.0, np.sqrt(diagonal), out=np.zeros_like(diagonal), where=diagonal > 0.0)
    largest = np.linalg.eigvalsh(grams * unit[:, :, None] * unit[:, None, :])[:, -1]
    return np.where(curvature > 0.0, (largest[:, None] * diagonal).T, 0.0)
