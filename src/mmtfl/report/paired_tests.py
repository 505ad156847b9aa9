"""Which of two models predicts better on the same held-out rows, by a rule that is robust to outliers.

Every task has an error: the mean squared error relative to the variance of its target (1 minus R²), or 1
minus the area under the ROC curve, or 1 minus F1. Two models are judged by the tasks, with a signed-rank
test: of the log ratio of the errors for R², so that a task that one of them misses by miles counts as one
task, and of their difference for the others, which are bounded. Six tasks are the fewest with which that test
can reach 5 %. With fewer the rows are judged: a signed-rank test of absolute errors relative to the task's
spread for R², DeLong's test for the area under the curve.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import binom, norm, rankdata, wilcoxon

from mmtfl.model_selection.metrics import FEW_ROWS

FEWEST_TASKS = 6  # six wins of six have a probability of 1/32 by chance, five of five 1/16
LEVEL = 0.05
ROUNDING = 1e-9
TINY = 1e-12  # an error of nothing still has a logarithm
SMALL_SCORE = 0.005  # a difference of scores that two decimals hardly show
SMALL_CHANGE = 0.01  # and a change of the error that nobody notices
EQUAL_CHANGE, EQUAL_SCORE = 0.05, 0.01  # within these, models predict about equally well

BETTER, SLIGHTLY_BETTER, EQUAL, UNCLEAR, SAME, SLIGHTLY_WORSE, WORSE = (
    *("better", "slightly better", "about equally well"),
    *("cannot be told apart", "the same", "slightly worse", "worse"),
)


@dataclass(frozen=True)
class Paired:
    """One model beside another.

    Attributes
    ----------
    outcome : str
        "better", "slightly better", "about equally well", "cannot be told apart", "the same", "slightly
        worse" or "worse", said of the first model.
    unit : {"task", "row"}
        What was counted by the test.
    n_units, n_tasks : int
        How many of these, and how many tasks.
    n_better : int
        Tasks in which the first model has the smaller error.
    gain : float
        Median over tasks of the difference of scores.
    change : float or None
        Median over tasks of the relative change of the error, negative where the first model has less; only
        for R².
    p_value : float or None
        Of the test; None where there is none.
    """

    outcome: str
    unit: str
    n_units: int
    n_tasks: int
    n_better: int
    gain: float
    change: float | None
    p_value: float | None


@dataclass(frozen=True, eq=False)
class HeldOutErrors:
    """Errors of several models on the same held-out rows.

    Attributes
    ----------
    measure : {"r2", "auc", "f1"}
        The score, which is 1 minus the error of a task.
    tasks : mapping of str to ndarray (n_tasks,)
        Error of each model in each task; NaN where there is none.
    n_rows : ndarray (n_tasks,)
        Held-out rows of each task.
    rows : mapping of str to ndarray (n_rows,)
        Errors of each model by row; needed where tasks are few.
    observation_task : ndarray (n_rows,)
        Task of each row, as a position.
    row_class : ndarray (n_rows,) of bool
        Whether the row is of the second class, for the area under the curve.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.report.paired_tests import HeldOutErrors
    >>> errors = {"own": np.full(7, 0.3), "pooled": np.array([0.5, 0.6, 0.4, 0.5, 0.7, 0.9, 160.0])}
    >>> found = HeldOutErrors("r2", errors, np.full(7, 20)).beside("own", "pooled")
    >>> found.outcome, found.n_better, round(found.change, 2)
    ('better', 7, -0.5)
    """

    measure: str
    tasks: Mapping[str, np.ndarray]
    n_rows: np.ndarray
    rows: Mapping[str, np.ndarray] = field(default_factory=dict)
    observation_task: np.ndarray | None = None
    row_class: np.ndarray | None = None

    @property
    def too_few(self) -> np.ndarray:
        """Tasks with too few held-out rows to judge by."""
        return np.asarray(self.n_rows) < FEW_ROWS

    @property
    def unscored(self) -> np.ndarray:
        """Other tasks without an error: the target does not vary, or has one class."""
        finite = [np.isfinite(errors) for errors in self.tasks.values()]
        return ~np.logical_and.reduce(finite) & ~self.too_few

    @property
    def counted(self) -> np.ndarray:
        """Tasks that models are judged by."""
        return ~self.too_few & ~self.unscored

    def median(self, who: str) -> float | None:
        """Median over the tasks that count of the score of a model."""
        return float(1.0 - np.median(self.tasks[who][self.counted])) if self.counted.any() else None

    def beside(self, one: str, other: str) -> Paired | None:
        """Judge one model beside another; None where no task counts."""
        kept = self.counted
        if not kept.any():
            return None
        first, second = (np.asarray(self.tasks[who])[kept] for who in (one, other))
        # by how much each task is better off: log ratio or difference of the errors
        gains, is_ratio = second - first, self.measure == "r2"
        if is_ratio:
            gains = np.log(np.maximum(second, TINY)) - np.log(np.maximum(first, TINY))
        gain, typical = float(np.median(second - first)), float(np.median(gains))
        found: tuple[int, float | None, float]
        if len(gains) >= FEWEST_TASKS:
            unit, found = "task", (len(gains), *_signed_rank(gains))
        else:
            unit, found = "row", self._by_rows(one, other, kept)
        n_units, p_value, sign = found
        clear = p_value is not None and p_value < LEVEL and sign * typical > 0
        change = math.expm1(-typical) if is_ratio else None
        outcome = UNCLEAR
        if clear:
            small = abs(gain) < SMALL_SCORE or (change is not None and abs(change) < SMALL_CHANGE)
            better, worse = (SLIGHTLY_BETTER, SLIGHTLY_WORSE) if small else (BETTER, WORSE)
            outcome = better if sign > 0 else worse
        elif np.abs(gains).max() < ROUNDING and (p_value is None or p_value == 1.0):
            outcome = SAME
        elif unit == "task" and self._is_equal(gains):
            outcome = EQUAL
        n_better = int(np.count_nonzero(gains > ROUNDING))
        return Paired(outcome, unit, n_units, len(gains), n_better, gain, change, p_value)

    def standing(self) -> dict[str, float]:
        """How far each model is behind the average of all in the typical task, smaller is better."""
        kept = np.array([np.asarray(errors)[self.counted] for errors in self.tasks.values()])
        typical = np.log(np.maximum(kept, TINY)) if self.measure == "r2" else kept
        behind = np.median(typical - typical.mean(axis=0), axis=1)
        return dict(zip(self.tasks, behind.tolist(), strict=True))

    def _is_equal(self, gains: np.ndarray) -> bool:
        """Whether the 95 % interval of the median gain lies within what counts as equal."""
        most = math.log1p(EQUAL_CHANGE) if self.measure == "r2" else EQUAL_SCORE
        low, high = _interval_of_median(gains)
        return -most < low and high < most

    def _by_rows(self, one: str, other: str, kept: np.ndarray) -> tuple[int, float | None, float]:
        if self.observation_task is None or one not in self.rows:
            return 0, None, 0.0
        known = kept[self.observation_task]
        gains = (np.asarray(self.rows[other]) - np.asarray(self.rows[one]))[known]
        if self.row_class is None:
            return len(gains), *_signed_rank(gains)
        return len(gains), *_delong(gains, self.observation_task[known], self.row_class[known])


# -- tests ---------------------------------------------------------------------------------------------------


def _signed_rank(gains: np.ndarray) -> tuple[float, float]:
    """Wilcoxon's signed-rank test: its two-sided p-value and the direction."""
    gains = gains[np.abs(gains) > ROUNDING]
    if not gains.size:
        return 1.0, 0.0
    sign = float(np.sign(rankdata(np.abs(gains)) @ np.sign(gains)))
    return float(wilcoxon(gains).pvalue), sign


def _delong(gains: np.ndarray, observation_task: np.ndarray, second_class: np.ndarray) -> tuple[float, float]:
    """DeLong's test of the mean over tasks of the difference of areas, from the rows' shares of it."""
    difference, variance = 0.0, 0.0
    for t in np.unique(observation_task):
        parts = [gains[(observation_task == t) & (second_class == side)] for side in (True, False)]
        difference += float(parts[0].mean())
        variance += sum(float(part.var(ddof=1)) / len(part) for part in parts if len(part) > 1)
    if abs(difference) < ROUNDING or variance <= 0.0:
        return 1.0, 0.0
    return float(2.0 * norm.sf(abs(difference) / math.sqrt(variance))), math.copysign(1.0, difference)


def _interval_of_median(values: np.ndarray) -> tuple[float, float]:
    """Two order statistics that hold the median of the population between them with 95 % or more."""
    n = len(values)
    k = int(binom.ppf(LEVEL / 2, n, 0.5))  # the smallest number with a probability of more than 2.5 %
    ordered = np.sort(values)
    return float(ordered[k - 1]), float(ordered[n - k])


# -- errors --------------------------------------------------------------------------------------------------


def relative_errors(
    y: np.ndarray, z: np.ndarray, observation_task: np.ndarray, spread: np.ndarray
) -> np.ndarray:
    """Absolute errors of rows, each relative to the spread of its task; NaN where that does not vary.

    Parameters
    ----------
    y, z : ndarray (n,)
        Targets and predictions.
    observation_task : ndarray (n,) of int
        Position of the task of each row.
    spread : ndarray (n_tasks,)
        Standard deviation of each task's targets.

    Returns
    -------
    ndarray (n,)
        Errors.
    """
    with np.errstate(over="ignore"):
        return np.abs(y - z) / np.where(spread > 0, spread, np.nan)[observation_task]


def task_spread(y: np.ndarray, observation_task: np.ndarray) -> np.ndarray:
    """Standard deviation of each task's targets; 0 where they do not vary."""
    groups = [y[observation_task == t] for t in range(int(observation_task.max(initial=-1)) + 1)]
    return np.array([group.std() if len(group) and np.ptp(group) > 0 else 0.0 for group in groups])


def class_errors(y: np.ndarray, z: np.ndarray, observation_task: np.ndarray) -> np.ndarray:
    """For each row the share of its task's rows of the other class that are ranked wrongly against it.

    Parameters
    ----------
    y : ndarray (n,) of bool
        Whether the row is of the second class.
    z : ndarray (n,)
        Log odds of the second class.
    observation_task : ndarray (n,) of int
        Position of the task of each row.

    Returns
    -------
    ndarray (n,)
        Errors, whose mean over a task's rows of either class is 1 minus the area under its curve; NaN in
        tasks of one class.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.report.paired_tests import class_errors
    >>> y, z = np.array([True, True, False, False]), np.array([0.1, 2.0, 1.0, -1.0])
    >>> class_errors(y, z, np.zeros(4, dtype=int)).tolist()
    [0.5, 0.0, 0.5, 0.0]
    """
    out = np.full(len(y), np.nan)
    for t in np.unique(observation_task):
        mine = np.flatnonzero(observation_task == t)
        ranks = rankdata(z[mine])
        for side in (True, False):
            own = y[mine] == side
            n_others = len(mine) - int(own.sum())
            if not n_others or not own.any():
                continue
            below = (ranks[own] - rankdata(z[mine][own])) / n_others  # share of the others ranked below
            out[mine[own]] = 1.0 - below if side else below
    return out


def f1_errors(y: np.ndarray, z: np.ndarray, observation_task: np.ndarray, n_tasks: int) -> np.ndarray:
    """1 minus F1 of the second class in each task; NaN in tasks of one class."""
    said = z > 0
    count = [
        np.bincount(observation_task, values, minlength=n_tasks)
        for values in (y & said, y.astype(float), said)
    ]
    both = (count[1] > 0) & (count[1] < np.bincount(observation_task, minlength=n_tasks))
    return np.where(both, 1.0 - 2.0 * count[0] / np.maximum(count[1] + count[2], 1.0), np.nan)


def errors_by_task(
    rows: np.ndarray, observation_task: np.ndarray, n_tasks: int, second_class: np.ndarray | None = None
) -> np.ndarray:
    """Error of each task from those of its rows; NaN where there is none.

    Parameters
    ----------
    rows : ndarray (n,)
        Errors of `relative_errors`, or of `class_errors` if ``second_class`` is given.
    observation_task : ndarray (n,) of int
        Position of the task of each row.
    n_tasks : int
        How many tasks.
    second_class : ndarray (n,) of bool, optional
        Whether each row is of the second class.

    Returns
    -------
    ndarray (n_tasks,)
        Mean squares, or 1 minus the areas under the curve.
    """
    with np.errstate(over="ignore"):
        values = rows**2 if second_class is None else rows
    kept = np.ones(len(rows), dtype=bool) if second_class is None else second_class
    n_rows = np.bincount(observation_task[kept], minlength=n_tasks)
    total = np.bincount(observation_task[kept], values[kept], minlength=n_tasks)
    return np.divide(total, n_rows, out=np.full(n_tasks, np.nan), where=n_rows > 0)
