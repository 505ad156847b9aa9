"""Effects of all features after a fit: two steps from its coefficients, by the rows of the tasks.

The rows are here, or stay where an engine keeps them; docs/how_sure.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

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
from mmtfl.objective.losses import Loss
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.curve_basis import CurveBasis
from mmtfl.tasks.scaling import column_range, column_spread, could_use

_MOST_ROWS = 100_000  # of which quartiles are taken
_MOST_JOINT = 60  # features of one column that are tested together
_FEWEST_TASKS, _FEWEST_ROWS = 3, 2.5  # tasks, and rows for each feature, from which a second step is taken
_QUARTILE = 0.6744897501960817  # of a normal variable, where rows are not here


def learn_effects(model: Any, prepared: Any) -> dict[str, Any]:
    """What `effects` and `task_effects` are made of: effects and errors of the tasks that were fitted.

    The model still has the columns of curves behind its features.
    """
    unit = _target_unit(model, prepared)
    coef, intercept = model.coef_ / unit[:, None], model.intercept_ / unit
    source = FitRows.of(model, prepared, coef, intercept, unit)
    basis = getattr(prepared.tasks, "curves", None)
    d = coef.shape[1] if basis is None else basis.n_features
    features = np.arange(d)
    if d > MOST_FEATURES:
        features = largest_scores(coef[:, :d].any(axis=0), source.scores()[:d])
    lower, upper = quartiles(prepared, features)
    columns = _columns(basis, prepared.spread, coef, features, upper, lower)
    source, usable = source.only(columns), prepared.could_use()
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
        "target_sd": _target_sd(prepared),
        **({} if correlation is None else {"correlation": correlation}),
    }


def _two_steps(
    source: FitRows, coef: np.ndarray, usable: np.ndarray, joint: list[Any], noise: str
) -> Effects:
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


def _target_sd(prepared: Any) -> np.ndarray:
    """Standard deviation of the target within tasks."""
    scale = 1.0 if prepared.target_scale is None else prepared.target_scale
    return np.sqrt(np.average((prepared._target_spread() * scale) ** 2, weights=prepared.sizes))


def _target_unit(model: Any, prepared: Any) -> np.ndarray:
    """What targets are divided by: as in the fit, and for the squared loss by their size besides."""
    unit = np.ones(len(model.coef_)) if prepared.target_scale is None else prepared.target_scale
    if not model._loss.is_quadratic:
        return unit
    tasks = prepared.tasks
    size = np.abs(tasks.y).max(initial=0.0) if isinstance(tasks, Tasks) else prepared._target_spread().max()
    return unit * (2.0 ** np.round(np.log2(size)) if np.isfinite(size) and size > 0.0 else 1.0)


def _columns(
    basis: CurveBasis | None, spread: Callable[[np.ndarray], np.ndarray], coef: np.ndarray,
    features: np.ndarray, upper: np.ndarray, lower: np.ndarray,
) -> Columns:  # fmt: skip
    """The columns of these features, with the columns of the curves that some task uses."""
    none = np.empty(0, dtype=np.intp)
    if basis is None:
        return Columns(features, _powers(spread(features)), none, none, np.empty(0))
    bent = np.flatnonzero(coef[:, basis.n_features :].any(axis=0))
    place = {j: i for i, j in enumerate(features.tolist())}
    owner = basis.curved[basis.owner[bent]]
    bent = bent[np.isin(owner, features)]
    line = np.array([place[j] for j in basis.curved[basis.owner[bent]].tolist()], dtype=np.intp)
    places = np.concatenate([features, basis.n_features + bent])
    unit, rise = _powers(spread(places)), np.empty(len(bent))
    low, high = contrast_ends(lower, upper, spread(features))
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
    >>> from mmtfl.inference.fit_effects import contrast_ends
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
    known, tasks = model.effects_, tasks.with_y(tasks.y / unit)
    features, ends = known["features"], (known["upper_quartile"], known["lower_quartile"])
    columns = _columns(tasks.curves, partial(column_spread, tasks), model.coef_ / unit, features, *ends)
    levels = np.array([intercept / unit])
    rows = RowsAtFit(tasks, model._loss, model.coef_[-1:] / unit, levels, columns, model.fit_intercept)
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


@dataclass(frozen=True, eq=False)
class Asked:
    """What is needed beside the rows of some tasks, to sum them up at the fit."""

    coef: np.ndarray
    intercept: np.ndarray
    target_scale: np.ndarray
    loss: Any
    centred: bool
    factors: np.ndarray | None = None
    columns: Columns | None = None
    shift: np.ndarray | None = None

    def rows(self, tasks: Tasks) -> RowsAtFit:
        """The rows with their own weights, and targets in the units of the loss."""
        tasks = replace(tasks, y=tasks.y / np.repeat(self.target_scale, tasks.sizes))
        if self.factors is not None and tasks.weights is not None:
            tasks = replace(tasks, weights=tasks.weights / np.repeat(self.factors, tasks.sizes))
        return RowsAtFit(tasks, self.loss, self.coef, self.intercept, self.columns, self.centred, self.shift)


def _scores(rows: RowsAtFit) -> np.ndarray:
    return rows.scores()


def _totals(rows: RowsAtFit) -> Totals:
    return Totals.of(rows.moments())


def _steps(rows: RowsAtFit, plan: Plan) -> Steps:
    return plan.steps(rows.moments(), rows.column_coef(), rows.by_group())


def _on_shard(shard: Any, spec: Any, asked: Asked, function: Callable[..., Any], arguments: tuple) -> Any:
    return function(asked.rows(shard.tasks), *arguments)


@dataclass(frozen=True, eq=False)
class FitRows:
    """The rows of a fit, in the memory of this process or where they are placed.

    Attributes
    ----------
    asked : list of Asked
        Of all tasks here, or of those of each shard.
    tasks : Tasks, or None
        All rows, where they are here.
    placed : Placed, or None
        Rows that stay in their files, or with the workers of an engine.
    """

    asked: list[Asked]
    tasks: Tasks | None = None
    placed: Any = None

    @classmethod
    def of(
        cls, model: Any, prepared: Any, coef: np.ndarray, intercept: np.ndarray, unit: np.ndarray
    ) -> FitRows:
        """The rows of prepared data, seen at coefficients and levels in these units."""
        options = {"loss": model._loss, "centred": model.fit_intercept}
        if isinstance(prepared.tasks, Tasks):
            further = unit if prepared.target_scale is None else unit / prepared.target_scale
            return cls([Asked(coef, intercept, further, **options)], tasks=prepared.tasks)
        placed, factors = prepared.tasks.placed, prepared.tasks.stored.task_factors
        asked = [
            Asked(
                coef[lo:hi], intercept[lo:hi], unit[lo:hi],
                factors=None if factors is None else factors[lo:hi], **options,
            )
            for lo, hi in pairwise([*placed.firsts, len(coef)])
        ]  # fmt: skip
        return cls(asked, placed=placed)

    def only(self, columns: Columns) -> FitRows:
        """The same for some columns."""
        return replace(self, asked=[replace(one, columns=columns) for one in self.asked])

    def shifted(self, shift: np.ndarray) -> FitRows:
        """The same with other coefficients."""
        cuts = np.cumsum([len(one.coef) for one in self.asked])[:-1]
        parts = zip(self.asked, np.split(shift, cuts), strict=True)
        return replace(self, asked=[replace(one, shift=part) for one, part in parts])

    def scores(self) -> np.ndarray:
        """How much each feature could still explain."""
        return np.sum(self._each(_scores), axis=0)

    def totals(self) -> Totals:
        """The sums over all tasks."""
        return Totals.joined(self._each(_totals))

    def steps(self, plan: Plan) -> Steps:
        """The steps of all tasks."""
        return Steps.joined(self._each(_steps, plan))

    def correlation(self) -> np.ndarray | None:
        """Correlation between the errors of tasks that share rows; stored tasks share none."""
        tasks = self.tasks
        if tasks is None or tasks.rows is None or tasks.n_tasks < 2:
            return None
        table = np.zeros((tasks.X.shape[0], tasks.n_tasks))
        for t, own in enumerate(self.asked[0].rows(tasks).residuals()):
            table[tasks.rows[tasks.offsets[t] : tasks.offsets[t + 1]], t] = own
        size = np.sqrt((table**2).sum(axis=0))
        return (table.T @ table) / np.maximum(np.outer(size, size), np.finfo(float).tiny)

    def _each(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function of the rows of each part."""
        if self.tasks is not None:
            return [function(self.asked[0].rows(self.tasks), *arguments)]
        columns = ([one] * len(self.asked) for one in (function, arguments))
        return self.placed.ask(_on_shard, self.asked, *columns, name=f"effect{function.__name__}")


# -- quartiles -----------------------------------------------------------------------------------------------


def quartiles(prepared: Any, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quartiles of the features over all rows; of two values these, else wider ones if they are equal.

    Where rows are not here, those of normal variables about zero; where few rows stand for many, too, but 0
    and 1 of columns whose variance is that of zeros and ones.
    """
    tasks = prepared.tasks
    if not isinstance(tasks, Tasks) or prepared.row_counts is not None:
        reach = _QUARTILE * np.asarray(prepared.spread(features), dtype=float)
        if not isinstance(tasks, Tasks):
            return -reach, reach
        mean = column_range(tasks)[1, features]
        two = np.isclose(column_spread(tasks, features) ** 2, mean * (1.0 - mean), rtol=1e-9, atol=0.0)
        return np.where(two, 0.0, -reach), np.where(two, 1.0, reach)
    X: Any = tasks.X[:: max(1, tasks.X.shape[0] // _MOST_ROWS)][:, features]
    X = X.toarray() if sparse.issparse(X) else np.asarray(X)
    low, high = X.min(axis=0), X.max(axis=0)
    two = ((low == X) | (high == X)).all(axis=0)
    found = np.quantile(X, [0.25, 0.75], axis=0).astype(float)
    return np.where(two, low, found[0]), np.where(two, high, found[1])
