"""The datasets of the command line: names, titles and sizes, and any of them as one table."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl import datasets
from mmtfl.datasets.array_files import data_path
from mmtfl.errors import require

SIMULATED = ("seed", "samples", "noise")
_NAMES = {"seed": "random_state", "samples": "n_samples", "tasks": "n_tasks", "features": "n_features"}


@dataclass(frozen=True)
class Entry:
    """One dataset: its name on the command line, how it is made or read, and how large it is."""

    name: str
    title: str
    load: Any  # a function that returns a Bunch
    rows: int  # sizes of a simulated dataset are those of its defaults
    tasks: int
    features: int
    kind: str = "regression"
    shared: bool = False  # whether the tasks are columns of targets on the same rows
    file: str | None = None  # in the data folder; None for a simulated dataset
    options: tuple[str, ...] = ()  # what the command line may choose

    @property
    def is_here(self) -> bool:
        """Whether the dataset can be made or read on this machine."""
        return self.file is None or data_path(self.file).is_file()

    def bunch(self, **options: Any) -> Any:
        """Make or read the data with these options."""
        return self.load(**{_NAMES.get(name, name): value for name, value in options.items()})


def as_table(bunch: Any) -> tuple[Any, str | None, list[str]]:
    """Write a dataset as one table.

    Parameters
    ----------
    bunch : Bunch
        What `make_*` and `load_*` return.

    Returns
    -------
    frame : pandas.DataFrame
        Stacked rows: the task, the features, y; or the table that the dataset came as. Shared rows: the
        features, then a column per target.
    task : str or None
        The task column; None for shared rows.
    targets : list of str
        The target columns.

    Examples
    --------
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.datasets.catalogue import as_table
    >>> frame, task, targets = as_table(make_tasks(2, 3, 2, n_informative=1, random_state=0))
    >>> frame.columns.tolist(), task, targets
    (['task', 'x0', 'x1', 'y'], 'task', ['y'])
    >>> frame["task"].tolist()
    ['task0', 'task0', 'task0', 'task1', 'task1', 'task1']
    """
    if "frame" in bunch:
        return bunch.frame, bunch.task_column, bunch.targets
    pandas = require("pandas", "frames")
    X = bunch.X.toarray() if sparse.issparse(bunch.X) else bunch.X
    frame = pandas.DataFrame(X, columns=bunch.feature_names or [f"x{j}" for j in range(X.shape[1])])
    if bunch.task is None:
        names = bunch.task_names or [f"y{t}" for t in range(bunch.y.shape[1])]
        targets = pandas.DataFrame(bunch.y, columns=names)
        return pandas.concat([frame, targets], axis=1), None, names
    labels = np.array(bunch.task_names)[bunch.task] if bunch.task_names else bunch.task
    frame.insert(0, "task", labels)
    frame["y"] = bunch.y
    return frame, "task", ["y"]


def _real(
    name: str, title: str, rows: int, tasks: int, features: int, kind: str = "regression", **known: Any
) -> Entry:
    """A real dataset: unless `known` says otherwise, the loader and the file have its name."""
    known = {"load": getattr(datasets, f"load_{name}", None), "file": f"{name}.npz", **known}
    return Entry(name, title, rows=rows, tasks=tasks, features=features, kind=kind, **known)


def _multitarget(name: str, *about: Any) -> Entry:
    load = partial(datasets.load_multitarget, name)
    return _real(name, *about, load=load, shared=True, file=f"mtr_{name}.npz")


def _newsgroups(pair: str, title: str, rows: int) -> Entry:
    known = {"load": partial(datasets.load_newsgroups, pair), "file": f"newsgroup_{pair}.npz"}
    return _real(f"newsgroups_{pair}", title, rows, 2, 2000, _TWO, **known)


_TWO = "classification"
_MORE = (*SIMULATED, "tasks", "features", "pattern", "classification")
_MANY = "any number of tasks, in several patterns of sharing"
_ENTRIES = [
    Entry(
        "d1", "the paper's D1: 60 features shared by all", datasets.make_d1, 2000, 10, 100, options=SIMULATED
    ),
    Entry(
        "d2", "the paper's D2: a staircase of features", datasets.make_d2, 4000, 20, 100, options=SIMULATED
    ),
    Entry("hospitals", "patients of 8 hospitals", datasets.make_hospitals, 720, 8, 12, options=("seed",)),
    Entry("tasks", _MANY, datasets.make_tasks, 1000, 10, 50, options=_MORE),
    _real("computer_survey", "190 people rate 20 computers", 3800, 190, 13),
    _real("isolet", "spoken letters, by group of speakers", 7797, 5, 617),
    _real("landmine", "mines on 29 sites", 14820, 29, 9, _TWO),
    _real("liver_toxicity", "blood of 64 rats", 64, 10, 3116, shared=True),
    _real("mfeat", "written digits", 2000, 10, 240, _TWO, shared=True, file="mfeat_pix.npz"),
    _multitarget("atp1d", "ticket prices, a day ahead", 337, 6, 411),
    _multitarget("atp7d", "ticket prices, a week ahead", 296, 6, 411),
    _multitarget("oes10", "employment by occupation, 2010", 403, 16, 298),
    _multitarget("oes97", "employment by occupation, 1997", 334, 16, 263),
    _multitarget("rf1", "river flow at 8 sites", 9005, 8, 64),
    _multitarget("scm20d", "prices in a supply chain", 8966, 16, 61),
    _multitarget("wq", "species in rivers", 1060, 14, 16),
    _newsgroups("comp_vs_sci", "newsgroups, computers or science", 3702),
    _newsgroups("rec_vs_talk", "newsgroups, recreation or talk", 3389),
    _real("nutrimouse", "fatty acids of 40 mice", 40, 21, 120, shared=True),
    _real(
        *("parkinsons", "scores of 42 patients from their voices", 5875, 42, 19),
        file="parkinsons_telemonitoring.npz",
    ),
    _real("sarcos", "torques of a robot arm", 13827, 7, 21, file="sarcos_train_tasks.npz"),
    _real("school", "examinations in 139 schools", 15362, 139, 27),
    _real("srbct", "four kinds of tumours", 63, 4, 2308, _TWO, shared=True),
    _real("usps", "written digits of envelopes", 7291, 10, 256, _TWO, shared=True),
    _real("wheat", "yield of wheat in four places", 599, 4, 1279, shared=True),
]
CATALOGUE = {entry.name: entry for entry in _ENTRIES}
