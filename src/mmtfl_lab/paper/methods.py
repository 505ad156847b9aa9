"""The methods of the experiments: each takes training rows with folds, tunes itself, and predicts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from mmtfl.estimators.coefficient_path import path
from mmtfl.estimators.search import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.estimators.single_task import SingleTaskClassifierCV, SingleTaskRegressorCV
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.estimators.two_strengths import DirtyClassifier, DirtyRegressor, RobustClassifier, RobustRegressor
from mmtfl.persistence.archive import plain
from mmtfl_lab.paper import borrowed_methods
from mmtfl_lab.paper.data_sets import Fold, Part, Split

MEMBERS = {"mmtfl22": (2, 2), "mmtfl11": (1, 1), "mmtfl21": (2, 1), "mmtfl12": (1, 2)}


@dataclass(frozen=True)
class Grid:
    """How finely every method is tuned.

    Attributes
    ----------
    alphas : int
        Strengths of a member of the family.
    single : int
        Strengths of ridge and of lasso, for every task alone or for the pooled rows.
    pairs : int
        Values of each of the two strengths of the additive methods.
    folds : int
        Folds inside training, the same for all methods.
    auto_folds : int
        Folds with which MMTFL(auto) chooses (p, k) where tasks have fewer than four rows per feature: there
        the rows taken away can change which member is best. Elsewhere five, as MMTFLRegressorCV has.
    tol : float
        Tolerance of the solvers along the paths; the last fit goes a thousand times further.
    alpha_ratio : float or None
        Smallest over largest strength of a member; None is the library's own choice.
    """

    alphas: int = 20
    single: int = 20
    pairs: int = 8
    folds: int = 3
    auto_folds: int = 10
    tol: float = 1e-3
    alpha_ratio: float | None = None

    def folds_to_choose(self, train: Part) -> int:
        """Folds of MMTFL(auto) for these training rows."""
        rows_per_task = len(train.y) / len(np.unique(train.task))
        return max(self.folds, self.auto_folds if rows_per_task < 4 * train.X.shape[1] else 5)


@dataclass(frozen=True)
class Fitted:
    """A fitted method: its predictions (log odds for classes), its coefficients and what it chose."""

    predict: Callable[[np.ndarray, np.ndarray], np.ndarray]
    coef: np.ndarray
    chosen: dict[str, Any]


Fit = Callable[[Split, bool, Mapping[str, Any], Grid], Fitted]


def _always(classify: bool) -> str | None:
    return None


@dataclass(frozen=True)
class Method:
    """A method of the experiments; those of the paper are columns of Table 2.

    `why_not` says why it cannot be run, for classes or for numbers; None if it can.
    """

    name: str
    title: str
    fit: Fit
    why_not: Callable[[bool], str | None] = _always


def _response(model: Any, classify: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda X, task: (model.decision_function if classify else model.predict)(X, task=task)


def _scaling(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that models of single tasks and of pooled rows have too."""
    return {name: options[name] for name in ("standardize", "fit_intercept") if name in options}


def _search(pk: Any, split: Split, classify: bool, options: Mapping, grid: Grid, **more: Any) -> Any:
    """The family's own search, fitted on the training rows."""
    search = MMTFLClassifierCV if classify else MMTFLRegressorCV
    train = split.train
    n_folds = grid.folds if np.ndim(pk) == 1 else grid.folds_to_choose(train)
    tuning: dict[str, Any] = {"alphas": grid.alphas, "alpha_ratio": grid.alpha_ratio, "tol": grid.tol}
    model = search(pk=pk, cv=split.folds(n_folds), **tuning, **options, **more)
    return model.fit(train.X, train.y, task=train.task)


def _family(pk: Any, split: Split, classify: bool, options: Mapping, grid: Grid) -> Fitted:
    """Members as the paper has them, without a common part."""
    model = _search(pk, split, classify, options, grid, poolings=(0.0,))
    chosen = {"p": model.best_p_, "k": model.best_k_, "alpha": model.alpha_}
    return Fitted(_response(model, classify), model.coef_, chosen)


def _two_strengths(
    models: tuple[type, type], split: Split, classify: bool, options: Mapping, grid: Grid
) -> Fitted:
    model = models[classify](tol=grid.tol, **options)
    search = TwoStrengthCV(model, strengths=grid.pairs, cv=split.folds(grid.folds))
    search.fit(split.train.X, split.train.y, task=split.train.task)
    return Fitted(_response(search, classify), search.coef_, dict(search.best_params_))


def _single_tasks(split: Split, classify: bool, options: Mapping, grid: Grid) -> Fitted:
    """Ridge or lasso per task, each with its own strength."""
    train, known = split.train, {"classify": classify, "n_strengths": grid.single, **_scaling(options)}
    model = fit_single_tasks(train.X, train.y, train.task, split.folds(grid.folds), **known)
    n_ridge = int(np.count_nonzero(model.p == 2))
    return Fitted(model.decision, model.coef, {"ridge": n_ridge, "lasso": len(model.p) - n_ridge})


def _pooled(split: Split, classify: bool, options: Mapping, grid: Grid) -> Fitted:
    """One ridge or lasso for the rows of all tasks, as if they were one.

    Where targets may be in different units, each task's are brought to mean 0 and spread 1 first.
    """
    search = SingleTaskClassifierCV if classify else SingleTaskRegressorCV
    train, folds = split.train, split.folds(grid.folds)
    labels, code = np.unique(train.task, return_inverse=True)
    centre, unit = borrowed_methods.centre_and_unit(split, options)
    y = train.y if classify else (train.y - centre[code]) / unit[code]
    tuning: dict[str, Any] = {"alphas": grid.single, "cv": folds, "tol": grid.tol, **_scaling(options)}
    models = [search(p=p, **tuning).fit(train.X, y) for p in (2, 1)]
    model = max(models, key=lambda model: model.best_score_)

    def predict(X: np.ndarray, task: np.ndarray) -> np.ndarray:
        if classify:
            return model.decision_function(X)
        t = np.searchsorted(labels, task)
        return model.predict(X) * unit[t] + centre[t]

    coef = model.coef_.reshape(1, -1) * unit[:, None]
    return Fitted(predict, coef, {"p": model.best_p_, "alpha": float(model.alpha_)})


def _centred(pk: Any, split: Split, classify: bool, options: Mapping, grid: Grid) -> Fitted:
    """Members with and without a common part, as the search has them by default."""
    return _with_pooling(_search(pk, split, classify, options, grid), classify)


def _data_shared(split: Split, classify: bool, options: Mapping, grid: Grid) -> Fitted:
    """The data-shared lasso, with the weight of the common part that its authors propose, and two others."""
    root = float(np.sqrt(len(np.unique(split.train.task))))
    poolings = (0.7, root / (1.0 + root), 0.98)
    model = _search((1, np.inf), split, classify, options, grid, poolings=poolings)
    return _with_pooling(model, classify)


def _with_pooling(model: Any, classify: bool) -> Fitted:
    chosen = {"p": model.best_p_, "k": plain(model.best_k_), "pooling": model.best_pooling_}
    return Fitted(_response(model, classify), model.coef_, {**chosen, "alpha": model.alpha_})


def _boosting(split: Split, classify: bool, options: Mapping, grid: Grid) -> Fitted:
    """Boosted trees, which have no coefficients."""
    predict, chosen = borrowed_methods.fit_boosting(split, classify, options, grid.folds)
    return Fitted(predict, np.zeros((1, split.train.X.shape[1])), chosen)


def _pretrained_lasso(split: Split, classify: bool, options: Mapping, grid: Grid) -> Fitted:
    predict, chosen = borrowed_methods.fit_pretrained_lasso(split, options, grid.folds)
    labels, unit = np.unique(split.train.task), np.eye(split.train.X.shape[1])
    at_zero = predict(0.0 * unit[:1].repeat(len(labels), axis=0), labels)
    rows = [predict(unit, np.repeat(label, len(unit))) for label in labels]
    return Fitted(predict, np.array(rows) - at_zero[:, None], chosen)


def _member(name: str, p: int, k: int) -> Method:
    return Method(name, f"MMTFL({p},{k})", partial(_family, (p, k)))


_ALL = [
    Method("stl", "STL", _single_tasks),
    Method("dmtl", "DMTL", partial(_two_strengths, (DirtyRegressor, DirtyClassifier))),
    Method("rmtfl", "rMTFL", partial(_two_strengths, (RobustRegressor, RobustClassifier))),
    *(_member(name, *pk) for name, pk in MEMBERS.items()),
    Method("auto", "MMTFL(auto)", partial(_family, tuple(MEMBERS.values()))),
    Method("pooled", "Pooled", _pooled),
]
_MORE = [
    Method("centred", "Centred", partial(_centred, tuple(MEMBERS.values()))),
    Method("datashared", "Data-shared lasso", _data_shared),
    Method("pretrained", "Pretrained lasso", _pretrained_lasso, borrowed_methods.no_pretrained_lasso),
    Method("boosting", "Boosted trees", _boosting),
]
IN_THE_PAPER = tuple(method.name for method in _ALL)  # with STL, auto and pooled beside them
METHODS = {method.name: method for method in (*_ALL, *_MORE)}


# -- the single-task baseline, tuned fairly: ridge or lasso for every task, each with its own strength -------

# At k = inf the tasks of the family do not meet, so one path over all tasks holds the models of every task at
# every strength. Each task then takes its own strength from it, and the better of ridge and lasso, by its own
# held-out rows.

_TOL = 1e-4


@dataclass(frozen=True)
class SingleTasks:
    """One linear model per task.

    Attributes
    ----------
    labels : ndarray (T,)
        Tasks, sorted.
    coef : ndarray (T, d)
        Coefficients.
    intercept : ndarray (T,)
        Intercepts.
    p : ndarray (T,)
        2 where ridge was chosen, 1 where the lasso was.
    """

    labels: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    p: np.ndarray

    def decision(self, X: np.ndarray, task: np.ndarray) -> np.ndarray:
        """Predicted value, or log odds, of every row."""
        t = np.searchsorted(self.labels, task)
        return np.einsum("ij,ij->i", X, self.coef[t]) + self.intercept[t]


def fit_single_tasks(
    X: np.ndarray,
    y: np.ndarray,
    task: np.ndarray,
    folds: Sequence[Fold],
    *,
    classify: bool = False,
    standardize: bool = False,
    fit_intercept: bool = True,
    n_strengths: int = 30,
) -> SingleTasks:
    """Tune and fit ridge and lasso on every task alone, and keep the better one of each.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows of all tasks.
    y : ndarray of shape (n,)
        Targets; 0 and 1 for classes.
    task : ndarray of shape (n,)
        Task of each row.
    folds : sequence of (train, test)
        Row numbers; every task must be in every training part.
    classify : bool
        Whether the loss is logistic.
    standardize : bool
        Whether each task's features are brought to unit spread, with the statistics of the rows fitted.
    fit_intercept : bool
        Whether each task has a constant.
    n_strengths : int
        Strengths tried for ridge, and for lasso.

    Returns
    -------
    SingleTasks
        Fitted on all rows.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.model_selection import TaskKFold
    >>> from mmtfl_lab.paper.methods import fit_single_tasks
    >>> data = make_tasks(3, 40, 8, n_informative=2, noise=0.3, random_state=0)
    >>> folds = list(TaskKFold(3, random_state=0).split(data.X, task=data.task))
    >>> model = fit_single_tasks(data.X, data.y, data.task, folds)
    >>> model.coef.shape, model.p.tolist()
    ((3, 8), [1, 1, 1])
    """
    labels, code = np.unique(task, return_inverse=True)
    held_out, fitted = {}, {}
    options = {"classify": classify, "standardize": standardize, "fit_intercept": fit_intercept}
    for p in (2, 1):
        whole = _Models(X, y, code, p, n_strengths, **options)
        parts = [(_Models(X[i], y[i], code[i], p, whole.alphas, **options), test) for i, test in folds]
        held_out[p] = sum(part.losses(X[test], y[test], code[test]) for part, test in parts)
        fitted[p] = whole
    best = {p: loss.min(axis=1) for p, loss in held_out.items()}
    chosen = np.where(best[2] <= best[1], 2, 1)
    models = [fitted[p].of_task(t, int(held_out[p][t].argmin())) for t, p in enumerate(chosen.tolist())]
    coef, intercept = (np.array(part) for part in zip(*models, strict=True))
    return SingleTasks(labels, coef, intercept, chosen)


class _Models:
    """Ridge or lasso of all tasks at all strengths, fitted on some rows, each task on its own scale."""

    def __init__(self, X, y, code, p, strengths, *, classify, standardize, fit_intercept):
        rows = [code == t for t in range(int(code.max()) + 1)]
        self.n_tasks, self.classify = len(rows), classify
        one = np.ones(X.shape[1])
        self.x_scale = np.array([_spread(X[mine]) if standardize else one for mine in rows])
        # targets on one scale, so that one grid of strengths suits all tasks
        self.y_scale = np.array([1.0 if classify else _spread(y[mine]) for mine in rows])
        X, y = X / self.x_scale[code], y if classify else y / self.y_scale[code]
        options = {"loss": "logistic" if classify else "squared", "fit_intercept": fit_intercept, "tol": _TOL}
        self.path = path(X, y, code, p=p, k=np.inf, alphas=strengths, **options)
        self.alphas = self.path.alphas

    def losses(self, X, y, code):
        """Summed loss of each task's rows at every strength, (n_tasks, n_strengths)."""
        X, y = X / self.x_scale[code], y / self.y_scale[code]
        out = np.zeros((self.n_tasks, len(self.alphas)))
        for i in range(len(self.alphas)):
            z = np.einsum("ij,ij->i", X, self.path.coef(i)[code]) + self.path.intercepts[i][code]
            loss = np.logaddexp(0.0, np.where(y > 0, -z, z)) if self.classify else 0.5 * (y - z) ** 2
            out[:, i] = np.bincount(code, loss, minlength=self.n_tasks)
        return out

    def of_task(self, t, i):
        """Coefficients and intercept of one task at one strength, in the units of X and y."""
        coef = self.path.coef(i)[t] / self.x_scale[t]
        return self.y_scale[t] * coef, self.y_scale[t] * self.path.intercepts[i][t]


def _spread(values):
    """Standard deviation, one where nothing varies."""
    most = np.abs(values).max(axis=0)
    power = np.frexp(most)[1]  # a power of two changes no digit, and no square overflows
    spread = np.ldexp(np.std(np.ldexp(values, -power), axis=0), power)
    return np.where(spread > 1e-12 * most, spread, 1.0)
