"""`mmtfl inspect`: what a model has learned, as tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmtfl.cli.main import BadInput
from mmtfl.cli.models import load_model
from mmtfl.cli.options import OUTPUT, TalkOptions
from mmtfl.cli.output import number, print_json, print_table
from mmtfl.cli.training import headlines


def inspect(
    model: Path,
    /,
    *,
    top: Annotated[int, Parameter(group=OUTPUT)] = 20,
    task: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    talk: TalkOptions | None = None,
) -> int:
    """Show what a model has learned.

    A feature is shared if all tasks use it, partial if some do, single if
    one does. Features come largest first, by c, what the tasks share.
    Coefficients are shown on two scales: per unit of the feature, and per
    standard deviation of it (and of the target, where it was scaled).

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl fit d1.csv --task task --target y -o d1.mmtfl
      mmtfl inspect d1.mmtfl --top 5

    Parameters
    ----------
    model
        A model of `mmtfl fit`, `mmtfl cv` or Python's save.
    top
        How many features and how many tasks are shown.
    task
        Show the coefficients of this task.
    """
    talk = talk or TalkOptions()
    if top < 1:
        raise BadInput(f"--top {top}: use 1 or more.")
    learned = load_model(model)
    from mmtfl.report.summary import describe

    summary = describe(learned)
    place = None if task is None else _place(summary, task)
    if talk.json:
        print_json({**summary.as_dict(), "coefficients": _coefficients(summary, place)})
        return 0
    scores = (summary.provenance.get("training") or {}).get("scores") or []
    for line in headlines(summary, [score for score in scores if score is not None]):
        print(line)
    print()
    if place is None:
        _print_features(summary, top)
        _print_tasks(summary, scores, top)
    else:
        _print_coefficients(summary, place, top)
    for line in _closing(summary, verbose=talk.verbose):
        print(line)
    return 0


def _place(summary: Any, task: str) -> int:
    labels = [str(one.label) for one in summary.tasks]
    if task not in labels:
        from mmtfl.data.conversion import abbreviate

        raise BadInput(f"The model has no task {task!r}: its tasks are {abbreviate(labels)}.")
    return labels.index(task)


def _print_features(summary: Any, top: int) -> None:
    shown = [feature for feature in summary.features if feature.n_tasks][:top]
    used = summary.n_features - summary.counts["none"]
    scaled = summary.scaled_coef is not None
    columns = ["feature", "kind", summary.size_name, "tasks", "same sign", "mean |coef|"]
    rows = [
        [
            feature.name,
            feature.kind,
            number(feature.size),
            f"{feature.n_tasks}/{summary.n_tasks}",
            "-" if feature.agreement is None else f"{feature.agreement:.0%}",
            number(feature.mean_abs),
            *([number(feature.mean_abs_scaled)] if scaled else []),
        ]
        for feature in shown
    ]
    title = f"Features in use ({_of(len(shown), used)})"
    print_table(title, [*columns, *(["scaled"] if scaled else [])], rows, left=2)


def _print_tasks(summary: Any, scores: list[float | None], top: int) -> None:
    metric = "accuracy" if summary.kind == "classification" else "R^2"
    known = len(scores) == summary.n_tasks
    columns = ["task", "rows", "features", "intercept", *([f"{metric} in the fit"] if known else [])]
    rows = [
        [
            str(one.label),
            "-" if one.n_rows is None else str(one.n_rows),
            "base rate" if one.base_rate else str(one.n_features),
            number(one.intercept),
            *([number(scores[t])] if known else []),
        ]
        for t, one in enumerate(summary.tasks[:top])
    ]
    print_table(f"Tasks ({_of(len(rows), summary.n_tasks)})", columns, rows)


def _print_coefficients(summary: Any, place: int, top: int) -> None:
    one, scaled = summary.tasks[place], summary.scaled_coef is not None
    used = [f for f in summary.features if summary.coef[place, f.position]]
    rows = [
        [
            feature.name,
            feature.kind,
            number(summary.coef[place, feature.position]),
            *([number(summary.scaled_coef[place, feature.position])] if scaled else []),
        ]
        for feature in used[:top]
    ]
    title = f"Task {one.label}: intercept {number(one.intercept)}, features ({_of(len(rows), len(used))})"
    columns = ["feature", "kind", "coefficient", *(["scaled"] if scaled else [])]
    print_table(title, columns, rows, left=2)


def _coefficients(summary: Any, place: int | None) -> list[dict[str, Any]]:
    """Every coefficient that is not zero, on both scales."""
    found = []
    for t, one in enumerate(summary.tasks):
        for feature in summary.features if place in (None, t) else ():
            value = summary.coef[t, feature.position]
            if value:
                scaled = None if summary.scaled_coef is None else summary.scaled_coef[t, feature.position]
                found.append(
                    {"task": one.label, "feature": feature.name, "coefficient": value, "scaled": scaled}
                )
    return found


def _closing(summary: Any, *, verbose: bool) -> list[str]:
    from mmtfl.data.conversion import abbreviate
    from mmtfl.data.words import count

    found = summary.convergence
    verdict = "Converged" if found.converged else "Did not converge"
    lines = []
    if summary.scaled:
        lines.append(f"Scaled: per standard deviation of the {' and of the '.join(summary.scaled)}.")
    rated = [str(one.label) for one in summary.tasks if one.base_rate]
    if rated:
        lines.append(
            f"Base rate: {count(len(rated), 'task')} with a single class, left out of the fit "
            f"({abbreviate(rated)})."
        )
    if summary.classes is not None:
        lines.append(
            f"Positive coefficients speak for {summary.classes[1]!r} against {summary.classes[0]!r}."
        )
    lines.append(
        f"{verdict}: {found.n_iter} passes, objective {found.objective:.6g}, violation {found.violation:.1e}."
    )
    record = summary.provenance
    if record:
        lines.append(f"Made by: {record.get('command')}, {record.get('time')}")
    if record and verbose:
        versions = ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
        lines.append(f"Versions: {versions}")
        lines.append(f"Data: {record.get('data')}, {record.get('rows')} rows, sha256 {record.get('sha256')}")
    return lines


def _of(shown: int, all_: int) -> str:
    return str(all_) if shown == all_ else f"{shown} of {all_}"
