"""The data sets of the experiments, and how each is split.

Splits are made of *units*: a row of a task, or an animal or image that several tasks share. All rows of a
unit are in training, or all in test; inside training they are in the same fold.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from mmtfl.datasets.simulate import make_d1, make_d2
from mmtfl.model_selection.splitting import TaskKFold, tasks_train_test_split
from mmtfl_lab.datasets import loaders
from mmtfl_lab.datasets.loaders import load_landmine, load_liver_toxicity, load_sarcos, load_school, load_usps

USPS_DIMENSIONS = 87
Fold = tuple[np.ndarray, np.ndarray]


def seed_for(*purpose: int | float | str) -> int:
    """A seed below 2**32 made of the words and numbers that say what it is for.

    Parameters
    ----------
    *purpose : int, float or str
        For example a seed of the user, a dataset, a fraction and a repeat.

    Returns
    -------
    int
        The same for the same purpose, on every machine and in every process.

    Examples
    --------
    >>> from mmtfl_lab.paper.data_sets import seed_for
    >>> seed_for(0, "D1", 0.25, 3) == seed_for(0, "D1", 0.25, 3)
    True
    >>> seed_for(0, "D1", 0.25, 3) == seed_for(0, "D1", 0.25, 4)
    False
    """
    text = "\n".join(repr(part) for part in purpose)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


def generator(*purpose: int | float | str) -> np.random.Generator:
    """The random generator of a purpose."""
    return np.random.default_rng(seed_for(*purpose))


@dataclass(frozen=True)
class Part:
    """Rows of several tasks: to train on, or to test on."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    unit: np.ndarray  # which unit each row belongs to, as a position in the pool

    def select(self, rows: np.ndarray) -> "Part":
        """Some of the rows."""
        return Part(self.X[rows], self.y[rows], self.task[rows], self.unit[rows])


@dataclass(frozen=True)
class Pool:
    """The rows of all tasks of a data set, and the group within which each unit is split."""

    rows: Part
    group: np.ndarray
    support: np.ndarray | None = None
    coef: np.ndarray | None = None
    one_unit: bool = False  # whether targets of all tasks are known to be in the same unit


@dataclass(frozen=True)
class Split:
    """One random split, the same for every method."""

    train: Part
    test: Part
    pool: Pool
    fold_seed: int

    def folds(self, n_folds: int) -> list[Fold]:
        """Folds of the training rows that keep units together.

        Every task is in every training part.
        """
        units, unit = np.unique(self.train.unit, return_inverse=True)
        splitter = TaskKFold(n_folds, random_state=self.fold_seed)
        parts = splitter.parts(len(units), None, self.pool.group[units], None)
        return [
            (np.flatnonzero(np.isin(unit, train)), np.flatnonzero(np.isin(unit, test)))
            for train, test in parts
        ]


Assemble = Callable[[Pool, np.ndarray, np.random.Generator], Part]
Features = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _rows_of_units(pool: Pool, units: np.ndarray, rng: np.random.Generator) -> Part:
    return pool.rows.select(np.flatnonzero(np.isin(pool.rows.unit, units)))


def _as_they_are(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return train, test


@dataclass(frozen=True)
class Problem:
    """A data set of the experiments.

    Attributes
    ----------
    name, title : str
        The name on the command line, and in tables.
    load : function of a seed
        Makes or reads the pool; what is drawn from a larger source is drawn by the seed.
    metric : {"r2", "f1", "auc"}
        How it is scored.
    headline : {"pooled", "mean"}
        Score that stands in the table: of all test rows at once, or the mean of the tasks' scores.
    options : mapping
        Parameters of all methods: whether features and targets are put on one scale.
    file : str or None
        File that the loaders look for; None if simulated.
    alpha_ratio : float or None
        Smallest over largest strength of the family's members, where the usual grid goes far beyond use.
    assemble : function of pool, units and generator
        Makes the rows of some units.
    features : function of the features of training and test rows
        Features learned from the training rows alone.
    """

    name: str
    title: str
    load: Callable[[int], Pool]
    metric: str
    headline: str
    options: Mapping[str, Any] = field(default_factory=dict)
    file: str | None = None
    alpha_ratio: float | None = None
    assemble: Assemble = _rows_of_units
    features: Features = _as_they_are

    @property
    def is_classification(self) -> bool:
        """Whether targets are classes."""
        return self.metric != "r2"


def make_split(problem: Problem, pool: Pool, fraction: float, *purpose: int | float | str) -> Split:
    """Split the units of a pool at random, a fraction of each group for training.

    Parameters
    ----------
    problem : Problem
        Says how rows are made of units.
    pool : Pool
        What to split.
    fraction : float
        Part of the units to train on.
    *purpose : int, float or str
        What the split is for; the random numbers depend on it alone.

    Returns
    -------
    Split
        Training and test rows, and the folds inside training.

    Examples
    --------
    >>> from mmtfl_lab.paper.data_sets import PROBLEMS, load_pool, make_split
    >>> problem = PROBLEMS["D1"]
    >>> split = make_split(problem, load_pool("D1", 0), 0.25, 0, "D1", 0.25, 3)
    >>> len(split.train.y), len(split.test.y), len(split.folds(3))
    (500, 1500, 3)
    """
    units = np.arange(len(pool.group))
    seed = seed_for("split", *purpose)
    train, test = tasks_train_test_split(
        units, pool.group, pool.group, train_size=fraction, random_state=seed
    )[:2]
    return _split_of(problem, pool, train, test, *purpose)


def _split_of(
    problem: Problem, pool: Pool, train: np.ndarray, test: np.ndarray, *purpose: int | float | str
) -> Split:
    rng = generator("assemble", *purpose)
    fitted, held_out = problem.assemble(pool, train, rng), problem.assemble(pool, test, rng)
    X_train, X_test = problem.features(fitted.X, held_out.X)
    seed = seed_for("folds", *purpose)
    return Split(replace(fitted, X=X_train), replace(held_out, X=X_test), pool, seed)


@lru_cache(maxsize=8)
def load_pool(name: str, seed: int) -> Pool:
    """The pool of a named problem, kept for the next split."""
    return PROBLEMS[name].load(seed)


# -- the pools -------------------------------------------------------------------------------------------


def pool_of_rows(X: Any, y: np.ndarray, task: np.ndarray, *, by_class: bool = False, **known: Any) -> Pool:
    """Tasks with rows of their own: every row is a unit, split within its task (and its class)."""
    group = np.unique(task, return_inverse=True)[1]
    if by_class:
        classes, label = np.unique(y, return_inverse=True)
        group = group * len(classes) + label
    return Pool(Part(X, y, task, np.arange(len(y))), group, **known)


def pool_of_targets(X: np.ndarray, Y: np.ndarray) -> Pool:
    """Tasks that share their rows: a row of X with all its targets is a unit; NaN was not observed."""
    n_rows, n_tasks = Y.shape
    targets, task = Y.T.ravel(), np.repeat(np.arange(n_tasks), n_rows)
    unit, seen = np.tile(np.arange(n_rows), n_tasks), np.isfinite(targets)
    rows = Part(X[unit[seen]], targets[seen], task[seen], unit[seen])
    return Pool(rows, np.zeros(n_rows, dtype=int))


def _simulated(make: Callable[..., Any], name: str) -> Callable[[int], Pool]:
    def load(seed: int) -> Pool:
        data = make(random_state=seed_for("data", seed, name))
        return pool_of_rows(data.X, data.y, data.task, support=data.support, coef=data.coef)

    return load


def _sarcos(seed: int, n_rows: int = 2000) -> Pool:
    """2000 rows of each torque; rows of the official test file are rows like others where we split anew."""
    data = load_sarcos("all")
    rng = generator("data", seed, "sarcos")
    rows = [rng.permutation(np.flatnonzero(data.task == t))[:n_rows] for t in np.unique(data.task)]
    chosen = np.sort(np.concatenate(rows))
    return pool_of_rows(data.X[chosen], data.y[chosen], data.task[chosen])


def _usps(seed: int, n_images: int = 2000) -> Pool:
    """2000 images, digit by digit; the tasks are made once it is known which images train."""
    data = load_usps("all")
    chosen = np.sort(generator("data", seed, "usps").permutation(len(data.X))[:n_images])
    digit = data.label[chosen]
    images = Part(data.X[chosen].astype(float), digit, digit, np.arange(n_images))
    return Pool(images, digit)


def _one_against_some(pool: Pool, units: np.ndarray, rng: np.random.Generator) -> Part:
    """Ten tasks: all images of a digit, and as many drawn at random from the other nine."""
    digit, images, labels = pool.group[units], [], []
    for wanted in np.unique(pool.group):
        own, others = units[digit == wanted], units[digit != wanted]
        drawn = np.sort(rng.permutation(others)[: len(own)])
        images += [np.concatenate([own, drawn])]
        labels += [np.repeat([1, 0], [len(own), len(drawn)])]
    unit = np.concatenate(images)
    task = np.repeat(np.unique(pool.group), [len(part) for part in images])
    return Part(pool.rows.X[unit], np.concatenate(labels), task, unit)


def _principal_components(train: np.ndarray, test: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The leading directions of the training images; each image counts once, whatever its tasks."""
    images = np.unique(train, axis=0)
    centre = images.mean(axis=0)
    directions = np.linalg.svd(images - centre, full_matrices=False)[2][:USPS_DIMENSIONS]
    return (train - centre) @ directions.T, (test - centre) @ directions.T


def _liver(seed: int) -> Pool:
    data = load_liver_toxicity()
    Y = np.array(data.y)
    # enzymes are heavy-tailed
    heavy = [t for t, name in enumerate(data.task_names) if name.startswith(("ALT", "AST"))]
    Y[:, heavy] = np.log(Y[:, heavy])
    return pool_of_targets(data.X, Y)


def _own_rows(load: Callable[[], Any], **known: Any) -> Callable[[int], Pool]:
    """Tasks with rows of their own."""

    def pool(seed: int) -> Pool:
        data = load()
        return pool_of_rows(data.X, data.y, data.task, **known)

    return pool


def _same_rows(load: Callable[[], Any]) -> Callable[[int], Pool]:
    """Tasks that are targets of the same rows."""

    def pool(seed: int) -> Pool:
        data = load()
        return pool_of_targets(np.asarray(data.X, dtype=float), np.array(data.y, dtype=float))

    return pool


def _targets(name: str, title: str) -> Problem:
    load = partial(loaders.load_multitarget, name)
    return Problem(name, title, _same_rows(load), "r2", "mean", _ONE_SCALE, f"mtr_{name}.npz")


_one_unit = partial(_own_rows, one_unit=True)  # targets of all tasks in one unit
_landmine = _own_rows(load_landmine, by_class=True)
_FEATURES = {"standardize": True}
_ONE_SCALE = {"standardize": True, "scale_targets": True}
_NO_CONSTANT = {"fit_intercept": False}  # neither the paper's model nor the law of the rows has one
_ALL = [
    Problem("D1", "D1", _simulated(make_d1, "D1"), "r2", "pooled", _NO_CONSTANT),
    Problem("D2", "D2", _simulated(make_d2, "D2"), "r2", "pooled", _NO_CONSTANT),
    Problem("sarcos", "SARCOS", _sarcos, "r2", "pooled", _ONE_SCALE, "sarcos_train_tasks.npz"),
    Problem(
        "usps", "USPS", _usps, "f1", "mean", {}, "usps.npz", None, _one_against_some, _principal_components
    ),
    Problem("school", "School", _own_rows(load_school), "r2", "pooled", _FEATURES, "school.npz"),
    Problem("landmine", "Landmine", _landmine, "auc", "mean", _FEATURES, "landmine.npz", 3e-2),
    Problem("liver", "Liver toxicity", _liver, "r2", "mean", _ONE_SCALE, "liver_toxicity.npz"),
]
_MORE = [
    Problem(
        "survey", "Computer survey", _one_unit(loaders.load_computer_survey), "r2", "pooled", _FEATURES,
        "computer_survey.npz",
    ),
    Problem(
        "isolet", "Isolet", _one_unit(loaders.load_isolet), "r2", "pooled", _FEATURES, "isolet.npz", 3e-2
    ),
    Problem(
        "parkinsons", "Parkinsons", _one_unit(loaders.load_parkinsons), "r2", "pooled", _FEATURES,
        "parkinsons_telemonitoring.npz",
    ),
    Problem("wheat", "Wheat", _same_rows(loaders.load_wheat), "r2", "mean", _ONE_SCALE, "wheat.npz"),
    _targets("oes97", "Employment 1997"),
    _targets("rf1", "River flow"),
    _targets("scm20d", "Supply chain"),
]  # fmt: skip
IN_THE_PAPER = tuple(problem.name for problem in _ALL)  # as far as their data are known, and three beside
PROBLEMS = {problem.name: problem for problem in (*_ALL, *_MORE)}
