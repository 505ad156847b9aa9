"""`mmtfl inspect`: what a model has learned, as tables."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import OUTPUT, TalkOptions
from mmtfl.cli.output import load_model, number, print_json, print_lines, print_table
from mmtfl.cli.training import headlines
from mmtfl.wording import abbreviate, count


def inspect(
    model: Path,
    /,
    *,
    top: Annotated[int, Parameter(group=OUTPUT)] = 20,
    task: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    talk: TalkOptions = TalkOptions(),
) -> int:
    """Show what a model has learned.

    Which tasks use a feature, and which way: the mean of its coefficients
    over the tasks and their range, per unit of the feature and per standard
    deviation (s.d.) of it over all rows.
    Features come largest first, by c, what the tasks share. Only tasks
    within whose rows a feature varies could use it.
    What a model uses need not matter: where it was made with --stability, the
    table also says in which tasks the rows support an effect, and what share
    of the half samples keeps the feature.

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
    if top < 1:
        raise BadInput(f"--top {top}: use 1 or more.")
    learned = load_model(model)
    from mmtfl.report.summary import describe

    summary = describe(learned)
    place = None if task is None else _place(summary, task)
    if talk.json:
        print_json({**summary.as_dict(), "coefficients": _coefficients(summary, place)})
        return 0
    print_lines(*headlines(summary), "")
    if place is None:
        _print_features(summary, top)
        _print_tasks(summary, top)
    else:
        _print_coefficients(summary, place, top)
    print_lines(*_closing(summary, verbose=talk.verbose))
    return 0


def _place(summary: Any, task: str) -> int:
    labels = [str(one.label) for one in summary.tasks]
    if task not in labels:
        raise BadInput(f"The model has no task {task!r}: its tasks are {abbreviate(labels)}.")
    return labels.index(task)


def _print_features(summary: Any, top: int) -> None:
    shown = [feature for feature in summary.features if feature.n_tasks][:top]
    used = summary.n_features - summary.counts["none"]
    per_sd = summary.spread is not None
    has_common = any(feature.common is not None for feature in shown)
    common = ["common (scatter)"] if has_common else []
    columns = ["feature", "used by", summary.size_name, *common, "same sign", "mean coef (range)"]
    columns += ["per s.d. (range)"] if per_sd else []
    columns += ["supported in", "kept by"] if summary.support else []
    rows = []
    for f in shown:
        sign = "-" if f.agreement is None else f"{f.agreement:.0%}"
        ranges = [(f.mean_coef, f.min_coef, f.max_coef)]
        ranges += [(f.mean_coef_per_sd, f.min_coef_per_sd, f.max_coef_per_sd)] if per_sd else []
        texts = [f"{number(mean)} ({number(low)} to {number(high)})" for mean, low, high in ranges]
        about = [f"{number(f.common)} ({number(f.scatter)})"] if has_common else []
        texts += [f.supported, f"{f.frequency:.0%}"] if summary.support else []
        rows.append([f.name, f.used_by, number(f.size), *about, sign, *texts])
    print_table(f"Features in use ({_of(len(shown), used)})", columns, rows, left=2)
    if summary.usage_notes:
        print_lines(*summary.usage_notes, "")


def _print_tasks(summary: Any, top: int) -> None:
    known = _task_scores(summary)
    columns = ["task", "rows", "features", "intercept", *known]
    rows = [
        [
            str(one.label),
            "-" if one.n_rows is None else str(one.n_rows),
            "base rate" if one.base_rate else str(one.n_features),
            number(one.intercept),
            *(number(scores[t]) for scores in known.values()),
        ]
        for t, one in enumerate(summary.tasks[:top])
    ]
    print_table(f"Tasks ({_of(len(rows), summary.n_tasks)})", columns, rows)


def _task_scores(summary: Any) -> dict[str, list[float | None]]:
    """What is known of each task's scores: on held-out rows, and on the rows of the fit."""
    from mmtfl.report.sentences import PLAIN_SCORES

    held_out = None if summary.search is None else summary.search.held_out
    names = {**PLAIN_SCORES, "auc": "AUC", "accuracy": "accuracy", "base_rate": "commoner class"}
    found = {
        name if key == "base_rate" else f"{name} held out": held_out[key]
        for key, name in names.items()
        if held_out is not None and key in held_out
    }
    training = summary.provenance.get("training") or {}
    if len(training.get("scores") or []) == summary.n_tasks:
        if held_out is None and training.get("base_rate"):
            found |= {"AUC in the fit": training["auc"], "commoner class": training["base_rate"]}
        found[f"{names[training['metric']]} in the fit"] = training["scores"]
    return found


def _print_coefficients(summary: Any, place: int, top: int) -> None:
    one, found = summary.tasks[place], _coefficients(summary, place)
    used = [feature for feature in summary.features if summary.coef[place, feature.position]]
    scales = {"coefficient": "coefficient"} | ({} if summary.spread is None else {"per_sd": "per s.d."})
    rows = [
        [feature.name, feature.used_by, *(number(values[name]) for name in scales)]
        for feature, values in zip(used[:top], found, strict=False)
    ]
    title = f"Task {one.label}: intercept {number(one.intercept)}, features ({_of(len(rows), len(used))})"
    print_table(title, ["feature", "used by", *scales.values()], rows, left=2)


def _coefficients(summary: Any, place: int | None) -> list[dict[str, Any]]:
    """Every coefficient that is not zero: per unit, per standard deviation, and on one scale."""
    found = []
    for t, one in enumerate(summary.tasks):
        for feature in summary.features if place in (None, t) else ():
            value = summary.coef[t, feature.position]
            if value:
                per_sd = None if summary.spread is None else value * summary.spread[feature.position]
                scaled = None if summary.scaled_coef is None else summary.scaled_coef[t, feature.position]
                scales = {"coefficient": value, "per_sd": per_sd, "scaled": scaled}
                found.append({"task": one.label, "feature": feature.name, **scales})
    return found


def _closing(summary: Any, *, verbose: bool) -> list[str]:
    lines = []
    if summary.spread is not None:
        lines.append("Per s.d.: per standard deviation of the feature over all rows.")
    rated = [str(one.label) for one in summary.tasks if one.base_rate]
    if rated:
        n_tasks = count(len(rated), "task")
        lines.append(f"Base rate: {n_tasks} with a single class, left out of the fit ({abbreviate(rated)}).")
    if summary.classes is not None:
        first, second = summary.classes
        lines.append(f"Positive coefficients speak for {second!r} against {first!r}.")
    c, record = summary.convergence, summary.provenance
    verdict = "Converged" if c.converged else "Did not converge"
    lines.append(f"{verdict}: {c.n_iter} passes, objective {c.objective:.6g}, violation {c.violation:.1e}.")
    if record:
        lines.append(f"Made by: {record.get('command')}, {record.get('time')}")
    if record and verbose:
        versions = ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())
        lines.append(f"Versions: {versions}")
        lines.append(f"Data: {record.get('data')}, {record.get('rows')} rows, sha256 {record.get('sha256')}")
    return lines


def _of(shown: int, all_: int) -> str:
    return str(all_) if shown == all_ else f"{shown} of {all_}"
