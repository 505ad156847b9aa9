"""The methods that are compared: this library's, and scikit-learn's tuned as their own users tune them.

A method is fitted to rows, and gives a function from other rows to predicted means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn import config_context
from sklearn.base import is_classifier
from threadpoolctl import threadpool_limits

from mmtfl.estimators import inputs
from mmtfl.estimators.search import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.estimators.two_strengths import DirtyClassifier, DirtyRegressor, RobustClassifier, RobustRegressor
from mmtfl.model_selection.folds import folds_of_tasks, with_groups
from mmtfl.model_selection.splitting import TaskKFold, TaskSplitter, TaskTimeSplit
from mmtfl.report.judging import HeldOut
from mmtfl.tasks.checks import check_task_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.converters import group_checked_rows, observe_checked_rows
from mmtfl.tasks.frames import make_frame

Fold = tuple[np.ndarray, np.ndarray]
N_FOLDS = 3


def kind_of_targets(model: Any) -> str | None:
    """Numbers, classes or counts; None where tasks differ, or where the loss is another one."""
    if is_classifier(model):
        return "classes"
    if model._loss.on_residuals:
        return "numbers"
    return "counts" if getattr(model._loss, "name", None) == "poisson" else None


def _without_gaps(model: Any, X: Any) -> Any:
    """X with the means of features that some tasks do not have in the place of missing values.

    Other models need a number there; in rows of such a task it is the same for all.
    """
    absent = vars(model).get("absent_")
    if absent is None or sparse.issparse(X):
        return X
    some = absent.any(axis=0)
    means = np.where(some, np.nanmean(np.where(np.isfinite(X), X, np.nan), axis=0), np.nan)
    return np.where(np.isnan(X) & some, means, X)


@dataclass(frozen=True, eq=False)
class Rows:
    """Observations of all tasks, task by task.

    Attributes
    ----------
    tasks : Tasks
        The observations with their groups and offset; targets are numbers, 0 and 1 for classes.
    labels : ndarray of shape (n_tasks,)
        The tasks of the whole table.
    kind : {"numbers", "classes", "counts"} or None
        What the targets are.
    classes : ndarray, optional
        The two classes as models are given them.
    backend : str, optional
        Library of frames, if X has names.
    in_time : bool
        Whether the rows of a task are in time order.
    """

    tasks: Tasks
    labels: np.ndarray
    kind: str | None
    classes: np.ndarray | None = None
    backend: str | None = None
    in_time: bool = False

    @classmethod
    def of_model(cls, model: Any, X: Any, y: Any, task: Any = None, **structure: Any) -> Rows:
        """Rows as a fitted model reads them; their structure is as in `of_table`."""
        X, labels, name = inputs.take_task_column(X, task, model.task_column)
        X, names = model._read_design(X, labels, reset=False)
        if inputs.n_dimensions(y) != 2 or labels is not None:
            y = inputs.single_column(y) if inputs.n_dimensions(y) == 2 else np.asarray(y)
            labels = model.tasks_[model._only_task(X.shape[0])] if labels is None else labels
            labels = check_task_labels(labels, X.shape[0], name=name)
            inputs.locate_tasks(labels, model.tasks_, unknown="error")
        else:
            y = inputs.matrix_values(y)
        return cls.of_table(
            _without_gaps(model, X),
            y,
            labels,
            kind=kind_of_targets(model),
            tasks=model.tasks_,
            classes=model.classes_ if is_classifier(model) else None,
            names=getattr(model, "feature_names_in_", names),
            backend=getattr(model, "_backend", None),
            **structure,
        )

    @classmethod
    def of_table(
        cls, X: Any, y: Any, labels: Any, *, kind: str | None, tasks: Any = None, classes: Any = None,
        names: Any = None, groups: Any = None, offset: Any = None, **more: Any,
    ) -> Rows:  # fmt: skip
        """Rows with the label of their task; without, y has a column for each of the tasks."""
        names = None if names is None else tuple(names)
        if classes is not None:
            y = np.where(y == y, y == classes[1], np.nan)  # NaN, which differs from itself, was not observed
        if labels is None:
            rows = Tasks(*observe_checked_rows(X, y, tasks, None, names, None, offset))
        else:
            rows = Tasks(*group_checked_rows(X, y, labels, None, names, None, offset))
        if groups is not None:
            rows = with_groups(rows, groups, labels)
        return cls(rows, rows.labels if tasks is None else np.asarray(tasks), kind, classes, **more)

    # -- one entry for each observation ----------------------------------------------------------------------

    @cached_property
    def X(self) -> Any:
        """The features."""
        return self.tasks.to_rows()[0]

    @property
    def value(self) -> np.ndarray:
        """The targets as numbers."""
        return self.tasks.y

    @property
    def y(self) -> np.ndarray:
        """The targets as a model is given them."""
        return self.value if self.classes is None else self.classes[self.value.astype(int)]

    @cached_property
    def task(self) -> np.ndarray:
        """Position of the task."""
        place = {label: t for t, label in enumerate(self.labels.tolist())}
        return np.array([place[label] for label in self.tasks.labels.tolist()])[self.tasks.observation_task]

    @property
    def source(self) -> np.ndarray:
        """Row of X."""
        return np.arange(len(self.value)) if self.tasks.rows is None else self.tasks.rows

    @property
    def shift(self) -> Any:
        """The offset of numbers, which other models are given by taking it off the targets."""
        return 0.0 if self.tasks.known is None else self.tasks.known

    # -- what a model is given, and what it says -------------------------------------------------------------

    @property
    def design(self) -> Any:
        """X as the model is fitted to it: a frame where its features have names."""
        names = self.tasks.feature_names
        if names is None or sparse.issparse(self.X):
            return self.X
        return make_frame(dict(zip(names, self.X.T, strict=True)), self.backend)

    @property
    def known(self) -> dict[str, Any]:
        """Labels and offset, as `fit` and `predict` take them."""
        offset = {} if self.tasks.known is None else {"offset": self.tasks.known}
        return {"task": self.labels[self.task], **offset}

    def means(self, model: Any) -> np.ndarray:
        """Predicted means of a fitted model: of classes, the probability of the second one."""
        answer = model.decision_function if self.kind == "classes" else model.predict
        known = self.known
        if model._fitted()._predicts_matrix:
            del known["task"]
        found = np.asarray(answer(self.design, **known), dtype=float)
        if found.ndim == 2:  # tasks that are columns of y
            found = found[np.arange(len(found)), self.task]
        return expit(found) if self.kind == "classes" else found

    def judged(
        self, means: dict[str, np.ndarray], row: np.ndarray | None = None, split: np.ndarray | None = None
    ) -> HeldOut:
        """Predictions for the rows with these numbers; several targets in units of their own spread."""
        row = np.arange(len(self.value)) if row is None else row
        y, task, one_unit = self.value, self.task, self.tasks.rows is None
        if not one_unit and self.kind == "numbers":
            spread = np.array([y[task == t].std() or 1.0 for t in range(len(self.labels))])[task]
            y, means = y / spread, {who: mean / spread[row] for who, mean in means.items()}
        return HeldOut(self.kind or "", y[row], task[row], means, len(self.labels), split, row, one_unit)

    # -- parts -----------------------------------------------------------------------------------------------

    def select(self, rows: np.ndarray) -> Rows:
        """Some of the rows, by ascending numbers."""
        return replace(self, tasks=self.tasks.select(rows))

    def folds(self, n_folds: int = N_FOLDS) -> list[Fold]:
        """Folds of the table: several targets of one row are held out together, and so are groups."""
        stratify = self.kind == "classes"
        if self.in_time:
            return self.split(TaskTimeSplit(n_folds, stratify=stratify))
        return self.split(TaskKFold(n_folds, random_state=0, stratify=stratify))

    def split(self, splitter: TaskSplitter) -> list[Fold]:
        """Parts of the table to train and to test on."""
        tasks = self.tasks
        if tasks.rows is None:
            return folds_of_tasks(splitter, tasks)
        units, first, source = np.unique(tasks.rows, return_index=True, return_inverse=True)
        matrix = np.full((len(units), tasks.n_tasks), np.nan)
        matrix[source, tasks.observation_task] = tasks.y
        group = None if tasks.groups is None else np.unique(tasks.groups[first], return_inverse=True)[1]
        return [
            (np.flatnonzero(np.isin(source, train)), np.flatnonzero(np.isin(source, test)))
            for train, test in splitter.parts(len(matrix), matrix, None, group)
        ]


Predict = Callable[[Rows], np.ndarray]

FEWEST_ROWS = 5  # of a task with a model of its own; with fewer, or of a class, its mean serves
STRENGTHS = np.logspace(-3, 5, 17)
CLASS_STRENGTHS = np.logspace(-3, 1, 5)  # inverse ones
MOST_NEWTON = 50  # columns up to which Newton steps take less time than gradients
MOST_CATEGORIES = 255  # of scikit-learn's boosting
MOST_DENSE = 10_000_000  # entries of indicator columns that are kept as an array
MOST_TUNED = 300_000  # entries of X up to which boosting has a grid of its own
LEAVES, TREES = (4, 16), (50, 150)


@dataclass(frozen=True)
class Method:
    """A way to predict.

    Attributes
    ----------
    title : str
        In a table.
    fit : callable
        From rows to a function from rows to predicted means.
    words : str
        In a sentence, as a plural; ``{task}`` is what a task is called.
    """

    title: str
    fit: Callable[[Rows], Predict]
    words: str = ""


# -- scikit-learn's ------------------------------------------------------------------------------------------


def fit_separate(rows: Rows, *, lasso: bool = False) -> Predict:
    """One linear model for each task, each with its own strength."""
    X, y, task = _shuffled(rows)
    mean = float(y.mean())  # for a task without rows
    models = {t: _fit_linear(X[task == t], y[task == t], rows.kind, lasso) for t in np.unique(task).tolist()}

    def predict(asked: Rows) -> np.ndarray:
        out = np.full(len(asked.task), mean)
        for t in np.unique(asked.task).tolist():
            if t in models:
                out[asked.task == t] = models[t](asked.X[asked.task == t])
        return out + asked.shift

    return predict


def fit_pooled(rows: Rows, *, with_task: bool = True) -> Predict:
    """One linear model for the rows of all tasks, with the task as a category."""
    X, y, task = _shuffled(rows)
    n_tasks = int(task.max()) + 1 if with_task else 0

    def table(X: Any, task: np.ndarray) -> Any:
        if not n_tasks:
            return X
        if not sparse.issparse(X) and len(task) * n_tasks <= MOST_DENSE:
            return np.hstack([X, np.eye(n_tasks)[task]])
        own = sparse.csr_matrix((np.ones(len(task)), (np.arange(len(task)), task)), (len(task), n_tasks))
        return sparse.hstack([sparse.csr_matrix(X), own], format="csr")

    answer = _fit_linear(table(X, task), y, rows.kind)
    return lambda asked: answer(table(asked.X, asked.task)) + asked.shift


def fit_boosting(rows: Rows, *, with_task: bool = True) -> Predict:
    """Gradient boosting with the task as a category; size and number of trees by folds."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.model_selection import GridSearchCV

    X, y, task = _shuffled(rows)

    def table(X: Any, task: np.ndarray) -> np.ndarray:
        dense = X.toarray() if sparse.issparse(X) else X
        return np.column_stack([dense, task]) if with_task else dense

    if np.ptp(y) == 0:
        return lambda asked: np.full(len(asked.task), y[0]) + asked.shift
    options: dict[str, Any] = {"random_state": 0}
    if with_task and task.max() < MOST_CATEGORIES:
        options["categorical_features"] = [X.shape[1]]
    model: Any = {
        "numbers": HistGradientBoostingRegressor(**options),
        "counts": HistGradientBoostingRegressor(loss="poisson", **options),
        "classes": HistGradientBoostingClassifier(**options),
    }[str(rows.kind)]
    is_small = X.shape[0] * X.shape[1] <= MOST_TUNED
    if is_small:
        scoring = {"numbers": "neg_mean_squared_error", "counts": "neg_mean_poisson_deviance"}
        grid = {"max_leaf_nodes": LEAVES, "max_iter": TREES}
        model = GridSearchCV(model, grid, cv=N_FOLDS, scoring=scoring.get(str(rows.kind), "neg_log_loss"))
    # many small trees: threads that wait for each other took twenty times as long as one
    with threadpool_limits(1 if is_small else None, user_api="openmp"):
        answer = _answer(model.fit(table(X, task), y), rows.kind)
    return lambda asked: answer(table(asked.X, asked.task)) + asked.shift


def _shuffled(rows: Rows) -> tuple[Any, np.ndarray, np.ndarray]:
    """X, targets and tasks in random order, as folds need them; the offset of numbers is taken off."""
    order = np.random.default_rng(0).permutation(len(rows.value))
    return rows.X[order], (rows.value - rows.shift)[order], rows.task[order]


def _fit_linear(X: Any, y: np.ndarray, kind: str | None, lasso: bool = False) -> Callable[[Any], np.ndarray]:
    """A tuned linear model of some rows; their mean where they are too few, or too much alike."""
    rarer = min(np.sum(y > 0), np.sum(y <= 0)) if kind == "classes" else len(y)
    if len(y) < FEWEST_ROWS or rarer < N_FOLDS or np.ptp(y) == 0:
        mean = (y.sum() + 0.5) / (len(y) + 1.0) if kind == "classes" else float(y.mean())
        return lambda X: np.full(X.shape[0], mean)
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(
        StandardScaler(with_mean=not sparse.issparse(X)), _linear(X.shape[1], kind, lasso)
    )
    with config_context(assume_finite=True, skip_parameter_validation=True):
        return _answer(pipeline.fit(X, y), kind)


def _linear(n_features: int, kind: str | None, lasso: bool) -> Any:
    """Ridge or lasso, logistic or Poisson regression with the strength by folds."""
    from sklearn.linear_model import LassoCV, LogisticRegressionCV, PoissonRegressor, RidgeCV
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    if kind == "classes":
        folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
        solver = "liblinear" if lasso else "newton-cholesky" if n_features <= MOST_NEWTON else "lbfgs"
        return LogisticRegressionCV(
            Cs=CLASS_STRENGTHS,
            l1_ratios=(float(lasso),),
            solver=solver,
            cv=folds,
            scoring=_log_likelihood,
            max_iter=500,
            use_legacy_attributes=False,
        )
    if kind == "counts":
        poisson = PoissonRegressor(max_iter=500)
        grid = {"alpha": np.logspace(-4, 2, 7)}
        return GridSearchCV(poisson, grid, cv=N_FOLDS, scoring="neg_mean_poisson_deviance")
    return LassoCV(cv=N_FOLDS, alphas=50, max_iter=5000) if lasso else RidgeCV(STRENGTHS)


def _log_likelihood(model: Any, X: Any, y: np.ndarray) -> float:
    """As "neg_log_loss" of scikit-learn, whose checks take longer than the fit to a small task."""
    z = model.decision_function(X)
    return float(-np.logaddexp(0.0, np.where(y > 0, -z, z)).mean())


def _answer(model: Any, kind: str | None) -> Callable[[Any], np.ndarray]:
    return (lambda X: model.predict_proba(X)[:, 1]) if kind == "classes" else model.predict


RIVALS = {
    "separate": Method("Separate models", fit_separate, "separate models for each {task}"),
    "pooled": Method("One model", fit_pooled, "one linear model for all rows"),
    "boosting": Method("Boosted trees", fit_boosting, "boosted trees"),
}


# -- this library's ------------------------------------------------------------------------------------------


def fitted_to(rows: Rows, model: Any) -> Predict:
    """A model of this library, fitted to rows."""
    model.fit(rows.design, rows.y, **rows.known)
    return lambda asked: asked.means(model)


def _options(rows: Rows, given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an estimator of these targets: only numbers have a scale."""
    if rows.kind == "numbers":
        return dict(given)
    loss = {"loss": "poisson"} if rows.kind == "counts" else {}
    return {name: value for name, value in given.items() if name != "scale_targets"} | loss


def _search(rows: Rows, *, folds: int = 3, **given: Any) -> Predict:
    kind: Any = MMTFLClassifierCV if rows.kind == "classes" else MMTFLRegressorCV
    own = {"alphas": 30, "effects": False, **_options(rows, given)}
    return fitted_to(rows, kind(cv=rows.folds(folds), **own))


def _two_strengths(pair: tuple[Any, Any], rows: Rows, *, folds: int = 3, **given: Any) -> Predict:
    given.pop("feature_groups", None)
    one = pair[rows.kind == "classes"](**_options(rows, given))
    return fitted_to(rows, TwoStrengthCV(one, strengths=8, cv=rows.folds(folds)))


def methods_of_table(**options: Any) -> dict[str, Method]:
    """What `mmtfl compare` knows; options are those of this library's methods, and ``folds``."""
    search = partial(_search, **options)
    return {
        "mmtfl": Method("MMTFL, as mmtfl cv", search),
        **{
            f"mmtfl{p}{k}": Method(f"MMTFL({p},{k})", partial(search, pk=(p, k), poolings=(0,)))
            for p, k in ((2, 2), (1, 1), (2, 1), (1, 2))
        },
        "dirty": Method("Dirty model", partial(_two_strengths, (DirtyRegressor, DirtyClassifier), **options)),
        "robust": Method(
            "Robust model", partial(_two_strengths, (RobustRegressor, RobustClassifier), **options)
        ),
        "separate": Method("Ridge per task", fit_separate),
        "lasso": Method("Lasso per task", partial(fit_separate, lasso=True)),
        "pooled": Method("One ridge for all", fit_pooled),
        "boosting": Method("Boosted trees", fit_boosting),
    }


USUAL = ("mmtfl", "mmtfl21", "dirty", "robust", "separate", "lasso", "pooled", "boosting")


def methods_for_new_tasks(**options: Any) -> dict[str, Method]:
    """The same for tasks without a row in training."""
    search = partial(_search, **options)
    common = partial(search, pk=((2, 2), (2, 1)), poolings=(0.9, 0.98, 0.998), unknown_task="common")
    return {
        "common": Method("Common part", common),
        "mean": Method("Mean of the tasks", partial(search, poolings=(0.0,), unknown_task="mean")),
        "pooled": Method("One ridge for all", partial(fit_pooled, with_task=False)),
        "boosting": Method("Boosted trees", partial(fit_boosting, with_task=False)),
    }
