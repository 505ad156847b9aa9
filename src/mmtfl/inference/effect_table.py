"""Effects as people read them: frames, words and sentences."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mmtfl.inference.learn_effects import MOST_FEATURES, columns_of, contrast_ends, over_tasks
from mmtfl.inference.meta_analysis import q_values
from mmtfl.inference.words import (
    AS_A_WHOLE,
    CURVE,
    FOUND,
    LARGEST_RATIO,
    LARGEST_SHARE,
    LEVEL,
    in_sentences,
    judge,
    levels_in_words,
    note_of,
    ruled_out,
)
from mmtfl.objective.losses import Loss
from mmtfl.wording import noun_of_tasks, suggest

RATIOS = {"logistic": "odds_ratio", "poisson": "rate_ratio"}


def check_coverage(coverage: float) -> float:
    """Check a share of intervals."""
    if not 0.0 < coverage < 1.0:
        raise ValueError(f"coverage must be between 0 and 1, got {coverage!r}: use 0.9.")
    return float(coverage)


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
        self.unit, self.found = over_tasks(self.known)

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
        lower, upper = (end[:, j] * self.unit[j] for end in self.found.single_interval(self.coverage))
        shrunk = [part[:, j] * self.unit[j] for part in self.found.shrunk(self.coverage)]
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
        verdicts = judge(found, apart, len(self.names), numbers["p"])
        numbers["q"] = verdicts.q
        notes = [
            self._curve_note(j, verdicts.word[j])
            + note_of(
                verdicts, j, labels=self.model.tasks_, others=str(self.known["explained"][j]),
                ruled_out=self._ruled_out(numbers, j),
            )
            for j in range(len(self.features))
        ]  # fmt: skip
        order, beyond = self._order(numbers["p"], verdicts.word), self._beyond()
        positions, columns = np.concatenate([self.features[order], beyond]), columns_of(self.model)
        not_looked_at = (
            f"not looked at: it is not among the {MOST_FEATURES:,} features with the largest scores"
        )
        out: dict[str, Any] = {
            "feature": [self.names[j] for j in positions],
            "column": [columns[j] for j in positions],
        }
        for name, value in numbers.items():
            fill = np.full(len(beyond), 0 if name == "n_tasks" else np.nan, dtype=value.dtype)
            out[name] = np.concatenate([value[order], fill])
        out["word"] = [*verdicts.word[order].tolist(), *["not found"] * len(beyond)]
        out["note"] = [*(notes[j].removesuffix("; ") for j in order), *[not_looked_at] * len(beyond)]
        ratio = RATIOS.get(self.model._loss.name)
        ends = {} if ratio is None else {"": "average", "_lower": "lower", "_upper": "upper"}
        with np.errstate(over="ignore"):
            return out | {f"{ratio}{end}": np.exp(out[name]) for end, name in ends.items()}

    def _order(self, p: np.ndarray, words: np.ndarray) -> np.ndarray:
        """Positions by evidence, the largest first."""
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.abs(self.found.average / self.found.error)
        found = np.isin(words, FOUND)  # a feature that matters in some tasks only may have no average
        return np.lexsort((-np.nan_to_num(size), np.where(np.isfinite(p), p, 2.0), ~found))

    def _beyond(self) -> np.ndarray:
        """Features that were not looked at."""
        return np.setdiff1d(np.arange(len(self.names)), self.features)

    def _curve_note(self, j: int, word: str) -> str:
        if not self.known["is_curve"][j]:
            return ""
        names = ("lower_quartile", "upper_quartile", "sd")
        ends = contrast_ends(*(self.known[name][j] for name in names))
        as_a_whole = word == "on average" and self.found.p[j] > LEVEL
        return CURVE + "from {:.4g} to {:.4g}".format(*ends) + (AS_A_WHOLE if as_a_whole else "") + "; "

    def _numbers(self) -> dict[str, np.ndarray]:
        found, sd = self.found, self.known["sd"]
        average, lower, upper, low, high, *new = self.unit * [
            found.average, *found.interval(self.coverage), *found.spread_interval(self.coverage),
            *found.new_task_interval(self.coverage),
        ]  # fmt: skip
        quartiles = self.known["lower_quartile"], self.known["upper_quartile"]
        ends = contrast_ends(*quartiles, sd) if self.known["is_curve"].any() else quartiles
        width = np.where(self.known["is_curve"], ends[1] - ends[0], quartiles[1] - quartiles[0])
        width = np.where(width > 0.0, width, np.nan)
        return {
            "average": average, "lower": lower, "upper": upper, "p": self._p(), "q": np.empty(0),
            "spread": self.unit * found.spread, "spread_lower": low, "spread_upper": high,
            "same_direction": found.same_direction, "new_task_lower": new[0], "new_task_upper": new[1],
            "n_tasks": found.n_tasks, "per_sd": average * sd, "quartiles": average * width,
            "quartiles_lower": lower * width, "quartiles_upper": upper * width,
            "p_column": self.known["p_column"],
        }  # fmt: skip

    def _p(self) -> np.ndarray:
        """P-values of no average effect: of a curve none between its quartiles, and none of its pieces."""
        p, joint = self.found.p, self.known["p_column"]
        return np.where(self.known["is_curve"], np.minimum(2.0 * np.fmin(p, joint), 1.0), p)

    def _ruled_out(self, numbers: dict[str, np.ndarray], j: int) -> str:
        reach = max(abs(numbers["lower"][j]), abs(numbers["upper"][j])) * self.known["sd"][j]
        return ruled_out(reach, largest_effect(self.model), RATIOS.get(self.model._loss.name))


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
    if "effects_" not in vars(model) or not isinstance(model._loss, Loss):
        return []
    return in_sentences(effect_rows(model), noun_of_tasks(model)[0], largest=largest_effect(model))


def largest_effect(model: Any) -> float:
    """An effect per standard deviation that is so large that to rule it out says little."""
    if isinstance(model._loss, Loss) and model._loss.name in RATIOS:
        return float(np.log(LARGEST_RATIO))
    return LARGEST_SHARE * float(model.effects_["target_sd"])


# -- levels --------------------------------------------------------------------------------------------------


def level_findings(model: Any) -> dict[int, float]:
    """Features whose columns the levels of tasks follow, at a false discovery rate of 10 %, and how far.

    They are columns that are the same in all rows of each task. What the mean of another column adds would
    hold what the penalty took off its slopes, too.
    """
    known, usable = vars(model).get("levels_"), getattr(model, "usable_", None)
    if known is None or usable is None:
        return {}
    own = np.flatnonzero(known["features"] < usable.shape[1])
    own = own[~usable.any(axis=0)[known["features"][own]]]
    own = own[q_values(known["p"][own]) <= LEVEL]
    own = own[np.argsort(known["p"][own], kind="stable")]
    _, first = np.unique(np.abs(known["tested"][own]).round(9), return_index=True)  # equal columns are one
    own = own[np.sort(first)]
    effects = known["tested"][own] / known["scale"][own]
    return dict(zip(known["features"][own].tolist(), effects.tolist(), strict=True))


def level_sentence(model: Any) -> str:
    """What makes a task high or low, and what remains, in one sentence; empty where levels are free.

    Of searches only: with a penalty that was not tuned, levels scatter by what it left of the slopes.
    """
    known = vars(model).get("levels_")
    if known is None or "cv_results_" not in vars(model):
        return ""
    names = model._feature_names()
    columns = [str(name) for name in vars(model).get("columns_") or names]
    found = [
        (f"{names[j]} is larger", effect, " per unit")
        if names[j] == columns[j]
        else (names[j].replace(f"{columns[j]}=", f"{columns[j]} is ", 1), effect, "")
        for j, effect in level_findings(model).items()
    ]
    spread = float(known["spread"][0]) if known["p_spread"][0] <= LEVEL else None
    ratio = {"logistic": "odds", "poisson": "rate"}.get(getattr(model._loss, "name", ""), "")
    return levels_in_words(found, spread, noun_of_tasks(model), ratio)
