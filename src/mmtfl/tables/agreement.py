"""What sites agree on before they summarise their rows: columns, coding, folds, and the least number of rows.

An agreement is proposed from one table and holds nothing that belongs to a row of it: fills, first dates and
knots are rounded. Every site codes its own table by it, and keeps the rules of `mmtfl.tasks.disclosure`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np

from mmtfl.persistence.archive import expect
from mmtfl.persistence.files import write_whole
from mmtfl.tables.cells import as_text, read_cells
from mmtfl.tables.column_code import ColumnCode
from mmtfl.tables.encoder import TableEncoder
from mmtfl.tables.recipe import label_kind, numbers_of, observed, read_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.disclosure import (
    LEAST_ROWS,
    check_cells,
    check_columns,
    check_knots,
    check_least,
    check_rows,
    check_scatter,
)
from mmtfl.tasks.grouping import own_folds
from mmtfl.tasks.summaries import SiteSummary
from mmtfl.wording import suggest

FORMAT = "mmtfl agreement 1"
_OF_LEVELS = (0.5, 0.47)  # centre and scale of zeros and ones
_QUANTILES = (0.05, 0.35, 0.65, 0.95)  # four knots cost two columns, and allow a bend in each direction
_PLAIN = {**asdict(ColumnCode("")), "fills": [], "levels": []}  # of fields that a kind of column lacks
EXPLAINED = {
    "task": "The column that says which task a row belongs to, such as the hospital.",
    "task_kind": "Whether its labels are whole numbers (int) or names (str).",
    "target": "The column to predict, a number.",
    "target_centre": "A round number near the middle of the target.",
    "target_scale": "A round number near the spread of the target.",
    "columns": "The columns that are summed up, and how each becomes numbers; no site may add any.",
    "unit": "Of a number: the unit in which all sites write it.",
    "levels": "Of words: the levels that have a column of zeros and ones; others are 'other', if it is one.",
    "reference": "Of words: the level that the others are compared with.",
    "centre": "A round number near the middle of the column; sums are over (value - centre) / scale.",
    "scale": "A round number near the spread of the column.",
    "knots": "Of numbers that may act by a curve: where its pieces meet; rounded, so that none is of a row.",
    "fill": "Of numbers: stands for missing ones where a task has no other; else the task's median, which "
    "stays at the site.",
    "first": "Of dates: they become days since this one, in days since 1970-01-01.",
    "indicated": "Of numbers: whether a column of zeros and ones says which are missing.",
    "folds": "In how many parts the rows of every task are cut for cross-validation.",
    "style": "How numbers or dates are written, where not as 1.5: a decimal comma, marks between thousands.",
    "seed": "Decides the parts, together with the label of the task.",
    "least_rows": "Fewest rows of a task in a part, and of a category in it; a site gives no fewer.",
    "missing": "Codes of missing cells, besides empty ones and the usual.",
}


@dataclass(frozen=True)
class Agreement:
    """How every site turns its table into a summary.

    Examples
    --------
    >>> from mmtfl.datasets import make_hospitals
    >>> from mmtfl.tables.agreement import Agreement
    >>> table = make_hospitals(random_state=0).frame
    >>> aker = table[table["hospital"] == "Aker"]
    >>> agreed = Agreement.propose(aker, task="hospital", target="stay", features=["age", "ward", "dose"])
    >>> agreed.feature_names, agreed.folds
    (['ward=surgery', 'age', 'dose'], 5)
    >>> agreed.summarise(aker).n_rows.tolist()
    [[36, 36, 36, 36, 36]]
    """

    task: str
    target: str
    columns: tuple[ColumnCode, ...]
    task_kind: str = "str"
    folds: int = 5
    seed: int = 0
    least_rows: int = LEAST_ROWS
    missing: tuple[str, ...] = ()
    units: dict[str, str] = field(default_factory=dict)
    knots: dict[str, list[float]] = field(default_factory=dict)
    scales: dict[str, tuple[float, float]] = field(default_factory=dict)

    # -- proposing one ---------------------------------------------------------------------------------------

    @classmethod
    def propose(
        cls,
        frame: Any,
        *,
        task: str,
        target: str,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        categories: Sequence[str] = (),
        reference: Mapping[str, str] | None = None,
        missing: Sequence[Any] = (),
        units: Mapping[str, str] | None = None,
        folds: int = 5,
        seed: int = 0,
        least_rows: int = LEAST_ROWS,
        curves: Sequence[str] = (),
    ) -> Agreement:
        """Propose an agreement from the table of one site; nothing of a single row is in it.

        Parameters
        ----------
        frame : frame
            A table with the columns that all sites have.
        task, target : str
            Columns of the task labels, and of the numbers to predict.
        features : sequence of str, optional
            Columns to predict from, in the order of the table; by default all others but those in `drop`.
        drop : sequence of str
            Columns that are not features.
        categories, reference, missing
            As in ``TableEncoder``.
        units : dict of str to str, optional
            The units of numbers, for the people at the sites.
        folds, seed : int
            How rows are cut for cross-validation.
        least_rows : int
            Fewest rows of a task in a fold.
        curves : sequence of str
            Columns of numbers that may act by a curve; each costs two columns more.
        """
        check_least(least_rows)
        if folds < 2:
            raise ValueError(f"folds={folds}: expected 2 or more.")
        table = nw.from_native(frame, eager_only=True)
        for name in (task, target, *(features or ()), *drop, *(units or {}), *curves):
            if name not in table.columns:
                raise ValueError(f"The table has no column {name!r}{suggest(name, table.columns)}")
        named = table.columns if features is None else features
        chosen = table.select([c for c in table.columns if c in named and c not in (task, target, *drop)])
        encoder = TableEncoder(
            categories=list(categories),
            reference=dict(reference or {}) or None,
            missing=list(missing),
            least_rows=least_rows * folds,
        ).fit(chosen.to_native())
        return cls(
            task=task,
            target=target,
            task_kind=label_kind(table.get_column(task).to_native()),
            columns=tuple(map(_without_rows, encoder.codes_)),
            folds=int(folds),
            seed=int(seed),
            least_rows=int(least_rows),
            missing=tuple(as_text(code) for code in missing),
            units=dict(units or {}),
            knots={name: _round_knots(name, encoder, chosen) for name in curves},
            scales=_scales(encoder, table, target),
        )

    # -- what it says ----------------------------------------------------------------------------------------

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, in the order of a summary."""
        return [name for code in self.columns for name in code.features]

    def encoder(self) -> TableEncoder:
        """The encoder of the agreed columns, without anything of a site."""
        return TableEncoder.of_columns(self.columns, missing=list(self.missing))

    def as_dict(self) -> dict[str, Any]:
        """Give the agreement as JSON types."""
        return {
            "format": FORMAT,
            "task": self.task,
            "task_kind": self.task_kind,
            "target": self.target,
            "target_centre": self.scales[self.target][0],
            "target_scale": self.scales[self.target][1],
            "folds": self.folds,
            "seed": self.seed,
            "least_rows": self.least_rows,
            "missing": list(self.missing),
            "columns": [self._column(code) for code in self.columns],
        }

    def _column(self, code: ColumnCode) -> dict[str, Any]:
        """What is said of one column, by its kind."""
        if not code.is_number:
            own: dict[str, Any] = {"levels": list(code.levels), "reference": code.reference}
        else:
            own = {"unit": self.units.get(code.name, ""), "fill": code.fill, "indicated": code.indicated}
            own |= {"first": code.first} if code.kind == "date" else {}
            own |= {"knots": self.knots[code.name]} if code.name in self.knots else {}
            own |= dict(zip(("centre", "scale"), self.scales[code.name], strict=True))
        return {"name": code.name, "kind": code.kind, **({"style": code.style} if code.style else {}), **own}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Agreement:
        """Make the agreement from what `as_dict` gave; it is checked, because it may come from a file."""
        expect(saved["format"], FORMAT)
        columns = [expect(one, dict) for one in expect(saved["columns"], list)]
        found = cls(
            task=expect(saved["task"], str),
            target=expect(saved["target"], str),
            task_kind=expect(saved["task_kind"], "str", "int"),
            columns=tuple(ColumnCode.from_dict({**_PLAIN, **one}) for one in columns),
            folds=expect(saved["folds"], int),
            seed=expect(saved["seed"], int),
            least_rows=expect(saved["least_rows"], int),
            missing=tuple(expect(code, str) for code in expect(saved["missing"], list)),
            units={one["name"]: expect(one.get("unit", ""), str) for one in columns if one.get("unit")},
            knots={one["name"]: _knots(one["knots"]) for one in columns if one.get("knots")},
            scales={
                saved["target"]: _pair(saved["target_centre"], saved["target_scale"]),
                **{one["name"]: _pair(one["centre"], one["scale"]) for one in columns if "scale" in one},
            },
        )
        check_least(found.least_rows)
        if not 2 <= found.folds <= 100 or not 0 <= found.seed < 2**32 or not columns:
            raise ValueError("it has too few or too many folds, a negative seed, or no columns")
        found.encoder()
        return found

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the agreement as readable JSON, every field explained."""
        text = json.dumps({**self.as_dict(), "explained": EXPLAINED}, indent=1, ensure_ascii=False) + "\n"
        write_whole(path, [text.encode()], overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Agreement:
        """Read an agreement; a file that is something else is a ValueError."""
        try:
            return cls.from_dict(expect(json.loads(Path(path).read_text(encoding="utf-8")), dict))
        except (KeyError, TypeError, ValueError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".")
            raise ValueError(f"{os.fspath(path)!r} is not an agreement of sites: {why}.") from error

    # -- at a site -------------------------------------------------------------------------------------------

    def rows(self, frame: Any) -> tuple[Tasks, np.ndarray]:
        """The rows of a site that have a target, in the agreed coding, and the fold of each."""
        table, task, y = self._labelled(frame)
        coded = self._with_medians(table, task).features(table.to_native(), task)
        X = nw.from_native(coded, eager_only=True).to_numpy()
        tasks = Tasks.from_rows(X, y, task, feature_names=self.feature_names)
        sizes = zip(tasks.labels.tolist(), tasks.sizes.tolist(), strict=True)
        fold = [own_folds(label, n, self.folds, self.seed) for label, n in sizes]
        return tasks, np.concatenate(fold)

    def own_encoder(self, frame: Any) -> TableEncoder:
        """The agreed encoder with the medians of a site's own tasks, which stay with it."""
        return self._with_medians(*self._labelled(frame)[:2])

    def _labelled(self, frame: Any) -> tuple[Any, np.ndarray, np.ndarray]:
        """The rows that have a target and a task label, the labels and the targets."""
        table = nw.from_native(frame, eager_only=True)
        for name in (self.task, self.target):
            if name not in table.columns:
                raise ValueError(f"The table has no column {name!r}{suggest(name, table.columns)}")
        task, target = (table.get_column(name).to_native() for name in (self.task, self.target))
        y = numbers_of(target, "Target", self.missing)
        kept = (~np.isnan(y) & observed(task, self.missing)).tolist()
        table = table.filter(kept)
        return table, read_labels(table.get_column(self.task).to_native(), self.task_kind), y[kept]

    def _with_medians(self, table: Any, task: np.ndarray) -> TableEncoder:
        agreed = [code.name for code in self.columns if code.name in table.columns]
        own = TableEncoder(missing=list(self.missing)).fit(table.select(agreed).to_native(), task=task)
        medians = {code.name: code for code in own.codes_ if code.fills}

        def with_medians(code: ColumnCode) -> ColumnCode:
            found = medians.get(code.name)
            if found is None or found.kind != code.kind:
                return code
            shift = found.first - code.first
            return replace(code, fills=tuple(None if v is None else v + shift for v in found.fills))

        codes = map(with_medians, self.columns)
        return TableEncoder.of_columns(codes, tasks=own.tasks_, missing=list(self.missing))

    def summarise(self, frame: Any) -> SiteSummary:
        """Sum up the rows of a site, if that shows none of them.

        Parameters
        ----------
        frame : frame
            The table of the site; it may have other columns, which are not read.

        Returns
        -------
        summary : SiteSummary
            Numbers of rows, means and scatter by task and fold.
        """
        tasks, fold = self.rows(frame)
        labels = tasks.labels.tolist()
        shape = (tasks.n_tasks, self.folds)
        n_rows = np.bincount(tasks.observation_task * self.folds + fold, minlength=shape[0] * shape[1])
        check_columns(tasks.feature_names or (), self.feature_names)
        check_rows(n_rows.reshape(shape), labels, self.least_rows)
        n_splines = sum(len(at) - 2 for at in self.knots.values())
        check_scatter(n_rows.reshape(shape), labels, tasks.n_features + n_splines + 1)
        for t, k in np.ndindex(*shape):
            cells = self._cells(tasks.X[np.flatnonzero((tasks.observation_task == t) & (fold == k))])
            who = f"Task {labels[t]!r}"
            check_cells(cells, who, self.least_rows)
            for name, at in self.knots.items():
                check_knots(cells[name], at, column=name, who=who, least=self.least_rows)
        units = {**dict.fromkeys(self.feature_names, _OF_LEVELS), **self.scales}
        known: dict[str, Any] = {"target": self.target, "curves": self.knots, "units": units}
        return SiteSummary.of_rows(tasks, fold, self.as_dict(), **known)

    def _cells(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """Features, and of words the reference level too, by name."""
        cells, done = dict(zip(self.feature_names, X.T, strict=True)), 0
        for code in self.columns:
            own = X[:, done : done + len(code.features)]
            if len(code.levels) > 1:
                cells[f"{code.name}={code.reference}"] = 1.0 - own.sum(axis=1)
            done += len(code.features)
        return cells


def _scales(encoder: TableEncoder, table: Any, target: str) -> dict[str, tuple[float, float]]:
    """Round numbers near the middle and the spread of numbers and of the target."""
    missing = [as_text(code) for code in encoder.missing]
    first = {code.name: _without_rows(code).first for code in encoder.codes_ if code.is_number}
    found = {}
    for name in [*first, target]:
        numbers = read_cells(table.get_column(name), missing).numbers
        if numbers is None:
            raise ValueError(f"The target {name!r} does not hold numbers: other targets need the rows.")
        numbers = numbers - first.get(name, 0.0)
        spread = float(f"{np.nanstd(numbers):.2g}") or 1.0
        # no power of ten: means of numbers with few digits would keep these digits
        spread = 1.1 * spread if np.isclose(np.log10(spread) % 1.0, 0.0) else spread
        found[name] = float(f"{np.nanmedian(numbers):.2g}"), spread
    return found


def _pair(centre: Any, scale: Any) -> tuple[float, float]:
    pair = float(expect(centre, int, float)), float(expect(scale, int, float))
    if not (np.isfinite(pair).all() and pair[1] > 0.0):
        raise ValueError(f"a column has the scale {scale!r}, which is not positive")
    return pair


def _round_knots(name: str, encoder: TableEncoder, chosen: Any) -> list[float]:
    """Knots at quantiles of a column, rounded so coarsely that none is the value of a row."""
    if name not in [code.name for code in encoder.codes_ if code.kind == "number"]:
        raise ValueError(f"Column {name!r} does not hold numbers, or is no feature: it has no curve.")
    numbers = read_cells(chosen.get_column(name), map(as_text, encoder.missing)).numbers
    assert numbers is not None
    at = np.nanquantile(numbers, _QUANTILES)
    unit = 10.0 ** np.floor(np.log10(max(float(np.ptp(at)), 1e-300) / 5.0))
    knots = [float(f"{value:.12g}") for value in np.unique(np.round(at / unit) * unit)]
    if len(knots) < 3:
        raise ValueError(f"Column {name!r} has too few different values for a curve.")
    return knots


def _knots(saved: Any) -> list[float]:
    """Knots from a file: three to six numbers that rise."""
    knots = [float(expect(value, int, float)) for value in expect(saved, list)]
    if not 3 <= len(knots) <= 6 or not np.isfinite(knots).all() or np.diff(knots).min() <= 0.0:
        raise ValueError(f"knots {saved!r} are not three to six numbers that rise")
    return knots


def _without_rows(code: ColumnCode) -> ColumnCode:
    """A column's code without anything that belongs to a row: medians and the first date are rounded."""
    first = code.first
    if code.kind == "date":
        year = np.datetime64(int(np.floor(first)), "D").astype("datetime64[Y]")
        first = float(year.astype("datetime64[D]").astype(int))
    fill = float(f"{code.fill + code.first - first:.2g}")
    return replace(code, fill=fill, fills=(), first=first, indicated=False)
