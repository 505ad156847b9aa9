"""Real multitask datasets, read from files of arrays on this machine; nothing is downloaded.

Every loader returns a Bunch with ``X``, ``y``, ``task``, ``feature_names``, ``task_names`` (None where not
known) and ``DESCR``, in one of two layouts:

- *stacked*: ``y`` (n,) and ``task`` (n,), one row per observation, for tasks with rows of their own;
- *shared*: ``y`` (n, T) and ``task`` None, one column per task, for tasks that share their rows.

Both go into ``fit(data.X, data.y, data.task)`` as they are.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from mmtfl.datasets.sources import SOURCES, Source

__all__ = [
    "data_folder",
    "load_computer_survey",
    "load_isolet",
    "load_landmine",
    "load_liver_toxicity",
    "load_mfeat",
    "load_multitarget",
    "load_newsgroups",
    "load_nutrimouse",
    "load_parkinsons",
    "load_sarcos",
    "load_school",
    "load_srbct",
    "load_usps",
    "load_wheat",
]

Folder = str | os.PathLike[str] | None

MULTITARGET = ("atp1d", "atp7d", "oes10", "oes97", "rf1", "scm20d", "wq")
NEWSGROUPS = ("comp_vs_sci", "rec_vs_talk")


def data_folder(folder: Folder = None) -> Path:
    """The folder in which the loaders look for their files.

    Parameters
    ----------
    folder : str or path, default=None
        The folder itself. None: the one named by the environment variable ``MMTFL_DATA``, or else ``mmtfl``
        in the user's cache folder (``XDG_CACHE_HOME`` or the place usual on the platform), where the
        loaders also look for files that the first one does not hold.

    Returns
    -------
    pathlib.Path
        The folder, which need not exist.

    Examples
    --------
    >>> from mmtfl.datasets import data_folder
    >>> data_folder("mydata").name
    'mydata'
    """
    given = folder if folder is not None else os.environ.get("MMTFL_DATA")
    return Path(given).expanduser() if given else _user_cache() / "mmtfl"


def data_path(file: str, folder: Folder = None) -> Path:
    """Where a file of the loaders is; if it is nowhere, where it should be put."""
    path = data_folder(folder) / file
    cached = _user_cache() / "mmtfl" / file
    return cached if folder is None and cached.is_file() and not path.is_file() else path


def _user_cache() -> Path:
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"])
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")


# -- tasks with rows of their own ------------------------------------------------------------------------


def load_sarcos(subset: str = "train", *, folder: Folder = None) -> Bunch:
    """SARCOS robot arm: seven torques from 21 positions, velocities and accelerations.

    Parameters
    ----------
    subset : {"train", "all", "test"}, default="train"
        ``"train"``: rows of the training file, stacked, without those that are also in the official test
        file, so that scores on it are honest. ``"all"``: these included, for experiments that split by
        themselves. ``"test"``: the official test file, in the shared layout with one column per torque.
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        ``X``, ``y``, ``task``, ``feature_names``, ``task_names``, ``DESCR``; and ``in_test`` (n,), True
        for rows of the official test file.

    Examples
    --------
    >>> from mmtfl.datasets import load_sarcos
    >>> load_sarcos("all").X.shape  # doctest: +SKIP
    (15367, 21)
    >>> load_sarcos().X.shape, load_sarcos("test").y.shape  # doctest: +SKIP
    ((13827, 21), (4449, 7))
    """
    _check_choice("subset", subset, ("train", "all", "test"))
    if subset == "test":
        data = _load_shared("sarcos_test.npz", folder)
        data["in_test"] = np.ones(len(data.X), dtype=bool)
        return data
    arrays, source = _read("sarcos_train_tasks.npz", folder, "X y task in_test feature_names task_names")
    rows = ~arrays["in_test"] if subset == "train" else slice(None)
    return _stacked(
        source,
        arrays["X"][rows],
        arrays["y"][rows],
        arrays["task"][rows],
        feature_names=arrays["feature_names"],
        task_names=arrays["task_names"],
        in_test=arrays["in_test"][rows],
    )


def load_school(*, keep_constant: bool = False, folder: Folder = None) -> Bunch:
    """Examination scores of the pupils of 139 schools.

    Parameters
    ----------
    keep_constant : bool, default=False
        Keep the source's column of ones. The estimators have an intercept of their own.
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Stacked ``X`` (15362, 27), ``y``, ``task``; ``feature_names``, ``task_names``, ``DESCR``.

    Examples
    --------
    >>> from mmtfl.datasets import load_school
    >>> load_school().X.shape  # doctest: +SKIP
    (15362, 27)
    """
    arrays, source = _read("school.npz", folder, "X y task feature_names")
    X, names = arrays["X"], arrays["feature_names"]
    if not keep_constant:
        varies = X.min(axis=0) < X.max(axis=0)
        X, names = X[:, varies], names[varies]
    return _stacked(source, X, arrays["y"], arrays["task"], feature_names=names)


def load_landmine(*, folder: Folder = None) -> Bunch:
    """Landmines on 29 sites: 9 radar features, 6 % of the rows are mines.

    Parameters
    ----------
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Stacked ``X`` (14820, 9), ``y`` 0 or 1, ``task``; ``feature_names``, ``task_names``, ``DESCR``; and
        ``terrain`` (29,), what the paper says of each site.

    Examples
    --------
    >>> from mmtfl.datasets import load_landmine
    >>> mines = load_landmine()  # doctest: +SKIP
    >>> mines.X.shape, int(mines.y.sum())  # doctest: +SKIP
    ((14820, 9), 904)
    """
    arrays, source = _read("landmine.npz", folder, "X y task")
    n_tasks = arrays["task"].max() + 1
    terrain = np.where(np.arange(n_tasks) < 15, "foliated", "bare earth or desert")
    return _stacked(source, arrays["X"], arrays["y"], arrays["task"], terrain=terrain)


def load_parkinsons(target: str = "motor_UPDRS", *, folder: Folder = None) -> Bunch:
    """Parkinson's disease scores of 42 patients from their voices.

    Parameters
    ----------
    target : {"motor_UPDRS", "total_UPDRS"}, default="motor_UPDRS"
        The score to use as ``y``.
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Stacked ``X`` (5875, 19), ``y``, ``task``; ``feature_names``, ``task_names``, ``DESCR``; and both
        scores as ``targets`` (5875, 2) with ``target_names``.

    Examples
    --------
    >>> from mmtfl.datasets import load_parkinsons
    >>> load_parkinsons("total_UPDRS").X.shape  # doctest: +SKIP
    (5875, 19)
    """
    arrays, source = _read("parkinsons_telemonitoring.npz", folder, "X Y task feature_names target_names")
    targets, names = arrays["Y"], _strings(arrays["target_names"])
    _check_choice("target", target, names)
    return _stacked(
        source,
        arrays["X"],
        targets[:, names.index(target)],
        arrays["task"],
        feature_names=arrays["feature_names"],
        targets=targets,
        target_names=names,
    )


def load_computer_survey(*, folder: Folder = None) -> Bunch:
    """Ratings of 20 computers by 190 people.

    Parameters
    ----------
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Stacked ``X`` (3800, 13), ``y`` 0 to 10, ``task``; ``feature_names``, ``task_names``, ``DESCR``; and
        ``profile`` (3800,), the computer rated; ``calibration`` (3800,), True for profiles 0 to 15, which
        the source fits on; ``Z`` (190, 7) with ``Z_names``, what is known of each person.

    Examples
    --------
    >>> from mmtfl.datasets import load_computer_survey
    >>> survey = load_computer_survey()  # doctest: +SKIP
    >>> survey.X.shape, int(survey.calibration.sum())  # doctest: +SKIP
    ((3800, 13), 3040)
    """
    arrays, source = _read("computer_survey.npz", folder, "X y task profile Z feature_names Z_names")
    return _stacked(
        source,
        arrays["X"],
        arrays["y"],
        arrays["task"],
        feature_names=arrays["feature_names"],
        profile=arrays["profile"],
        calibration=arrays["profile"] < 16,
        Z=arrays["Z"],
        Z_names=_strings(arrays["Z_names"]),
    )


def load_isolet(*, folder: Folder = None) -> Bunch:
    """Spoken letters of five groups of speakers.

    Parameters
    ----------
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Stacked ``X`` (7797, 617), ``y`` from 1 to 26, ``task``; ``feature_names``, ``task_names``,
        ``DESCR``; and ``letter`` (7797,), "A" to "Z". Rows come sorted: shuffle before splitting.

    Examples
    --------
    >>> from mmtfl.datasets import load_isolet
    >>> isolet = load_isolet()  # doctest: +SKIP
    >>> isolet.X.shape, isolet.letter[:2].tolist()  # doctest: +SKIP
    ((7797, 617), ['A', 'A'])
    """
    arrays, source = _read("isolet.npz", folder, "X y task")
    # stored in single precision; the source has four decimals, which rounding gives back exactly
    X = np.round(arrays["X"].astype(np.float64), 4)
    letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    return _stacked(
        source,
        X,
        arrays["y"],
        arrays["task"],
        task_names=[f"isolet{t + 1}" for t in range(arrays["task"].max() + 1)],
        letter=letters[arrays["y"] - 1],
    )


def load_newsgroups(pair: str = "comp_vs_sci", *, folder: Folder = None) -> Bunch:
    """Newsgroup documents: one pair of topics told apart in two sets of sub-groups.

    Parameters
    ----------
    pair : {"comp_vs_sci", "rec_vs_talk"}, default="comp_vs_sci"
        The two topics.
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Stacked ``X`` (n, 2000) word counts in CSR, ``y`` 0 or 1 (1 and 2 in the source), ``task`` 0 or 1;
        ``feature_names``, ``task_names``, ``DESCR``.

    Examples
    --------
    >>> from mmtfl.datasets import load_newsgroups
    >>> news = load_newsgroups("rec_vs_talk")  # doctest: +SKIP
    >>> news.X.shape, set(news.y.tolist())  # doctest: +SKIP
    ((3389, 2000), {0, 1})
    """
    _check_choice("pair", pair, NEWSGROUPS)
    arrays, source = _read(f"newsgroup_{pair}.npz", folder, "X y task")
    return _stacked(source, sparse.csr_matrix(arrays["X"]), arrays["y"] - 1, arrays["task"])


# -- tasks that share their rows -------------------------------------------------------------------------


def load_usps(subset: str = "train", *, folder: Folder = None) -> Bunch:
    """USPS digits as ten one-vs-rest tasks on shared images.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        Part of the standard split, or both, the training part first.
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Shared ``X`` (n, 256) float32 in [0, 1], ``y`` (n, 10) with 1 where the image shows the digit of the
        column and 0 elsewhere, ``task`` None; ``feature_names``, ``task_names``, ``DESCR``; and ``label``
        (n,), the digit, and ``in_test`` (n,).

    Examples
    --------
    >>> from mmtfl.datasets import load_usps
    >>> usps = load_usps()  # doctest: +SKIP
    >>> usps.X.shape, usps.y.shape, usps.y.sum(axis=0)[:3]  # doctest: +SKIP
    ((7291, 256), (7291, 10), array([1194, 1005,  731]))
    """
    _check_choice("subset", subset, ("train", "test", "all"))
    parts = ["train", "test"] if subset == "all" else [subset]
    wanted = " ".join(f"X_{part} y_{part}" for part in parts)
    arrays, source = _read("usps.npz", folder, wanted)
    X = np.concatenate([arrays[f"X_{part}"] for part in parts])
    label = np.concatenate([arrays[f"y_{part}"] for part in parts])
    in_test = np.concatenate([np.full(len(arrays[f"y_{part}"]), part == "test") for part in parts])
    names = [f"pixel{i}_{j}" for i in range(16) for j in range(16)]
    return _one_vs_rest(source, X, label, map(str, range(10)), feature_names=names, in_test=in_test)


def load_mfeat(*, folder: Folder = None) -> Bunch:
    """Dutch handwritten digits as ten one-vs-rest tasks on shared images.

    Parameters
    ----------
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Shared ``X`` (2000, 240), ``y`` (2000, 10) of 0 and 1, ``task`` None; ``feature_names``,
        ``task_names``, ``DESCR``; and ``label`` (2000,), the digit. Rows come sorted by digit.

    Examples
    --------
    >>> from mmtfl.datasets import load_mfeat
    >>> load_mfeat().y.sum(axis=0)  # doctest: +SKIP
    array([200, 200, 200, 200, 200, 200, 200, 200, 200, 200])
    """
    arrays, source = _read("mfeat_pix.npz", folder, "X y")
    return _one_vs_rest(source, arrays["X"], arrays["y"], map(str, range(10)))


def load_srbct(*, folder: Folder = None) -> Bunch:
    """Four kinds of small round blue cell tumours as one-vs-rest tasks.

    Parameters
    ----------
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Shared ``X`` (63, 2308), ``y`` (63, 4) of 0 and 1, ``task`` None; ``feature_names``, ``task_names``,
        ``DESCR``; and ``label`` (63,), the position of the tumour in ``task_names``.

    Examples
    --------
    >>> from mmtfl.datasets import load_srbct
    >>> tumours = load_srbct()  # doctest: +SKIP
    >>> tumours.task_names, tumours.y.sum(axis=0)  # doctest: +SKIP
    (['BL', 'EWS', 'NB', 'RMS'], array([ 8, 23, 12, 20]))
    """
    arrays, source = _read("srbct.npz", folder, "X y class_names feature_names")
    names = _distinct(_strings(arrays["feature_names"]))
    return _one_vs_rest(
        source, arrays["X"], arrays["y"], _strings(arrays["class_names"]), feature_names=names
    )


def load_multitarget(name: str, *, keep_incomplete: bool = False, folder: Folder = None) -> Bunch:
    """A regression set with several targets, of the Mulan collection.

    Parameters
    ----------
    name : {"atp1d", "atp7d", "oes10", "oes97", "rf1", "scm20d", "wq"}
        Which one: airline ticket prices (two), occupational employment (two), river flow, supply chain
        prices, water quality.
    keep_incomplete : bool, default=False
        Keep rows with missing features (120 rows of rf1), to be imputed.
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Shared ``X`` (n, d), ``y`` (n, T), ``task`` None; ``feature_names``, ``task_names``, ``DESCR``; and
        ``row`` (n,), the row of the source.

    Examples
    --------
    >>> from mmtfl.datasets import load_multitarget
    >>> rivers = load_multitarget("rf1")  # doctest: +SKIP
    >>> rivers.X.shape, rivers.y.shape  # doctest: +SKIP
    ((9005, 64), (9005, 8))
    """
    _check_choice("name", name, MULTITARGET)
    data = _load_shared(f"mtr_{name}.npz", folder)
    complete = np.isfinite(data.X).all(axis=1)
    if keep_incomplete or complete.all():
        data["row"] = np.arange(len(data.X))
    else:
        data.update(X=data.X[complete], y=data.y[complete], row=np.flatnonzero(complete))
    return data


def load_liver_toxicity(*, folder: Folder = None) -> Bunch:
    """Clinical chemistry of 64 rats from the expression of 3,116 genes.

    Parameters
    ----------
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Shared ``X`` (64, 3116), ``y`` (64, 10), ``task`` None; ``feature_names``, ``task_names``,
        ``DESCR``; and ``dose`` (64,), ``time`` (64,), the groups of the experiment.

    Examples
    --------
    >>> from mmtfl.datasets import load_liver_toxicity
    >>> load_liver_toxicity().y.shape  # doctest: +SKIP
    (64, 10)
    """
    return _load_shared("liver_toxicity.npz", folder, extras=("dose", "time"))


def load_nutrimouse(*, folder: Folder = None) -> Bunch:
    """Fatty acids in the livers of 40 mice from the expression of 120 genes.

    Parameters
    ----------
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Shared ``X`` (40, 120), ``y`` (40, 21), ``task`` None; ``feature_names``, ``task_names``, ``DESCR``;
        and ``diet`` (40,), ``genotype`` (40,).

    Examples
    --------
    >>> from mmtfl.datasets import load_nutrimouse
    >>> load_nutrimouse().y.shape  # doctest: +SKIP
    (40, 21)
    """
    return _load_shared("nutrimouse.npz", folder, extras=("diet", "genotype"))


def load_wheat(*, folder: Folder = None) -> Bunch:
    """Yield of 599 wheat lines in four environments from 1,279 markers.

    Parameters
    ----------
    folder : str or path, default=None
        Where the files are, see :func:`data_folder`.

    Returns
    -------
    Bunch
        Shared ``X`` (599, 1279), ``y`` (599, 4), ``task`` None; ``feature_names``, ``task_names``,
        ``DESCR``; and ``cv_set`` (599,), the published fold of each line, 1 to 10.

    Examples
    --------
    >>> from mmtfl.datasets import load_wheat
    >>> wheat = load_wheat()  # doctest: +SKIP
    >>> wheat.X.shape, wheat.task_names[2]  # doctest: +SKIP
    ((599, 1279), 'environment 4')
    """
    arrays, source = _read("wheat.npz", folder, "X Y cv_set feature_names")
    return _shared(
        source,
        arrays["X"],
        arrays["Y"],
        feature_names=arrays["feature_names"],
        task_names=[f"environment {e}" for e in (1, 2, 4, 5)],
        cv_set=arrays["cv_set"],
    )


# -- files -----------------------------------------------------------------------------------------------


def _read(file: str, folder: Folder, names: str) -> tuple[dict[str, np.ndarray], Source]:
    """Read the named arrays; nothing in the file is executed (no pickle)."""
    source = SOURCES[file]
    path = data_path(file, folder)
    if not path.is_file():
        raise FileNotFoundError(_how_to_get(source, path))
    try:
        # opened here, because numpy leaves a broken archive open
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            missing = [name for name in names.split() if name not in archive.files]
            if missing:
                raise ValueError(f"it has no array {', '.join(map(repr, missing))}")
            return {name: archive[name] for name in names.split()}, source
    except (ValueError, AttributeError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {error}. It should hold {source.arrays}.") from error


def _how_to_get(source: Source, path: Path) -> str:
    return (
        f"{path} does not exist. It should hold '{source.title}', which is not part of this package and not "
        f"downloaded. Get the original ({source.origin}), save the arrays {source.arrays} with "
        f"numpy.savez_compressed as {source.file}, and put the file into that folder; or name another "
        "folder by folder=... or the environment variable MMTFL_DATA."
    )


def _check_choice(name: str, value: Any, choices: Iterable[str]) -> None:
    if value not in tuple(choices):
        raise ValueError(f"{name}={value!r} is unknown: choose one of {', '.join(map(repr, choices))}.")


# -- layouts ---------------------------------------------------------------------------------------------


def _load_shared(file: str, folder: Folder, extras: tuple[str, ...] = ()) -> Bunch:
    arrays, source = _read(file, folder, " ".join(("X Y feature_names target_names", *extras)))
    return _shared(
        source,
        arrays["X"],
        arrays["Y"],
        feature_names=arrays["feature_names"],
        task_names=arrays["target_names"],
        **{name: arrays[name] for name in extras},
    )


def _shared(source, X, Y, *, task_names=None, feature_names=None, **extras) -> Bunch:
    return _bunch(source, X, Y, None, feature_names, task_names, extras)


def _stacked(source, X, y, task, *, task_names=None, feature_names=None, **extras) -> Bunch:
    return _bunch(source, X, y, task, feature_names, task_names, extras)


def _one_vs_rest(source, X, label, task_names, **names_and_extras) -> Bunch:
    task_names = list(task_names)
    Y = (label[:, None] == np.arange(len(task_names))).astype(np.int64)
    return _shared(source, X, Y, task_names=task_names, label=label, **names_and_extras)


def _bunch(source, X, y, task, feature_names, task_names, extras) -> Bunch:
    return Bunch(
        X=X,
        y=y,
        task=task,
        feature_names=_strings(feature_names),
        task_names=_strings(task_names),
        DESCR=source.describe(),
        **extras,
    )


def _strings(names):
    return None if names is None else [str(name) for name in names]


def _distinct(names: list[str]) -> list[str]:
    """Tell repeated names apart: a, a, a becomes a, a#2, a#3."""
    seen: dict[str, int] = {}
    distinct = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        distinct.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return distinct
