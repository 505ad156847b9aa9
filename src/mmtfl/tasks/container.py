"""The one container: several tasks, each with its own rows, over the same features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from mmtfl.errors import require
from mmtfl.tasks.assembly import (
    check_distinct_labels,
    check_pairs,
    check_shared_target,
    observed_targets,
    observed_weights,
    stack_designs,
    stack_targets,
    stack_weights,
)
from mmtfl.tasks.checks import check_design, check_length, check_target, check_task_weights, check_weights
from mmtfl.tasks.finite_values import check_finite_design, check_finite_target
from mmtfl.tasks.frames import feature_columns, open_frame, pick_columns
from mmtfl.tasks.grouping import group_index, group_rows, offsets_of, split_rows, take_rows
from mmtfl.tasks.labels import check_task_labels
from mmtfl.tasks.wording import show

if TYPE_CHECKING:
    from mmtfl.tasks.stored import StoredTasks

__all__ = ["TaskView", "Tasks"]

FRAME_MAKERS = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


class TaskView(NamedTuple):
    """One task: its label, rows, target and weights.

    Examples
    --------
    >>> from mmtfl.tasks import Tasks
    >>> view = Tasks.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], ["a", "b", "b"]).task(1)
    >>> view.label, view.y
    ('b', array([2., 3.]))
    """

    label: str | int
    X: Any
    y: np.ndarray
    weights: np.ndarray | None


@dataclass(frozen=True, eq=False, repr=False)
class Tasks:
    """Observations of several tasks, grouped by task.

    Make one with `from_rows`, `from_list`, `from_shared` or `from_frame`, which check the data; the plain
    constructor checks nothing. The arrays may share memory with what was passed in, and are never written to.

    Parameters
    ----------
    X : ndarray, CSR or CSC matrix of shape (n_rows, n_features)
        Rows of float32 or float64, in any memory order.
    y : ndarray of shape (n_samples,)
        Targets, grouped by task.
    offsets : ndarray of shape (n_tasks + 1,)
        The observations of task t are ``offsets[t]:offsets[t + 1]``.
    labels : ndarray of shape (n_tasks,)
        Task labels, strings or integers.
    weights : ndarray of shape (n_samples,), optional
        Sample weights.
    rows : ndarray of shape (n_samples,), optional
        The row of X behind each observation, when tasks share X. None: the rows are the observations.
    feature_names : tuple of str, optional
        Names of the columns of X.

    Examples
    --------
    >>> from mmtfl.tasks import Tasks
    >>> tasks = Tasks.from_rows([[1.0], [2.0], [3.0]], [10, 20, 30], ["b", "a", "b"])
    >>> tasks
    Tasks(n_tasks=2, n_samples=3, n_features=1)
    >>> [(view.label, view.y) for view in tasks]
    [('a', array([20.])), ('b', array([10., 30.]))]
    """

    X: Any
    y: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None = None
    rows: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None

    # -- what it is --------------------------------------------------------------------------------------

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.labels)

    @property
    def n_features(self) -> int:
        """Number of features, the same for all tasks."""
        return int(self.X.shape[1])

    @property
    def n_samples(self) -> int:
        """Number of observations, over all tasks."""
        return len(self.y)

    @property
    def sizes(self) -> np.ndarray:
        """Number of observations of each task."""
        return np.diff(self.offsets)

    @cached_property
    def observation_task(self) -> np.ndarray:
        """Task of each observation, as a position in ``labels``."""
        return group_index(self.offsets)

    @property
    def is_shared(self) -> bool:
        """Whether several targets are observed on the rows of one X."""
        return self.rows is not None

    @cached_property
    def is_complete(self) -> bool:
        """Whether every task observes every row of one shared X, in order."""
        n_rows = self.X.shape[0]
        if self.rows is None or not (self.sizes == n_rows).all():
            return False
        return bool((self.rows.reshape(self.n_tasks, n_rows) == np.arange(n_rows)).all())

    def __repr__(self) -> str:
        sizes = f"n_tasks={self.n_tasks}, n_samples={self.n_samples}, n_features={self.n_features}"
        return f"Tasks({sizes}{', shared X' if self.is_shared else ''})"

    def __len__(self) -> int:
        return self.n_tasks

    def __iter__(self) -> Iterator[TaskView]:
        if self.rows is not None:
            yield from map(self.task, range(self.n_tasks))
            return
        for t, X in enumerate(split_rows(self.X, self.offsets)):
            yield self._view(t, X)

    def task(self, t: int) -> TaskView:
        """Look at one task.

        Parameters
        ----------
        t : int
            Position of the task in ``labels``; negative positions count from the end.

        Returns
        -------
        view : TaskView
            Label, X, y and weights; X is a view where storage allows it.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> Tasks.from_rows([[1.0], [2.0]], [1, 2], ["a", "b"]).task(-1).label
        'b'
        """
        if not -self.n_tasks <= t < self.n_tasks:
            raise IndexError(f"There is no task {t}: positions go from 0 to {self.n_tasks - 1}.")
        t = t % self.n_tasks
        part = self._part(t)
        return self._view(t, take_rows(self.X, part if self.rows is None else self.rows[part]))

    def _part(self, t: int) -> slice:
        return slice(int(self.offsets[t]), int(self.offsets[t + 1]))

    def _view(self, t: int, X: Any) -> TaskView:
        part = self._part(t)
        weights = None if self.weights is None else self.weights[part]
        return TaskView(self.labels[t].item(), X, self.y[part], weights)

    # -- from other shapes -------------------------------------------------------------------------------

    @classmethod
    def from_rows(
        cls,
        X: Any,
        y: Any,
        task: Any = None,
        sample_weight: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> Tasks:
        """Group stacked rows by their task label; X is not copied if they already are in sorted order.

        Parameters
        ----------
        X : array-like, CSR or CSC matrix, or frame of shape (n_samples, n_features)
            The rows of all tasks.
        y : array-like of shape (n_samples,)
            Targets.
        task : array-like of shape (n_samples,), optional
            Label of each row's task, strings or integers. None: one task, labelled 0.
        sample_weight : array-like of shape (n_samples,), optional
            Weights, not negative, of positive sum in every task.
        feature_names : sequence of str, optional
            Names of the columns; by default those of a frame.

        Returns
        -------
        tasks : Tasks
            Tasks in sorted order of their labels; rows of a task in the order given.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> tasks = Tasks.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], [7, 3, 7])
        >>> tasks.labels, tasks.sizes
        (array([3, 7]), array([1, 2]))
        """
        X, names = check_design(X, feature_names=feature_names)
        n_rows = X.shape[0]
        y = check_target(y, n_rows)
        groups = group_rows(
            np.zeros(n_rows, dtype=np.int64) if task is None else check_task_labels(task, n_rows)
        )
        who: dict[str, Any] = {"task_index": groups.task_index, "labels": groups.labels}
        check_finite_design(X, **who, feature_names=names)
        check_finite_target(y, **who)
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, n_rows)
            check_task_weights(weights, **who)
        if groups.order is not None:
            X, y = take_rows(X, groups.order), y[groups.order]
            weights = None if weights is None else weights[groups.order]
        return cls(X, y, groups.offsets, groups.labels, weights, None, names)

    @classmethod
    def from_list(
        cls,
        pairs: Iterable[tuple[Any, Any]],
        *,
        labels: Any = None,
        sample_weight: Iterable[Any] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Tasks:
        """Stack a list of ``(X, y)``, one pair per task.

        Parameters
        ----------
        pairs : sequence of (X, y)
            One pair per task, all dense or all sparse, with the same columns.
        labels : array-like of shape (n_tasks,), optional
            Task labels, all different; by default 0, 1, 2, ...
        sample_weight : sequence of array-like, optional
            Weights of each task's rows.
        feature_names : sequence of str, optional
            Names of the columns; by default those of the frames.

        Returns
        -------
        tasks : Tasks
            Tasks in the order of the list.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> tasks = Tasks.from_list([([[1.0]], [1]), ([[2.0], [3.0]], [2, 3])], labels=["z", "a"])
        >>> tasks.labels.tolist(), tasks.offsets.tolist()
        (['z', 'a'], [0, 1, 3])
        """
        pairs = check_pairs(pairs)
        labels = check_distinct_labels(range(len(pairs)) if labels is None else labels, len(pairs))
        shown = [show(labels, t) for t in range(len(pairs))]
        X, sizes, names = stack_designs([X for X, _ in pairs], shown, feature_names)
        y = stack_targets([y for _, y in pairs], sizes, shown)
        weights = None if sample_weight is None else stack_weights(sample_weight, sizes, shown)
        offsets = offsets_of(sizes)
        who: dict[str, Any] = {"task_index": group_index(offsets), "labels": labels}
        check_finite_design(X, **who, feature_names=names, offsets=offsets)
        check_finite_target(y, **who, offsets=offsets)
        return cls(X, y, offsets, labels, weights, None, names)

    @classmethod
    def from_shared(
        cls,
        X: Any,
        Y: Any,
        sample_weight: Any = None,
        *,
        labels: Any = None,
        feature_names: Sequence[str] | None = None,
    ) -> Tasks:
        """Take one X with a column of Y per task; NaN in Y means that the target was not observed.

        Parameters
        ----------
        X : array-like, CSR or CSC matrix, or frame of shape (n_rows, n_features)
            The rows, held once for all tasks.
        Y : array-like or frame of shape (n_rows, n_tasks)
            Targets.
        sample_weight : array-like of shape (n_rows,) or (n_rows, n_tasks), optional
            Weights of the rows, or of the single observations.
        labels : array-like of shape (n_tasks,), optional
            Task labels, all different; by default the columns of a frame, or 0, 1, 2, ...
        feature_names : sequence of str, optional
            Names of the columns; by default those of a frame.

        Returns
        -------
        tasks : Tasks
            Tasks in the order of the columns of Y.

        Examples
        --------
        >>> import numpy as np
        >>> from mmtfl.tasks import Tasks
        >>> tasks = Tasks.from_shared([[1.0], [2.0]], [[1.0, 2.0], [3.0, np.nan]])
        >>> tasks.rows.tolist(), tasks.y.tolist()
        ([0, 1, 0], [1.0, 3.0, 2.0])
        """
        X, names = check_design(X, feature_names=feature_names)
        Y, columns = check_shared_target(Y, X.shape[0])
        if labels is None:
            labels = range(Y.shape[1]) if columns is None else columns
        labels = check_distinct_labels(labels, Y.shape[1])
        check_finite_design(X, feature_names=names)
        observed = observed_targets(Y, labels)
        rows = np.nonzero(observed)[1]
        tasks = cls(X, Y.T[observed], offsets_of(observed.sum(axis=1)), labels, None, rows, names)
        return (
            tasks if sample_weight is None else tasks.with_weights(observed_weights(sample_weight, observed))
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        target: str | Sequence[str],
        features: Sequence[str] | None = None,
        weight: str | None = None,
    ) -> Tasks:
        """Read a pandas, polars or pyarrow frame.

        Parameters
        ----------
        frame : frame
            One row per observation, or per shared row.
        task : str, optional
            The column of task labels. None: one task, or one per target.
        target : str or list of str
            The target column; or one column per task, where a missing value means not observed.
        features : list of str, optional
            The feature columns; by default all others.
        weight : str, optional
            The column of sample weights.

        Returns
        -------
        tasks : Tasks
            As by `from_rows`, or by `from_shared` when ``target`` is a list.

        Examples
        --------
        >>> import pandas as pd
        >>> from mmtfl.tasks import Tasks
        >>> frame = pd.DataFrame({"site": ["b", "a"], "age": [40, 50], "dose": [1.0, 2.0], "y": [0.1, 0.2]})
        >>> tasks = Tasks.from_frame(frame, task="site", target="y")
        >>> tasks.feature_names, tasks.labels.tolist()
        (('age', 'dose'), ['a', 'b'])
        """
        table = open_frame(frame, "frame")
        if table is None:
            raise TypeError(
                f"frame must be a pandas, polars or pyarrow table in memory, not {type(frame).__name__}: "
                "collect a lazy frame first, or use Tasks.from_rows for arrays."
            )
        single = isinstance(target, str | int)  # pandas columns may be called 0, 1, ...
        if task is not None and not single:
            raise ValueError(
                f"Both a task column ({task!r}) and a list of targets were given, but a list means one task "
                "per target: pass task=None, or a single target."
            )
        targets: list[Any] = [target] if single else list(target)
        special = [*targets, *(name for name in (task, weight) if name is not None)]
        X = pick_columns(table, feature_columns(table.columns, special, features))
        column = {name: table.get_column(name).to_native() for name in special}
        w = None if weight is None else column[weight]
        if single:
            return cls.from_rows(X, column[targets[0]], None if task is None else column[task], w)
        return cls.from_shared(X, pick_columns(table, targets), w)

    @classmethod
    def from_parquet(
        cls,
        path: Any,
        *,
        task: str,
        target: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        memory_limit: str | int | None = None,
    ) -> StoredTasks:
        """Look at parquet files whose rows stay on disk: a fit reads them where and when it needs them.

        Only the column of labels (and of weights) is read here. ``model.fit(stored)`` then reads some tasks
        at a time, on the workers of a ``DaskEngine`` or in this process. For the squared loss, a task with
        more than d + 2 rows is held as d + 2 rows with the same moments, so its length does not matter.

        Parameters
        ----------
        path : path-like
            A parquet file, or a folder of them: partitioned by task (folders such as ``site=Bern``), or any
            other. Workers on other machines need to see it under the same name.
        task : str
            The column of task labels, or the name in the folders'.
        target : str
            The target column.
        features : list of str, optional
            The feature columns; by default all others.
        weight : str, optional
            The column of sample weights.
        memory_limit : str or int, optional
            What a fit in this process may take in all, such as "2GB". Tasks that do not fit beside each
            other are read again in every pass.

        Returns
        -------
        stored : StoredTasks
            With ``labels``, ``sizes``, ``feature_names``, and ``load()`` for those who want all rows.

        Examples
        --------
        >>> import os, tempfile
        >>> import pandas as pd
        >>> from mmtfl.tasks import Tasks
        >>> frame = pd.DataFrame({"site": ["b", "a", "b"], "age": [40, 50, 60], "y": [0.1, 0.2, 0.3]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     frame.to_parquet(os.path.join(folder, "visits.parquet"))
        ...     Tasks.from_parquet(folder, task="site", target="y")
        StoredTasks(n_tasks=2, n_samples=3, n_features=1, in 1 piece)
        """
        from mmtfl.tasks.parquet import open_parquet

        return open_parquet(
            path, task=task, target=target, features=features, weight=weight, memory_limit=memory_limit
        )

    @classmethod
    def from_dask(
        cls,
        frame: Any,
        *,
        task: str,
        target: str,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        memory_limit: str | int | None = None,
    ) -> StoredTasks:
        """Look at a Dask DataFrame whose partitions are made where and when a fit needs them.

        Labels (and weights) are counted here, by whatever scheduler Dask uses. In a fit every shard makes
        the partitions that hold its tasks, one at a time; a frame sorted by task makes that few.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            One row per observation, not persisted: a shard makes its partitions from their source.
        task, target, features, weight, memory_limit
            As in `from_parquet`.

        Returns
        -------
        stored : StoredTasks
            As from `from_parquet`.

        Examples
        --------
        >>> import dask.dataframe as dd
        >>> import pandas as pd
        >>> from mmtfl.tasks import Tasks
        >>> frame = pd.DataFrame({"site": ["b", "a", "b"], "age": [40, 50, 60], "y": [0.1, 0.2, 0.3]})
        >>> Tasks.from_dask(dd.from_pandas(frame, npartitions=2), task="site", target="y")
        StoredTasks(n_tasks=2, n_samples=3, n_features=1, in 2 pieces)
        """
        from mmtfl.tasks.dask_frames import open_dask

        return open_dask(
            frame, task=task, target=target, features=features, weight=weight, memory_limit=memory_limit
        )

    # -- changed copies ----------------------------------------------------------------------------------

    def select(self, index: Any) -> Tasks:
        """Keep some of the observations.

        Parameters
        ----------
        index : array-like of int, or of bool of shape (n_samples,)
            Positions in the grouped order. They may repeat, and come in any order: the order within a
            task is kept.

        Returns
        -------
        tasks : Tasks
            The tasks that still have observations, even if all of weight zero. A shared X is kept
            whole, without a copy.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> tasks = Tasks.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], ["a", "b", "c"])
        >>> tasks.select([2, 0]).labels.tolist()
        ['a', 'c']
        """
        index = _check_index(index, self.n_samples)
        groups = group_rows(self.observation_task[index])
        if groups.order is not None:
            index = index[groups.order]
        return replace(
            self,
            X=take_rows(self.X, index) if self.rows is None else self.X,
            y=self.y[index],
            offsets=groups.offsets,
            labels=self.labels[groups.labels],
            weights=None if self.weights is None else self.weights[index],
            rows=None if self.rows is None else self.rows[index],
        )

    def with_y(self, y: Any) -> Tasks:
        """Replace the targets.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Targets in the grouped order.

        Returns
        -------
        tasks : Tasks
            Sharing all else.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> Tasks.from_rows([[1.0], [2.0]], [1, 2]).with_y([3, 4]).y
        array([3., 4.])
        """
        y = check_target(y, self.n_samples, of="the container")
        check_finite_target(y, task_index=self.observation_task, labels=self.labels)
        return replace(self, y=y)

    def with_weights(self, weights: Any) -> Tasks:
        """Replace the sample weights.

        Parameters
        ----------
        weights : array-like of shape (n_samples,), or None
            Weights in the grouped order; None for no weights.

        Returns
        -------
        tasks : Tasks
            Sharing all else.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> Tasks.from_rows([[1.0], [2.0]], [1, 2]).with_weights([3, 4]).weights
        array([3., 4.])
        """
        if weights is not None:
            weights = check_weights(weights, self.n_samples, of="the container")
            check_task_weights(weights, task_index=self.observation_task, labels=self.labels)
        return replace(self, weights=weights)

    # -- back to other shapes ----------------------------------------------------------------------------

    def to_rows(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Give stacked rows: one row of X, target and label per observation, in the grouped order.

        Returns
        -------
        X, y, task : ndarray or sparse matrix, ndarray, ndarray
            As `from_rows` takes them.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> X, y, task = Tasks.from_shared([[1.0]], [[5, 6]], labels=["a", "b"]).to_rows()
        >>> X.ravel(), y, task
        (array([1., 1.]), array([5., 6.]), array(['a', 'b'], dtype='<U1'))
        """
        X = self.X if self.rows is None else take_rows(self.X, self.rows)
        return X, self.y, self.labels[self.observation_task]

    def to_list(self) -> list[tuple[Any, np.ndarray]]:
        """Give one pair ``(X, y)`` per task.

        Returns
        -------
        pairs : list of (X, y)
            As `from_list` takes them; X is a view where storage allows it.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> Tasks.from_rows([[1.0], [2.0]], [1, 2], ["a", "b"]).to_list()
        [(array([[1.]]), array([1.])), (array([[2.]]), array([2.]))]
        """
        return [(view.X, view.y) for view in self]

    def to_shared(self) -> tuple[Any, np.ndarray]:
        """Give one X and a column of Y per task, NaN where a task does not observe a row.

        Returns
        -------
        X : ndarray or sparse matrix of shape (n_rows, n_features)
            The rows.
        Y : ndarray of shape (n_rows, n_tasks)
            Targets.

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> Tasks.from_rows([[1.0], [2.0]], [1, 2], ["a", "b"]).to_shared()[1]
        array([[ 1., nan],
               [nan,  2.]])
        """
        rows = np.arange(self.n_samples) if self.rows is None else self.rows
        Y = np.full((self.X.shape[0], self.n_tasks), np.nan)
        Y[rows, self.observation_task] = self.y
        if np.count_nonzero(~np.isnan(Y)) < self.n_samples:
            raise ValueError("A task observes a row of the shared X more than once: use to_rows instead.")
        return self.X, Y

    def to_frame(
        self, backend: str = "pandas", *, task: str = "task", target: str = "y", weight: str = "weight"
    ) -> Any:
        """Give a frame with one row per observation: task, features, target, and weight if there are any.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, default="pandas"
            The kind of frame.
        task, target, weight : str
            Names of the columns that are not features.

        Returns
        -------
        frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
            Sparse X comes out dense; features without names are called x0, x1, ...

        Examples
        --------
        >>> from mmtfl.tasks import Tasks
        >>> Tasks.from_rows([[1.0], [2.0]], [3, 4], ["a", "b"]).to_frame()
          task   x0    y
        0    a  1.0  3.0
        1    b  2.0  4.0
        """
        if backend not in FRAME_MAKERS:
            raise ValueError(f"backend must be one of {', '.join(FRAME_MAKERS)}, not {backend!r}.")
        X, y, labels = self.to_rows()
        X = X.toarray() if sparse.issparse(X) else X
        names = self.feature_names or tuple(f"x{j}" for j in range(self.n_features))
        special = [task, target, *([] if self.weights is None else [weight])]
        clash = [name for name in special if name in names or special.count(name) > 1]
        if clash:
            raise ValueError(
                f"Column name {clash[0]!r} would occur twice: pass other names for task, target, weight."
            )
        columns = {task: labels, **{name: X[:, j] for j, name in enumerate(names)}, target: y}
        if self.weights is not None:
            columns[weight] = self.weights
        module = require(backend, "frames" if backend == "pandas" else None)
        return getattr(module, FRAME_MAKERS[backend])(columns)


def _check_index(index: Any, n_samples: int) -> np.ndarray:
    index = np.asarray(index)
    if index.ndim != 1:
        raise ValueError(f"index must be 1-D, but has shape {index.shape}.")
    if index.dtype.kind == "b":
        check_length("index", len(index), n_samples, of="the container")
        index = np.flatnonzero(index)
    if index.size == 0:
        raise ValueError("index is empty: select at least one observation.")
    if index.dtype.kind not in "iu":
        raise TypeError(f"index must be integers or a boolean mask, but is of type {index.dtype}.")
    if index.min() < -n_samples or index.max() >= n_samples:
        raise IndexError(
            f"index reaches from {index.min()} to {index.max()}, but there are {n_samples} observations."
        )
    return np.where(index < 0, index + n_samples, index).astype(np.intp, copy=False)
