"""Curves of a fitted model: which features may bend, and what their effects look like; docs/curves.md.

Inside a fit the columns of the curves stand behind the features. What is learned of them is then set apart in
`Curves`, so that ``coef_`` and all else has one entry per feature; `join_curves` puts both together again.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mmtfl.estimators.inputs import position, read_known
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.curve_basis import CurveBasis, learn_basis
from mmtfl.tasks.scaling import row_weights
from mmtfl.tasks.summaries import SummarisedTasks
from mmtfl.wording import abbreviate

# what a fitted model has of each feature, and where its features are counted
_ALONG_LAST = (
    *("coef_", "shared_", "specific_", "outlier_", "usable_", "absent_", "penalty_weight_"),
    *("c_", "common_", "column_scale_", "feature_spread_", "capped_", "positive_", "feature_group_"),
)
_N_VALUES = 101  # at which a curve is shown unless others are given


@dataclass(frozen=True, eq=False)
class Curves:
    """The curves of a fitted model.

    Attributes
    ----------
    basis : CurveBasis
        Knots, and how a value of a feature becomes the columns of its curve.
    parts : dict of str to ndarray
        What was learned of these columns, by the name of the attribute that has the same of the features:
        ``coef_`` (n_tasks, n_columns), ``c_`` and ``common_`` (n_columns,), and so on.
    """

    basis: CurveBasis
    parts: dict[str, np.ndarray]

    @property
    def coef(self) -> np.ndarray:
        """Coefficients of the curve columns, (n_tasks, n_columns)."""
        return self.parts["coef_"]

    def used(self) -> np.ndarray:
        """Whether each task's effect of each feature is curved, (n_tasks, n_features)."""
        out = np.zeros((len(self.coef), self.basis.n_features), dtype=bool)
        for column, j in zip((self.coef != 0.0).T, self.basis.curved[self.basis.owner], strict=True):
            out[:, j] |= column
        return out

    def __post_init__(self) -> None:
        """Check what may come from a file."""
        shapes = {array.shape[-1:] for array in self.parts.values()}
        is_known = "coef_" in self.parts and set(self.parts) <= set(_ALONG_LAST)
        if not is_known or shapes != {(self.basis.n_columns,)}:
            raise ValueError("curves have parts that do not belong to them")


# -- into a fit, and back ------------------------------------------------------------------------------------


def with_curves(
    model: Any, tasks: Any, summarised: SummarisedTasks | None = None
) -> tuple[Any, KnownFeatures | None]:
    """Tasks with the curve columns that a model asks for, and what is known of their columns."""
    names = getattr(tasks, "feature_names", None)
    d = tasks.n_lines if isinstance(tasks, Tasks) else tasks.n_features
    known = read_known(model, None if names is None else names[:d], d, tasks.labels)
    if isinstance(tasks, Tasks) and tasks.curves is None and model._wants_curves():
        tasks = add_curves(tasks, known, summarised)
    basis = getattr(tasks, "curves", None)
    grouped = hasattr(model, "feature_groups")
    if basis is None or (known is None and not grouped):
        return tasks, known
    if known is None:
        known = KnownFeatures(np.ones((d, tasks.n_tasks)), np.zeros(d, dtype=bool))
    return tasks, known.with_curves(basis, grouped=grouped)


def add_curves(
    tasks: Tasks, known: KnownFeatures | None = None, summarised: SummarisedTasks | None = None
) -> Tasks:
    """Tasks with the columns of curves, for the features that may have one; those of summaries are known."""
    if summarised is not None:
        return summarised.with_curves(tasks, None if known is None else known.may_bend())
    if sparse.issparse(tasks.X):
        return tasks
    among = np.ones(tasks.n_features, dtype=bool) if known is None else known.may_bend()
    if tasks.absent is not None:
        among &= ~tasks.absent.any(axis=0)
    basis = learn_basis(tasks.X, row_weights(tasks), among)
    return tasks if basis is None else basis.widened_tasks(tasks)


def split_curves(model: Any, basis: CurveBasis | None) -> None:
    """Move what a model has learned of curve columns to its ``curves_``."""
    model.curves_ = None
    if basis is None:
        return
    d, parts = basis.n_features, {}
    for name in _ALONG_LAST:
        wide = vars(model).get(name)
        if wide is not None:
            parts[name] = np.ascontiguousarray(wide[..., d:])
            setattr(model, name, np.ascontiguousarray(wide[..., :d]))
    if "feature_spread_" in parts:  # a feature may be in use by its curve alone
        np.maximum.at(model.feature_spread_, basis.curved[basis.owner], parts["feature_spread_"])
    model.curves_ = Curves(basis, parts)


def join_curves(model: Any) -> Any:
    """A model with its curve columns behind its features; the model itself, if it has none."""
    curves = model.curves_
    if curves is None:
        return model
    wide = copy.copy(model)
    for name, part in curves.parts.items():
        setattr(wide, name, np.concatenate([getattr(model, name), part], axis=-1))
    wide.curves_ = None
    return wide


# -- what people see -----------------------------------------------------------------------------------------


def curve_columns(model: Any, feature: Any, values: Any, task: Any) -> dict[str, Any]:
    """The columns of `curve`: values of the feature, tasks if they are asked for, and effects."""
    names = model._feature_names()
    j = position(feature, names, "curve")
    values = _values(model, j, values)
    lines, bends, labels = _coefficients(model, j, task)
    effect = lines[:, None] * (values - model.feature_range_[1, j]) + _bend(model, j, values, bends)
    columns = {"value" if names[j] in ("task", "effect") else names[j]: np.tile(values, len(lines))}
    if labels is not None:
        columns["task"] = np.repeat(labels, len(values))
    return {**columns, "effect": effect.ravel()}


def _values(model: Any, j: int, values: Any) -> np.ndarray:
    if model.feature_range_ is None:
        raise ValueError(
            "The range and the mean of the features are not known of a model that was fitted on stored "
            "tasks: use coef_, or fit on rows in memory."
        )
    if values is None:
        low, _, high = model.feature_range_[:, j]
        return np.linspace(low, high, _N_VALUES)
    return np.atleast_1d(np.asarray(values, dtype=float))


def _coefficients(model: Any, j: int, task: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Slopes of the line of feature j and coefficients of its curve, of some tasks or of what is common."""
    curves = model.curves_
    own = np.zeros(0, dtype=bool) if curves is None else curves.basis.curved[curves.basis.owner] == j
    bends = np.zeros((len(model.tasks_), 0)) if curves is None else curves.coef[:, own]
    if task is not None:
        at = [_place(model, label) for label in np.atleast_1d(task).tolist()]
        return model.coef_[at, j], bends[at], model.tasks_[at]
    if "common_intercept_" in vars(model):
        return model.common_[[j]], (bends[:1] if curves is None else curves.parts["common_"][None, own]), None
    counted = model._counted()
    return model.coef_[counted, j].mean(keepdims=True), bends[counted].mean(axis=0, keepdims=True), None


def _place(model: Any, label: Any) -> int:
    known = model.tasks_.tolist()
    if label not in known:
        raise ValueError(f"curve has no task {label!r}: the model's tasks are {abbreviate(known)}.")
    return known.index(label)


def _bend(model: Any, j: int, values: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """The effects of the curve alone, (n_tasks, n_values)."""
    curves = model.curves_
    if curves is None or j not in curves.basis.curved:
        return np.zeros((len(coef), len(values)))
    return coef @ curves.basis.of_feature(int(np.flatnonzero(curves.basis.curved == j)[0]), values).T


def sizes_of(model: Any) -> dict[str, np.ndarray]:
    """How large every feature is, by the measures of its kind of model: its line or its curve, the larger."""
    curves = model.curves_
    if curves is None:
        return model._sizes()
    of, found = curves.basis.feature_of_column, {}
    for name, size in join_curves(model)._sizes().items():
        found[name] = np.zeros(curves.basis.n_features)
        np.maximum.at(found[name], of, size)
    return found


def shapes(model: Any) -> tuple[list[str], list[str]]:
    """Of every feature "line", "curve" or "" if it is not used, and "rising", "falling" or "" otherwise."""
    lines, curves = model.coef_.any(axis=0), model.curves_
    bends = np.zeros_like(lines) if curves is None else curves.used().any(axis=0)
    kinds = np.select([bends, lines], ["curve", "line"], default="").tolist()
    if model.feature_range_ is None:
        slope = np.sign(model.coef_[model._counted()].mean(axis=0)).astype(int)
        return kinds, [("", "rising", "falling")[s] for s in slope]
    return kinds, [_direction(model, j) if kind else "" for j, kind in enumerate(kinds)]


def _direction(model: Any, j: int) -> str:
    values = _values(model, j, None)
    line, bend, _ = _coefficients(model, j, None)
    steps = np.diff(line[0] * values + _bend(model, j, values, bend)[0])
    slack = 1e-9 * np.abs(steps).max()
    if np.ptp(steps) == 0.0 and steps[0] == 0.0:
        return ""
    return "rising" if steps.min() >= -slack else "falling" if steps.max() <= slack else ""
