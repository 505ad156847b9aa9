"""Saved models: loading them, the tasks they know, and the recipe that turns a table into their input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmtfl.cli.main import BadInput


def load_model(path: Path) -> Any:
    """Load a model, or say in one line why that cannot be."""
    from mmtfl.tables.loading import load

    try:
        return load(path)
    except FileNotFoundError:
        raise BadInput(
            f"There is no file {str(path)!r}: give a model written by `mmtfl fit` or save."
        ) from None
    except OSError as error:
        raise BadInput(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
    except ValueError as error:
        raise BadInput(str(error).replace("model.save(path)", "`mmtfl fit` or model.save(path)")) from None


def fitted_part(model: Any) -> Any:
    """The model itself, or the one inside a search around it."""
    return getattr(model, "best_estimator_", model)


def check_known_tasks(model: Any, labels: Any, remedy: str) -> None:
    """Refuse rows of tasks that the model does not know, if the table has labels at all."""
    from mmtfl.tasks.frames import abbreviate, suggest
    from mmtfl.tasks.wording import count

    new = new_tasks(model, labels)
    if new:
        known = fitted_part(model).tasks_.tolist()
        first = next(iter(new))
        row = labels.tolist().index(first) + 1
        others = f", of tasks {abbreviate(list(new))}" if len(new) > 1 else ""
        raise BadInput(
            f"Task {first!r} in data row {row} is not one the model knows ({count(sum(new.values()), 'row')} "
            f"with new tasks{others}){suggest(first, known, 'tasks')} {remedy}"
        )


def new_tasks(model: Any, labels: Any) -> dict[Any, int]:
    """Number of rows of every task that the model does not know, in order of appearance."""
    import numpy as np

    if labels is None:
        return {}
    new = labels[~np.isin(labels, fitted_part(model).tasks_)]
    found, first, counts = np.unique(new, return_index=True, return_counts=True)
    order = np.argsort(first)
    return dict(zip(found[order].tolist(), counts[order].tolist(), strict=True))


def recipe_for(model: Any, task: str | None) -> Any:
    """The recipe that turns a table into input of the model: its own, or one made of its feature names."""
    from dataclasses import replace

    from mmtfl.tables.column_encoding import FeatureColumn
    from mmtfl.tables.recipe import TableRecipe

    known = getattr(model, "recipe_", None)
    if known is not None:
        return known if task is None else replace(known, task_column=task)
    fitted = fitted_part(model)
    names = getattr(fitted, "feature_names_in_", None)
    if names is None:
        raise BadInput(
            "The model was fitted in Python on an array without names, so the columns of a table mean "
            "nothing to it: fit it on a frame, or use it in Python."
        )
    task = task or fitted.task_column
    if task is None and len(fitted.tasks_) > 1 and not fitted._predicts_matrix:
        raise BadInput("The model was fitted in Python and has several tasks: name their column by --task.")
    return TableRecipe(
        features=tuple(FeatureColumn(str(name)) for name in names),
        task_column=task,
        task_kind=None if task is None else {"U": "str", "i": "int"}[fitted.tasks_.dtype.kind],
    )
