"""Which columns of a table are target, task, weight, group, time and offset; saved with the model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import narwhals as nw
import numpy as np
from scipy.stats import rankdata, skew

from mmtfl.errors import require
from mmtfl.persistence.archive import made_of, plain
from mmtfl.tables.cells import Cells, as_levels, as_text, read_cells
from mmtfl.tables.reading import TableError, unnamed
from mmtfl.wording import abbreviate, count, suggest

_NAMED = ("task_column", "weight_column", "group_column", "time_column", "offset_column", "exposure_column")
_ANY_TARGET = "any target"
_WHOLE = re.compile(r"-?[1-9]\d{0,17}|0")  # an integer as Python prints it: 7, not 007 or +7
Class = str | int | float | bool


@dataclass(frozen=True)
class TableRecipe:
    """What the columns of a table are, but for the features, which `TableEncoder` encodes.

    Attributes
    ----------
    target_columns : tuple of str
        One target, or several that share rows (each is a task).
    task_column, weight_column : str or None
        Columns of task labels and of row weights.
    group_column, time_column : str or None
        Columns of groups of rows that no split may separate, and of the time of rows, by which tasks are
        split.
    offset_column, exposure_column : str or None
        Columns of a known part of the linear predictor, and of an exposure, whose logarithm is one.
    task_kind : {"str", "int", None}
        Type of the task labels.
    classes : tuple of two values, or None
        The two classes of the targets, sorted; None for regression.
    notes : tuple of str
        Remarks of `learn` for the reader; they are not saved.

    Examples
    --------
    >>> import pandas as pd
    >>> from mmtfl.tables.recipe import TableRecipe
    >>> pupils = pd.DataFrame({"school": ["A", "A", "B"], "age": [11, 12, 11], "score": ["2,0", "3,5", "3"]})
    >>> recipe = TableRecipe(("score",), "school").learn(pupils)
    >>> recipe.labels(pupils).tolist(), recipe.targets(pupils).tolist()
    (['A', 'A', 'B'], [2.0, 3.5, 3.0])
    >>> recipe.features(pupils)
    ['age']
    >>> TableRecipe.from_dict(recipe.as_dict()) == recipe
    True
    """

    target_columns: tuple[str, ...] = ()
    task_column: str | None = None
    task_kind: Literal["str", "int"] | None = None
    weight_column: str | None = None
    classes: tuple[Class, Class] | None = None
    group_column: str | None = None
    time_column: str | None = None
    offset_column: str | None = None
    exposure_column: str | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    def learn(self, frame: Any, classify: bool | None = None) -> TableRecipe:
        """Find out what the named columns of a table hold, in the rows that have all that is needed.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table the model will be fitted on.
        classify : bool, optional
            Whether the target is a class; by default text, booleans and numbers with two values are.

        Returns
        -------
        recipe : TableRecipe
            The recipe with the kinds of labels and targets.
        """
        targets, task = self.target_columns, self.task_column
        if task is not None and len(targets) > 1:
            raise TableError(
                f"Several targets ({abbreviate(targets)}) are a task each, and column {task!r} names tasks "
                "too: give one target with the task column, or several targets without."
            )
        self.check_present(frame)
        twice = [name for name in self.special if self.special.count(name) > 1]
        if twice:
            raise TableError(f"Column {twice[0]!r} is used twice, as task, target or weight: pick one.")
        frame, _ = self.labelled(frame)
        classes, guess = learn_classes([frame[name] for name in targets], classify)
        notes = [] if guess is None else [guess]
        for name in targets:
            if frame[name].nunique() == 1:
                notes.append(f"target {name!r} has one value in all rows: there is nothing to predict")
        kind = None if task is None else label_kind(frame[task])
        return replace(self, task_kind=kind, classes=classes, notes=tuple(notes))

    @property
    def special(self) -> list[str]:
        """The columns that are no features."""
        named = [getattr(self, name) for name in _NAMED]
        return [*self.target_columns, *(name for name in named if name is not None)]

    def features(
        self, frame: Any, chosen: Sequence[str] | None = None, drop: Sequence[str] = ()
    ) -> list[str]:
        """Give the names of the columns that are features: those chosen, or all that have a name.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table.
        chosen, drop : sequence of str
            Columns that are features, and columns that are none.

        Returns
        -------
        names : list of str
            In the order of the table.
        """
        names = list(frame.columns)
        for name in (*drop, *(chosen or ())):
            if name not in names:
                raise TableError(f"The table has no column {name!r}{suggest(name, names)}")
        both = [name for name in chosen or () if name in self.special]
        if both:
            raise TableError(f"Column {both[0]!r} is used twice, as task, target or feature: pick one.")
        out = {*self.special, *drop}
        wanted = [name for name in names if not unnamed(name)] if chosen is None else chosen
        found = [name for name in names if name in wanted and name not in out]
        if not found:
            raise TableError(f"No column is left to predict from: the table has {abbreviate(names)}.")
        return found

    # -- from a table to what an estimator takes -------------------------------------------------------------

    def labelled(self, frame: Any) -> tuple[Any, str | None]:
        """Leave out rows without a target, task label or another value that is needed, with a note.

        Of several targets, one is enough.
        """
        has = {name: observed(frame[name]) for name in self.special if name in frame.columns}
        if len(self.target_columns) > 1:
            has[_ANY_TARGET] = np.any([has.pop(name) for name in self.target_columns if name in has], axis=0)
        kept = np.logical_and.reduce(list(has.values()))
        if not kept.any():
            named = abbreviate([name for name in has if name != _ANY_TARGET])
            raise TableError(f"No row has a value in every one of {named}: nothing is left to fit.")
        if kept.all():
            return frame, None
        lacking = [name for name, own in has.items() if not own.all()]
        why = ", ".join(name if name == _ANY_TARGET else repr(name) for name in lacking)
        note = f"{count(int((~kept).sum()), 'row')} without {why} left out"
        return frame[kept].reset_index(drop=True), note

    def labels(self, frame: Any) -> np.ndarray | None:
        """Read the task label of each row; None where no column holds them."""
        column = self._column(frame, self.task_column)
        return None if column is None else read_labels(column, self.task_kind or "str")

    def targets(self, frame: Any) -> Any:
        """Read the targets: one per row, or a frame of several columns, NaN where one was not observed.

        Classes of a single target come as they are; those of several targets as 0 and 1, see ``classes``.
        """
        self.check_present(frame, self.target_columns)
        names, classes = self.target_columns, self.classes
        columns = [frame[name] for name in names]
        found = [numbers_of(c, "Target") if classes is None else class_codes(c, classes) for c in columns]
        if len(found) > 1:
            by_name = dict(zip(names, found, strict=True))
            return require("pandas", "frames").DataFrame(by_name, index=frame.index)
        none_missing(found[0], "Target", names[0])
        return found[0] if classes is None else np.array(classes)[found[0].astype(np.intp)]

    def weights(self, frame: Any) -> np.ndarray | None:
        """Read the weight of each row; None where no column holds them."""
        return self._numbers(frame, self.weight_column, "Weight")

    def groups(self, frame: Any) -> np.ndarray | None:
        """Read the group of each row; None where no column holds them."""
        column = self._column(frame, self.group_column)
        return None if column is None else read_labels(column, "str", what="Group column")

    def time(self, frame: Any) -> np.ndarray | None:
        """Read the time of each row as numbers to sort by; None where no column holds it."""
        column = self._column(frame, self.time_column)
        return None if column is None else read_times(column)

    def offset(self, frame: Any) -> np.ndarray | None:
        """Read the known part of each row's linear predictor; None where no column holds it."""
        offset = self._numbers(frame, self.offset_column, "Offset")
        exposure = self._numbers(frame, self.exposure_column, "Exposure")
        if exposure is None:
            return offset
        if (exposure <= 0).any():
            row = int((exposure <= 0).argmax())
            raise TableError(
                f"Exposure {self.exposure_column!r} is {exposure[row]:g} in data row {row + 1}: its "
                "logarithm is needed, so it must be above 0. Leave such rows out."
            )
        return np.log(exposure) if offset is None else offset + np.log(exposure)

    def known(self, frame: Any) -> dict[str, np.ndarray]:
        """Give the offset as an argument of an estimator's method; nothing where there is none."""
        offset = self.offset(frame)
        return {} if offset is None else {"offset": offset}

    def _numbers(self, frame: Any, name: str | None, what: str) -> np.ndarray | None:
        column = self._column(frame, name)
        return None if column is None else none_missing(numbers_of(column, what), what, column.name)

    def _column(self, frame: Any, name: str | None) -> Any:
        """A column that the table must have; None where no column was named."""
        if name is None:
            return None
        self.check_present(frame, [name])
        return frame[name]

    # -- plain values ----------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Give the recipe as JSON types, without its notes."""
        return {name: value for name, value in plain(self).items() if name != "notes"}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> TableRecipe:
        """Make the recipe from what `as_dict` gave; it is checked, because it may come from a file."""
        try:
            return made_of(cls, saved)
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"The recipe of the table is damaged: {error}.") from None

    def check_present(self, frame: Any, names: Sequence[str] | None = None) -> None:
        """Refuse a table without these columns, or without all that are named."""
        names = self.special if names is None else names
        absent = [name for name in names if name not in frame.columns]
        if absent:
            more = f" (nor {abbreviate(absent[1:])})" if len(absent) > 1 else ""
            raise TableError(
                f"The table has no column {absent[0]!r}{more}{suggest(absent[0], list(frame.columns))}"
            )


# -- single columns ------------------------------------------------------------------------------------------


def cells_of(column: Any, missing: Sequence[str] = (), *, as_words: bool = False) -> Cells:
    """The cells of a column of a frame."""
    return read_cells(nw.from_native(column, series_only=True), missing, as_words=as_words)


def numbers_of(column: Any, what: str, missing: Sequence[str] = ()) -> np.ndarray:
    """A column as numbers, NaN where a cell is missing or no number."""
    cells = cells_of(column, missing)
    if cells.kind == "truth":
        return class_codes(column, (False, True))
    if cells.kind != "number":
        kind = "dates" if cells.kind == "date" else f"text such as {cells.words[0]!r}"
        raise TableError(f"{what} {column.name!r} must hold numbers, but holds {kind}: correct it.")
    assert cells.numbers is not None
    return cells.numbers


def none_missing(numbers: np.ndarray, what: str, name: str) -> np.ndarray:
    """Refuse missing values; the numbers."""
    missing = np.isnan(numbers)
    if missing.any():
        raise TableError(
            f"{what} {name!r} is missing in {missing.sum()} of {len(missing)} rows (first in data row "
            f"{missing.argmax() + 1}): fill it in, or leave these rows out."
        )
    return numbers


def observed(column: Any, missing: Sequence[str] = ()) -> np.ndarray:
    """Which cells of a column have a value."""
    return ~cells_of(column, missing).missing


# -- targets -------------------------------------------------------------------------------------------------


def learn_classes(
    columns: Sequence[Any], classify: bool | None
) -> tuple[tuple[Class, Class] | None, str | None]:
    """Find the two classes of the targets, or None for numbers; and a note if this was a guess."""
    read, names = [cells_of(column) for column in columns], [column.name for column in columns]
    kinds = [cells.kind for cells in read]
    if "date" in kinds:
        raise TableError(f"Target {names[kinds.index('date')]!r} holds dates: put a number in its place.")
    values = sorted({v for cells in read for v in _classes_in(cells)}, key=_text_last)
    words = [name for name, kind in zip(names, kinds, strict=True) if kind != "number"]
    numeric = not words
    if classify is False or (classify is None and numeric and len(values) != 2):
        if words:
            raise TableError(f"Target {words[0]!r} does not hold numbers: leave --regress out.")
        return None, None
    if 0 < len(words) < len(names):
        raise TableError(
            f"Targets {abbreviate(names)} mix numbers and classes: write the classes as 0 and 1, which are "
            "then fitted beside the numbers."
        )
    if len(values) != 2:
        raise TableError(_not_two(names, [_classes_in(cells) for cells in read]))
    note = None
    if numeric and classify is None:
        note = (
            f"target {names[0]!r} has the values {values[0]} and {values[1]} only: taken for two "
            "classes (--regress for numbers)"
        )
    # scikit-learn takes no floats as classes, but their texts
    if any(isinstance(value, float) for value in values):
        values = sorted(as_text(value) for value in values)
    return (values[0], values[1]), note


def _classes_in(cells: Cells) -> list[Class]:
    """Distinct values of a column: whole numbers, numbers, booleans or text."""
    if cells.kind == "number":
        assert cells.numbers is not None
        numbers = np.unique(cells.numbers[~np.isnan(cells.numbers)])
        return [int(v) if float(v).is_integer() else float(v) for v in numbers]
    return [word == "True" for word in cells.words] if cells.kind == "truth" else list(cells.words)


def _text_last(value: Class) -> tuple[bool, Any]:
    return isinstance(value, str), value


def _not_two(names: Sequence[str], found: Sequence[list[Class]]) -> str:
    # of several targets, the message names the one with the most classes
    name, own = max(zip(names, found, strict=True), key=lambda pair: len(pair[1]))
    if not own:
        return f"Target {name!r} has no value at all."
    if len(own) == 1:
        return f"Target {name!r} has a single class, {own[0]!r}: two are needed to tell them apart."
    if len(own) == 2:
        return f"Targets {abbreviate(names)} have different classes: use the same two in all, such as 0, 1."
    shown = abbreviate([str(value) for value in sorted(own, key=_text_last)])
    return (
        f"Target {name!r} has {len(own)} classes ({shown}), and two can be told apart: make a column of 0 "
        "and 1 for each class and give each as a --target."
    )


def class_codes(column: Any, classes: tuple[Class, Class]) -> np.ndarray:
    """Encode the two classes as 0 and 1, NaN where the class is missing."""
    cells = cells_of(column)
    if cells.kind == "number":
        cells = as_levels(cells)
    if cells.codes is None:
        raise TableError(f"Target {column.name!r} must hold {classes[0]!r} and {classes[1]!r}: correct it.")
    place = dict(zip(map(as_text, classes), (0.0, 1.0), strict=True))
    if isinstance(classes[0], bool):
        place |= {"0": 0.0, "1": 1.0}  # as truth values are written too
    codes = np.array([*(place.get(word, -1.0) for word in cells.words), np.nan])[cells.codes]
    if (codes == -1.0).any():
        row = int((codes == -1.0).argmax())
        raise TableError(
            f"Target {column.name!r} is {str(column.iloc[row])!r} in data row {row + 1}, but the classes are "
            f"{classes[0]!r} and {classes[1]!r}: correct it."
        )
    return codes


# -- labels and times ----------------------------------------------------------------------------------------


def label_kind(column: Any) -> Literal["str", "int"]:
    """Kind of the labels of a task column: "int" if all are plain whole numbers, else "str"."""
    cells = cells_of(column, as_words=True)
    is_whole = bool(cells.words) and all(_WHOLE.fullmatch(word) for word in cells.words)
    return "int" if is_whole else "str"


def read_labels(column: Any, kind: str, *, what: str = "Task column") -> np.ndarray:
    """Read task labels of the given kind, one per row, or other labels."""
    cells = cells_of(column, as_words=True)
    if cells.missing.any():
        new = "no label is not a new task" if what == "Task column" else "a group is needed for every row"
        raise TableError(
            f"{what} {column.name!r} has {count(cells.missing.sum(), 'row')} without a label (first in data "
            f"row {cells.missing.argmax() + 1}): {new}. Fill them in, or leave these rows out."
        )
    words = np.array(cells.words, dtype=object)[cells.codes] if cells.words else np.empty(0, dtype=object)
    if kind == "str":
        return words.astype(str)
    wrong = [i for i, word in enumerate(words) if not _WHOLE.fullmatch(word)]
    if wrong:
        raise TableError(
            f"Task column {column.name!r} is {words[wrong[0]]!r} in data row {wrong[0] + 1}, but tasks are "
            "known by whole numbers: correct the label."
        )
    return words.astype(np.int64)


def read_times(column: Any) -> np.ndarray:
    """Read times as numbers to sort by: numbers as they are, dates as days since 1970."""
    cells = cells_of(column)
    if cells.kind not in ("number", "date"):
        raise TableError(
            f"Time column {column.name!r} holds text such as {cells.words[0]!r}: write numbers, or dates as "
            "2024-05-31 (also with a time, 2024-05-31 14:30)."
        )
    assert cells.numbers is not None
    return none_missing(cells.numbers, "Time column", column.name)


COPY = 0.999  # share of the variation within tasks, or AUC, above which a column is likely the target itself
_PLACES = re.compile(
    r"hospital|clinic|cent(er|re)|site|ward|school|class|teacher|college|universit|countr|city|county|state|region"
    r"|district|province|village|cluster|subject|patient|person|participant|student|doctor|machine|batch|plant"
    r"|firm|compan|store|shop|team|herd|farm|field|block|rat$|animal|litter|lab|^id$|_id$|group",
    re.I,
)
_FEWEST_ROWS = 5  # of the average place
_FEWEST_COUNTS, _LARGEST, _SKEW = 20, 3.0, 0.5  # rows, the least maximum and the least skewness of counts


def likely_tasks(frame: Any, names: Sequence[str]) -> dict[str, int]:
    """Columns that look like places or people, with the number of these, most first.

    Text with three levels or more, and whole numbers whose name says so, that repeat.

    Examples
    --------
    >>> import pandas as pd
    >>> from mmtfl.tables.recipe import likely_tasks
    >>> table = pd.DataFrame({"hospital": ["A", "B", "C"] * 10, "subject": list(range(6)) * 5, "age": 4.5})
    >>> likely_tasks(table, list(table))
    {'subject': 6, 'hospital': 3}
    """
    found = {}
    for name in names:
        cells = cells_of(frame[name])
        if cells.kind == "word":
            n_levels = len(cells.words)
        elif cells.kind == "number" and _PLACES.search(name):
            known = cells.numbers[~cells.missing]  # type: ignore[index]
            n_levels = 0 if (known % 1.0).any() else len(np.unique(known))
        else:
            continue
        if 3 <= n_levels <= len(frame) / _FEWEST_ROWS:
            found[name] = n_levels
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def likely_copies(X: np.ndarray, columns: Sequence[str], y: np.ndarray, task: Any = None) -> dict[str, float]:
    """Columns that tell the target nearly exactly within tasks, with the R^2 or AUC of each.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
        The features.
    columns : sequence of str
        The column that each feature comes from.
    y : ndarray of shape (n_rows,)
        Numbers, or two classes.
    task : array-like of shape (n_rows,), optional
        Task labels.

    Returns
    -------
    found : dict of str to float
        R^2 within tasks, for classes the AUC of pairs within tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.recipe import likely_copies
    >>> x = np.random.default_rng(0).normal(size=(50, 2))
    >>> likely_copies(x, ["age", "days"], 2.0 * x[:, 1] + 1.0)
    {'days': 1.0}
    """
    labels = np.zeros(len(y)) if task is None else np.asarray(task)
    tasks = np.unique(labels, return_inverse=True)[1]
    is_class = y.dtype.kind not in "fiu" or len(np.unique(y)) == 2
    target = (y == np.unique(y)[-1]).astype(float) if is_class else y.astype(float)
    centred = _centred(target[:, None], tasks)[:, 0]
    total = centred @ centred
    if not total > 0:
        return {}
    names = np.array(columns, dtype=object)
    found = {}
    for name in dict.fromkeys(columns):
        own = _centred(X[:, np.flatnonzero(names == name)], tasks)
        told = own @ np.linalg.lstsq(own, centred, rcond=None)[0]
        score = _auc(told, target, tasks) if is_class else float(told @ centred) / total
        if score > COPY:
            found[name] = round(float(score), 4)
    return found


def looks_like_counts(y: np.ndarray) -> bool:
    """Whether targets may count events: whole numbers from 0 or 1 on, more of them small than large.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tables.recipe import looks_like_counts
    >>> visits = np.random.default_rng(0).poisson(1.5, size=200)
    >>> looks_like_counts(visits), looks_like_counts(60 + 5 * visits), looks_like_counts(visits / 2)
    (True, False, False)
    """
    if len(y) < _FEWEST_COUNTS or np.any(y % 1.0) or y.min() not in (0.0, 1.0) or y.max() < _LARGEST:
        return False
    return bool(skew(y) > _SKEW)


def _centred(X: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Columns less their means within tasks; missing values count as the mean."""
    known = ~np.isnan(X)
    X = np.where(known, X, 0.0)
    out = np.empty_like(X)
    for j in range(X.shape[1]):
        n_known = np.maximum(np.bincount(tasks, known[:, j]), 1.0)
        out[:, j] = (X[:, j] - (np.bincount(tasks, X[:, j]) / n_known)[tasks]) * known[:, j]
    return out


def _auc(score: np.ndarray, target: np.ndarray, tasks: np.ndarray) -> float:
    """The share of pairs of one task and two classes whose order the score tells."""
    right = pairs = 0.0
    for t in range(tasks.max() + 1):
        own = tasks == t
        first = target[own] == 1.0
        n_first, n_second = first.sum(), (~first).sum()
        ranks = rankdata(score[own])
        right += ranks[first].sum() - n_first * (n_first + 1) / 2
        pairs += n_first * n_second
    return right / pairs if pairs else 0.0
