"""`mmtfl compare`: the methods on the user's table, the same splits for all."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from mmtfl.cli import options
from mmtfl.cli.main import BadInput
from mmtfl.cli.output import number, print_json, print_lines, print_table
from mmtfl.cli.training import Training, check_no_offset, library_words, read_training
from mmtfl.wording import count, markdown_table

if TYPE_CHECKING:
    from mmtfl.report.paired_tests import Paired
    from mmtfl_lab.paper.table_comparison import Comparison, Standing

_METRICS = {"r2": "R²", "f1": "F1", "auc": "AUC"}
_AVERAGES = {"mean": "mean over tasks", "pooled": "all test rows"}


def compare(
    data: options.DataFile,
    /,
    *,
    table: options.TableOptions,
    text: options.TextOptions = options.TextOptions(),
    talk: options.TalkOptions = options.TalkOptions(),
    methods: Annotated[list[str] | None, options.SEVERAL, Parameter(group=options.MODEL)] = None,
    standardize: Annotated[bool, Parameter(group=options.MODEL)] = True,
    scale_targets: Annotated[bool, Parameter(group=options.MODEL)] = True,
    repeats: Annotated[int, Parameter(group=options.MODEL)] = 10,
    fraction: Annotated[float, Parameter(group=options.MODEL)] = 0.5,
    folds: Annotated[int, Parameter(group=options.MODEL)] = 3,
    metric: Annotated[Literal["r2", "f1", "auc"] | None, Parameter(group=options.MODEL)] = None,
    average: Annotated[Literal["mean", "pooled"], Parameter(group=options.MODEL)] = "mean",
    leave_task_out: Annotated[bool, options.SWITCH, Parameter(group=options.MODEL)] = False,
    seed: Annotated[int, Parameter(group=options.MODEL)] = 0,
    jobs: Annotated[int | None, options.JOBS, Parameter(group=options.MODEL)] = None,
    output: Annotated[Path | None, Parameter(name=["-o", "--output", "--out"], group=options.OUTPUT)] = None,
    fresh: Annotated[bool, options.SWITCH, Parameter(group=options.OUTPUT)] = False,
) -> int:
    """Compare methods on a table: which predicts best, and which come close.

    Every method is tuned and fitted on the same random splits, and scored on
    the rows left out. With --group these are whole groups; with --time what
    follows the first --fraction of every task is cut into --repeats windows,
    each predicted from what comes before it. Each method is tested against
    the best, task by task (signed-rank test), or row by row if there are
    fewer than six tasks.

    With --leave-task-out whole tasks are left out instead: how well will this
    do at the next hospital?

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl compare d1.csv --task task --target y --repeats 5 -o comparison

    Parameters
    ----------
    data
        The table: .csv, .tsv, .parquet or .feather.
    methods
        Which of: stl (each task alone), dmtl (`cv --method dirty`), rmtfl (`--method robust`), mmtfl22,
        mmtfl11, mmtfl21, mmtfl12 (`--pk 2,2` and so on), auto (the best of these four), pooled, centred (auto
        with pooling, which is `cv` as it is), datashared (the data-shared lasso), pretrained (the lasso of
        the package ptlasso, where it is installed), boosting (trees, with the task as a category). All by
        default. With --leave-task-out: common (the common part of a centred model), mean (of the tasks'
        models), pooled.
    standardize
        Put the features on one scale.
    scale_targets
        Put each task's target on one scale, where targets are numbers.
    repeats
        Random splits; with --leave-task-out the groups of tasks, each of which is left out once.
    fraction
        Part of the rows of each task to train on.
    folds
        Folds inside training, with which every method chooses its own strengths.
    metric
        Score: r2 for numbers, auc or f1 for classes; by default r2 or auc.
    average
        The mean of the tasks' scores, or the score of all test rows.
    leave_task_out
        Test on tasks that no method has seen a row of.
    seed
        Of everything random.
    jobs
        Processes; by default one per processor.
    output
        Folder for comparison.md, results.csv, results.json and what is finished: the same command goes on.
    fresh
        Throw away the cells of an earlier run in the folder.
    """
    options.use_one_thread()
    from mmtfl.persistence.json_values import plain
    from mmtfl_lab.paper.experiments import default_jobs
    from mmtfl_lab.paper.methods import COMPARED, FOR_NEW_TASKS, Grid
    from mmtfl_lab.paper.protocol import OtherSettings
    from mmtfl_lab.paper.table_comparison import compare as run

    known = FOR_NEW_TASKS if leave_task_out else COMPARED
    names = options.choose("methods", methods, known)
    options.check_counts(repeats=repeats, folds=folds, seed=seed, jobs=jobs)
    if not 0.0 < fraction < 1.0:
        raise BadInput(f"--fraction must lie between 0 and 1, got {fraction:g}.")
    if table.weights is not None:
        raise BadInput("compare does not use row weights: leave --weights out, or put the column in --drop.")
    if table.task is None and len(table.target) == 1:
        raise BadInput("compare needs tasks: name their column with --task, or give several --target.")
    training = read_training(data, table, text, talk)
    check_no_offset(training.recipe, "compare does", "leave --offset and --exposure out")
    if leave_task_out and training.task is None:
        raise BadInput("--leave-task-out needs tasks with rows of their own: name their column with --task.")
    pool, chosen = _pool(training), _metric(metric, training)
    why_not = {name: reason for name in names if (reason := known[name].why_not(training.classify))}
    if "pretrained" in names and (training.groups is not None or training.in_time):
        why_not["pretrained"] = "its own folds know neither groups nor time"
    names = [name for name in names if name not in why_not]
    if not names:
        raise BadInput(f"--methods {' '.join(why_not)} cannot be run: {'; '.join(why_not.values())}.")
    scales = {"standardize": standardize} | ({} if training.classify else {"scale_targets": scale_targets})
    with options.resumable(OtherSettings, is_kept=output is not None), library_words():
        found = run(
            pool,
            metric=chosen,
            average=average,
            options=scales,
            methods=names,
            repeats=repeats,
            fraction=fraction,
            seed=seed,
            grid=Grid(folds=folds),
            jobs=jobs or default_jobs(),
            folder=output,
            # what tells the table from others: the bytes of the file, and how its columns are used
            identity={"sha256": training.file.sha256, "recipe": plain(training.recipe.as_dict())},
            fresh=fresh,
            shown=not talk.quiet,
            on_new_tasks=leave_task_out,
        )
    if output is not None:
        _write(found, output)
        talk.say(f"Written: {', '.join(str(output / name) for name in _FILES)}")
    met = {(row["method"], words) for row in found.splits for words in row["warnings"]}
    talk.note(*(f"{method} is left out: {reason}" for method, reason in why_not.items()))
    talk.note(*(f"{method}: {words}" for method, words in sorted(met)))
    if talk.json:
        print_json(found.as_dict())
    else:
        print_table(_title(found), _columns(found), _rows(found))
        print_lines(_sentence(found))
    return 0


def _pool(training: Training) -> Any:
    import numpy as np

    from mmtfl_lab.paper.table_comparison import pool_of_table

    X, y = np.asarray(training.X, dtype=float), np.asarray(training.y)
    if training.classify and y.ndim == 1:  # those of several targets are 0 and 1 already
        y = (y == training.recipe.classes[1]).astype(int)
    structure: dict[str, Any] = {"groups": training.groups, "in_time": training.in_time}
    pool = pool_of_table(X, y, training.task, classify=training.classify, **structure)
    if len(np.unique(pool.rows.task)) < 2:
        raise BadInput("compare needs at least two tasks, and the table has one: `mmtfl cv` tunes one model.")
    return pool


def _metric(metric: str | None, training: Training) -> str:
    allowed = ("auc", "f1") if training.classify else ("r2",)
    if metric is not None and metric not in allowed:
        kind = "classes" if training.classify else "numbers"
        raise BadInput(
            f"--metric {metric} does not suit targets that are {kind}: use {' or '.join(allowed)}."
        )
    return metric or allowed[0]


_FILES = ("comparison.md", "results.csv", "results.json")


def _columns(found: Comparison) -> tuple[str, ...]:
    metric = _METRICS[found.metric]
    behind = "error" if found.metric == "r2" else metric
    return (
        *("method", f"median {metric}", _AVERAGES[found.average], "± over splits"),
        *(f"{behind} beside the best", "tasks won by the best", "verdict", "seconds"),
    )


def _titles(found: Comparison) -> dict[str, str]:
    from mmtfl_lab.paper.methods import COMPARED, FOR_NEW_TASKS

    known = FOR_NEW_TASKS if found.fraction is None else COMPARED
    return {name: method.title for name, method in known.items()}


def _rows(found: Comparison) -> list[tuple[str, ...]]:
    titles = _titles(found)
    return [_cells(titles[standing.method], standing) for standing in found.standings]


def _cells(title: str, standing: Standing) -> tuple[str, ...]:
    beside, median = standing.beside, standing.median
    wins = ("-", "-") if beside is None else (_behind(beside), f"{beside.n_better}/{beside.n_tasks}")
    scores = "-" if median is None else _score(median), _score(standing.mean), _score(standing.deviation)
    return (title, *scores, *wins, standing.verdict, number(standing.seconds))


def _score(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 100 else f"{value:.4g}"


def _behind(beside: Paired) -> str:
    """The median change of the error, or of the score, from the best method to this one."""
    if beside.change is None:
        return f"{-beside.gain:+.4f}"
    ratio = 1.0 / (1.0 + beside.change)
    return f"{100.0 * (ratio - 1.0):+.1f} %" if ratio < 10 else f"x {ratio:.3g}"


def _title(found: Comparison) -> str:
    n_splits = len({row["repeat"] for row in found.splits})
    if found.fraction is None:
        return f"{_METRICS[found.metric]} on tasks left out, in {count(n_splits, 'group')}"
    kind = "window" if found.in_time else "random split"
    what = f"{_METRICS[found.metric]}, {count(n_splits, kind)}"
    what += " in time after the first" * found.in_time + " of whole groups" * (
        found.kept_together and not found.in_time
    )
    return f"{what}{'' if found.in_time else ','} {100 * found.fraction:g} % for training"


def _sentence(found: Comparison) -> str:
    """The answer in words."""
    from mmtfl_lab.paper.table_comparison import BEST

    titles = _titles(found)
    first = titles[found.standings[0].method]
    if len(found.standings) == 1:
        return f"{first} is the only method that was run."
    judged = next((s.beside for s in found.standings if s.beside is not None), None)
    if judged is None:
        return "No task has 5 test rows or more whose target varies, so the methods cannot be judged."
    groups: dict[str, list[str]] = {}
    for standing in found.standings:
        groups.setdefault(standing.verdict, []).append(titles[standing.method])
    by = f"{judged.n_tasks} tasks"
    if judged.unit != "task":
        by = f"{judged.n_units} rows, as six tasks are needed"
    if set(groups) == {BEST, "worse"}:
        answer = f"{first} wins: every other method is worse by more than chance explains"
    else:
        said = [clause.format(", ".join(groups[v])) for v, clause in _CLAUSES.items() if v in groups]
        answer = f"{first} comes first. {'. '.join(said)}"
    if found.fraction is None:
        answer = f"On tasks of which no method has seen a row: {answer}"
    n_left_out, left_out = sum(not task["judged"] for task in found.tasks), ""
    if n_left_out:
        left_out = (
            f" {count(n_left_out, 'task')} with fewer than 5 test rows, or whose target does not vary, "
            f"{'is' if n_left_out == 1 else 'are'} left out of this."
        )
    bent = found.standings[0].method == "boosting" and set(groups) == {BEST, "worse"}
    lines = " A model of straight lines is not enough here: trees find what no linear model can." * bent
    return f"{answer} (judged by {by}).{lines}{left_out}"


_CLAUSES = {  # in the order in which they are said
    "cannot be told apart from the best": "It cannot be told apart from {}",
    "the same as the best": "The same as it: {}",
    "about as good as the best": "About as good: {}",
    "slightly worse": "Slightly worse: {}",
    "worse": "Worse: {}",
}


def _write(found: Comparison, folder: Path) -> None:
    from mmtfl.persistence.files import write_text
    from mmtfl.persistence.json_values import plain
    from mmtfl_lab.paper.results import csv_of_cells

    table = markdown_table(_columns(found), _rows(found))
    write_text(folder / "comparison.md", f"# {_title(found)}\n\n{_sentence(found)}\n\n{table}\n")
    fields = ("repeat", "method", "pooled", "mean", "seconds", "chosen", "warnings")
    write_text(folder / "results.csv", csv_of_cells(found.splits, fields))
    write_text(folder / "results.json", jsons.dumps(plain(found.as_dict()), indent=1, allow_nan=False))
