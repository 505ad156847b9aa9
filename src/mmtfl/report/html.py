"""The report: one HTML file that needs no other file and allows no other source of scripts or styles."""

import base64
import hashlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import mmtfl
from mmtfl.errors import require
from mmtfl.estimators.feature_use import KINDS, MEANINGS
from mmtfl.estimators.fitted_curves import shapes
from mmtfl.inference.heldout_errors import reliability
from mmtfl.persistence.files import check_target, write_text
from mmtfl.plots import CurveDisplay, HistoryDisplay, SearchDisplay
from mmtfl.plots.figures import Learned, columns_of
from mmtfl.plots.fit_displays import above_last, search_curves
from mmtfl.plots.sharing_map import order_features, order_tasks
from mmtfl.report import sentences
from mmtfl.report.evaluation import TITLES, Evaluation, evaluate
from mmtfl.report.rivals import N_FOLDS, kind_of_targets
from mmtfl.report.sentences import EffectPage, number, score, shortened
from mmtfl.report.summary import ModelSummary, describe
from mmtfl.wording import renamed

MOST_FEATURES = 2000  # rows of the table and of the map: the page stays small and quick
STRIP = 150.0  # width of the picture of a task's scores
SCORE_NAMES = {
    "numbers": "share of the differences within the {task} that is explained (R²)",
    "counts": "share of the deviance within the {task} that is explained",
    "classes": "chance that a row with the event is ranked above one without it",
}
MOST_TARGETS = 4  # that a title names
STEPS = 32767  # of the coefficients' quantisation, each feature on its own scale
RUN_NAMES = {"data": "Data file", "sha256": "SHA-256"}  # other keys are names already
WIDE = 6.4, 3.4  # inches
MOST_CURVES = 12  # effects that are drawn
STYLE = {
    "svg.fonttype": "none",  # text stays text, in the fonts of the reader
    "svg.hashsalt": "mmtfl",  # the same picture has the same bytes
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def write_report(model: Any, path: Any, **options: Any) -> Path:
    """Write a fitted model as one HTML page.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, a search included.
    path : path-like
        The file, written whole or not at all; one that is there is replaced.
    **options
        ``data``, ``title`` and so on, as in `render_report`.

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
    write_text(place, render_report(model, **options))
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

    The page needs no network and asks for none. It tells how well the model predicts, task by task, beside
    scikit-learn's models (where data is given); which features are shared; the map of all
    coefficients; how the strength was chosen; whether the solver converged; and what was run.

    Parameters
    ----------
    model : fitted estimator
        Any estimator of this library, a search included.
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
    return _render(_contents(model, evaluation, title, source))


def _render(contents: dict[str, Any]) -> str:
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
    # as `tojson` writes it, no character can end the element that JSON stands in
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    environment.filters |= {"number": number, "score": score, "range": sentences.mean_and_range}
    text = environment.from_string(body).render(
        **contents,
        explained=sentences.explained,
        # this style and this script by their hashes, and nothing else
        policy=f"default-src 'none'; img-src data:; style-src {of_style}; script-src {of_script}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        style=markup.Markup(style),
        script=markup.Markup(script),
    )
    # lone surrogates, which a name may hold, cannot be written as UTF-8
    return text.encode("utf-8", errors="replace").decode("utf-8")


# -- what the page holds -------------------------------------------------------------------------------------


def _contents(
    model: Any, evaluation: Evaluation | None, title: str | None, source: dict[str, Any] | None
) -> dict[str, Any]:
    """Everything that the template of a fitted model's page needs, by name."""
    summary, inner = describe(model), model._fitted()
    search, strengths = summary.search, summary.strengths.values()
    is_by_task = any(isinstance(value, list) for value in strengths)  # then each task has a curve
    noun, effects = summary.noun, EffectPage.of(inner)
    event = _event(summary, model)
    meanings = dict(MEANINGS)
    if any(f.kind == "shared" and f.n_possible != summary.n_counted for f in summary.features):
        meanings["shared"] += " that could use them"  # not every task could use every such feature
    headline = sentences.search_headline(summary)
    verdict = sentences.verdict(evaluation, noun) if evaluation else []
    verdict = verdict or ([headline] if headline else [])
    errors = getattr(inner, "heldout_errors_", None) or {}
    curve = reliability(errors) if "is_second" in errors else None
    kinds = {kind: (summary.counts[kind], renamed(meanings[kind], noun)) for kind in KINDS}
    return {
        "title": title or _title_of_table(model) or summary.title,
        "noun": noun,
        "summary": summary,
        "evaluation": evaluation,
        "figures": sentences.figures(evaluation, noun, event) if evaluation else [],
        "answers": sentences.first_answers(inner, verdict, summary.levels, noun),
        "effects": effects,
        "effect_rows": [] if effects is None else effects.table(MOST_FEATURES),
        "event": event,
        "verdict": verdict,
        "n_folds": N_FOLDS,
        "calibration": curve and sentences.calibration(curve),
        "reliability": curve and calibration_picture(curve),
        "tasks": TaskTable(summary, evaluation),
        "features": summary.features[:MOST_FEATURES],
        "curves": curve_pictures(inner, effects),
        "kinds": kinds,
        "headline": headline,
        "chose_member": search is not None and len(search.curves) > 1 and not is_by_task,
        "search_picture": search_picture(model),
        "history_picture": history_picture(model),
        "level_unit": {"classes": " (log odds)", "counts": " (log)"}.get(kind_of_targets(inner) or "", ""),
        "member": summary.member and sentences.pair(summary.member),
        "run_facts": _run_facts(summary, source),
        "data": _embedded(model, summary) | {"effects": effects and effects.embedded(noun)},
        "version": mmtfl.__version__,
    }


def _event(summary: ModelSummary, model: Any) -> str | None:
    """What is predicted, in words: the target, or its second class."""
    names = list(getattr(getattr(model, "recipe_", None), "target_columns", None) or ())
    target = names[0] if len(names) == 1 and len(names[0]) <= 30 else None
    if summary.classes is None:
        return target
    return f"{target} = {summary.classes[1]}" if target else f"class {summary.classes[1]}"


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


class TaskTable:
    """Held-out scores of this model and of its best rival in each task, and a picture of them.

    Attributes
    ----------
    titles : dict of str to str
        The models that are shown.
    scores : dict of str to ndarray of shape (n_tasks,)
        Their scores; NaN where a task is not judged by itself.
    n_rows : list
        Rows of each task.
    score_name : str
        What is measured.
    any_below : bool
        Whether a share that is explained is below zero.
    """

    def __init__(self, summary: ModelSummary, evaluation: Evaluation | None):
        found = None if evaluation is None else evaluation.heldout or evaluation.saved
        self.n_rows = [task.n_rows for task in summary.tasks]
        self.titles: dict[str, str] = {}
        if found is None or evaluation is None:
            return
        self.n_rows = evaluation.n_rows.tolist()
        best = evaluation.best_rival
        self.titles = {who: TITLES[who] for who in ("own", best) if who is not None}
        self.scores = {who: found.score_by_task(who) for who in self.titles}
        self.score_name = SCORE_NAMES[found.kind].format(task=summary.noun[0])
        every = np.concatenate(list(self.scores.values()))
        worst = float(np.nanmin(every)) if np.isfinite(every).any() else 0.0
        self.any_below = found.kind != "classes" and worst < 0.0
        # the left end of the strips, not so far down that the scores above lie on one spot
        self.low = 0.0 if worst >= 0 else max(-0.5, -0.25 * np.ceil(-worst / 0.25))
        if found.kind == "classes" and worst >= 0.4:
            self.low = 0.4

    def axis(self) -> list[tuple[float, float]]:
        """Places and values of the marks above the strips."""
        return [(self.place(value), value) for value in (self.low, (1 + self.low) / 2, 1.0)]

    def place(self, value: float) -> float:
        """Where on its strip a score is."""
        return round(6 + (max(value, self.low) - self.low) / (1 - self.low) * (STRIP - 12), 1)

    def marks(self, t: int) -> list[tuple[str, float, bool]]:
        """Who, where, and whether the score is off to the left; the model itself is drawn last, on top."""
        pairs = [(who, float(scores[t])) for who, scores in self.scores.items()]
        return [(who, self.place(at), at < self.low) for who, at in pairs[::-1] if not np.isnan(at)]


def _run_facts(summary: ModelSummary, source: dict[str, Any] | None) -> list[tuple[str, str]]:
    """The provenance of the model and of the table given, whatever it has, as lines."""
    facts = []
    for key, value in summary.provenance.items():
        if key == "training":  # scores, shown with the tasks
            continue
        if isinstance(value, dict):
            value = [f"{name} {entry}" for name, entry in value.items()]
        value = ", ".join(map(str, value)) if isinstance(value, list) else value
        facts.append((RUN_NAMES.get(key, str(key).capitalize()), str(value)))
    for key, value in (source or {}).items():
        facts.append((f"Table of this report: {RUN_NAMES.get(key, str(key)).lower()}", str(value)))
    return facts


# -- what the script reads -----------------------------------------------------------------------------------


def _embedded(model: Any, summary: ModelSummary) -> dict[str, Any]:
    """The matrix and the names as JSON types: 16 bits for a coefficient, each feature on its own scale."""
    found = Learned(model)
    tasks = order_tasks(found)
    shown = summary.features[:MOST_FEATURES]
    place = {feature.position: i for i, feature in enumerate(shown)}
    features = np.array([j for j in order_features(found, tasks).tolist() if j in place], dtype=np.intp)
    A = summary.scaled_coef.T[features][:, tasks]
    largest = np.abs(A).max(axis=1, initial=0.0)
    steps = np.rint(A / np.where(largest > 0, largest, 1.0)[:, None] * STEPS)
    # a small coefficient is not zero: that is what the map is about
    steps = np.where((steps == 0) & (A != 0), np.sign(A), steps).astype("<i2")
    targets = getattr(model, "target_scale_", None)
    nonzero = np.abs(A[A != 0])
    return {
        "features": {
            "name": [feature.name for feature in shown],
            "size": [shortened(feature.size) for feature in shown],
            "usedBy": [feature.used_by for feature in shown],
            "agreement": [shortened(feature.agreement) for feature in shown],
        },
        "tasks": [str(task.label) for task in summary.tasks],
        "noun": summary.noun[0],
        "kinds": list(KINDS),
        "sizeName": summary.size_label,
        "map": {
            "features": [place[j] for j in features.tolist()],
            "tasks": tasks.tolist(),
            "largest": [shortened(value, 6) for value in largest.tolist()],
            "steps": base64.b64encode(steps.tobytes()).decode("ascii"),
            "limit": shortened(float(np.quantile(nonzero, 0.98))) if nonzero.size else 1.0,
        },
        "columnScale": [shortened(summary.spread[j], 6) for j in features.tolist()],
        "targetScale": None if targets is None else [shortened(value, 6) for value in targets.tolist()],
        "scale": "per s.d." if targets is None else "on one scale",
    }


# -- pictures ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Picture:
    """An image as a data URL, and a sentence that says what it shows."""

    source: str
    alt: str


def picture(draw: Callable[..., Any], alt: str, *, size: tuple[float, float] = WIDE) -> Picture:
    """Call `draw` with new axes, and keep what it drew as SVG."""
    with require("matplotlib.style", "plots").context(["default", STYLE]):
        figure = require("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")
        file = io.StringIO()
        # a character that matplotlib's fonts lack is drawn by the browser
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            draw(ax=figure.add_subplot())
            figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue().encode("utf-8", errors="replace")
    return Picture(f"data:image/svg+xml;base64,{base64.b64encode(text).decode('ascii')}", alt)


def search_picture(model: Any) -> Picture | None:
    """Held-out score against the strength; None without a search, or with one strength."""
    if not getattr(model, "cv_results_", None):
        return None
    if all(len(curve.strength) < 2 for curve in search_curves(model)[0]):
        return None
    draw = partial(SearchDisplay.from_estimator, model)
    return picture(draw, "Held-out score against the strength of the penalty.")


def history_picture(model: Any) -> Picture | None:
    """The objective above its last value after each pass; None with fewer than two passes above it."""
    history = np.asarray(model._fitted().history_, dtype=float)
    if not np.isfinite(history).all() or np.count_nonzero(above_last(history)) < 2:
        return None
    draw = partial(HistoryDisplay.from_estimator, model._fitted())
    return picture(draw, f"Objective above its last value after each of {len(history)} passes.")


@dataclass(frozen=True)
class Curve:
    """The effect of a feature that is a curve: large for its card, and a line that stands beside its name."""

    name: str
    picture: Picture
    line: str


def curve_pictures(model: Any, effects: Any) -> list[Curve]:
    """The first effects of features that are curves, in the order of the table of effects."""
    if getattr(model, "curves_", None) is None:
        return []
    kinds = zip(model._feature_names(), shapes(model)[0], strict=True)
    curved = [name for name, kind in kinds if kind == "curve"]
    if effects is not None:
        order = {row["feature"]: i for i, row in enumerate(effects.rows)}
        curved.sort(key=lambda name: order.get(name, len(order)))
    return [_curve(model, name) for name in curved[:MOST_CURVES]]


def _curve(model: Any, name: str) -> Curve:
    effect = columns_of(model.curve(name))["effect"]
    size = float(np.ptp(effect)) or 1.0
    places = zip(np.linspace(1, 47, len(effect)), 14 - 12 * (effect - effect.min()) / size, strict=True)
    line = "M" + "L".join(f"{x:.0f} {y:.1f}" for x, y in places)
    draw = partial(CurveDisplay.from_estimator, model, name)
    alt = f"Effect of {name} against its values, a curve."
    return Curve(name, picture(draw, alt, size=(4.4, 2.8)), line)


def calibration_picture(curve: dict[str, np.ndarray]) -> Picture:
    """How often held-out rows are of the second class, by the probability they were given."""
    display = require("sklearn.calibration", "plots").CalibrationDisplay

    def draw(ax: Any) -> None:
        display(curve["share"], curve["probability"], curve["probability"]).plot(ax=ax, name="as predicted")
        ax.set(xlabel="probability of the second class", ylabel="share of the second class")

    bins = len(curve["share"])
    return picture(draw, f"Share of the second class by its probability, in {bins} bins of held-out rows.")
