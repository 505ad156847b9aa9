"""`mmtfl fit`: one model at one strength."""

import warnings
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmtfl.cli import options
from mmtfl.cli.main import BadInput
from mmtfl.cli.model_arguments import grouped_levels, model_options, with_numbers_for_losses
from mmtfl.cli.output import note
from mmtfl.cli.training import Training, train

_SHARE = 0.1  # of the smallest alpha that drops every feature: a start where `cv` is not asked
_SMALL_SHARE = 1e-4  # where no strength drops a feature, of the one that leaves a thousandth of each


def fit(
    data: options.DataFile,
    /,
    *,
    table: options.TableOptions,
    text: options.TextOptions | None = None,
    p: Annotated[float, Parameter(group=options.MODEL)] = 2.0,
    k: Annotated[str, Parameter(group=options.MODEL)] = "1",
    alpha: Annotated[float | None, Parameter(group=options.MODEL)] = None,
    pooling: Annotated[float, Parameter(group=options.MODEL)] = 0.0,
    model: options.ModelOptions | None = None,
    scale: options.ScaleOptions | None = None,
    output: Annotated[Path, options.TARGET_FILE],
    talk: options.FileOptions | None = None,
) -> int:
    """Fit one model to a table, at one strength of the penalty.

    Every task gets its own linear model; what they share is learned. Columns
    of text become one feature per level, features and targets are put on one
    scale (coefficients come back on their own), and all of that is kept in
    the model. `mmtfl cv` chooses --p, --k and --alpha for you.

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl fit d1.csv --task task --target y --p 2 --k 1 --alpha 0.1 -o d1.mmtfl

    Parameters
    ----------
    data
        The table: .csv, .tsv, .txt (also .gz), .parquet or .feather.
    output
        The model, by custom something.mmtfl.
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
    """
    model, talk = model or options.ModelOptions(), talk or options.FileOptions()

    def make(training: Training) -> Any:
        from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor

        chosen: dict[str, Any] = {"p": p, "k": exponent(k), "pooling": pooling}
        chosen |= model_options(model, training, quiet=talk.quiet)
        chosen |= grouped_levels(model, training, scale, quiet=talk.quiet)
        kind = MMTFLClassifier if training.classify else MMTFLRegressor
        found = kind(alpha=1.0 if alpha is None else alpha, verbose=int(talk.verbose), **chosen)
        found._check_parameters()  # before the work of a default strength
        if alpha is None and training.file is None:
            raise BadInput("--memory-limit needs --alpha: finding one would read the files many times.")
        return found if alpha is not None else found.set_params(alpha=_default_alpha(training, chosen, talk))

    return train(data, output, with_numbers_for_losses(table, model), text, talk, scale, make)


def exponent(word: str) -> float | str:
    """K as typed: a number, inf, or log."""
    if word == "log":
        return word
    try:
        return float(word)
    except ValueError:
        raise BadInput(f"--k {word!r} is not a number, inf or log.") from None


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
        alphas = path_strengths(training.X, training.y, training.task, **{**chosen, **grid, **loss})
    alpha = float(f"{alphas[-1]:.3g}")
    if not talk.quiet:
        what = "a tenth of what drops every feature" if drops else "small: no strength drops a feature here"
        note(f"--alpha {alpha:g}, {what}; `mmtfl cv` tunes it")
    return alpha
