"""Methods fitted to the same parts of a table, and judged by the same held-out rows.

`evaluate` sets a fitted model beside its rivals, for the report; `mmtfl compare` sets methods beside the best
of them. All of them choose their strengths inside the training parts.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.base import clone

from mmtfl.estimators import single_task
from mmtfl.estimators.cross_validated import Search
from mmtfl.estimators.search import TaskSearch
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.model_selection.splitting import TaskKFold, TaskTimeSplit
from mmtfl.report.judging import HeldOut, Paired
from mmtfl.report.rivals import RIVALS, Fold, Method, Predict, Rows, fitted_to, kind_of_targets

MOST_ENTRIES = 1_000_000  # of X that the models are refitted on: about a minute
MOST_TUNED = 200_000  # of X that a search is made again on: about half a minute too
MOST_TUNED_CLASSES = 80_000  # and of a classifier's, which takes longer
N_STRENGTHS, N_PAIRS = 20, 6  # that such a search goes over
TITLES = {"own": "This model", **{who: rival.title for who, rival in RIVALS.items()}}


# -- any methods ---------------------------------------------------------------------------------------------


def predict_held_out(
    rows: Rows,
    parts: Sequence[Fold],
    methods: Mapping[str, Method],
    *,
    jobs: int = 1,
    progress: Callable[[str], None] | None = None,
) -> tuple[HeldOut, dict[str, float]]:
    """Fit every method to every training part; its predictions of held-out rows, and its seconds for a fit.

    Parameters
    ----------
    rows : Rows
        The table.
    parts : sequence of (train, test)
        Row numbers.
    methods : mapping of str to Method
        By name.
    jobs : int
        Processes.
    progress : callable, optional
        Called with a few words after each fit.
    """
    cells = [(name, i) for i in range(len(parts)) for name in methods]
    run = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    means = {name: [np.empty(0)] * len(parts) for name in methods}
    seconds = dict.fromkeys(methods, 0.0)
    found = run(
        delayed(_fit_and_predict)(name, i, methods[name], *(rows.select(part) for part in parts[i]))
        for name, i in cells
    )
    for n, (name, i, predicted, took) in enumerate(found, start=1):
        means[name][i] = predicted
        seconds[name] += took / len(parts)
        if progress is not None:
            progress(f"{n} of {len(cells)} fits, last: {methods[name].title}, {took:.1f} s")
    tested = np.concatenate([test for _, test in parts])
    order = np.argsort(tested, kind="stable")
    split = np.repeat(np.arange(len(parts)), [len(test) for _, test in parts])
    every = {name: np.concatenate(own)[order] for name, own in means.items()}
    return rows.judged(every, tested[order], split[order]), seconds


def _fit_and_predict(
    name: str, i: int, method: Method, part: Rows, asked: Rows
) -> tuple[str, int, np.ndarray, float]:
    start = time.process_time()
    # a held-out score does not see the last digits, and what is told of the data was told by the fit
    with warnings.catch_warnings(action="ignore"):
        found = method.fit(part)(asked)
    return name, i, found, time.process_time() - start


@dataclass(frozen=True)
class Standing:
    """What one method predicts, and how the method that all are compared with does beside it.

    Attributes
    ----------
    method, title : str
        Its name.
    overall, within : float
        Share of all differences, and of those within tasks, that it explains on held-out rows; for classes
        the share of pairs that it ranks rightly.
    within_error : float
        Standard error of the latter for classes, else NaN.
    beside : Paired or None
        The reference beside this one; None for the reference, and where no task can be judged by.
    verdict : str
        Of this method beside the reference: "worse", "about as good" and so on; "" for the reference.
    seconds : float
        To tune and fit once.
    """

    method: str
    title: str
    overall: float
    within: float
    within_error: float
    beside: Paired | None
    verdict: str
    seconds: float = math.nan


def standings(
    heldout: HeldOut,
    titles: Mapping[str, str],
    reference: str | None = None,
    seconds: Mapping[str, float] | None = None,
) -> list[Standing]:
    """Methods beside a reference, the smallest error first; or beside the best one, which comes first."""
    order, found = sorted(titles, key=heldout.total), []
    if reference is None:
        reference = heldout.best(*titles)
        order.sort(key=lambda who: who != reference)
    for who in order:
        beside = None if who == reference else heldout.beside(reference, who)
        turned = None if who == reference else heldout.beside(who, reference)
        verdict = "" if who == reference else "not judged" if turned is None else turned.outcome
        verdict = verdict.replace("about equally well", "about as good")
        if heldout.kind == "classes":
            scores = (heldout.concordance_overall(who), *heldout.concordance(who))
        else:
            scores = heldout.explained(who), heldout.explained_within(who), math.nan
        took = math.nan if seconds is None else seconds[who]
        found.append(Standing(who, titles[who], *scores, beside, verdict, took))
    return found


# -- a table and methods -------------------------------------------------------------------------------------


def splits(rows: Rows, repeats: int, fraction: float, seed: int, *, new_tasks: bool = False) -> list[Fold]:
    """Parts to train and to test on: whole tasks, windows in time, or random rows of every task."""
    if new_tasks:
        part = np.random.default_rng(seed).permutation(len(rows.labels)) % repeats
        return [
            (np.flatnonzero(part[rows.task] != i), np.flatnonzero(part[rows.task] == i))
            for i in range(min(repeats, len(part)))
        ]
    stratify = rows.kind == "classes"
    if rows.in_time:
        return rows.split(TaskTimeSplit(repeats, first=fraction, stratify=stratify))
    n_parts = max(2, round(1.0 / (1.0 - fraction))) if fraction >= 0.5 else max(2, round(1.0 / fraction))
    found: list[Fold] = []
    while len(found) < repeats:
        found += rows.split(TaskKFold(n_parts, random_state=seed + len(found), stratify=stratify))
    found = found if fraction >= 0.5 else [(test, train) for train, test in found]
    return found[:repeats]


# -- a fitted model and its rivals ---------------------------------------------------------------------------


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
    kept_together, in_time : bool
        Whether groups of rows were held out together, and whether held-out rows come later in their task.
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

    @property
    def rivals(self) -> list[str]:
        """Names of the rivals that were fitted."""
        return [] if self.heldout is None else [who for who in self.heldout.means if who != "own"]

    @property
    def best_rival(self) -> str | None:
        """The rival with the smallest error on held-out rows."""
        return self.heldout.best(*self.rivals) if self.heldout is not None and self.rivals else None

    @property
    def standings(self) -> list[Standing]:
        """The model and its rivals beside it."""
        if self.heldout is None:
            return []
        titles = {who: TITLES[who] for who in self.heldout.means}
        return standings(self.heldout, titles, "own")


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
        Called with a few words after each fit.

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
    rows = Rows.of_model(inner, X, y, task, groups=groups, in_time=in_time, offset=offset)
    found = Evaluation(
        kind,
        inner.tasks_.tolist(),
        np.bincount(rows.task, minlength=len(inner.tasks_)),
        seen=seen,
        kept_together=groups is not None,
        in_time=in_time,
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
        found = replace(found, reason="Other models are not fitted where an offset or exposure is given.")
    methods = {"own": again(model, tuned=found.strength == "tuned"), **{who: RIVALS[who] for who in names}}
    try:
        heldout = predict_held_out(rows, rows.folds(), methods, progress=progress)[0]
    except ValueError as error:  # too few rows, a class that is missing: the report goes on without
        words = f"The models could not be refitted on parts of these rows: {error}"
        return replace(found, reason=words)
    return replace(found, heldout=heldout)


def again(model: Any, *, tuned: bool) -> Method:
    """The model itself as a method: searched again on other rows, or fitted at the strengths that it has."""
    unfitted = _searched_again(model) if tuned else _with_settings_of(model._fitted())

    def fit(part: Rows) -> Predict:
        folds = {"cv": part.folds()} if tuned else {}
        return fitted_to(part, clone(unfitted).set_params(**folds))

    return Method(TITLES["own"], fit)


def _searched_again(model: Any) -> Any:
    """The unfitted search over fewer strengths, in this process and without output; lists of them stay."""
    search = clone(model)
    alone = {"engine": None, "checkpoint": None, "n_jobs": None, "task_column": None, "verbose": 0}
    alone |= {"effects": False, "estimator__task_column": None, "estimator__verbose": 0}
    if isinstance(model, TwoStrengthCV):
        pair = [model.strengths] * 2 if isinstance(model.strengths, Integral) else model.strengths
        fewer: dict[str, Any] = {
            "strengths": [min(int(n), N_PAIRS) if isinstance(n, Integral) else n for n in pair]
        }
    else:
        fewer = {"alphas": min(int(model.alphas), N_STRENGTHS)} if isinstance(model.alphas, Integral) else {}
    known = search.get_params()
    return search.set_params(**{name: v for name, v in {**alone, **fewer}.items() if name in known})


def _with_settings_of(model: Any) -> Any:
    """An unfitted model at the strengths that this one has; a search is not made again."""
    if isinstance(model, TaskSearch) and not isinstance(model, single_task.SingleTaskSearch):
        model = model._chosen_model()
    return clone(model).set_params(task_column=None, verbose=0)
