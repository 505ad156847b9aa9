"""The report: one HTML file that needs no other file and allows no other source of scripts or styles.

`make_page` gathers what the template and the script read.
"""

import base64
import hashlib
import json
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import mmtfl
from mmtfl.errors import require
from mmtfl.estimators.feature_use import KINDS, MEANINGS
from mmtfl.inference.heldout_errors import reliability
from mmtfl.persistence.files import check_target, write_text
from mmtfl.plots.figures import learned
from mmtfl.plots.sharing_map import order_features, order_tasks
from mmtfl.report import pictures, sentences
from mmtfl.report.effect_table import EffectPage, compared_with
from mmtfl.report.evaluation import Evaluation, evaluate
from mmtfl.report.first_screen import first_answers
from mmtfl.report.rivals import RIVALS
from mmtfl.report.rows import kind_of_targets
from mmtfl.report.sentences import number, score
from mmtfl.report.summary import FeatureSummary, ModelSummary, TaskSummary, describe
from mmtfl.wording import renamed

MOST_FEATURES = 2000  # rows of the table and of the map: the page stays small and quick
STRIP = 150.0  # width of the picture of a task's scores
SCORE_NAMES = {
    "numbers": "share of the differences within the {task} that is explained (R²)",
    "counts": "share of the deviance within the {task} that is explained",
    "classes": "chance that a row with the event is ranked above one without it",
}
UNITS = {"classes": " (log odds)", "counts": " (log)"}  # of the linear predictor
MOST_CURVES = 12  # effects that are drawn
MOST_TARGETS = 4  # that a title names
STEPS = 32767  # of the coefficients' quantisation, each feature on its own scale
RUN_NAMES = {"data": "Data file", "sha256": "SHA-256"}  # other keys are names already
# characters that could end the element or the line that JSON stands in
_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def write_report(
    model: Any,
    path: Any,
    *,
    data: tuple[Any, Any, Any] | None = None,
    groups: Any = None,
    in_time: bool = False,
    offset: Any = None,
    title: str | None = None,
    source: dict[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Write a fitted model as one HTML page.

    The page needs no network and asks for none. It tells how well the model predicts, task by task, beside
    scikit-learn's models (where data is given); which features are shared; the map of all
    coefficients; how the strength was chosen; whether the solver converged; and what was run.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, a search included.
    path : path-like
        The file, written whole or not at all; one that is there is replaced.
    data : (X, y, task), optional
        Rows to score the model on, as in ``score``; see `mmtfl.report.summary.evaluate`.
    groups, in_time, offset, progress
        Rows of ``data`` that are held out together, whether they are in time order, their offset, and what is
        told of each fit; see there.
    title : str, optional
        Heading of the page; by default target and task column of the table that the model was fitted on
        ("stay, by hospital"), where it knows them.
    source : dict, optional
        Where the data comes from: "data" (its name) and "sha256". Equal to the hash in the model's
        ``provenance_``, the page says that the model was trained on these rows.

    Returns
    -------
    path : Path
        The file.

    Examples
    --------
    >>> import os, tempfile
    >>> from mmtfl import MMTFLRegressor
    >>> from mmtfl.datasets import make_tasks
    >>> from mmtfl.report.html import write_report
    >>> data = make_tasks(n_tasks=3, n_samples=50, n_features=6, n_informative=2, noise=0.1, random_state=0)
    >>> model = MMTFLRegressor(p=2, k=1, alpha=0.1).fit(data.X, data.y, task=data.task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_report(model, os.path.join(folder, "report.html"))
    ...     path.name, path.read_text(encoding="utf-8")[:15]
    ('report.html', '<!doctype html>')
    """
    place = Path(path)
    check_target(place)  # before the work
    rows: dict[str, Any] = {"groups": groups, "in_time": in_time, "offset": offset, "progress": progress}
    text = render_report(model, data=data, **rows, title=title, source=source)
    write_text(place, text)
    return place


def render_report(
    model: Any,
    *,
    data: tuple[Any, Any, Any] | None = None,
    groups: Any = None,
    in_time: bool = False,
    offset: Any = None,
    title: str | None = None,
    source: dict[str, Any] | None = None,
    progress: Callable[[str], None] | None = None,
) -> str:
    """Make the text of the page.

    Parameters
    ----------
    model, data, groups, in_time, offset, title, source, progress
        As in `write_report`.

    Returns
    -------
    html : str
        The page.
    """
    require("jinja2", "report")
    # whether the rows given are those the model was trained on, as far as their hashes say
    trained = (getattr(model, "provenance_", None) or {}).get("sha256")
    given = (source or {}).get("sha256")
    seen = None if trained is None or given is None else trained == given
    rows: dict[str, Any] = {"groups": groups, "in_time": in_time, "offset": offset, "progress": progress}
    evaluation = None if data is None else evaluate(model, *data, seen=seen, **rows)
    return _render(make_page(model, evaluation, title=title, source=source))


def _render(page: dict[str, Any]) -> str:
    jinja2, markup = require("jinja2", "report"), require("markupsafe", "report")
    folder = files("mmtfl.report") / "templates"
    # browsers hash what they have parsed, with plain line ends
    style, script, body = (
        (folder / name).read_text(encoding="utf-8").replace("\r\n", "\n")
        for name in ("report.css", "report.js", "report.html.j2")
    )
    digests = [hashlib.sha256(part.encode("utf-8")).digest() for part in (style, script)]
    of_style, of_script = (f"'sha256-{base64.b64encode(digest).decode('ascii')}'" for digest in digests)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    text = environment.from_string(body).render(
        page=page,
        number=number,
        # this style and this script by their hashes, and nothing else
        policy=f"default-src 'none'; img-src data:; style-src {of_style}; script-src {of_script}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        style=markup.Markup(style),
        script=markup.Markup(script),
        data=markup.Markup(as_json(page["data"])),
    )
    # lone surrogates, which a name may hold, cannot be written as UTF-8
    return text.encode("utf-8", errors="replace").decode("utf-8")


def as_json(value: Any) -> str:
    """JSON that can stand inside a script element: no character of it can end the element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_UNSAFE)


# -- what the page holds -------------------------------------------------------------------------------------


def make_page(
    model: Any, evaluation: Evaluation | None, *, title: str | None, source: dict[str, Any] | None
) -> dict[str, Any]:
    """Everything that the template of a fitted model's page needs, by name; numbers are text already."""
    summary, inner = describe(model), model._fitted()
    noun = summary.noun
    target = _target(model)
    headline, meanings = sentences.search_headline(summary), dict(MEANINGS)
    if any(f.kind == "shared" and f.n_possible != summary.n_counted for f in summary.features):
        meanings["shared"] += " that could use them"  # not every task could use every such feature
    verdict = sentences.verdict(evaluation, noun) if evaluation else []
    errors = getattr(inner, "heldout_errors_", None) or {}
    curve = reliability(errors) if "is_second" in errors else None
    effects = EffectPage.of(inner)
    curves = pictures.curve_pictures(inner, effects, MOST_CURVES)
    return {
        "title": title or _title_of_table(model) or summary.title,
        "noun": noun,
        "summary": summary,
        "evaluation": evaluation,
        "headline": summary.usage,
        "figures": sentences.figures(evaluation, noun, _event(summary, target)) if evaluation else [],
        "answers": first_answers(
            inner,
            verdict or ([headline] if headline else []),
            [summary.levels] if summary.levels else [],
            noun,
        ),
        "lead": _lead(summary),
        "effects": effects,
        "compared_with": compared_with(inner),
        "effect_rows": [] if effects is None else effects.rows(MOST_FEATURES),
        "reading": "" if effects is None else effects.reading(_event(summary, target)),
        "verdict": verdict or ([headline] if headline else []),
        "standings": sentences.standings(evaluation) if evaluation else [],
        "how_compared": sentences.how_compared(evaluation, noun) if evaluation else [],
        "calibration": curve and sentences.calibration(curve),
        "reliability": curve and pictures.calibration_picture(curve),
        **_task_table(summary, evaluation),
        "has_common": any(feature.common is not None for feature in summary.features),
        "feature_rows": [_feature_row(feature) for feature in summary.features[:MOST_FEATURES]],
        "curves": curves,
        "small_curves": {curve.name: curve.line for curve in curves},
        "n_left_out": max(0, summary.n_features - MOST_FEATURES),
        "kinds": [(kind, summary.counts[kind], renamed(meanings[kind], noun)) for kind in KINDS],
        "size_meaning": summary.size_meaning,
        "usage_notes": summary.usage_notes,
        "choice_title": sentences.choice_title(summary),
        "how_chosen": sentences.how_chosen(summary),
        "search_scores": headline if evaluation else None,
        "search_picture": pictures.search_picture(model),
        "history_picture": pictures.history_picture(model),
        "level_name": f"Intercept{UNITS.get(kind_of_targets(inner) or '', '')}",
        "model_facts": _model_facts(summary),
        "run_facts": _run_facts(summary, source),
        "data": _embedded(model, summary) | {"effects": effects and effects.embedded(noun)},
        "version": mmtfl.__version__,
    }


def _lead(summary: ModelSummary) -> str:
    """What was fitted: rows, tasks and features."""
    sizes = [task.n_rows for task in summary.tasks]
    rows = "" if None in sizes else f"{number(sum(size or 0 for size in sizes))} rows, "
    tasks = f"{number(summary.n_tasks)} {summary.noun[summary.n_tasks != 1]}"
    return f"{rows}{tasks}, {number(summary.n_features)} feature{'' if summary.n_features == 1 else 's'}"


def _event(summary: ModelSummary, target: str | None) -> str | None:
    """What is predicted, in words: the target, or its second class."""
    if summary.classes is None:
        return target
    return f"{target} = {summary.classes[1]}" if target else f"class {summary.classes[1]}"


def _target(model: Any) -> str | None:
    """The target column, where there is one and the model knows it."""
    names = list(getattr(getattr(model, "recipe_", None), "target_columns", None) or ())
    return names[0] if len(names) == 1 and len(names[0]) <= 30 else None


def _title_of_table(model: Any) -> str | None:
    """Target and task column, as "stay, by hospital", where the model knows its table."""
    recipe = getattr(model, "recipe_", None)
    if recipe is None or not recipe.target_columns:
        return None
    names = list(recipe.target_columns)
    if len(names) > MOST_TARGETS:
        names = [*names[: MOST_TARGETS - 1], f"{len(names) - MOST_TARGETS + 1} more"]
    targets = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return targets if recipe.task_column is None else f"{targets}, by {recipe.task_column}"


# -- predictions ---------------------------------------------------------------------------------------------


def _task_table(summary: ModelSummary, evaluation: Evaluation | None) -> dict[str, Any]:
    """The table of tasks: held-out scores of this model and of its best rival, and a picture of them."""
    found = None if evaluation is None else evaluation.heldout or evaluation.saved
    if found is None:
        rows = [_task_row(task, task.n_rows, {}, 0.0) for task in summary.tasks]
        return {"compared": [], "strip_axis": [], "task_rows": rows, "score_name": "", "any_below": False}
    best = None if evaluation is None else evaluation.best_rival
    names = {"own": "This model"} | ({} if best is None else {best: RIVALS[best].title})
    scores = {who: found.score_by_task(who) for who in names}
    every = np.concatenate(list(scores.values()))
    low = _strip_start(found.kind, float(np.nanmin(every)) if np.isfinite(every).any() else 0.0)
    rows = []
    for t, task in enumerate(summary.tasks):
        own = {who: float(values[t]) for who, values in scores.items() if t < len(values)}
        n_rows = 0 if evaluation is None else int(evaluation.n_rows[t])
        rows.append(_task_row(task, n_rows, own, low))
    return {
        "compared": [("own" if who == "own" else "rival", name) for who, name in names.items()],
        "strip_axis": [(_place(value, low), score(value)) for value in (low, (1 + low) / 2, 1.0)],
        "task_rows": rows,
        "score_name": SCORE_NAMES[found.kind].format(task=summary.noun[0]),
        "any_below": found.kind != "classes" and bool((every < 0.0).any()),
    }


def _strip_start(kind: str, worst: float) -> float:
    """Left end of the strips: the worst score, but not so far down that the others lie on one spot."""
    if kind == "classes":
        return 0.0 if worst < 0.4 else 0.4
    return 0.0 if worst >= 0 else max(-0.5, -0.25 * np.ceil(-worst / 0.25))


def _place(value: float, low: float) -> float:
    return round(6 + (value - low) / (1 - low) * (STRIP - 12), 1)


def _task_row(task: TaskSummary, n_rows: int | None, scores: dict[str, float], low: float) -> dict[str, Any]:
    """One row; a mark is a score on the strip, or an arrow where it is off to the left."""
    marks = [
        {
            "who": "own" if who == "own" else "rival",
            "x": _place(max(value, low), low),
            "is_off": value < low,
        }
        for who, value in scores.items()
        if not np.isnan(value)
    ]
    return {
        "label": str(task.label),
        "n_rows": number(n_rows),
        "n_features": number(task.n_features),
        "intercept": number(task.intercept),
        "set_apart": task.set_apart,
        "scores": [score(None if np.isnan(value) else value) for value in scores.values()],
        "marks": marks[::-1],  # the model itself is drawn last, on top
    }


# -- features and facts --------------------------------------------------------------------------------------


def _feature_row(f: FeatureSummary) -> dict[str, Any]:
    """One row of the table of features."""
    return {
        "name": f.name,
        "kind": f.kind,
        "used_by": f.used_by,
        "n_tasks": f.n_tasks,
        "size": number(f.size),
        "common": "" if f.common is None else f"{number(f.common)} ({number(f.scatter)})",
        "coef": _spread_out(f.mean_coef, f.min_coef, f.max_coef),
        "per_sd": _spread_out(f.mean_coef_per_sd, f.min_coef_per_sd, f.max_coef_per_sd),
        "agreement": number(None) if f.agreement is None else f"{f.agreement:.0%}",
    }


def _spread_out(mean: float | None, low: float | None, high: float | None) -> str:
    """A mean with the range around it; the mean alone where all are the same."""
    return number(mean) if low == high else f"{number(mean)} ({number(low)} to {number(high)})"


def _model_facts(summary: ModelSummary) -> list[tuple[str, str]]:
    facts = [("Model", summary.model)]
    if summary.member is not None:
        facts.append(("(p, k)", sentences.pair(summary.member)))
    for name, value in summary.strengths.items():
        ends = [number(min(value)), number(max(value))] if isinstance(value, list) else []
        facts.append((name, f"{' to '.join(ends)}, by task" if ends else number(value)))
    if summary.classes is not None:
        first, second = summary.classes
        facts.append(("Classes", f"{first} and {second} (scores are for the second)"))
    facts.append(("Put on one scale", " and ".join(summary.scaled_in_fit) or "nothing"))
    return facts


def _run_facts(summary: ModelSummary, source: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The provenance of the model and of the table given, whatever it has, as lines."""
    facts = []
    for key, value in summary.provenance.items():
        if key == "training":  # scores, shown with the tasks
            continue
        if isinstance(value, dict):
            value = ", ".join(f"{name} {entry}" for name, entry in value.items())
        elif isinstance(value, list | tuple):
            value = " x ".join(map(str, value)) if key == "shape" else ", ".join(map(str, value))
        facts.append((RUN_NAMES.get(key, str(key).capitalize()), str(value)))
    for key, value in (source or {}).items():
        facts.append((f"Table of this report: {RUN_NAMES.get(key, str(key)).lower()}", str(value)))
    return facts


# -- what the script reads -----------------------------------------------------------------------------------


def _embedded(model: Any, summary: ModelSummary) -> dict[str, Any]:
    """The matrix and the names as JSON types: 16 bits for a coefficient, each feature on its own scale."""
    found = learned(model)
    tasks = order_tasks(found)
    shown = summary.features[:MOST_FEATURES]
    place = {feature.position: i for i, feature in enumerate(shown)}
    features = np.array([j for j in order_features(found, tasks).tolist() if j in place], dtype=np.intp)
    coef = summary.coef if summary.scaled_coef is None else summary.scaled_coef
    A = coef.T[features][:, tasks]
    largest = np.abs(A).max(axis=1, initial=0.0)
    steps = np.rint(A / np.where(largest > 0, largest, 1.0)[:, None] * STEPS)
    # a small coefficient is not zero: that is what the map is about
    steps = np.where((steps == 0) & (A != 0), np.sign(A), steps).astype("<i2")
    columns = summary.spread
    targets = getattr(model, "target_scale_", None)
    nonzero = np.abs(A[A != 0])
    return {
        "features": {
            "name": [feature.name for feature in shown],
            "size": [_short(feature.size) for feature in shown],
            "usedBy": [feature.used_by for feature in shown],
            "agreement": [_short(feature.agreement) for feature in shown],
        },
        "tasks": [str(task.label) for task in summary.tasks],
        "noun": summary.noun[0],
        "kinds": list(KINDS),
        "sizeName": summary.size_label,
        "map": {
            "features": [place[j] for j in features.tolist()],
            "tasks": tasks.tolist(),
            "largest": [_short(value, 6) for value in largest.tolist()],
            "steps": base64.b64encode(steps.tobytes()).decode("ascii"),
            "limit": _short(float(np.quantile(nonzero, 0.98))) if nonzero.size else 1.0,
        },
        "columnScale": None if columns is None else [_short(columns[j], 6) for j in features.tolist()],
        "targetScale": None if targets is None else [_short(value, 6) for value in targets.tolist()],
        "scaled": list(summary.scaled),
    }


def _short(value: Any, digits: int = 4) -> float | None:
    return None if value is None else float(f"{value:.{digits}g}")
