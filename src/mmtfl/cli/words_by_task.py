"""Options that may be given task by task, as LABEL=VALUE: losses and weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import ModelOptions, TableOptions


def has_no_unit(loss: Any) -> bool:
    """Whether a loss, as typed, is of targets that have no unit."""
    from mmtfl.objective.losses import KINDS

    return loss in KINDS and not KINDS[loss].on_residuals if isinstance(loss, str) else False


def loss_of(words: list[str] | None, recipe: Any) -> Any:
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


def task_weight_of(words: list[str] | None, recipe: Any) -> Any:
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
