"""Effects of all features after a fit, for a model to keep; docs/how_sure.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.engines.threads import one_blas_thread
from mmtfl.inference.collinearity import explained_by
from mmtfl.inference.meta_analysis import MetaAnalysis, joint_p
from mmtfl.inference.mixed_model import MixedModel
from mmtfl.inference.row_moments import Columns, Pooled, RowsAtFit, Totals
from mmtfl.inference.rows_of_fit import FitRows
from mmtfl.inference.unshrunk_effects import Effects, FromFit, Steps, finished
from mmtfl.objective.losses import Loss
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.curve_basis import CurveBasis
from mmtfl.tasks.scaling import column_range, column_spread, could_use

_MOST_ROWS = 100_000  # of which quartiles are taken
_MOST_JOINT = 60  # features of one column that are tested together
_FEWEST_TASKS, _FEWEST_ROWS = 3, 2.5  # tasks, and rows for each feature, that tell averages and spreads
# of the mixed model; rise of its log-likelihood, in all and for each feature
_MOST_STEPS, _SETTLED, _SETTLED_EACH = 15, 0.02, 0.005
# share of the rows' degrees of freedom that a fit may take, and rows of a task for each feature, so that the
# effects that were found one by one tell noise and spreads
_MOST_TAKEN, _OWN_ROWS = 0.5, 2.0
_ROUNDING = 1e-12  # least share of the usual noise
MOST_FEATURES = 1000  # beyond, the kept ones and those with the largest scores
_QUARTILE = 0.6744897501960817  # of a normal variable, where rows are not here


@one_blas_thread()
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
    usable = prepared.could_use()[:, columns.places]
    source, coef, usable = source.only(columns, usable), columns.coef(coef), usable.copy()
    names, n = model._feature_names(), len(features)
    joint = _joint(columns_of(model), features, columns)
    explained, correlation = explained_by(Pooled.of(source.totals()).first(n)), source.correlation()
    usable[:, list(explained)] = False
    found = _estimated(source, coef, usable, joint, model._loss)
    others = [", ".join(f"`{names[features[k]]}`" for k in explained.get(j, ())) for j in range(n)]
    scale = unit[:, None] / columns.unit[:n]
    return {
        "features": features,
        "effect": found.effect[:, :n] * scale,
        "error": found.error[:, :n] * scale,
        "degrees": found.degrees,
        "about": np.sqrt(found.about[:, :n]) * scale,
        "inflation": found.inflation[:n],
        "taken": found.taken[:n],
        "sd": np.asarray(prepared.spread(features), dtype=float),
        "lower_quartile": lower,
        "upper_quartile": upper,
        "is_curve": np.isin(np.arange(n), columns.line),
        "p_column": _p_columns(found, joint, correlation)[:n],
        "explained": np.array(others, dtype=object),
        "target_sd": _target_sd(prepared),
        **({} if correlation is None else {"correlation": correlation}),
    }


def _estimated(source: FitRows, coef: np.ndarray, usable: np.ndarray, joint: list[Any], loss: Any) -> Effects:
    """The step from the fit, and then those of a mixed model until its likelihood settles.

    Each of these begins at shrunk effects: the parabola of classes and counts depends on where it is taken.
    """
    totals, kind = source.totals(), _noise_of(loss)
    first = source.steps(FromFit.of(totals, coef, joint))
    found = finished(first, usable, joint, noise=kind)
    d = int(Pooled.of(totals).varies.sum())
    few_rows = min(totals.rows, source.n_shared) < _FEWEST_ROWS * d
    if len(coef) < _FEWEST_TASKS or few_rows or not isinstance(loss, Loss):
        return found
    least = 1.0 if kind == "counts" else 0.0
    n, _, taken = first.residual.sum(axis=0)
    one_by_one = kind == "known" or (taken < _MOST_TAKEN * n and n > _OWN_ROWS * len(coef) * d)
    model, start = MixedModel.of(totals, found, joint, spreads=bool(one_by_one)), coef
    for _ in range(_MOST_STEPS):
        steps = source.steps(model, start - coef, _noise_of_tasks(found, model.noise, least))
        found = finished(steps, usable, joint, noise=kind)
        start = model.drawn(steps)
        told = kind != "known" and steps.by_group is None
        usual = None if told else max(found.by_group * found.usual_noise, model.noise * _ROUNDING)
        model, rise = model.updated(steps, usual, least)
        found = replace(found, **model.over_tasks(steps))
        if rise <= max(_SETTLED, _SETTLED_EACH * d):
            break
    return found


def _noise_of_tasks(found: Effects, usual: float, least: float) -> np.ndarray:
    """Residual variances of the tasks, with this geometric mean."""
    share = found.noise / found.usual_noise if found.usual_noise > 0.0 else np.ones(len(found.noise))
    return np.maximum(usual * np.maximum(share, _ROUNDING), least)


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
        return Columns(features, powers_of_two(spread(features)), none, none, np.empty(0))
    bent = np.flatnonzero(coef[:, basis.n_features :].any(axis=0))
    place = {j: i for i, j in enumerate(features.tolist())}
    owner = basis.curved[basis.owner[bent]]
    bent = bent[np.isin(owner, features)]
    line = np.array([place[j] for j in basis.curved[basis.owner[bent]].tolist()], dtype=np.intp)
    places = np.concatenate([features, basis.n_features + bent])
    unit, rise = powers_of_two(spread(places)), np.empty(len(bent))
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
    >>> from mmtfl.inference.learn_effects import contrast_ends
    >>> [end.tolist() for end in contrast_ends([1.0, 0.0], [3.0, 0.0], [2.0, 0.5])]
    [[1.0, 0.0], [3.0, 0.5]]
    """
    low, high = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    return low, np.where(high == low, low + sd, high)


def powers_of_two(spread: np.ndarray) -> np.ndarray:
    """The nearest powers of two, by which division is exact; 1 for what has none."""
    return 2.0 ** np.round(np.log2(np.where((spread > 0.0) & np.isfinite(spread), spread, 1.0)))


def add_effects(model: Any, tasks: Tasks, intercept: float, unit: float) -> None:
    """Add the effects of a last task, whose rows alone are here, to those of a model with room for it.

    What the other tasks know of how the features go together is not kept, so the step is that of the task
    alone.
    """
    known, tasks = model.effects_, tasks.with_y(tasks.y / unit)
    features, ends = known["features"], (known["upper_quartile"], known["lower_quartile"])
    columns = _columns(tasks.curves, partial(column_spread, tasks), model.coef_ / unit, features, *ends)
    levels = np.array([intercept / unit])
    usable = could_use(tasks, fit_intercept=model.fit_intercept)[:, columns.places]
    rows = RowsAtFit(
        tasks, model._loss, model.coef_[-1:] / unit, levels, columns, model.fit_intercept, usable=usable
    )
    totals, coef = Totals.of(rows.moments()), columns.coef(rows.coef)
    steps = Steps.of(FromFit.of(totals, coef), rows.moments(), coef, np.ones(1))
    found = finished(steps, usable, noise=_noise_of(model._loss))
    apart, n = known["explained"] != "", len(features)
    for name, values in (("effect", found.effect), ("error", found.error), ("about", found.error)):
        known[name][-1] = np.where(apart, np.nan, values[0, :n] * unit / columns.unit[:n])
    known["degrees"][-1] = found.degrees[0]
    names = [columns_of(model)[j] for j in features]
    alone = np.array([names.count(name) == 1 for name in names]) & ~known["is_curve"]
    known["p_column"] = np.where(alone, over_tasks(known)[1].p, known["p_column"])


def over_tasks(known: Mapping[str, Any]) -> tuple[np.ndarray, MetaAnalysis]:
    """Averages and spreads of the effects of a model, in units in which no square leaves the floats."""
    unit = powers_of_two(np.where(known["error"] > 0.0, known["error"], np.inf).min(axis=0))
    return unit, MetaAnalysis(
        known["effect"] / unit, (known["error"] / unit) ** 2, known["degrees"], known.get("correlation"),
        (known["about"] / unit) ** 2, known["inflation"], known["taken"],
    )  # fmt: skip


def _noise_of(loss: Any) -> str:
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
    analysis = replace(found.over_tasks, correlation=correlation)
    p = analysis.p.copy()
    for features, covariance in zip(joint, found.covariance, strict=True):
        told = np.isfinite(p[list(features)])
        kept = np.array(features)[told]
        p[list(features)] = joint_p(analysis, kept, covariance[:, told][:, :, told])
    return p


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


def largest_scores(kept: np.ndarray, score: np.ndarray, most: int = MOST_FEATURES) -> np.ndarray:
    """Positions of at most so many features: the kept ones, then those with the largest scores; ascending."""
    order: Any = np.lexsort((-score, ~kept))
    return np.sort(order[:most])
