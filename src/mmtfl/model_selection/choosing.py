"""The choice among candidates that were scored on folds, and the table of all of them.

Scores of folds are noisy, and members often tie. Of the best strengths of all members, those whose paired
difference to the best one, over folds, is within half a standard error tie with it. Among these lines come
before curves, convex members before concave ones, and more pooling before less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2

from mmtfl.model_selection.cross_validation import Candidates, FoldScores
from mmtfl.objective.penalties import RowPenalty
from mmtfl.objective.problem import Problem
from mmtfl.tasks.container import Tasks

_TIED = 0.5  # standard errors of a paired difference
_CLOSE = 2.0  # the same of candidates whose folds are repeated
_LEVEL = 0.1  # chance that straight effects of all features together hint at a curve


def choose(
    scores: Sequence[np.ndarray],
    selection: str = "best",
    order: Sequence[tuple] | None = None,
    repeated: Mapping[int, np.ndarray] | None = None,
) -> tuple[int, int]:
    """Position (list, candidate) of the choice.

    Parameters
    ----------
    scores : list of ndarray (n_candidates, n_folds)
        Held-out scores of lists of candidates, the strongest first.
    selection : {"best", "one_se"}
        "best" takes the best mean score, and of lists that tie with it the first in `order`; "one_se" then
        goes to the strongest candidate of that list within one standard error of its best.
    order : list of tuple, optional
        Sort keys of the lists: of those that tie, the smallest one is chosen. None: the best mean.
    repeated : dict of int to ndarray, optional
        Scores on further folds of the best candidates of some lists, among which the choice then is.

    Examples
    --------
    >>> import numpy as np
    >>> plain, other = np.array([[1.0, 2.0, 3.0]]), np.array([[1.3, 1.8, 3.0]])
    >>> choose([plain, other]), choose([plain, other], order=[(0,), (1,)])
    ((1, 0), (0, 0))
    """
    means = [np.nan_to_num(part.mean(axis=1), nan=-np.inf) for part in scores]
    if all(np.isneginf(mean).all() for mean in means):
        raise ValueError(
            "No candidate has a score on every fold: the metric is not defined on the test rows. "
            "Use fewer folds (more rows of each task in each), scoring=None, or a pooled task_scorer."
        )
    tops = [int(np.argmax(mean)) for mean in means]
    lists = list(range(len(scores))) if not repeated else sorted(repeated)
    none: Any = ()
    again = repeated or dict.fromkeys(lists, none)
    found = [np.append(scores[m][tops[m]], again[m]) for m in lists]
    highest = [float(np.nan_to_num(part.mean(), nan=-np.inf)) for part in found]
    best = int(np.argmax(highest))
    if order is not None:
        tied = within(found, _TIED, scores[0].shape[1])
        best = min(tied, key=lambda one: (order[lists[one]], -highest[one]))
    m = lists[best]
    if selection == "best":
        return m, tops[m]
    folds, mean = scores[m][tops[m]], means[m]
    error = deviation(folds, ddof=1) / np.sqrt(len(folds)) if len(folds) > 1 else 0.0
    return m, int(np.flatnonzero(mean >= mean[tops[m]] - error)[0])  # alphas fall: the first is strongest


def within(scores: Sequence[np.ndarray], errors: float, n_folds: int | None = None) -> list[int]:
    """Candidates whose paired difference to the best is within some standard errors; the best is among them.

    `scores` has one array over folds for each candidate. With repeated folds, `n_folds` says how many make
    up one repeat: repeats are not independent, so that they do not make the standard error smaller.
    """
    means = [np.nan_to_num(part.mean(), nan=-np.inf) for part in scores]
    best = scores[int(np.argmax(means))]
    n = len(best) if n_folds is None else n_folds
    return [m for m, part in enumerate(scores) if part is best or _is_within(best - part, errors, n)]


def _is_within(behind: np.ndarray, errors: float, n_folds: int) -> bool:
    if not np.isfinite(behind).all():
        return False
    error = float(deviation(behind, ddof=1)) / np.sqrt(n_folds) if len(behind) > 1 else 0.0
    return float(behind.mean()) <= errors * error


def contenders(scores: Sequence[np.ndarray], most: int) -> list[int]:
    """The best lists whose best candidates are close to the best of all, at most so many of them."""
    tops = [part[int(np.argmax(np.nan_to_num(part.mean(axis=1), nan=-np.inf)))] for part in scores]
    close = within(tops, _CLOSE)
    return sorted(close, key=lambda m: -float(tops[m].mean()))[:most]


# -- the table -----------------------------------------------------------------------------------------------


def results_table(
    candidates: Sequence[Candidates], scores: Sequence[np.ndarray], chosen: tuple[int, int], order: Any = None
) -> dict[str, Any]:
    """One row per candidate: the columns of ``cv_results_``."""
    columns, every = [part.columns() for part in candidates], np.concatenate(scores)
    mean = every.mean(axis=1)
    table = {
        **{name: np.concatenate([part[name] for part in columns]) for name in columns[0]},
        "mean_test_score": mean,
        "std_test_score": deviation(every, ddof=0),
        "rank_test_score": np.argsort(np.argsort(-mean, kind="stable"), kind="stable") + 1,
        **{f"split{fold}_test_score": column for fold, column in enumerate(every.T)},
    }
    if order is None:
        return table
    starts = np.cumsum([0, *map(len, scores)])
    tops = [int(np.argmax(np.nan_to_num(part.mean(axis=1), nan=-np.inf))) for part in scores]
    tied, taken = np.zeros((2, starts[-1]), dtype=bool)
    for m in within([part[i] for part, i in zip(scores, tops, strict=True)], _TIED):
        tied[starts[m] + tops[m]] = True
    taken[starts[chosen[0]] + chosen[1]] = True
    return {**table, "tied": tied, "chosen": taken}


def deviation(scores: np.ndarray, *, ddof: int) -> np.ndarray:
    """Standard deviation over folds, in units of the largest score so that no square overflows."""
    size = np.abs(scores).max(axis=-1)
    unit = np.where((size > 0.0) & np.isfinite(size), size, 1.0)
    with np.errstate(invalid="ignore"):  # a score of minus infinity has no deviation
        return unit * np.std(scores / unit[..., None], axis=-1, ddof=ddof)


# -- whether curves are worth a trial ------------------------------------------------------------------------


def rivals(
    lines: Sequence[Any], found: FoldScores, members: Sequence[RowPenalty], best: RowPenalty
) -> list[RowPenalty]:
    """The convex members whose poolings have not lost with lines, and the member that was best with them."""
    left = [path.member for path, part in zip(lines, found.scores, strict=True) if np.isfinite(part).all()]
    poolings = {(one.p, one.pooling) for one in left if one.is_convex}
    kept = [one for one in members if (one.p, one.pooling) in poolings]
    return kept if best.is_convex else [*kept, best]


def hints_at_curves(problem: Problem, A: np.ndarray, intercept: np.ndarray, bent: Tasks) -> bool:
    """Whether some feature's curve columns go with the residuals of a model with lines.

    A score test of each feature's curve common to all tasks, and one of its smoothest column with a
    coefficient for every task, at a level that holds for all of them together; and the sum of the first over
    all features, for many that bend a little each.

    Parameters
    ----------
    problem : Problem
        With lines.
    A, intercept : ndarray
        The model with lines.
    bent : Tasks
        The same observations, with the columns of curves.
    """
    basis = bent.curves
    assert basis is not None
    if bent.weights is not None and not bent.weights.all():  # a problem has no rows of weight zero
        bent = bent.select(np.flatnonzero(bent.weights))
    design, z = problem.design, problem.predict(A, intercept)
    slope = -problem.loss_gradient(z)
    weight = problem.loss.hessian(design.y, z, design.row_weight)
    weight = np.maximum(weight, 1e-12 * weight.max(initial=0.0))
    n_rows = float(bent.n_samples if bent.weights is None else bent.weights.sum())
    rows = _Rows(slope, weight, design.offsets, max(n_rows - bent.n_tasks - (A != 0.0).sum(), n_rows / 4.0))
    common, single = [], []
    for i in range(len(basis.curved)):
        columns = bent.X[:, basis.n_features + np.flatnonzero(basis.owner == i)]
        columns = rows.centred(columns if bent.rows is None else columns[bent.rows])
        common.append(rows.common(columns))
        single.append(rows.single(columns[:, 0]))
    tests = np.array(common + single)
    smallest = float(chi2.sf(*tests.T).min())
    total, freedom = np.sum(common, axis=0)
    return smallest * len(tests) < _LEVEL or bool(chi2.sf(total, freedom) < 0.5 * _LEVEL)


class _Rows:
    """Slopes and curvatures of the loss at every row, within tasks."""

    def __init__(self, slope: np.ndarray, weight: np.ndarray, offsets: np.ndarray, freedom: float):
        self.weight, self.starts, self.sizes = weight, offsets[:-1], np.diff(offsets)
        self.totals = self._sums(weight)
        self.slope = slope - weight * self._spread(self._sums(slope) / self.totals)
        self.dispersion = max(float(np.sum(self.slope**2 / weight)) / freedom, 1e-300)

    def _sums(self, values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, self.starts, axis=0)

    def _spread(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, self.sizes, axis=0)

    def centred(self, columns: np.ndarray) -> np.ndarray:
        """Columns without their weighted mean in every task, in units of the largest entry."""
        columns = columns / max(float(np.abs(columns).max(initial=0.0)), 1e-300)
        means = self._sums(self.weight[:, None] * columns) / self.totals[:, None]
        return columns - self._spread(means)

    def common(self, columns: np.ndarray) -> tuple[float, float]:
        """Statistic and degrees of freedom of columns with one coefficient for all tasks."""
        slope, gram = self.slope @ columns, columns.T @ (self.weight[:, None] * columns)
        size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        gram = gram / np.outer(size, size) + 1e-9 * np.eye(len(size))
        return float(slope / size @ np.linalg.solve(gram, slope / size)) / self.dispersion, float(len(size))

    def single(self, column: np.ndarray) -> tuple[float, float]:
        """Statistic and degrees of freedom of a column with a coefficient for every task."""
        slope, size = self._sums(self.slope * column), self._sums(self.weight * column**2)
        varies = size > 1e-9 * size.max(initial=0.0)
        found = float(np.sum(slope[varies] ** 2 / size[varies])) / self.dispersion
        return found, max(float(np.count_nonzero(varies)), 1.0)
