"""The protocol of the experiments: random splits, every method on each, cell by cell, kept in a folder."""

import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config
from sklearn.metrics import f1_score, r2_score, roc_auc_score
from threadpoolctl import threadpool_limits

from mmtfl.engines.dask import ignore_interrupts
from mmtfl.errors import SmallTaskWarning, UnitsWarning
from mmtfl.model_selection.progress import Progress
from mmtfl.persistence.files import write_text
from mmtfl_lab.paper import data_sets, methods
from mmtfl_lab.paper.data_sets import PROBLEMS, Pool, Problem, Split, load_pool, make_split
from mmtfl_lab.paper.methods import METHODS, Grid, Method

FORMAT = 1  # raised when the numbers of a cell change their meaning
_SETTINGS = "settings.json"
_CELLS = "cells"


# -- a folder of results: one small file per finished cell, written whole or not at all ---------------------


class OtherSettings(ValueError):
    """The folder holds results of other settings than those asked for."""


@dataclass(frozen=True, order=True)
class Cell:
    """The unit of work: one method on one split of one data set."""

    dataset: str
    fraction: float
    repeat: int
    method: str

    @property
    def file(self) -> str:
        """Name of its file."""
        return f"{self.dataset}-{self.fraction:g}-{self.repeat:03d}-{self.method}.json"


class Store:
    """The folder of one run, from which an interrupted run is resumed.

    Parameters
    ----------
    folder : path
        Made when first written to.
    settings : dict
        Everything that the numbers of a cell depend on beside the cell itself; plain JSON types.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mmtfl_lab.paper.protocol import Cell, Store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder) / "run", {"seed": 0})
    ...     store.open()
    ...     store.write(Cell("D1", 0.25, 0, "stl"), {"pooled": 0.4})
    ...     store.read(Cell("D1", 0.25, 0, "stl"))["pooled"], store.read(Cell("D1", 0.25, 1, "stl"))
    (0.4, None)
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self.settings = Path(folder), settings

    def open(self, *, fresh: bool = False) -> None:
        """Make the folder, or take it up again if it holds cells of the same settings.

        Parameters
        ----------
        fresh : bool
            Throw away the cells that are there.

        Raises
        ------
        OtherSettings
            If it holds cells of other settings, or something that is not a run.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise OtherSettings(f"{str(self.folder)!r} is a file: name a folder.")
        if fresh and self._is_run():
            for path in (self.folder / _CELLS).glob("*.json"):
                path.unlink()
            (self.folder / _SETTINGS).unlink()
        if self._is_run():
            self._check_settings()
            return
        if self.folder.exists() and any(self.folder.iterdir()) and not fresh:
            raise OtherSettings(
                f"{str(self.folder)!r} is not empty and holds no run to go on with: name another folder."
            )
        (self.folder / _CELLS).mkdir(parents=True, exist_ok=True)
        write_text(self.folder / _SETTINGS, _dump(self.settings))

    def _is_run(self) -> bool:
        return (self.folder / _SETTINGS).exists()

    def _check_settings(self) -> None:
        found = _load(self.folder / _SETTINGS)
        wanted = json.loads(_dump(self.settings))
        if found == wanted:
            (self.folder / _CELLS).mkdir(exist_ok=True)
            return
        found = found if isinstance(found, dict) else {}
        differs = sorted(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        told = ", ".join(f"{name} {found.get(name)!r} there, {wanted.get(name)!r} here" for name in differs)
        raise OtherSettings(
            f"{str(self.folder)!r} holds cells of other settings ({told}): name another folder, or start it "
            "afresh with --fresh."
        )

    def path(self, cell: Cell) -> Path:
        """Where a cell is kept."""
        return self.folder / _CELLS / cell.file

    def read(self, cell: Cell) -> dict[str, Any] | None:
        """A finished cell, or None; a file that is not a whole cell counts as none."""
        try:
            found = _load(self.path(cell))
        except OSError:
            return None
        return found if isinstance(found, dict) and found.get("cell") == asdict(cell) else None

    def write(self, cell: Cell, result: dict[str, Any]) -> None:
        """Keep a finished cell."""
        write_text(self.path(cell), _dump({"cell": asdict(cell), **result}))

    def missing(self, cells: Iterable[Cell]) -> list[Cell]:
        """The cells that are not finished yet."""
        return [cell for cell in cells if self.read(cell) is None]


def _dump(value: Any) -> str:
    return json.dumps(value, indent=1, sort_keys=True, allow_nan=False)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError:  # cut short, or not ours
        return None


# -- the cells of a plan -------------------------------------------------------------------------------------

Compute = Callable[[Cell], dict[str, Any]]


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes
    ----------
    datasets, methods : sequence of str
        Names in `PROBLEMS` and `METHODS`.
    fractions : sequence of float
        Parts of the data to train on.
    repeats : int
        Random splits of each.
    seed : int
        Of everything random.
    grid : Grid
        How finely methods are tuned.
    """

    datasets: Sequence[str] = data_sets.IN_THE_PAPER
    methods: Sequence[str] = methods.IN_THE_PAPER
    fractions: Sequence[float] = (0.25, 0.33, 0.5)
    repeats: int = 15
    seed: int = 0
    grid: Grid = field(default_factory=Grid)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that the numbers of a cell depend on, beside the cell itself."""
        return {"format": FORMAT, "seed": self.seed, "grid": asdict(self.grid)}

    def cells(self) -> list[Cell]:
        """All cells, repeat by repeat, so that an interrupted run has some splits of everything."""
        return [
            Cell(dataset, fraction, repeat, method)
            for repeat in range(self.repeats)
            for dataset in self.datasets
            for fraction in self.fractions
            for method in self.methods
        ]


def run_cell(cell: Cell, seed: int, grid: Grid) -> dict[str, Any]:
    """Compute one cell; its random numbers depend on the seed, the data set, the fraction and the repeat.

    Parameters
    ----------
    cell : Cell
        What to compute.
    seed : int
        Seed of the run.
    grid : Grid
        How finely the method is tuned.

    Returns
    -------
    dict
        Plain numbers: ``pooled`` and ``mean`` score, ``support_f1`` where the truth is known, ``seconds`` of
        processor time, what was ``chosen``, and the ``warnings`` met.
    """
    problem, pool = PROBLEMS[cell.dataset], load_pool(cell.dataset, seed)
    split = make_split(problem, pool, cell.fraction, seed, cell.dataset, cell.fraction, cell.repeat)
    # the first repeat's coefficients are kept for the figure
    return measure(problem, pool, split, METHODS[cell.method], grid, keep_coef=cell.repeat == 0)[0]


def measure(
    problem: Problem, pool: Pool, split: Split, method: Method, grid: Grid, *, keep_coef: bool = False
) -> tuple[dict[str, Any], np.ndarray]:
    """Fit a method on the training rows of a split; its scores on the other rows, and its predictions."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for of_the_data in (SmallTaskWarning, UnitsWarning):  # a part of the rows has smaller tasks
            warnings.simplefilter("ignore", of_the_data)
        grid = replace(grid, alpha_ratio=problem.alpha_ratio)
        began = time.process_time()
        fitted = method.fit(split, problem.is_classification, problem.options, grid)
        seconds = time.process_time() - began
    test = split.test
    z = fitted.predict(test.X, test.task)
    result: dict[str, Any] = {
        **score_rows(problem.metric, test.y, z, test.task),
        "seconds": round(seconds, 3),
        "chosen": fitted.chosen,
        "warnings": sorted({str(warning.message).split(".")[0] for warning in caught}),
    }
    if pool.support is not None:
        result["support_f1"] = support_f1(pool.support, fitted.coef)
        if keep_coef:
            shown = np.broadcast_to(fitted.coef, pool.support.shape)
            result["coef"] = [[float(f"{value:.4g}") for value in row] for row in shown]
    return result, z


def run_cells(
    cells: Iterable[Cell], compute: Compute, store: Store, *, jobs: int = 1, shown: bool = False
) -> None:
    """Compute the cells that the store does not have, each written as soon as it is done.

    Parameters
    ----------
    cells : iterable of Cell
        What is wanted.
    compute : function of a cell
        Gives its result as plain numbers; depends on the cell alone, not on what ran before.
    store : Store
        Where the results go.
    jobs : int
        Processes.
    shown : bool
        Whether to tell of progress on stderr.
    """
    missing = list(dict.fromkeys(store.missing(cells)))
    with Progress("cells", len(missing), "cells", shown=shown and bool(missing)) as progress:
        for cell in _finished(missing, compute, store, jobs):
            progress.finish(cell)


def _finished(cells: Sequence[Cell], compute: Compute, store: Store, jobs: int) -> Iterator[Cell]:
    if jobs == 1 or len(cells) < 2:
        for cell in cells:
            yield _run_and_write(cell, compute, store)
        return
    with parallel_config("loky", inner_max_num_threads=1):
        with ignore_interrupts():
            Parallel(n_jobs=jobs)(delayed(end_with)(os.getpid()) for _ in range(jobs))
        work = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs")
        yield from work(delayed(_run_and_write)(cell, compute, store, os.getpid()) for cell in cells)


def _run_and_write(cell: Cell, compute: Compute, store: Store, parent: int | None = None) -> Cell:
    """Compute a cell; in a child, which ends with its parent."""
    if parent is not None:
        end_with(parent)
    # the process that computed a cell writes it: nothing finished waits for anybody
    with threadpool_limits(1):
        store.write(cell, compute(cell))
    return cell


# -- scores --------------------------------------------------------------------------------------------------


def score_rows(metric: str, y: np.ndarray, z: np.ndarray, task: np.ndarray) -> dict[str, float]:
    """Score predictions of all rows at once, and as the mean over tasks.

    Parameters
    ----------
    metric : {"r2", "f1", "auc"}
        Coefficient of determination, F1 of class 1, or area under the ROC curve.
    y : ndarray of shape (n,)
        Targets; 0 and 1 for classes.
    z : ndarray of shape (n,)
        Predictions; log odds for classes.
    task : ndarray of shape (n,)
        Task of each row. Tasks whose targets are all equal have no score.

    Returns
    -------
    dict
        ``pooled`` and ``mean``.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.paper.protocol import score_rows
    >>> score_rows("f1", np.array([0, 1, 0, 1]), np.array([-1.0, 2.0, -1.0, 1.0]), np.array([0, 0, 1, 1]))
    {'pooled': 1.0, 'mean': 1.0}
    """
    function = _METRICS[metric]
    labels, code = np.unique(task, return_inverse=True)
    parts = [code == t for t in range(len(labels))]
    own = [function(y[rows], z[rows]) for rows in parts if np.ptp(y[rows]) > 0]
    if metric == "r2":
        means = np.array([y[rows].mean() for rows in parts])
        # about the tasks' own means: to know that torques differ in size explains nothing
        pooled = 1.0 - np.sum((y - z) ** 2) / np.sum((y - means[code]) ** 2)
    else:
        pooled = function(y, z)
    return {"pooled": float(pooled), "mean": float(np.mean(own))}


_METRICS = {
    "r2": r2_score,
    "f1": lambda y, z: f1_score(y, z > 0.0, zero_division=0.0),
    "auc": roc_auc_score,
}


def support_f1(support: np.ndarray, coef: np.ndarray) -> float:
    """F1 of the entries that are not zero, against those of the truth.

    Parameters
    ----------
    support, coef : ndarray of shape (n_tasks, n_features)
        What is not zero in truth, and what was learned.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl_lab.paper.protocol import support_f1
    >>> round(support_f1(np.array([[True, True, False]]), np.array([[0.3, 0.0, 0.0]])), 3)
    0.667
    """
    found = np.broadcast_to(coef != 0.0, support.shape)
    both = int(np.count_nonzero(found & support))
    either = int(np.count_nonzero(found) + np.count_nonzero(support))
    return 2.0 * both / max(either, 1)


# -- child processes -----------------------------------------------------------------------------------------

_SECONDS = 0.5  # between two looks at the parent
_watched: set[int] = set()


def end_with(parent: int) -> None:
    """End this process soon after its parent, however that ended; called in the child, once or often.

    Where the system does not tell that a parent is gone, as on Windows, nothing is done.
    """
    if parent in _watched or os.name != "posix":
        return
    _watched.add(parent)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_SECONDS)
    os._exit(1)  # at once: nobody waits for an answer
