"""Effects that can be quoted: averages over tasks with intervals, and how far the tasks differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MethodType
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.prepared import Prepared
from mmtfl.inference.effects import (
    MOST_FEATURES,
    Effects,
    Plan,
    Pooled,
    Steps,
    Totals,
    explained_by,
    finished,
    largest_scores,
)
from mmtfl.inference.meta_analysis import MetaAnalysis, joint_p
from mmtfl.inference.row_moments import Columns, RowsAtFit
from mmtfl.inference.words import FOUND, in_sentences, judge, note_of
from mmtfl.objective.losses import Loss
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.frames import make_frame
from mmtfl.tasks.scaling import column_range, column_spread, could_use
from mmtfl.wording import noun_of_tasks, suggest

_MOST_ROWS = 100_000  # of which quartiles are taken
_MOST_JOINT = 60  # features of one column that are tested together
_FEWEST_TASKS, _FEWEST_ROWS = 3, 2.5  # tasks, and rows for each feature, from which a second step is taken
_QUARTILE = 0.6744897501960817  # of a normal variable, where rows are not here
RATIOS = {"logistic": "odds_ratio", "poisson": "rate_ratio"}


class ParameterAndMethod:
    """A method with the name of a parameter: assignment stores the parameter, reading gives the method."""

    def __init__(self, method: Callable[..., Any]):
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else MethodType(self.method, model)

    def __set__(self, model: Any, value: Any) -> None:
        vars(model)[self.method.__name__] = value


class QuotesEffects:
    """Effects of the features, unshrunk, with errors: `effects` and `task_effects`."""

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
              no average effect, and the false discovery rate over features;
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
        >>> from mmtfl.datasets import make_tasks
        >>> data = make_tasks(n_tasks=6, n_samples=80, n_features=5, n_informative=2, noise=0.5,
        ...                   random_state=0, law=lambda rng, shape: 1.0 + 0.1 * rng.uniform(size=shape))
        >>> model = MMTFLRegressorCV(alphas=15, cv=3).fit(data.X, data.y, task=data.task)
        >>> model.effects()[["feature", "word"]].head(3).values.tolist()
        [['x0', 'everywhere'], ['x1', 'everywhere'], ['x4', 'not found']]
        """
        model = self._fitted()  # type: ignore[attr-defined]
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
        model = self._fitted()  # type: ignore[attr-defined]
        table = EffectTable(model, check_coverage(coverage))
        return make_frame(table.of_tasks(table.place(feature)), model._backend)

    def _learn_effects(self, prepared: Any) -> None:
        """Estimate effects and errors, if the parameters ask for them."""
        vars(self).pop("effects_", None)
        if vars(self).get("effects"):
            self.effects_ = learn_effects(self, prepared)


def check_coverage(coverage: float) -> float:
    """Check a share of intervals."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}: use 0.9.")
    return float(coverage)


# -- at the end of a fit -----------------------------------------------------------------------------------


def learn_effects(model: Any, prepared: Prepared) -> dict[str, Any]:
    """What `effects` and `task_effects` are made of: effects and errors of the tasks that were fitted.

    The model still has the columns of curves behind its features.
    """
    unit = _target_unit(model, prepared)
    coef, intercept = model.coef_ / unit[:, None], model.intercept_ / unit
    source = _source(model, prepared, coef, intercept, unit)
    basis = getattr(prepared.tasks, "curves", None)
    d = coef.shape[1] if basis is None else basis.n_features
    features = np.arange(d)
    if d > MOST_FEATURES:
        features = largest_scores(coef[:, :d].any(axis=0), source.scores()[:d])
    lower, upper = source.quartiles(prepared, features)
    columns = _columns(prepared, coef, features, upper, lower)
    source, usable = source.only(columns), prepared.could_use(fit_intercept=model.fit_intercept)
    coef, usable = columns.coef(coef), usable[:, columns.places]
    names, n = model._feature_names(), len(features)
    joint = _joint(columns_of(model), features, columns)
    explained, correlation = explained_by(Pooled.of(source.totals()).first(n)), source.correlation()
    usable[:, list(explained)] = False
    found = _two_steps(source, coef, usable, joint, _noise_of(model))
    others = [", ".join(f"`{names[features[k]]}`" for k in explained.get(j, ())) for j in range(n)]
    scale = unit[:, None] / columns.unit[:n]
    return {
        "features": features,
        "effect": found.effect[:, :n] * scale,
        "error": found.error[:, :n] * scale,
        "degrees": found.degrees,
        "sd": np.asarray(prepared.spread(features), dtype=float),
        "lower_quartile": lower,
        "upper_quartile": upper,
        "is_curve": np.isin(np.arange(n), columns.line),
        "p_column": _p_columns(found, joint, correlation)[:n],
        "explained": np.array(others, dtype=object),
        **({} if correlation is None else {"correlation": correlation}),
    }


def _two_steps(source: Any, coef: np.ndarray, usable: np.ndarray, joint: list[Any], noise: str) -> Effects:
    """The step from the fit, and another one from the shrunk effects that it gives.

    A penalised fit may be far from the effects where features are many, and the parabola of classes and
    counts depends on where it is taken.
    """
    shift = np.zeros_like(coef)
    for first in (True, False):
        totals = source.totals()
        steps = source.steps(Plan.of(totals, coef + shift, joint))
        found = finished(steps, totals, coef + shift, usable, noise=noise)
        if not first or len(coef) < _FEWEST_TASKS or totals.rows < _FEWEST_ROWS * coef.shape[1]:
            break
        analysis = MetaAnalysis(found.effect, found.error**2, found.degrees)
        told = usable & (analysis.n_tasks > 1)
        shift = np.where(told, analysis.drawn - coef, 0.0)
        source = source.shifted(shift)
    return found


def _target_unit(model: Any, prepared: Prepared) -> np.ndarray:
    """What targets are divided by: as in the fit, and for the squared loss by their size besides."""
    unit = np.ones(len(model.coef_)) if prepared.target_scale is None else prepared.target_scale
    if not model._loss.is_quadratic:
        return unit
    tasks = prepared.tasks
    size = np.abs(tasks.y).max(initial=0.0) if isinstance(tasks, Tasks) else prepared._target_spread().max()
    return unit * (2.0 ** np.round(np.log2(size)) if np.isfinite(size) and size > 0.0 else 1.0)


def _columns(
    prepared: Prepared, coef: np.ndarray, features: np.ndarray, upper: np.ndarray, lower: np.ndarray
) -> Columns:
    """The columns of these features, with the columns of the curves that some task uses."""
    basis = getattr(prepared.tasks, "curves", None)
    none = np.empty(0, dtype=np.intp)
    if basis is None:
        return Columns(features, _powers(prepared.spread(features)), none, none, np.empty(0))
    bent = np.flatnonzero(coef[:, basis.n_features :].any(axis=0))
    place = {j: i for i, j in enumerate(features.tolist())}
    owner = basis.curved[basis.owner[bent]]
    bent = bent[np.isin(owner, features)]
    line = np.array([place[j] for j in basis.curved[basis.owner[bent]].tolist()], dtype=np.intp)
    places = np.concatenate([features, basis.n_features + bent])
    unit, rise = _powers(prepared.spread(places)), np.empty(len(bent))
    low, high = contrast_ends(lower, upper, prepared.spread(features))
    for i, (column, j) in enumerate(zip(bent, line, strict=True)):
        own = np.flatnonzero(basis.owner == basis.owner[column])
        ends = basis.of_feature(int(basis.owner[column]), np.array([low[j], high[j]]))
        rise[i] = np.diff(ends[:, int(np.flatnonzero(own == column)[0])])[0] / (high[j] - low[j])
    at = len(features) + np.arange(len(bent))
    return Columns(places, unit, at, line, rise * unit[line] / unit[at])


def contrast_ends(lower: Any, upper: Any, sd: Any) -> tuple[np.ndarray, np.ndarray]:
    """Between which values the effect of a curve is taken: the quartiles of its feature.

    Where most rows have one value, which is both quartiles, from there one standard deviation up.

    Examples
    --------
    >>> from mmtfl.estimators.effects import contrast_ends
    >>> [end.tolist() for end in contrast_ends([1.0, 0.0], [3.0, 0.0], [2.0, 0.5])]
    [[1.0, 0.0], [3.0, 0.5]]
    """
    low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    return low, np.where(high == low, low + sd, high)


def _powers(spread: np.ndarray) -> np.ndarray:
    """The nearest powers of two, by which division is exact."""
    return 2.0 ** np.round(np.log2(np.where(spread > 0.0, spread, 1.0)))


def add_effects(model: Any, tasks: Tasks, intercept: float, unit: float) -> None:
    """Add the effects of a last task, whose rows alone are here, to those of a model with room for it.

    What the other tasks know of how the features go together is not kept, so the step is that of the task
    alone.
    """
    known, prepared = model.effects_, Prepared(tasks.with_y(tasks.y / unit))
    features = known["features"]
    columns = _columns(
        prepared, model.coef_ / unit, features, known["upper_quartile"], known["lower_quartile"]
    )
    rows = RowsAtFit(
        prepared.tasks,
        model._loss,
        model.coef_[-1:] / unit,
        np.array([intercept / unit]),
        columns,
        model.fit_intercept,
    )
    usable = could_use(tasks, fit_intercept=model.fit_intercept)[:, columns.places]
    totals, coef = Totals.of(rows.moments()), columns.coef(rows.coef)
    steps = Plan.of(totals, coef).steps(rows.moments(), coef)
    found = finished(steps, totals, coef, usable, noise=_noise_of(model))
    apart, n = known["explained"] != "", len(features)
    for name, values in (("effect", found.effect), ("error", found.error)):
        known[name][-1] = np.where(apart, np.nan, values[0, :n] * unit / columns.unit[:n])
    known["degrees"][-1] = found.degrees[0]
    names = [columns_of(model)[j] for j in features]
    alone = np.array([names.count(name) == 1 for name in names]) & ~known["is_curve"]
    analysis = MetaAnalysis(known["effect"], known["error"] ** 2, known["degrees"])
    known["p_column"] = np.where(alone, analysis.p, known["p_column"])


def _noise_of(model: Any) -> str:
    loss = model._loss
    if not isinstance(loss, Loss):
        return "unknown"
    return "known" if loss.has_classes else "unknown" if loss.on_residuals else "counts"


def columns_of(model: Any) -> list[str]:
    """The column of the table that each feature comes from."""
    return [str(name) for name in vars(model).get("columns_") or model._feature_names()]


def _joint(names: Sequence[str], features: np.ndarray, columns: Columns) -> list[tuple[int, ...]]:
    """Positions of the columns of the fit that come from one column of the table, where there are several."""
    places: dict[str, list[int]] = {}
    for i, j in enumerate(features.tolist()):
        places.setdefault(names[j], []).append(i)
    for i, j in zip(columns.bent.tolist(), columns.line.tolist(), strict=True):
        places[names[features[j]]].append(i)
    return [tuple(own) for own in places.values() if 1 < len(own) <= _MOST_JOINT]


def _p_columns(found: Effects, joint: list[tuple[int, ...]], correlation: np.ndarray | None) -> np.ndarray:
    analysis = MetaAnalysis(found.effect, found.error**2, found.degrees, correlation)
    p = analysis.p.copy()
    for features, covariance in zip(joint, found.covariance, strict=True):
        told = np.isfinite(p[list(features)])
        kept = np.array(features)[told]
        p[list(features)] = joint_p(analysis, kept, covariance[:, told][:, :, told])
    return p


# -- the rows: here, or where an engine keeps them -----------------------------------------------------------


def _source(model: Any, prepared: Prepared, coef: np.ndarray, intercept: np.ndarray, unit: np.ndarray) -> Any:
    options = {"loss": model._loss, "centred": model.fit_intercept}
    if isinstance(prepared.tasks, Tasks):
        further = unit if prepared.target_scale is None else unit / prepared.target_scale
        tasks = prepared.tasks.with_y(prepared.tasks.y / further[prepared.tasks.observation_task])
        return HereRows(RowsAtFit(tasks, coef=coef, intercept=intercept, **options))
    opened = prepared.tasks
    cuts = [*opened.placed.firsts, len(coef)]
    parts = [slice(lo, hi) for lo, hi in pairwise(cuts)]
    factors = opened.stored.task_factors
    asked = [
        Asked(
            coef[part], intercept[part], None, None if factors is None else factors[part],
            unit[part], **options,
        )
        for part in parts
    ]  # fmt: skip
    return PlacedRows(opened.placed, asked)


@dataclass(frozen=True, eq=False)
class HereRows:
    """Rows in the memory of this process."""

    rows: RowsAtFit

    def only(self, columns: Columns) -> HereRows:
        """The same for some columns."""
        return HereRows(replace(self.rows, columns=columns))

    def shifted(self, shift: np.ndarray) -> HereRows:
        """The same with other coefficients."""
        return HereRows(replace(self.rows, shift=shift))

    def scores(self) -> np.ndarray:
        """How much each feature could still explain."""
        return self.rows.scores()

    def totals(self) -> Totals:
        """The sums over all tasks."""
        return Totals.of(self.rows.moments())

    def steps(self, plan: Plan) -> Steps:
        """The steps of all tasks."""
        return plan.steps(self.rows.moments(), self.rows.column_coef(), self.rows.by_group())

    def correlation(self) -> np.ndarray | None:
        """Correlation between the errors of tasks that share rows."""
        tasks = self.rows.tasks
        if tasks.rows is None or tasks.n_tasks < 2:
            return None
        table = np.zeros((tasks.X.shape[0], tasks.n_tasks))
        for t, own in enumerate(self.rows.residuals()):
            table[tasks.rows[tasks.offsets[t] : tasks.offsets[t + 1]], t] = own
        size = np.sqrt((table**2).sum(axis=0))
        return (table.T @ table) / np.maximum(np.outer(size, size), np.finfo(float).tiny)

    def quartiles(self, prepared: Any, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Quartiles of the features over all rows; of two values these, else wider ones if they are equal."""
        X: Any = self.rows.tasks.X
        if getattr(prepared, "row_counts", None) is not None:  # few rows that stand for many
            return _quartiles_of_moments(prepared, features)
        X = X[:: max(1, X.shape[0] // _MOST_ROWS)][:, features]
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        low, high = X.min(axis=0), X.max(axis=0)
        two = ((low == X) | (high == X)).all(axis=0)
        quartiles = np.quantile(X, [0.25, 0.75], axis=0).astype(float)
        return np.where(two, low, quartiles[0]), np.where(two, high, quartiles[1])


def _quartiles_of_moments(prepared: Any, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same where few rows stand for many: 0 and 1 of columns whose variance is that of zeros and ones."""
    low, high = _normal_quartiles(prepared, features)
    mean = column_range(prepared.tasks)[1, features]
    two = np.isclose(column_spread(prepared.tasks, features) ** 2, mean * (1.0 - mean), rtol=1e-9, atol=0.0)
    return np.where(two, 0.0, low), np.where(two, 1.0, high)


def _normal_quartiles(prepared: Any, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quartiles of normal variables with the spread of the features, about zero."""
    reach = _QUARTILE * np.asarray(prepared.spread(features), dtype=float)
    return -reach, reach


@dataclass(frozen=True, eq=False)
class Asked:
    """What a shard needs to know of its tasks, to sum them up at the fit."""

    coef: np.ndarray
    intercept: np.ndarray
    columns: Columns | None
    factors: np.ndarray | None
    target_scale: np.ndarray
    loss: Any
    centred: bool
    shift: np.ndarray | None = None

    def rows(self, shard: Any) -> RowsAtFit:
        """The rows of a shard, with their own weights, and targets in the units of the loss."""
        tasks = replace(shard.tasks, y=shard.tasks.y / np.repeat(self.target_scale, shard.tasks.sizes))
        if self.factors is not None and tasks.weights is not None:
            tasks = replace(tasks, weights=tasks.weights / np.repeat(self.factors, tasks.sizes))
        return RowsAtFit(tasks, self.loss, self.coef, self.intercept, self.columns, self.centred, self.shift)


def _scores(shard: Any, spec: Any, asked: Asked) -> np.ndarray:
    return asked.rows(shard).scores()


def _totals(shard: Any, spec: Any, asked: Asked) -> Totals:
    return Totals.of(asked.rows(shard).moments())


def _steps(shard: Any, spec: Any, asked: Asked, plan: Plan) -> Steps:
    return plan.steps(asked.rows(shard).moments(), asked.rows(shard).column_coef())


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Rows that stay in their files, or with the workers of an engine."""

    placed: Any
    asked: list[Asked]

    def only(self, columns: Columns) -> PlacedRows:
        """The same for some columns."""
        return PlacedRows(self.placed, [replace(one, columns=columns) for one in self.asked])

    def shifted(self, shift: np.ndarray) -> PlacedRows:
        """The same with other coefficients."""
        cuts = np.cumsum([0, *(len(one.coef) for one in self.asked)])
        parts = zip(self.asked, pairwise(cuts.tolist()), strict=True)
        return PlacedRows(self.placed, [replace(one, shift=shift[lo:hi]) for one, (lo, hi) in parts])

    def scores(self) -> np.ndarray:
        """How much each feature could still explain."""
        return np.sum(self.placed.ask(_scores, self.asked, name="effect-scores"), axis=0)

    def totals(self) -> Totals:
        """The sums over all tasks."""
        return Totals.joined(self.placed.ask(_totals, self.asked, name="effect-totals"))

    def steps(self, plan: Plan) -> Steps:
        """The steps of all tasks."""
        plans = [plan] * len(self.asked)
        return Steps.joined(self.placed.ask(_steps, self.asked, plans, name="effect-steps"))

    def correlation(self) -> None:
        """Stored tasks share no rows."""

    def quartiles(self, prepared: Any, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Quartiles of normal variables with the spread of the features."""
        return _normal_quartiles(prepared, features)


# -- words and tables ----------------------------------------------------------------------------------------


class EffectTable:
    """The effects of a fitted model as columns of frames."""

    def __init__(self, model: Any, coverage: float):
        check_is_fitted(model)
        if "effects_" not in vars(model):
            raise NotFittedError(
                f"This {type(model).__name__} has no effects: fit it with effects=True, or fit a search, "
                "such as MMTFLRegressorCV, which has them by default."
            )
        self.model, self.coverage, self.known = model, coverage, model.effects_
        self.names, self.features = model._feature_names(), self.known["features"]
        self.found = MetaAnalysis(
            self.known["effect"],
            self.known["error"] ** 2,
            self.known["degrees"],
            self.known.get("correlation"),
        )

    def place(self, feature: str | int) -> int:
        """Position among the known features of a feature by its name or position."""
        if isinstance(feature, str):
            if feature not in self.names:
                raise ValueError(
                    f"The model has no feature {feature!r}{suggest(feature, self.names, 'features')}"
                )
            feature = self.names.index(feature)
        feature = int(feature)
        if not 0 <= feature < len(self.names):
            raise ValueError(f"There is no feature {feature}: positions go from 0 to {len(self.names) - 1}.")
        at = np.flatnonzero(self.features == feature)
        if not at.size:
            raise ValueError(
                f"The effect of feature {self.names[feature]!r} was not estimated: of more than "
                f"{MOST_FEATURES:,} features only those that the model keeps, and those with the largest "
                "scores, are looked at. Fit fewer features."
            )
        return int(at[0])

    def of_tasks(self, j: int) -> dict[str, Any]:
        """Columns of `task_effects`."""
        lower, upper = (end[:, j] for end in self.found.single_interval(self.coverage))
        shrunk = [part[:, j] for part in self.found.shrunk(self.coverage)]
        if not isinstance(self.model._loss, Loss):  # nothing is common to effects in different units
            shrunk = [self.known["effect"][:, j], lower, upper]
        return {
            "task": self.model.tasks_,
            "effect": self.known["effect"][:, j],
            "lower": lower,
            "upper": upper,
            **dict(zip(("shrunk", "shrunk_lower", "shrunk_upper"), shrunk, strict=True)),
            "n_rows": self.model.task_sizes_,
        }

    def columns(self) -> dict[str, Any]:
        """Columns of `effects`, a row for each feature of the model."""
        if not isinstance(self.model._loss, Loss):
            raise ValueError(
                "Tasks of this model have losses of their own, so that their effects have no average: ask "
                "for those of one feature, with task_effects(feature)."
            )
        found, numbers = self.found, self._numbers()
        apart = self.known["explained"] != ""
        verdicts = judge(found, apart, len(self.names))
        numbers["q"] = verdicts.q
        notes = [
            self._curve_note(j)
            + note_of(
                verdicts, j, labels=self.model.tasks_, others=str(self.known["explained"][j]),
                ruled_out=self._ruled_out(numbers, j),
            )
            for j in range(len(self.features))
        ]  # fmt: skip
        return self._all_features(numbers, verdicts.word, [note.removesuffix("; ") for note in notes])

    def _curve_note(self, j: int) -> str:
        if not self.known["is_curve"][j]:
            return ""
        names = ("lower_quartile", "upper_quartile", "sd")
        ends = contrast_ends(*(self.known[name][j] for name in names))
        return "a curve, from {:.4g} to {:.4g}; ".format(*ends)

    def _numbers(self) -> dict[str, np.ndarray]:
        found, sd = self.found, self.known["sd"]
        lower, upper = found.interval(self.coverage)
        spread = found.spread_interval(self.coverage)
        new = found.new_task_interval(self.coverage)
        width = self.known["upper_quartile"] - self.known["lower_quartile"]
        width = np.where(width > 0.0, width, np.nan)
        numbers = {
            "average": found.average, "lower": lower, "upper": upper, "p": found.p, "q": np.empty(0),
            "spread": found.spread, "spread_lower": spread[0], "spread_upper": spread[1],
            "same_direction": found.same_direction, "new_task_lower": new[0], "new_task_upper": new[1],
            "n_tasks": found.n_tasks, "per_sd": found.average * sd, "quartiles": found.average * width,
            "quartiles_lower": lower * width, "quartiles_upper": upper * width,
            "p_column": self.known["p_column"],
        }  # fmt: skip
        name = self._ratio
        ends = {f"{name}": found.average, f"{name}_lower": lower, f"{name}_upper": upper} if name else {}
        with np.errstate(over="ignore"):
            return numbers | {key: np.exp(value) for key, value in ends.items()}

    @property
    def _ratio(self) -> str | None:
        loss = self.model._loss
        return RATIOS.get(loss.name) if isinstance(loss, Loss) else None

    def _ruled_out(self, numbers: dict[str, np.ndarray], j: int) -> str:
        reach = max(abs(numbers["lower"][j]), abs(numbers["upper"][j])) * self.known["sd"][j]
        return f"an average effect above {reach:.2g} per s.d. is ruled out" if np.isfinite(reach) else ""

    def _all_features(
        self, numbers: dict[str, np.ndarray], words: np.ndarray, notes: list[str]
    ) -> dict[str, Any]:
        """Columns with a row for each feature of the model, largest evidence first."""
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.abs(self.found.average / self.found.error)
        p = numbers["p"]
        found = np.isin(words, FOUND)  # a feature that matters in some tasks only may have no average
        order = np.lexsort((-np.nan_to_num(size), np.where(np.isfinite(p), p, 2.0), ~found))
        beyond = np.setdiff1d(np.arange(len(self.names)), self.features)
        positions, columns = np.concatenate([self.features[order], beyond]), columns_of(self.model)
        out: dict[str, Any] = {
            "feature": [self.names[j] for j in positions],
            "column": [columns[j] for j in positions],
        }
        for name, value in numbers.items():
            fill = 0 if name == "n_tasks" else np.nan
            if name.startswith(("odds", "rate")) and "word" not in out:
                out |= self._said(words, notes, order, len(beyond))
            out[name] = np.concatenate([value[order], np.full(len(beyond), fill, dtype=value.dtype)])
        return out if "word" in out else out | self._said(words, notes, order, len(beyond))

    def _said(self, words: np.ndarray, notes: list[str], order: np.ndarray, n_beyond: int) -> dict[str, Any]:
        beyond = f"not looked at: it is not among the {MOST_FEATURES:,} features with the largest scores"
        return {
            "word": [*(str(words[j]) for j in order), *["not found"] * n_beyond],
            "note": [*(notes[j] for j in order), *[beyond] * n_beyond],
        }


def effect_rows(model: Any, coverage: float = 0.9) -> list[dict[str, Any]]:
    """The rows of `effects` as plain values."""
    return _rows(EffectTable(model, coverage).columns())


def task_effect_rows(model: Any, feature: str | int, coverage: float = 0.9) -> list[dict[str, Any]]:
    """The rows of `task_effects` as plain values."""
    table = EffectTable(model, coverage)
    return _rows(table.of_tasks(table.place(feature)))


def _rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    values = [np.asarray(column, dtype=object).tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def effect_sentences(model: Any) -> list[str]:
    """What holds everywhere, what differs, what is not found: three sentences; none without effects."""
    known = "effects_" in vars(model) and isinstance(model._loss, Loss)
    return in_sentences(effect_rows(model), task_word(model)) if known else []


def task_word(model: Any) -> str:
    """What a task of a model is called."""
    return noun_of_tasks(model)[0]
