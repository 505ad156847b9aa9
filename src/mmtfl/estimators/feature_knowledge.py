"""What users say of the features: weights in the penalty, signs, groups, absence; docs/features.md."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmtfl.objective.known_features import KnownFeatures
from mmtfl.wording import show, suggest

Names = Sequence[str]


def has_feature_constraints(model: Any) -> bool:
    """Whether the parameters of a model say anything of its features."""
    given = (getattr(model, "penalty_weight", None), _groups(model))
    positive = getattr(model, "positive", False)
    return any(value is not None for value in given) or np.ndim(positive) > 0 or bool(positive)


def _groups(model: Any) -> Any:
    """The groups of features: those given, or the levels of each column that the model has encoded."""
    given = getattr(model, "feature_groups", None)
    encoder = vars(model).get("encoder_")
    if given is not None or encoder is None or not hasattr(model, "feature_groups"):
        return given
    return None if getattr(model, "engine", None) is not None else encoder.groups_ or None


def read_known(model: Any, names: Names | None, n_features: int, labels: np.ndarray) -> KnownFeatures | None:
    """What the parameters of a model say of these features and tasks; None if they say nothing."""
    weight, positive = (getattr(model, name, None) for name in ("penalty_weight", "positive"))
    groups = _groups(model)
    if not has_feature_constraints(model):
        return None
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


# -- weights -------------------------------------------------------------------------------------------------


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


# -- signs and groups ----------------------------------------------------------------------------------------


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
