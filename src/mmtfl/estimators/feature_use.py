"""What a fitted model shows: how tasks use features, effects, curves, a few lines in a notebook; its file."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from types import MethodType
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.fitted_curves import curve_columns, shapes, sizes_of
from mmtfl.inference.effect_table import EffectTable, check_coverage, level_findings, level_sentence
from mmtfl.tasks.frames import make_frame
from mmtfl.wording import count

KINDS = ("shared", "partial", "single", "none")
MEANINGS = {  # what a kind is called where people read it
    "shared": "used by all tasks",
    "partial": "used by some tasks",
    "single": "used by one task",
    "none": "not used",
}
TOP = 10  # features that a notebook shows
LONGEST = 60  # characters of a name that are shown; the rest is in its tooltip


class Range(NamedTuple):
    """Mean, smallest and largest coefficient of each feature, over the tasks that could use it."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class FeatureUse:
    """How the tasks use each feature; arrays of shape (n_features,).

    Attributes
    ----------
    n_counted : int
        Number of tasks that count: all but those that a model sets apart.
    n_tasks, n_possible : ndarray
        How many of these tasks use the feature, and how many could.
    kind : ndarray of str
        "shared", "partial", "single" or "none".
    only : ndarray
        The label of the one task that uses it, else None.
    agreement : ndarray
        Share of the tasks that use it whose coefficient has the more frequent sign; NaN for no task.
    coef : Range
        Coefficients, in the units of the data.
    per_sd : Range
        The same per standard deviation of the feature over all rows.
    """

    n_counted: int
    n_tasks: np.ndarray
    n_possible: np.ndarray
    kind: np.ndarray
    only: np.ndarray
    agreement: np.ndarray
    coef: Range
    per_sd: Range


def feature_use(model: Any) -> FeatureUse:
    """Summarise how the tasks of a fitted model use each feature."""
    counted = model._counted()
    coef, uses = model.coef_, model._uses()
    possible = np.ones(coef.shape, dtype=bool) if model.usable_ is None else model.usable_
    if not counted.all():
        coef, possible, uses = coef[counted], possible[counted], uses[counted]
    used = uses & possible  # with pooling, a task that could not use a feature has the common part
    n_tasks, n_possible = np.count_nonzero(used, axis=0), np.count_nonzero(possible, axis=0)
    conditions = [n_tasks == 0, n_tasks == 1, n_tasks == n_possible]
    positive = np.count_nonzero((coef > 0.0) & used, axis=0)
    only = np.full(coef.shape[1], None, dtype=object)
    single = np.flatnonzero(n_tasks == 1)
    if single.size:
        only[single] = model.tasks_[counted][used[:, single].argmax(axis=0)].tolist()
    values = _range(coef, possible)
    return FeatureUse(
        n_counted=len(coef),
        n_tasks=n_tasks,
        n_possible=n_possible,
        kind=np.select(conditions, ["none", "single", "shared"], default="partial"),
        only=only,
        agreement=np.divide(
            np.maximum(positive, n_tasks - positive),
            n_tasks,
            out=np.full(len(n_tasks), np.nan),
            where=n_tasks > 0,
        ),
        coef=values,
        per_sd=Range(*(part * model.feature_spread_ for part in values)),
    )


def _range(coef: np.ndarray, possible: np.ndarray) -> Range:
    n = np.count_nonzero(possible, axis=0)
    mean = coef.sum(axis=0, where=possible) / np.maximum(n, 1)
    low = coef.min(axis=0, initial=np.inf, where=possible)
    high = coef.max(axis=0, initial=-np.inf, where=possible)
    return Range(mean, np.where(n > 0, low, 0.0), np.where(n > 0, high, 0.0))


# -- in words ------------------------------------------------------------------------------------------------


def used_by(use: FeatureUse, j: int) -> str:
    """Say who uses feature j: "all 8 tasks", "3 of 8 tasks", "all 7 tasks that could", "one task (Bern)"."""
    n, possible = int(use.n_tasks[j]), int(use.n_possible[j])
    if n < 2:
        return f"one task ({use.only[j]})" if n else "no task"
    of = f"all {n} tasks" if n == possible else f"{n} of {possible} tasks"
    return of if possible == use.n_counted else f"{of} that could"


def use_counts(use: FeatureUse) -> str:
    """Say how many features are used by how many tasks: "2 by all 4 tasks, 0 by some, 1 by one"."""
    kinds = use.kind.tolist()
    shared, partial, single = (kinds.count(kind) for kind in ("shared", "partial", "single"))
    everywhere = bool((use.n_possible[use.kind == "shared"] == use.n_counted).all())
    who = f"all {use.n_counted} tasks" if everywhere else "all tasks that could use them"
    return f"{shared} by {who}, {partial} by some, {single} by one"


def usage_notes(model: Any, use: FeatureUse, member: Any) -> list[str]:
    """Say what the number of tasks that use a feature does not: of a model, or of the member (p, k)."""
    used, notes = use.n_tasks > 0, []
    if use.n_counted > 1 and used.any():
        everywhere = bool((use.n_possible[used] == use.n_counted).all())
        who = "every task" if everywhere else "every task that could use it"
        if hasattr(model, "outlier_") or (member is not None and member[0] > 1):
            which = "In this model" if member is None else f"With p = {member[0]:g}"
            notes.append(
                f"{which} a kept feature is used by {who} by construction: the table says which features the "
                "model keeps, not in which tasks they matter."
            )
        if not everywhere:
            notes.append("A task could use a feature only if it varies within the task's rows.")
    if len(getattr(model, "outlier_tasks_", ())):
        notes.append("Tasks that the model sets apart are not counted.")
    return [*notes, *_about_common_part(model)]


def _about_common_part(model: Any) -> list[str]:
    """Say how far the tasks' coefficients scatter about what is common to them; nothing without pooling."""
    columns = model._common_columns()
    if not columns:
        return []
    common, scatter = np.abs(columns["common"]), columns["scatter"]
    kept = common > 0.0
    if not kept.any():
        return ["Nothing is common to the tasks: their common part is zero."]
    ratio = float(np.median(scatter[kept] / common[kept]))
    return [
        "The tasks' coefficients scatter about a common part, which is not zero for "
        f"{count(int(kept.sum()), 'feature')}: in the median of these, the distance of the tasks from it "
        f"(root mean square) is {ratio:.2g} times its size."
    ]


# -- as a table and in a notebook ----------------------------------------------------------------------------


def summary_columns(model: Any) -> dict[str, Any]:
    """The columns of `summary`, a row for each feature, largest first."""
    kinds, directions = shapes(model)
    sizes, names, use = sizes_of(model), model._feature_names(), feature_use(model)
    order = np.argsort(-next(iter(sizes.values())), kind="stable")
    columns = {
        "feature": [names[j] for j in order],
        **{name: size[order] for name, size in (sizes | model._common_columns()).items()},
        "n_tasks": use.n_tasks[order],
        "kind": use.kind[order].tolist(),
        "mean_coef": use.coef.mean[order],
        "min_coef": use.coef.low[order],
        "max_coef": use.coef.high[order],
        "mean_coef_per_sd": use.per_sd.mean[order],
        "n_possible": use.n_possible[order],
        "shape": [kinds[j] for j in order],
        "direction": [directions[j] for j in order],
    }
    if "levels_" in vars(model):
        found = level_findings(model)
        columns["level_effect"] = np.array([found.get(j, np.nan) for j in order.tolist()])
    return columns


def sharing_html(model: Any) -> str:
    """Show as HTML how many features are used by how many tasks, and the largest; names are escaped."""
    use = feature_use(model)
    T, d = model.coef_.shape
    n_used = int(np.count_nonzero(use.n_tasks))
    told = f"{n_used} used" + (f": {use_counts(use)}" if n_used and use.n_counted > 1 else "")
    head = escape(f"{count(T, 'task')}, {count(d, 'feature')}, {told}. {level_sentence(model)}".rstrip())
    return f'<div class="mmtfl-sharing"><p>{head}</p>{_top_features(model, use)}</div>'


def _top_features(model: Any, use: FeatureUse) -> str:
    name, size = next(iter(sizes_of(model).items()))
    order = np.argsort(-size, kind="stable")[:TOP]
    order = order[use.n_tasks[order] > 0]
    if not len(order):
        return ""
    names, coef, per_sd = model._feature_names(), use.coef, use.per_sd
    rows = "".join(
        f'<tr><th style="text-align:left">{_name(names[j])}</th><td>{_name(used_by(use, j))}</td>'
        f"<td>{size[j]:.4g}</td><td>{coef.mean[j]:.4g}</td><td>{coef.low[j]:.4g} to {coef.high[j]:.4g}</td>"
        f"<td>{per_sd.mean[j]:.4g}</td></tr>"
        for j in order
    )
    heads = ("feature", "used by", name, "mean coefficient", "range over tasks", "mean per s.d.")
    columns = "".join(f"<th>{escape(column)}</th>" for column in heads)
    return (
        f"<details><summary>Largest features</summary><table><thead><tr>{columns}</tr></thead>"
        f"<tbody>{rows}</tbody></table></details>"
    )


def _name(name: str) -> str:
    if len(name) <= LONGEST:
        return f"<bdi>{escape(name)}</bdi>"
    return f'<bdi title="{escape(name)}">{escape(name[:LONGEST])}…</bdi>'


# -- the methods of every fitted model -----------------------------------------------------------------------


class ParameterAndMethod:
    """A method with the name of a parameter: assignment stores the parameter, reading gives the method."""

    def __init__(self, method: Callable[..., Any]):
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else MethodType(self.method, model)

    def __set__(self, model: Any, value: Any) -> None:
        vars(model)[self.method.__name__] = value


class Results:
    """What is learned, for people: tables of features and of effects, curves, and a file."""

    def summary(self) -> Any:
        """Tell which features are used by all tasks, by some, by one or by none, and which way.

        A task could use a feature if the feature varies within its rows. With p > 1 a kept feature is used by
        every task that could use it by construction: the table says which features the model keeps, not in
        which tasks they matter.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            One row per feature, largest ``c`` first:

            - feature, c;
            - common and scatter, where the model has a common part (``pooling``): what the tasks'
              coefficients scatter about, and the root mean square over the tasks of their distance from it,
              both in the units of the data;
            - n_tasks: how many tasks use it;
            - kind: "shared" (used by all tasks that could use it), "partial" (by at least two, but not all),
              "single" (by one) or "none";
            - mean_coef, min_coef, max_coef: mean, smallest and largest coefficient over the tasks that could
              use it, in the units of the data;
            - mean_coef_per_sd: the mean for one standard deviation of the feature over all rows;
            - n_possible: how many tasks could use it;
            - shape: "line" or "curve", empty if it is not used;
            - direction: "rising" or "falling" where the common part, or the mean over the tasks, is monotone
              over the range of the rows fitted, else empty (coefficients are those of the lines alone);
            - level_effect, where levels are shrunk: how much higher the level of a task is where a column
              that is the same in all its rows is higher by one; NaN where that is not found, at a false
              discovery rate of 10 %.
        """
        model = self._fitted()
        return make_frame(summary_columns(model), model._backend)

    def _fitted(self) -> Any:
        """The fitted model: of a search around a model, the model that was chosen."""
        check_is_fitted(self)
        return vars(self).get("best_estimator_", self)

    def _html_repr(self) -> str:
        fitted = vars(self).get("best_estimator_", self)
        return super()._html_repr() + (sharing_html(fitted) if hasattr(fitted, "coef_") else "")  # type: ignore[misc]

    def curve(self, feature: Any, values: Any = None, task: Any = None) -> Any:
        """Give the effect of a feature on the linear predictor, at some of its values.

        Parameters
        ----------
        feature : str or int
            Its name, or its position.
        values : array-like of shape (n_values,), optional
            Where; by default 101 values over the range of the rows fitted. Beyond it curves go on straight.
        task : str, int or list of them, optional
            Labels of tasks; by default the common part of a model with pooling, and the mean over the tasks
            of another one.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            The values under the name of the feature, the task where tasks were asked for, and ``effect``,
            whose mean over the rows fitted is zero.

        Examples
        --------
        >>> import numpy as np
        >>> from mmtfl import MMTFLRegressor
        >>> rng = np.random.default_rng(0)
        >>> X, task = rng.uniform(-1, 1, size=(400, 2)), np.repeat(["a", "b"], 200)
        >>> y = X[:, 0] ** 2 + X[:, 1] + 0.1 * rng.normal(size=400)
        >>> model = MMTFLRegressor(p=2, k=2, alpha=0.001, curves=True).fit(X, y, task=task)
        >>> model.curve(0, [-1.0, 0.0, 1.0])["effect"].round(1).tolist()
        [0.6, -0.3, 0.6]
        """
        model = self._fitted()
        return make_frame(curve_columns(model, feature, values, task), model._backend)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters, as in scikit-learn; `effects` is the name of a method too."""
        params = super().get_params(deep)  # type: ignore[misc]
        return {**params, "effects": vars(self)["effects"]} if "effects" in params else params

    def _effects(self, coverage: float = 0.9) -> Any:
        """Tell for each feature how much it matters on average over the tasks, and how far the tasks differ.

        An effect is the change of the prediction (of log odds for classes, of the logarithm for counts) per
        unit of the feature, with the other features held. It is not shrunk, and has an error, whether the
        model keeps the feature or not. The average over tasks is that of a random-effects meta-analysis;
        see ``docs/how_sure.md``.

        Parameters
        ----------
        coverage : float, default=0.9
            Of all intervals.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            One row per feature, largest evidence first:

            - feature, column: its name, and the column of the table that it comes from;
            - average, lower, upper: the average effect over tasks with its interval; p, q: the p-value of
              no average effect (of a curve: between its quartiles, nor of any of its pieces), and the false
              discovery rate over features;
            - spread, spread_lower, spread_upper: standard deviation of the effect between tasks;
              same_direction: share of tasks whose effect has the sign of the average; new_task_lower,
              new_task_upper: what a new task may have;
            - n_tasks: in how many tasks the feature varies;
            - per_sd: average per standard deviation of the feature; quartiles, quartiles_lower,
              quartiles_upper: of going from its lower to its upper quartile;
            - p_column: joint test of all features of the column;
            - word: "everywhere", "differs", "on average", "only in some", "not found", "too few tasks" or
              "cannot be told apart"; note: what belongs to it;
            - odds_ratio (classes) or rate_ratio (counts), with _lower and _upper: exp of the average.

        Examples
        --------
        >>> from mmtfl import MMTFLRegressorCV
        >>> from mmtfl.datasets import make_hospitals
        >>> table = make_hospitals(random_state=0).frame
        >>> X, hospital = table[["age", "crp", "pulse"]], table["hospital"]
        >>> model = MMTFLRegressorCV(alphas=15, cv=3, standardize=True).fit(X, table["stay"], task=hospital)
        >>> model.effects()[["feature", "word"]].values.tolist()
        [['crp', 'everywhere'], ['age', 'everywhere'], ['pulse', 'not found']]
        """
        model = self._fitted()
        return make_frame(EffectTable(model, check_coverage(coverage)).columns(), model._backend)

    _effects.__name__ = "effects"
    effects: Any = ParameterAndMethod(_effects)

    def task_effects(self, feature: str | int, coverage: float = 0.9) -> Any:
        """Tell the effect of one feature in every task.

        Parameters
        ----------
        feature : str or int
            Its name or position.
        coverage : float, default=0.9
            Of all intervals.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            One row per task: task; effect, lower, upper: what its own rows show, NaN where the feature does
            not vary; shrunk, shrunk_lower, shrunk_upper: the same drawn to the average of all tasks;
            n_rows.

        Examples
        --------
        >>> from mmtfl import MMTFLRegressor
        >>> from mmtfl.datasets import make_tasks
        >>> data = make_tasks(n_tasks=3, n_samples=60, n_features=4, n_informative=2, random_state=0)
        >>> model = MMTFLRegressor(alpha=0.1, effects=True).fit(data.X, data.y, task=data.task)
        >>> model.task_effects("x0").columns.tolist()
        ['task', 'effect', 'lower', 'upper', 'shrunk', 'shrunk_lower', 'shrunk_upper', 'n_rows']
        """
        model = self._fitted()
        table = EffectTable(model, check_coverage(coverage))
        return make_frame(table.of_tasks(table.place(feature)), model._backend)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Save the fitted model in one file, for `mmtfl.load`.

        Predictions of the loaded model are the same, bit for bit. Parameters with no place in a file, such
        as an engine or a splitter of your own, are left out with a warning: predictions do not need them.

        Parameters
        ----------
        path : str or path
            The file; its name usually ends in ``.mmtfl``. It is written whole or not at all.
        overwrite : bool, default=True
            Whether a file of that name may be replaced.
        """
        from mmtfl.estimators.model_files import save_model

        save_model(self, path, overwrite=overwrite)
