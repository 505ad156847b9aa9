"""Summaries of sites that keep their rows: numbers of rows, means and scatter, by task and fold.

For the squared loss a task matters only through these moments. A site writes them to a file; the tasks of
several files are put together as few rows with the same moments, fold by fold, and fitted as any others.

A file is in the format of safetensors: the length of a header (8 bytes, little-endian), the header as JSON,
and three arrays. The header explains every field that the file has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from mmtfl.persistence.content_hash import fingerprint
from mmtfl.persistence.files import write_whole
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.curve_basis import QUANTILES, basis_of_splines, natural_splines
from mmtfl.tasks.disclosure import check_scatter, check_written_once
from mmtfl.tasks.grouping import RowsElsewhere, offsets_of
from mmtfl.tasks.moments import FoldedRows, Moments, rows_with

FORMAT = "mmtfl summary 1"
MOST_BYTES = 1 << 31  # of a file: a summary is small, whatever the number of rows
_ARRAYS = ("n_rows", "mean", "scatter")


@dataclass(frozen=True, eq=False)
class SiteSummary:
    """What a site tells of its rows, in the numbers that its file has.

    Parameters
    ----------
    labels : list of str or int
        Its tasks, sorted.
    columns : tuple of str
        Features, then the target.
    n_rows : ndarray of shape (n_tasks, n_folds)
        Numbers of rows.
    mean : ndarray of shape (n_tasks, n_folds, n_columns)
        Means.
    scatter : ndarray of shape (n_tasks, n_folds, n_columns, n_columns)
        Sums of products of deviations from the means.
    agreement : dict
        What the sites agreed on, as JSON types.
    curves : dict of str to list of float
        Knots of features that may act by a curve; their natural splines stand before the target.
    """

    labels: list[Any]
    columns: tuple[str, ...]
    n_rows: np.ndarray
    mean: np.ndarray
    scatter: np.ndarray
    agreement: dict[str, Any]
    curves: dict[str, list[float]]

    @classmethod
    def of_rows(
        cls,
        tasks: Tasks,
        fold: np.ndarray,
        agreement: dict[str, Any],
        *,
        target: str = "y",
        curves: Mapping[str, Sequence[float]] | None = None,
    ) -> SiteSummary:
        """Sum up tasks of which every observation has a fold, numbered from 0.

        Only the rule on the scatter is kept here; `mmtfl.tables.agreement` keeps all.

        Examples
        --------
        >>> import numpy as np
        >>> from mmtfl import Tasks
        >>> from mmtfl.tasks.summaries import SiteSummary
        >>> rng = np.random.default_rng(0)
        >>> tasks = Tasks.from_rows(rng.normal(size=(60, 2)), rng.normal(size=60), ["Aker"] * 60)
        >>> summary = SiteSummary.of_rows(tasks, np.arange(60) % 3, {"least_rows": 10})
        >>> summary.n_rows.tolist(), summary.mean.shape, summary.scatter.shape
        ([[20, 20, 20]], (1, 3, 3), (1, 3, 3, 3))
        """
        knots = {name: list(at) for name, at in (curves or {}).items()}
        tasks = with_splines(tasks, knots)
        n_folds, p = int(fold.max()) + 1, tasks.n_features + 1
        n_rows = np.zeros((tasks.n_tasks, n_folds), dtype="<i8")
        mean, scatter = (np.zeros((*n_rows.shape, *own), dtype="<f8") for own in ((p,), (p, p)))
        for t, k in np.ndindex(*n_rows.shape):
            own = tasks.offsets[t] + np.flatnonzero(fold[tasks.offsets[t] : tasks.offsets[t + 1]] == k)
            n_rows[t, k] = len(own)
            moments = Moments(p - 1)
            moments.add(np.asarray(tasks.X[own], dtype=float), tasks.y[own])
            moments.accumulate()
            mean[t, k], scatter[t, k] = moments.mean, moments.scatter
        check_scatter(n_rows, tasks.labels.tolist(), p)
        names = tasks.feature_names or tuple(f"x{j}" for j in range(p - 1))
        return cls(tasks.labels.tolist(), (*names, target), n_rows, mean, scatter, agreement, knots)

    @property
    def agreement_hash(self) -> str:
        """Hash of what was agreed on."""
        return sha256(json.dumps(self.agreement, sort_keys=True).encode()).hexdigest()

    @property
    def content_hash(self) -> str:
        """Hash of the labels and numbers."""
        names = [self.labels, self.columns, self.curves]
        digest = sha256(json.dumps(names).encode())
        for name in _ARRAYS:
            digest.update(getattr(self, name).tobytes())
        return digest.hexdigest()

    # -- files -----------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the summary to a file, whole or not at all."""
        from safetensors.numpy import save

        explained = json.loads((files("mmtfl.tasks") / "summary.json").read_text(encoding="utf-8"))
        about = {
            "format": FORMAT,
            **{f"{name}: what it is": text for name, text in explained.items()},
            "columns": json.dumps(self.columns, ensure_ascii=False),
            "curves": json.dumps(self.curves, ensure_ascii=False),
            "tasks": json.dumps(self.labels),
            "agreement": json.dumps(self.agreement, ensure_ascii=False),
            "agreement_sha256": self.agreement_hash,
            "content_sha256": self.content_hash,
        }
        arrays = {name: np.ascontiguousarray(getattr(self, name)) for name in _ARRAYS}
        write_whole(path, _with_metadata(save(arrays), about), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiteSummary:
        """Read a summary; a file that is something else, or was changed, is a ValueError."""
        place = Path(path)
        if not place.is_file():
            raise FileNotFoundError(f"There is no file {os.fspath(path)!r}.")
        if place.stat().st_size > MOST_BYTES:
            raise ValueError(f"{os.fspath(path)!r} is too large to be a summary of a site.")
        try:
            return _read(place)
        except (KeyError, TypeError, ValueError, OSError) as error:
            why = str(error).partition("\n")[0].rstrip(".")
            raise ValueError(f"{os.fspath(path)!r} is not a sound summary of a site: {why}.") from error


def _with_metadata(data: bytes, about: dict[str, str]) -> list[bytes]:
    """A file of safetensors with metadata in this order; `save` would write them in any order."""
    n = int.from_bytes(data[:8], "little")
    header = {"__metadata__": about, **json.loads(data[8 : 8 + n])}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of eight bytes
    return [len(text).to_bytes(8, "little"), text, data[8 + n :]]


def _read(place: Path) -> SiteSummary:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(place, framework="numpy") as file:  # sizes are checked before anything is read
            about = file.metadata() or {}
            if about.get("format") != FORMAT:
                raise ValueError(f"its format is {about.get('format')!r}, expected {FORMAT!r}")
            arrays = {name: file.get_tensor(name) for name in _ARRAYS}
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    columns, *known = (json.loads(about[name]) for name in ("columns", "tasks", "agreement", "curves"))
    labels, agreement, curves = known
    summary = SiteSummary(labels, tuple(columns), **arrays, agreement=agreement, curves=curves)
    _check_sound(summary, about)
    return summary


def _check_sound(summary: SiteSummary, about: dict[str, str]) -> None:
    T, p, K = len(summary.labels), len(summary.columns), summary.n_rows.shape[-1]
    shapes = {"n_rows": (T, K), "mean": (T, K, p), "scatter": (T, K, p, p)}
    for name, shape in shapes.items():
        array = getattr(summary, name)
        if array.shape != shape or not np.isfinite(array).all():
            raise ValueError(f"{name} has shape {array.shape} or values that are not finite")
    if not isinstance(summary.agreement, dict) or summary.n_rows.min(initial=1) < 1 or 0 in (T, K) or p < 2:
        raise ValueError("it has no agreement, or a fold without rows")
    n_splines = sum(_check_knots(name, at, summary.columns) for name, at in summary.curves.items())
    if n_splines >= p - 1:
        raise ValueError("it has more splines than columns")
    squares = np.diagonal(summary.scatter, axis1=2, axis2=3)
    if not np.allclose(summary.scatter, np.swapaxes(summary.scatter, 2, 3)) or squares.min() < 0.0:
        raise ValueError("scatter is not that of any rows")
    found = {"agreement_sha256": summary.agreement_hash, "content_sha256": summary.content_hash}
    if any(about.get(name) != value for name, value in found.items()):
        raise ValueError("it was changed after it was written")


def _check_knots(name: Any, at: Any, columns: Sequence[str]) -> int:
    """Check the knots of a column; the number of splines they make."""
    sound = name in columns[:-1] and 3 <= len(at) <= len(QUANTILES) and np.isfinite(at).all()
    if not sound or np.diff(at).min() <= 0.0:
        raise ValueError(f"the knots of {name!r} do not rise, or are of no column")
    return len(at) - 2


def with_splines(tasks: Tasks, curves: Mapping[str, Sequence[float]]) -> Tasks:
    """The tasks with the natural splines of some features behind all features."""
    names = list(tasks.feature_names or ())
    parts, added = [tasks.X], []
    for name, at in curves.items():
        parts.append(natural_splines(tasks.X[:, names.index(name)], np.asarray(at, dtype=float)))
        added += [f"curve {i + 1} of {name}" for i in range(len(at) - 2)]
    return tasks if not added else replace(tasks, X=np.hstack(parts), feature_names=(*names, *added))


# -- the tasks of several sites ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class SummarisedTasks(RowsElsewhere):
    """Tasks of sites that keep their rows; fitted by ``model.fit(summarised)``, squared loss only.

    They are made by ``Tasks.from_summaries``.

    Parameters
    ----------
    labels : ndarray of shape (n_tasks,)
        Task labels, sorted.
    feature_names : tuple of str
        The agreed features.
    n_rows : ndarray of shape (n_tasks, n_folds)
        Number of rows of each task in each fold.
    rows : FoldedRows
        Few rows with the same moments in every fold; X has natural splines behind the features.
    agreement : dict
        What the sites agreed on.
    knots : dict of int to ndarray
        Of the features, by their positions, that may act by a curve.
    """

    labels: np.ndarray
    feature_names: tuple[str, ...]
    n_rows: np.ndarray
    rows: FoldedRows
    agreement: dict[str, Any]
    knots: dict[int, np.ndarray] = field(default_factory=dict)

    @property
    def n_folds(self) -> int:
        """Number of folds that the sites agreed on."""
        return self.n_rows.shape[1]

    @property
    def sizes(self) -> np.ndarray:
        """Number of rows of each task, at its site."""
        return self.n_rows.sum(axis=1)

    @property
    def fingerprint(self) -> str:
        """Content hash."""
        return fingerprint(self.labels, self.n_rows, self.rows, self.agreement)

    def __repr__(self) -> str:
        return self._described(f"n_folds={self.n_folds}")

    def tasks(self) -> Tasks:
        """Few rows with the moments of all rows; their weights sum to the numbers of rows."""
        rows = self.rows
        X = np.ascontiguousarray(rows.X[:, : self.n_features])
        offsets = offsets_of([np.count_nonzero(rows.task == label) for label in self.labels])
        return Tasks(X, rows.y, offsets, self.labels, rows.weights, feature_names=self.feature_names)

    def with_curves(self, tasks: Tasks, among: np.ndarray | None = None) -> Tasks:
        """These tasks, as `tasks` gave them, with the columns of the curves (of some features, if given)."""
        splines = self.rows.X[:, self.n_features :]
        found = basis_of_splines(tasks.X, splines, self.rows.weights, self.knots, among)
        if found is None:
            return tasks
        basis, columns = found
        return basis.widened_tasks(tasks, columns)


def open_summaries(paths: Iterable[Any]) -> SummarisedTasks:
    """Put the tasks of summaries together; see ``Tasks.from_summaries``."""
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    paths = list(paths)
    found = [path if isinstance(path, SiteSummary) else SiteSummary.load(path) for path in paths]
    if not found:
        raise ValueError("There is no summary: give the files that the sites wrote.")
    files = [f"number {i}" if isinstance(p, SiteSummary) else os.fspath(p) for i, p in enumerate(paths, 1)]
    of_files = list(zip(files, found, strict=True))
    keys = [(name, one.agreement_hash, one.content_hash, one.labels) for name, one in of_files]
    kept = [found[i] for i in check_written_once(keys)]
    first = kept[0]
    for name, one in of_files:
        said, expected = ((s.columns, s.curves, s.n_rows.shape[1]) for s in (one, first))
        if said != expected:
            raise ValueError(f"{name!r} has other columns or folds than {files[0]!r}: make it anew.")
    names = [label for one in kept for label in one.labels]
    if {type(label) for label in names} not in ({str}, {int}):
        raise TypeError("Task labels are numbers at one site and text at another: agree on one of them.")
    labels = np.array(names)
    order = np.argsort(labels, kind="stable")
    parts = zip(*((one.n_rows, one.mean, one.scatter) for one in kept), strict=True)
    n_rows, mean, scatter = (np.concatenate(part)[order] for part in parts)
    rows = _rows_of_folds(labels[order], n_rows, mean, scatter)
    n_features = len(first.columns) - 1 - sum(len(at) - 2 for at in first.curves.values())
    features = first.columns[:n_features]
    knots = {features.index(name): np.array(at, dtype=float) for name, at in first.curves.items()}
    return SummarisedTasks(labels[order], features, n_rows, rows, first.agreement, knots)


def _rows_of_folds(
    labels: np.ndarray, n_rows: np.ndarray, mean: np.ndarray, scatter: np.ndarray
) -> FoldedRows:
    parts, task, fold = [], [], []
    for t, k in np.ndindex(*n_rows.shape):
        parts.append(rows_with(float(n_rows[t, k]), mean[t, k], scatter[t, k]))
        n = len(parts[-1][1])
        task += [t] * n
        fold += [k] * n
    X, y, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    return FoldedRows(X, y, weights, labels[task], np.array(fold))
