"""Table 2 in Markdown and LaTeX: our figures, the paper's beside them, and the difference."""

from collections.abc import Callable

from mmtfl_lab.markdown import markdown_table
from mmtfl_lab.paper.data_sets import PROBLEMS, Problem
from mmtfl_lab.paper.methods import METHODS
from mmtfl_lab.paper.results import Results, Summary

_METRICS = {"r2": "R²", "f1": "F1", "auc": "AUC"}
_LATEX_METRICS = {**_METRICS, "r2": "$R^2$"}
# mean and standard deviation of 15 splits, as the paper prints them
_COLUMNS = ("stl", "dmtl", "rmtfl", "mmtfl22", "mmtfl11", "mmtfl21", "mmtfl12")
_ROWS = {
    ("D1", 0.25): "0.40±0.02 0.60±0.02 0.58±0.02 0.64±0.02 0.54±0.03 0.73±0.02 0.42±0.04",
    ("D1", 0.33): "0.55±0.03 0.73±0.01 0.61±0.02 0.79±0.02 0.76±0.01 0.86±0.01 0.65±0.03",
    ("D1", 0.5): "0.60±0.02 0.75±0.01 0.66±0.01 0.86±0.01 0.88±0.01 0.90±0.01 0.84±0.01",
    ("D2", 0.25): "0.28±0.02 0.36±0.01 0.46±0.01 0.45±0.01 0.35±0.05 0.46±0.02 0.49±0.02",
    ("D2", 0.33): "0.35±0.01 0.42±0.02 0.63±0.03 0.69±0.02 0.75±0.01 0.67±0.03 0.83±0.02",
    ("D2", 0.5): "0.75±0.01 0.81±0.01 0.83±0.01 0.91±0 0.95±0 0.92±0.01 0.97±0",
    ("sarcos", 0.25): "0.78±0.02 0.90±0 0.90±0 0.89±0 0.89±0 0.90±0.01 0.87±0.01",
    ("sarcos", 0.33): "0.78±0.02 0.88±0.11 0.89±0.1 0.90±0 0.90±0 0.91±0.01 0.89±0.01",
    ("sarcos", 0.5): "0.83±0.06 0.87±0.1 0.89±0.1 0.91±0 0.90±0.01 0.91±0.01 0.89±0.01",
    ("usps", 0.25): "0.83±0.01 0.89±0.01 0.91±0.01 0.90±0.01 0.90±0.01 0.90±0.01 0.91±0.01",
    ("usps", 0.33): "0.84±0.02 0.90±0.01 0.90±0.01 0.89±0.01 0.90±0.01 0.90±0.01 0.91±0.01",
    ("usps", 0.5): "0.87±0.02 0.91±0.01 0.92±0.01 0.92±0.01 0.92±0.01 0.92±0.01 0.93±0.01",
}


def printed(dataset: str, fraction: float, method: str) -> tuple[float, float] | None:
    """Mean and standard deviation that the paper prints; None where it has no such figure.

    Examples
    --------
    >>> from mmtfl_lab.paper.table2 import printed
    >>> printed("D1", 0.33, "mmtfl21")
    (0.86, 0.01)
    >>> printed("school", 0.33, "mmtfl21") is None
    True
    """
    row = _ROWS.get((dataset, fraction))
    if row is None or method not in _COLUMNS:
        return None
    mean, deviation = row.split()[_COLUMNS.index(method)].split("±")
    return float(mean), float(deviation)


def _methods(results: Results) -> list[str]:
    return [name for name in METHODS if name in results.plan.methods]


def _best(found: dict[str, Summary]) -> list[str]:
    """Methods with the largest mean, to the three digits that the tables print."""
    means = {name: round(summary.mean, 3) for name, summary in found.items()}
    return [name for name, mean in means.items() if mean == max(means.values())]


# -- Markdown ------------------------------------------------------------------------------------------------


def to_markdown(results: Results) -> str:
    """All tables of a run: the scores beside the paper's, the other average, support and seconds."""
    parts = [
        "## Table 2",
        f"Mean ± standard deviation over {results.plan.repeats} random splits, seed {results.plan.seed}; the "
        "best of a row in bold. In brackets the paper's figure, and ours less the paper's.",
        _scores(results, headline=True),
        "## The other average",
        "The same splits and models: where Table 2 has all test rows at once, here is the mean over tasks, "
        "and the other way round.",
        _scores(results, headline=False),
    ]
    if any(PROBLEMS[dataset].file is None for dataset, _ in results.rows):
        parts += [
            "## Features found",
            "F1 of the coefficients that are not zero, against the truth.",
            _means(results, "support_f1", "{:.3f}"),
        ]
    parts += [
        "## Seconds",
        "Processor seconds to tune and fit once, on one core.",
        _means(results, "seconds", "{:.2f}"),
    ]
    return "\n\n".join(parts) + "\n"


def _table(results: Results, cells: Callable[[str, float], list[str]]) -> str:
    """A table of methods by rows of data set and fraction; rows without cells are left out."""
    titles = [METHODS[name].title for name in _methods(results)]
    rows = []
    for dataset, fraction in results.rows:
        title, *others = cells(dataset, fraction)
        if others:
            rows.append([title, f"{100 * fraction:g} %", *others])
    return markdown_table(["data", "training", *titles], rows)


def _scores(results: Results, *, headline: bool) -> str:
    def cells(dataset: str, fraction: float) -> list[str]:
        problem = PROBLEMS[dataset]
        score = problem.headline if headline else {"mean": "pooled", "pooled": "mean"}[problem.headline]
        found = results.summaries(dataset, fraction, score)
        winners = _best(found)
        figures = {name: printed(dataset, fraction, name) if headline else None for name in _methods(results)}
        shown = [_cell(found.get(name), name in winners, paper) for name, paper in figures.items()]
        return [f"{problem.title} ({_score_title(problem, score)})", *shown]

    return _table(results, cells)


def _score_title(problem: Problem, score: str) -> str:
    average = "mean over tasks" if score == "mean" else "all test rows"
    about = ", about each task's mean" if (problem.metric, score) == ("r2", "pooled") else ""
    return f"{_METRICS[problem.metric]}, {average}{about}"


def _cell(summary: Summary | None, winner: bool, paper: tuple[float, float] | None) -> str:
    if summary is None:
        return "-"
    text = f"**{summary.mean:.3f}**" if winner else f"{summary.mean:.3f}"
    text += f" ± {summary.deviation:.3f}"
    return text if paper is None else f"{text} [{paper[0]:.2f}, {summary.mean - paper[0]:+.2f}]"


def _means(results: Results, score: str, shown: str) -> str:
    def cells(dataset: str, fraction: float) -> list[str]:
        found = results.summaries(dataset, fraction, score)
        names = _methods(results) if found else []
        title = PROBLEMS[dataset].title
        return [title, *(shown.format(found[name].mean) if name in found else "-" for name in names)]

    return _table(results, cells)


# -- LaTeX ---------------------------------------------------------------------------------------------------


def to_latex(results: Results) -> str:
    """Table 2 as a ``tabular`` environment in the paper's layout, the paper's figure below each of ours."""
    methods = _methods(results)
    lines = [
        r"\begin{tabular}{ll" + "c" * len(methods) + "}",
        r"\hline",
        _row("Data set", "", *(METHODS[name].title for name in methods)),
    ]
    previous = None
    for dataset, fraction in results.rows:
        problem = PROBLEMS[dataset]
        found = results.summaries(dataset, fraction, problem.headline)
        winners = _best(found)
        name = ""
        if dataset != previous:
            lines.append(r"\hline")
            name = f"{problem.title} ({_LATEX_METRICS[problem.metric]})"
        cells = [_latex_cell(found.get(method), method in winners) for method in methods]
        lines.append(_row(name, rf"{100 * fraction:g}\%", *cells))
        figures = [printed(dataset, fraction, method) for method in methods]
        if any(figures):
            lines.append(_row("", "paper", *map(_latex_paper, figures, map(found.get, methods))))
        previous = dataset
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def _latex_cell(summary: Summary | None, winner: bool) -> str:
    if summary is None:
        return "--"
    text = rf"{summary.mean:.3f}$\pm${summary.deviation:.3f}"
    return rf"\textbf{{{text}}}" if winner else text


def _latex_paper(paper: tuple[float, float] | None, summary: Summary | None) -> str:
    if paper is None or summary is None:
        return ""
    return rf"{paper[0]:.2f} (${summary.mean - paper[0]:+.2f}$)"


def _row(*cells: str) -> str:
    return " & ".join(cells) + r" \\"
