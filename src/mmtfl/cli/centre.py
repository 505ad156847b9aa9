"""Training for `fit` and `cv` at the centre of sites that keep their rows: on summaries, not on a table."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import FileOptions, ScaleOptions, TableOptions, TextOptions
from mmtfl.cli.output import check_output
from mmtfl.cli.training import Training, library_words, train, train_on

SUFFIX = ".summary"


def train_any(
    data: Sequence[Path],
    output: Path,
    table: TableOptions,
    text: TextOptions,
    talk: FileOptions,
    scale: ScaleOptions,
    make: Callable[[Training], Any],
) -> int:
    """Train on a table, or on summaries of sites; the arguments are those of `train`."""
    if not any(path.suffix.lower() == SUFFIX for path in data):
        if len(data) > 1:
            raise BadInput(f"{len(data)} tables were given: put them into one, or give summaries of sites.")
        return train(data[0], output, table, text, talk, scale, make)
    given = vars(replace(table, classify=None))  # another loss says so, and is refused by its own name
    strange = next((name for name, value in given.items() if value != getattr(TableOptions(), name)), None)
    strange = strange or next((name for name, value in vars(scale).items() if value is not None), None)
    if strange is not None:
        option = strange.replace("_", "-")
        raise BadInput(f"--{option} does not go with summaries, which the sites agreed on: leave it out.")
    check_output(output, force=talk.force, inputs=data)
    return train_on(_open(data), Path(", ".join(path.name for path in data)), output, talk, make)


def _open(data: Sequence[Path]) -> Training:
    from mmtfl.tables.agreement import Agreement
    from mmtfl.tables.recipe import TableRecipe
    from mmtfl.tasks.container import Tasks

    with library_words():
        summarised = Tasks.from_summaries(data)
        agreed = Agreement.from_dict(summarised.agreement)
    recipe = TableRecipe((agreed.target,), agreed.task, agreed.task_kind)
    return Training(recipe, summarised, encoder=agreed.encoder())


def as_rows(training: Training) -> Training:
    """Summaries as few rows with the same moments; a table as it is."""
    if not hasattr(training.X, "agreement"):
        return training
    tasks = training.X.tasks()
    X, y, task = tasks.to_rows()
    return replace(training, X=X, y=y, task=task, weights=tasks.weights)
