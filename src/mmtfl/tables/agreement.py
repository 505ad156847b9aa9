"""What sites agree on before they summarise their rows: columns, coding, folds, and the least number of rows.

An agreement is proposed from one table and holds nothing that belongs to a row of it: fills, first dates and
knots are rounded. Every site codes its own table by it, and keeps the rules of `mmtfl.tasks.disclosure`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import narwhals as nw
import numpy as np

from mmtfl.persistence.archive import expect, made_of, plain
from mmtfl.persistence.files import write_whole
from mmtfl.tables.cells import as_text, read_cells
from mmtfl.tables.column_code import ColumnCode
from mmtfl.tables.encoder import TableEncoder
from mmtfl.tables.recipe import label_kind, numbers_of, observed, read_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.disclosure import (
    LEAST_ROWS,
    check_cells,
    check_knots,
    check_least,
    check_rows,
)
from mmtfl.tasks.grouping import own_folds
from mmtfl.tasks.summaries import SiteSummary
from mmtfl.wording import count, suggest

FORMAT = "mmtfl agreement 1"
_QUANTILES = (0.05, 0.35, 0.65, 0.95)  # four knots cost two columns, and allow a bend in each direction


@dataclass(frozen=True)
class AgreedColumn(ColumnCode):
    """How all sites code a column, and what is said of it besides.

    Attributes
    ----------
    unit : str
        Of numbers: the unit in which all sites write them.
    knots : tuple of float
        Of numbers that may act by a curve: where its pieces meet.
    """

    unit: str = ""
    knots: tuple[float, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """What is said of the column: all that is not as usual."""
        return {k: v for k, v in plain(self).items() if k in ("name", "kind") or v != _USUAL[k]}

    def __post_init__(self) -> None:
        at = self.knots
        if at and not (3 <= len(at) <= 6 and np.isfinite(at).all() and np.diff(at).min() > 0.0):
            raise ValueError(f"knots {list(at)!r} are not three to six numbers that rise")


_USUAL = plain(AgreedColumn(""))


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
    task_kind: Literal["str", "int"]
    target: str
    folds: int
    seed: int
    least_rows: int
    missing: tuple[str, ...]
    columns: tuple[AgreedColumn, ...]

    def __post_init__(self) -> None:
        check_least(self.least_rows)
        if not 2 <= self.folds <= 100:
            raise ValueError(f"folds={self.folds}: expected 2 or more, and 100 at most.")
        if not 0 <= self.seed < 2**32 or not self.columns:
            raise ValueError("it has a negative seed, or no columns")

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
        no_feature = [name for name in curves if name not in encoder.columns_]
        if no_feature:
            raise ValueError(f"Column {no_feature[0]!r} is no feature: it has no curve.")
        numbers_of(table.get_column(target).to_native(), "Target", [as_text(code) for code in missing])
        return cls(
            task=task,
            task_kind=label_kind(table.get_column(task).to_native()),
            target=target,
            folds=int(folds),
            seed=int(seed),
            least_rows=int(least_rows),
            missing=tuple(as_text(code) for code in missing),
            columns=tuple(_agreed(code, chosen, encoder, units or {}, curves) for code in encoder.codes_),
        )

    # -- what it says ----------------------------------------------------------------------------------------

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, in the order of a summary."""
        return [name for code in self.columns for name in code.features]

    def features_of_columns(self) -> Iterator[tuple[AgreedColumn, slice]]:
        """The columns, and which of the features each has."""
        done = 0
        for code in self.columns:
            yield code, slice(done, done + len(code.features))
            done += len(code.features)

    @property
    def knots(self) -> dict[str, list[float]]:
        """Where the pieces of columns meet that may act by a curve."""
        return {code.name: list(code.knots) for code in self.columns if code.knots}

    def encoder(self) -> TableEncoder:
        """The encoder of the agreed columns, without anything of a site."""
        return TableEncoder.of_columns(self.columns, missing=list(self.missing))

    def as_dict(self) -> dict[str, Any]:
        """Give the agreement as JSON types."""
        return {"format": FORMAT, **plain(self), "columns": [code.as_dict() for code in self.columns]}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> Agreement:
        """Make the agreement from what `as_dict` gave; it is checked, because it may come from a file."""
        expect(saved["format"], FORMAT)
        found: Agreement = made_of(cls, saved)
        found.encoder()
        return found

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the agreement as readable JSON, every field explained."""
        explained = json.loads((files("mmtfl.tables") / "agreement.json").read_text(encoding="utf-8"))
        text = json.dumps({**self.as_dict(), "explained": explained}, indent=1, ensure_ascii=False) + "\n"
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
        check_rows(n_rows.reshape(shape), labels, self.least_rows)
        for t, k in np.ndindex(*shape):
            cells = self._cells(tasks.X[np.flatnonzero((tasks.observation_task == t) & (fold == k))])
            who = f"Task {labels[t]!r}"
            check_cells(cells, who, self.least_rows)
            for name, at in self.knots.items():
                check_knots(cells[name], at, column=name, who=who, least=self.least_rows)
        return SiteSummary.of_rows(tasks, fold, self.as_dict(), target=self.target, curves=self.knots)

    def _cells(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """Features, and of words the reference level too, by name."""
        cells = dict(zip(self.feature_names, X.T, strict=True))
        for code, own in self.features_of_columns():
            if len(code.levels) > 1:
                cells[f"{code.name}={code.reference}"] = 1.0 - X[:, own].sum(axis=1)
        return cells


def _agreed(
    code: ColumnCode, table: Any, encoder: TableEncoder, units: Mapping[str, str], curves: Sequence[str]
) -> AgreedColumn:
    """What is proposed for a column, without anything that belongs to a row."""
    known: dict[str, Any] = {}
    if code.name in curves:
        known["knots"] = _round_knots(code, table, encoder)
    if code.is_number:
        first = code.first
        if code.kind == "date":
            year = np.datetime64(int(np.floor(first)), "D").astype("datetime64[Y]")
            first = float(year.astype("datetime64[D]").astype(int))
        fill = float(f"{code.fill + code.first - first:.2g}")
        known |= {"unit": units.get(code.name, ""), "fill": fill, "first": first}
    return AgreedColumn(**{**vars(code), "fills": (), "indicated": False, **known})


def _round_knots(code: ColumnCode, table: Any, encoder: TableEncoder) -> tuple[float, ...]:
    """Knots at quantiles of a column, rounded so coarsely that none is the value of a row."""
    numbers = read_cells(table.get_column(code.name), map(as_text, encoder.missing)).numbers
    if numbers is None or code.kind != "number":
        raise ValueError(f"Column {code.name!r} does not hold numbers: it has no curve.")
    at = np.nanquantile(numbers, _QUANTILES)
    unit = 10.0 ** np.floor(np.log10(max(float(np.ptp(at)), 1e-300) / 5.0))
    knots = tuple(float(f"{value:.12g}") for value in np.unique(np.round(at / unit) * unit))
    if len(knots) < 3:
        raise ValueError(f"Column {code.name!r} has too few different values for a curve.")
    return knots


# -- in plain words ------------------------------------------------------------------------------------------


def describe(summary: SiteSummary) -> list[str]:
    """Say in plain words what a summary tells of its site, and what it does not.

    Examples
    --------
    >>> from mmtfl.datasets import make_hospitals
    >>> from mmtfl.tables.agreement import Agreement
    >>> from mmtfl.tables.agreement import describe
    >>> table = make_hospitals(random_state=0).frame
    >>> aker = table[table["hospital"] == "Aker"]
    >>> agreed = Agreement.propose(aker, task="hospital", target="stay", features=["age", "ward"])
    >>> print(describe(agreed.summarise(aker))[0])
    This summary is about 180 rows of 1 task: Aker.
    """
    agreed = Agreement.from_dict(summary.agreement)
    n_rows, (T, K), p = summary.n_rows, summary.n_rows.shape, len(summary.columns)
    fewest, where = _smallest(summary, agreed)
    return [
        f"This summary is about {count(int(n_rows.sum()), 'row')} of {count(T, 'task')}: "
        f"{', '.join(map(str, summary.labels))}.",
        "It has no row, no name, no identifier, and no smallest or largest value.",
        "",
        f"The rows of each task were dealt at random to {K} parts. For each task and part the file has:",
        f"  {T * K:>6} numbers of rows (the smallest is {n_rows.min()}),",
        f"  {T * K * p:>6} means: one for each of the columns below,",
        f"  {T * K * p:>6} sums of squared deviations, which are the spreads of the columns,",
        f"  {T * K * p * (p - 1) // 2:>6} sums of products of deviations, one for each pair of columns.",
        "",
        f"The {p} columns:",
        *(f"  {line}" for code in agreed.columns for line in _in_words(code)),
        f"  {agreed.target}: the target, a number",
        "",
        f"Smallest cell: {where} ({count(fewest, 'row')}).",
        f"Fewest rows allowed in a part, and in a category of it: {agreed.least_rows}. So that no column can "
        f"be solved for from the others, a part needs {p + 2} rows.",
        *_constant(summary),
        "Whoever reads the file learns these means, spreads and correlations, and of categories how many "
        "rows have them, also two at a time. Who knows all rows of a part but one can work out that one.",
        f"Agreement: {summary.agreement_hash[:16]}, content: {summary.content_hash[:16]}.",
    ]


def _in_words(code: AgreedColumn) -> Iterator[str]:
    """What a summary has of a column."""
    if not code.is_number:
        yield f"{code.name}: shares of {', '.join(code.levels)} (the rest: {code.reference})"
    else:
        yield f"{code.name}: a {code.kind}" + (f" in {code.unit}" if code.unit else "")
    if code.knots:
        listed = ", ".join(f"{knot:g}" for knot in code.knots)
        yield f"{code.name}, as a curve: {count(len(code.knots) - 2, 'column')} more, with knots {listed}"


def _smallest(summary: SiteSummary, agreed: Agreement) -> tuple[int, str]:
    """The cell with the fewest rows that the file tells of: a part, or a category in one."""
    cells = {"": summary.n_rows}
    for code, own in agreed.features_of_columns():
        if not code.is_number:
            counts = np.moveaxis(
                np.rint(summary.mean[..., own] * summary.n_rows[..., None]).astype(int), -1, 0
            )
            counts = [*counts, summary.n_rows - counts.sum(axis=0)]
            levels = (f"{code.name}={level} in " for level in (*code.levels, code.reference))
            cells |= dict(zip(levels, counts, strict=True))
    return min(
        (int(n), f"{name}a part of task {summary.labels[t]!r}")
        for name, counts in cells.items()
        for (t, _), n in np.ndenumerate(counts)
        if n > 0
    )


def _constant(summary: SiteSummary) -> list[str]:
    """A sentence on columns that do not vary in a task, so that their mean is the value of every row."""
    mean = summary.mean
    squares = np.diagonal(summary.scatter, axis1=2, axis2=3).sum(axis=1)
    found = [
        f"{summary.columns[j]} in task {summary.labels[t]!r}"
        for t, j in np.argwhere(squares <= 1e-20 * (mean**2).sum(axis=1))
    ]
    if not found:
        return []
    return [f"The same in all rows, so that the value of every row is known: {', '.join(found)}."]
