"""Algorithm 1 as a textbook has it, for the benchmark: squared loss, p = 1 or 2, no intercepts.

Every task minimises its loss for itself on X_t diag(c) plus gamma sum |beta|^p: by linear equations (p = 2),
or by plain coordinate descent started from its last answer (p = 1); then c follows in closed form. Features
with c = 0 are left out. Equation numbers are those of docs/model.md.
"""

import numpy as np
from sklearn.linear_model import Lasso

_INNER_TOL = 1e-2  # movement at which a task's own problem stops, in units of tol
_LEAST_GAP = (
    1e-12  # of the duality gap at which it stops, in units of ||y||^2: rounding may keep it from less
)


def algorithm1(tasks, *, p, k, alpha, tol=1e-6, max_passes=100_000):
    """Alternate from c = 1 until no entry of A moves by more than tol.

    Parameters
    ----------
    tasks : sequence of (X, y)
        Designs (n_t, d) and targets (n_t,).
    p, k : float
        Member of the family: p is 1 or 2, k finite.
    alpha : float
        Strength in the joint form (2); gamma1 = gamma2 follow by (5).
    tol : float
        Largest movement of an entry of A at which to stop.
    max_passes : int
        Passes at most.

    Returns
    -------
    A : ndarray (d, T)
        Coefficients.
    n_passes : int
        Passes done.
    """
    n = sum(len(y) for _, y in tasks) / len(tasks)
    d = tasks[0][0].shape[1]
    gamma = alpha / ((p / k) ** (k / (p + k)) * (p + k) / p)  # eq. (5)
    minimise = {1: lasso, 2: ridge}[p]
    A, c = np.zeros((d, len(tasks))), np.ones(d)
    n_passes, moved = 0, np.inf
    while moved >= tol and n_passes < max_passes:
        active = np.flatnonzero(c)
        previous, A = A, np.zeros_like(A)
        for t, (X, y) in enumerate(tasks):
            Z = X[:, active] * c[active]
            beta = minimise(Z, y, n * gamma, start=previous[active, t] / c[active], tol=_INNER_TOL * tol)
            A[active, t] = c[active] * beta
        c = (p / k * np.sum(np.abs(A) ** p, axis=1)) ** (1.0 / (p + k))  # eq. (3)
        n_passes, moved = n_passes + 1, np.abs(A - previous).max()
    return A, n_passes


def ridge(Z, y, strength, *, start, tol):
    """Minimise ||y - Z b||^2 / 2 + strength ||b||^2 by linear equations in the smaller of the two spaces."""
    n, d = Z.shape
    if d <= n:
        return np.linalg.solve(Z.T @ Z + 2.0 * strength * np.eye(d), Z.T @ y)
    return Z.T @ np.linalg.solve(Z @ Z.T + 2.0 * strength * np.eye(n), y)


def lasso(Z, y, strength, *, start, tol):
    """Minimise ||y - Z b||^2 / 2 + strength ||b||_1 by cycles over the coordinates, from the last answer."""
    goal = max(tol**2, _LEAST_GAP)
    model = Lasso(strength / len(y), fit_intercept=False, warm_start=True, tol=goal, max_iter=100_000)
    model.coef_ = start.copy()
    return model.fit(np.asfortranarray(Z), y).coef_
