"""Table 2 in Markdown and LaTeX: ours, the printed figure beside it, and the difference."""

from __future__ import annotations

from collections.abc import Sequence

from mmtfl_lab.paper.methods import METHODS
from mmtfl_lab.paper.printed import printed
from mmtfl_lab.paper.problems import PROBLEMS
from mmtfl_lab.paper.results import Results, Summary, best, summaries

__all__ = ["to_latex", "to_markdown"]

_LATEX_METRICS = {"r2": "$R^2$", "f1": "F1", "auc": "AUC"}
_TITLES = {
    ("r2", "pooled"): "R², all test rows, about each task's mean",
    ("r2", "mean"): "R², mean over tasks",
    ("f1", "mean"): "F1, mean over tasks",
    ("f1", "pooled"): "F1, all test rows",
    ("auc", "mean"): "AUC, mean over tasks",
    ("auc", "pooled"): "AUC, all test rows",
}


def to_markdown(results: Results) -> str:
    """All tables of a run: the scores beside the printed ones, the other average, support and seconds.

    Parameters
    ----------
    results : Results
        Finished cells.

    Returns
    -------
    str
        Markdown.
    """
    methods = [name for name in METHODS if name in results.plan.methods]
    parts = [
        "## Table 2",
        f"Mean ± standard deviation over {results.plan.repeats} random splits, seed {results.plan.seed}; the "
        "best of a row in bold. In brackets the paper's figure, and ours less the paper's.",
        _scores(results, methods, headline=True),
        "## The other average",
        "The same splits and models: where Table 2 has all test rows at once, here is the mean over tasks, "
        "and the other way round.",
        _scores(results, methods, headline=False),
    ]
    if any(PROBLEMS[dataset].file is None for dataset, _ in results.rows):
        parts += [
            "## Features found",
            "F1 of the coefficients that are not zero, against the truth.",
            _plain(results, methods, "support_f1", "{:.3f}"),
        ]
    parts += [
        "## Seconds",
        "Processor seconds to tune and fit once, on one core.",
        _plain(results, methods, "seconds", "{:.2f}"),
    ]
    return "\n\n".join(parts) + "\n"


def _scores(results: Results, methods: Sequence[str], *, headline: bool) -> str:
    lines = [_line("data", "training", *(METHODS[name].title for name in methods))]
    lines.append(_line(*["---"] * (2 + len(methods))))
    for dataset, fraction in results.rows:
        problem = PROBLEMS[dataset]
        score = problem.headline if headline else _other(problem.headline)
        found = summaries(results, (dataset, fraction), methods, score)
        winners = best(found, 3)
        cells = [
            _cell(found.get(name), name in winners, printed(dataset, fraction, name) if headline else None)
            for name in methods
        ]
        title = f"{problem.title} ({_TITLES[problem.metric, score]})"
        lines.append(_line(title, _percent(fraction), *cells))
    return "\n".join(lines)


def _other(score: str) -> str:
    return "mean" if score == "pooled" else "pooled"


def _cell(summary: Summary | None, winner: bool, paper: tuple[float, float] | None) -> str:
    if summary is None:
        return "-"
    text = f"{summary.mean:.3f}"
    text = f"**{text}**" if winner else text
    text += f" ± {summary.deviation:.3f}"
    return text if paper is None else f"{text} [{paper[0]:.2f}, {summary.mean - paper[0]:+.2f}]"


def _plain(results: Results, methods: Sequence[str], score: str, shown: str) -> str:
    lines = [_line("data", "training", *(METHODS[name].title for name in methods))]
    lines.append(_line(*["---"] * (2 + len(methods))))
    for dataset, fraction in results.rows:
        found = summaries(results, (dataset, fraction), methods, score)
        if found:
            cells = [shown.format(found[name].mean) if name in found else "-" for name in methods]
            lines.append(_line(PROBLEMS[dataset].title, _percent(fraction), *cells))
    return "\n".join(lines)


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _percent(fraction: float) -> str:
    return f"{100 * fraction:g} %"


def to_latex(results: Results) -> str:
    """Table 2 in LaTeX, the paper's layout, with the printed figure and the difference below each of ours.

    Parameters
    ----------
    results : Results
        Finished cells.

    Returns
    -------
    str
        A ``tabular`` environment; needs no package.
    """
    methods = [name for name in METHODS if name in results.plan.methods]
    lines = [
        r"\begin{tabular}{ll" + "c" * len(methods) + "}",
        r"\hline",
        _row("Data set", "", *(METHODS[name].title for name in methods)),
        r"\hline",
    ]
    previous = None
    for dataset, fraction in results.rows:
        problem = PROBLEMS[dataset]
        if previous not in (None, dataset):
            lines.append(r"\hline")
        found = summaries(results, (dataset, fraction), methods, problem.headline)
        winners = best(found, 3)
        name = f"{problem.title} ({_LATEX_METRICS[problem.metric]})" if dataset != previous else ""
        cells = [_latex_cell(found.get(method), method in winners) for method in methods]
        lines.append(_row(name, rf"{100 * fraction:g}\%", *cells))
        figures = [printed(dataset, fraction, method) for method in methods]
        if any(figures):
            lines.append(
                _row("", "paper", *map(_latex_paper, figures, (found.get(method) for method in methods)))
            )
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
