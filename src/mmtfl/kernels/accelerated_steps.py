"""Compiled accelerated proximal steps on P, where columns Q are eliminated; docs/additive.md section 3.

    minimise over P (T, d)   sum_t min over q of 1/2 ||e_t - x_t p_t - X_t q||^2 + alpha ||q||   + norm of P

Here P is stored task by task, so that a task's coefficients are next to each other. Images live in the bases
of the tasks, where the best q only shrinks the residual. `mmtfl.solvers.part_solvers.accelerate` has the same
steps in numpy, for any norm.
"""

import math

import numpy as np

from mmtfl.kernels.row_functions import copy, entry, exact, exact_entry, inner, product
from mmtfl.kernels.split_rows_problem import euclidean_size

BY_ROWS, BY_SINGULAR_VALUES = 0, 1
GROWTH = 1.5  # of the curvature, when a step went further than its bound
_ORTHOGONAL = 1e-15  # cosine of two vectors that need no rotation
_ROTATIONS = 30  # sweeps over all pairs; six are enough


@entry
def forward(x, offsets, A, out):
    """out_t = x_t @ A[t] for the rows x_t of every task, with A (n_tasks, n_columns)."""
    for t in range(offsets.size - 1):
        for i in range(offsets[t], offsets[t + 1]):
            total = 0.0
            for j in range(x.shape[1]):
                total += x[i, j] * A[t, j]
            out[i] = total


@entry
def adjoint(x, offsets, v, out):
    """out[t] = x_t.T @ v_t for the rows x_t of every task, with out (n_tasks, n_columns)."""
    for t in range(offsets.size - 1):
        for j in range(x.shape[1]):
            out[t, j] = 0.0
        for i in range(offsets[t], offsets[t + 1]):
            for j in range(x.shape[1]):
                out[t, j] += x[i, j] * v[i]


@exact
def _shrink_features(Z, threshold, out):
    """Prox of the sum of the Euclidean norms of the columns of Z, which are the features."""
    for j in range(Z.shape[1]):
        largest, total = 0.0, 0.0
        for t in range(Z.shape[0]):
            largest = max(largest, abs(Z[t, j]))
        for t in range(Z.shape[0]):
            share = Z[t, j] / largest if largest > 0.0 else 0.0
            total += share * share
        size = largest * math.sqrt(total)
        left = (size - threshold) / size if size > threshold else 0.0
        for t in range(Z.shape[0]):
            out[t, j] = left * Z[t, j]


@inner
def _rotate(a, b, cosine, sine):
    for i in range(a.size):
        first, second = a[i], b[i]
        a[i] = cosine * first - sine * second
        b[i] = sine * first + cosine * second


@inner
def _orthogonalise(W, R):
    """Rotate the rows of W until they are orthogonal (one-sided Jacobi); R receives the same rotations."""
    for _ in range(_ROTATIONS):
        rotated = False
        for i in range(W.shape[0] - 1):
            for k in range(i + 1, W.shape[0]):
                a, b, c = product(W[i], W[i]), product(W[k], W[k]), product(W[i], W[k])
                if abs(c) <= _ORTHOGONAL * math.sqrt(a) * math.sqrt(b):
                    continue
                rotated = True
                half = (b - a) / (2.0 * c)
                tangent = math.copysign(1.0, half) / (abs(half) + math.sqrt(1.0 + half * half))
                cosine = 1.0 / math.sqrt(1.0 + tangent * tangent)
                _rotate(W[i], W[k], cosine, cosine * tangent)
                _rotate(R[i], R[k], cosine, cosine * tangent)
        if not rotated:
            break


@inner
def _shrink_singular_values(Z, threshold, out):
    """Prox of the sum of the singular values of Z."""
    short, is_wide, largest = min(Z.shape), Z.shape[0] <= Z.shape[1], 0.0
    for t in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            out[t, j] = 0.0
            largest = max(largest, abs(Z[t, j]))
    if largest == 0.0 or not largest < np.inf:
        return
    W, R = np.empty((short, max(Z.shape))), np.empty((short, short))
    for i in range(short):
        for k in range(short):
            R[i, k] = 1.0 if i == k else 0.0
        for k in range(W.shape[1]):  # in units of the largest, whose squares are floats
            W[i, k] = (Z[i, k] if is_wide else Z[k, i]) / largest
    _orthogonalise(W, R)
    for i in range(short):
        size = largest * math.sqrt(product(W[i], W[i]))
        if size <= threshold:
            continue
        left = largest * (1.0 - threshold / size)
        for t in range(Z.shape[0]):
            for j in range(Z.shape[1]):
                out[t, j] += left * (R[i, t] * W[i, j] if is_wide else R[i, j] * W[i, t])


@entry
def prox(kind, Z, threshold, out):
    """Prox of a norm of Z (T, d) at a strength."""
    if kind == BY_ROWS:
        _shrink_features(Z, threshold, out)
    else:
        _shrink_singular_values(Z, threshold, out)


@exact_entry
def shrink_residual(target, image, eigenvalues, offsets, alpha, lengths, out):
    """Residual at an image with the best q of every task, whose lengths are kept."""
    g = np.empty(out.size)
    for i in range(out.size):
        out[i] = target[i] - image[i]
        g[i] = math.sqrt(eigenvalues[i]) * out[i]
    for t in range(lengths.size):
        first, last = offsets[t], offsets[t + 1]
        lengths[t] = euclidean_size(g, eigenvalues, first, last, alpha, np.inf, lengths[t])
        if lengths[t] > 0.0:
            for i in range(first, last):
                out[i] /= 1.0 + eigenvalues[i] * lengths[t] / alpha


@exact
def _add(a, factor, b, out):
    """out = a + factor b."""
    for i in range(out.size):
        out[i] = a[i] + factor * b[i]


@exact
def _subtract(a, b, out):
    """out = a - b; the largest size of its entries."""
    largest = 0.0
    for i in range(out.size):
        out[i] = a[i] - b[i]
        largest = max(largest, abs(out[i]))
    return largest


@exact
def _bend(residual, new_residual, change):
    """What a change of the image costs beyond the first order, twice; small differences of large numbers."""
    total = 0.0
    for i in range(change.size):
        total += (residual[i] - new_residual[i]) * change[i]
    return total


@entry
def accelerated_steps(
    kind, strength, x, offsets, eigenvalues, target, alpha, lengths, P, image, curvature, tolerance, relative,
    most_steps,
):  # fmt: skip
    """Accelerated proximal steps from P, which moves in place with its image; the curvature and their number.

    `x` has the stacked rows of the tasks; `strength` is that of the norm of P, and `alpha` that of the
    columns of Q, whose lengths are kept. The steps are those of `accelerate`, and end by the same rule.
    """
    y, slopes, new = np.empty(P.shape), np.empty(P.shape), np.empty(P.shape)
    flat, flat_y, flat_slopes, flat_new = P.ravel(), y.ravel(), slopes.ravel(), new.ravel()
    change, last = np.empty(P.shape), np.zeros(P.size)  # from y to the new P, and the last move of P
    flat_change, last_image = change.ravel(), np.zeros(image.size)
    y_image, change_image, new_image = np.empty(image.size), np.empty(image.size), np.empty(image.size)
    residual, new_residual = np.empty(image.size), np.empty(image.size)
    momentum = 1.0
    for n_steps in range(most_steps):
        faster = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        _add(flat, (momentum - 1.0) / faster, last, flat_y)
        _add(image, (momentum - 1.0) / faster, last_image, y_image)
        shrink_residual(target, y_image, eigenvalues, offsets, alpha, lengths, residual)
        adjoint(x, offsets, residual, slopes)
        while True:
            _add(flat_y, 1.0 / curvature, flat_slopes, flat_change)
            prox(kind, change, strength / curvature, new)
            largest = _subtract(flat_new, flat_y, flat_change)
            forward(x, offsets, change, change_image)
            _add(y_image, 1.0, change_image, new_image)
            shrink_residual(target, new_image, eigenvalues, offsets, alpha, lengths, new_residual)
            length = product(flat_change, flat_change)
            bend = _bend(residual, new_residual, change_image)
            if length == 0.0 or not bend > curvature * length * (1.0 + 1e-12):
                break
            curvature = max(GROWTH * curvature, min(bend / length, 2.0 * curvature))
        if n_steps == 0:
            tolerance = max(tolerance, relative * curvature * largest)
        _subtract(flat_new, flat, last)
        _subtract(new_image, image, last_image)
        copy(flat_new, flat)
        copy(new_image, image)
        if curvature * largest <= tolerance:
            return curvature, n_steps + 1
        # adaptive restart: the last step went against the momentum
        momentum = 1.0 if product(flat_change, last) < 0.0 else faster
    return curvature, most_steps
