"""What may leave a site: rules that a summary keeps, so that no row can be solved for from it.

Each rule is a function that raises a ValueError, which says what was found and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mmtfl.wording import count

LEAST_ROWS = 10  # of a task in a fold, and of a category in them
FEWEST = 3  # what may be agreed on in its place: fewer rows are solved for by hand


def check_least(least: int) -> None:
    """Refuse an agreement on so few rows that they can be told from their mean and scatter.

    Examples
    --------
    >>> from mmtfl.tasks.disclosure import check_least
    >>> check_least(2)
    Traceback (most recent call last):
    ...
    ValueError: A least number of 2 rows shows single rows, because two rows follow from their mean and \
scatter: agree on 3 or more, usually 10.
    """
    if least < FEWEST:
        raise ValueError(
            f"A least number of {count(least, 'row')} shows single rows, because two rows follow from their "
            f"mean and scatter: agree on {FEWEST} or more, usually {LEAST_ROWS}."
        )


def check_rows(n_rows: np.ndarray, labels: Sequence[Any], least: int) -> None:
    """Refuse tasks with too few rows in a fold, (n_tasks, n_folds).

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.disclosure import check_rows
    >>> check_rows(np.array([[12, 12], [12, 9]]), ["Aker", "Bern"], 10)
    Traceback (most recent call last):
    ...
    ValueError: Task 'Bern' has 9 rows in a fold, and the agreement asks for at least 10: leave the task \
out, or agree on fewer folds.
    """
    few = np.argwhere(n_rows < least)
    if len(few):
        t, k = few[np.argmin(n_rows[tuple(few.T)])]
        remedy = "leave the task out, or agree on fewer folds"
        if n_rows[t].sum() < 2 * least:
            remedy = "leave the task out, or join it with another one"
        raise ValueError(
            f"Task {labels[t]!r} has {count(n_rows[t, k], 'row')} in a fold, and the agreement asks for at "
            f"least {least}: {remedy}."
        )


def check_scatter(n_rows: np.ndarray, labels: Sequence[Any], n_columns: int) -> None:
    """Refuse a scatter matrix of so few rows that who knows all columns but one could solve for that one.

    Beside the mean, the scatter has ``n_columns`` equations for the entries of a column (with the target
    counted as a column), so that n_columns + 2 rows are needed to leave them open.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.disclosure import check_scatter
    >>> check_scatter(np.array([[12, 12]]), ["Aker"], n_columns=11)
    Traceback (most recent call last):
    ...
    ValueError: Task 'Aker' has 12 rows in a fold and 11 columns, target included: who knows all of them \
but one could solve for that one. At least 13 rows are needed: agree on fewer columns or fewer folds.
    """
    few = np.argwhere(n_rows <= n_columns + 1)
    if len(few):
        t, k = few[np.argmin(n_rows[tuple(few.T)])]
        raise ValueError(
            f"Task {labels[t]!r} has {count(n_rows[t, k], 'row')} in a fold and {n_columns} columns, target "
            f"included: who knows all of them but one could solve for that one. At least {n_columns + 2} "
            "rows are needed: agree on fewer columns or fewer folds."
        )


def smallest_cell(columns: np.ndarray) -> tuple[int, int]:
    """Fewest rows that differ from the commonest value of their column, and that column; 0 counts as none.

    Of a category it is the rarer side, of a number that is mostly zero the number of other values. Where the
    rows of all columns but a few agree, sums are those of the few.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.disclosure import smallest_cell
    >>> smallest_cell(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 7.0], [4.0, 0.0]]))
    (1, 1)
    """
    best = (len(columns) + 1, -1)
    for j, column in enumerate(columns.T):
        counts = np.unique(column, return_counts=True)[1]
        others = len(column) - int(counts.max())
        # of numbers that hardly repeat, none is the rule from which others differ
        is_cell = len(counts) == 2 or 2 * counts.max() > len(column)
        if is_cell and 0 < others < best[0]:
            best = (others, j)
    return best


def check_cells(columns: Mapping[str, np.ndarray], who: str, least: int) -> None:
    """Refuse a fold of a task in which too few rows differ from all others, such as a rare category.

    Parameters
    ----------
    columns : dict of str to ndarray of shape (n_rows,)
        Values in this fold of this task, by the name of what they are; categories as 0 and 1, the reference
        included.
    who : str
        The task, for the message.
    least : int
        What was agreed on.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.disclosure import check_cells
    >>> check_cells({"ward=surgery": np.repeat([0.0, 1.0], [30, 4])}, "Task 'Aker'", 10)
    Traceback (most recent call last):
    ...
    ValueError: Task 'Aker' has a fold in which only 4 of 34 rows differ from the rest in \
'ward=surgery', and the agreement asks for at least 10 (or none): join categories, leave the column out, \
or agree on fewer folds.
    """
    if not columns:
        return
    fewest, j = smallest_cell(np.column_stack(list(columns.values())))
    if fewest < least:
        name, n_rows = list(columns)[j], len(next(iter(columns.values())))
        raise ValueError(
            f"{who} has a fold in which only {fewest} of {n_rows} rows differ from the rest in {name!r}, and "
            f"the agreement asks for at least {least} (or none): join categories, leave the column out, "
            "or agree on fewer folds."
        )


def check_knots(values: np.ndarray, knots: Sequence[float], *, column: str, who: str, least: int) -> None:
    """Refuse knots of a curve that are so close that a part of it would be a sum over too few rows.

    No curve with these knots is zero but between two neighbouring knots, or beyond the last one alone, so
    that two neighbouring intervals together need rows enough.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.disclosure import check_knots
    >>> check_knots(np.arange(40.0), [10, 37.5, 38.5], column="age", who="Task 'Aker'", least=10)
    Traceback (most recent call last):
    ...
    ValueError: Task 'Aker' has a fold with 2 rows of 'age' beyond the knot 37.5, and the agreement asks for \
at least 10: agree on fewer knots, or on none for this column.
    """
    ends = np.concatenate([[-np.inf], np.asarray(knots, dtype=float), [np.inf]])
    single = np.histogram(values, ends)[0]
    n_rows = single[:-1] + single[1:]
    if n_rows.min() < least:
        i = int(n_rows.argmin())
        where = f"below the knot {ends[2]:g}" if i == 0 else f"beyond the knot {ends[i]:g}"
        raise ValueError(
            f"{who} has a fold with {count(n_rows[i], 'row')} of {column!r} {where}, and the agreement asks "
            f"for at least {least}: agree on fewer knots, or on none for this column."
        )


def check_written_once(found: Sequence[tuple[str, str, str, Sequence[Any]]]) -> list[int]:
    """Refuse two different summaries of one task under one agreement; positions of those that count.

    What two of them differ by belongs to the rows that came or went in between. Twice the same file counts
    once.

    Parameters
    ----------
    found : sequence of (file, agreement, content, labels)
        Of every summary: its name, hashes of the agreement and of the content, and the tasks that it has.

    Examples
    --------
    >>> from mmtfl.tasks.disclosure import check_written_once
    >>> aker, bern = ("a", "7f", "1", ["Aker"]), ("b", "7f", "2", ["Bern"])
    >>> check_written_once([aker, bern, ("c", "7f", "1", ["Aker"])])
    [0, 1]
    """
    owners: dict[Any, int] = {}
    kept: list[int] = []
    for i, (name, agreement, content, labels) in enumerate(found):
        first = found[0]
        if agreement != first[1]:
            raise ValueError(
                f"{name!r} was made under another agreement than {first[0]!r}: make all summaries with one "
                "agreed.json."
            )
        if any(content == found[j][2] for j in kept):
            continue
        for label in labels:
            if label in owners:
                raise ValueError(
                    f"{found[owners[label]][0]!r} and {name!r} are different summaries of task {label!r} "
                    "under one agreement: what they differ by shows single rows. Use the one that was made "
                    "first; for other rows the sites agree anew."
                )
            owners[label] = i
        kept.append(i)
    return kept
