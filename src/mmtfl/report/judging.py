"""How well models predict the same held-out rows: what they explain, how they rank, and which is better.

Every row has a loss: the squared error of a number, the log loss of a class, the Poisson deviance of a count.
The error of a task is the mean loss of its rows. Two models are compared by one test, Wilcoxon's signed-rank
test of the log ratio of the tasks' errors; with fewer than six tasks, which cannot reach 5 %, of the losses
of the rows.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import xlogy
from scipy.stats import quantile_test, rankdata, wilcoxon

FEW_ROWS = 5  # held-out rows below which a task is not judged by itself; of classes, rows of the rarer one
FEWEST_TASKS = 6  # six wins of six have a probability of 1/32 by chance, five of five 1/16
LEVEL = 0.05
ROUNDING = 1e-9
TINY = 1e-12  # an error of nothing still has a logarithm
NEVER = 1e-6  # probabilities are kept this far from 0 and 1, so that one row does not decide
# relative changes of the error that nobody notices, and within which models predict about equally well
SMALL = {"numbers": 0.01, "classes": 0.002, "counts": 0.002}
EQUAL = {"numbers": 0.05, "classes": 0.01, "counts": 0.01}


def row_losses(kind: str, y: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Loss of each row under a predicted mean, of numbers, classes (0 and 1) or counts.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.report.judging import row_losses
    >>> row_losses("numbers", np.array([1.0, 2.0]), np.array([1.0, 4.0])).tolist()
    [0.0, 4.0]
    """
    if kind == "numbers":
        with np.errstate(over="ignore"):
            return (y - mean) ** 2
    if kind == "classes":
        p = np.clip(mean, NEVER, 1.0 - NEVER)
        return -np.log(np.where(y > 0, p, 1.0 - p))
    mean = np.maximum(mean, NEVER)
    return 2.0 * (xlogy(y, y / mean) - (y - mean))


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
    change : float
        Median over tasks of the relative change of the error, negative where the first model has less.
    p_value : float
        Of the test.
    """

    outcome: str
    unit: str
    n_units: int
    n_tasks: int
    n_better: int
    change: float
    p_value: float


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions of several models for the same held-out rows.

    Attributes
    ----------
    kind : {"numbers", "classes", "counts"}
        What the targets are.
    y : ndarray (n,)
        Targets; 0 and 1 for classes.
    task : ndarray (n,) of int
        Position of the task of each row.
    means : mapping of str to ndarray (n,)
        Predicted means of each model; probabilities of the second class.
    n_tasks : int
        Number of tasks, those without held-out rows included.
    split : ndarray (n,) of int, optional
        In which split or fold each row was held out: pairs of rows are compared within it, because scores of
        two fits differ in level.
    one_unit : bool
        Whether targets and predictions of all tasks are in one unit: else nothing is said of all differences.
    row : ndarray (n,) of int, optional
        Which row of the table each is, where rows are held out repeatedly.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.report.judging import HeldOut
    >>> rng = np.random.default_rng(0)
    >>> y, task = rng.normal(size=80), np.repeat(np.arange(8), 10)
    >>> found = HeldOut("numbers", y, task, {"good": y + 0.1 * rng.normal(size=80), "bad": 0.0 * y}, 8)
    >>> found.beside("good", "bad").outcome, round(found.explained("good"), 2)
    ('better', 0.99)
    """

    kind: str
    y: np.ndarray
    task: np.ndarray
    means: Mapping[str, np.ndarray]
    n_tasks: int
    split: np.ndarray | None = None
    row: np.ndarray | None = None
    one_unit: bool = True

    # -- tasks that count --------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows of each task that were held out, each counted once; of classes, those of the rarer one."""
        first = slice(None) if self.row is None else np.unique(self.row, return_index=True)[1]
        task, is_second = self.task[first], self.y[first] > 0
        n = np.bincount(task, minlength=self.n_tasks)
        second = np.bincount(task, is_second, minlength=self.n_tasks)
        return np.minimum(second, n - second) if self.kind == "classes" else n

    @cached_property
    def counted(self) -> np.ndarray:
        """Tasks that models are judged by: enough rows, whose target varies."""
        return (self.sizes >= FEW_ROWS) & (self._null_by_task > ROUNDING)

    @cached_property
    def losses(self) -> dict[str, np.ndarray]:
        """Loss of each row, by model."""
        return {who: row_losses(self.kind, self.y, mean) for who, mean in self.means.items()}

    def errors(self, who: str) -> np.ndarray:
        """Mean loss of each task; NaN where there is no row."""
        n = self._sum(np.ones(len(self.y)))
        return np.divide(self._sum(self.losses[who]), n, out=np.full(self.n_tasks, np.nan), where=n > 0)

    def _sum(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self.task, values, minlength=self.n_tasks)

    @cached_property
    def _null(self) -> np.ndarray:
        """Loss of each row under the mean of its task."""
        n = np.maximum(self._sum(np.ones(len(self.y))), 1.0)
        return row_losses(self.kind, self.y, (self._sum(self.y) / n)[self.task])

    @cached_property
    def _null_by_task(self) -> np.ndarray:
        return self._sum(self._null)

    # -- how well ----------------------------------------------------------------------------------------

    def explained(self, who: str) -> float:
        """Share of all differences between rows that a model explains; 0 is the mean of all rows."""
        if not self.one_unit:
            return math.nan
        return self._share(who, row_losses(self.kind, self.y, np.full(len(self.y), self.y.mean())))

    def explained_within(self, who: str) -> float:
        """Share of the differences within tasks that a model explains; 0 is the mean of each task."""
        return self._share(who, self._null)

    def _share(self, who: str, null: np.ndarray) -> float:
        total = float(null.sum())
        return 1.0 - self.total(who) / total if total > ROUNDING else math.nan

    def score_by_task(self, who: str) -> np.ndarray:
        """Share explained in each task, or its concordance for classes; NaN where it does not count."""
        out = np.full(self.n_tasks, np.nan)
        if self.kind != "classes":
            total = self._sum(self.losses[who])
            return 1.0 - np.divide(total, self._null_by_task, out=out - 1.0, where=self.counted)
        right, pairs = self._pairs(who)
        by_task = np.bincount(self.task, right, minlength=self.n_tasks), self._sum(pairs)
        return np.divide(*by_task, out=out, where=self.counted & (by_task[1] > 0))

    def concordance(self, who: str) -> tuple[float, float]:
        """Share of pairs within tasks that a classifier ranks rightly, and its standard error.

        A pair is a row of the second class and one of the first, of the same task and split. The error is the
        root of the sum over rows of the squared influence of each.
        """
        right, pairs = self._pairs(who)
        total = pairs.sum()
        if not total:
            return math.nan, math.nan
        share = float(right.sum() / total)
        return share, float(2.0 * np.sqrt(np.sum((right - share * pairs) ** 2)) / total)

    def concordance_overall(self, who: str) -> float:
        """Share of all pairs that a classifier ranks rightly, whatever their tasks."""
        right, pairs = _ranked_pairs(self.y > 0, self.means[who])
        return float(right.sum() / pairs.sum()) if pairs.any() else math.nan

    def _pairs(self, who: str) -> tuple[np.ndarray, np.ndarray]:
        """For each row the pairs within its task and split, and how many of them are ranked rightly."""
        cell = self.task if self.split is None else self.task + self.n_tasks * self.split
        right, pairs = np.zeros(len(self.y)), np.zeros(len(self.y))
        for rows in np.split(np.argsort(cell, kind="stable"), np.cumsum(np.bincount(cell))[:-1]):
            right[rows], pairs[rows] = _ranked_pairs(self.y[rows] > 0, self.means[who][rows])
        return right, pairs

    # -- which is better ---------------------------------------------------------------------------------

    def best(self, *names: str) -> str:
        """The model with the smallest error, over the rows that the test is about."""
        return min(names, key=self._deciding_loss)

    def total(self, who: str) -> float:
        """Sum of the losses of all rows."""
        return float(self.losses[who].sum())

    def _deciding_loss(self, who: str) -> float:
        """Sum of the losses of the tasks that count; of all rows where these are too few for a test."""
        kept = self.counted if self.counted.sum() >= FEWEST_TASKS else np.ones_like(self.counted)
        return float(self.losses[who][kept[self.task]].sum())

    def beside(self, one: str, other: str) -> Paired | None:
        """Judge one model beside another; None where no task counts."""
        kept = self.counted
        if not kept.any():
            return None
        first, second = (np.maximum(self.errors(who)[kept], TINY) for who in (one, other))
        gains = np.log(second) - np.log(first)  # by how much each task is better off
        unit, tested = "task", gains
        if len(gains) < FEWEST_TASKS:
            unit, tested = "row", self.losses[other] - self.losses[one]
            if self.row is not None:  # averaged over the splits that held a row out
                row = np.unique(self.row, return_inverse=True)[1]
                tested = np.bincount(row, tested) / np.bincount(row)
        p_value, sign = signed_rank(tested)
        losses = (max(self._deciding_loss(who), TINY) for who in (other, one))
        total = float(np.subtract(*np.log(list(losses))))
        outcome = self._outcome(gains, p_value, sign, total, by_tasks=unit == "task")
        n_better = int(np.count_nonzero(gains > ROUNDING))
        change = math.expm1(-float(np.median(gains)))
        return Paired(outcome, unit, len(tested), len(gains), n_better, change, p_value)

    def _outcome(
        self, gains: np.ndarray, p_value: float, sign: float, total: float, *, by_tasks: bool
    ) -> str:
        """The verdict: clear only where the test, the typical task and all rows together agree."""
        typical = float(np.median(gains))
        if p_value < LEVEL and sign * typical > 0 and sign * total > 0:
            word = "better" if sign > 0 else "worse"
            return f"slightly {word}" if abs(typical) < SMALL[self.kind] else word
        if np.abs(gains).max() < ROUNDING and p_value == 1.0:
            return "the same"
        most = math.log1p(EQUAL[self.kind])
        low, high = quantile_test(gains).confidence_interval(1 - LEVEL) if by_tasks else (-math.inf, math.inf)
        return "about equally well" if -most < low and high < most else "cannot be told apart"


def _ranked_pairs(second: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each row the rows of the other class, and how many of them are ranked rightly; ties count half."""
    ranks = rankdata(score)
    right, pairs = np.zeros(len(score)), np.zeros(len(score))
    for own in (second, ~second):
        if own.any():
            others = len(score) - int(own.sum())
            below = ranks[own] - rankdata(score[own])
            right[own], pairs[own] = below if own is second else others - below, others
    return right, pairs


def signed_rank(gains: np.ndarray) -> tuple[float, float]:
    """Wilcoxon's signed-rank test: its two-sided p-value and the direction."""
    gains = gains[np.abs(gains) > ROUNDING]
    if not gains.size:
        return 1.0, 0.0
    sign = float(np.sign(rankdata(np.abs(gains)) @ np.sign(gains)))
    return float(wilcoxon(gains).pvalue), sign
