"""What users pass: rows, targets, task labels, weights, stored tasks, and what they say of the features."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from scipy import sparse

from mmtfl.core.labels import positions
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.tasks.checks import NEXT_TO_NOTHING, check_design, check_length, check_weights
from mmtfl.tasks.frames import check_not_lazy, is_frame
from mmtfl.tasks.stored import StoredTasks
from mmtfl.tasks.summaries import SummarisedTasks
from mmtfl.wording import abbreviate, count, meant, show, suggest

Names = Sequence[str]

# -- task labels -----------------------------------------------------------------------------------------


def take_task_column(X: Any, task: Any, task_column: str | None) -> tuple[Any, Any, str]:
    """Separate the rows from their task labels, given as ``task`` or as a column of X.

    Returns
    -------
    X : as given, without the task column
    labels : as given, not checked yet; None if there are none
    name : what to call the labels in messages
    """
    if isinstance(task, str):
        raise TypeError(_one_string(X, task))
    if task_column is None:
        return X, task, "task"
    if task is not None:
        raise ValueError(
            f"Task labels were given twice: as task= and as column {task_column!r} (task_column). "
            "Pass one of them: leave task=None, or set_params(task_column=None)."
        )
    frame = _named_frame(X, task_column)
    labels = frame.get_column(task_column).to_native()
    return frame.drop(task_column).to_native(), labels, f"column {task_column!r}"


def _one_string(X: Any, task: str) -> str:
    """Word the error for task="site", where one label per row was expected."""
    said = f"task={task!r} is one string, but task= takes one label per row"
    if not is_frame(X):
        return f"{said}, and X has no column names: pass an array or list of labels."
    columns = [str(name) for name in nw.from_native(X, eager_only=True).columns]
    if task in columns:
        return (
            f"{said}. X has a column of that name: make the model with task_column={task!r} and leave task "
            "out, or pass the column as task= and drop it from X."
        )
    known = suggest(task, columns)
    return f"{said}. To use a column of X, name it by task_column; X has no column {task!r}{known}"


def _named_frame(X: Any, task_column: str) -> Any:
    check_not_lazy(X, "X")
    if not is_frame(X):
        raise TypeError(
            f"task_column={task_column!r} names a column of a frame, but X is of type {type(X).__name__} and "
            "has no column names. Pass a pandas, polars or pyarrow table, or the labels as task=."
        )
    frame = nw.from_native(X, eager_only=True)
    if task_column not in frame.columns:
        known = suggest(task_column, frame.columns)
        raise ValueError(f"X has no column {task_column!r}, which task_column names{known}")
    return frame


def locate_tasks(labels: np.ndarray, tasks: np.ndarray, *, unknown: str) -> np.ndarray:
    """Find the position of each label in `tasks`; new ones, if they may be unknown, come after all tasks."""
    if labels.dtype.kind != tasks.dtype.kind:
        found, expected = (("integers", "strings")[kind.dtype.kind == "U"] for kind in (labels, tasks))
        raise TypeError(
            f"Task labels are {found} (such as {show(labels, 0)}), but the model was fitted on {expected} "
            f"({abbreviate(tasks)}). Convert the labels, for example with "
            f"astype({'str' if expected == 'strings' else 'int'})."
        )
    kind = np.result_type(labels, tasks)  # strings of one width
    index = positions(_words(labels.astype(kind, copy=False)), _words(tasks.astype(kind, copy=False)))
    missing = index == len(tasks)
    if missing.any() and unknown == "error":
        new = np.unique(labels[missing])
        raise ValueError(
            f"Unknown task {abbreviate(new)} (first in row {missing.argmax()}): the model was fitted on "
            f"{abbreviate(tasks)}.{meant(new.tolist(), tasks)} Leave these rows out, or predict "
            "them with the mean of all tasks by set_params(unknown_task='mean'), or by 'common' with what is "
            "common to all tasks."
        )
    if missing.any():
        index[missing] += np.unique(labels[missing], return_inverse=True)[1]
    return index


def _words(labels: np.ndarray) -> np.ndarray:
    """Labels as rows of 32-bit words."""
    return np.ascontiguousarray(labels).view(np.uint32).reshape(len(labels), -1)


# -- targets ---------------------------------------------------------------------------------------------


def n_dimensions(y: Any) -> int:
    """Return the number of dimensions of a target: 2 for frames, else that of the array."""
    check_not_lazy(y, "y")
    if sparse.issparse(y):
        raise TypeError("y must be dense, NaN for what is not observed, but is sparse: pass y.toarray().")
    return 2 if is_frame(y) else np.asarray(y).ndim


def column_names(y: Any) -> list[str] | None:
    """Return the names of the columns of a target, if it is a frame with names."""
    names = nw.from_native(y, eager_only=True).columns if is_frame(y) else []
    return names if names and all(isinstance(name, str) for name in names) else None


def single_column(y: Any) -> Any:
    """Return a target of one column as a vector; several columns beside task labels are refused."""
    values = nw.from_native(y, eager_only=True).to_numpy() if is_frame(y) else np.asarray(y)
    if values.shape[1:] != (1,):
        raise ValueError(
            f"y has shape {values.shape} and task labels were given too: several columns of y are one task "
            "each, so they need no labels. Pass a 1-D y with the labels, or the 2-D y without."
        )
    return values[:, 0]


def matrix_values(y: Any) -> np.ndarray:
    """Read a 2-D target as numbers, NaN where one is missing; integers stay integers."""
    values = nw.from_native(y, eager_only=True).to_numpy() if is_frame(y) else np.asarray(y)
    return values if values.dtype.kind in "iub" else check_design(y, name="y")[0]


def targets_like(z: np.ndarray, y: Any) -> np.ndarray:
    """Read the targets of rows whose predictions are z: a vector, or a column per task where z has them."""
    if n_dimensions(y) == 2:
        y = matrix_values(y) if z.ndim == 2 else single_column(y)
    y = np.asarray(y)
    check_length("y", len(y), len(z))
    return y


def read_weights(sample_weight: Any, n_rows: int) -> Any:
    """Read weights as an array, with a single number repeated for all rows; None is returned as it is."""
    if sample_weight is None or is_frame(sample_weight) or sparse.issparse(sample_weight):
        return sample_weight
    sample_weight = np.asarray(sample_weight)
    return np.full(n_rows, sample_weight) if sample_weight.ndim == 0 else sample_weight


def score_weights(sample_weight: Any, y: np.ndarray) -> np.ndarray | None:
    """Check the weights of a score: one per row, or one per entry of a 2-D y; None stays."""
    weights = read_weights(sample_weight, len(y))
    if weights is None or (y.ndim == 2 and np.ndim(weights) == 2):
        return weights if weights is None else np.asarray(weights)
    return check_weights(weights, len(y))


# -- what is known of the features -------------------------------------------------------------------------


def feature_constraints(model: Any) -> tuple[Any, Any, Any] | None:
    """Weights, signs and groups of features as the parameters of a model say them; None if they say nothing.

    Without groups the levels of each column that the model has encoded are one.
    """
    weight, groups = getattr(model, "penalty_weight", None), getattr(model, "feature_groups", None)
    positive: Any = getattr(model, "positive", False)
    if groups is None and hasattr(model, "feature_groups") and getattr(model, "engine", None) is None:
        groups = getattr(vars(model).get("encoder_"), "groups_", None) or None
    if weight is None and groups is None and np.ndim(positive) == 0 and not positive:
        return None
    return weight, positive, groups


def read_known(model: Any, names: Names | None, n_features: int, labels: np.ndarray) -> KnownFeatures | None:
    """What the parameters of a model say of these features and tasks; None if they say nothing."""
    given = feature_constraints(model)
    if given is None:
        return None
    weight, positive, groups = given
    names = [f"x{j}" for j in range(n_features)] if names is None else [str(name) for name in names]
    known = KnownFeatures(
        np.repeat(read_penalty_weight(weight, names)[:, None], len(labels), axis=1),
        _read_positive(positive, names),
        _read_groups(groups, names),
    )
    trivial = known.groups is not None and len(np.unique(known.groups)) == n_features
    if known.groups is None or trivial:
        return known.without_groups()
    return known


def read_penalty_weight(weight: Any, names: Names) -> np.ndarray:
    """Weights of all features, (n_features,), from any of the forms of ``penalty_weight``.

    Examples
    --------
    >>> read_penalty_weight({"age": 0}, ["age", "dose"])
    array([0., 1.])
    """
    found = np.ones(len(names))
    if isinstance(weight, Mapping) or (hasattr(weight, "to_dict") and hasattr(weight, "items")):
        for name, value in weight.items():
            found[position(name, names, "penalty_weight")] = _as_numbers(value)
    elif weight is not None:
        found = _as_numbers(weight)
    if found.shape != (len(names),):
        raise ValueError(
            f"penalty_weight has shape {found.shape}, but the data have {len(names)} features: give one "
            f"weight per feature, ({len(names)},)."
        )
    wrong = ~(found >= 0.0)
    if wrong.any():
        j = int(wrong.argmax())
        raise ValueError(
            f"penalty_weight of feature {names[j]!r} is {found[j]}: weights are positive, 0 for a feature "
            "that is never penalised, or inf for one that is left out."
        )
    return found


def _as_numbers(weight: Any) -> np.ndarray:
    try:
        return np.asarray(weight, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"penalty_weight must be numbers, or a dict by feature name, got {weight!r}."
        ) from None


def position(name: Any, names: Names, what: str) -> int:
    """The column number of a feature that is given by its name or its number."""
    if isinstance(name, str):
        if name not in names:
            raise ValueError(
                f"{what} names the feature {name!r}, which X does not have{suggest(name, names)}"
            )
        return list(names).index(name)
    if isinstance(name, int | np.integer) and not isinstance(name, bool) and 0 <= name < len(names):
        return int(name)
    raise ValueError(
        f"{what} has {name!r}, which is neither the name of a feature nor a position from 0 to "
        f"{len(names) - 1}."
    )


def _read_positive(positive: Any, names: Names) -> np.ndarray:
    if positive is None or isinstance(positive, bool | np.bool_):
        return np.full(len(names), bool(positive))
    given = list(positive)
    if given and all(isinstance(value, bool | np.bool_) for value in given):
        if len(given) != len(names):
            raise ValueError(
                f"positive has {len(given)} values, but X has {len(names)} features: give one for each, or "
                "the names of those that are positive."
            )
        return np.array(given, dtype=bool)
    found = np.zeros(len(names), dtype=bool)
    for name in given:
        found[position(name, names, "positive")] = True
    return found


def _read_groups(groups: Any, names: Names) -> np.ndarray | None:
    """The group of every feature: those that are named have numbers of their own."""
    if groups is None:
        return None
    found = np.arange(len(names))
    taken: dict[int, int] = {}
    members = list(groups.values()) if isinstance(groups, Mapping) else list(groups)
    for number, group in enumerate(members):
        if isinstance(group, str) or not np.iterable(group):
            raise TypeError(
                f"feature_groups has {group!r}, which is no list: give lists of names or positions, such as "
                "[['red', 'green', 'blue'], ['spline_1', 'spline_2']], or a dict of them."
            )
        for name in group:
            j = position(name, names, "feature_groups")
            if taken.setdefault(j, number) != number:
                raise ValueError(
                    f"feature_groups has {show(names, j)} in two groups: a feature belongs to one at most."
                )
            found[j] = len(names) + number
    return found


# -- stored tasks ----------------------------------------------------------------------------------------

REMEDY = (
    "Raise memory_limit, or fit a sample of the rows. MMTFLRegressor and MMTFLClassifier read some tasks at "
    "a time, unless solver='block', p=inf, p=1 with pooling above 0.5, or something is said of the features "
    "(penalty_weight, positive, feature_groups); MMTFLRegressorCV keeps few rows in the place of many."
)


def check_nothing_else(*others: Any) -> None:
    """Refuse targets, labels or weights beside stored tasks, which have their own."""
    if any(other is not None for other in others):
        raise ValueError(
            "Stored tasks bring their targets, labels and weights along, as summaries of sites do, and have "
            "no groups: call fit(tasks) with nothing else, and leave task_column None."
        )


def check_moments_suffice(model: Any, summarised: SummarisedTasks) -> None:
    """Refuse to fit a model to summaries of sites that needs rows."""
    if not model._loss.is_quadratic:
        raise ValueError(
            "Summaries of sites hold means and scatter of their rows, which is all that the squared loss "
            f"sees, but no more: {type(model).__name__} with another loss needs the rows themselves. Use "
            "MMTFLRegressor or MMTFLRegressorCV with loss='squared', or bring the rows to one place."
        )
    if model._wants_curves() and not summarised.knots:
        raise ValueError(
            "curves=True needs the splines of some columns in the summaries of the sites, which have lines: "
            "agree on their knots (mmtfl agree --curves COLUMN), and let the sites summarise anew."
        )


def with_two_classes(stored: StoredTasks, *, in_each_task: bool = True) -> StoredTasks:
    """Return stored tasks whose target is read as -1 and +1; both may be required in each task."""
    weights = stored.class_weights()
    if len(weights) != 2:
        raise ValueError(
            f"Only binary classification is supported: column {stored.target!r} has "
            f"{count(len(weights), 'value')} ({abbreviate(np.array(sorted(weights)))})."
        )
    first, second = sorted(weights)
    total = weights[first] + weights[second]
    for value in (first, second):
        absent = weights[value] <= NEXT_TO_NOTHING * total
        if in_each_task and absent.any():
            label = stored.labels[int(np.argmax(absent))].item()
            raise ValueError(
                f"Task {label!r} has no row of class {value!r}{' with weight' * bool(stored.weight)}: every "
                "task needs both classes. "
                "Leave it out."
            )
    return replace(stored, classes=(first, second))
