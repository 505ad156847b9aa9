"""What a fitted model has learned: type and shape of every attribute, checked when a file is loaded."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from sklearn.base import is_classifier


class Unsound(ValueError):
    """A file's content is not that of a saved model."""


def check_learned(model: Any, needed: tuple[str, ...]) -> None:
    """Check that all learned attributes of a model are there, each of the right type and shape."""
    learned = vars(model)
    inner = learned.get("best_estimator_")
    if "best_estimator_" in needed:
        if type(inner) is not type(model.estimator) or "coef_" not in vars(inner):
            raise Unsound("best_estimator_ is not a fitted model of the class that was searched")
        sizes = dict(zip("Td", vars(inner)["coef_"].shape, strict=True))
    else:
        needed = (*COMMON, *needed, *(("classes_",) if is_classifier(model) else ()))
        coef = learned.get("coef_")
        if not isinstance(coef, np.ndarray) or coef.ndim != 2 or 0 in coef.shape:
            raise Unsound("coef_ is not an array of tasks by features")
        sizes = dict(zip("Td", coef.shape, strict=True))
    missing = [name for name in needed if name not in learned]
    if missing:
        raise Unsound(f"a fitted {type(model).__name__} has {missing[0]}, which is missing")
    for name, rule in RULES.items():
        if name in learned and not rule(learned[name], sizes):
            raise Unsound(f"{name} is not what a {type(model).__name__} has learned")
    if "cv_results_" in learned:
        _check_search(model, learned["cv_results_"])


def _check_search(model: Any, table: Mapping[str, np.ndarray]) -> None:
    """Check that the table of a search has the columns, and the choice the names, that its readers need."""
    folds = [name for name in table if name.startswith("split")]
    if "best_params_" in vars(model):
        strengths = tuple(model.best_estimator_.strength_names)
        sizes = [len(part) for part in model.strengths_]
        length = len(next(iter(table.values())))
        if set(model.best_params_) != set(strengths) or not all(
            _IS_NUMBER(value, {}) for value in model.best_params_.values()
        ):
            raise Unsound("best_params_ does not name the strengths that were chosen")
        if math.prod(sizes) != length or not model.best_index_ < length:
            raise Unsound("cv_results_ has other rows than the strengths that were tried")
    else:
        by_task = "task" in table
        strengths = ("alpha",) if by_task else ("p", "k", "alpha")
        if by_task != (np.ndim(model.alpha_) == 1):
            raise Unsound("alpha_ is not one for each search")
    numbers = (*strengths, "mean_test_score", *folds)
    if not folds or any(name not in table or table[name].dtype.kind not in "fi" for name in numbers):
        raise Unsound("cv_results_ lacks strengths or scores")


Rule = Callable[[Any, Mapping[str, int]], bool]


def _array(kinds: str, shape: str) -> Rule:
    """Require an array of some dtypes; the letters of its shape are T tasks, d features, n of any size."""

    def check(value: Any, sizes: Mapping[str, int]) -> bool:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds or value.ndim != len(shape):
            return False
        return all(sizes.get(letter, n) == n for letter, n in zip(shape, value.shape, strict=True))

    return check


def _either(*rules: Rule) -> Rule:
    return lambda value, sizes: any(rule(value, sizes) for rule in rules)


def _of(*types: type | None) -> Rule:
    """Require a value of one of some types; None stands for itself."""
    return lambda value, sizes: (None if value is None else type(value)) in types


def _is_count(value: Any, sizes: Mapping[str, int]) -> bool:
    return type(value) is int and value >= 0


def _are_tasks(value: Any, sizes: Mapping[str, int]) -> bool:
    return _array("iU", "T")(value, sizes) and len(np.unique(value)) == len(value)


def _are_names(value: Any, sizes: Mapping[str, int]) -> bool:
    return _array("O", "d")(value, sizes) and all(isinstance(name, str) for name in value)


def _is_encoder(value: Any, sizes: Mapping[str, int]) -> bool:
    return type(value).__name__ == "TableEncoder" and len(value.columns_) == sizes["d"]


def _are_columns(value: Any, sizes: Mapping[str, int]) -> bool:
    return isinstance(value, list) and len(value) == sizes["d"] and all(type(name) is str for name in value)


def _are_curves(value: Any, sizes: Mapping[str, int]) -> bool:
    if value is None:
        return True
    return type(value).__name__ == "Curves" and (value.basis.n_features, len(value.coef)) == (
        sizes["d"],
        sizes["T"],
    )


def _are_classes(value: Any, sizes: Mapping[str, int]) -> bool:
    return _array("biufUSO", "n")(value, sizes) and len(value) == 2 and bool(value[0] != value[1])


def _is_table(value: Any, sizes: Mapping[str, int]) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    columns = list(value.values())
    return all(_array("biufUO", "n")(column, sizes) for column in columns) and len({*map(len, columns)}) == 1


def _are_heldout_scores(value: Any, sizes: Mapping[str, int]) -> bool:
    kinds = {"task": "iU", "n_rows": "i"}
    if isinstance(value, dict) and "loss" in value:
        kinds["loss"] = "U"
    return (
        isinstance(value, dict)
        and set(value) - set(kinds) in ({"r2"}, {"deviance_explained"}, {"accuracy", "auc", "base_rate"})
        and all(_array(kinds.get(name, "f"), "T")(column, sizes) for name, column in value.items())
    )


def _are_heldout_errors(value: Any, sizes: Mapping[str, int]) -> bool:
    kinds = {"task": ("iU", "T"), "n_rows": ("i", "T"), "n_kept": ("i", "T"), "error": ("f", "n")}
    return (
        isinstance(value, dict)
        and set(value) in (set(kinds), {*kinds, "is_second"})
        and all(_array(*kinds.get(name, ("b", "n")))(column, sizes) for name, column in value.items())
        and int(value["n_kept"].min()) >= 0
        and all(
            len(value[name]) == int(value["n_kept"].sum()) for name in {"error", "is_second"} & set(value)
        )
    )


def _are_effects(value: Any, sizes: Mapping[str, int]) -> bool:
    kinds = {"features": ("i", "m"), "degrees": ("f", "T"), "explained": ("O", "m"), "is_curve": ("b", "m")}
    kinds["correlation"] = ("f", "TT")
    kinds |= dict.fromkeys(("effect", "error"), ("f", "Tm"))
    kinds |= dict.fromkeys(("sd", "lower_quartile", "upper_quartile", "p_column"), ("f", "m"))
    if not isinstance(value, dict) or set(value) | {"correlation"} != set(kinds):
        return False
    features = value["features"]
    if not _array("i", "n")(features, sizes):
        return False
    sizes = {**sizes, "m": len(features)}
    return (
        all(_array(*kinds[name])(column, sizes) for name, column in value.items())
        and all(isinstance(name, str) for name in value["explained"])
        and bool(np.all((features >= 0) & (features < sizes["d"])))
    )


def _are_fold_models(value: Any, sizes: Mapping[str, int]) -> bool:
    kinds = {"coef": "nTn", "intercept": "nT"}
    sound = isinstance(value, dict) and set(value) == set(kinds)
    return sound and all(_array("f", shape)(value[name], sizes) for name, shape in kinds.items())


def _is_stability(value: Any, sizes: Mapping[str, int]) -> bool:
    return type(value).__name__ == "Stability" and len(value.feature_names_) == sizes["d"]


def _is_path(value: Any, sizes: Mapping[str, int]) -> bool:
    each = isinstance(value, list)  # one for each task
    shape = sizes["d"], 1 if each else sizes["T"]
    return (not each or len(value) == sizes["T"]) and all(
        type(path).__name__ == "Path" and (path.n_features, path.intercepts.shape[1]) == shape
        for path in (value if each else [value])
    )


def _is_provenance(value: Any, sizes: Mapping[str, int]) -> bool:
    """Whether a record of what was run has versions, added tasks and scores of the right types."""
    if not isinstance(value, dict):
        return False
    kinds = {"versions": dict, "added": list, "training": dict}
    training = value.get("training", {})
    return all(isinstance(value.get(name, kind()), kind) for name, kind in kinds.items()) and (
        training.get("metric") in (None, "r2", "deviance_explained", "accuracy")
        and all(_is_list_of_scores(training.get(name)) for name in ("scores", "auc", "base_rate"))
        and (not training.get("scores") or training.get("metric") is not None)
        and (training.get("base_rate") is None) == (training.get("auc") is None)
    )


def _is_list_of_scores(value: Any) -> bool:
    known = [] if value is None else value
    return isinstance(known, list) and all(score is None or type(score) in (int, float) for score in known)


def _are_strengths(value: Any, sizes: Mapping[str, int]) -> bool:
    return (
        isinstance(value, tuple) and len(value) == 2 and all(_array("f", "n")(part, sizes) for part in value)
    )


_IS_NUMBER, _IS_DICT, _IS_NONE = _of(int, float), _of(dict), _of(None)
COMMON = (
    *("coef_", "intercept_", "tasks_", "n_features_in_", "_predicts_matrix", "_backend"),
    *("objective_", "violation_", "dual_gap_", "n_iter_", "history_", "converged_"),
    *("column_scale_", "target_scale_", "task_sizes_"),
)
RULES: dict[str, Rule] = {
    **dict.fromkeys(("coef_", "shared_", "specific_", "outlier_"), _array("f", "Td")),
    **dict.fromkeys(("c_", "common_", "feature_spread_"), _array("f", "d")),
    **dict.fromkeys(("outlier_tasks_", "base_rate_tasks_", "added_tasks_"), _array("iU", "n")),
    **dict.fromkeys(("objective_", "violation_", "best_p_", "best_pooling_", "best_score_"), _IS_NUMBER),
    **dict.fromkeys(("common_intercept_", "mean_size_"), _IS_NUMBER),
    **dict.fromkeys(("n_iter_", "best_index_", "n_splits_"), _is_count),
    **dict.fromkeys(("converged_", "best_curves_", "_predicts_matrix"), _of(bool)),
    "best_params_": _IS_DICT,
    "provenance_": _is_provenance,
    "intercept_": _array("f", "T"),
    "tasks_": _are_tasks,
    "n_features_in_": lambda value, sizes: type(value) is int and value == sizes["d"],
    "_backend": _of(str, None),
    "encoder_": _is_encoder,
    "columns_": _are_columns,
    "agreement_": _IS_DICT,
    "fold_models_": _are_fold_models,
    "curves_": _are_curves,
    "feature_range_": _either(_IS_NONE, _array("f", "nd")),
    "feature_names_in_": _are_names,
    "classes_": _are_classes,
    "dual_gap_": _of(int, float, None),
    "history_": _array("f", "n"),
    "column_scale_": _either(_IS_NONE, _array("f", "d")),
    "target_scale_": _either(_IS_NONE, _array("f", "T")),
    "task_sizes_": _array("i", "T"),
    "usable_": _either(_IS_NONE, _array("b", "Td")),
    "penalty_weight_": _array("f", "Td"),
    "absent_": _array("b", "Td"),
    "positive_": _array("b", "d"),
    "feature_group_": _either(_IS_NONE, _array("i", "d")),
    "B_": _array("f", "dT"),  # only in files of versions that kept it
    "capped_": _array("b", "d"),
    "alpha_": _either(_IS_NUMBER, _array("f", "T")),
    "alphas_": _either(_array("f", "n"), _array("f", "Tn")),
    "best_k_": _either(_IS_NUMBER, lambda value, sizes: value == "log"),
    "strengths_": _are_strengths,
    "cv_results_": _is_table,
    "heldout_scores_": _are_heldout_scores,
    "heldout_errors_": _are_heldout_errors,
    "stability_": lambda value, sizes: value is None or _is_stability(value, sizes),
    "path_": _is_path,
    "effects_": _are_effects,
}
