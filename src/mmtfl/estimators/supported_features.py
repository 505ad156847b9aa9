"""What half samples say about the features of a model: frequencies, effects with intervals, and sentences."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from mmtfl.model_selection.evidence import KINDS, mean_over_tasks, t_reach
from mmtfl.tasks.frames import make_frame
from mmtfl.wording import abbreviate, count

SUPPORTED = ("all", "some", "several", "one", "undecided", "none")  # in the order of tables
SOMEWHERE = ("all", "some", "several", "one")
MAJORITY = 0.5  # features that half of the half samples keep are adjusted for
_BY_ENTRY = ("entry_frequency_", "sign_agreement_", "entry_probability_", "effect_", "effect_error_")


@dataclass(frozen=True)
class Stability:
    """What half samples say about the features of a model.

    Attributes
    ----------
    feature_frequency_ : ndarray of shape (n_features,)
        Share of the half samples in which some task uses the feature.
    entry_frequency_ : ndarray of shape (n_tasks, n_features)
        Share of the half samples in which the task uses it; NaN for tasks that are left out.
    sign_agreement_ : ndarray of shape (n_tasks, n_features)
        Of the half samples in which the task uses it, the share with the more frequent sign; NaN if none
        does.
    n_kept_ : float
        Mean number of features that a half sample keeps.
    threshold_ : float
        Frequency from which on a feature is selected: the smallest whose bound is at most ``max_false``, and
        1 if no threshold has such a bound.
    bound_ : float
        Bound on the expected number of selected features that are false: that a half sample keeps no more
        often than a feature drawn at random. At most the number of features, which promises nothing.
    selected_ : ndarray of bool, shape (n_features,)
        Features whose frequency is at least ``threshold_``.
    supported_ : ndarray of str, shape (n_features,)
        The tasks in which the feature has an effect, where that has a probability of at least ``1 - level``:
        "all", "some" (two or more, not all), "several" (two or more, perhaps all), "one" or "none"; else
        "undecided". The first three are for selected features only, and "none" for the others.
    kind_probability_ : ndarray of shape (n_features, 4)
        Probability that no task, one, some or all tasks use the feature; NaN if it could not be tested.
    entry_probability_ : ndarray of shape (n_tasks, n_features)
        Probability that the task uses it; NaN where it could not be tested.
    effect_, effect_error_ : ndarray of shape (n_tasks, n_features)
        Effect of the feature in the task, estimated without shrinkage beside the supported features, and its
        standard error; in the units of the data.
    effect_spare_ : ndarray of shape (n_tasks, n_features)
        Degrees of freedom of the standard errors; infinite for classes.
    tasks_ : ndarray of shape (n_tasks,)
        Task labels.
    left_out_ : ndarray
        Labels of the tasks that are too small to be halved: fewer than four rows, or than two of a class.
    level_, max_false_, n_pairs_, assumption_
        What was asked for.
    """

    feature_frequency_: np.ndarray
    entry_frequency_: np.ndarray
    sign_agreement_: np.ndarray
    n_kept_: float
    threshold_: float
    bound_: float
    selected_: np.ndarray
    supported_: np.ndarray
    kind_probability_: np.ndarray
    entry_probability_: np.ndarray
    effect_: np.ndarray
    effect_error_: np.ndarray
    tasks_: np.ndarray
    left_out_: np.ndarray
    level_: float
    max_false_: float
    n_pairs_: int
    assumption_: str
    feature_names_: tuple[str, ...]
    backend_: str | None = None
    effect_spare_: np.ndarray | None = None

    @property
    def promises_(self) -> bool:
        """Whether the bound is as small as was asked for."""
        return self.bound_ <= self.max_false_

    def as_dict(self) -> dict[str, Any]:
        """Everything by name, as arrays, numbers and texts."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, parts: dict[str, Any]) -> Stability:
        """What `as_dict` gave, checked: it may come from a file."""
        found = cls(**parts)
        n_tasks, n_features = len(found.tasks_), len(found.feature_names_)
        shapes = {"feature_frequency_": (n_features,), "kind_probability_": (n_features, 4)}
        shapes |= dict.fromkeys(("selected_", "supported_"), (n_features,))
        shapes |= dict.fromkeys(_BY_ENTRY, (n_tasks, n_features))
        if found.effect_spare_ is not None:  # files of an earlier version do not have it
            shapes["effect_spare_"] = n_tasks, n_features
        for name, shape in shapes.items():
            if not isinstance(parts[name], np.ndarray) or parts[name].shape != shape:
                raise ValueError(f"{name} of a stability is of a wrong shape")
        return found

    def supporting_tasks(self, j: int) -> np.ndarray:
        """Labels of the tasks in which feature j is supported; none for "none" and "undecided"."""
        if self.supported_[j] not in SOMEWHERE:
            return self.tasks_[:0]
        return self.tasks_[self.entry_probability_[:, j] >= 1.0 - self.level_]

    def untested_tasks(self, j: int) -> np.ndarray:
        """Labels of the tasks whose rows say nothing of feature j, such as those in which it is constant."""
        return self.tasks_[np.isnan(self.entry_probability_[:, j])]

    def table(self) -> Any:
        """One row per feature, those supported in most tasks first.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            - feature;
            - supported: "all", "some" (two or more, not all), "one", "none" or "undecided";
            - frequency: share of the half samples that keep the feature;
            - probability: of what ``supported`` says; of the most probable kind where it is undecided;
            - n_tasks, tasks: how many tasks support it, and which. Where two or more do and all might, it is
              undecided how many, and these are named;
            - sign_agreement: mean over the tasks that use it in most half samples;
            - effect, lower, upper: of supported features the mean over the tasks, with an interval of 90 %;
              where "some" or "one" is said, over the tasks named.
        """
        order = self.order()
        tasks = [self.supporting_tasks(j) for j in order]
        columns = {
            "feature": [self.feature_names_[j] for j in order],
            "supported": self.words()[order].tolist(),
            "frequency": self.feature_frequency_[order],
            "probability": self.probability_[order],
            "n_tasks": np.array([len(found) for found in tasks]),
            "tasks": [", ".join(map(str, found)) for found in tasks],
            "sign_agreement": self._agreement()[order],
            **dict(zip(("effect", "lower", "upper"), self.mean_effects()[order].T, strict=True)),
        }
        return make_frame(columns, self.backend_)

    def words(self) -> np.ndarray:
        """The verdicts as tables show them: "several" is undecided between "some" and "all"."""
        return np.where(self.supported_ == "several", "undecided", self.supported_)

    def order(self) -> np.ndarray:
        """Features by their word, then by their frequency."""
        place = [SUPPORTED.index(word) for word in self.supported_]
        return np.lexsort((-self.feature_frequency_, np.array(place)))

    def mean_effects(self, coverage: float = 0.9) -> np.ndarray:
        """Mean effect over the tasks with its interval, (n_features, 3); NaN of features not supported.

        Where "some" or "one" is said, the mean is over the tasks named. Effects are estimated without
        shrinkage. The interval is for the mean of these tasks, and takes the choice of the features and of
        the tasks for given.
        """
        found = np.full((len(self.feature_names_), 3), np.nan)
        for j in np.flatnonzero(np.isin(self.supported_, SOMEWHERE)):
            named = np.isin(self.tasks_, self.supporting_tasks(int(j)))
            named |= self.supported_[j] in ("all", "several")
            parts = self.effect_[named, j], self.effect_error_[named, j], self._degrees()[named, j]
            mean, reach = mean_over_tasks(*parts, coverage)
            found[j] = mean, mean - reach, mean + reach
        return found

    def effects(self, coverage: float = 0.9) -> Any:
        """Effects of the supported features, one row per feature and task that was tested.

        They are estimated without shrinkage, within each task, on all its rows and beside the other supported
        features. The intervals are t intervals that take the choice of the features for given: for features
        near the threshold the effect is too large on average.

        Parameters
        ----------
        coverage : float, default=0.9
            Of each interval.

        Returns
        -------
        frame : frame as that of `table`
            feature, task, effect, lower, upper, and probability: that the task uses the feature.
        """
        check_share("coverage", coverage)
        reach = self.effect_reach(coverage)
        known = np.isfinite(reach)
        pairs = [
            (j, t)
            for j in self.order()
            if self.supported_[j] in SOMEWHERE
            for t in np.flatnonzero(known[:, j])
        ]
        j, t = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        effect = self.effect_[t, j]
        columns = {
            "feature": [self.feature_names_[i] for i in j],
            "task": self.tasks_[t],
            "effect": effect,
            "lower": effect - reach[t, j],
            "upper": effect + reach[t, j],
            "probability": self.entry_probability_[t, j],
        }
        return make_frame(columns, self.backend_)

    def effect_reach(self, coverage: float = 0.9) -> np.ndarray:
        """Half the widths of the effects' intervals, (n_tasks, n_features)."""
        return t_reach(self.effect_error_, self._degrees(), coverage)

    def _degrees(self) -> np.ndarray:
        """Degrees of freedom; files of an earlier version do not have them."""
        return np.full_like(self.effect_, np.inf) if self.effect_spare_ is None else self.effect_spare_

    @property
    def probability_(self) -> np.ndarray:
        """Probability of what ``supported_`` says, (n_features,); of the most probable kind if undecided."""
        of_word = dict(zip(KINDS, self.kind_probability_.T, strict=True))
        of_word["several"] = of_word["some"] + of_word["all"]
        of_word["undecided"] = self.kind_probability_.max(axis=1)
        return np.array([of_word[word][j] for j, word in enumerate(self.supported_)])

    def _agreement(self) -> np.ndarray:
        often = (self.entry_frequency_ >= MAJORITY) & np.isfinite(self.sign_agreement_)
        total = np.where(often, self.sign_agreement_, 0.0).sum(axis=0)
        counts = often.sum(axis=0)
        return np.divide(total, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def check_share(name: str, value: float) -> None:
    """Refuse a value that is no share between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must be between 0 and 1, got {value!r}.")


# -- in sentences; docs/how_sure.md has the rules behind them ------------------------------------------------


def support_sentences(found: Any) -> list[str]:
    """How many features are supported where, how sure that is, and what could not be decided.

    Parameters
    ----------
    found : Stability or None
        ``stability_`` of a search; None gives no sentence.
    """
    if found is None:
        return []
    n = {word: int((found.supported_ == word).sum()) for word in SUPPORTED}
    how = f"{count(found.n_pairs_, 'pair')} of half samples"
    if not any(n[word] for word in SOMEWHERE):
        first = (
            f"Nothing was found: no feature is supported in any task ({how}; undecided: {n['undecided']})."
        )
        return [first, promise(found)]
    said = found.probability_[np.isin(found.supported_, SOMEWHERE)]
    sure = f"statements with a probability of at least {1.0 - found.level_:.0%}, {said.mean():.0%} on average"
    first = (
        f"Supported ({how}; {sure}): {count(n['all'], 'feature')} in all tasks, {n['some']} in some, "
        f"{n['several']} in several (two or more, perhaps all), {n['one']} in one; {n['none']} in none, "
        f"{n['undecided']} undecided."
    )
    return [first, *_named(found), promise(found)]


def features_with(found: Any, word: str) -> list[str]:
    """The features with this verdict, most frequent first."""
    order = (-found.feature_frequency_).argsort(kind="stable").tolist()
    return [found.feature_names_[j] for j in order if found.supported_[j] == word]


def _named(found: Any) -> list[str]:
    """The features that are supported, by their words."""
    parts = [
        f"{where}: {abbreviate(names)}"
        for word, where in zip(SOMEWHERE, ("in all tasks", "in some", "in several", "in one"), strict=True)
        if (names := features_with(found, word))
    ]
    text = "; ".join(parts)
    return [f"{text[0].upper()}{text[1:]}."]


def promise(found: Any) -> str:
    """How many of the selected features are expected to be false."""
    n, share = int(found.selected_.sum()), f"at least {found.threshold_:.0%} of the half samples"
    if found.threshold_ == 1.0:
        share = "all half samples"
    if not n:
        return f"No feature is selected: none is kept by {share}."
    which = f"{count(n, 'feature')} {'is' if n == 1 else 'are'} kept by {share}"
    if found.promises_:
        return f"{which}; at most {found.bound_:.2g} of these are expected to be false."
    return (
        f"{which}, but nothing can be promised of how many of these are false: half samples keep too large a "
        "part of all features."
    )


def in_which_tasks(found: Any, j: int) -> str | None:
    """Where feature j is supported: "all tasks", "some tasks (a, b)", "one task (c)", "none", "undecided"."""
    if found is None:
        return None
    word, tasks = str(found.supported_[j]), found.supporting_tasks(j)
    labels = [str(label) for label in tasks]
    if word == "one":
        return f"one task ({labels[0]})" if labels else "one task"
    if word in ("some", "several"):
        which = f"{word} tasks" if word == "some" else "two or more tasks, perhaps all"
        return f"{which} ({abbreviate(labels)})" if labels else which
    if word != "all":
        return word
    unknown = [str(label) for label in found.untested_tasks(j)]
    return f"all tasks that could be tested (not {abbreviate(unknown)})" if unknown else "all tasks"
