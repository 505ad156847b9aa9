"""The plain numbers of a fitted model, computed once: what the command line and the report show."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mmtfl.estimators.feature_use import (
    KINDS,
    FeatureUse,
    Range,
    feature_use,
    usage_notes,
    use_counts,
    used_by,
)
from mmtfl.inference.effect_table import effect_sentences, level_sentence
from mmtfl.persistence.archive import plain
from mmtfl.plots.fit_displays import score_name, search_curves
from mmtfl.report.evaluation import Evaluation, evaluate
from mmtfl.wording import noun_of_tasks, renamed

__all__ = ["Evaluation", "ModelSummary", "SearchSummary", "describe", "evaluate"]

Noun = tuple[str, str]  # what one task and several are called
FEATURES = "feature", "features"
SIZES = {  # how the size of a feature is called in tables, and what it measures
    "c": ("c", "what the tasks share: how large a feature is over all tasks"),
    "shared": ("shared part", "norm over tasks of the part of the coefficients that the tasks share"),
    "norm": ("size", "norm over tasks of the coefficients"),
    "size": ("size", "sum over tasks of the absolute coefficients"),
}


@dataclass(frozen=True)
class FeatureSummary:
    """One feature over all tasks.

    Attributes
    ----------
    name : str
        Its name, or x0, x1, ... where X had none.
    position : int
        Its column in X.
    size : float
        How large it is over all tasks; what that is, ``ModelSummary.size_name`` says.
    n_tasks : int
        How many tasks use it.
    n_possible : int
        How many tasks could use it: those within whose rows it varies.
    kind : str
        "shared" (used by all tasks that could use it), "partial", "single" or "none".
    used_by : str
        Who uses it, in words: "all 8 tasks", "3 of 8 tasks", "one task (Bern)", "no task".
    coef, per_sd : tuple of float
        Mean, smallest and largest coefficient over the tasks that could use it, in the units of the data and
        per standard deviation of the feature.
    agreement : float or None
        Share of the tasks that use it whose coefficient has the more frequent sign; None for no task.
    common, scatter : float or None
        What the tasks' coefficients scatter about, and how far (root mean square); None without ``pooling``.
    """

    name: str
    position: int
    size: float
    n_tasks: int
    n_possible: int
    kind: str
    used_by: str
    coef: tuple[float, float, float]
    per_sd: tuple[float, float, float]
    agreement: float | None
    common: float | None = None
    scatter: float | None = None


@dataclass(frozen=True)
class TaskSummary:
    """One task: its label, intercept, how many features it uses, and its rows where known.

    A task set apart does not join in what the others share; one predicted by its base rate has a single class
    and no part in the fit.
    """

    label: str | int
    intercept: float
    n_features: int
    n_rows: int | None
    set_apart: bool


class Convergence:
    """Where the solver stopped, and whether that was close enough."""

    def __init__(self, model: Any):
        self.converged = bool(getattr(model, "converged_", model.violation_ <= model.tol))
        self.objective, self.violation = float(model.objective_), float(model.violation_)
        self.tol = float(model.tol)
        self.dual_gap = None if model.dual_gap_ is None else float(model.dual_gap_)
        self.n_iter, self.max_iter = int(model.n_iter_), int(model.max_iter)


class SearchSummary:
    """A search over strengths: its folds, its measure, its candidates and its choice.

    Attributes
    ----------
    score_name : str
        What is measured on held-out rows, in words; larger is better.
    best_score : float
        Mean score of the choice.
    n_folds, n_candidates : int
        How much was tried.
    selection : str
        "best", or "one_se": the strongest alpha within a standard error of the best.
    curves : list of mmtfl.plots.fit_displays.Curve
        One for each (p, k), for each task that has a strength of its own, or for each second strength.
    held_out : dict of lists
        ``heldout_scores_`` of the model: scores of each task on held-out rows.
    """

    def __init__(self, model: Any):
        table = model.cv_results_
        tried = table.get("split0_test_score", table["mean_test_score"])  # the first fold is tried for all
        self.score_name, self.best_score = score_name(model), float(model.best_score_)
        self.n_folds = sum(name.startswith("split") for name in table)
        self.n_candidates = int(np.count_nonzero(~np.isnan(tried)))
        self.selection = getattr(model, "selection", "best")
        self.curves = search_curves(model)[0]
        self.held_out = {name: np.asarray(column).tolist() for name, column in model.heldout_scores_.items()}


class ModelSummary:
    """What `describe` finds.

    Attributes
    ----------
    title : str
        One line: what is predicted from what.
    noun : tuple of str
        What one task and several are called, which the texts below follow.
    model : str
        Name of the estimator's class.
    kind : str
        "regression" or "classification".
    classes : list or None
        The two classes; scores and coefficients are for the second.
    member : tuple or None
        (p, k) where the model is one of the family; k may be "log".
    strengths : dict
        Strengths of the penalty by name; a list where every task has its own.
    counts : dict
        Number of features that are shared, partial, single and none.
    usage : str
        The same in words: "Of 7 features, 3 are used: 2 by all 4 tasks, 0 by some, 1 by one."
    usage_notes : list of str
        What to keep in mind when reading it.
    effects : list of str
        What its effects are, in sentences; empty where they are not known.
    levels : str
        What the levels of its tasks follow, and how far they scatter; empty where levels are free.
    size_name : str
        Name of the size that orders the features: c, or what takes its place in additive models.
    features : list of FeatureSummary
        Largest size first.
    tasks : list of TaskSummary
        In the order of ``tasks_``.
    coef : ndarray of shape (n_tasks, n_features)
        Coefficients on the original scale, columns in the order of X.
    spread : ndarray of shape (n_features,)
        Standard deviation over all rows of the features in use.
    scaled_coef : ndarray of shape (n_tasks, n_features)
        Coefficients on one scale: for one standard deviation of the feature, in standard deviations of each
        task's target if targets were scaled.
    scaled_in_fit : tuple of str
        What was put on one scale before the penalty saw it: "features", "targets", both or nothing.
    convergence : Convergence
        Where the solver stopped.
    search : SearchSummary or None
        How the strengths were chosen, if the model chose them.
    parameters : dict
        Parameters of the estimator, as text.
    provenance : dict
        What was run, if the model knows.
    """

    def __init__(self, model: Any):
        fitted = model._fitted()
        use, self.member, self.noun = feature_use(fitted), _member(fitted), noun_of_tasks(fitted)
        inner, n_words = type(fitted).__name__, (self.noun, FEATURES)
        self.model = inner if fitted is model else f"{type(model).__name__}({inner})"
        self.kind = "classification" if is_classifier(fitted) else "regression"
        self.n_tasks, self.n_features = fitted.coef_.shape
        sizes = [
            f"{n:,} {words[n != 1]}".replace(",", " ")
            for n, words in zip(fitted.coef_.shape, n_words, strict=True)
        ]
        self.title = f"{self.kind.capitalize()} of {sizes[0]} on {sizes[1]}"
        self.classes: list[Any] | None = None
        if is_classifier(fitted):
            # as the table has them: those of several targets reach the model as 0 and 1
            known = getattr(getattr(model, "recipe_", None), "classes", None)
            self.classes = fitted.classes_.tolist() if known is None else list(known)
        self.strengths = _strengths(fitted)

        scales = {"features": fitted.column_scale_, "targets": fitted.target_scale_}
        self.scaled_in_fit = tuple(name for name, scale in scales.items() if scale is not None)
        columns, targets = (1.0 if scale is None else scale for scale in scales.values())
        self.coef, self.spread, unit = fitted.coef_, fitted.feature_spread_, np.reshape(targets, (-1, 1))
        self.scaled_coef = self.coef * self.spread / unit
        self.size_name, size = next(iter(fitted._sizes().items()))
        if self.member is not None and self.member[1] == math.inf:  # c is one for every feature that is kept
            # the norm on the scale that the penalty saw
            self.size_name, size = "norm", np.linalg.norm(self.coef * columns / unit, axis=0)

        self.features, self.tasks = _features(fitted, use, size, self.noun), _tasks(fitted)
        self.counts = {word: sum(feature.kind == word for feature in self.features) for word in KINDS}
        used = int(np.count_nonzero(use.n_tasks))
        usage = f"Of {sizes[1]}, {used} {'is' if used == 1 else 'are'} used"
        if used and use.n_counted > 1:  # else there is nobody to share with
            usage += f": {use_counts(use)}"
        self.usage = renamed(f"{usage}.", self.noun)
        self.usage_notes = [renamed(line, self.noun) for line in usage_notes(fitted, use, self.member)]
        self.effects, self.levels = effect_sentences(fitted), level_sentence(fitted)

        self.convergence = Convergence(fitted)
        self.search = SearchSummary(model) if getattr(model, "cv_results_", None) else None
        written = {name: " ".join(repr(v).split()) for name, v in model.get_params(deep=False).items()}
        self.parameters = {
            n: text if len(text) <= 200 else f"{text[:196]} ..." for n, text in written.items()
        }
        self.provenance = dict(getattr(model, "provenance_", None) or {})

    @property
    def n_counted(self) -> int:
        """Number of tasks that count when it is told how many use a feature: all that share in the fit."""
        return sum(not task.set_apart for task in self.tasks)

    @property
    def size_label(self) -> str:
        """What ``FeatureSummary.size`` is called in tables."""
        return SIZES[self.size_name][0]

    @property
    def size_meaning(self) -> str:
        """What ``FeatureSummary.size`` measures, in words."""
        return renamed(SIZES[self.size_name][1], self.noun)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the coefficient matrices, as strict JSON types: infinities are text, NaN is None."""
        left_out = ("coef", "spread", "scaled_coef")
        parts = {"convergence": vars(self.convergence), "search": self.search and vars(self.search)}
        return plain({name: value for name, value in {**vars(self), **parts}.items() if name not in left_out})


def describe(model: Any) -> ModelSummary:
    """Gather what a fitted model says.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, a search included.

    Returns
    -------
    summary : ModelSummary
        Plain numbers and lists.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.report.summary import describe
    >>> data = make_tasks(n_tasks=3, n_samples=50, n_features=6, n_informative=2, noise=0.1, random_state=0)
    >>> summary = describe(MMTFLRegressor(p=2, k=1, alpha=0.1).fit(data.X, data.y, task=data.task))
    >>> summary.title
    'Regression of 3 tasks on 6 features'
    >>> summary.counts
    {'shared': 2, 'partial': 0, 'single': 0, 'none': 4}
    >>> summary.usage
    'Of 6 features, 2 are used: 2 by all 3 tasks, 0 by some, 0 by one.'
    >>> summary.features[0].used_by
    'all 3 tasks'
    """
    return ModelSummary(model)


# -- the parts -----------------------------------------------------------------------------------------------


def _features(model: Any, use: FeatureUse, size: np.ndarray, noun: Noun) -> list[FeatureSummary]:
    """The features, largest first."""
    names, common = model._feature_names(), model._common_columns()

    def mean_and_range(found: Range, j: int) -> tuple[float, float, float]:
        return float(found.mean[j]), float(found.low[j]), float(found.high[j])

    return [
        FeatureSummary(
            names[j],
            j,
            float(size[j]),
            int(use.n_tasks[j]),
            int(use.n_possible[j]),
            str(use.kind[j]),
            renamed(used_by(use, j), noun),
            mean_and_range(use.coef, j),
            mean_and_range(use.per_sd, j),
            float(use.agreement[j]) if use.n_tasks[j] else None,
            **{name: float(column[j]) for name, column in common.items()},
        )
        for j in np.argsort(-size, kind="stable").tolist()
    ]


def _tasks(model: Any) -> list[TaskSummary]:
    sizes = getattr(model, "task_sizes_", None)
    apart = set(getattr(model, "outlier_tasks_", np.empty(0)).tolist())
    return [
        TaskSummary(
            label=label,
            intercept=float(model.intercept_[t]),
            n_features=int(np.count_nonzero(model.coef_[t])),
            n_rows=None if sizes is None else int(sizes[t]),
            set_apart=label in apart,
        )
        for t, label in enumerate(model.tasks_.tolist())
    ]


def _member(model: Any) -> tuple[float, float | str] | None:
    if hasattr(model, "best_p_"):
        return float(model.best_p_), model.best_k_
    if not (hasattr(model, "p") and hasattr(model, "k")):
        return None
    return float(model.p), model.k if model.k == "log" else float(model.k)


def _strengths(model: Any) -> dict[str, float | list[float]]:
    pooling = float(getattr(model, "best_pooling_", getattr(model, "pooling", 0.0)))
    pooled = {"pooling": pooling} if pooling else {}
    if hasattr(model, "alpha_"):
        alpha = model.alpha_.tolist() if np.ndim(model.alpha_) else float(model.alpha_)
        return {"alpha": alpha, **pooled}
    names = getattr(model, "strength_names", ("alpha",))
    return {**{name: float(getattr(model, name)) for name in names}, **pooled}
