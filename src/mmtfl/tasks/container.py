"""`Tasks`, the container of several tasks that have rows of their own and the same features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mmtfl.tasks.checks import (
    check_design,
    check_finite_target,
    check_target,
    check_task_labels,
)
from mmtfl.tasks.converters import group_checked_rows, observe_checked_rows, read_frame, stack_list
from mmtfl.tasks.grouping import (
    by_observation,
    group_rows,
    observation_task_of,
    take_rows,
)

if TYPE_CHECKING:
    from mmtfl.tasks.curve_basis import CurveBasis
    from mmtfl.tasks.stored import StoredTasks
    from mmtfl.tasks.summaries import SummarisedTasks

Columns = Sequence[str] | None


class TaskView(NamedTuple):
    """One task: its label, rows, target and weights."""

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
    absent : ndarray of bool of shape (n_tasks, n_features), optional
        Features that a task does not have; X is zero there.
    known : ndarray of shape (n_samples,), optional
        Known part of each observation's linear predictor: the ``offset`` of `fit`.
    groups : ndarray of int of shape (n_samples,), optional
        Numbers of groups of observations that no split may separate.
    curves : CurveBasis, optional
        What the last columns of X are made by, where the first ones have curves.

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
    absent: np.ndarray | None = None
    known: np.ndarray | None = None
    groups: np.ndarray | None = None
    curves: CurveBasis | None = None

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
    def n_lines(self) -> int:
        """Number of features without the columns of their curves."""
        return self.n_features if self.curves is None else self.curves.n_features

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
        return observation_task_of(self.offsets)

    @cached_property
    def is_complete(self) -> bool:
        """Whether every task observes every row of one shared X, in order."""
        n_rows = self.X.shape[0]
        if self.rows is None or not (self.sizes == n_rows).all():
            return False
        return bool((self.rows.reshape(self.n_tasks, n_rows) == np.arange(n_rows)).all())

    def __repr__(self) -> str:
        sizes = f"n_tasks={self.n_tasks}, n_samples={self.n_samples}, n_features={self.n_features}"
        return f"Tasks({sizes}{', shared X' if self.rows is not None else ''})"

    def __len__(self) -> int:
        return self.n_tasks

    def __iter__(self) -> Iterator[TaskView]:
        yield from map(self.task, range(self.n_tasks))

    def task(self, t: int) -> TaskView:
        """View one task, by its position in ``labels``; X is a view of the data where storage allows it.

        Examples
        --------
        >>> from mmtfl import Tasks
        >>> view = Tasks.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], ["a", "b", "b"]).task(-1)
        >>> view.label, view.y
        ('b', array([2., 3.]))
        """
        if not -self.n_tasks <= t < self.n_tasks:
            raise IndexError(f"There is no task {t}: positions go from 0 to {self.n_tasks - 1}.")
        t = t % self.n_tasks
        own = slice(int(self.offsets[t]), int(self.offsets[t + 1]))
        X = take_rows(self.X, own if self.rows is None else self.rows[own])
        weights = None if self.weights is None else self.weights[own]
        return TaskView(self.labels[t].item(), X, self.y[own], weights)

    # -- from other shapes -------------------------------------------------------------------------------

    @classmethod
    def from_rows(
        cls, X: Any, y: Any, task: Any = None, sample_weight: Any = None, *, feature_names: Columns = None
    ) -> Tasks:
        """Group stacked rows by their task label.

        Tasks are in sorted order of their labels, rows of a task in the order given. X is not copied if its
        rows are in that order already.

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

        Examples
        --------
        >>> from mmtfl import Tasks
        >>> tasks = Tasks.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], [7, 3, 7])
        >>> tasks.labels, tasks.sizes
        (array([3, 7]), array([1, 2]))
        """
        X, names = check_design(X, feature_names=feature_names)
        labels = None if task is None else check_task_labels(task, X.shape[0])
        return cls(*group_checked_rows(X, y, labels, sample_weight, names))

    @classmethod
    def from_list(cls, pairs: Iterable[tuple[Any, Any]], *, labels: Any = None) -> Tasks:
        """Stack a list of ``(X, y)``, one pair per task, for `from_rows`.

        Parameters
        ----------
        pairs : sequence of (X, y)
            One pair per task, all dense or all sparse, with the same columns.
        labels : array-like of shape (n_tasks,), optional
            Task labels, all different; by default 0, 1, 2, ...

        Examples
        --------
        >>> from mmtfl import Tasks
        >>> tasks = Tasks.from_list([([[1.0]], [1]), ([[2.0], [3.0]], [2, 3])], labels=["a", "z"])
        >>> tasks.labels.tolist(), tasks.offsets.tolist()
        (['a', 'z'], [0, 1, 3])
        """
        return cls.from_rows(*stack_list(pairs, labels))

    @classmethod
    def from_shared(
        cls, X: Any, Y: Any, sample_weight: Any = None, *, labels: Any = None, feature_names: Columns = None
    ) -> Tasks:
        """Take one X with a column of Y per task; NaN in Y means that the target was not observed.

        Parameters
        ----------
        X : array-like, CSR or CSC matrix, or frame of shape (n_rows, n_features)
            The rows, held once for all tasks.
        Y : array-like or frame of shape (n_rows, n_tasks)
            Targets.
        sample_weight : array-like of shape (n_rows,), optional
            Weights of the rows.
        labels : array-like of shape (n_tasks,), optional
            Task labels, all different; by default the columns of a frame, or 0, 1, 2, ...
        feature_names : sequence of str, optional
            Names of the columns; by default those of a frame.

        Examples
        --------
        >>> import numpy as np
        >>> from mmtfl import Tasks
        >>> tasks = Tasks.from_shared([[1.0], [2.0]], [[1.0, 2.0], [3.0, np.nan]])
        >>> tasks.rows.tolist(), tasks.y.tolist()
        ([0, 1, 0], [1.0, 3.0, 2.0])
        """
        X, names = check_design(X, feature_names=feature_names)
        return cls(*observe_checked_rows(X, Y, labels, sample_weight, names))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        task: str | None = None,
        target: str | Sequence[str],
        features: Columns = None,
        weight: str | None = None,
    ) -> Tasks:
        """Read a frame, as by `from_rows`, or as by `from_shared` if ``target`` is a list.

        Parameters
        ----------
        frame : pandas, polars or pyarrow frame
            One row per observation, or per shared row.
        task : str, optional
            The column of task labels. None: one task, or one per target.
        target : str or list of str
            The target column; or one column per task, where a missing value means not observed.
        features : list of str, optional
            The feature columns; by default all others.
        weight : str, optional
            The column of sample weights.

        Examples
        --------
        >>> import pandas as pd
        >>> from mmtfl import Tasks
        >>> frame = pd.DataFrame({"site": ["b", "a"], "age": [40, 50], "dose": [1.0, 2.0], "y": [0.1, 0.2]})
        >>> tasks = Tasks.from_frame(frame, task="site", target="y")
        >>> tasks.feature_names, tasks.labels.tolist()
        (('age', 'dose'), ['a', 'b'])
        """
        X, y, labels, weights = read_frame(frame, task, target, features, weight)
        if isinstance(target, str | int):
            return cls.from_rows(X, y, labels, weights)
        return cls.from_shared(X, y, weights)

    @classmethod
    def from_parquet(
        cls,
        path: Any,
        *,
        task: str,
        target: str,
        features: Columns = None,
        weight: str | None = None,
        memory_limit: str | int | None = None,
    ) -> StoredTasks:
        """Open parquet files whose rows stay on disk: a fit reads them where and when it needs them.

        Only the column of labels (and of weights) is read here. ``model.fit(stored)`` then reads some tasks
        at a time, on the workers of a ``DaskEngine`` or in this process. For the squared loss, a task with
        more than d + 2 rows is held as d + 2 rows with the same moments. The StoredTasks returned have
        ``labels``, ``sizes`` and ``feature_names``, and ``load()`` reads all rows into memory.

        Parameters
        ----------
        path : path-like
            A parquet file, or a folder of them, which may be partitioned by task (``site=Bern``). Workers on
            other machines need to see it under the same name.
        task : str
            The column of task labels, or the key in the names of the folders.
        target : str
            The target column.
        features, weight
            As in `from_frame`.
        memory_limit : str or int, optional
            Memory that a fit in this process may take, such as "2GB". Tasks that do not fit into it together
            are read again in every pass.

        Examples
        --------
        >>> import os, tempfile
        >>> import pandas as pd
        >>> from mmtfl import Tasks
        >>> frame = pd.DataFrame({"site": ["b", "a", "b"], "age": [40, 50, 60], "y": [0.1, 0.2, 0.3]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     frame.to_parquet(os.path.join(folder, "visits.parquet"))
        ...     Tasks.from_parquet(folder, task="site", target="y")
        StoredTasks(n_tasks=2, n_samples=3, n_features=1, in 1 piece)
        """
        from mmtfl.tasks.stored import open_parquet

        return open_parquet(path, task, target, features, weight, memory_limit)

    @classmethod
    def from_dask(
        cls,
        frame: Any,
        *,
        task: str,
        target: str,
        features: Columns = None,
        weight: str | None = None,
        memory_limit: str | int | None = None,
    ) -> StoredTasks:
        """Open a Dask DataFrame whose partitions are computed where and when a fit needs them.

        Labels (and weights) are counted here, by whatever scheduler Dask uses. In a fit every shard computes
        the partitions that hold its tasks, one at a time: sort the frame by task to make them few.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            One row per observation, not persisted: a shard computes its partitions from their source.
        task, target, features, weight, memory_limit
            As in `from_parquet`.

        Examples
        --------
        >>> import dask.dataframe as dd
        >>> import pandas as pd
        >>> from mmtfl import Tasks
        >>> frame = pd.DataFrame({"site": ["b", "a", "b"], "age": [40, 50, 60], "y": [0.1, 0.2, 0.3]})
        >>> Tasks.from_dask(dd.from_pandas(frame, npartitions=2), task="site", target="y")
        StoredTasks(n_tasks=2, n_samples=3, n_features=1, in 2 pieces)
        """
        from mmtfl.tasks.stored import open_dask

        return open_dask(frame, task, target, features, weight, memory_limit)

    @classmethod
    def from_summaries(cls, paths: Iterable[Any]) -> SummarisedTasks:
        """Open summaries of sites that keep their rows, as `mmtfl summarise` writes them.

        They hold numbers of rows, means and scatter by task and fold, which is all that the squared loss
        sees: ``model.fit(summarised)`` gives what it would give on the rows of all sites. A search uses the
        folds that the sites agreed on. See the page "Sites that keep their rows" of the documentation.

        Parameters
        ----------
        paths : iterable of path-like
            The files, one per site, all made under one agreement.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from mmtfl import MMTFLRegressor, Tasks
        >>> from mmtfl.tasks.summaries import SiteSummary
        >>> rng, fold, agreed = np.random.default_rng(0), np.arange(60) % 3, {"least_rows": 10}
        >>> X, site = rng.normal(size=(120, 2)), np.repeat(["Aker", "Bern"], 60)
        >>> y = X @ [1.0, 2.0] + 0.1 * rng.normal(size=120)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = [os.path.join(folder, f"{name}.summary") for name in ("Aker", "Bern")]
        ...     for name, file in zip(("Aker", "Bern"), files):
        ...         own = site == name
        ...         SiteSummary.of_rows(Tasks.from_rows(X[own], y[own], site[own]), fold, agreed).save(file)
        ...     summarised = Tasks.from_summaries(files)
        >>> summarised
        SummarisedTasks(n_tasks=2, n_samples=120, n_features=2, n_folds=3)
        >>> model, same = MMTFLRegressor(alpha=0.1), MMTFLRegressor(alpha=0.1)
        >>> bool(np.allclose(model.fit(summarised).coef_, same.fit(X, y, task=site).coef_, atol=1e-8))
        True
        """
        from mmtfl.tasks.summaries import open_summaries

        return open_summaries(paths)

    # -- changed copies ----------------------------------------------------------------------------------

    def select(self, index: Any) -> Tasks:
        """Keep some of the observations, and the tasks that still have any; a shared X is not copied.

        Parameters
        ----------
        index : array-like of int, or of bool of shape (n_samples,)
            Positions in the grouped order. They may repeat; the order given is kept within each task.

        Examples
        --------
        >>> from mmtfl import Tasks
        >>> tasks = Tasks.from_rows([[1.0], [2.0], [3.0]], [1, 2, 3], ["a", "b", "c"])
        >>> tasks.select([2, 0]).labels.tolist()
        ['a', 'c']
        """
        index = np.arange(self.n_samples)[np.ravel(index)] if np.size(index) else np.empty(0)
        if not index.size:
            raise ValueError("index is empty: select at least one observation.")
        groups = group_rows(self.observation_task[index])
        if groups.order is not None:
            index = index[groups.order]
        return replace(
            self,
            X=take_rows(self.X, index) if self.rows is None else self.X,
            offsets=groups.offsets,
            labels=self.labels[groups.labels],
            absent=None if self.absent is None else self.absent[groups.labels],
            **by_observation(self, index),
        )

    def with_y(self, y: Any) -> Tasks:
        """Replace the targets, given in the grouped order; the rest is shared, not copied.

        Examples
        --------
        >>> from mmtfl import Tasks
        >>> Tasks.from_rows([[1.0], [2.0]], [1, 2]).with_y([3, 4]).y
        array([3., 4.])
        """
        y = check_target(y, self.n_samples, of="the container")
        check_finite_target(y, observation_task=self.observation_task, labels=self.labels)
        return replace(self, y=y)

    def to_rows(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Give stacked rows (X, y, task): one of each per observation, in the grouped order.

        Examples
        --------
        >>> from mmtfl import Tasks
        >>> X, y, task = Tasks.from_shared([[1.0]], [[5, 6]], labels=["a", "b"]).to_rows()
        >>> X.ravel(), y, task
        (array([1., 1.]), array([5., 6.]), array(['a', 'b'], dtype='<U1'))
        """
        X = self.X if self.rows is None else take_rows(self.X, self.rows)
        return X, self.y, self.labels[self.observation_task]
