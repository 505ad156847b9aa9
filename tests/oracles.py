"""Second opinions for the tests, from the formulas alone; only `ours` and `solve` call our own code.

Letters and equation numbers are those of docs/model.md: A (features by tasks), c, B, S_j = sum_t |a_jt|^p,
e = k / (p + k), and n the mean task size (with weights: their sum over the number of tasks).
"""

import itertools
import math
import warnings
from dataclasses import dataclass
from functools import cached_property

import cvxpy as cp
import numpy as np
import pandas as pd
from scipy import optimize, sparse
from scipy.special import expit, xlogy

from mmtfl import solvers
from mmtfl.objective.design import Design
from mmtfl.objective.losses import Huber, Logistic, Poisson, Squared
from mmtfl.objective.problem import Problem as OurProblem
from mmtfl.tasks import Tasks

INF = math.inf
LOSSES = {"squared": Squared(), "logistic": Logistic()}
DELTA = 0.9  # of the Huber loss
EVERY_LOSS = {**LOSSES, "huber": Huber(DELTA), "poisson": Poisson()}


def stacked(X, y, weights=None):
    """Tasks of lists with one design, one target and perhaps one array of weights for each."""
    task = np.repeat(np.arange(len(y)), [len(part) for part in y])
    rows = sparse.vstack(X, format=X[0].format) if sparse.issparse(X[0]) else np.concatenate(X)
    return Tasks.from_rows(
        rows, np.concatenate(y), task, None if weights is None else np.concatenate(weights)
    )


def frame_of(tasks):
    """A pandas frame of stacked rows: task, features x0, x1, ... and the target y."""
    X, y, task = tasks.to_rows()
    features = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pd.DataFrame({"task": task, **features, "y": y})


# -- problems --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """Ragged tasks as plain lists: designs, targets and row weights (or None), with the name of a loss."""

    X: tuple[np.ndarray, ...]
    y: tuple[np.ndarray, ...]
    loss: str = "squared"
    weights: tuple[np.ndarray, ...] | None = None
    fit_intercept: bool = True

    @property
    def n_tasks(self) -> int:
        return len(self.X)

    @property
    def n_features(self) -> int:
        return self.X[0].shape[1]

    @property
    def row_weights(self) -> list[np.ndarray]:
        """Weights of the rows divided by n of eq. (1)."""
        weights = self.weights or [np.ones(len(y)) for y in self.y]
        n = sum(w.sum() for w in weights) / self.n_tasks
        return [w / n for w in weights]

    @cached_property
    def tasks(self) -> Tasks:
        return stacked(self.X, self.y, self.weights)

    def ours(self, **options) -> OurProblem:
        """What our solvers are given; columns may be divided by a `column_scale`."""
        design = Design(self.tasks, fit_intercept=self.fit_intercept, **options)
        return OurProblem(design, EVERY_LOSS[self.loss])

    def solve(self, penalty, *, column_scale=None, **options):
        """Our solver's answer."""
        return solvers.solve(self.ours(column_scale=column_scale), penalty, **options)


def make_problem(seed, *, loss="squared", sizes=(14, 9, 21), d=10, weighted=False, fit_intercept=True):
    """Tasks that share the first features, use the next ones alone, and leave the others unused."""
    rng = np.random.default_rng(seed)
    truth = np.zeros((d, len(sizes)))
    truth[: d // 3] = rng.normal(size=(d // 3, len(sizes))) * 1.5
    for t in range(len(sizes)):
        truth[d // 3 + t % (d - d // 3), t] = 2.0
    X = tuple(rng.normal(size=(n, d)) + 0.3 for n in sizes)
    z = [x @ truth[:, t] + 0.5 * t + 0.7 * rng.normal(size=len(x)) for t, x in enumerate(X)]
    if loss == "logistic":
        y = tuple(np.where(v > np.median(v) + 1e-9, 1.0, -1.0) for v in z)
    elif loss == "poisson":
        y = tuple(rng.poisson(np.exp(np.clip(0.4 * v, -3.0, 2.5))) + (np.arange(len(v)) == 0.0) for v in z)
    else:
        y = tuple(z)
    weights = tuple(rng.uniform(0.3, 2.5, size=n) for n in sizes) if weighted else None
    return Problem(X, y, loss, weights, fit_intercept)


SHAPES = {
    "ragged": {"sizes": (14, 9, 21), "d": 10},
    "n < d, weighted": {"sizes": (8, 5, 6), "d": 16, "weighted": True},
    "no intercept": {"sizes": (14, 9, 21), "d": 10, "fit_intercept": False},
}


# -- our own code, from tasks to a solution --------------------------------------------------------------


def problem_of(tasks, loss, *, fit_intercept=True, column_scale=None):
    """What our solvers are given: tasks and a loss of `LOSSES`, with X / column_scale."""
    return OurProblem(Design(tasks, column_scale=column_scale, fit_intercept=fit_intercept), loss)


def solve(tasks, loss, penalty, *, fit_intercept=True, column_scale=None, **options):
    """Our solver's answer."""
    problem = problem_of(tasks, loss, fit_intercept=fit_intercept, column_scale=column_scale)
    return solvers.solve(problem, penalty, **options)


# -- the objective, written out --------------------------------------------------------------------------


def common_weight(pooling, n_tasks):
    """w of eq. (10)."""
    return n_tasks * (1.0 - pooling) / pooling


def row_sums(A, p, pooling=0.0):
    """S_j of eq. (2); with pooling of eq. (11), the least over candidates that hold the minimum in m."""
    if pooling == 0.0:
        return np.sum(np.abs(A) ** p, axis=1)
    w = common_weight(pooling, A.shape[1])
    middles = [A.sum(axis=1) / (A.shape[1] + w)] if p == 2 else [np.zeros(len(A)), *A.T]
    return np.min([w * np.abs(m) ** p + np.sum(np.abs(A - m[:, None]) ** p, axis=1) for m in middles], axis=0)


def row_penalties(A, p, k, eps=1e-2, pooling=0.0):
    """S_j^e of every row, with its limits: max_t |a_jt|^k at p = inf, S_j at k = inf, log(1 + S_j / eps)."""
    if math.isinf(p) and k != "log":
        return np.max(np.abs(A), axis=1) ** k
    S = row_sums(A, p, pooling)
    if k == "log":
        return np.log1p(S / eps)
    return S if math.isinf(k) else S ** (k / (p + k))


def row_losses(loss, y, z):
    """Value, slope and second derivative in z of every row."""
    if loss == "logistic":
        return np.logaddexp(0.0, -y * z), -y * expit(-y * z), expit(z) * expit(-z)
    if loss == "poisson":
        return np.exp(z) - y * z + xlogy(y, y) - y, np.exp(z) - y, np.exp(z)
    r = z - y
    near = r if loss == "squared" else np.clip(r, -DELTA, DELTA)
    return near * (r - 0.5 * near), near, (near == r).astype(float)


def loss_part(problem, A, b):
    total = 0.0
    for t, (X, y, w) in enumerate(zip(problem.X, problem.y, problem.row_weights, strict=True)):
        total += w @ row_losses(problem.loss, y, X @ A[:, t] + b[t])[0]
    return float(total)


def loss_gradient(problem, A, b):
    """G (features, tasks) of the loss part, and its derivative in the intercepts."""
    G, slope_b = np.empty(A.shape), np.empty(problem.n_tasks)
    for t, (X, y, w) in enumerate(zip(problem.X, problem.y, problem.row_weights, strict=True)):
        slope = w * row_losses(problem.loss, y, X @ A[:, t] + b[t])[1]
        G[:, t], slope_b[t] = X.T @ slope, slope.sum()
    return G, slope_b


def joint_objective(problem, A, b, p, k, alpha, eps=1e-2, pooling=0.0):
    """Problem (2)."""
    return loss_part(problem, A, b) + alpha * float(np.sum(row_penalties(A, p, k, eps, pooling)))


def product_objective(problem, B, c, b, p, k, gamma1, gamma2):
    """Problem (1), finite p and k."""
    penalty = gamma1 * np.sum(np.abs(B) ** p) + gamma2 * np.sum(c**k)
    return loss_part(problem, c[:, None] * B, b) + float(penalty)


def best_constant(loss, y, w):
    """The prediction at which the loss of some rows is least."""
    mean = w @ y / w.sum()
    if loss == "huber":
        return optimize.brentq(lambda b: w @ row_losses(loss, y, b)[1], y.min(), y.max(), xtol=1e-14)
    if loss == "logistic":
        return np.log1p(mean) - np.log1p(-mean)
    return np.log(mean) if loss == "poisson" else mean


def null_slopes(problem):
    """G at A = 0 with the best intercepts."""
    b = np.zeros(problem.n_tasks)
    if problem.fit_intercept:
        for t, (y, w) in enumerate(zip(problem.y, problem.row_weights, strict=True)):
            b[t] = best_constant(problem.loss, y, w)
    return loss_gradient(problem, np.zeros((problem.n_features, problem.n_tasks)), b)[0]


def largest_null_slope(problem):
    """The natural size of alpha."""
    return float(np.abs(null_slopes(problem)).max())


# -- convex members by a conic solver --------------------------------------------------------------------


def _conic_penalty(row, p, k):
    if math.isinf(k):
        return (
            cp.norm1(row) if p == 1 else cp.sum_squares(row) if p == 2 else cp.sum(cp.power(cp.abs(row), p))
        )
    r = k if math.isinf(p) else p * k / (p + k)
    norm = cp.norm_inf(row) if math.isinf(p) else cp.norm2(row) if p == 2 else cp.pnorm(row, p)
    return norm if abs(r - 1.0) < 1e-12 else cp.power(norm, r)


def conic_loss(problem, A, b):
    """The loss part, but for a constant of counts, in the variables of a conic solver."""
    total = 0.0
    for t, (X, y, w) in enumerate(zip(problem.X, problem.y, problem.row_weights, strict=True)):
        z = X @ A[:, t] + (b[t] if problem.fit_intercept else 0.0)
        if problem.loss == "squared":
            total += 0.5 * cp.sum_squares(cp.multiply(np.sqrt(w), y - z))
        elif problem.loss == "huber":
            total += 0.5 * w @ cp.huber(y - z, DELTA)
        elif problem.loss == "poisson":
            total += w @ (cp.exp(z) - cp.multiply(y, z))
        else:
            total += w @ cp.logistic(cp.multiply(-y, z))
    return total


def minimum(expression, constraints=()):
    """Minimum of a convex expression, at the tightest tolerance that the solver itself calls reached."""
    conic = cp.Problem(cp.Minimize(expression), list(constraints))
    for tolerance in (1e-9, 1e-8, 1e-7):  # power cones do not always reach the first
        tight = {f"tol_{name}": tolerance for name in ("gap_abs", "gap_rel", "feas")}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")
            conic.solve(solver=cp.CLARABEL, **tight)
        if conic.status == cp.OPTIMAL:
            break
    assert conic.status == cp.OPTIMAL
    return conic.value


def conic_optimum(problem, p, k, alpha, pooling=0.0):
    """Minimum of (2) for a convex member: (value of (2) there by our own formula, A, b)."""
    A, b = cp.Variable((problem.n_features, problem.n_tasks)), cp.Variable(problem.n_tasks)
    rows = [A[j] for j in range(problem.n_features)]
    if pooling:  # a common part is one more variable of the row, and one more entry of its norm
        weight, m = common_weight(pooling, problem.n_tasks) ** (1.0 / p), cp.Variable(problem.n_features)
        rows = [cp.hstack([row - m[j], weight * m[j]]) for j, row in enumerate(rows)]
    minimum(conic_loss(problem, A, b) + alpha * sum(_conic_penalty(row, p, k) for row in rows))
    intercept = b.value if problem.fit_intercept else np.zeros(problem.n_tasks)
    return joint_objective(problem, A.value, intercept, p, k, alpha, pooling=pooling), A.value, intercept


# -- Algorithm 1, as in a textbook -----------------------------------------------------------------------


def elimination_constant(p, k):
    """K of eq. (5)."""
    return (p / k) ** (k / (p + k)) * (p + k) / p


def algorithm1(problem, p, k, alpha, *, max_passes=2000, tol=1e-10):
    """Algorithm 1 from c = 1 with gamma1 = gamma2, p in {1, 2} and finite k; (A, b, values of problem (1)).

    Every task minimises its loss in beta with X diag(c), by Newton on the loss and an exact inner solve
    (linear equations for p = 2, coordinate descent for p = 1); then c follows from eq. (3).
    """
    gamma = alpha / elimination_constant(p, k)
    d, n_tasks = problem.n_features, problem.n_tasks
    c, B, b = np.ones(d), np.zeros((d, n_tasks)), np.zeros(n_tasks)
    A, history = np.zeros((d, n_tasks)), []
    for _ in range(max_passes):
        for t in range(n_tasks):
            B[:, t], b[t] = _task_part(problem, t, c, gamma, p, B[:, t], b[t])
        previous, A = A, c[:, None] * B
        c_new = (p / k * row_sums(A, p)) ** (1.0 / (p + k))
        B = np.divide(A, c_new[:, None], out=np.zeros_like(A), where=c_new[:, None] > 0.0)
        c = c_new
        history.append(product_objective(problem, B, c, b, p, k, gamma, gamma))
        if np.abs(A - previous).max() < tol:
            break
    return A, b, np.array(history)


def _task_part(problem, t, c, gamma, p, beta, b):
    X, y, w = problem.X[t] * c, problem.y[t], problem.row_weights[t]
    design = np.column_stack([X, np.full(len(y), float(problem.fit_intercept))])
    strength = np.append(np.full(X.shape[1], gamma), 0.0)
    theta = np.append(beta, b)

    def value(theta):
        return w @ row_losses(problem.loss, y, design @ theta)[0] + strength @ np.abs(theta) ** p

    current = value(theta)
    for _ in range(1 if problem.loss == "squared" else 60):
        _, slope, bend = row_losses(problem.loss, y, design @ theta)
        slope, weight = design.T @ (w * slope), w * np.maximum(bend, 1e-10)
        H = design.T @ (weight[:, None] * design)
        goal = _ridge_step(H, slope, theta, strength) if p == 2 else _lasso_step(H, slope, theta, strength)
        step = 1.0
        while step > 1e-8 and value(theta + step * (goal - theta)) > current:
            step *= 0.5
        if step <= 1e-8:
            break
        theta = theta + step * (goal - theta)
        fall, current = current - value(theta), value(theta)
        if fall <= 1e-15 * abs(current):
            break
    return theta[:-1], theta[-1]


def _ridge_step(H, slope, theta, strength):
    # the intercept column may be zero (no intercept): lstsq leaves it alone
    return theta - np.linalg.lstsq(H + np.diag(2 * strength), slope + 2 * strength * theta, rcond=None)[0]


def _lasso_step(H, slope, theta, strength):
    """Coordinate descent on slope.(x - theta) + (x - theta) H (x - theta) / 2 + strength.|x|."""
    x, diagonal = theta.copy(), np.diag(H)
    gradient = slope.copy()
    for _ in range(20000):
        largest = 0.0
        for j in np.flatnonzero(diagonal > 0.0):
            target = diagonal[j] * x[j] - gradient[j]
            new = math.copysign(max(abs(target) - strength[j], 0.0), target) / diagonal[j]
            change = new - x[j]
            if change != 0.0:
                gradient += H[j] * change
                x[j] = new
                largest = max(largest, diagonal[j] * abs(change))
        if largest <= 1e-13:
            break
    return x


# -- rows by brute force ---------------------------------------------------------------------------------


def row_objective(a, g, L, p, k, alpha, eps=1e-2, pooling=0.0):
    """sum_t L_t a_t^2 / 2 - g_t a_t + alpha S^e; `a` may hold one row or many."""
    a = np.atleast_2d(a)
    return a**2 @ L / 2 - a @ g + alpha * row_penalties(a, p, k, eps, pooling)


def brute_force_row(g, L, p, k, alpha, eps=1e-2, *, n_grid=None):
    """Least value of the row objective: a grid, then polish from its best points; (value, row).

    The penalty grows with every |a_t|, so the minimiser lies between 0 and g_t / L_t.
    """
    g, L = np.asarray(g, dtype=float), np.asarray(L, dtype=float)
    top = np.divide(g, L, out=np.zeros_like(g), where=L > 0)
    n_grid = n_grid or {1: 4001, 2: 161, 3: 41}.get(len(g), 13)
    unit = np.linspace(0.0, 1.0, n_grid) ** 2  # finer near zero, where concave members bend
    grid = np.array(list(itertools.product(unit, repeat=len(g))))
    values = row_objective(grid * top, g, L, p, k, alpha, eps)
    best_value, best = float(values.min()), grid[values.argmin()]
    starts = grid[np.argsort(values)[:: max(1, len(values) // 400)][:8]]

    def polished(x):
        return row_objective(np.clip(x, 0.0, 1.0) * top, g, L, p, k, alpha, eps)[0]

    options = {"xatol": 1e-10, "fatol": 1e-14, "maxiter": 4000, "maxfev": 4000}
    for start in (best, *starts[:3]):
        found = optimize.minimize(polished, start, method="Nelder-Mead", options=options)
        if found.fun < best_value:
            best_value, best = float(found.fun), np.clip(found.x, 0.0, 1.0)
    return best_value, best * top


def stationary_curve(g, L, p, n_points=4001):
    """Rows that hold every stationary point of a row problem with g > 0 and any penalty phi(||a||_p).

    At a stationary row each task solves L_t a_t + m dN/da_t = g_t for one common number m; here m runs over a
    fine grid: thresholds for p = 1, caps for p = inf, and L_t a + m a^(p-1) = g_t by bisection otherwise.
    """
    g, L = np.asarray(g, dtype=float), np.asarray(L, dtype=float)
    near_one = 1.0 - np.geomspace(1e-12, 1.0, n_points)[:, None]
    if p == 1:
        return np.maximum(g - g.max() * near_one, 0.0) / L
    top = g / L
    if math.isinf(p):
        return np.minimum(top, top.max() * np.geomspace(1e-12, 1.0, n_points)[:, None])
    m = np.exp(np.linspace(-25.0, 25.0, n_points))[:, None] * np.max(L * top ** (2.0 - p))
    high = np.log(top) + np.zeros_like(m)
    low = high - 120.0
    for _ in range(70):
        middle = 0.5 * (low + high)
        above = L * np.exp(middle) + m * np.exp((p - 1.0) * middle) > g
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.exp(0.5 * (low + high))
