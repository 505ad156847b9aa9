"""`mmtfl fit`: one model at one strength; and options as arguments of an estimator, for `cv` too."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from mmtfl.cli import options
from mmtfl.cli.main import BadInput
from mmtfl.cli.training import Training, train
from mmtfl.wording import abbreviate, suggest

_SHARE = 0.1  # of the smallest alpha that drops every feature: a start where `cv` is not asked
_SMALL_SHARE = 1e-4  # where no strength drops a feature, of the one that leaves a thousandth of each


def fit(
    data: options.DataFiles,
    /,
    *,
    table: options.TableOptions = options.TableOptions(),
    text: options.TextOptions = options.TextOptions(),
    p: Annotated[float, Parameter(group=options.MODEL)] = 2.0,
    k: Annotated[str, Parameter(group=options.MODEL)] = "1",
    alpha: Annotated[float | None, Parameter(group=options.MODEL)] = None,
    pooling: Annotated[float, Parameter(group=options.MODEL)] = 0.0,
    curves: Annotated[Literal["yes", "no"], Parameter(group=options.MODEL)] = "no",
    model: options.ModelOptions = options.ModelOptions(),
    scale: options.ScaleOptions = options.ScaleOptions(),
    output: Annotated[Path, options.TARGET_FILE],
    talk: options.FileOptions = options.FileOptions(),
) -> int:
    """Fit one model to a table, at one strength of the penalty.

    Every task gets its own linear model; what they share is learned. Words
    become a feature for each level, dates become days, empty cells are filled,
    features and targets are put on one scale (coefficients come back on their
    own), and all of that is kept in the model. `mmtfl cv` chooses --p, --k and
    --alpha for you.

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl fit d1.csv --task task --target y --p 2 --k 1 --alpha 0.1 -o d1.mmtfl

    Parameters
    ----------
    data
        The table: .csv, .tsv, .txt (also .gz), .xlsx, .ods, .dta, .sav, .parquet or .feather; or summaries of
        sites (.summary).
    output
        The model; its name usually ends in .mmtfl.
    p
        With 2 a kept feature is used by all tasks; with 1 tasks choose among the kept features.
    k
        The smaller, the fewer features are kept, and the less they are shrunk. "inf" gives one model per
        task, "log" is the limit k = 0.
    alpha
        Strength of the penalty; by default a tenth of the smallest that drops every feature.
    pooling
        How strongly the tasks' coefficients are drawn to a common value (for p = 1 and p = 2): 0 is not at
        all; 0.9 or 0.98 suit tasks that are much alike.
    curves
        Whether the effect of a column of numbers may be a curve.
    """

    def make(training: Training) -> Any:
        from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor

        chosen: dict[str, Any] = {"p": p, "k": exponent(k), "pooling": pooling, "curves": curves == "yes"}
        chosen |= model_options(model, training, talk)
        chosen |= grouped_levels(training, scale, talk)
        kind = MMTFLClassifier if training.classify else MMTFLRegressor
        found = kind(alpha=1.0 if alpha is None else alpha, verbose=int(talk.verbose), **chosen)
        found._check_parameters()  # before the work of a default strength
        if alpha is None and training.file is None and not hasattr(training.X, "agreement"):
            raise BadInput("--memory-limit needs --alpha: finding one would read the files many times.")
        if alpha is None:
            found.set_params(alpha=_default_alpha(_as_rows(training), chosen, talk))
        return found

    return train(data, output, with_numbers_for_losses(table, model), text, talk, scale, make)


def exponent(word: str) -> float | str:
    """K as typed: a number, inf, or log."""
    if word == "log":
        return word
    try:
        return float(word)
    except ValueError:
        raise BadInput(f"--k {word!r} is not a number, inf or log.") from None


def _as_rows(training: Training) -> Training:
    """Summaries as few rows with the same moments; a table as it is."""
    if not hasattr(training.X, "agreement"):
        return training
    tasks = training.X.tasks()
    X, y, task = tasks.to_rows()
    return replace(training, X=X, y=y, task=task, weights=tasks.weights)


def _default_alpha(training: Training, chosen: dict[str, Any], talk: options.FileOptions) -> float:
    """A tenth of the strength at which nothing is left."""
    from mmtfl.estimators.coefficient_path import path_strengths

    p, k = chosen["p"], chosen["k"]
    # whether some strength drops every feature: its penalty has a corner at zero (r <= 1)
    drops = p == 1 if k == "log" else 1 / p + 1 / float(k) >= 1
    with warnings.catch_warnings(action="ignore"):  # the fit itself tells whether it converged
        grid = {"alphas": 2, "alpha_ratio": _SHARE if drops else _SMALL_SHARE}
        loss = {"sample_weight": training.weights, **({"loss": "logistic"} if training.classify else {})}
        loss |= {} if training.offset is None else {"offset": training.offset}
        given = {name: value for name, value in chosen.items() if name != "curves"}
        alphas = path_strengths(training.X, training.y, training.task, **{**given, **grid, **loss})
    alpha = float(f"{alphas[-1]:.3g}")
    what = "a tenth of what drops every feature" if drops else "small: no strength drops a feature here"
    talk.note(f"--alpha {alpha:g}, {what}; `mmtfl cv` tunes it")
    return alpha


# -- options of the command line as arguments of an estimator, for fit and cv --------------------------------


def model_options(
    model: options.ModelOptions, training: Training, talk: options.TalkOptions
) -> dict[str, Any]:
    """Arguments of the estimator; targets are put on one scale where they may have different units."""
    from mmtfl.objective.losses import KINDS

    names, recipe = ("standardize", "max_iter", "tol", "levels"), training.recipe
    arguments: dict[str, Any] = {name: getattr(model, name) for name in names}
    arguments["task_weight"] = _task_weight(model.task_weight, recipe)
    lacks = training.encoder is not None and training.encoder.absent_features == "allow"
    known = {
        "absent_features": "allow" if lacks else None,
        "penalty_weight": _penalty_weight(model.penalty_weight, training),
        "positive": _positive(model.positive, training),
    }
    arguments |= {name: value for name, value in known.items() if value is not None}
    if training.classify:
        if model.scale_targets:
            raise BadInput("--scale-targets is for numbers, and the targets are classes: leave it out.")
        return arguments
    loss = _loss(model.loss, training.recipe) if model.loss else _loss_by_target(training, talk)
    has_unit = not isinstance(loss, str) or loss not in KINDS or KINDS[loss].on_residuals
    # one column has one unit in all tasks, and the spread of a small task says little
    scaled = (len(recipe.target_columns) > 1 or loss == "huber") and has_unit
    scaled = scaled if model.scale_targets is None else model.scale_targets
    return {**arguments, "loss": loss, "delta": model.delta, "scale_targets": scaled}


def make_known(kind: Any, arguments: dict[str, Any], who: str) -> Any:
    """An estimator; an option that this kind does not have is refused by its name on the command line."""
    strange = next((name for name in arguments if name not in kind._parameters), None)
    if strange is not None:
        raise BadInput(f"--{strange.replace('_', '-')} does not go with {who}.")
    return kind(**arguments)


def grouped_levels(
    training: Training, scale: options.ScaleOptions, talk: options.TalkOptions
) -> dict[str, Any]:
    """Levels of one column as a group, for models of the family; a cluster cannot fit groups."""
    if training.encoder is None or not training.encoder.groups_:
        return {}
    if scale.dask:
        talk.note("levels of a column are not kept together: --dask does not go with groups of features")
        return {}
    place = {name: j for j, name in enumerate(training.encoder.get_feature_names_out())}
    # by position: parts of the rows are fitted again without names
    return {"feature_groups": [[place[name] for name in group] for group in training.encoder.groups_]}


def _penalty_weight(words: list[str] | None, training: Training) -> dict[str, float] | None:
    """Weights of columns as typed, by the names of their features."""
    expected = "not COLUMN=W, such as age=0"
    by_column = options.named_values("--penalty-weight", words, expected, value=float)
    found = {
        name: weight
        for column, weight in by_column.items()
        for name in _features_of(column, training, "--penalty-weight")
    }
    return found or None


def _positive(words: list[str] | None, training: Training) -> Any:
    if words == ["all"]:
        return True
    return [name for word in words or () for name in _features_of(word, training, "--positive")] or None


def _features_of(column: str, training: Training, option: str) -> list[str]:
    """The features that a column became."""
    if training.encoder is None:
        return [column]
    pairs = zip(training.encoder.get_feature_names_out(), training.encoder.columns_, strict=True)
    found = [name for name, source in pairs if source == column]
    if not found:
        known = suggest(column, list(dict.fromkeys(training.encoder.columns_)))
        raise BadInput(f"{option} names the column {column!r}, which is no feature{known}")
    return found


def _loss_by_target(training: Training, talk: options.TalkOptions) -> Any:
    """The squared loss; of several targets, the logistic loss of those that are 0 and 1."""
    names = training.recipe.target_columns
    if len(names) < 2 or training.kinds_are_given:
        return "squared"
    two = [name for name in names if set(training.y[name].dropna().unique()) == {0.0, 1.0}]
    if not two:
        return "squared"
    talk.note(
        f"{abbreviate(two)} {'has' if len(two) == 1 else 'have'} the values 0 and 1 only: fitted with "
        "the logistic loss beside the other targets (--regress for numbers, --loss NAME=LOSS for another)"
    )
    return {name: "logistic" if name in two else "squared" for name in names}


def _loss(words: list[str], recipe: Any) -> Any:
    """The loss as typed: one for all tasks, or one by label."""
    if len(words) == 1 and "=" not in words[0]:
        return words[0]
    expected = "neither a loss nor LABEL=LOSS, such as visits=poisson"
    return options.named_values("--loss", words, expected, key=_label(recipe))


def with_numbers_for_losses(table: options.TableOptions, model: options.ModelOptions) -> options.TableOptions:
    """The options of a table whose targets are numbers, however few values they have, if a loss is given."""
    if model.loss is None:
        return table
    if table.classify:
        raise BadInput("--loss is for numbers, and --classify makes them classes: leave one.")
    return replace(table, classify=False)


def _task_weight(words: list[str] | None, recipe: Any) -> Any:
    """Weights of tasks as typed: None, "equal", or a factor by label."""
    if words == ["equal"]:
        return "equal"
    expected = "neither equal nor LABEL=W, such as Bern=2"
    return options.named_values("--task-weight", words, expected, key=_label(recipe), value=float) or None


def _label(recipe: Any) -> Callable[[str], int | str]:
    """What reads a task label."""
    return int if recipe.task_kind == "int" else lambda word: word
