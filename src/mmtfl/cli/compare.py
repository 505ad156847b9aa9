"""`mmtfl compare`: methods on the user's table, the same splits for all."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from mmtfl.cli import options
from mmtfl.cli.main import BadInput
from mmtfl.cli.output import number, print_json, print_lines, print_table
from mmtfl.cli.training import Training, read_training
from mmtfl.wording import count, plural, task_noun, with_article

if TYPE_CHECKING:
    from mmtfl.report.evaluation import Standing


def compare(
    data: options.DataFile,
    /,
    *,
    table: options.TableOptions = options.TableOptions(),
    text: options.TextOptions = options.TextOptions(),
    talk: options.TalkOptions = options.TalkOptions(),
    methods: Annotated[list[str] | None, options.SEVERAL, Parameter(group=options.MODEL)] = None,
    loss: Annotated[Literal["squared", "poisson"], Parameter(group=options.MODEL)] = "squared",
    repeats: Annotated[int, Parameter(group=options.MODEL)] = 4,
    fraction: Annotated[float, Parameter(group=options.MODEL)] = 0.5,
    folds: Annotated[int, Parameter(group=options.MODEL)] = 3,
    leave_task_out: Annotated[bool, options.SWITCH, Parameter(group=options.MODEL)] = False,
    seed: Annotated[int, Parameter(group=options.MODEL)] = 0,
    jobs: Annotated[int | None, options.JOBS, Parameter(group=options.MODEL)] = None,
) -> int:
    """Compare methods on a table: which predicts best, and which come close.

    Every method is tuned and fitted on the same parts of the table, and judged
    on the rows left out. With --group these are whole groups; with --time what
    follows the first --fraction of every task is cut into --repeats windows,
    each predicted from what comes before it. Each method is tested against
    the best, task by task (signed-rank test), or row by row if there are
    fewer than six tasks.

    With --leave-task-out whole tasks are left out instead: how well will this
    do at the next hospital?

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl compare d1.csv --task task --target y

    Parameters
    ----------
    data
        The table: .csv, .tsv, .parquet or .feather.
    methods
        Which of: mmtfl (what `cv` does), mmtfl22, mmtfl11, mmtfl21, mmtfl12 (`--pk 2,2` and so on), dirty,
        robust (`cv --method`), and scikit-learn's separate (a ridge for each task), lasso (for each task),
        pooled (one ridge with the task as a category), boosting (trees, with the task as a category). By
        default all but three of the members. With --leave-task-out: common (the common part of a model with
        pooling), mean (of the tasks' models), pooled, boosting.
    loss
        Of numbers: squared, or poisson for counts.
    repeats
        Parts to test on; with --leave-task-out the groups of tasks, each of which is left out once.
    fraction
        About how many of the rows of each task to train on: 0.5 for halves, 0.8 for four fifths.
    folds
        Folds inside training, with which this library's methods choose their strengths.
    leave_task_out
        Test on tasks that no method has seen a row of.
    seed
        Of everything random.
    jobs
        Processes; by default one per processor.
    """
    # one thread for numeric libraries, here and in the processes that fit; before they are imported
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    import numpy as np
    from joblib import cpu_count

    from mmtfl.report.evaluation import predict_held_out, splits, standings
    from mmtfl.report.rivals import USUAL, methods_for_new_tasks, methods_of_table

    scales: dict[str, Any] = {"standardize": True, "scale_targets": True, "folds": folds}
    make_methods = methods_for_new_tasks if leave_task_out else methods_of_table
    usual = list(USUAL) if methods is None and not leave_task_out else methods
    names = options.choose("methods", usual, make_methods())
    options.check_counts(repeats=repeats, folds=folds, seed=seed, jobs=jobs)
    if not 0.0 < fraction < 1.0:
        raise BadInput(f"--fraction must lie between 0 and 1, got {fraction:g}.")
    if table.weights is not None:
        raise BadInput("compare does not use row weights: leave --weights out, or put the column in --drop.")
    if table.task is None and len(table.target) == 1:
        raise BadInput("compare needs tasks: name their column with --task, or give several --target.")
    training = read_training(data, table, text, talk)
    if leave_task_out and training.task is None:
        raise BadInput("--leave-task-out needs tasks with rows of their own: name their column with --task.")
    rows = _rows(training, "classes" if training.classify else "counts" if loss == "poisson" else "numbers")
    if training.encoder.groups_:
        scales["feature_groups"] = training.encoder.groups_
    parts = splits(rows, repeats, fraction, seed, new_tasks=leave_task_out)
    if not any(np.ptp(own.y) > 0 for _, test in parts for own in rows.select(test).tasks):
        raise BadInput(
            "Nothing can be scored: no task has two different targets among the test rows. Use a smaller "
            "--fraction, or a target that varies within tasks."
        )
    known = make_methods(**scales)
    chosen = {name: known[name] for name in names}
    with talk.status("compare", lines=True) as told:
        jobs = jobs or cpu_count(only_physical_cores=True)
        heldout, seconds = predict_held_out(rows, parts, chosen, jobs=jobs, progress=told)
    titles = {name: method.title for name, method in chosen.items()}
    found = standings(heldout, titles, seconds=seconds)
    if talk.json:
        scores = {name: heldout.score_by_task(name) for name in names}
        by_name = {"task": rows.labels, "held_out": heldout.sizes, "judged": heldout.counted, **scores}
        tasks = [dict(zip(by_name, row, strict=True)) for row in zip(*by_name.values(), strict=True)]
        print_json({"kind": heldout.kind, "standings": found, "tasks": tasks, "n_splits": len(parts)})
        return 0
    one = task_noun(training.recipe.task_column)
    what, noun = "ranks rightly" if heldout.kind == "classes" else "explains", (one, plural(one))
    columns = ["method", f"{what} of all", f"within {with_article(one)}", "error beside the best"]
    columns += [f"{noun[1]} won by the best", "verdict", "seconds"]
    print_table(f"Held-out rows of {count(len(parts), 'part')}", columns, list(map(_cells, found)))
    print_lines(_sentence(found, int(np.count_nonzero(~heldout.counted)), noun))
    return 0


def _rows(training: Training, kind: str) -> Any:
    """The table as rows of tasks; at least two tasks are needed."""
    import numpy as np

    from mmtfl.report.rivals import Rows

    X, y = np.asarray(training.X, dtype=float), np.asarray(training.y)
    if training.classify and y.ndim == 1:  # those of several targets are 0 and 1 already
        y = (y == training.recipe.classes[1]).astype(int)
    if training.offset is not None and kind != "numbers":
        raise BadInput(f"compare's models of {kind} take no offset: leave --offset and --exposure out.")
    known: dict[str, Any] = {"groups": training.groups, "in_time": training.in_time}
    known |= {"offset": training.offset, "names": training.encoder.get_feature_names_out()}
    rows = Rows.of_table(X, y, training.task, kind=kind, **known)
    if len(rows.labels) < 2:
        raise BadInput("compare needs at least two tasks, and the table has one: `mmtfl cv` tunes one model.")
    return rows


# -- what came out -------------------------------------------------------------------------------------------


def _cells(one: Standing) -> tuple[str, ...]:
    scores = ("-" if math.isnan(value) else f"{value:.3f}" for value in (one.overall, one.within))
    beside, verdict = one.beside, one.verdict or "best"
    behind = "-" if beside is None else f"{100.0 * (1.0 / (1.0 + beside.change) - 1.0):+.1f} %"
    wins = "-" if beside is None else f"{beside.n_better}/{beside.n_tasks}"
    return one.title, *scores, behind, wins, verdict, number(one.seconds)


_CLAUSES = {  # in the order in which they are said
    "cannot be told apart": "It cannot be told apart from {}",
    "the same": "The same as it: {}",
    "about as good": "About as good: {}",
    "slightly worse": "Slightly worse: {}",
    "worse": "Worse: {}",
}


def _sentence(found: list[Standing], n_left: int, noun: tuple[str, str]) -> str:
    """The answer in words; so many tasks were left out of the judgement."""
    best, *others = found
    if not others:
        return f"{best.title} is the only method that was run."
    judged = next((one.beside for one in others if one.beside is not None), None)
    if judged is None:
        return f"No {noun[0]} has enough test rows whose target varies, so the methods cannot be judged."
    by = count(judged.n_tasks, *noun)
    if judged.unit == "row":
        by = f"{judged.n_units} rows, as six {noun[1]} are needed"
    groups: dict[str, list[str]] = {}
    for one in others:
        groups.setdefault(one.verdict, []).append(one.title)
    if set(groups) == {"worse"}:
        answer = f"{best.title} wins: every other method is worse by more than chance explains"
    else:
        said = [clause.format(", ".join(groups[v])) for v, clause in _CLAUSES.items() if v in groups]
        answer = f"{best.title} comes first. {'. '.join(said)}"
    left = f" {count(n_left, *noun)} with too few test rows did not count." if n_left else ""
    return f"{answer} (judged by {by}).{left}"
