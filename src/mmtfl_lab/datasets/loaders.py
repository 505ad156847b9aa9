"""Real multitask datasets, read from files of arrays on this machine; nothing is downloaded.

Every loader returns a Bunch with ``X``, ``y``, ``task``, ``feature_names``, ``task_names`` (None where not
known) and ``DESCR``, in one of two layouts:

- *stacked*: ``y`` (n,) and ``task`` (n,), one row per observation, for tasks with rows of their own;
- *shared*: ``y`` (n, T) and ``task`` None, one column per task, for tasks that share their rows.

Both go into ``fit(data.X, data.y, data.task)`` as they are.
"""

from collections.abc import Callable, Sequence
from inspect import cleandoc
from string import ascii_uppercase
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from mmtfl_lab.datasets.array_files import Folder, read_dataset, strings

MULTITARGET = ("atp1d", "atp7d", "oes10", "oes97", "rf1", "scm20d", "wq")
NEWSGROUPS = ("comp_vs_sci", "rec_vs_talk")
Load = TypeVar("Load", bound=Callable[..., Bunch])
DIGITS = [str(digit) for digit in range(10)]
_FOLDER = "folder : str or path, default=None\n    Where the files are, see :func:`data_folder`."
SHARED = "X Y feature_names target_names"  # arrays of a file in the shared layout


def _documented(load: Load) -> Load:
    """Describe the parameter that all loaders have, in the place of {folder} in their docstrings."""
    text = cleandoc(load.__doc__ or "")  # python -OO drops docstrings
    heading = "" if "\nParameters\n" in text else "Parameters\n----------\n"
    load.__doc__ = text.replace("{folder}", heading + _FOLDER)
    return load


# -- tasks with rows of their own ------------------------------------------------------------------------


@_documented
def load_sarcos(subset: str = "train", *, folder: Folder = None) -> Bunch:
    """SARCOS robot arm: seven torques from 21 positions, velocities and accelerations.

    Parameters
    ----------
    subset : {"train", "all", "test"}, default="train"
        ``"train"``: rows of the training file, stacked, without those that are also in the official test
        file, so that scores on it are honest. ``"all"``: these included, for experiments that split by
        themselves. ``"test"``: the official test file, in the shared layout with one column per torque.
    {folder}

    Returns
    -------
    Bunch
        ``X``, ``y``, ``task``, ``feature_names``, ``task_names``, ``DESCR``; and ``in_test`` (n,), True
        for rows of the official test file.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_sarcos
    >>> load_sarcos("all").X.shape  # doctest: +SKIP
    (15367, 21)
    >>> load_sarcos().X.shape, load_sarcos("test").y.shape  # doctest: +SKIP
    ((13827, 21), (4449, 7))
    """
    _check_choice("subset", subset, ("train", "all", "test"))
    if subset == "test":
        data = read_dataset("sarcos_test.npz", folder, SHARED)
        return Bunch(**data, in_test=np.ones(len(data.X), dtype=bool))
    data = read_dataset("sarcos_train_tasks.npz", folder, "X y task in_test feature_names task_names")
    rows = ~data.in_test if subset == "train" else slice(None)
    data.update({name: data[name][rows] for name in ("X", "y", "task", "in_test")})
    return data


@_documented
def load_school(*, keep_constant: bool = False, folder: Folder = None) -> Bunch:
    """Examination scores of the pupils of 139 schools.

    Parameters
    ----------
    keep_constant : bool, default=False
        Keep the source's column of ones. The estimators have an intercept of their own.
    {folder}

    Returns
    -------
    Bunch
        Stacked ``X`` (15362, 27), ``y``, ``task``; ``feature_names``, ``task_names``, ``DESCR``.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_school
    >>> load_school().X.shape  # doctest: +SKIP
    (15362, 27)
    """
    data = read_dataset("school.npz", folder, "X y task feature_names")
    if not keep_constant:
        varies = np.flatnonzero(data.X.min(axis=0) < data.X.max(axis=0))
        data.update(X=data.X[:, varies], feature_names=[data.feature_names[j] for j in varies])
    return data


@_documented
def load_landmine(*, folder: Folder = None) -> Bunch:
    """Landmines on 29 sites: 9 radar features, 6 % of the rows are mines.

    {folder}

    Returns
    -------
    Bunch
        Stacked ``X`` (14820, 9), ``y`` 0 or 1, ``task``; ``feature_names``, ``task_names``, ``DESCR``; and
        ``terrain`` (29,), what the paper says of each site.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_landmine
    >>> mines = load_landmine()  # doctest: +SKIP
    >>> mines.X.shape, int(mines.y.sum())  # doctest: +SKIP
    ((14820, 9), 904)
    """
    data = read_dataset("landmine.npz", folder, "X y task")
    sites = np.arange(data.task.max() + 1)
    return Bunch(**data, terrain=np.where(sites < 15, "foliated", "bare earth or desert"))


@_documented
def load_parkinsons(target: str = "motor_UPDRS", *, folder: Folder = None) -> Bunch:
    """Parkinson's disease scores of 42 patients from their voices.

    Parameters
    ----------
    target : {"motor_UPDRS", "total_UPDRS"}, default="motor_UPDRS"
        The score to use as ``y``.
    {folder}

    Returns
    -------
    Bunch
        Stacked ``X`` (5875, 19), ``y``, ``task``; ``feature_names``, ``task_names``, ``DESCR``; and both
        scores as ``targets`` (5875, 2) with ``target_names``.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_parkinsons
    >>> load_parkinsons("total_UPDRS").X.shape  # doctest: +SKIP
    (5875, 19)
    """
    data = read_dataset("parkinsons_telemonitoring.npz", folder, "X Y task feature_names target_names")
    targets, names = data.y, data.task_names
    _check_choice("target", target, names)
    data.update(y=targets[:, names.index(target)], task_names=None, targets=targets, target_names=names)
    return data


@_documented
def load_computer_survey(*, folder: Folder = None) -> Bunch:
    """Ratings of 20 computers by 190 people.

    {folder}

    Returns
    -------
    Bunch
        Stacked ``X`` (3800, 13), ``y`` 0 to 10, ``task``; ``feature_names``, ``task_names``, ``DESCR``; and
        ``profile`` (3800,), the computer rated; ``calibration`` (3800,), True for profiles 0 to 15, which
        the source fits on; ``Z`` (190, 7) with ``Z_names``, what is known of each person.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_computer_survey
    >>> survey = load_computer_survey()  # doctest: +SKIP
    >>> survey.X.shape, int(survey.calibration.sum())  # doctest: +SKIP
    ((3800, 13), 3040)
    """
    data = read_dataset("computer_survey.npz", folder, "X y task profile Z feature_names Z_names")
    data.update(calibration=data.profile < 16, Z_names=strings(data.Z_names))
    return data


@_documented
def load_isolet(*, folder: Folder = None) -> Bunch:
    """Spoken letters of five groups of speakers.

    {folder}

    Returns
    -------
    Bunch
        Stacked ``X`` (7797, 617), ``y`` from 1 to 26, ``task``; ``feature_names``, ``task_names``,
        ``DESCR``; and ``letter`` (7797,), "A" to "Z". Rows come sorted: shuffle before splitting.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_isolet
    >>> isolet = load_isolet()  # doctest: +SKIP
    >>> isolet.X.shape, isolet.letter[:2].tolist()  # doctest: +SKIP
    ((7797, 617), ['A', 'A'])
    """
    data = read_dataset("isolet.npz", folder, "X y task")
    # the file is in single precision; the source has four decimals, which rounding restores exactly
    data["X"] = np.round(data.X.astype(np.float64), 4)
    data["task_names"] = [f"isolet{t + 1}" for t in range(data.task.max() + 1)]
    data["letter"] = np.array(list(ascii_uppercase))[data.y - 1]
    return data


@_documented
def load_newsgroups(pair: str = "comp_vs_sci", *, folder: Folder = None) -> Bunch:
    """Newsgroup documents: one pair of topics told apart in two sets of sub-groups.

    Parameters
    ----------
    pair : {"comp_vs_sci", "rec_vs_talk"}, default="comp_vs_sci"
        The two topics.
    {folder}

    Returns
    -------
    Bunch
        Stacked ``X`` (n, 2000) word counts in CSR, ``y`` 0 or 1 (1 and 2 in the source), ``task`` 0 or 1;
        ``feature_names``, ``task_names``, ``DESCR``.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_newsgroups
    >>> news = load_newsgroups("rec_vs_talk")  # doctest: +SKIP
    >>> news.X.shape, set(news.y.tolist())  # doctest: +SKIP
    ((3389, 2000), {0, 1})
    """
    _check_choice("pair", pair, NEWSGROUPS)
    data = read_dataset(f"newsgroup_{pair}.npz", folder, "X y task")
    data.update(X=sparse.csr_matrix(data.X), y=data.y - 1)
    return data


# -- tasks that share their rows -------------------------------------------------------------------------


@_documented
def load_usps(subset: str = "train", *, folder: Folder = None) -> Bunch:
    """USPS digits as ten one-vs-rest tasks on shared images.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        Part of the standard split, or both, the training part first.
    {folder}

    Returns
    -------
    Bunch
        Shared ``X`` (n, 256) float32 in [0, 1], ``y`` (n, 10) with 1 where the image shows the digit of the
        column and 0 elsewhere, ``task`` None; ``feature_names``, ``task_names``, ``DESCR``; and ``label``
        (n,), the digit, and ``in_test`` (n,).

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_usps
    >>> usps = load_usps()  # doctest: +SKIP
    >>> usps.X.shape, usps.y.shape, usps.y.sum(axis=0)[:3]  # doctest: +SKIP
    ((7291, 256), (7291, 10), array([1194, 1005,  731]))
    """
    _check_choice("subset", subset, ("train", "test", "all"))
    parts = ["train", "test"] if subset == "all" else [subset]
    data = read_dataset("usps.npz", folder, " ".join(f"X_{part} y_{part}" for part in parts))
    stored = [(data.pop(f"X_{part}"), data.pop(f"y_{part}"), part == "test") for part in parts]
    data["X"] = np.concatenate([X for X, _, _ in stored])
    data["feature_names"] = [f"pixel{i}_{j}" for i in range(16) for j in range(16)]
    data["in_test"] = np.concatenate([np.full(len(label), in_test) for _, label, in_test in stored])
    return _one_vs_rest(data, np.concatenate([label for _, label, _ in stored]), DIGITS)


@_documented
def load_mfeat(*, folder: Folder = None) -> Bunch:
    """Dutch handwritten digits as ten one-vs-rest tasks on shared images.

    {folder}

    Returns
    -------
    Bunch
        Shared ``X`` (2000, 240), ``y`` (2000, 10) of 0 and 1, ``task`` None; ``feature_names``,
        ``task_names``, ``DESCR``; and ``label`` (2000,), the digit. Rows come sorted by digit.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_mfeat
    >>> load_mfeat().y.sum(axis=0)  # doctest: +SKIP
    array([200, 200, 200, 200, 200, 200, 200, 200, 200, 200])
    """
    data = read_dataset("mfeat_pix.npz", folder, "X y")
    return _one_vs_rest(data, data.y, DIGITS)


@_documented
def load_srbct(*, folder: Folder = None) -> Bunch:
    """Four kinds of small round blue cell tumours as one-vs-rest tasks.

    {folder}

    Returns
    -------
    Bunch
        Shared ``X`` (63, 2308), ``y`` (63, 4) of 0 and 1, ``task`` None; ``feature_names``, ``task_names``,
        ``DESCR``; and ``label`` (63,), the position of the tumour in ``task_names``.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_srbct
    >>> tumours = load_srbct()  # doctest: +SKIP
    >>> tumours.task_names, tumours.y.sum(axis=0)  # doctest: +SKIP
    (['BL', 'EWS', 'NB', 'RMS'], array([ 8, 23, 12, 20]))
    """
    data = read_dataset("srbct.npz", folder, "X y class_names feature_names")
    data["feature_names"] = _distinct(data.feature_names)
    return _one_vs_rest(data, data.y, strings(data.pop("class_names")))


@_documented
def load_multitarget(name: str, *, keep_incomplete: bool = False, folder: Folder = None) -> Bunch:
    """A regression set with several targets, of the Mulan collection.

    Parameters
    ----------
    name : {"atp1d", "atp7d", "oes10", "oes97", "rf1", "scm20d", "wq"}
        Which one: airline ticket prices (two), occupational employment (two), river flow, supply chain
        prices, water quality.
    keep_incomplete : bool, default=False
        Keep rows with missing features (120 rows of rf1), to be imputed.
    {folder}

    Returns
    -------
    Bunch
        Shared ``X`` (n, d), ``y`` (n, T), ``task`` None; ``feature_names``, ``task_names``, ``DESCR``; and
        ``row`` (n,), the row of the source.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_multitarget
    >>> rivers = load_multitarget("rf1")  # doctest: +SKIP
    >>> rivers.X.shape, rivers.y.shape  # doctest: +SKIP
    ((9005, 64), (9005, 8))
    """
    _check_choice("name", name, MULTITARGET)
    data = read_dataset(f"mtr_{name}.npz", folder, SHARED)
    complete = np.isfinite(data.X).all(axis=1)
    data["row"] = np.arange(len(data.X)) if keep_incomplete else np.flatnonzero(complete)
    if not (keep_incomplete or complete.all()):
        data.update(X=data.X[complete], y=data.y[complete])
    return data


@_documented
def load_liver_toxicity(*, folder: Folder = None) -> Bunch:
    """Clinical chemistry of 64 rats from the expression of 3,116 genes.

    {folder}

    Returns
    -------
    Bunch
        Shared ``X`` (64, 3116), ``y`` (64, 10), ``task`` None; ``feature_names``, ``task_names``,
        ``DESCR``; and ``dose`` (64,), ``time`` (64,), the groups of the experiment.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_liver_toxicity
    >>> load_liver_toxicity().y.shape  # doctest: +SKIP
    (64, 10)
    """
    return read_dataset("liver_toxicity.npz", folder, f"{SHARED} dose time")


@_documented
def load_nutrimouse(*, folder: Folder = None) -> Bunch:
    """Fatty acids in the livers of 40 mice from the expression of 120 genes.

    {folder}

    Returns
    -------
    Bunch
        Shared ``X`` (40, 120), ``y`` (40, 21), ``task`` None; ``feature_names``, ``task_names``, ``DESCR``;
        and ``diet`` (40,), ``genotype`` (40,).

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_nutrimouse
    >>> load_nutrimouse().y.shape  # doctest: +SKIP
    (40, 21)
    """
    return read_dataset("nutrimouse.npz", folder, f"{SHARED} diet genotype")


@_documented
def load_wheat(*, folder: Folder = None) -> Bunch:
    """Yield of 599 wheat lines in four environments from 1,279 markers.

    {folder}

    Returns
    -------
    Bunch
        Shared ``X`` (599, 1279), ``y`` (599, 4), ``task`` None; ``feature_names``, ``task_names``,
        ``DESCR``; and ``cv_set`` (599,), the published fold of each line, 1 to 10.

    Examples
    --------
    >>> from mmtfl_lab.datasets import load_wheat
    >>> wheat = load_wheat()  # doctest: +SKIP
    >>> wheat.X.shape, wheat.task_names[2]  # doctest: +SKIP
    ((599, 1279), 'environment 4')
    """
    data = read_dataset("wheat.npz", folder, "X Y cv_set feature_names")
    data["task_names"] = [f"environment {number}" for number in (1, 2, 4, 5)]
    return data


# -- parts of the loaders ------------------------------------------------------------------------------


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{name}={value!r} is unknown: choose one of {', '.join(map(repr, choices))}.")


def _one_vs_rest(data: Bunch, label: np.ndarray, task_names: list[str]) -> Bunch:
    """Make a task of each class: its column of y is 1 where the row is of that class, and 0 elsewhere."""
    y = (label[:, None] == np.arange(len(task_names))).astype(np.int64)
    data.update(y=y, task_names=task_names, label=label)
    return data


def _distinct(names: list[str]) -> list[str]:
    """Tell repeated names apart: a, a, a becomes a, a#2, a#3."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return distinct
