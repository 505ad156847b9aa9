"""How a table becomes features, targets, task labels and weights; learned once and saved with the model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np

from mmtfl.errors import require
from mmtfl.persistence.json_values import expect, plain
from mmtfl.tables.column_encoding import (
    Class,
    FeatureColumn,
    class_codes,
    finite_numbers,
    label_kind,
    learn_classes,
    read_labels,
    read_times,
)
from mmtfl.tables.problems import Problems, check_missing, check_none_missing
from mmtfl.tables.reading import TableError, release_unused, tidy, unnamed
from mmtfl.tasks.frames import feature_columns
from mmtfl.wording import abbreviate, count, suggest

IMPUTE = ("mean", "median", "most_frequent")
_TAKEN = 1000  # columns after which the memory of those encoded is given back
_MANY_LEVELS = 30  # more levels make a note, in case the column was not meant to be a feature


@dataclass(frozen=True)
class TableRecipe:
    """How the columns of a table become what an estimator takes.

    Text and booleans become indicators of their levels; of two levels only the second has one. Everything
    learned from the table (levels, classes, replacements of missing values) is kept as plain values.

    Attributes
    ----------
    features : tuple of FeatureColumn
        The columns that become features, in order.
    target_columns : tuple of str
        One target, or several that share rows (each is a task).
    task_column, weight_column : str or None
        Columns of task labels and of row weights.
    group_column, time_column : str or None
        Columns of groups of rows that no split may separate, and of the time of rows, by which tasks are
        split.
    absent_features : {"error", "allow"}
        Whether a column may be missing in all rows of a task; such values are NaN in the matrix.
    offset_column, exposure_column : str or None
        Columns of a known part of the linear predictor, and of an exposure, whose logarithm is one.
    task_kind : {"str", "int", None}
        Type of the task labels.
    classes : tuple of two values, or None
        The two classes of the targets, sorted; None for regression.
    impute : str or None
        How missing values of features are filled in.
    notes : tuple of str
        Remarks of `learn` for the reader; they are not saved.

    Examples
    --------
    >>> import pandas as pd
    >>> from mmtfl.tables.recipe import TableRecipe
    >>> pupils = pd.DataFrame({"school": ["A", "A", "B"], "age": [11, 12, 11],
    ...                        "plays": ["chess", "go", "bridge"], "score": [2.0, 3.5, 3.0]})
    >>> recipe = TableRecipe.learn(pupils, task="school", target="score")
    >>> recipe.matrix(pupils)
        age  plays=bridge  plays=chess  plays=go
    0  11.0           0.0          1.0       0.0
    1  12.0           0.0          0.0       1.0
    2  11.0           1.0          0.0       0.0
    >>> recipe.labels(pupils).tolist(), recipe.targets(pupils).tolist()
    (['A', 'A', 'B'], [2.0, 3.5, 3.0])
    >>> TableRecipe.from_dict(recipe.as_dict()) == recipe
    True
    """

    features: tuple[FeatureColumn, ...]
    target_columns: tuple[str, ...] = ()
    task_column: str | None = None
    task_kind: str | None = None
    weight_column: str | None = None
    classes: tuple[Class, Class] | None = None
    impute: str | None = None
    group_column: str | None = None
    time_column: str | None = None
    absent_features: str = "error"
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
        features: Sequence[str] | None = None,
        weights: str | None = None,
        impute: str | None = None,
        classify: bool | None = None,
        drop: Sequence[str] = (),
        categories: Sequence[str] = (),
        group: str | None = None,
        time: str | None = None,
        splines: Sequence[str] = (),
        absent_features: str = "error",
        offset: str | None = None,
        exposure: str | None = None,
    ) -> TableRecipe:
        """Decide from a table how its columns are used.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table the model will be fitted on.
        task : str or None
            Column of task labels; None for one task, or for several targets that share rows.
        target : str or sequence of str
            The column to predict; several are a task each.
        features : sequence of str, optional
            Columns to predict from; by default all others that have a name.
        weights : str, optional
            Column of row weights.
        impute : {"mean", "median", "most_frequent"}, optional
            Fill missing features with this statistic of their column (text: the most frequent level).
            None: refuse them.
        classify : bool, optional
            Whether the target is a class; by default text, booleans and numbers with two values are.
        drop : sequence of str
            Columns that are not features.
        categories : sequence of str
            Columns whose values are levels, even if they look like numbers.
        group, time : str, optional
            Column of groups of rows that must stay together, and of the time of rows; neither is a feature.
        splines : sequence of str
            Columns of numbers that become curves; "all" for all that have enough different values.
        absent_features : {"error", "allow"}
            Whether a column may be missing in all rows of a task. Not with ``impute``.
        offset, exposure : str, optional
            Column of a known part of the linear predictor, and of one whose logarithm is; no features.

        Returns
        -------
        recipe : TableRecipe
            The recipe.
        """
        targets = (target,) if isinstance(target, str) else tuple(target)
        if impute is not None and impute not in IMPUTE:
            raise TableError(f"impute={impute!r} is unknown: use {', '.join(IMPUTE)}.")
        if task is not None and len(targets) > 1:
            raise TableError(
                f"Several targets ({abbreviate(targets)}) are a task each, and column {task!r} names tasks "
                "too: give one target with the task column, or several targets without."
            )
        if impute is not None and absent_features == "allow":
            raise TableError(
                "--impute fills what --absent-features allow leaves missing: give one of them, and fill in "
                "scattered values before."
            )
        problems = Problems()
        named = (task, *targets, weights, group, time, offset, exposure)
        special = [name for name in named if name is not None]
        chosen, notes = _choose(frame, special, features, drop, categories, problems)
        if impute is None:
            with problems.of():
                some = [name for name in chosen if not frame[name].isna().all()]
                check_missing(frame, some, task, absent=absent_features)
        learned, curved = [], _curved(chosen, splines, problems)
        for name in chosen:
            with problems.of(name):
                known: dict[str, Any] = {"impute": impute, "splines": curved.get(name)}
                as_levels = name in categories
                learned.append(FeatureColumn.learn(frame[name], as_levels=as_levels, **known))
        recipe = cls(
            tuple(learned), targets, task,
            weight_column=weights, group_column=group, time_column=time, impute=impute,
            absent_features=absent_features, offset_column=offset, exposure_column=exposure,
        )  # fmt: skip
        if set(special) <= set(frame.columns):
            with problems.of():
                kind = None if task is None else label_kind(frame[task])
                recipe = replace(recipe, task_kind=kind)
                recipe.labels(frame)
            with problems.of():
                classes, note = learn_classes([frame[name] for name in targets], classify)
                notes += [note] if note else []
                recipe = replace(recipe, classes=classes)
                recipe.targets(frame)
            for read in (recipe.weights, recipe.groups, recipe.time, recipe.offset):
                with problems.of():
                    read(frame)
        problems.check()
        recipe._check_names()
        return replace(recipe, notes=(*notes, *_remarks(frame, chosen, targets, learned)))

    # -- from a table to what an estimator takes -------------------------------------------------------------

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, indicators included."""
        return [name for column in self.features for name in column.features]

    @property
    def feature_groups(self) -> list[list[str]]:
        """Features that stand for one column, and are kept or dropped together: levels, and curves."""
        return [column.features for column in self.features if len(column.features) > 1]

    @property
    def text_columns(self) -> list[str]:
        """Columns that are read as text, so that 1.0 and 1 stay as they are in the file."""
        named = [c.name for c in self.features if c.levels is not None and c.levels != ("False", "True")]
        return named if self.task_column is None else [*named, self.task_column]

    def matrix(self, frame: Any, *, unknown_level: str = "error", used: Collection[str] | None = None) -> Any:
        """Encode the features as named columns of numbers.

        Parameters
        ----------
        frame : pandas.DataFrame
            The table.
        unknown_level : {"error", "ignore"}
            Whether an unknown level is refused, or encoded as zeros.
        used : collection of str, optional
            The features that a model uses; columns without any of them are not read, and become zero.

        Returns
        -------
        X : pandas.DataFrame
            One column per feature.
        """
        needed = self.check_features(frame, used)
        columns = {name: frame[name] for name in needed}
        X = self.take_matrix(columns, len(frame), unknown_level=unknown_level)
        X.index = frame.index
        return X

    def check_features(self, frame: Any, used: Collection[str] | None = None) -> list[str]:
        """Refuse a table without the columns that are needed, or with missing values; their names."""
        needed = self._needed(used)
        self._check_present(frame, needed)
        if self.impute is None and self.absent_features == "error":
            check_missing(frame, needed)
        return needed

    def take_matrix(
        self,
        columns: dict[str, Any],
        n_rows: int,
        *,
        rows: np.ndarray | None = None,
        unknown_level: str = "error",
    ) -> Any:
        """Encode columns that were checked, as `matrix` does, and take each out of the dict.

        So a wide table whose frame is gone is not in memory twice. With ``rows``, rows come in this order.
        """
        out, done = np.zeros((n_rows, len(self.feature_names)), order="F"), 0
        for i, column in enumerate(self.features):
            n_features = len(column.features)
            if column.name in columns:
                part = column.encode(columns.pop(column.name), unknown_level=unknown_level)
                out[:, done : done + n_features] = part if rows is None else part[rows]
            done += n_features
            if i % _TAKEN == _TAKEN - 1:
                release_unused()
        return require("pandas", "frames").DataFrame(out, columns=self.feature_names, copy=False)

    def _needed(self, used: Collection[str] | None) -> list[str]:
        """Columns that become one of these features (None: any feature)."""
        return [c.name for c in self.features if used is None or any(name in used for name in c.features)]

    def absent_unused(self, frame: Any, used: Collection[str]) -> list[str]:
        """Columns of features that the table lacks and that a model with these features does not need."""
        needed = self._needed(used)
        return [c.name for c in self.features if c.name not in frame.columns and c.name not in needed]

    def rows(
        self, frame: Any, *, used: Collection[str] | None = None, unknown_level: str = "error"
    ) -> tuple[Any, np.ndarray | None]:
        """Read features and task labels of a pandas, polars or pyarrow table that is not encoded, to predict.

        Parameters
        ----------
        frame : frame
            The table; it may have other columns too.
        used, unknown_level
            As in `matrix`.

        Returns
        -------
        X, labels
            As `matrix` and `labels` give them.
        """
        frame = nw.from_native(frame, eager_only=True).to_pandas()
        task = [] if self.task_column is None else [self.task_column]
        self._check_present(frame, [*task, *self._needed(used)])
        frame, _ = tidy(frame, self.text_columns)
        return self.matrix(frame, used=used, unknown_level=unknown_level), self.labels(frame)

    def labels(self, frame: Any) -> np.ndarray | None:
        """Read the task label of each row; None where no column holds them."""
        column = self._column(frame, self.task_column)
        return None if column is None else read_labels(column, self.task_kind or "str")

    def targets(self, frame: Any) -> Any:
        """Read the targets: one per row, or a frame of several columns, NaN where one was not observed.

        Classes of a single target come as they are; those of several targets as 0 and 1, see ``classes``.
        """
        self._check_present(frame, self.target_columns)
        names, classes = self.target_columns, self.classes
        columns = [frame[name] for name in names]
        found = [finite_numbers(c, "Target") if classes is None else class_codes(c, classes) for c in columns]
        if len(found) > 1:
            by_name = dict(zip(names, found, strict=True))
            return require("pandas", "frames").DataFrame(by_name, index=frame.index)
        check_none_missing(found[0], "Target", names[0])
        return found[0] if classes is None else np.array(classes)[found[0].astype(np.intp)]

    def weights(self, frame: Any) -> np.ndarray | None:
        """Read the weight of each row; None where no column holds them."""
        column = self._column(frame, self.weight_column)
        if column is None:
            return None
        weights = finite_numbers(column, "Weight")
        check_none_missing(weights, "Weight", column.name)
        if (weights < 0).any():
            row = int((weights < 0).argmax())
            raise TableError(
                f"Weight {column.name!r} is {weights[row]:g} in data row {row + 1}: it must be 0 "
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
        columns = {"Offset": self.offset_column, "Exposure": self.exposure_column}
        total = None
        for what, name in columns.items():
            column = self._column(frame, name)
            if column is None:
                continue
            numbers = finite_numbers(column, what)
            check_none_missing(numbers, what, column.name)
            if what == "Exposure" and (numbers <= 0).any():
                row = int((numbers <= 0).argmax())
                raise TableError(
                    f"Exposure {name!r} is {numbers[row]:g} in data row {row + 1}: its logarithm is needed, "
                    "so it must be above 0. Leave such rows out."
                )
            known = np.log(numbers) if what == "Exposure" else numbers
            total = known if total is None else total + known
        return total

    def _column(self, frame: Any, name: str | None) -> Any:
        """A column that the table must have; None where no column was named."""
        if name is None:
            return None
        self._check_present(frame, [name])
        return frame[name]

    # -- plain values ----------------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Give the recipe as JSON types, without its notes."""
        return {name: value for name, value in plain(self).items() if name != "notes"}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> TableRecipe:
        """Make the recipe from what `as_dict` gave; it is checked, because it may come from a file."""
        try:
            recipe = cls(
                features=tuple(FeatureColumn.from_dict(c) for c in expect(saved["features"], list)),
                target_columns=tuple(expect(name, str) for name in expect(saved["target_columns"], list)),
                task_column=expect(saved["task_column"], str, None),
                task_kind=expect(saved["task_kind"], "str", "int", None),
                weight_column=expect(saved["weight_column"], str, None),
                classes=None if saved["classes"] is None else _two_classes(saved["classes"]),
                impute=expect(saved["impute"], *IMPUTE, None),
                group_column=expect(saved.get("group_column"), str, None),
                time_column=expect(saved.get("time_column"), str, None),
                absent_features=expect(saved.get("absent_features", "error"), "error", "allow"),
                offset_column=expect(saved.get("offset_column"), str, None),
                exposure_column=expect(saved.get("exposure_column"), str, None),
            )
            recipe._check_names()
        except (KeyError, TypeError, ValueError) as error:
            raise TableError(f"The recipe of the table is damaged: {error}.") from None
        return recipe

    def _check_names(self) -> None:
        names = self.feature_names
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise TableError(
                f"Two features would be called {twice!r}, an indicator and another column: rename a column."
            )

    @staticmethod
    def _check_present(frame: Any, names: Sequence[str]) -> None:
        absent = [name for name in names if name not in frame.columns]
        if len(absent) == 1:
            known = suggest(absent[0], list(frame.columns))
            raise TableError(f"The table has no column {absent[0]!r}, which the model needs{known}")
        if absent:
            raise TableError(
                f"The table lacks {len(absent)} columns that the model needs: "
                f"{', '.join(map(repr, absent))}. Its columns are {abbreviate(list(frame.columns))}."
            )


def drop_unlabelled(frame: Any, columns: Sequence[str | None]) -> tuple[Any, int]:
    """Leave out rows where one of these columns (those that exist) is missing, and count them."""
    named = [name for name in columns if name is not None and name in frame.columns]
    kept = frame[frame[named].notna().all(axis=1)]
    if not len(kept):
        raise TableError(f"No row has a value in every one of {abbreviate(named)}: nothing is left to fit.")
    return kept.reset_index(drop=True), len(frame) - len(kept)


def _choose(frame, special, features, drop, categories, problems) -> tuple[list[str], list[str]]:
    """Choose the columns that become features; returns their names, and notes about those left out."""
    names, notes = list(frame.columns), []
    for name in dict.fromkeys([*special, *drop, *categories, *(features or ())]):
        if name not in names:
            with problems.of():
                raise TableError(f"The table has no column {name!r}{suggest(name, names)}")
    both = [name for name in special if name in drop]
    if both:
        with problems.of():
            raise TableError(
                f"Column {both[0]!r} is dropped, and is task, target or weight (or group, time): no features "
                "anyway, so leave it out of --drop."
            )
    if features is None:
        nameless = [name for name in names if unnamed(name) and name not in special]
        if nameless:
            notes.append(
                f"{count(len(nameless), 'column')} without a name (row numbers?) "
                f"{'is' if len(nameless) == 1 else 'are'} left out; --features uses {nameless[0]!r}"
            )
        names = [name for name in names if name not in nameless and name not in drop]
    chosen: list[str] = []
    with problems.of():
        wanted = None if features is None else [name for name in features if name in names]
        try:
            chosen = feature_columns(names, [name for name in special if name in names], wanted)
        except (ValueError, TypeError) as error:
            raise TableError(str(error).replace("he frame", "he table")) from None
    return [name for name in chosen if name not in drop], notes


def _curved(chosen: Sequence[str], splines: Sequence[str], problems: Problems) -> dict[str, str]:
    """Which columns become curves: those named always, with "all" those that can."""
    for name in splines:
        if name != "all" and name not in chosen:
            with problems.of():
                raise TableError(f"--splines names {name!r}, which is no feature{suggest(name, chosen)}")
    able = {name: "if it can" for name in chosen if "all" in splines}
    return {**able, **{name: "always" for name in splines if name in chosen}}


def _remarks(
    frame: Any, names: Sequence[str], targets: Sequence[str], columns: Sequence[FeatureColumn]
) -> Iterator[str]:
    """Remarks about features without use, targets without variation and columns of many levels."""
    constant = [name for name in names if frame[name].nunique(dropna=False) == 1]
    if constant:
        has, tell = ("has", "it tells") if len(constant) == 1 else ("have", "they tell")
        yield f"{abbreviate(constant)} {has} one value in all rows: kept, but {tell} nothing"
    for name in targets:
        if frame[name].nunique() == 1:
            yield f"target {name!r} has one value in all rows: there is nothing to predict"
    for column in columns:
        if column.levels is not None and len(column.levels) > _MANY_LEVELS:
            yield f"{column.name!r} has {len(column.features)} levels, each of them a feature"


def _two_classes(saved: Any) -> tuple[Class, Class]:
    first, second = (expect(value, str, int, float, bool) for value in expect(saved, list))
    return first, second
