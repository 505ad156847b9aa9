"""Options of the command line as arguments of an estimator."""

from dataclasses import replace
from typing import Any

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import ModelOptions, ScaleOptions, TableOptions
from mmtfl.cli.output import note
from mmtfl.cli.training import Training
from mmtfl.wording import abbreviate, suggest


def model_options(model: ModelOptions, training: Training, *, quiet: bool = False) -> dict[str, Any]:
    """Arguments of the estimator; targets are put on one scale where they are numbers."""
    options: dict[str, Any] = {name: getattr(model, name) for name in ("standardize", "max_iter", "tol")}
    recipe = training.recipe
    options["task_weight"] = _task_weight(model.task_weight, recipe)
    known = {
        "absent_features": "allow" if recipe.absent_features == "allow" else None,
        "penalty_weight": _penalty_weight(model.penalty_weight, recipe),
        "positive": _positive(model.positive, recipe),
    }
    options |= {name: value for name, value in known.items() if value is not None}
    if training.classify:
        if model.scale_targets:
            raise BadInput("--scale-targets is for numbers, and the targets are classes: leave it out.")
        return options if model.drop_tasks is None else {**options, "on_degenerate_task": "base_rate"}
    if model.drop_tasks is not None:
        raise BadInput("--drop-tasks one-class is for classes, and the targets are numbers: leave it out.")
    loss = _loss(model.loss, training.recipe) if model.loss else _loss_by_target(training, quiet)
    # targets without a unit, such as counts, are not put on one scale unless that is asked for
    scaled = model.scale_targets if has_no_unit(loss) else model.scale_targets is not False
    return {**options, "loss": loss, "delta": model.delta, "scale_targets": bool(scaled)}


def make_known(kind: Any, options: dict[str, Any], who: str) -> Any:
    """An estimator; an option that this kind does not have is refused by its name on the command line."""
    strange = next((name for name in options if name not in kind._parameters), None)
    if strange is not None:
        raise BadInput(f"--{strange.replace('_', '-')} does not go with {who}.")
    return kind(**options)


def grouped_levels(
    model: ModelOptions, training: Training, scale: ScaleOptions | None, *, quiet: bool
) -> dict[str, Any]:
    """Features of one column as groups, for models of the family; a cluster cannot fit groups."""
    groups = training.recipe.feature_groups if model.group_levels else []
    if not groups or training.file is None:
        return {}
    if scale and scale.dask:
        if not quiet:
            note("levels of a column are not kept together: --dask does not go with groups of features")
        return {}
    return {"feature_groups": groups}


def _penalty_weight(words: list[str] | None, recipe: Any) -> dict[str, float] | None:
    """Weights of columns as typed, by the names of their features."""
    if words is None:
        return None
    found: dict[str, float] = {}
    for word in words:
        column, _, weight = word.rpartition("=")
        try:
            value = float(weight)
        except ValueError:
            raise BadInput(f"--penalty-weight {word!r} is not COLUMN=W, such as age=0.") from None
        found |= dict.fromkeys(_features_of(column, recipe, "--penalty-weight"), value)
    return found


def _positive(words: list[str] | None, recipe: Any) -> Any:
    if words is None or words == ["all"]:
        return None if words is None else True
    return [name for word in words for name in _features_of(word, recipe, "--positive")]


def _features_of(column: str, recipe: Any, option: str) -> list[str]:
    """The features that a column became."""
    found = next((known.features for known in recipe.features if known.name == column), None)
    if found is None:
        known = suggest(column, [known.name for known in recipe.features])
        raise BadInput(f"{option} names the column {column!r}, which is no feature{known}")
    return found


def has_no_unit(loss: Any) -> bool:
    """Whether a loss, as typed, is of targets that have no unit."""
    from mmtfl.objective.losses import KINDS

    return loss in KINDS and not KINDS[loss].on_residuals if isinstance(loss, str) else False


def _loss_by_target(training: Training, quiet: bool) -> Any:
    """The squared loss; of several targets, the logistic loss of those that are 0 and 1."""
    names = training.recipe.target_columns
    if len(names) < 2 or training.kinds_are_given:
        return "squared"
    two = [name for name in names if set(training.y[name].dropna().unique()) == {0.0, 1.0}]
    if not two:
        return "squared"
    if not quiet:
        note(
            f"{abbreviate(two)} {'has' if len(two) == 1 else 'have'} the values 0 and 1 only: fitted with "
            "the logistic loss beside the other targets (--regress for numbers, --loss NAME=LOSS for another)"
        )
    return {name: "logistic" if name in two else "squared" for name in names}


def _loss(words: list[str] | None, recipe: Any) -> Any:
    """The loss as typed: one for all tasks, or one by label."""
    if words is None or (len(words) == 1 and "=" not in words[0]):
        return "squared" if words is None else words[0]
    return _by_label("--loss", words, recipe, str, "a loss nor LABEL=LOSS, such as visits=poisson")


def with_numbers_for_losses(table: TableOptions, model: ModelOptions) -> TableOptions:
    """The options of a table whose targets are numbers, however few values they have, if a loss is given."""
    if model.loss is None:
        return table
    if table.classify:
        raise BadInput(
            "--loss is for targets that are numbers, and --classify makes them classes: leave one."
        )
    return replace(table, classify=False)


def _task_weight(words: list[str] | None, recipe: Any) -> Any:
    """Weights of tasks as typed: None, "equal", or a factor by label."""
    if words is None or words == ["equal"]:
        return None if words is None else "equal"
    return _by_label("--task-weight", words, recipe, float, "equal nor LABEL=W, such as Bern=2")


def _by_label(option: str, words: list[str], recipe: Any, kind: Any, expected: str) -> dict[Any, Any]:
    """Words LABEL=VALUE as a dict."""
    found: dict[Any, Any] = {}
    for word in words:
        label, sign, value = word.rpartition("=")
        try:
            found[int(label) if recipe.task_kind == "int" else label] = kind(value)
        except ValueError:
            sign = ""
        if not sign:
            raise BadInput(f"{option} {word!r} is neither {expected}.")
    return found
