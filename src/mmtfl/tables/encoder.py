"""`TableEncoder`: the columns of a raw table as numbers, for the estimators and the command line alike."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import narwhals as nw
import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mmtfl.persistence.archive import expect, made_of
from mmtfl.tables.cells import Cells, as_levels, as_text, read_cells, read_like
from mmtfl.tables.column_code import (
    MISSING,
    OTHER,
    ColumnCode,
    all_missing,
    has_whole_numbers,
    medians_by_task,
    notes_of_columns,
    notes_of_left_out,
    says_id,
    why_left_out,
)
from mmtfl.tasks.frames import check_not_lazy, frame_backend, is_frame, make_frame, open_frame
from mmtfl.wording import abbreviate, count, suggest

_INDICATED = 0.05  # share of missing numbers from which an indicator joins
_FEW_LEVELS = 10  # of a small table: they are kept even if none has enough rows
_FILLS = 100_000  # medians of tasks and columns that a model keeps


class TableEncoder(TransformerMixin, BaseEstimator):
    r"""Turn the columns of a raw table into numbers: missing cells, words, dates, identifiers.

    Numbers stay as they are. Missing ones are filled with the median of their task (of all rows where the
    task has none), and a feature ``age is missing`` joins where more than 5 % are missing. Words become one
    feature for each level but the reference; missing words are the level "missing", levels with fewer than
    ten rows or beyond the 50 most frequent join as "other". Dates become days since the first one, and times
    such as 12:15 hours. Columns with one value, those that name the rows (text, different in nearly every
    row; whole numbers that are all different and fill their range, or are called ``rownames``), and names of
    people, are left out. Whole numbers that are called identifiers, such as ``ward_id``, are levels.
    Notes say what was done.

    Parameters
    ----------
    task_column : str, optional
        Column of task labels. It is handed through as it is, for an estimator with this ``task_column``.
    categories : sequence of str
        Columns whose values are levels, even if they look like numbers.
    keep : sequence of str
        Columns that are features even if they look like names of rows or people.
    reference : dict of str to str, optional
        The level of a column that the others are compared with; by default the most frequent one.
    missing : sequence of str or numbers
        Codes of missing cells, such as -999, besides empty cells, ``.``, ``-``, ``?``, ``n/a``, ``NULL``.
    impute : {"median", "error"}, default="median"
        Whether missing numbers are filled, or refused.
    absent_features : {"fill", "allow"}, default="fill"
        Whether a column that is missing in all rows of a task is filled too, or stays NaN there, for
        estimators with ``absent_features="allow"``.
    least_rows : int, default=10
        Levels with fewer rows join as "other".
    most_levels : int, default=50
        Levels beyond so many join as "other".

    Attributes
    ----------
    columns_ : list of str
        The column that each feature comes from.
    groups_ : list of list of str
        Features of one column of words, which a model may keep or drop together.
    left_out_ : dict of str to str
        Columns that are left out, and why.
    notes_ : list of str
        What was done, in sentences.
    n_features_in_ : int
        Number of columns seen by `fit`.
    feature_names_in_ : ndarray of str
        Their names, if X was a frame.

    Examples
    --------
    >>> import pandas as pd
    >>> from mmtfl import TableEncoder
    >>> table = pd.DataFrame({
    ...     "patient": [f"P{i:03}" for i in range(40)],
    ...     "age": ["61", "n/a", "57", "70"] * 10,
    ...     "ward": ["medicine", "surgery ", "medicine", None] * 10,
    ...     "admitted": ["2024-05-01", "2024-05-03", "2024-05-11", "2024-05-02"] * 10,
    ... })
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.transform(table).head(3)
        age  age is missing  ward=missing  ward=surgery  admitted
    0  61.0             0.0           0.0           0.0       0.0
    1  61.0             1.0           0.0           1.0       2.0
    2  57.0             0.0           0.0           0.0      10.0
    >>> encoder.columns_
    ['age', 'age', 'ward', 'ward', 'admitted']
    >>> print(*encoder.notes_, sep="\n")
    Left out: 'patient' (text, different in nearly every row).
    Missing numbers are filled with the median: 'age' (10 cells).
    Missing words are the level 'missing': 'ward' (10 cells).
    Dates are days since the first one: 'admitted' since 2024-05-01.
    """

    # metadata routing: labels go wherever rows go, without set_*_request
    __metadata_request__fit: ClassVar = {"task": True}
    __metadata_request__transform: ClassVar = {"task": True}

    def __init__(
        self,
        *,
        task_column: str | None = None,
        categories: Sequence[str] = (),
        keep: Sequence[str] = (),
        reference: Mapping[str, str] | None = None,
        missing: Sequence[Any] = (),
        impute: str = "median",
        absent_features: str = "fill",
        least_rows: int = 10,
        most_levels: int = 50,
    ):
        self.task_column, self.categories = task_column, categories
        self.keep, self.reference = keep, reference
        self.missing, self.impute, self.absent_features = missing, impute, absent_features
        self.least_rows, self.most_levels = least_rows, most_levels

    # -- learning --------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, task: Any = None) -> TableEncoder:
        """Learn how the columns become numbers.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            The table: pandas, polars or pyarrow.
        y : ignored
            For pipelines.
        task : array-like of shape (n_rows,), optional
            Task label of each row, for the medians of the tasks.

        Returns
        -------
        self : TableEncoder
            Fitted.
        """
        self._learn(X, task)
        return self

    def fit_transform(self, X: Any, y: Any = None, task: Any = None) -> Any:
        """Learn how the columns become numbers, and give them.

        Parameters
        ----------
        X, y, task
            As in `fit`.

        Returns
        -------
        X : frame or ndarray
            As `transform` gives it.
        """
        read, places = self._learn(X, task)
        return self._finish(X, self._encode(read, places, _n_rows(X)))

    def _learn(self, X: Any, task: Any) -> tuple[dict[str, Cells], np.ndarray | None]:
        """Learn the columns; returns those that are features as they were read, and the tasks of the rows."""
        self._check_parameters()
        columns = self._open(X, reset=True)
        if _n_rows(X) == 1:
            raise ValueError("The table has n_samples = 1: one row does not tell what a column holds.")
        labels = self._labels(X, task)
        self.tasks_: list[Any] = [] if labels is None else np.unique(labels).tolist()
        places = self._places(labels)
        self.columns_in_ = list(columns)
        self.left_out_: dict[str, str] = {}
        self.codes_: tuple[ColumnCode, ...] = ()
        read: dict[str, Cells] = {}
        codes = [as_text(code) for code in self.missing]
        for name, values in columns.items():
            cells = read_cells(values, codes, as_words=name in self.categories)
            if name not in self.keep and says_id(name) and has_whole_numbers(cells):
                cells = as_levels(cells)
            asked = {"is_asked_for": name in self.categories or name in self.keep}
            why = why_left_out(name, cells, places, least_rows=self.least_rows, **asked)
            code = self._code(name, cells, places) if why is None else None
            if code is not None and code.features:
                self.codes_, read[name] = (*self.codes_, code), cells
            else:
                self.left_out_[name] = why or f"no level has {self.least_rows} rows"
        self._check_features()
        for name in self.reference or {}:
            if name not in self.columns_in_:
                raise ValueError(f"reference: there is no column {name!r}{suggest(name, self.columns_in_)}")
        self.notes_ = [*notes_of_left_out(self.left_out_), *notes_of_columns(self.codes_, read)]
        return read, places

    def _code(self, name: str, cells: Cells, places: np.ndarray | None) -> ColumnCode:
        missing, numbers = cells.missing, cells.numbers
        if self.absent_features == "allow":
            missing &= ~all_missing(missing, places)
        if numbers is None:
            return self._code_of_words(name, cells, int(missing.sum()))
        self._check_missing(name, missing)
        if missing.any() and len(np.unique(numbers[~missing])) == 1:  # ticked or not
            return self._code_of_words(name, as_levels(cells), int(missing.sum()))
        first = float(np.nanmin(numbers)) if cells.kind == "date" else 0.0
        fills: tuple[float | None, ...] = ()
        if places is not None and (missing.any() or len(self.tasks_) * len(self.columns_in_) <= _FILLS):
            fills = medians_by_task(numbers - first, places, len(self.tasks_))
        fill, indicated = float(np.nanmedian(numbers - first)), bool(missing.mean() > _INDICATED)
        return ColumnCode(name, cells.kind, cells.style, first, fill, fills, indicated)

    def _check_missing(self, name: str, missing: np.ndarray) -> None:
        if missing.any() and self.impute == "error":
            raise ValueError(
                f"Column {name!r} has {count(int(missing.sum()), 'missing cell')}, the first in row "
                f"{missing.argmax() + 1}: fill them in, or use impute='median'."
            )

    def _code_of_words(self, name: str, cells: Cells, n_missing: int) -> ColumnCode:
        """The levels that have a feature: those with enough rows, and "other" if several have too few."""
        assert cells.codes is not None
        counts = dict(zip(cells.words, np.bincount(cells.codes[cells.codes >= 0]).tolist(), strict=True))
        if n_missing:
            counts[MISSING] = counts.get(MISSING, 0) + n_missing
        wanted = (self.reference or {}).get(name)
        if wanted is not None and as_text(wanted) not in counts:
            known = suggest(wanted, list(counts), "levels")
            raise ValueError(f"reference: column {name!r} has no level {wanted!r}{known}")
        by_size = sorted(counts, key=lambda level: -counts[level])
        reference = as_text(wanted) if wanted is not None else by_size[0]
        if wanted is None and cells.kind == "truth" and "False" in counts:
            reference = "False"
        often = [level for level in by_size if counts[level] >= self.least_rows][: self.most_levels]
        if not often and len(counts) <= _FEW_LEVELS:  # a small table
            often = by_size
        if not often and wanted is None:
            return ColumnCode(name, cells.kind, cells.style, reference=OTHER)  # all of them are other
        rare = [level for level in by_size if level not in often and level != reference]
        kept = {*often, *(rare if len(rare) == 1 else [OTHER] if rare else [])} - {reference}
        return ColumnCode(name, cells.kind, cells.style, levels=tuple(sorted(kept)), reference=reference)

    def _check_features(self) -> None:
        names = self.get_feature_names_out().tolist()
        if not names:
            why = ", ".join(f"{name!r} ({reason})" for name, reason in list(self.left_out_.items())[:6])
            raise ValueError(f"No column is left to predict from: {why}.")
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"Two features would be called {twice!r}: rename a column.")

    def _check_parameters(self) -> None:
        for name, allowed in (("impute", ("median", "error")), ("absent_features", ("fill", "allow"))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is unknown: use {' or '.join(allowed)}.")

    # -- encoding --------------------------------------------------------------------------------------------

    def transform(self, X: Any, task: Any = None) -> Any:
        """Give the columns as numbers.

        Parameters
        ----------
        X : frame or array-like of shape (n_rows, n_columns)
            The table; a frame may have other columns too, in any order.
        task : array-like of shape (n_rows,), optional
            Task label of each row: missing numbers are then filled with the median of the task.

        Returns
        -------
        X : frame or ndarray of shape (n_rows, n_features)
            Of the library that X is of.
        """
        return self.features(X, task)

    def features(self, X: Any, task: Any = None, *, used: Collection[str] | None = None) -> Any:
        """Give the columns as numbers, for a model that may not use all of them.

        Parameters
        ----------
        X, task
            As in `transform`.
        used : collection of str, optional
            The features that the model uses: a column without any of them may be absent, and is then zero.

        Returns
        -------
        X : frame or ndarray of shape (n_rows, n_features)
            As `transform` gives it.
        """
        check_is_fitted(self)
        columns = self._open(X, reset=False)
        needed = [c.name for c in self.codes_ if used is None or not set(used).isdisjoint(c.features)]
        absent = [name for name in needed if name not in columns]
        if absent:
            many = f" (and {abbreviate(absent[1:])})" if len(absent) > 1 else ""
            raise ValueError(
                f"The table has no column {absent[0]!r}{many}, which the model needs"
                f"{suggest(absent[0], list(columns))}"
            )
        missing = [as_text(code) for code in self.missing]
        read = {
            code.name: read_like(columns[code.name], Cells(code.kind, style=code.style), missing)
            for code in self.codes_
            if code.name in columns
        }
        places = self._places(self._labels(X, task))
        return self._finish(X, self._encode(read, places, _n_rows(X)))

    def _encode(self, read: dict[str, Cells], places: np.ndarray | None, n_rows: int) -> np.ndarray:
        """The features of columns that were read, which are used up; others are zero."""
        out, done = np.zeros((n_rows, len(self.get_feature_names_out())), order="F"), 0
        unseen: dict[str, list[str]] = {}
        for code in self.codes_:
            n_features = len(code.features)
            if code.name in read:
                part = out[:, done : done + n_features]
                self._encode_column(code, read.pop(code.name), places, part, unseen)
            done += n_features
        if unseen:
            listed = "; ".join(f"{name!r} has {abbreviate(words)}" for name, words in unseen.items())
            warnings.warn(
                f"Levels that the fit has not seen are taken for 'other', or the reference level: {listed}.",
                UserWarning,
                stacklevel=4,
            )
        return out

    def _encode_column(self, code, cells, places, out, unseen) -> None:
        missing, absent = cells.missing, None
        if self.absent_features == "allow" and missing.any():
            absent = all_missing(missing, places)
        if not code.is_number:
            place = {level: i for i, level in enumerate(code.levels)}
            elsewhere = place.get(OTHER, -1)
            new = [w for w in cells.words if w not in place and w != code.reference]
            if new and OTHER not in place and code.reference != OTHER:
                unseen[code.name] = new
            spots = [-1 if w == code.reference else place.get(w, elsewhere) for w in cells.words]
            gap = -1 if code.reference == MISSING else place.get(MISSING, elsewhere)
            out[:] = np.array([*spots, gap])[cells.codes][:, None] == np.arange(len(place))
        else:
            self._check_missing(code.name, missing)
            by_task = np.array([code.fill if v is None else v for v in (*code.fills, None)], dtype=float)
            fill = code.fill if places is None or not code.fills else by_task[places]
            out[:, 0] = np.where(missing, fill, cells.numbers - code.first)
            if code.indicated:
                out[:, 1] = missing
        if absent is not None:
            out[absent] = np.nan

    def _places(self, labels: np.ndarray | None) -> np.ndarray | None:
        """The position of each row's task among those of the fit, -1 for others; None without labels."""
        if labels is None:
            return None
        place = {label: i for i, label in enumerate(self.tasks_)}
        return np.array([place.get(label, -1) for label in labels.tolist()], dtype=np.intp)

    def _labels(self, X: Any, task: Any) -> np.ndarray | None:
        if task is None and self.task_column is not None:
            task = self._task_values(X).to_list()
        if task is None:
            return None
        labels = np.asarray(task)
        if labels.shape != (_n_rows(X),):
            raise ValueError(f"task has shape {labels.shape}, X has {_n_rows(X)} rows: one label per row.")
        return labels.astype(str) if labels.dtype.kind == "O" else labels

    def _task_values(self, X: Any) -> Any:
        return nw.from_native(X, eager_only=True).get_column(self.task_column)

    def _open(self, X: Any, *, reset: bool) -> dict[str, Any]:
        """The columns of X by name, without that of the tasks."""
        check_not_lazy(X, "X")
        if not is_frame(X):
            X = validate_data(
                self, X, reset=reset, dtype=None, ensure_all_finite=False, estimator=self, accept_sparse=False
            )
            return {f"x{j}": X[:, j] for j in range(X.shape[1])}
        frame = open_frame(X, "X")
        assert frame is not None
        if reset:
            validate_data(self, X, reset=True, skip_check_array=True)
            if not len(frame):
                raise ValueError("Found array with 0 sample(s): the table has no rows.")
        columns = {column.name: column for column in frame.iter_columns()}
        if self.task_column is not None and self.task_column not in columns:
            known = suggest(self.task_column, list(columns))
            raise ValueError(f"X has no column {self.task_column!r}, which task_column names{known}")
        return {name: column for name, column in columns.items() if name != self.task_column}

    def _finish(self, X: Any, out: np.ndarray) -> Any:
        """The features as X is: a frame of its library, or an array."""
        if not is_frame(X):
            return out
        names, backend = self.get_feature_names_out().tolist(), frame_backend(X)
        if backend == "pandas":
            import pandas as pd

            frame = pd.DataFrame(out, columns=names, index=X.index, copy=False)
            if self.task_column is not None:
                frame[self.task_column] = X[self.task_column]
            return frame
        columns: dict[str, Any] = {name: out[:, j] for j, name in enumerate(names)}
        if self.task_column is not None:
            columns[self.task_column] = self._task_values(X).to_native()
        return make_frame(columns, backend)

    # -- what came out ---------------------------------------------------------------------------------------

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Give the names of the features.

        Parameters
        ----------
        input_features : ignored
            For pipelines.

        Returns
        -------
        names : ndarray of str
            Names such as ``age``, ``age is missing`` and ``ward=surgery``.
        """
        check_is_fitted(self)
        return np.array([name for code in self.codes_ for name in code.features], dtype=object)

    @property
    def columns_(self) -> list[str]:
        """The column that each feature comes from."""
        return [code.name for code in self.codes_ for _ in code.features]

    @property
    def groups_(self) -> list[list[str]]:
        """Features of one column of words."""
        return [code.features for code in self.codes_ if code.levels and len(code.features) > 1]

    @classmethod
    def of_columns(
        cls, codes: Iterable[ColumnCode], *, tasks: Iterable[Any] = (),
        columns_in: Sequence[str] | None = None, **parameters: Any,
    ) -> TableEncoder:  # fmt: skip
        """Make an encoder of columns whose codes are known, with these parameters of the constructor."""
        encoder = cls(**parameters)
        encoder._check_parameters()
        encoder.codes_, encoder.tasks_ = tuple(codes), list(tasks)
        encoder.columns_in_ = list(columns_in or (code.name for code in encoder.codes_))
        encoder.left_out_, encoder.notes_ = {}, []
        encoder.n_features_in_ = len(encoder.columns_in_) + (encoder.task_column is not None)
        if any(len(code.fills) not in (0, len(encoder.tasks_)) for code in encoder.codes_):
            raise ValueError("the encoder of the table has medians of unknown tasks")
        encoder._check_features()
        return encoder

    def as_dict(self) -> dict[str, Any]:
        """Give what was learned as plain values."""
        check_is_fitted(self)
        given = self.get_params(deep=False)
        given |= {name: list(given[name]) for name in ("categories", "keep", "missing")}
        given["reference"] = None if self.reference is None else dict(self.reference)
        return {
            "parameters": given,
            "columns": [asdict(code) for code in self.codes_],
            "columns_in": list(self.columns_in_),
            "left_out": dict(self.left_out_),
            "tasks": list(self.tasks_),
        }

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> TableEncoder:
        """Make the encoder from what `as_dict` gave; it is checked, because it may come from a file."""
        given = expect(saved["parameters"], dict)
        if set(given) - set(cls._get_param_names()):
            raise ValueError("the encoder of the table has unknown parameters")
        columns_in = [expect(name, str) for name in expect(saved["columns_in"], list)]
        codes = [made_of(ColumnCode, one) for one in expect(saved["columns"], list)]
        tasks = [expect(label, str, int) for label in expect(saved["tasks"], list)]
        encoder = cls.of_columns(codes, tasks=tasks, columns_in=columns_in, **given)
        encoder.left_out_ = {str(name): str(why) for name, why in expect(saved["left_out"], dict).items()}
        return encoder

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def _n_rows(X: Any) -> int:
    return X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
