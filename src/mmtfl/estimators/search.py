"""The estimators that choose alpha, and (p, k) among candidates, by themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils._param_validation import InvalidParameterError

from mmtfl.engines.threads import one_blas_thread
from mmtfl.estimators.classification import MMTFLClassifier, TaskClassifier
from mmtfl.estimators.cross_validated import (
    CV,
    Search,
    fold_models,
    heldout_errors,
    read_grid,
    search_settings,
)
from mmtfl.estimators.family import FamilyMember, ProductForm
from mmtfl.estimators.parameters import COUNT, RATIO, FamilyParameters, choice, parameter
from mmtfl.estimators.prepared import Prepared
from mmtfl.estimators.regression import MMTFLRegressor, TaskRegressor
from mmtfl.model_selection.choosing import choose, contenders, hints_at_curves, rivals
from mmtfl.model_selection.cross_validation import (
    FoldScores,
    MemberPath,
    Settings,
    member_paths,
)
from mmtfl.model_selection.folds import check_folds
from mmtfl.model_selection.progress import Progress
from mmtfl.model_selection.splitting import TaskKFold
from mmtfl.model_selection.staged import curves_may_win, full_scores, staged_scores
from mmtfl.objective.known_features import KnownFeatures
from mmtfl.objective.penalties import RowPenalty, make_penalty
from mmtfl.solvers import solve
from mmtfl.solvers.checkpoint import FitCheckpoint
from mmtfl.solvers.path import Paths
from mmtfl.solvers.placed import check_room
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.curve_basis import N_COLUMNS
from mmtfl.tasks.moments import bytes_folded, fold_rows
from mmtfl.tasks.stored import StoredTasks

ALPHAS = parameter(COUNT, "array-like", default=100, kw_only=False)
USUAL_PAIRS = ((2, 2), (1, 1), (2, 1), (1, 2))
_POOLINGS = (0.0, 0.9, 0.99)  # tried where tasks may agree; docs/benchmarks.md has what they gain
_FREE_COMMON = 0.03  # w of eq. (10) at which the common part is all but free, however many tasks there are
_MOST_ENTRIES = 1 << 25  # of a table with curves that a search tries by itself
_LARGE = 1 << 20  # numbers of a table with curves; one member is tried on a larger one
_CONTENDERS, _MOST_REPEATS = 3, 3  # candidates whose folds are repeated, and how often
_PER_REPEAT = 4  # strengths of a path that take about as long as one strength by itself


@dataclass(frozen=True)
class Variant:
    """Lines or curves: the data, what solves paths on all rows, and what scores candidates on folds."""

    prepared: Prepared
    paths: Paths
    score: Callable[..., FoldScores]

    @property
    def curves(self) -> bool:
        """Whether features have curves."""
        return self.prepared.tasks.curves is not None


class TaskSearch(Search, ProductForm):
    """A model that gets its solution from a search over members and strengths.

    Parameters
    ----------
    alphas : int or array-like
        Number of strengths, from the smallest that gives zero (or next to nothing, for ridge) down to
        ``alpha_ratio`` times it, each (p, k) with its own grid; or the strengths themselves.
    alpha_ratio : float
        Smallest over largest alpha; None is 1e-3, or 1e-2 with fewer rows than coefficients (1e-6 where no
        alpha gives zero, as in ridge).
    selection : {"best", "one_se"}
        Take the best mean score, or the strongest alpha whose score is within one standard error of it. Of
        members whose best scores are within half a standard error of the best, by paired differences over
        folds, lines come before curves, convex members before others, and more pooling before less.
    search : {"staged", "full"}
        "staged" scores some of the alphas of every (p, k), then all of those between which the choice may
        be, and no longer those (p, k) that are clearly behind on the first folds; "full" scores all of them
        on all folds. Of grids with fewer than 24 alphas all are scored.

    Attributes
    ----------
    best_p_, best_k_ : float
        The member chosen; ``best_k_`` is "log" at the log edge.
    best_pooling_ : float
        Its pooling: 0 where the tasks share features, above where they share values too.
    best_curves_ : bool
        Whether features may act by curves.
    alpha_ : float
        The strength chosen.
    alphas_ : ndarray of shape (n_tried,)
        Strengths scored for that member, largest first: all of them with ``search="full"``.
    cv_results_ : dict of ndarrays
        One row per candidate that was scored: p, k, pooling, curves, alpha, mean_test_score, std_test_score,
        rank_test_score, a column per fold, tied (the best strength of a member that ties with the best of
        all) and chosen, ready for a frame. The score is that of ``scoring``; with None
        it is minus the mean loss of a row: half the squared error (in units of each task's spread with
        ``scale_targets``), the logistic loss, or what ``loss`` names. A (p, k) that was clearly behind on the
        first folds has NaN for the others, and for its mean; one whose pooling sets (2, 2) far back has no
        rows.
    best_score_ : float
        Mean over folds of that score, of the choice. R^2, or accuracy and AUC, are in ``heldout_scores_``.
    heldout_scores_ : dict of ndarrays
        How well the choice predicts rows that its fits have not seen, one row per task, ready for a frame:
        task, n_rows (held-out observations) and, for regression, r2 (with another loss than the squared one
        loss and deviance_explained); for classes accuracy, auc and base_rate (the share of the commoner
        class, which is the accuracy of always saying it). Each is over the rows of
        all folds together; auc over the pairs of rows of the same fold, as fits of different folds are not
        on one scale. NaN where it is not defined. The choice was made on these rows, which favours it a
        little.
    fold_models_ : dict of ndarrays
        Only after a search on summaries of sites: coefficients (n_folds, n_tasks, n_columns) and intercepts
        (n_folds, n_tasks) without each fold, with which `mmtfl finish` tells a site its errors.
    path_ : Path
        Coefficients of the chosen member at ``alphas_``, on all rows.
    """

    alphas: Any
    alpha_ratio: float | None = parameter(RATIO, default=None)
    selection: str = choice(("best", "one_se"))
    effects: bool = parameter(default=True)
    levels: str = parameter(default="shrunk")

    poolings: Any = (0.0,)

    __metadata_request__fit: ClassVar = {"task": True, "groups": True}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._members(None)

    def _wants_curves(self) -> bool:
        return self.curves is True

    def _members(self, tasks: Tasks | None, known: KnownFeatures | None = None) -> list[RowPenalty]:
        """The members to choose from, for these tasks (None: none are known yet) and features."""
        pairs = list(self.pk)
        if len(pairs) == 2 and not any(np.ndim(pair) for pair in pairs):
            pairs = [tuple(pairs)]
        if not pairs:
            raise InvalidParameterError("pk is empty: give at least one pair (p, k), such as (2, 1).")
        members: list[RowPenalty] = []
        # members that are named are tried as they are, unless poolings are named too
        may_pool = all(np.ndim(pair) == 1 for pair in pairs) and tuple(map(tuple, pairs)) == USUAL_PAIRS
        for pair in pairs:
            if np.ndim(pair) != 1 or len(pair) != 2:
                raise InvalidParameterError(f"pk must hold pairs (p, k), but {pair!r} is not one.")
            try:
                # an array of pairs makes strings of numbers as soon as one k is "log"
                p, k = float(pair[0]), pair[1] if pair[1] == "log" else float(pair[1])
                for pooling in self._poolings_of(p, tasks if may_pool else None, known):
                    members.append(make_penalty(p, k, 1.0, eps=self.eps, pooling=pooling, known=known))
            except (TypeError, ValueError) as error:
                raise InvalidParameterError(f"pk has the pair {pair!r}: {error}") from None
        if not members:
            raise InvalidParameterError(
                f"There is nothing to choose from: pk={self.pk!r} with poolings={self.poolings!r}. Pooling "
                "needs p = 1 or p = 2, so put 0 among the poolings, or such a pair among pk."
            )
        return members

    def _poolings_of(self, p: float, tasks: Tasks | None, known: KnownFeatures | None) -> list[float]:
        """Poolings that members with this p are tried with; where tasks are None only those asked for."""
        if self.poolings is not None:
            return [float(value) for value in self.poolings if value == 0.0 or p in (1.0, 2.0)]
        # sites that measure one thing in rows of their own may agree
        may_agree = tasks is not None and tasks.rows is None and tasks.n_tasks > 1
        may_agree = may_agree and (known is None or not known.positive.any())
        if not may_agree or p != 2.0:
            return [0.0]
        assert tasks is not None
        return [*_POOLINGS, tasks.n_tasks / (tasks.n_tasks + _FREE_COMMON)]

    def fit(
        self,
        X: Any,
        y: Any = None,
        task: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
        groups: Any = None,
    ) -> Self:
        """Choose by cross-validation, and fit the choice to all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_rows, n_features)
            Rows of all tasks; a frame may hold the labels too, see ``task_column``. Or what
            ``Tasks.from_parquet``, ``from_dask`` or ``from_summaries`` gives, and nothing else.
        y : array-like of shape (n_rows,) or (n_rows, n_tasks)
            Targets. With two dimensions each column is a task on the same rows, NaN where it was
            not observed.
        task : array-like of shape (n_rows,), optional
            Task label of each row, strings or integers. None: one task, or one per column of y.
        sample_weight : float or array-like of shape (n_rows,), optional
            Weights: 2 counts as a repeated row, 0 as an absent one.
        offset : array-like of shape (n_rows,) or (n_rows, n_tasks), optional
            Known part of the linear predictor, as in ``MMTFLRegressor.fit``.
        groups : array-like of shape (n_rows,), optional
            Groups of rows that must stay together, such as the patient of each row, strings or integers;
            groups may span tasks. No fold has rows of a group on both sides, and the errors of `effects` take
            rows of a group as dependent.

        Returns
        -------
        self : estimator
            Fitted.
        """
        self._check_parameters()
        prepared = self._prepare_folds(self, X, y, task, sample_weight, offset, groups)
        prepared, solution, penalty, on_folds = self._search(prepared)
        self._finish_fit(prepared, solution, penalty)
        self._learn_from_folds(prepared, on_folds)
        return self

    def _prepare_stored(self, stored: StoredTasks) -> Prepared:
        """With the squared loss compress rows, fold by fold, to a few with the same moments."""
        if not self._loss.is_quadratic or "pk" not in self._parameters or self._wants_curves():
            return super()._prepare_stored(stored)
        n_folds, seed = self._plain_folds(stored)
        remedy = "Raise memory_limit, use fewer folds, or search on a sample of the rows."
        check_room(stored, bytes_folded(stored, n_folds), f"A search with {n_folds} folds", remedy)
        rows = fold_rows(stored, n_folds, seed)
        tasks = Tasks.from_rows(rows.X, rows.y, rows.task, rows.weights, feature_names=stored.feature_names)
        prepared = Prepared.of(self, self._encode_targets(tasks, None))
        folds = check_folds(rows.folds(), prepared.tasks, with_classes=False)
        return replace(prepared, row_counts=stored.sizes, folds=folds)

    def _plain_folds(self, stored: StoredTasks) -> tuple[int, int]:
        """Number of folds and their seed, where rows are read one after the other."""
        cv = self._splitter(stored, stratify=False)
        if not isinstance(cv, TaskKFold) or not isinstance(cv.random_state, Integral):
            raise ValueError(self._not_for_stored("TaskKFold with a number as random_state"))
        return cv.n_splits, int(cv.random_state)

    def _search(self, prepared: Prepared) -> tuple[Prepared, Any, Any, Any]:
        """The data with the columns chosen, the solution, the penalty, and the models of the folds."""
        settings = search_settings(self, prepared, self.scoring)
        kept = self._open_checkpoint(prepared, prepared.folds, settings)
        # BLAS is held to one thread here, for all threads of the search: its limit is the process's
        with one_blas_thread():
            variant, chosen, i, on_folds = self._choose_variant(prepared, settings, kept)
            prepared, member, self.alphas_ = variant.prepared, chosen.member, chosen.alphas
            self.alpha_ = float(self.alphas_[i])
            penalty = member.at(self.alpha_)
            with Progress("all rows", 1, "paths", shown=self.verbose > 0) as progress:
                limits: Any = {"max_iter": self.max_iter, "report": partial(progress.reach, "path")}
                path = variant.paths.solve(member, self.alphas_, tol=settings.tol, certified=True, **limits)
                progress.finish("path")
        self.best_p_ = float(member.p)
        self.best_k_ = "log" if member.power == 0.0 else float(member.k)
        self.best_pooling_, self.best_curves_ = float(member.pooling), variant.curves
        self.path_ = path.scaled(prepared.column_scale, prepared.target_scale).without(prepared.tasks.absent)
        self.path_ = self.path_.lines(prepared.tasks.n_lines)
        solution = solve(
            variant.paths.problem,
            penalty,
            start=path.coef(i).T,
            **self._solver_options(),
            checkpoint=None if kept is None else FitCheckpoint(kept, "refit"),
        )
        return prepared, solution, penalty, on_folds

    def _choose_variant(
        self, prepared: Prepared, settings: Settings, kept: Any
    ) -> tuple[Variant, MemberPath, int, Any]:
        """Choose between lines and curves, members and strengths; with the models of the folds, if kept."""

        def variant_of(data: Prepared) -> Variant:
            data = self._with_prior(data)
            problem = data.problem()
            options = {"verbose": self.verbose, "engine": self.engine, "kept": kept}
            return Variant(data, Paths(problem), self._scorer(data, settings, **options))

        n_folds, first = len(prepared.folds), variant_of(prepared)
        members = self._members(prepared.tasks, prepared.known)
        candidates, found = self._scored(first.score, self._with_alphas(first, members), n_folds)
        variants = {first.curves: first}
        bent = self._with_curves(prepared)
        if bent is not None and self._hint_at_curves(first, candidates, found, bent, settings.tol):
            variants[True] = variant_of(bent)
            more, further = self._scored_curves(variants[True], candidates, found, n_folds)
            candidates, found = [*candidates, *more], FoldScores([*found.found, *further.found])
        repeated = self._repeated(variants, candidates, found, settings, kept)
        chosen, i, on_folds = self._decide(prepared, candidates, found, settings, repeated)
        assert isinstance(chosen, MemberPath)
        return variants[chosen.curves], chosen, i, on_folds

    def _repeated(
        self,
        variants: Mapping[bool, Variant],
        candidates: Sequence[Any],
        found: FoldScores,
        settings: Settings,
        kept: Any,
    ) -> dict[int, np.ndarray] | None:
        """Scores of the closest members on folds of other seeds; None where there is nothing to decide.

        As many as take a third of the search so far, counted in columns times strengths times folds, so that
        the answer does not depend on the clock.
        """
        data = next(iter(variants.values())).prepared
        plain = self.cv is None or isinstance(self.cv, Integral)
        close = contenders(found.scores, _CONTENDERS) if plain and data.row_counts is None else []
        if len(close) < 2 or self.search == "full":
            return None
        width = [variants[one.curves].prepared.tasks.n_features for one in candidates]
        done = sum(
            n * part["scores"].size for n, folds in zip(width, found.found, strict=True) for part in folds
        )
        each = _PER_REPEAT * len(data.folds) * sum(width[m] for m in close)
        tops = {m: int(np.argmax(found.scores[m].mean(axis=1))) for m in close}
        scores: dict[int, list[np.ndarray]] = {m: [] for m in close}
        for seed in range(1, 1 + min(_MOST_REPEATS, int(done / 3.0 / each))):
            folds = self._folds_of_seed(data, seed)
            for curves, variant in variants.items():
                own = [m for m in close if candidates[m].curves == curves]
                lists = [candidates[m].part(np.array([tops[m]])) for m in own]
                score = self._scorer(
                    replace(variant.prepared, folds=folds), settings, engine=self.engine, kept=kept
                )
                stage = f"repeat {seed}{' with curves' * curves}: "
                for m, part in zip(own, score(lists, stage=stage).scores if own else [], strict=True):
                    scores[m].append(part[0])
        return {m: np.concatenate(parts) for m, parts in scores.items()} if scores[close[0]] else None

    def _with_alphas(self, variant: Variant, members: Sequence[RowPenalty]) -> list[MemberPath]:
        how = {"curves": variant.curves, "rough": True}
        return member_paths(variant.paths, members, self._alphas(), self.alpha_ratio, **how)

    def _with_curves(self, prepared: Prepared) -> Prepared | None:
        """The data with curves, if these are to be tried; None where there are none, or they are too many."""
        without_rows = prepared.row_counts is not None and prepared.summarised is None
        if self.curves != "auto" or without_rows:
            return None
        n_rows, d = prepared.tasks.X.shape
        if n_rows * d * N_COLUMNS > _MOST_ENTRIES:
            return None
        return prepared.curved(self)

    def _hint_at_curves(
        self, lines: Variant, candidates: Sequence[Any], found: FoldScores, bent: Prepared, tol: float
    ) -> bool:
        """Whether the residuals of the best lines on all rows hint at curves."""
        m, i = choose(found.scores)
        member, alphas = candidates[m].member, candidates[m].alphas
        alphas, i = (alphas[: i + 1], i) if member.is_convex else (alphas[i:], 0)
        path = lines.paths.solve(member, alphas, max_iter=self.max_iter, tol=tol)
        plain = replace(lines.prepared, prior=None).problem()
        return hints_at_curves(plain, path.coef(i).T, path.intercepts[i], bent.tasks)

    def _scored_curves(
        self, variant: Variant, lines: Sequence[Any], found: FoldScores, n_folds: int
    ) -> tuple[Sequence[Any], FoldScores]:
        """Members with curves that were tried, and their scores: none where lines do as well."""
        best = lines[choose(found.scores)[0]].member
        data = variant.prepared
        members = [one for one in self._members(data.tasks, data.known) if one.is_convex]
        same = replace(best, known=data.known)
        first = min(members, key=lambda one: (one.p != 2.0, one.pooling != best.pooling), default=same)
        (trial,) = self._with_alphas(variant, [first])
        if not curves_may_win(variant.score, trial, lines, found):
            return [], FoldScores([])
        is_large = math.prod(data.tasks.X.shape) > _LARGE
        rest = [one for one in rivals(lines, found, members, same) if one is not first and not is_large]

        def score(lists: Sequence[Any], *, stage: str = "", **options: Any) -> FoldScores:
            return variant.score(lists, stage=f"curves, {stage or 'all folds: '}", **options)

        return self._scored(score, [trial, *self._with_alphas(variant, rest)], n_folds)

    def _scored(
        self, score: Callable[..., FoldScores], candidates: Sequence[Any], n_folds: int
    ) -> tuple[Sequence[Any], FoldScores]:
        if self.search == "staged":
            return staged_scores(score, candidates, n_folds, self.selection)
        return full_scores(score, candidates)

    # -- what a search looks back at once it has chosen ------------------------------------------------------

    def _learn_from_folds(self, prepared: Prepared, on_folds: Any) -> None:
        """Learn how far off the choice is on rows that were not fitted."""
        # few rows that stand for many have no errors
        if prepared.row_counts is None and self._errors_tell:
            self.heldout_errors_ = self._heldout_errors(prepared, on_folds)
        if "agreement_" in vars(self) and not np.ndim(self.alpha_):
            self.fold_models_ = fold_models(self._chosen_model(), prepared, on_folds)

    def _heldout_errors(self, prepared: Prepared, on_folds: Any) -> dict[str, np.ndarray]:
        return heldout_errors(self._chosen_model(), prepared, on_folds)

    def _chosen_model(self) -> FamilyMember:
        """The model that was chosen, not fitted."""
        if np.ndim(self.alpha_):
            raise TypeError(f"{type(self).__name__} with per_task=True has a strength for every task.")
        return self._member_at(self.alpha_)

    def _member_at(self, alpha: float) -> FamilyMember:
        """The member that was chosen, at some strength."""
        chosen = {"p": self.best_p_, "k": self.best_k_, "alpha": alpha, "pooling": self.best_pooling_}
        chosen["curves"] = self.best_curves_
        model: Any = MMTFLClassifier() if is_classifier(self) else MMTFLRegressor()
        given = {**self.get_params(deep=False), **chosen}
        return model.set_params(
            **{name: given[name] for name in model.get_params(deep=False) if name in given}
        )

    def _alphas(self) -> int | np.ndarray:
        alphas = read_grid(self.alphas)
        if alphas is None:
            raise InvalidParameterError(
                f"alphas must be a number of strengths or positive finite strengths, got {self.alphas!r}."
            )
        return alphas


class FamilySearch(FamilyParameters, TaskSearch):
    """A search over members of the family.

    Parameters
    ----------
    pk : (p, k) or sequence of (p, k)
        Members of the family to choose from; k may be "log".
    poolings : sequence of float
        Values of ``pooling`` that every (p, k) with p = 1 or 2 is tried with. None is (0, 0.9, 0.99, T / (T
        + 0.03)) for p = 2 where T tasks have rows of their own, the last with a common part that is all but
        free, and (0,) elsewhere: tasks that are columns of y are seldom in one unit, and p = 1 takes ten
        times as long and gains no more. With a ``pk`` of your own, None is (0,): the members named are those
        tried.
    """

    pk: Any = parameter("array-like", default=USUAL_PAIRS, kw_only=False)
    alphas: Any = ALPHAS
    cv: Any = CV
    poolings: Any = parameter(
        "array-like",
        default=None,
        remedy="Give numbers from 0 to below 1, such as (0, 0.9); (0,) is the family of the paper.",
    )
    curves: bool | str = parameter(default="auto")


class MMTFLRegressorCV(FamilySearch, TaskRegressor):
    """Multitask regression that chooses its strength and its member of the family by cross-validation.

    For every (p, k) and pooling a path of alphas is fitted on each fold's training part and scored on its
    test part, in stages (see ``search``); the best is fitted on all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl import MMTFLRegressorCV
    >>> from mmtfl.datasets import make_tasks
    >>> data = make_tasks(n_tasks=4, n_samples=40, n_features=12, n_informative=3, noise=0.5, random_state=0)
    >>> model = MMTFLRegressorCV(pk=((2, 2), (2, 1)), alphas=20, cv=3).fit(data.X, data.y, task=data.task)
    >>> model.best_p_, model.best_k_
    (2.0, 1.0)
    >>> bool(np.array_equal(np.flatnonzero(model.c_), np.flatnonzero(data.support.any(axis=0))))
    True
    """


class MMTFLClassifierCV(FamilySearch, TaskClassifier):
    """Multitask classification that chooses its strength and its member of the family by cross-validation.

    For every (p, k) a path of alphas is fitted on each fold's training part and scored on its test part, in
    stages (see ``search``); the best (p, k, alpha) is fitted on all rows.

    Examples
    --------
    >>> from mmtfl import MMTFLClassifierCV
    >>> from mmtfl.datasets import make_tasks
    >>> data = make_tasks(n_tasks=3, n_samples=200, n_features=10, n_informative=3, classification=True,
    ...                   noise=0.5, random_state=0)
    >>> model = MMTFLClassifierCV(pk=(2, 1), alphas=15, cv=3).fit(data.X, data.y, task=data.task)
    >>> model.score(data.X, data.y, task=data.task) > 0.8
    True
    """
