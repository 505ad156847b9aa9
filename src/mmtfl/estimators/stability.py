"""How sure a model can be of its features: half samples, a bound on false ones, words with evidence."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from mmtfl.engines.threads import one_blas_thread
from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.family import fit_part, plain_copy
from mmtfl.estimators.inputs import check_nothing_else, take_task_column
from mmtfl.estimators.supported_features import MAJORITY, SOMEWHERE, Stability, check_share
from mmtfl.model_selection.dealing import with_groups
from mmtfl.model_selection.evidence import EntryEffects, Evidence, entry_effects, weigh_evidence
from mmtfl.model_selection.half_samples import (
    ASSUMPTIONS,
    complementary_pairs,
    expected_false,
    smallest_threshold,
    too_small_to_halve,
)
from mmtfl.model_selection.progress import Progress
from mmtfl.objective.losses.by_rows import LossPerTask, target_units
from mmtfl.persistence.content_hash import fingerprint
from mmtfl.solvers.checkpoint import Checkpoint, finite
from mmtfl.tasks.checks import check_task_labels
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.scaling import column_spread, could_use
from mmtfl.tasks.stored import StoredTasks

_NOWHERE = 0.01  # probability that a feature matters nowhere, of those that are said to matter somewhere


def stability(
    estimator: Any,
    X: Any,
    y: Any = None,
    task: Any = None,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    n_pairs: int = 50,
    max_false: float = 1.0,
    level: float = 0.2,
    max_features: int | None = None,
    assumption: str = "r-concave",
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Stability:
    """Fit a model to many half samples, and tell which of its features are supported, in which tasks.

    Every task is split into two halves ``n_pairs`` times, and the model is fitted to both (complementary
    pairs; Shah and Samworth 2013). A feature is selected if enough half samples keep it for the expected
    number of false features to be at most ``max_false``. In which tasks it has an effect is weighed by tests
    within the tasks, see ``docs/how_sure.md``.

    Parameters
    ----------
    estimator : model
        A model, or a search over models: then its choice (it is fitted first, if it is not). Not changed.
    X, y, task, sample_weight
        Data, as in the model's ``fit``.
    groups : array-like of shape (n_rows,), optional
        Groups of rows that must stay together, such as the patient of each row: they are in one half as a
        whole. The tests of effects within tasks take rows as independent all the same.
    n_pairs : int, default=50
        Number of pairs of half samples.
    max_false : float, default=1.0
        Number of false features to be expected among the selected ones, at most.
    level : float, default=0.2
        Probability up to which a single thing that ``supported`` says may be wrong. Of all that it says far
        less is wrong, see ``docs/how_sure.md``.
    max_features : int, optional
        Stop every path at so many features; by default the model's own strength decides. A model that keeps a
        large part of the features has no useful bound otherwise. For the (p, k) family only.
    assumption : {"r-concave", "unimodal"}
        What the bound assumes of the frequencies of false features; "unimodal" assumes less and promises
        less.
    random_state : int, RandomState or None
        Seed of the halves.
    n_jobs : int, optional
        Threads over half samples; the result is the same for any number.
    verbose : int, default=0
        Progress on stderr, if positive.
    checkpoint : str or path, optional
        File to which finished half samples go, and from which they are taken up; needs a number as
        ``random_state``.

    Returns
    -------
    found : Stability
        ``feature_frequency_``, ``entry_frequency_``, ``bound_``, ``supported_``, ``table()`` and more.

    Notes
    -----
    A task with fewer than four rows, or with fewer than two of a class, is left out: it has no halves.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressor, stability
    >>> from mmtfl.datasets import make_tasks
    >>> data = make_tasks(n_tasks=4, n_samples=60, n_features=12, n_informative=2, noise=0.5, random_state=0,
    ...                   law=lambda rng, shape: 1.0 + rng.uniform(size=shape))
    >>> model = MMTFLRegressor(p=2, k=1, alpha=0.5)
    >>> found = stability(model, data.X, data.y, task=data.task, n_pairs=20, random_state=0)
    >>> found.supported_[:3].tolist(), found.bound_ <= 1.0
    (['all', 'all', 'none'], True)
    """
    if assumption not in ASSUMPTIONS:
        raise ValueError(
            f"assumption must be one of {', '.join(map(repr, ASSUMPTIONS))}, got {assumption!r}."
        )
    _check_numbers(n_pairs, max_false, level, max_features)
    model = fixed_model(estimator, X, y, task, sample_weight, groups)
    tasks = _read(model, X, y, task, sample_weight, groups)
    halves = HalfSamples(model, max_features, n_jobs, verbose)
    return judge(
        halves, tasks, tuple(model._feature_names()), backend=model._backend,
        n_pairs=n_pairs, max_false=max_false, level=level, assumption=assumption,
        random_state=random_state, checkpoint=checkpoint,
    )  # fmt: skip


def judge(
    halves: HalfSamples,
    tasks: Tasks,
    names: tuple[str, ...],
    *,
    n_pairs: int,
    max_false: float = 1.0,
    level: float = 0.2,
    assumption: str = "r-concave",
    random_state: Any = None,
    checkpoint: Any = None,
    backend: str | None = None,
) -> Stability:
    """What half samples of some tasks say about the features of a model, by their names."""
    signs, labels = halves.signs(tasks, n_pairs, random_state, checkpoint)
    used, loss = signs != 0, halves.model._loss
    frequency = used.any(axis=1).mean(axis=0)
    n_kept = float(used.any(axis=1).sum(axis=1).mean())
    bound_of = (n_kept, tasks.n_features, n_pairs, assumption)
    threshold = smallest_threshold(max_false, *bound_of) or 1.0
    usable = could_use(tasks, fit_intercept=True)
    tests = entry_effects(tasks, frequency >= MAJORITY, usable, loss)
    evidence, selected = _evidence(halves.model, tasks, tests), frequency >= threshold
    untested = (usable & ~np.isfinite(tests.error)).any(axis=0)
    words = supported(evidence, untested, selected, level)
    effects = entry_effects(tasks, np.isin(words, SOMEWHERE), usable, loss)
    return Stability(
        feature_frequency_=frequency,
        entry_frequency_=_spread_out(used.mean(axis=0), labels, tasks.labels),
        sign_agreement_=_spread_out(_sign_agreement(signs), labels, tasks.labels),
        n_kept_=n_kept,
        threshold_=threshold,
        bound_=expected_false(threshold, *bound_of),
        selected_=selected,
        supported_=words,
        kind_probability_=evidence.kinds,
        entry_probability_=evidence.entries,
        effect_=effects.effect,
        effect_error_=effects.error,
        effect_spare_=effects.spare,
        tasks_=tasks.labels,
        left_out_=tasks.labels[~np.isin(tasks.labels, labels)],
        level_=level,
        max_false_=max_false,
        n_pairs_=n_pairs,
        assumption_=assumption,
        feature_names_=names,
        backend_=backend,
    )


def _check_numbers(n_pairs: int, max_false: float, level: float, max_features: int | None) -> None:
    if n_pairs < 1:
        raise ValueError(f"n_pairs must be at least 1, got {n_pairs!r}.")
    if not max_false > 0.0:
        raise ValueError(f"max_false must be positive, got {max_false!r}.")
    check_share("level", level)
    if max_features is not None and max_features < 1:
        raise ValueError(f"max_features must be at least 1, got {max_features!r}.")


# -- the model and its data --------------------------------------------------------------------------------


def fixed_model(estimator: Any, X: Any, y: Any, task: Any, sample_weight: Any, groups: Any) -> TaskModel:
    """The model with the strengths that are to be judged: those of the estimator, or those that it chose."""
    if hasattr(estimator, "_chosen_model"):
        if not hasattr(estimator, "cv_results_"):
            estimator = clone(estimator).fit(X, y, task=task, sample_weight=sample_weight, groups=groups)
        estimator = estimator._chosen_model()
    if not isinstance(estimator, TaskModel):
        raise TypeError(f"stability needs a model of mmtfl, got {type(estimator).__name__}.")
    return plain_copy(estimator)


def _read(model: TaskModel, X: Any, y: Any, task: Any, sample_weight: Any, groups: Any) -> Tasks:
    """The tasks with targets in their own units; stored ones are loaded, for halves are made of rows."""
    if isinstance(X, StoredTasks):
        check_nothing_else(groups)
        model._know_columns_of(X)
        return TaskModel._prepare_stored(model, X).original_tasks()
    tasks = model._prepare(X, y, task, sample_weight).original_tasks()
    if groups is None:
        return tasks
    labels = take_task_column(X, task, model.task_column)[1]
    return with_groups(tasks, groups, None if labels is None else check_task_labels(labels, None))


# -- half samples --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HalfSamples:
    """Fits of one model to halves of its rows."""

    model: TaskModel
    max_features: int | None = None
    n_jobs: int | None = None
    verbose: int = 0

    def signs(self, tasks: Tasks, n_pairs: int, random_state: Any, checkpoint: Any) -> tuple[Any, Any]:
        """Signs of every half sample, (2 * n_pairs, n_tasks, n_features), and the labels of its tasks."""
        with_classes = is_classifier(self.model)
        small = too_small_to_halve(tasks, with_classes=with_classes)
        if small.all():
            raise ValueError(
                "No task can be halved: stability needs a task of four rows or more (two of each class)."
            )
        if small.any():
            some = tasks.select(~small[tasks.observation_task])
            return self.signs(some, n_pairs, random_state, checkpoint)
        rng = check_random_state(random_state)
        pairs = complementary_pairs(tasks, n_pairs, rng, with_classes=with_classes)
        halves = [half for pair in pairs for half in pair]
        kept = self._open(checkpoint, tasks, halves)
        with one_blas_thread():
            return np.array(self._all_signs(tasks, halves, kept)), tasks.labels

    def _open(self, checkpoint: Any, tasks: Tasks, halves: list[np.ndarray]) -> Checkpoint | None:
        if checkpoint is None or isinstance(checkpoint, Checkpoint):
            return checkpoint
        params = self.model.get_params(deep=False)
        parts = type(self.model).__name__, params, self.max_features, tasks, np.concatenate(halves)
        return Checkpoint(checkpoint, fingerprint("stability", *parts))

    def _all_signs(self, tasks: Tasks, halves: list[np.ndarray], kept: Checkpoint | None) -> list[np.ndarray]:
        n_threads = min(int(effective_n_jobs(self.n_jobs)), len(halves))
        shape = tasks.n_tasks, tasks.n_features
        with Progress("stability", len(halves), "half samples", shown=self.verbose > 0) as progress:

            def work(i: int) -> np.ndarray:
                known = None if kept is None else kept.read(f"half-{i}", {"signs": (finite, *shape)})
                signs = self.signs_of(tasks.select(halves[i])) if known is None else known["signs"]
                if kept is not None and known is None:
                    kept.write(f"half-{i}", {"signs": signs})
                progress.finish(i)
                return signs

            if n_threads > 1:
                return Parallel(n_jobs=n_threads, backend="threading")(
                    delayed(work)(i) for i in range(len(halves))
                )
            return [work(i) for i in range(len(halves))]

    def signs_of(self, half: Tasks) -> np.ndarray:
        """Signs of the coefficients of a fit to some rows, (n_tasks, n_features)."""
        return np.sign(fit_part(self.model, half, self.max_features)[0]).astype(np.int8)


# -- what half samples say -----------------------------------------------------------------------------------


def _evidence(model: TaskModel, tasks: Tasks, effects: EntryEffects) -> Evidence:
    """Effects in units of the features' spread, and of the targets' where the model scales them.

    All features and tasks then tell of the same laws.
    """
    scaled = getattr(model, "scale_targets", False) or isinstance(model._loss, LossPerTask)
    unit = target_units(tasks, model._loss)[:, None] if scaled else 1.0
    scale = column_spread(tasks) / unit
    return weigh_evidence(effects.effect * scale, effects.normal_error * scale)


def supported(evidence: Evidence, untested: np.ndarray, selected: np.ndarray, level: float) -> np.ndarray:
    """The verdict on each feature: a kind of probability 1 - level or more that agrees with the selection.

    That a feature matters at all has to be all but sure. Half samples weigh all tasks together, and seldom
    keep what a single task uses: "one" is said of any feature. "All" is not said of a feature that some task
    could use and could not be tested in: that task may be the exception.
    """
    kinds = np.nan_to_num(evidence.kinds, nan=1.0 / 4.0)
    _, one, some, every = (kinds >= 1.0 - level).T
    none = (kinds[:, 0] >= 1.0 - level) & ~selected
    several = kinds[:, 2] + kinds[:, 3] >= 1.0 - level
    matters = kinds[:, 0] <= _NOWHERE
    often = matters & selected
    cases = [none, one & matters, every & often & ~untested, some & often, several & often]
    return np.select(cases, ["none", "one", "all", "some", "several"], "undecided").astype("<U9")


def _sign_agreement(signs: np.ndarray) -> np.ndarray:
    up, down = (signs > 0).sum(axis=0), (signs < 0).sum(axis=0)
    n = up + down
    return np.divide(np.maximum(up, down), n, out=np.full(n.shape, np.nan), where=n > 0)


def _spread_out(values: np.ndarray, labels: np.ndarray, every: np.ndarray) -> np.ndarray:
    """Expand an array of some tasks to all tasks, with NaN for the others."""
    out = np.full((len(every), values.shape[1]), np.nan)
    out[np.isin(every, labels)] = values
    return out
