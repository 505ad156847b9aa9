"""The parameters of all estimators, each declared once, in the order of the signatures.

An estimator has the parameters of the groups among its bases. To add one to all estimators, declare it in a
group of `CommonParameters`, at the place where signatures are to show it.
"""

import math
import os
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

from sklearn.utils._param_validation import HasMethods, Interval, Options, StrOptions

from mmtfl.estimators.declaration import Declared, Valid, choice, parameter, restated
from mmtfl.estimators.feature_knowledge import AbsentParameters, KnownFeatureParameters, WeightParameters

FLAG = Valid("bool", ["boolean"])
COUNT = Valid("int", [Interval(Integral, 1, None, closed="left")])
POSITIVE = Valid("float > 0", [Interval(Real, 0, math.inf, closed="neither")])
RATIO = Valid("float", [Interval(Real, 0, 1, closed="neither")])

# -- strengths -----------------------------------------------------------------------------------------------


class MemberParameters(Declared):
    """Parameters of one member of the family."""

    p: float = parameter(
        Valid("float >= 1 or inf", [Interval(Real, 1, math.inf, closed="both")]),
        "Norm within a row of task parts: 2 shares a feature among all tasks, 1 lets each task choose.",
        default=2,
        remedy="Use p=1 for few tasks per feature, p=2 for all tasks alike, or float('inf') for l1,inf with "
        "k=1.",
        kw_only=False,
    )
    k: float | str = parameter(
        Valid('float > 0, inf or "log"', [Interval(Real, 0, math.inf, closed="right"), StrOptions({"log"})]),
        "Power of the shared part c: the smaller, the fewer features are kept. The model is convex where "
        "1/p + 1/k <= 1. ``inf`` gives one model per task (the lasso for p = 1, ridge for p = 2), "
        '"log" the limit at k = 0.',
        default=1,
        remedy="Use k=1 or k=2, float('inf') for one model per task, or 'log' for the limit at k = 0.",
        kw_only=False,
    )
    alpha: float = parameter(
        POSITIVE,
        "Strength of the penalty.",
        default=1.0,
        remedy="Use a small positive alpha, such as 1e-6, for almost no penalty.",
        kw_only=False,
    )
    pooling: float = parameter(
        Valid("float in [0, 1)", [Interval(Real, 0, 1, closed="left")]),
        "How freely the tasks share values, for p = 1 and p = 2: a row of coefficients scatters about a "
        "common part, ``common_``, which costs less the larger this number is. 0 has no common part and is "
        "the paper's family; towards 1 the common part is free. At p = 1 nothing is common up to 0.5.",
        default=0.0,
        remedy="Use 0 for no common part, or 0.5, 0.9 or 0.98 for tasks that agree more and more.",
    )


class SharedStrength(Declared):
    """Strength of the first part of the additive models."""

    alpha_shared: float = parameter(
        POSITIVE,
        "Strength of the penalty on P.",
        default=0.1,
        remedy="Use a large alpha_shared, such as 1e6, to drop the shared part.",
        kw_only=False,
    )


class DirtyParameters(SharedStrength, WeightParameters):
    """Parameters of the dirty models."""

    alpha_specific: float = parameter(
        POSITIVE,
        "Strength of the penalty on Q.",
        default=0.05,
        remedy="Use a large alpha_specific, such as 1e6, to drop the task-specific part.",
        kw_only=False,
    )
    p: float = parameter(
        Valid("{2, inf}", [Options(Real, {2, math.inf})]),
        "Norm of a row of P: inf is the dirty model, 2 its variant with the l2,1 norm.",
        default=math.inf,
        remedy="Use p=float('inf') for the dirty model, or p=2.",
    )


class OutlierParameters(SharedStrength):
    """Parameters of the models that set tasks apart."""

    alpha_outlier: float = parameter(
        POSITIVE,
        "Strength of the penalty on Q.",
        default=0.5,
        remedy="Use a large alpha_outlier, such as 1e6, to set no task apart.",
        kw_only=False,
    )


class CappedParameters(Declared):
    """Parameters of the models whose penalty is capped."""

    alpha: float = parameter(
        POSITIVE,
        "Strength of the penalty on features below the cap.",
        default=0.1,
        remedy="Use a small positive alpha, such as 1e-6, for almost no penalty.",
        kw_only=False,
    )
    cap: float = parameter(
        POSITIVE,
        "Sum of a feature's absolute coefficients over tasks from which it costs no more.",
        default=1.0,
        remedy="Use the size from which a feature counts as found, such as 1; a large one gives the lasso.",
        kw_only=False,
    )


class LevelParameters(Declared):
    """How the levels of tasks are told."""

    levels: str = parameter(
        choice("shrunk", "free"),
        'Whether each task\'s level is told by its own rows alone ("free"), or drawn to what levels have in '
        'common ("shrunk"): to b_0 + w . gamma, where w are the means of the task\'s columns, as far as its '
        "rows leave it open. How far levels scatter is estimated, not tuned; see ``level_spread_`` and "
        "``level_effects_``. Numbers that are columns of y, and tasks with losses of their own, have free "
        "levels.",
        default="free",
        remedy="Use 'shrunk' to let tasks borrow their level, or 'free' for plain intercepts.",
    )


# -- searches ------------------------------------------------------------------------------------------------


USUAL_PAIRS = ((2, 2), (1, 1), (2, 1), (1, 2))


class CandidateParameters(Declared):
    """The members that a search chooses from."""

    pk: Any = parameter(
        Valid("(p, k) or sequence of (p, k)", ["array-like"]),
        'Members of the family to choose from; k may be "log".',
        default=USUAL_PAIRS,
        kw_only=False,
    )
    poolings: Any = parameter(
        Valid("sequence of float", ["array-like"]),
        "Values of ``pooling`` that every (p, k) with p = 1 or 2 is tried with. None is (0, 0.9, 0.99, T / "
        "(T + 0.03)) for p = 2 where T tasks have rows of their own, the last with a common part that is all "
        "but free, and (0,) elsewhere: tasks that are columns of y are seldom in one unit, and p = 1 takes "
        "ten times as long and gains no more. With a ``pk`` of your own, None is (0,): the members named are "
        "those tried.",
        default=None,
        remedy="Give numbers from 0 to below 1, such as (0, 0.9); (0,) is the family of the paper.",
    )


class SingleTaskParameters(Declared):
    """Parameters of the single-task models."""

    p: float = parameter(
        Valid("{1, 2}", [Options(Real, {1, 2})]),
        "2 is ridge, 1 the lasso.",
        default=2,
        remedy="Use p=2 for ridge, or p=1 for the lasso.",
        kw_only=False,
    )
    per_task: bool = parameter(
        FLAG,
        "Whether every task has a strength of its own, chosen on its own rows, instead of one for all tasks. "
        "With ``standardize`` each task is then on its own scale.",
        default=False,
    )


class TwoStrengthParameters(LevelParameters):
    """The pairs of strengths that a search chooses from, and the model that has them."""

    estimator: Any = parameter(
        Valid("model with two strengths", [HasMethods(["fit", "predict"])]),
        "The model to tune; its own two strengths are not used.",
        kw_only=False,
    )
    levels: str = restated(default="shrunk", description="As in the model; the model's own is not used.")
    strengths: Any = parameter(
        Valid("int, or pair of int or array-like", [*COUNT.constraints, "array-like"]),
        "How many values of each strength, from the smallest that gives zero down to ``ratio`` times it; or "
        "the values themselves.",
        default=10,
        kw_only=False,
    )
    ratio: float | None = parameter(
        RATIO, "Smallest over largest value of a strength; None is 1e-3.", default=None
    )
    search: str = parameter(
        choice("staged", "full"),
        '"staged" scores the pairs of the largest strengths, and goes on to smaller values until scores have '
        'fallen twice; "full" scores all pairs. With fewer than three folds all are scored.',
        default="staged",
        remedy="Use 'staged' to choose, 'full' to see the score of every pair.",
    )


class GridParameters(Declared):
    """The strengths that a search chooses from."""

    alphas: Any = parameter(
        Valid("int or array-like", [*COUNT.constraints, "array-like"]),
        "Number of strengths, from the smallest that gives zero (or next to nothing, for ridge) down to "
        "``alpha_ratio`` times it, each (p, k) with its own grid; or the strengths themselves.",
        default=100,
        kw_only=False,
    )
    alpha_ratio: float | None = parameter(
        RATIO,
        "Smallest over largest alpha; None is 1e-3, or 1e-2 with fewer rows than coefficients (1e-6 where no "
        "alpha gives zero, as in ridge).",
        default=None,
    )


class CrossValidationParameters(Declared):
    """Folds and scores."""

    cv: Any = parameter(
        Valid(
            "int, splitter or iterable of (train, test)",
            [Interval(Integral, 2, None, closed="left"), HasMethods(["split"]), Iterable],
        ),
        "None is 5, or 10 where tasks have less than two rows per feature on average. A number n is "
        "``TaskKFold(n, random_state=0)`` (stratified for classifiers): every task "
        "is in the training part of every fold. Where tasks are columns of y, it splits rows with all their "
        "targets if all are observed, and the single observations if some are not; other splitters always "
        "split rows. ``TaskTimeSplit`` tests rows that come later in their task. With ``fit(groups=)`` folds "
        "never separate a group.",
        default=None,
        kw_only=False,
    )
    scoring: Any = parameter(
        Valid("str or callable", [str, callable]),
        "Score of held-out rows, averaged over tasks, as in ``task_scorer``; rows count by their weight "
        "where the metric takes weights. None is minus the loss of the rows.",
        default=None,
    )


class SearchParameters(CrossValidationParameters, GridParameters):
    """Parameters of a search over one strength."""

    selection: str = parameter(
        choice("best", "one_se"),
        "Take the best mean score, or the strongest alpha whose score is within one standard error of it. Of "
        "members whose best scores are within half a standard error of the best, by paired differences over "
        "folds, lines come before curves, convex members before others, and more pooling before less.",
        default="best",
    )
    search: str = parameter(
        choice("staged", "full"),
        '"staged" scores some of the alphas of every (p, k), then all of those between which the choice may '
        'be, and no longer those (p, k) that are clearly behind on the first folds; "full" scores all of '
        "them on all folds. Of grids with fewer than 24 alphas all are scored.",
        default="staged",
        remedy="Use 'staged' to choose, 'full' to see the score of every candidate.",
    )


# -- data ----------------------------------------------------------------------------------------------------


class DesignParameters(Declared):
    """Intercepts and scales."""

    fit_intercept: bool = parameter(
        FLAG, "Whether each task has an intercept, which is not penalised.", default=True
    )
    standardize: bool = parameter(
        FLAG,
        "Whether the penalty sees features divided by their standard deviation over all tasks. Coefficients "
        "come back on the original scale.",
        default=False,
    )


class CurveParameters(Declared):
    """Lines or curves."""

    curves: bool | str = parameter(
        Valid('bool or "auto"', ["boolean", StrOptions({"auto"})]),
        "Whether a numeric feature may act by a curve: its line is then joined by a block of natural splines "
        "that the penalty keeps or drops as a whole; see ``curve`` and docs/curves.md. Columns with fewer "
        "than six values, sparse X, and features with a sign, a weight of zero or a group keep lines. "
        '"auto" is for searches, whose folds decide; in a single fit it is True.',
        default=False,
        remedy="Use False for lines, True for curves, or 'auto' in a search.",
    )


class RegressionParameters(Declared):
    """Parameters of regressors only."""

    scale_targets: bool = parameter(
        FLAG,
        "Whether each task's target is divided by its standard deviation, so that tasks in different units "
        "do not compete. Coefficients and intercepts come back on the original scale; `objective_` does not.",
        default=False,
    )
    loss: str | Mapping[Any, str] = parameter(
        Valid("str or dict of label to str", [str, Mapping]),
        'What is minimised on the rows: "squared"; "huber", which outlying targets hardly move; "poisson" '
        "for counts, with predictions exp(X @ coef); or another loss of ``mmtfl.objective.losses``. A dict "
        'names the loss of each task (of each column of a 2-D y), among them "logistic" for targets 0 and 1, '
        "whose predictions are probabilities. Then targets of squared and huber tasks are measured in units "
        "of their spread, and every task's loss is divided by the size of its gradient at zero, so that no "
        "kind of target comes first because of its units.",
        default="squared",
        remedy="Use 'squared', 'huber' or 'poisson', or a dict such as {'stay': 'squared', 'visits': "
        "'poisson'}.",
    )
    delta: float = parameter(
        POSITIVE,
        'Only for "huber": the size of a residual from which it counts by its absolute value, in units of y, '
        "or of each task's spread with ``scale_targets`` or with a loss for each task.",
        default=1.35,
        remedy="Use about 1.35 times the standard deviation of the noise.",
    )


class TaskParameters(Declared):
    """Labels and weights of tasks, and columns of categories."""

    task_column: str | None = parameter(
        Valid("str", [str]),
        "The column of the frame X that holds the task labels, for tools that cannot pass ``task``. It is "
        "not a feature.",
        default=None,
        remedy="Name a column of the frame; labels of an array are passed as task= instead.",
    )
    unknown_task: str = parameter(
        choice("error", "mean", "common"),
        "What `predict` does with a label not seen in `fit`: refuse, use the mean of all tasks' "
        "coefficients, or the common part of a model with ``pooling``. A missing label is always refused.",
        default="error",
        remedy="Use 'error' to be told of new tasks, 'mean' to predict them by the mean over tasks, 'common' "
        "to predict them by what the tasks scatter about.",
    )
    categorical_features: str | None = parameter(
        Valid('"from_dtype"', [StrOptions({"from_dtype"})]),
        "What `fit` does with the columns of a frame that hold categories, text or dates (pandas, polars, "
        "pyarrow): refuse them, or encode the table as `mmtfl.TableEncoder` does, missing cells included. "
        "Levels become indicators such as ``diet=fish``, those of one column a group; the encoder is kept in "
        "``encoder_``, so that `predict` takes the raw table.",
        default=None,
        remedy="Use None, or 'from_dtype' to encode columns of categories, text and dates.",
    )
    task_weight: Any = parameter(
        Valid('"equal" or dict of label to float', [StrOptions({"equal"}), dict]),
        "Factors on the weights of the tasks' rows in the fit. None: every row counts alike, so that a task "
        'counts by its rows and a large one may drown the others. "equal" gives every task the same total '
        "weight. A dict gives the rows of a task its factor, 1 for tasks it does not name. The sum of all "
        "weights, and with it the meaning of alpha, stays what it was. Scores of held-out rows do not "
        "change: there a row counts by its own weight.",
        default=None,
        remedy="Use None, 'equal', or a dict such as {'Bern': 2.0}.",
    )


# -- solvers -------------------------------------------------------------------------------------------------


class SolverParameters(Declared):
    """The choice between Algorithm 1 and descent on rows."""

    solver: str = parameter(
        choice("auto", "alternating", "block"),
        '"alternating" is Algorithm 1 of the paper, "block" descends on rows of coefficients, "auto" picks.',
        default="auto",
        remedy="Use 'auto' unless you compare solvers.",
    )


class StoppingParameters(Declared):
    """Stopping criteria."""

    max_iter: int = parameter(
        COUNT,
        "Most passes over the data.",
        default=1000,
        remedy="Use a positive number of passes, such as 1000.",
    )
    tol: float = parameter(
        POSITIVE,
        "Stop when the distance to stationarity, relative to the largest gradient at zero, is below.",
        default=1e-7,
        remedy="Use a small positive number, such as 1e-7.",
    )


class WarmStart(Declared):
    """A parameter of models that are not searches."""

    warm_start: bool = parameter(
        FLAG,
        "Whether `fit` starts from the coefficients of the last `fit`, if tasks and features are the same.",
        default=False,
    )


class ThreadParameters(Declared):
    """Threads of this process."""

    n_jobs: int | None = parameter(
        Valid("int", [*COUNT.constraints, Interval(Integral, None, -1, closed="right")]),
        "Threads over tasks; -1 for all processors. The result is the same for any number.",
        default=None,
        remedy="Use None, a number of threads, or -1 for all processors.",
    )


class EngineParameters(Declared):
    """Work in other processes."""

    engine: Any = parameter(
        Valid("engine", [HasMethods(["place", "map"])]),
        "Where the tasks are kept and worked on, such as ``DaskEngine(client)``; None for this process. "
        'Elsewhere "auto" is "alternating".',
        default=None,
        remedy="Use None to run here, or DaskEngine(client).",
    )


class VerboseParameters(Declared):
    """Messages on stderr."""

    verbose: int = parameter(
        Valid("int", ["verbose"]),
        "Whether to tell on stderr how the fit went, in one line; searches also show how far they are, and "
        "Algorithm 1 its passes.",
        default=0,
    )


class PenaltyNumbers(Declared):
    """Arguments of `make_penalty` beside p, k and alpha, under the same names."""

    eps: float = parameter(
        POSITIVE,
        'Only for k="log": the penalty is alpha log(1 + S / eps).',
        default=1e-2,
        remedy="Use a small positive number, such as 1e-2.",
    )

    def _penalty_numbers(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in PenaltyNumbers._parameters}


class FamilyParameters(
    SolverParameters, ThreadParameters, EngineParameters, PenaltyNumbers, KnownFeatureParameters
):
    """Parameters of the members of the family, and of searches over them."""

    checkpoint: str | os.PathLike[str] | None = parameter(
        Valid("str or path", [str, os.PathLike]),
        "A file in which the fit keeps what it has reached: passes of Algorithm 1, finished parts of a "
        "search, and the solution. The same fit on the same data goes on from it and ends with the same "
        "bits; another one refuses it.",
        default=None,
        remedy="Name a file, such as 'fit.checkpoint', or use None.",
    )


class EffectParameters(Declared):
    """Whether effects with errors are estimated."""

    effects: bool = parameter(
        FLAG,
        "Whether `fit` also estimates unshrunk effects of all features, with errors, for the methods "
        "`effects` and `task_effects`.",
        default=False,
    )


class CommonParameters(
    DesignParameters,
    CurveParameters,
    AbsentParameters,
    TaskParameters,
    EffectParameters,
    StoppingParameters,
    VerboseParameters,
):
    """Parameters of all models."""
