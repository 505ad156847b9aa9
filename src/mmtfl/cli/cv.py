"""`mmtfl cv`: a model whose strength and kind of sharing are chosen by cross-validation."""

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mmtfl.cli import options
from mmtfl.cli.fit import exponent, grouped_levels, make_known, model_options, with_numbers_for_losses
from mmtfl.cli.main import BadInput
from mmtfl.cli.training import Training, train

TWO_STRENGTHS = {"dirty": "Dirty", "robust": "Robust", "lowrank": "LowRank", "capped": "Capped"}
_PAIRS = 10  # values of each of two strengths


def cv(
    data: options.DataFiles,
    /,
    *,
    table: options.TableOptions = options.TableOptions(),
    text: options.TextOptions = options.TextOptions(),
    method: Annotated[
        Literal["mmtfl", "dirty", "robust", "lowrank", "capped", "single"], Parameter(group=options.MODEL)
    ] = "mmtfl",
    pk: Annotated[list[str] | None, options.SEVERAL, Parameter(group=options.MODEL)] = None,
    poolings: Annotated[list[float] | None, options.SEVERAL, Parameter(group=options.MODEL)] = None,
    alphas: Annotated[list[float] | None, options.SEVERAL, Parameter(group=options.MODEL)] = None,
    folds: Annotated[int | None, Parameter(group=options.MODEL)] = None,
    scoring: Annotated[str | None, Parameter(group=options.MODEL)] = None,
    one_se: Annotated[bool, options.SWITCH, Parameter(group=options.MODEL)] = False,
    curves: Annotated[Literal["auto", "yes", "no"] | None, Parameter(group=options.MODEL)] = None,
    jobs: Annotated[int, options.JOBS, Parameter(group=options.MODEL)] = 1,
    seed: Annotated[int, Parameter(group=options.MODEL)] = 0,
    model: options.ModelOptions = options.ModelOptions(),
    scale: options.ScaleOptions = options.ScaleOptions(),
    output: Annotated[Path, options.TARGET_FILE],
    talk: options.FileOptions = options.FileOptions(),
) -> int:
    """Fit a model to a table, tuned by cross-validation.

    The table is read as it is: empty cells, words and dates are taken care
    of, and notes say how. Several kinds of models and strengths are scored on
    rows held out, and the best one is fitted on all rows.

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl cv d1.csv --task task --target y -o d1.mmtfl

    Parameters
    ----------
    data
        The table: .csv, .tsv, .txt (also .gz), .xlsx, .ods, .dta, .sav, .parquet or .feather; or
        summaries of sites (.summary).
    output
        The model; its name usually ends in .mmtfl.
    method
        What is assumed of the tasks. mmtfl: they share features. dirty: most features matter to all, and
        single tasks have exceptions. robust: a few tasks are unlike all others. lowrank: all features matter,
        in a few combinations. capped: few features matter, and those are not shrunk. single: one lasso for
        each task.
    pk
        Pairs p,k to choose from, by default 2,2 1,1 2,1 1,2; k may be inf or log. With p = 2 a feature is
        kept for all tasks or for none; with p = 1 it may be kept for some.
    poolings
        Values of pooling to choose from, from 0 (tasks share features) to below 1 (they share values too).
        By default 0 0.9 0.99 for p = 2 where one column holds the targets of several tasks; else, and with
        pairs named by --pk, 0.
    alphas
        How many strengths are tried (by default 100, or 10 of each where a method has two), or two and more
        strengths themselves.
    folds
        Number of folds, by default 5, or 10 where tasks have less than two rows per feature on average; every
        task is in the training part of every fold. With --group no group is in both parts of a fold; with
        --time each fold tests later rows than it trains on.
    scoring
        What is best on held-out rows, averaged over tasks; by default minus the loss. Usual names are r2,
        neg_mean_squared_error and neg_mean_absolute_error for numbers, auc, accuracy, balanced_accuracy,
        average_precision, neg_log_loss and f1 for classes; all names of scikit-learn's scorers are known.
    one_se
        Take the strongest penalty whose score is within a standard error of the best.
    curves
        Whether the effect of a column of numbers may be a curve; with auto held-out rows decide.
    jobs
        Folds and pairs worked on at a time; -1 for all processors.
    seed
        Seed of the folds. With 0 those of the closest candidates are repeated with other seeds.
    """
    pairs = _pairs(pk)
    options.check_counts(folds=folds, jobs=abs(jobs), seed=seed)
    if poolings is not None and not all(0.0 <= value < 1.0 for value in poolings):
        raise BadInput("--poolings must be numbers from 0 to below 1, such as 0 0.9.")
    suits = None
    if scoring is not None:  # first: reading may take long
        from mmtfl.model_selection.metrics import as_metric

        suits = as_metric(scoring).kind
    tried = _alphas(alphas)
    if method != "mmtfl":
        given = {"--pk": pk, "--poolings": poolings, "--dask": scale.dask, "--checkpoint": scale.checkpoint}
        _check_method(method, {**given, "--one-se": one_se and method in TWO_STRENGTHS}, tried)

    def make(training: Training) -> Any:
        targets = "classes" if training.classify else "numbers"
        if suits not in (None, targets):
            usual = "auc, accuracy or f1" if training.classify else "r2 or neg_mean_absolute_error"
            raise BadInput(f"--scoring {scoring} is for {suits}, and the targets are {targets}: use {usual}.")
        import mmtfl
        from mmtfl.model_selection.folds import usual_number

        kind = "Classifier" if training.classify else "Regressor"
        own = model_options(model, training, talk)
        if curves is not None and (curves != "auto" or method not in TWO_STRENGTHS):
            own["curves"] = {"auto": "auto", "yes": True, "no": False}[curves]
        # of summaries those that the sites agreed on
        agreed = getattr(training.X, "n_folds", None)
        if agreed not in (None, folds or agreed):
            raise BadInput(f"--folds {folds}: the sites agreed on {agreed}, and other folds need the rows.")
        n_folds = folds or agreed or usual_number(training.rows_per_task, training.n_features)
        splitter: Any = n_folds  # dealt with the seed 0; those of close candidates are repeated with others
        if training.in_time:
            splitter = mmtfl.model_selection.TaskTimeSplit(n_folds, stratify=training.classify)
        elif seed != 0:
            splitter = mmtfl.model_selection.TaskKFold(n_folds, random_state=seed, stratify=training.classify)
        tuning: dict[str, Any] = {"cv": splitter, "scoring": scoring, "n_jobs": jobs}
        if method in TWO_STRENGTHS:
            one = make_known(getattr(mmtfl, f"{TWO_STRENGTHS[method]}{kind}"), own, f"--method {method}")
            return mmtfl.TwoStrengthCV(one, strengths=tried or _PAIRS, **tuning)
        tuning |= {
            "selection": "one_se" if one_se else "best",
            "verbose": 0 if talk.quiet else 1 + talk.verbose,
        }
        asked = {"pk": pairs, "poolings": poolings, "alphas": tried}
        tuning |= {name: value for name, value in asked.items() if value is not None}
        name, single = ("SingleTask", {"p": 1}) if method == "single" else ("MMTFL", {})
        if method == "mmtfl":
            own |= grouped_levels(training, scale, talk)
        return make_known(
            getattr(mmtfl, f"{name}{kind}CV"), {**single, **tuning, **own}, f"--method {method}"
        )

    return train(data, output, with_numbers_for_losses(table, model), text, talk, scale, make)


def _pairs(words: list[str] | None) -> list[tuple[float, float | str]] | None:
    """Pairs as typed, "2,1" "1,2" or all in one word."""
    if words is None:
        return None
    pairs = []
    for word in " ".join(words).split():
        p, _, k = word.strip("()").partition(",")
        try:
            pairs.append((float(p), exponent(k)))
        except (ValueError, BadInput):
            raise BadInput(
                f"--pk {word!r} is not a pair p,k such as 2,1: k may also be inf or log."
            ) from None
    if not pairs:
        raise BadInput("--pk is empty: give at least one pair, such as 2,1.")
    return pairs


def _alphas(given: list[float] | None) -> int | list[float] | None:
    if given is None:
        return None
    if len(given) == 1 and given[0] >= 1 and float(given[0]).is_integer():
        return int(given[0])
    if any(not 0 < alpha < float("inf") for alpha in given):
        raise BadInput("--alphas must be a number of strengths such as 50, or positive strengths.")
    return given


def _check_method(method: str, given: dict[str, Any], alphas: int | list[float] | None) -> None:
    """Refuse options that another method does not have."""
    wrong = next((name for name, value in given.items() if value), None)
    if wrong is not None:
        others = "mmtfl and single" if wrong == "--one-se" else "mmtfl"
        raise BadInput(f"{wrong} does not go with --method {method}: it is for {others} only.")
    if method in TWO_STRENGTHS and isinstance(alphas, list):
        raise BadInput(f"--method {method} has two strengths: --alphas is how many of each to try.")
