"""How well a model predicts held-out rows, beside the models that a reader would try instead.

Rows that a model was trained on flatter it. So the comparison is by cross-validation over the rows given: in
every fold the model is fitted again, and so are its rivals. All of them choose their strength inside the
training part; a strength that was given is kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from mmtfl.estimators import single_task
from mmtfl.estimators.cross_validated import Search
from mmtfl.estimators.search import TaskSearch
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.report.judging import HeldOut
from mmtfl.report.rivals import RIVALS, fit_quietly
from mmtfl.report.rows import N_FOLDS, Rows, kind_of_targets

MOST_ENTRIES = 1_000_000  # of X that the models are refitted on: about a minute
MOST_TUNED = 200_000  # of X that a search is made again on: about half a minute too
MOST_TUNED_CLASSES = 80_000  # and of a classifier's, which takes longer
N_STRENGTHS, N_PAIRS = 20, 6  # that such a search goes over


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What `evaluate` finds.

    Attributes
    ----------
    kind : {"numbers", "classes", "counts"} or None
        What the targets are; None for losses that scikit-learn has no models for.
    labels : list
        The tasks of the model.
    n_rows : ndarray of shape (n_tasks,)
        Observations given of each task.
    heldout : HeldOut or None
        Predictions of "own" and its rivals for held-out rows, from which they are judged.
    reason : str or None
        Why there was no comparison, or why without rivals.
    seen : bool or None
        Whether the model was trained on the rows given; None if that is not known.
    saved : HeldOut or None
        Predictions of the model as it is for the rows given, where it was trained on others.
    strength : {"tuned", "kept", "given"}
        Whether the strength of the model was chosen again in every training part; or was chosen before, and
        kept; or was never chosen.
    kept_together, in_time, one_unit : bool
        Whether groups of rows were held out together, whether held-out rows come later in their task, and
        whether the targets of all tasks are in one unit.
    """

    kind: str | None
    labels: list[Any]
    n_rows: np.ndarray
    heldout: HeldOut | None = None
    reason: str | None = None
    seen: bool | None = None
    saved: HeldOut | None = None
    strength: str = "given"
    kept_together: bool = False
    in_time: bool = False
    one_unit: bool = True

    @property
    def rivals(self) -> list[str]:
        """Names of the rivals that were fitted."""
        return [] if self.heldout is None else [who for who in self.heldout.means if who != "own"]

    @property
    def best_rival(self) -> str | None:
        """The rival with the smallest error on held-out rows."""
        return self.heldout.best(*self.rivals) if self.heldout is not None and self.rivals else None


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    task: Any = None,
    *,
    seen: bool | None = None,
    groups: Any = None,
    in_time: bool = False,
    offset: Any = None,
    progress: Callable[[str], None] | None = None,
) -> Evaluation:
    """Predict held-out rows with a model, fitted again, and with its rivals.

    Folds are those of `TaskKFold` with 3 splits. A search is made again in every training part, over 20
    strengths and with 3 folds; another model keeps the strengths it was given. The rivals are scikit-learn's
    (`mmtfl.report.rivals`). Where X has more than 200 000 entries (80 000 for classes) a search is not made
    again: its choice is kept, which favours it if it was made with these rows. Where X has more than a
    million entries, nothing is refitted.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, a search included.
    X, y, task
        Rows, as in ``predict`` and ``score`` of the model.
    seen : bool, optional
        Whether the model was trained on these rows; None if that is not known.
    groups : array-like of shape (n_rows,), optional
        Groups of rows that are held out together, also inside the training parts.
    in_time : bool
        Whether the rows are in time order: then `TaskTimeSplit` tests rows that come later in their task.
    offset : array-like of shape (n_rows,), optional
        As in ``fit``; rivals are then fitted to numbers only.
    progress : callable, optional
        Called with a few words before each fit.

    Returns
    -------
    evaluation : Evaluation
        Predictions of held-out rows, and what follows from them.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.report.summary import evaluate
    >>> data = make_tasks(n_tasks=4, n_samples=30, n_features=20, n_informative=3, noise=1.0, random_state=0)
    >>> model = MMTFLRegressor(p=2, k=1, alpha=0.2).fit(data.X, data.y, task=data.task)
    >>> found = evaluate(model, data.X, data.y, data.task)
    >>> found.rivals
    ['separate', 'pooled', 'boosting']
    >>> found.heldout.explained_within("own") > found.heldout.explained_within("pooled")
    True
    """
    inner = model._fitted()
    kind = kind_of_targets(inner)
    rows = Rows.read(inner, X, y, task, groups=groups, in_time=in_time, offset=offset)
    found = Evaluation(
        kind,
        inner.tasks_.tolist(),
        np.bincount(rows.task, minlength=len(inner.tasks_)),
        seen=seen,
        kept_together=groups is not None,
        in_time=in_time,
        one_unit=not rows.has_several_targets,
    )
    if kind is None:
        words = "Models are compared where all tasks have numbers, two classes or counts as targets."
        return replace(found, reason=words)
    if seen is False:
        found = replace(found, saved=rows.judged({"own": rows.means(model)}))
    n_entries = rows.X.nnz if sparse.issparse(rows.X) else rows.X.shape[0] * rows.X.shape[1]
    if isinstance(model, Search):
        is_small = n_entries <= (MOST_TUNED_CLASSES if kind == "classes" else MOST_TUNED)
        found = replace(found, strength="tuned" if is_small else "kept")
    if n_entries > MOST_ENTRIES:
        words = (
            f"The table has {n_entries / 1e6:.0f} million entries, and models are fitted again on parts of "
            f"it up to {MOST_ENTRIES / 1e6:.0f} million only. Give fewer rows to compare models on."
        )
        return replace(found, reason=words)
    names = [who for who in RIVALS if who != "separate" or len(inner.tasks_) > 1]
    if offset is not None and kind != "numbers":
        names = []
    if not names:
        found = replace(found, reason="Other models are not fitted where an offset or exposure is given.")
    try:
        heldout = _held_out(model, rows, found.strength, names, progress or (lambda words: None))
    except ValueError as error:  # too few rows, a class that is missing: the report goes on without
        words = f"The models could not be refitted on parts of these rows: {error}"
        return replace(found, reason=words)
    return replace(found, heldout=heldout)


# -- models --------------------------------------------------------------------------------------------------


def _held_out(model: Any, rows: Rows, strength: str, names: list[str], progress: Any) -> HeldOut:
    """Predictions of the model and of its rivals for rows that they were not fitted on."""
    fold = np.full(len(rows.y), -1)
    means = {who: np.full(len(rows.y), np.nan) for who in ("own", *names)}
    unfitted = _searched_again(model) if strength == "tuned" else _with_settings_of(model._fitted())
    for i, (train, test) in enumerate(rows.folds()):
        part, asked, fold[test] = rows.select(train), rows.select(test), i
        tuning = {"cv": part.folds()} if strength == "tuned" else {}
        progress(f"part {i + 1} of {N_FOLDS}: this model")
        # a held-out score does not see the last digits, and what is told of the data was told by the fit
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            own = (
                clone(unfitted).set_params(**tuning).fit(part.design, part.y, task=part.labels, **part.known)
            )
            means["own"][test] = asked.means(own)
        for who in names:
            progress(f"part {i + 1} of {N_FOLDS}: {RIVALS[who].title.lower()}")
            means[who][test] = _rival_means(who, part, asked)
    known = np.flatnonzero(fold >= 0)
    return rows.select(known).judged({who: mean[known] for who, mean in means.items()}, fold[known])


def _rival_means(who: str, part: Rows, asked: Rows) -> np.ndarray:
    """What a rival, fitted to some rows, says of others; an offset of numbers is taken off and put back."""
    before, after = (0.0 if rows.offset is None else rows.offset for rows in (part, asked))
    predict = fit_quietly(RIVALS[who], part.X, part.value - before, part.task, str(part.kind))
    return predict(asked.X, asked.task) + after


def _searched_again(model: Any) -> Any:
    """The unfitted search with a coarser grid, in this process and without output."""
    search = clone(model)
    if isinstance(model, TwoStrengthCV):
        quiet = {"estimator__task_column": None, "estimator__verbose": 0}
        return search.set_params(strengths=_coarse(model.strengths, N_PAIRS), n_jobs=None, **quiet)
    alone = {"engine": None, "checkpoint": None, "n_jobs": None, "task_column": None, "verbose": 0}
    alone["effects"] = False
    options = {name: value for name, value in alone.items() if name in search.get_params(deep=False)}
    return search.set_params(alphas=_coarse(model.alphas, N_STRENGTHS), **options)


def _coarse(values: Any, most: int) -> Any:
    """At most `most` strengths, from a number of them, a list, or a pair of either."""
    if isinstance(values, Integral):
        return min(int(values), most)
    if len(values) == 2 and most == N_PAIRS and not all(isinstance(value, float) for value in values):
        return tuple(_coarse(value, most) for value in values)
    return np.sort(values)[np.unique(np.linspace(0, len(values) - 1, most).round().astype(int))]


def _with_settings_of(model: Any) -> Any:
    """An unfitted model at the strengths that this one has; a search is not made again."""
    if isinstance(model, TaskSearch) and not isinstance(model, single_task.SingleTaskSearch):
        model = model._chosen_model()
    return clone(model).set_params(task_column=None, verbose=0)
