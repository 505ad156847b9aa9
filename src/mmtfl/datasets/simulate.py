"""Simulated data with a known truth: the paper's D1 and D2, `make_tasks`, and a table of patients.

At the end is what the command line has of them: names, titles and sizes, and any of them as one table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from mmtfl.errors import require

Sizes = int | Sequence[int] | np.ndarray

# D2 of the paper: 10 common features, a staircase of 6 steps, 5 unused features; 10 + 85 + 5 = 100
D2_COMMON, D2_UNUSED = 10, 5
D2_GROUPS, D2_STEP, D2_OVERLAP = 6, 20, 7


def make_d1(n_samples: Sizes = 200, noise: float = 1.0, *, random_state: Any = None) -> Bunch:
    """Draw the paper's D1: ten tasks that all use the same 60 of 100 features.

    Rows are drawn from N(0, I) and ``y = X_t a_t + noise * N(0, 1)``, anew for every task.
    Coefficients on the support, whose law the paper does not print, are from N(0, 1).

    Parameters
    ----------
    n_samples : int or sequence of 10 ints, default=200
        Rows per task: one number for all, or one per task.
    noise : float, default=1.0
        Standard deviation of the noise.
    random_state : int, RandomState or None, default=None
        Seed of everything random.

    Returns
    -------
    Bunch
        ``X`` (n, 100), ``y`` (n,), ``task`` (n,) stacked rows; ``coef`` (10, 100) and ``support`` (10, 100)
        the truth; ``feature_names``, ``task_names``, ``DESCR``.

    Examples
    --------
    >>> from mmtfl.datasets import make_d1
    >>> data = make_d1(random_state=0)
    >>> data.X.shape, data.coef.shape
    ((2000, 100), (10, 100))
    >>> data.support.sum(axis=1)
    array([60, 60, 60, 60, 60, 60, 60, 60, 60, 60])
    """
    description = "D1: 10 tasks, features 0-59 used by all, 60-99 by none."
    rng = check_random_state(random_state)
    return _draw(rng, _shared(rng, 10, 100, 60), n_samples, description, noise=noise)


def make_d2(n_samples: Sizes = 200, noise: float = 1.0, *, random_state: Any = None) -> Bunch:
    """Draw the paper's D2: twenty tasks in six groups, whose features form a staircase.

    Features 0-9 are used by all tasks and 95-99 by none. In between, each group uses 20 consecutive
    features, of which it shares 7 with each neighbouring group and none with any other. Every task thus
    uses 30 features, and all but 5 features are used by some task.

    Parameters
    ----------
    n_samples : int or sequence of 20 ints, default=200
        Rows per task, as in :func:`make_d1`.
    noise : float, default=1.0
        Standard deviation of the noise.
    random_state : int, RandomState or None, default=None
        Seed of everything random.

    Returns
    -------
    Bunch
        As :func:`make_d1`, with ``coef`` and ``support`` (20, 100), and the ``group`` (20,) of each task.

    Examples
    --------
    >>> from mmtfl.datasets import make_d2
    >>> data = make_d2(random_state=0)
    >>> data.group
    array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5])
    >>> int((data.support[0] & data.support[4]).sum())  # 10 common features and an overlap of 7
    17
    """
    # array_split: six groups of twenty tasks, as equal as possible
    group = np.concatenate([np.full(len(g), i) for i, g in enumerate(np.array_split(range(20), D2_GROUPS))])
    rng = check_random_state(random_state)
    support = _shared(rng, 20, 100, D2_COMMON)
    for t, g in enumerate(group):
        first = D2_COMMON + g * (D2_STEP - D2_OVERLAP)
        support[t, first : first + D2_STEP] = True
    description = "D2: 20 tasks in 6 groups, a staircase of shared features."
    return Bunch(**_draw(rng, support, n_samples, description, noise=noise), group=group)


def make_tasks(
    n_tasks: int = 10,
    n_samples: Sizes = 100,
    n_features: int = 50,
    *,
    pattern: str = "shared",
    n_informative: int = 10,
    noise: float = 1.0,
    correlation: float = 0.0,
    classification: bool = False,
    random_state: Any = None,
) -> Bunch:
    """Draw a multitask problem with a chosen pattern of sharing.

    Every task uses ``n_informative`` of the features; the pattern says which:

    - ``"shared"``: the first ones, the same for all tasks;
    - ``"partial"``: the first half of them is common to all, the rest is drawn for each task on its own;
    - ``"staircase"``: consecutive ones, moving in equal steps from the first feature to the last;
    - ``"outlier"``: as shared, but the last tenth of the tasks (at least one) uses other features, drawn
      for each of them on its own.

    Parameters
    ----------
    n_tasks : int, default=10
        Number of tasks.
    n_samples : int or sequence of n_tasks ints, default=100
        Rows per task: one number for all, or one per task.
    n_features : int, default=50
        Number of features.
    pattern : {"shared", "partial", "staircase", "outlier"}, default="shared"
        Which features each task uses.
    n_informative : int, default=10
        Number of features each task uses.
    noise : float, default=1.0
        Scale of the noise: of N(0, 1) in regression, and of the standard logistic law in
        classification, where 1 gives exactly the logistic model.
    correlation : float, default=0.0
        Correlation of neighbouring features; it falls off as ``correlation ** |i - j|``.
    classification : bool, default=False
        Draw labels 0 and 1 in place of a continuous target. A task with at least two rows has both
        labels: should all be equal, the row nearest the boundary gets the other one.
    random_state : int, RandomState or None, default=None
        Seed of everything random.

    Returns
    -------
    Bunch
        ``X``, ``y``, ``task`` stacked rows; ``coef`` and ``support`` (n_tasks, n_features) the truth;
        ``feature_names``, ``task_names``, ``DESCR``; for the outlier pattern also ``outlier`` (n_tasks,),
        True for the odd ones.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> data = make_tasks(4, 20, 30, pattern="partial", n_informative=8, random_state=0)
    >>> data.support.sum(axis=1)
    array([8, 8, 8, 8])
    >>> bool(data.support[:, :4].all())
    True
    """
    for name, value in (("n_tasks", n_tasks), ("n_features", n_features)):
        _check(name, value, Integral, 1)
    _check("n_informative", n_informative, Integral, 0)
    if n_informative > n_features:
        raise ValueError(f"n_informative={n_informative} is more than n_features={n_features}: lower it.")
    if pattern not in PATTERNS:
        raise ValueError(f"pattern={pattern!r} is unknown: choose one of {', '.join(map(repr, PATTERNS))}.")
    rng = check_random_state(random_state)
    support = PATTERNS[pattern](rng, n_tasks, n_features, n_informative)
    kind = "classification" if classification else "regression"
    description = f"Simulated {kind}, {pattern} pattern, {n_tasks} tasks."
    options: dict[str, Any] = {"noise": noise, "correlation": correlation, "classification": classification}
    data = _draw(rng, support, n_samples, description, **options)
    if pattern == "outlier":
        data["outlier"] = np.arange(n_tasks) >= n_tasks - _n_outliers(n_tasks)
    return data


def _shared(rng, n_tasks, n_features, n_informative):
    support = np.zeros((n_tasks, n_features), dtype=bool)
    support[:, :n_informative] = True
    return support


def _partial(rng, n_tasks, n_features, n_informative):
    n_common = n_informative // 2
    support = _shared(rng, n_tasks, n_features, n_common)
    return _add_own(rng, support, range(n_tasks), n_common, n_informative - n_common)


def _staircase(rng, n_tasks, n_features, n_informative):
    support = _shared(rng, n_tasks, n_features, 0)
    firsts = np.linspace(0, n_features - n_informative, n_tasks).round().astype(int)
    for t, first in enumerate(firsts):
        support[t, first : first + n_informative] = True
    return support


def _outlier(rng, n_tasks, n_features, n_informative):
    if n_tasks < 2:
        raise ValueError("pattern='outlier' has one task and nothing to differ from: use n_tasks=2 or more.")
    if 2 * n_informative > n_features:
        raise ValueError(
            f"pattern='outlier' needs {n_informative} features for the outlying tasks beside as many "
            f"shared ones, but n_features={n_features}: raise it to {2 * n_informative} or more."
        )
    odd = range(n_tasks - _n_outliers(n_tasks), n_tasks)
    support = _shared(rng, n_tasks, n_features, n_informative)
    support[odd.start :] = False
    return _add_own(rng, support, odd, n_informative, n_informative)


def _n_outliers(n_tasks):
    return max(1, n_tasks // 10)


def _add_own(rng, support, tasks, first, n_own):
    """Give each of these tasks n_own features of its own, drawn from feature ``first`` onwards."""
    for t in tasks:
        support[t, first + rng.permutation(support.shape[1] - first)[:n_own]] = True
    return support


PATTERNS = {"shared": _shared, "partial": _partial, "staircase": _staircase, "outlier": _outlier}


def _draw(rng, support, n_samples, description, *, noise, correlation=0.0, classification=False):
    """Draw tasks with these supports."""
    _check("noise", noise, Real, 0)
    n_tasks, n_features = support.shape
    sizes = _sizes(n_samples, n_tasks)
    coef = np.where(support, rng.standard_normal(support.shape), 0.0)
    X = _design(rng, sizes.sum(), n_features, correlation)
    task, ends = np.repeat(np.arange(n_tasks), sizes), np.cumsum(sizes)
    signal = np.concatenate([X[end - n : end] @ a for end, n, a in zip(ends, sizes, coef, strict=True)])
    if classification:
        y = _labels(signal + noise * rng.logistic(size=len(signal)), sizes)
    else:
        y = signal + noise * rng.standard_normal(len(signal))
    names = {
        "feature_names": [f"x{j}" for j in range(n_features)],
        "task_names": [f"task{t}" for t in range(n_tasks)],
    }
    return Bunch(X=X, y=y, task=task, coef=coef, support=support, **names, DESCR=description)


def _sizes(n_samples, n_tasks):
    """Number of rows of each task."""
    sizes = np.asarray(n_samples)
    if sizes.dtype.kind not in "iu" or sizes.shape not in ((), (n_tasks,)) or sizes.min() < 1:
        raise ValueError(f"n_samples={n_samples!r}: expected an int of 1 or more, or {n_tasks} of them.")
    return np.broadcast_to(sizes, n_tasks)


def _design(rng, n_rows, n_features, rho):
    """Draw normal features of unit variance and correlation rho ** |i - j|, AR(1) along each row."""
    if not -1 < rho < 1:
        raise ValueError(f"correlation={rho!r}: expected a number between -1 and 1, both excluded.")
    X = rng.standard_normal((n_rows, n_features))
    if rho:
        innovation = np.sqrt(1.0 - rho**2)
        for j in range(1, n_features):
            X[:, j] = rho * X[:, j - 1] + innovation * X[:, j]
    return X


def _labels(latent, sizes):
    y = (latent > 0).astype(int)
    ends = np.cumsum(sizes)
    for end, size in zip(ends, sizes, strict=True):
        rows = slice(end - size, end)
        if size > 1 and y[rows].min() == y[rows].max():
            nearest = end - size + np.argmin(np.abs(latent[rows]))
            y[nearest] = 1 - y[nearest]
    return y


def _check(name, value, kind, least):
    if not isinstance(value, kind) or isinstance(value, bool):
        expected = "an int" if kind is Integral else "a number"
        raise TypeError(f"{name}={value!r}: expected {expected}, got {type(value).__name__}.")
    if not least <= value < np.inf:
        raise ValueError(f"{name}={value}: expected {least} or more, and finite.")


# -- a table of patients, with several kinds of targets ------------------------------------------------------


_SIZES = {
    "Aker": 180, "Bern": 140, "Cork": 120, "Delft": 90, "Evora": 70, "Fano": 50, "Gent": 40, "Hull": 30,
}  # fmt: skip
_MEASURED = {  # mean and standard deviation of the laboratory's numbers
    "age": (62.0, 11.0), "bmi": (27.0, 4.0), "pulse": (82.0, 11.0), "crp": (65.0, 16.0),
    "creatinine": (110.0, 20.0), "sodium": (138.0, 4.0), "iron": (16.0, 4.0), "albumin": (37.0, 4.0),
    "dose": (25.0, 5.0),
}  # fmt: skip
_EVERYWHERE = {"age": 0.9, "crp": 0.7, "albumin": -0.6}  # effects on the stay, days per standard deviation
_DOSE = {"Aker": -1.0, "Delft": -1.2, "Evora": -0.9}
_SMOKER, _SURGERY = 1.1, -0.8
_NO_ALBUMIN = "Fano"
_MISSING = 0.03  # share of the cells of creatinine and iron


def make_hospitals(*, random_state: Any = None) -> Bunch:
    """Draw a table of 720 patients from eight hospitals: the story of the tutorials.

    The length of stay depends on age, CRP, albumin, smoking and the ward in every hospital, and on the dose
    in three of them; BMI, pulse, creatinine, sodium and iron have no effect. Deaths and later visits depend
    on age and CRP. The table is as tables are: wards and smoking are words, some cells are empty, and one
    hospital never measures albumin.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Seed of everything random.

    Returns
    -------
    Bunch
        ``frame``, a pandas data frame with the columns hospital, patient, ward, smoker, nine measurements,
        ``months`` of follow-up, and the targets ``stay`` (days), ``died`` (0 or 1) and ``visits`` (a count);
        ``X``, ``y``, ``task`` the measurements without holes, the stay and the position of the hospital;
        ``coef`` (8, 9) and ``support`` the effects on the stay per unit; ``feature_names``, ``task_names``,
        ``DESCR``.

    Examples
    --------
    >>> from mmtfl.datasets import make_hospitals
    >>> data = make_hospitals(random_state=0)
    >>> data.frame["hospital"].value_counts().tolist()
    [180, 140, 120, 90, 70, 50, 40, 30]
    >>> data.frame[["stay", "died", "visits"]].mean().round(2).tolist()[1:]
    [0.11, 1.98]
    """
    pandas = require("pandas", "frames")
    rng = check_random_state(random_state)
    names = np.array(list(_SIZES))
    task = np.repeat(np.arange(len(names)), list(_SIZES.values()))
    n, features = len(task), list(_MEASURED)
    Z = rng.standard_normal((n, len(features)))
    Z[:, features.index("creatinine")] += 0.5 * Z[:, features.index("age")]
    mean, spread = np.array(list(_MEASURED.values())).T
    X = np.round(mean + spread * Z, 1)
    smokes, surgery = rng.random_sample((2, n)) < np.array([[0.3], [0.4]])
    scaled = _effects(names, features)
    own = scaled + 0.1 * rng.standard_normal(scaled.shape) * (scaled != 0.0)
    level = 9.0 + rng.standard_normal(len(names))
    signal = np.einsum("ij,ij->i", Z, own[task]) + _SMOKER * smokes + _SURGERY * surgery
    stay = np.round(np.maximum(level[task] + signal + 1.5 * rng.standard_normal(n), 0.5), 1)
    risk = Z[:, [features.index("age"), features.index("crp")]] @ [0.8, 0.6]
    months = rng.randint(3, 25, size=n)
    frame = pandas.DataFrame({
        "hospital": names[task], "patient": np.arange(1, n + 1),
        "ward": np.where(surgery, "surgery", "medicine"), "smoker": np.where(smokes, "yes", "no"),
        **dict(zip(features, X.T, strict=True)), "months": months, "stay": stay,
        "died": (rng.random_sample(n) < 1.0 / (1.0 + np.exp(2.4 - risk))).astype(int),
        "visits": rng.poisson(months * np.exp(0.4 * risk - 2.0)),
    })  # fmt: skip
    for column in ("creatinine", "iron"):
        frame.loc[rng.random_sample(n) < _MISSING, column] = np.nan
    frame.loc[frame["hospital"] == _NO_ALBUMIN, "albumin"] = np.nan
    return Bunch(
        frame=frame, X=X, y=stay, task=task, coef=own / spread, support=scaled != 0.0, task_column="hospital",
        targets=["stay"], feature_names=features, task_names=names.tolist(),
        DESCR="Simulated patients of eight hospitals: stay, deaths and visits.",
    )  # fmt: skip


def _effects(names: np.ndarray, features: list[str]) -> np.ndarray:
    """Effects on the stay per standard deviation, (hospitals, features), before hospitals scatter."""
    effects = np.zeros((len(names), len(features)))
    for name, effect in _EVERYWHERE.items():
        effects[:, features.index(name)] = effect
    effects[:, features.index("dose")] = [_DOSE.get(name, 0.0) for name in names]
    effects[list(names).index(_NO_ALBUMIN), features.index("albumin")] = 0.0
    return effects


@dataclass(frozen=True)
class Entry:
    """One dataset: its name on the command line, how it is made, and how large it is by default."""

    name: str
    title: str
    make: Any  # a function that returns a Bunch
    rows: int
    tasks: int
    features: int


def as_table(bunch: Any) -> tuple[Any, str, list[str]]:
    """Write a dataset as one table.

    Parameters
    ----------
    bunch : Bunch
        What `make_*` return.

    Returns
    -------
    frame : pandas.DataFrame
        The task, the features, y; or the table that the dataset came as.
    task : str
        The task column.
    targets : list of str
        The target columns.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.datasets.simulate import as_table
    >>> frame, task, targets = as_table(make_tasks(2, 3, 2, n_informative=1, random_state=0))
    >>> frame.columns.tolist(), task, targets
    (['task', 'x0', 'x1', 'y'], 'task', ['y'])
    >>> frame["task"].tolist()
    ['task0', 'task0', 'task0', 'task1', 'task1', 'task1']
    """
    if "frame" in bunch:
        return bunch.frame, bunch.task_column, bunch.targets
    frame = require("pandas", "frames").DataFrame(bunch.X, columns=bunch.feature_names)
    frame.insert(0, "task", np.array(bunch.task_names)[bunch.task])
    frame["y"] = bunch.y
    return frame, "task", ["y"]


_ENTRIES = [
    Entry("d1", "the paper's D1: 60 features shared by all", make_d1, 2000, 10, 100),
    Entry("d2", "the paper's D2: a staircase of features", make_d2, 4000, 20, 100),
    Entry("hospitals", "patients of 8 hospitals", make_hospitals, 720, 8, 12),
    Entry("tasks", "10 features of 50, shared by all", make_tasks, 1000, 10, 50),
]
CATALOGUE = {entry.name: entry for entry in _ENTRIES}
