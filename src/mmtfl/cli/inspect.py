"""`mmtfl inspect`: what matters, how much, and whether it is the same in all tasks."""

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mmtfl.cli.main import BadInput
from mmtfl.cli.options import OUTPUT, TARGET_FILE, FileOptions
from mmtfl.cli.output import (
    check_table_output,
    load_model,
    number,
    print_json,
    print_lines,
    print_table,
    printable,
    write_table,
)
from mmtfl.cli.training import headlines
from mmtfl.wording import abbreviate, count


def inspect(
    model: Path,
    /,
    *,
    feature: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    coefficients: Annotated[bool, Parameter(group=OUTPUT)] = False,
    task: Annotated[str | None, Parameter(group=OUTPUT)] = None,
    coverage: Annotated[float, Parameter(group=OUTPUT)] = 0.9,
    top: Annotated[int, Parameter(group=OUTPUT)] = 20,
    output: Annotated[Path | None, TARGET_FILE] = None,
    talk: FileOptions = FileOptions(),
) -> int:
    """Show what matters, how much, and whether it is the same in all tasks.

    The table has the average effect of each feature over the tasks, with its
    interval, how far the tasks differ (spread), and a word: everywhere,
    differs, on average, only in some, not found, too few tasks, or cannot be
    told apart. Effects are per unit of the feature and not shrunk; of classes
    they are odds ratios, of counts rate ratios.
    With --coefficients it shows what the model uses to predict, which is
    shrunk, and need not matter.

    Example:

      mmtfl datasets d1 -o d1.csv
      mmtfl cv d1.csv --task task --target y -o d1.mmtfl
      mmtfl inspect d1.mmtfl --top 5
      mmtfl inspect d1.mmtfl --feature x0

    Parameters
    ----------
    model
        A model of `mmtfl cv`, `mmtfl fit` or Python's save.
    feature
        Show the effect of this feature in every task.
    coefficients
        Show which tasks use which features: the coefficients, largest first.
    task
        Show the coefficients of this task.
    coverage
        Of the intervals.
    top
        How many features and how many tasks are shown.
    output
        Write the effects as a table: .csv, .tsv, .parquet or .feather.
    """
    if top < 1:
        raise BadInput(f"--top {top}: use 1 or more.")
    if not 0.0 < coverage < 1.0:
        raise BadInput(f"--coverage {coverage:g}: use a number between 0 and 1, such as 0.9.")
    if output is not None:
        check_table_output(output, force=talk.force)
    learned = load_model(model)
    from mmtfl.inference.effect_table import task_effect_rows
    from mmtfl.report.sentences import EffectPage
    from mmtfl.report.summary import describe

    summary, fitted = describe(learned), learned._fitted()
    place = None if task is None else _place(summary, task)
    effects: Any = EffectPage.of(fitted, coverage)
    asked_for = effects if feature is None else vars(fitted).get("effects_")
    if asked_for is None and (feature is not None or output is not None):
        raise BadInput("This model has no effects: make it with mmtfl cv, which estimates them.")
    sites = None if feature is None else task_effect_rows(fitted, feature, coverage)
    if output is not None:
        from pandas import DataFrame

        rows = effects.rows if sites is None else sites
        write_table(DataFrame(rows), output, force=talk.force)
        talk.written(output, f" ({count(len(rows), 'row')})", rows=len(rows))
        return 0
    if talk.json:
        found = {} if effects is None else {"effects": effects.rows}
        found |= {} if sites is None else {"task_effects": sites}
        print_json({**summary.as_dict(), "coefficients": _coefficients(summary, place), **found})
        return 0
    print_lines(*headlines(summary), "")
    if place is not None:
        _print_coefficients(summary, place, top)
    elif sites is not None and not coefficients:
        _print_sites(summary, str(feature), sites, top)
    elif effects is not None and not coefficients:
        _print_effects(summary, effects, coverage, top)
        _print_tasks(summary, top)
    else:
        _print_features(summary, top)
        _print_tasks(summary, top)
    print_lines(*_closing(summary, verbose=talk.verbose))
    return 0


# -- effects -------------------------------------------------------------------------------------------------


def _print_effects(summary: Any, effects: Any, coverage: float, top: int) -> None:
    noun, many = summary.noun
    name = effects.title.lower().removesuffix(" effect")
    columns = ["feature", "word", f"{name} ({coverage:.0%})", "q", "spread", f"in a new {noun}"]
    parts = ("word", "average", "q", "spread", "new")
    shown = [
        [printable(row["name"], 24), *(_plain(row[part]) for part in parts)] for row in effects.table(top)
    ]
    print_table(f"Average effects over {many} ({_of(len(shown), len(effects.rows))})", columns, shown, left=2)
    reading = [effects.reading(None)] if effects.ratio else []
    print_lines(*reading, *effects.notes(top, summary.n_tasks, summary.noun), "")


def _print_sites(summary: Any, feature: str, rows: list[dict[str, Any]], top: int) -> None:
    from mmtfl.report.sentences import with_interval

    shown = [
        [
            str(row["task"]),
            str(row["n_rows"]),
            _plain(with_interval(row["effect"], row["lower"], row["upper"])),
            _plain(with_interval(row["shrunk"], row["shrunk_lower"], row["shrunk_upper"])),
        ]
        for row in rows[:top]
    ]
    columns = [summary.noun[0], "rows", "effect of its own rows", "shrunk"]
    print_table(f"Effect of {feature} ({_of(len(shown), len(rows))})", columns, shown)
    print_lines("Shrunk: drawn to the average, as far as the rows of each are few.", "")


def _plain(number: str) -> str:
    """A number of the page as a terminal shows it."""
    return number.replace("−", "-").replace("–", "-").replace("< ", "<")


# -- coefficients --------------------------------------------------------------------------------------------


def _place(summary: Any, task: str) -> int:
    labels = [str(one.label) for one in summary.tasks]
    if task not in labels:
        raise BadInput(f"The model has no task {task!r}: its tasks are {abbreviate(labels)}.")
    return labels.index(task)


def _print_features(summary: Any, top: int) -> None:
    shown = [feature for feature in summary.features if feature.n_tasks][:top]
    used = summary.n_features - summary.counts["none"]
    has_common = any(feature.common is not None for feature in shown)
    common = ["common (scatter)"] if has_common else []
    columns = ["feature", "used by", summary.size_name, *common, "same sign"]
    columns += ["mean coef (range)", "per s.d. (range)"]
    rows = []
    for f in shown:
        ranges = [
            f"{number(mean)} ({number(low)} to {number(high)})" for mean, low, high in (f.coef, f.per_sd)
        ]
        about = [f"{number(f.common)} ({number(f.scatter)})"] if has_common else []
        rows.append([f.name, f.used_by, number(f.size), *about, f"{f.agreement:.0%}", *ranges])
    print_table(f"Features in use ({_of(len(shown), used)})", columns, rows, left=2)
    if summary.usage_notes:
        print_lines(*summary.usage_notes, "")


def _print_tasks(summary: Any, top: int) -> None:
    known = _task_scores(summary)
    columns = [summary.noun[0], "rows", "features", "intercept", *known]
    rows = [
        [
            str(one.label),
            "-" if one.n_rows is None else str(one.n_rows),
            str(one.n_features),
            number(one.intercept),
            *(number(scores[t]) for scores in known.values()),
        ]
        for t, one in enumerate(summary.tasks[:top])
    ]
    print_table(f"{summary.noun[1].capitalize()} ({_of(len(rows), summary.n_tasks)})", columns, rows)


def _task_scores(summary: Any) -> dict[str, list[float | None]]:
    """What is known of each task's scores: on held-out rows, and on the rows of the fit."""
    from mmtfl.report.sentences import PLAIN_SCORES

    names = {**PLAIN_SCORES, "auc": "AUC", "accuracy": "accuracy", "base_rate": "commoner class"}
    held_out = {} if summary.search is None else summary.search.held_out
    found: dict[str, list[float | None]] = {}
    for where, table in (("held out", held_out), ("in the fit", summary.provenance.get("training") or {})):
        for key in (key for key in names if key in table):
            name = names[key] if key == "base_rate" else f"{names[key]} {where}"
            found.setdefault(name, table[key])
    return found


def _print_coefficients(summary: Any, place: int, top: int) -> None:
    one, found = summary.tasks[place], _coefficients(summary, place)
    used = [feature for feature in summary.features if summary.coef[place, feature.position]]
    scales = {"coefficient": "coefficient", "per_sd": "per s.d."}
    rows = [
        [feature.name, feature.used_by, *(number(values[name]) for name in scales)]
        for feature, values in zip(used[:top], found, strict=False)
    ]
    who = f"{summary.noun[0].capitalize()} {one.label}"
    title = f"{who}: intercept {number(one.intercept)}, features ({_of(len(rows), len(used))})"
    print_table(title, ["feature", "used by", *scales.values()], rows, left=2)


def _coefficients(summary: Any, place: int | None) -> list[dict[str, Any]]:
    """Every coefficient that is not zero: per unit, per standard deviation, and on one scale."""
    found = []
    for t, one in enumerate(summary.tasks):
        for feature in summary.features if place in (None, t) else ():
            value = summary.coef[t, feature.position]
            if value:
                per_sd = value * summary.spread[feature.position]
                scaled = summary.scaled_coef[t, feature.position]
                scales = {"coefficient": value, "per_sd": per_sd, "scaled": scaled}
                found.append({"task": one.label, "feature": feature.name, **scales})
    return found


def _closing(summary: Any, *, verbose: bool) -> list[str]:
    lines = ["Per s.d.: per standard deviation of the feature over all rows."]
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
