"""A fitted model as JSON and arrays, and back with every part of it checked."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.packing import Packer, Unpacker, Unsound
from mmtfl.persistence.archive import write_archive
from mmtfl.persistence.files import check_target, write_whole
from mmtfl.persistence.json_values import plain

__all__ = ["Savable", "model_from_state", "state_of_model"]

STRENGTHS = ("p", "k", "alpha", "cap", "alpha_shared", "alpha_specific", "alpha_outlier")
TRAINING = ("objective_", "violation_", "dual_gap_", "n_iter_", "converged_", "best_score_")


class Savable:
    """`save` and `export_onnx` for estimators."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Save the fitted model in one file, for `mmtfl.load`.

        Predictions of the loaded model are the same, bit for bit. Parameters with no place in a file, such
        as an engine or a splitter of your own, are left out with a warning: predictions do not need them.

        Parameters
        ----------
        path : str or path
            The file, by custom ``something.mmtfl``. It is written whole or not at all.
        overwrite : bool, default=True
            Whether a file of that name may be replaced.
        """
        check_is_fitted(self)
        check_target(path, overwrite=overwrite)
        content, arrays, left_out = state_of_model(self)
        write_archive(path, content, arrays, overwrite=overwrite)
        if left_out:
            warnings.warn(
                f"Not kept in {os.fspath(path)!r}, which has no place for it: {', '.join(left_out)}. "
                "Predictions do not need it; set it again after loading, before another fit.",
                UserWarning,
                stacklevel=2,
            )

    def export_onnx(
        self, path: str | os.PathLike[str], *, dtype: str = "float64", overwrite: bool = True
    ) -> None:
        """Write the fitted model as an ONNX graph, to predict without Python; needs the extra ``onnx``.

        The graph takes ``X`` of shape (n_rows, n_features) and, with several tasks, ``task``: the label of
        each row, strings or int64. It gives ``prediction``, and for classifiers ``probability``, in the
        shapes of `predict` and `predict_proba`. An unknown task stops the run with an index out of bounds,
        or is predicted by the mean of all tasks with ``unknown_task="mean"``.

        Parameters
        ----------
        path : str or path
            The file, by custom ``something.onnx``. It is written whole or not at all.
        dtype : {"float64", "float32"}, default="float64"
            Precision of ``X`` and of the numbers that come out.
        overwrite : bool, default=True
            Whether a file of that name may be replaced.
        """
        from mmtfl.estimators.onnx import onnx_bytes

        check_is_fitted(self)
        check_target(path, overwrite=overwrite)
        fitted = vars(self).get("best_estimator_", self)
        write_whole(path, [onnx_bytes(fitted, dtype)], overwrite=overwrite)


def state_of_model(model: Any) -> tuple[dict[str, Any], list[np.ndarray], list[str]]:
    """The state of a fitted model: JSON types, arrays, and the names of what is left out."""
    import mmtfl

    model._check_parameters()  # what could not be loaded again is refused while the model is there
    packer = Packer()
    packed = packer.pack_model(model)
    content = {"library": mmtfl.__version__, "about": about(model), "model": packed}
    return content, packer.arrays, packer.left_out


def about(model: Any) -> dict[str, Any]:
    """What a person wants to know of a file, in plain JSON; `load` does not read it."""
    fitted = vars(model).get("best_estimator_", model)
    params = fitted.get_params(deep=False)
    strengths = {name: params[name] for name in STRENGTHS if name in params}
    chosen = {"p": "best_p_", "k": "best_k_", "alpha": "alpha_"}
    strengths |= {name: getattr(fitted, found) for name, found in chosen.items() if hasattr(fitted, found)}
    return {
        "class": type(model).__name__,
        **plain(strengths),
        "tasks": fitted.tasks_.tolist(),
        "n_features": int(fitted.n_features_in_),
        "training": plain(
            {name.rstrip("_"): getattr(model, name) for name in TRAINING if hasattr(model, name)}
        ),
    }


def model_from_state(
    content: Any,
    arrays: list[np.ndarray],
    classes: Mapping[str, Any],
    needed: Mapping[str, tuple[str, ...]],
) -> Any:
    """A fitted model from its state.

    Parameters
    ----------
    content, arrays
        As `state_of_model` gives them.
    classes : mapping of str to class
        All the classes a file may name.
    needed : mapping of str to tuple of str
        What a fitted model of each class has, beyond what all have.

    Returns
    -------
    model : estimator
        Fitted; parameters, names and shapes are checked.
    """
    if not isinstance(content, dict) or not {"library", "model"} <= set(content):
        raise Unsound("it holds no model")
    unpacker = Unpacker(arrays, classes)
    model = unpacker.unpack_model(content["model"])
    unpacker.check_all_used()
    check_is_fitted(model)
    for part in unpacker.models:
        learned = vars(part).keys() - part.get_params(deep=False).keys()
        if learned:  # a model that is searched over need not be fitted
            check_learned(part, needed[type(part).__name__])
    return model


# -- what a fitted model looks like --------------------------------------------------------------------------


def check_learned(model: Any, needed: tuple[str, ...]) -> None:
    """Check what a model has learned: that all of it is there, of the right kind and shape."""
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


Rule = Callable[[Any, Mapping[str, int]], bool]


def _array(kinds: str, *shape: str) -> Rule:
    """An array of a kind; its shape in letters: T tasks, d features, n of any size."""

    def check(value: Any, sizes: Mapping[str, int]) -> bool:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds or value.ndim != len(shape):
            return False
        return all(sizes.get(letter, n) == n for letter, n in zip(shape, value.shape, strict=True))

    return check


def _either(*rules: Rule) -> Rule:
    return lambda value, sizes: any(rule(value, sizes) for rule in rules)


def _is_none(value: Any, sizes: Mapping[str, int]) -> bool:
    return value is None


def _is_bool(value: Any, sizes: Mapping[str, int]) -> bool:
    return isinstance(value, bool)


def _is_count(value: Any, sizes: Mapping[str, int]) -> bool:
    return type(value) is int and value >= 0


def _is_number(value: Any, sizes: Mapping[str, int]) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_string(value: Any, sizes: Mapping[str, int]) -> bool:
    return isinstance(value, str)


def _is_dict(value: Any, sizes: Mapping[str, int]) -> bool:
    return isinstance(value, dict)


def _are_tasks(value: Any, sizes: Mapping[str, int]) -> bool:
    return _array("iU", "T")(value, sizes) and len(np.unique(value)) == len(value)


def _are_names(value: Any, sizes: Mapping[str, int]) -> bool:
    return _array("O", "d")(value, sizes) and all(isinstance(name, str) for name in value)


def _are_classes(value: Any, sizes: Mapping[str, int]) -> bool:
    return _array("biufUSO", "n")(value, sizes) and len(value) == 2 and bool(value[0] != value[1])


def _is_table(value: Any, sizes: Mapping[str, int]) -> bool:
    if not isinstance(value, dict) or not value:
        return False
    columns = list(value.values())
    return all(_array("biufUO", "n")(column, sizes) for column in columns) and len({*map(len, columns)}) == 1


def _are_heldout_scores(value: Any, sizes: Mapping[str, int]) -> bool:
    kinds = {"task": "iU", "n_rows": "i"}
    return (
        isinstance(value, dict)
        and set(value) in ({*kinds, "r2"}, {*kinds, "accuracy", "auc", "base_rate"})
        and all(_array(kinds.get(name, "f"), "T")(column, sizes) for name, column in value.items())
    )


def _are_heldout_errors(value: Any, sizes: Mapping[str, int]) -> bool:
    kinds = {"task": ("iU", "T"), "n_rows": ("i", "T"), "n_kept": ("i", "T"), "error": ("f", "n")}
    return (
        isinstance(value, dict)
        and set(value) == set(kinds)
        and all(_array(*kinds[name])(column, sizes) for name, column in value.items())
        and int(value["n_kept"].min()) >= 0
        and int(value["n_kept"].sum()) == len(value["error"])
    )


def _is_stability(value: Any, sizes: Mapping[str, int]) -> bool:
    return type(value).__name__ == "Stability" and len(value.feature_names_) == sizes["d"]


def _is_path(value: Any, sizes: Mapping[str, int]) -> bool:
    paths, n_tasks = (value, 1) if isinstance(value, list) else ([value], sizes["T"])
    if isinstance(value, list) and len(value) != sizes["T"]:
        return False
    return all(
        type(path).__name__ == "Path" and (path.n_features, path.intercepts.shape[1]) == (sizes["d"], n_tasks)
        for path in paths
    )


def _are_strengths(value: Any, sizes: Mapping[str, int]) -> bool:
    return (
        isinstance(value, tuple) and len(value) == 2 and all(_array("f", "n")(part, sizes) for part in value)
    )


_per_task_or_one = _either(_is_number, _array("f", "T"))
COMMON = (
    *("coef_", "intercept_", "tasks_", "n_features_in_", "_predicts_matrix", "_backend"),
    *("objective_", "violation_", "dual_gap_", "n_iter_", "history_", "converged_"),
    *("column_scale_", "target_scale_", "task_sizes_"),
)
RULES: dict[str, Rule] = {
    "coef_": _array("f", "T", "d"),
    "intercept_": _array("f", "T"),
    "tasks_": _are_tasks,
    "n_features_in_": lambda value, sizes: type(value) is int and value == sizes["d"],
    "_predicts_matrix": _is_bool,
    "_backend": _either(_is_none, _is_string),
    "feature_names_in_": _are_names,
    "classes_": _are_classes,
    "objective_": _is_number,
    "violation_": _is_number,
    "dual_gap_": _either(_is_none, _is_number),
    "n_iter_": _is_count,
    "history_": _array("f", "n"),
    "converged_": _is_bool,
    "column_scale_": _either(_is_none, _array("f", "d")),
    "target_scale_": _either(_is_none, _array("f", "T")),
    "task_sizes_": _array("i", "T"),
    "feature_spread_": _array("f", "d"),
    "usable_": _either(_is_none, _array("b", "T", "d")),
    "c_": _array("f", "d"),
    "B_": _array("f", "d", "T"),
    "shared_": _array("f", "T", "d"),
    "specific_": _array("f", "T", "d"),
    "outlier_": _array("f", "T", "d"),
    "outlier_tasks_": _array("iU", "n"),
    "base_rate_tasks_": _array("iU", "n"),
    "capped_": _array("b", "d"),
    "alpha_": _per_task_or_one,
    "alphas_": _either(_array("f", "n"), _array("f", "T", "n")),
    "best_p_": _is_number,
    "best_k_": _either(_is_number, lambda value, sizes: value == "log"),
    "best_score_": _is_number,
    "best_index_": _is_count,
    "best_params_": _is_dict,
    "n_splits_": _is_count,
    "strengths_": _are_strengths,
    "cv_results_": _is_table,
    "heldout_scores_": _are_heldout_scores,
    "heldout_errors_": _are_heldout_errors,
    "path_": _is_path,
    "stability_": _either(_is_none, _is_stability),
    "provenance_": _is_dict,
}
