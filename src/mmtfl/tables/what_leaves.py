"""A summary of a site in plain words: what leaves the house, for those who must allow it."""

from __future__ import annotations

import numpy as np

from mmtfl.tables.agreement import Agreement
from mmtfl.tasks.summaries import SiteSummary
from mmtfl.wording import count


def describe(summary: SiteSummary) -> list[str]:
    """Say in plain words what a summary tells of its site, and what it does not.

    Examples
    --------
    >>> from mmtfl.datasets import make_hospitals
    >>> from mmtfl.tables.agreement import Agreement
    >>> from mmtfl.tables.what_leaves import describe
    >>> table = make_hospitals(random_state=0).frame
    >>> aker = table[table["hospital"] == "Aker"]
    >>> agreed = Agreement.propose(aker, task="hospital", target="stay", features=["age", "ward"])
    >>> print(describe(agreed.summarise(aker))[0])
    This summary is about 180 rows of 1 task: Aker.
    """
    n_rows, T, K = summary.n_rows, *summary.n_rows.shape
    p = len(summary.columns)
    agreed = Agreement.from_dict(summary.agreement)
    listed = ", ".join(f"{label}" for label in summary.labels)
    fewest, where = _smallest(summary)
    constant = _constant(summary)
    pairs = p * (p - 1) // 2
    return [
        f"This summary is about {count(int(n_rows.sum()), 'row')} of {count(T, 'task')}: {listed}.",
        "It has no row, no name, no identifier, and no smallest or largest value.",
        "",
        f"The rows of each task were dealt at random to {K} parts. For each task and part the file has:",
        f"  {T * K:>6} numbers of rows (the smallest is {n_rows.min()}),",
        f"  {T * K * p:>6} means: one for each of the columns below,",
        f"  {T * K * p:>6} sums of squared deviations, which are the spreads of the columns,",
        f"  {T * K * pairs:>6} sums of products of deviations, one for each pair of columns.",
        "",
        f"The {p} columns:",
        *(f"  {line}" for line in _columns_in_words(agreed)),
        "",
        f"Smallest cell: {where} ({count(fewest, 'row')}).",
        f"Fewest rows allowed in a part, and in a category of it: {agreed.least_rows}. So that no column can "
        f"be solved for from the others, a part needs {p + 2} rows.",
        *constant,
        "Whoever reads the file learns these means, spreads and correlations, and of categories how many "
        "rows have them, also two at a time. Who knows all rows of a part but one can work out that one.",
        f"Agreement: {summary.agreement_hash[:16]}, content: {summary.content_hash[:16]}.",
    ]


def _columns_in_words(agreed: Agreement) -> list[str]:
    said = []
    for code in agreed.columns:
        if not code.is_number:
            said.append(f"{code.name}: shares of {', '.join(code.levels)} (the rest: {code.reference})")
        else:
            unit = f" in {agreed.units[code.name]}" if code.name in agreed.units else ""
            said.append(f"{code.name}: a {code.kind}{unit}")
    for name, at in agreed.knots.items():
        listed = ", ".join(f"{knot:g}" for knot in at)
        said.append(f"{name}, as a curve: {count(len(at) - 2, 'column')} more, with knots {listed}")
    return [*said, f"{agreed.target}: the target, a number"]


def _smallest(summary: SiteSummary) -> tuple[int, str]:
    """The cell with the fewest rows that the file tells of: a part, or a category in one."""
    t, k = np.unravel_index(int(summary.n_rows.argmin()), summary.n_rows.shape)
    best = int(summary.n_rows[t, k]), f"a part of task {summary.labels[t]!r}"
    agreed, mean, done = Agreement.from_dict(summary.agreement), summary.original()[0], 0
    for code in agreed.columns:
        own = slice(done, done + len(code.features))
        done = own.stop
        if code.is_number:
            continue
        counts = np.rint(mean[..., own] * summary.n_rows[..., None]).astype(int)
        counts = np.concatenate([counts, (summary.n_rows - counts.sum(axis=-1))[..., None]], axis=-1)
        levels = [*code.levels, code.reference]
        for (t, _, j), n in np.ndenumerate(counts):
            if 0 < n < best[0]:
                best = int(n), f"{code.name}={levels[j]} in a part of task {summary.labels[t]!r}"
    return best


def _constant(summary: SiteSummary) -> list[str]:
    """A sentence on columns that do not vary in a task, so that their mean is the value of every row."""
    mean, scatter = summary.original()
    squares = np.diagonal(scatter, axis1=2, axis2=3).sum(axis=1)
    found = [
        f"{summary.columns[j]} in task {summary.labels[t]!r}"
        for t, j in np.argwhere(squares <= 1e-20 * (mean**2).sum(axis=1))
    ]
    if not found:
        return []
    return [f"The same in all rows, so that the value of every row is known: {', '.join(found)}."]
