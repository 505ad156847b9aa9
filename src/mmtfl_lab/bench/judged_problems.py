"""What a library is asked to solve: made data, a model; and the judge of its answers.

An answer is judged by its objective and duality gap, which come from the coefficients alone: nothing here
calls a library to judge, ours included. Equation numbers are those of docs/model.md, and of docs/additive.md
for the additive models.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit, xlogy

import mmtfl

Coefficients = tuple[np.ndarray, np.ndarray]  # A (d, T), or P and Q (2, d, T); and the intercepts (T,)
_TINY = np.finfo(float).tiny


# -- data: tasks with their own rows, or one X shared by all tasks -------------------------------------------

_CORRELATION = 0.5  # between neighbouring columns
_NOISE = 1.0 / 3.0  # standard deviation of the noise over that of the signal


@dataclass(frozen=True)
class RaggedTasks:
    """Every task has its own rows: X (N, d), dense or CSR, y (N,), and the task of each row, sorted."""

    X: Any
    y: np.ndarray
    task: np.ndarray
    loss: str = "squared"
    fit_intercept: bool = False

    @cached_property
    def offsets(self) -> np.ndarray:
        """Where each task's rows begin, and where the last one's end."""
        return np.flatnonzero(np.r_[True, np.diff(self.task) > 0, True])

    @property
    def n_tasks(self) -> int:
        """Number of tasks T."""
        return len(self.offsets) - 1

    @property
    def mean_size(self) -> float:
        """Mean rows per task, the n of eq. (2)."""
        return len(self.y) / self.n_tasks

    @property
    def shape(self) -> str:
        """One line for people."""
        rows = np.diff(self.offsets)
        sizes = f"{rows.min()}" if rows.min() == rows.max() else f"{rows.min()}..{rows.max()}"
        return f"T = {self.n_tasks}, n_t = {sizes}, d = {self.X.shape[1]}"

    def parts(self) -> Iterator[tuple[Any, np.ndarray]]:
        """X_t and y_t of every task."""
        for first, last in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.X[first:last], self.y[first:last]

    def predict(self, A: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Linear predictor X_t a_t + b_t, in the order of y."""
        kept = np.flatnonzero(A.any(axis=1))
        return np.concatenate([X[:, kept] @ A[kept, t] + b[t] for t, (X, _) in enumerate(self.parts())])

    def correlate(self, r: np.ndarray) -> np.ndarray:
        """X_t^T r_t of every task, (d, T): one pass over the data."""
        bounds = zip(self.offsets[:-1], self.offsets[1:], strict=True)
        return np.column_stack([self.X[first:last].T @ r[first:last] for first, last in bounds])

    def centred(self, r: np.ndarray) -> np.ndarray:
        """r minus its mean over each task's rows."""
        means = np.add.reduceat(r, self.offsets[:-1]) / np.diff(self.offsets)
        return r - np.repeat(means, np.diff(self.offsets))


@dataclass(frozen=True)
class SharedTasks:
    """All tasks have the same rows: X (n, d) and y (n, T)."""

    X: np.ndarray
    y: np.ndarray
    loss: str = "squared"
    fit_intercept: bool = True
    task: None = None

    @property
    def n_tasks(self) -> int:
        """Number of tasks T."""
        return self.y.shape[1]

    @property
    def mean_size(self) -> float:
        """Rows per task, the n of eq. (2)."""
        return float(self.y.shape[0])

    @property
    def shape(self) -> str:
        """One line for people."""
        return f"n = {self.X.shape[0]}, d = {self.X.shape[1]}, T = {self.n_tasks}"

    def predict(self, A: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Linear predictor X A + b."""
        kept = np.flatnonzero(A.any(axis=1))
        return self.X[:, kept] @ A[kept] + b

    def correlate(self, r: np.ndarray) -> np.ndarray:
        """X^T r, (d, T): one pass over the data."""
        return self.X.T @ r

    def centred(self, r: np.ndarray) -> np.ndarray:
        """r minus its mean over the rows, for every task."""
        return r - r.mean(axis=0)


Data = RaggedTasks | SharedTasks


def make_ragged(
    *, n_tasks: int, least: int, most: int, n_features: int, n_true: int, loss: str = "squared", seed: int = 0
) -> RaggedTasks:
    """Tasks of `least` to `most` rows; n_true rows of A are N(0, 1), the others zero.

    Examples
    --------
    >>> from mmtfl_lab.bench.judged_problems import make_ragged
    >>> data = make_ragged(n_tasks=3, least=5, most=9, n_features=4, n_true=2)
    >>> data.X.shape == (len(data.task), 4), data.n_tasks
    (True, 3)
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(least, most + 1, size=n_tasks)
    task = np.repeat(np.arange(n_tasks), sizes)
    X = _correlated_columns(rng, len(task), n_features)
    true, rows = _true_rows(rng, n_features, n_tasks, n_true)
    z = np.einsum("ij,ij->i", X[:, true], rows.T[task])
    return RaggedTasks(X, _targets(rng, z, loss), task, loss=loss)


def make_sparse(
    *, n_tasks: int, n_rows: int, n_features: int, n_true: int, density: float, seed: int = 0
) -> RaggedTasks:
    """Sparse rows with labels drawn by the logistic law; true features have entries in a fifth of the rows.

    Examples
    --------
    >>> from mmtfl_lab.bench.judged_problems import make_sparse
    >>> data = make_sparse(n_tasks=2, n_rows=50, n_features=100, n_true=3, density=0.05)
    >>> data.X.shape, data.X.nnz
    ((100, 100), 560)
    """
    rng = np.random.default_rng(seed)
    n, n_entries = n_tasks * n_rows, round(density * n_features)
    others = [np.sort(rng.choice(n_features - n_true, n_entries, replace=False)) for _ in range(n)]
    task, true = np.repeat(np.arange(n_tasks), n_rows), np.zeros((n, n_true))
    true[np.arange(n_true) % 5 == (np.arange(n) % 5)[:, None]] = 1.0
    true *= rng.normal(size=true.shape)
    X = sparse.csr_array(
        (rng.normal(size=n * n_entries), np.concatenate(others), np.arange(n + 1) * n_entries),
        shape=(n, n_features - n_true),
    )
    z = np.einsum("ij,ij->i", true, 2.0 * rng.normal(size=(n_tasks, n_true))[task])
    X = sparse.hstack([sparse.csr_array(true), X], format="csr")
    return RaggedTasks(X, _targets(rng, z, "logistic"), task, loss="logistic")


def make_shared(*, n_rows: int, n_features: int, n_tasks: int, n_true: int, seed: int = 0) -> SharedTasks:
    """One X for all tasks, by the same law.

    Examples
    --------
    >>> from mmtfl_lab.bench.judged_problems import make_shared
    >>> make_shared(n_rows=6, n_features=4, n_tasks=3, n_true=2).y.shape
    (6, 3)
    """
    rng = np.random.default_rng(seed)
    X = _correlated_columns(rng, n_rows, n_features)
    true, rows = _true_rows(rng, n_features, n_tasks, n_true)
    return SharedTasks(X, _targets(rng, X[:, true] @ rows, "squared"))


def _correlated_columns(rng: np.random.Generator, n_rows: int, n_features: int) -> np.ndarray:
    """AR(1) along the columns, unit variance."""
    columns = rng.normal(size=(n_features, n_rows))
    for j in range(1, n_features):
        columns[j] *= np.sqrt(1.0 - _CORRELATION**2)
        columns[j] += _CORRELATION * columns[j - 1]
    return np.ascontiguousarray(columns.T)  # rows of a table, as people have it


def _true_rows(rng: np.random.Generator, n_features: int, n_tasks: int, n_true: int):
    return rng.choice(n_features, n_true, replace=False), rng.normal(size=(n_true, n_tasks))


def _targets(rng: np.random.Generator, z: np.ndarray, loss: str) -> np.ndarray:
    if loss == "logistic":
        return (rng.random(z.shape) < expit(z)).astype(float)
    return z + _NOISE * z.std() * rng.normal(size=z.shape)


# -- norms ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartNorm:
    """A norm of a part (d, T).

    Attributes
    ----------
    value, dual : function
        The norm and its dual norm, written out.
    conic : function
        ``conic(cvxpy, part)``: the norm as an expression of cvxpy.
    """

    value: Callable[[np.ndarray], float]
    dual: Callable[[np.ndarray], float]
    conic: Callable[[Any, Any], Any]


ROWS = PartNorm(
    lambda part: np.linalg.norm(part, axis=1).sum(),
    lambda part: np.linalg.norm(part, axis=1).max(),
    lambda cp, part: cp.sum(cp.norm(part, 2, axis=1)),
)
PEAKS = PartNorm(
    lambda part: np.abs(part).max(axis=1).sum(),
    lambda part: np.abs(part).sum(axis=1).max(),
    lambda cp, part: cp.sum(cp.max(cp.abs(part), axis=1)),
)
ENTRIES = PartNorm(
    lambda part: np.abs(part).sum(),
    lambda part: np.abs(part).max(),
    lambda cp, part: cp.sum(cp.abs(part)),
)
COLUMNS = PartNorm(
    lambda part: np.linalg.norm(part, axis=0).sum(),
    lambda part: np.linalg.norm(part, axis=0).max(),
    lambda cp, part: cp.sum(cp.norm(part, 2, axis=0)),
)
TRACE = PartNorm(
    lambda part: float(np.linalg.norm(part, "nuc")),
    lambda part: float(np.linalg.norm(part, 2)),
    lambda cp, part: cp.normNuc(part),
)


# -- members of the family -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """One member of the family at one or several strengths, largest first.

    Attributes
    ----------
    data : RaggedTasks or SharedTasks
        The tasks.
    p, k : float
        The member.
    shares : ndarray
        Strengths as shares of `top`.
    top : float
        The smallest alpha at which (2, 2) gives zero.
    """

    data: Data
    p: float
    k: float
    shares: np.ndarray
    top: float

    @property
    def alphas(self) -> np.ndarray:
        """The strengths."""
        return self.top * self.shares

    @property
    def is_convex(self) -> bool:
        """Whether 1/p + 1/k <= 1, and so the minimum can be certified."""
        return 1.0 / self.p + 1.0 / self.k <= 1.0

    def objectives(self, found: Sequence[Coefficients]) -> np.ndarray:
        """The objective at every strength."""
        pairs = zip(found, self.alphas, strict=True)
        return np.array([objective(self.data, A, b, p=self.p, k=self.k, alpha=a) for (A, b), a in pairs])

    def relative_gap(self, found: Sequence[Coefficients]) -> float:
        """The largest relative duality gap over the strengths; (2, 2) only."""
        pairs = zip(found, self.alphas, strict=True)
        return max(relative_gap(self.data, A, b, alpha=alpha) for (A, b), alpha in pairs)

    def rows_kept(self, found: Sequence[Coefficients]) -> int:
        """Rows of A that are not zero, at the smallest strength."""
        return int(np.count_nonzero(found[-1][0].any(axis=1)))


def objective(data: Data, A: np.ndarray, b: np.ndarray, *, p: float, k: float, alpha: float) -> float:
    """Objective (2) at coefficients A (d, T) and intercepts b (T,); finite p and k.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.bench.judged_problems import SharedTasks
    >>> from mmtfl_lab.bench.judged_problems import objective
    >>> data = SharedTasks(np.eye(2), np.array([[3.0, 4.0], [0.0, 0.0]]))
    >>> objective(data, np.zeros((2, 2)), np.zeros(2), p=2, k=2, alpha=1.0)  # (9 + 16) / 2 / n
    6.25
    >>> objective(data, np.array([[3.0, 4.0], [0.0, 0.0]]), np.zeros(2), p=2, k=2, alpha=1.0)
    5.0
    """
    S = np.sum(np.abs(A) ** p, axis=1)
    return _loss(data, data.predict(A, b)) / data.mean_size + alpha * float(np.sum(S ** (k / (p + k))))


def relative_gap(data: Data, A: np.ndarray, b: np.ndarray, *, alpha: float) -> float:
    """Duality gap (9) of the member (2, 2), relative to the objective there.

    The objective exceeds its minimum by at most this share: the certificate of the reference.
    """
    if data.fit_intercept and data.loss == "logistic":
        raise ValueError("No certificate is written for logistic tasks with intercepts.")
    return _relative_gap(
        data, data.predict(A, b), {ROWS: alpha}, objective(data, A, b, p=2, k=2, alpha=alpha)
    )


def _relative_gap(data: Data, z: np.ndarray, strengths: dict[PartNorm, float], value: float) -> float:
    """Duality gap of norms with their strengths at a predictor z, relative to the objective there."""
    slope = _null_centred(data, data.y - z if data.loss == "squared" else data.y - expit(z))
    gradient = data.correlate(slope) / data.mean_size
    limits = (alpha / max(norm.dual(gradient), _TINY) for norm, alpha in strengths.items())
    return (value - _dual(data, slope * min(1.0, *limits)) / data.mean_size) / value


def largest_alpha(data: Data) -> float:
    """The smallest alpha whose (2, 2) solution is zero."""
    slope = _null_centred(data, data.y if data.loss == "squared" else data.y - 0.5)
    return float(np.linalg.norm(data.correlate(slope), axis=1).max() / data.mean_size)


def _null_centred(data: Data, slope: np.ndarray) -> np.ndarray:
    """With intercepts, a dual point must not correlate with a constant."""
    return data.centred(slope) if data.fit_intercept else slope


def _loss(data: Data, z: np.ndarray) -> float:
    """Sum of the losses at the linear predictor."""
    if data.loss == "squared":
        return 0.5 * float(np.sum((data.y - z) ** 2))
    return float(np.sum(np.logaddexp(0.0, z) - data.y * z))  # labels 0 and 1


def _dual(data: Data, theta: np.ndarray) -> float:
    """The dual objective of eq. (9) at a dual point, not yet divided by n."""
    if data.loss == "squared":
        return float(np.sum(theta * data.y - 0.5 * theta**2))
    size = np.abs(theta)  # the probability, under the scaled model, of the label that was not seen
    return -float(np.sum(xlogy(size, size) + xlogy(1.0 - size, 1.0 - size)))


# -- additive models A = P + Q -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """One model: the norms of P and Q, our estimator of two strengths, and its name for Q."""

    name: str
    shared: PartNorm
    specific: PartNorm
    model: Callable[..., Any]
    second: str


PAIRS = (
    Pair("l2,1+l1", ROWS, ENTRIES, partial(mmtfl.DirtyRegressor, p=2), "specific_"),
    Pair("dirty", PEAKS, ENTRIES, mmtfl.DirtyRegressor, "specific_"),
    Pair("rMTFL", ROWS, COLUMNS, mmtfl.RobustRegressor, "outlier_"),
    Pair("low rank", TRACE, COLUMNS, mmtfl.LowRankRegressor, "outlier_"),
)


@dataclass(frozen=True)
class AdditiveProblem:
    """A pair of norms, both strengths at a share of their critical values.

    Coefficients are P and Q as one array (2, d, T), and the intercepts (T,).

    Attributes
    ----------
    data : RaggedTasks
        The tasks; squared loss.
    pair : Pair
        The model.
    share : float
        Of the critical strengths.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.bench.judged_problems import RaggedTasks
    >>> from mmtfl_lab.bench.judged_problems import PAIRS, AdditiveProblem
    >>> data = RaggedTasks(np.eye(2), np.array([3.0, 4.0]), np.array([0, 0]))
    >>> problem = AdditiveProblem(data, PAIRS[0], share=0.5)
    >>> problem.alphas.tolist()  # half of the largest |x_j . y| / n
    [[1.0, 1.0]]
    >>> parts = np.array([[[1.0], [0.0]], [[0.0], [2.0]]])
    >>> problem.objectives([(parts, np.zeros(1))]).tolist()  # (4 + 4) / 2 / n + 1 + 2
    [5.0]
    """

    data: RaggedTasks
    pair: Pair
    share: float
    is_convex = True

    @property
    def shares(self) -> np.ndarray:
        """The one share."""
        return np.array([self.share])

    @cached_property
    def alphas(self) -> np.ndarray:
        """The two strengths, (1, 2)."""
        gradient = self.data.correlate(_null_centred(self.data, self.data.y)) / self.data.mean_size
        return self.share * np.array([[norm.dual(gradient) for norm in self._norms]])

    @property
    def _norms(self) -> tuple[PartNorm, PartNorm]:
        return self.pair.shared, self.pair.specific

    def objectives(self, found: Sequence[Coefficients]) -> np.ndarray:
        """Objective (1) at the parts and intercepts."""
        return np.array([self._objective(parts, b) for parts, b in found])

    def relative_gap(self, found: Sequence[Coefficients]) -> float:
        """Duality gap (3), relative to the objective: the minimum is below it by at most this share."""
        ((parts, b),) = found
        strengths = dict(zip(self._norms, self.alphas[0], strict=True))
        return _relative_gap(
            self.data, self.data.predict(parts.sum(axis=0), b), strengths, self._objective(parts, b)
        )

    def rows_kept(self, found: Sequence[Coefficients]) -> int:
        """Rows of P that are not zero."""
        return int(np.count_nonzero(found[-1][0][0].any(axis=1)))

    def _objective(self, parts: np.ndarray, b: np.ndarray) -> float:
        norms = zip(self._norms, self.alphas[0], parts, strict=True)
        loss = _loss(self.data, self.data.predict(parts.sum(axis=0), b))
        return loss / self.data.mean_size + float(
            sum(alpha * norm.value(part) for norm, alpha, part in norms)
        )


AnyProblem = Problem | AdditiveProblem


@dataclass(frozen=True)
class Case:
    """One line of the comparison: a problem with a key for the targets and a title for people."""

    key: str
    title: str
    problem: AnyProblem
