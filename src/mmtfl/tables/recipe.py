"""Which columns of a table are target, task, weight, group, time and offset; saved with the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.archive import expect, plain
from mmtfl.tables.reading import TableError, unnamed
from mmtfl.tables.special_columns import (
    Class,
    class_codes,
    label_kind,
    learn_classes,
    none_missing,
    numbers_of,
    observed,
    read_labels,
    read_times,
)
from mmtfl.wording import abbreviate, count, suggest

_NAMED = ("task_column", "weight_column", "group_column", "time_column", "offset_column", "exposure_column")
_ANY_TARGET = "any target"


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
    >>> recipe = TableRecipe.learn(pupils, task="school", target="score")
    >>> recipe.labels(pupils).tolist(), recipe.targets(pupils).tolist()
    (['A', 'A', 'B'], [2.0, 3.5, 3.0])
    >>> recipe.features(pupils)
    ['age']
    >>> TableRecipe.from_dict(recipe.as_dict()) == recipe
    True
    """

    target_columns: tuple[str, ...] = ()
    task_column: str | None = None
    task_kind: str | None = None
    weight_column: str | None = None
    classes: tuple[Class, Class] | None = None
    group_column: str | None = None
    time_column: str | None = None
    offset_column: str | None = None
    exposure_column: str | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def learn(
        cls,
        frame: Any,
        *,
        task: str | None,
        target: str | Sequence[str],
        classify: bool | None = None,
        weights: str | None = None,
        group: str | None = None,
        time: str | None = None,
        offset: str | None = None,
        exposure: str | None = None,
    ) -> TableRecipe:
        """Find out what the named columns of a table hold, in the rows that have all that is needed.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table the model will be fitted on.
        task : str or None
            Column of task labels; None for one task, or for several targets that share rows.
        target : str or sequence of str
            The column to predict; several are a task each.
        classify : bool, optional
            Whether the target is a class; by default text, booleans and numbers with two values are.
        weights, group, time, offset, exposure : str, optional
            Columns of row weights, of groups of rows that must stay together, of the time of rows, of a known
            part of the linear predictor, and of one whose logarithm is.

        Returns
        -------
        recipe : TableRecipe
            The recipe.
        """
        targets = (target,) if isinstance(target, str) else tuple(target)
        if task is not None and len(targets) > 1:
            raise TableError(
                f"Several targets ({abbreviate(targets)}) are a task each, and column {task!r} names tasks "
                "too: give one target with the task column, or several targets without."
            )
        recipe = cls(targets, task, None, weights, None, group, time, offset, exposure)
        recipe.check_present(frame)
        twice = [name for name in recipe.special if recipe.special.count(name) > 1]
        if twice:
            raise TableError(f"Column {twice[0]!r} is used twice, as task, target or weight: pick one.")
        frame, _ = recipe.labelled(frame)
        classes, guess = learn_classes([frame[name] for name in targets], classify)
        notes = [] if guess is None else [guess]
        for name in targets:
            if frame[name].nunique() == 1:
                notes.append(f"target {name!r} has one value in all rows: there is nothing to predict")
        kind = None if task is None else label_kind(frame[task])
        return replace(recipe, task_kind=kind, classes=classes, notes=tuple(notes))

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
            raise TableError(
                f"Column {both[0]!r} is used twice, as task, target, weight or feature: pick one."
            )
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
        weights = self._numbers(frame, self.weight_column, "Weight")
        if weights is not None and (weights < 0).any():
            row = int((weights < 0).argmax())
            raise TableError(
                f"Weight {self.weight_column!r} is {weights[row]:g} in data row {row + 1}: it must be 0 "
                "(the row is left out) or more."
            )
        return weights

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
            return cls(
                target_columns=tuple(expect(name, str) for name in expect(saved["target_columns"], list)),
                task_kind=expect(saved["task_kind"], "str", "int", None),
                classes=None if saved["classes"] is None else _two_classes(saved["classes"]),
                **{name: expect(saved[name], str, None) for name in _NAMED},
            )
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


def _two_classes(saved: Any) -> tuple[Class, Class]:
    first, second = (expect(value, str, int, float, bool) for value in expect(saved, list))
    return first, second
