"""The sentences of the report, each by a rule on the numbers, whether good news or bad."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.model_selection.metrics import FEW_ROWS
from mmtfl.report import paired_tests as paired
from mmtfl.report.evaluation import ALTERNATIVES, Evaluation
from mmtfl.report.summary import ModelSummary
from mmtfl.wording import count

ALTERNATIVE_NAMES = {"pooled": "one pooled model", "separate": "separate models"}
MISSING = "–"


def number(value: Any, digits: int = 3) -> str:
    """A number with a few significant digits, a true minus sign and no needless exponent."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}".replace(",", " ").replace("-", "−")
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        digits = max(digits, 1 + math.floor(math.log10(abs(value))))  # whole numbers stay whole
        text = np.format_float_positional(value, precision=digits, unique=False, fractional=False, trim="-")
    else:
        text = np.format_float_scientific(value, precision=digits - 1, unique=False, trim="-", exp_digits=1)
        text = text.replace("e+", "e").replace(".e", "e")
    return text.replace("-", "−")


def score(value: float | None) -> str:
    """A score with two decimals, or none where it is far below zero."""
    if value is None:
        return MISSING
    return _plain_score(value).replace("-", "−")


def _plain_score(value: float) -> str:
    return f"{value:.2f}" if value > -10 else f"{value:.0f}"


def verdict(evaluation: Evaluation) -> list[str]:
    """Which of the models predicts better, by how much, in how many tasks, and what was left out."""
    errors = evaluation.errors
    if errors is None:
        return []
    if not errors.counted.any():
        return [f"No task has {FEW_ROWS} held-out rows or more whose target varies: models are not compared."]
    found = {who: beside for who in ALTERNATIVES if (beside := evaluation.against(who)) is not None}
    lines = [_headline(evaluation, found)]
    lines += [_beside(evaluation.metric, who, beside) for who, beside in found.items()]
    if evaluation.accuracy is not None and evaluation.base_rate is not None:
        lines.append(
            f"It gets {100.0 * evaluation.accuracy:.1f} % of the held-out rows right; saying the commoner "
            f"class of each task always gets {100.0 * evaluation.base_rate:.1f} % right."
        )
    return lines + _left_out(evaluation, errors)


def _headline(evaluation: Evaluation, found: dict[str, paired.Paired]) -> str:
    """The answer in one sentence, with what favours the model said in it."""
    n_tasks = next(iter(found.values())).n_tasks
    medians = {who: score(evaluation.median(who)) for who in ("own", *found)}
    others = _list([f"{medians[who]} for {ALTERNATIVE_NAMES[who]}" for who in found])
    median, over = evaluation.metric, ""
    if n_tasks > 1:
        median, over = f"median {median}", f" over {count(n_tasks, 'task')}"
    clauses = []
    for outcome, clause in _CLAUSES.items():
        names = [ALTERNATIVE_NAMES[who] for who, beside in found.items() if beside.outcome == outcome]
        clauses += [clause.format(_list(names))] if names else []
    return (
        f"On held-out rows this model{_how_tuned(evaluation)} {_list(clauses)}: {median} "
        f"{medians['own']}{over}, against {others}."
    )


def _how_tuned(evaluation: Evaluation) -> str:
    if evaluation.strength == "tuned":
        return ""
    if evaluation.strength == "given":
        return ", at the strength it was given,"
    return {
        True: ", at a strength that was chosen with these rows too, which favours it,",
        None: ", at a strength that may have been chosen with these rows too, which favours it,",
        False: ", at the strength that was chosen for it on other rows,",
    }[evaluation.seen]


_CLAUSES = {  # in the order in which they are said
    paired.WORSE: "predicts worse than {}",
    paired.BETTER: "predicts better than {}",
    paired.SLIGHTLY_WORSE: "predicts slightly worse than {}",
    paired.SLIGHTLY_BETTER: "predicts slightly better than {}",
    paired.EQUAL: "predicts about as well as {}",
    paired.SAME: "predicts the same as {}",
    paired.UNCLEAR: "cannot be told apart from {}",
}


def _list(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def clear_winner(evaluation: Evaluation) -> str | None:
    """The model that predicts better than each of the others; None if there is none."""
    models = ("own", *ALTERNATIVES)
    for who in models:
        beside = [evaluation.against(other, who=who) for other in models if other != who]
        if all(found is not None and found.outcome == paired.BETTER for found in beside):
            return who
    return None


def _beside(metric: str, who: str, found: paired.Paired) -> str:
    name = ALTERNATIVE_NAMES[who]
    if found.outcome == paired.SAME:
        return f"Beside {name} there is no difference."
    typical = "" if found.n_tasks == 1 else " in the typical task"
    if found.change is None:
        gain = abs(found.gain)
        by = f"{gain:.2f}" if gain >= 0.01 else f"{gain:.1g}"  # as many digits as it needs
        size = f"its {metric} is {'larger' if found.gain > 0 else 'smaller'} by {by}{typical}"
        larger = "larger"
    else:
        size = f"its squared error is {_times(found.change)}{typical}"
        larger = "smaller"
    wins = "" if found.n_tasks == 1 else f", and {larger} in {found.n_better} of {found.n_tasks} tasks"
    return f"Beside {name} {size}{wins} ({_test(found)}).{_MEANING.get(found.outcome, '')}"


_MEANING = {
    paired.SLIGHTLY_BETTER: " The difference is small, but more than chance gives.",
    paired.SLIGHTLY_WORSE: " The difference is small, but more than chance gives.",
    paired.EQUAL: " Whatever difference there is, it is small.",
    paired.UNCLEAR: " This is within what chance gives.",
}


def _times(change: float) -> str:
    """A relative change of an error in words."""
    ratio = 1.0 + change
    if ratio >= 2.0:
        return f"{number(ratio, 2)} times as large"
    if ratio < 0.01:
        return "less than a hundredth"
    percent = 100.0 * abs(change)
    size = f"{percent:.0f}" if percent >= 9.5 else f"{percent:.1g}" if percent < 1 else f"{percent:.1f}"
    return f"{size} % {'larger' if change > 0 else 'smaller'}"


def _test(found: paired.Paired) -> str:
    """What was tested, and how it came out."""
    if found.p_value is None:
        return f"fewer than {paired.FEWEST_TASKS} tasks cannot tell"
    p = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.2g}"
    if found.unit == "task":
        return f"signed-rank test over tasks, {p}"
    rows = number(found.n_units)
    return f"judged by the {rows} rows, as {paired.FEWEST_TASKS} tasks or more are needed to judge by: {p}"


def _left_out(evaluation: Evaluation, errors: paired.HeldOutErrors) -> list[str]:
    """Tasks that the models are not judged by, counted and named."""
    labels = np.array([str(task.label) for task in evaluation.tasks], dtype=object)
    no_variation = "whose target does not vary" if evaluation.metric == "R²" else "with one class"
    # tasks of one class are never held out, however many rows they have
    one_class = np.array([task.n_rows >= FEW_ROWS and task.fitted is None for task in evaluation.tasks])
    alone = errors.too_few & one_class
    parts = [
        f"{count(int(mask.sum()), 'task')} {why} ({_few(labels[mask].tolist())})"
        for mask, why in (
            (errors.too_few & ~alone, f"with fewer than {FEW_ROWS} held-out rows"),
            (errors.unscored | alone, no_variation),
        )
        if mask.any()
    ]
    return [f"Left out of this comparison: {_list(parts)}."] if parts else []


def _few(names: list[str], most: int = 5) -> str:
    """List the first names, long ones shortened."""
    shown = [name if len(name) <= 30 else name[:29] + "…" for name in names[:most]]
    return ", ".join(shown) + (f" and {len(names) - most} more" if len(names) > most else "")


def caution(evaluation: Evaluation) -> list[str]:
    """How far the scores can be trusted."""
    where = {
        True: "The table is the one the model was trained on: scores of the model as saved are optimistic.",
        None: "It is not known whether the model was trained on this table: take scores of the model as "
        "saved as optimistic.",
        False: "The table is not the one the model was trained on: scores of the model as saved are a fair "
        "test, unless some rows are in both.",
    }[evaluation.seen]
    if evaluation.n_folds is None:
        return [where]
    own = {
        "tuned": "What this model chose was chosen anew inside every training part, on a coarser grid.",
        "given": "The strength of this model was given, and is kept.",
        "kept": "The table is too large to tune this model again in every training part: it keeps the "
        "strength that was chosen for it.",
    }[evaluation.strength]
    cut = f"the rows were cut in {evaluation.n_folds} parts, each predicted by models that were fitted again "
    cut += "without it"
    if evaluation.in_time:
        cut = f"in {evaluation.n_folds} steps in time, rows were predicted by models that were fitted again "
        cut += "to earlier rows of every task"
    if evaluation.kept_together:
        cut += " and without any row of the same group"
    return [
        where,
        f"The comparison is fairer: {cut}. The pooled model has the same coefficients in all tasks "
        "and an intercept for each; it and the separate models are the better of ridge and lasso, with a "
        f"strength chosen inside the training part. {own}",
    ]


# -- the search ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OverTasks:
    """One score over the tasks that count.

    Attributes
    ----------
    median, mean : float
        Over these tasks; NaN with none.
    n_tasks : int
        How many count: those that have a score and at least `FEW_ROWS` rows, or, where there is none, those
        that have a score.
    n_few, n_undefined : int
        How many are left out because they have fewer rows, or no score.
    only_few : bool
        Whether all that count have fewer rows.
    """

    median: float
    mean: float
    n_tasks: int
    n_few: int
    n_undefined: int
    only_few: bool


def over_tasks(scores: Sequence[float | None], n_rows: Sequence[int]) -> OverTasks:
    """Median and mean of the scores of tasks, those with a handful of rows apart.

    Examples
    --------
    >>> from mmtfl.report.sentences import over_tasks
    >>> found = over_tasks([0.5, 0.75, 1.0, -30.0, None], [40, 50, 60, 2, 10])
    >>> found.median, found.n_tasks, found.n_few, found.n_undefined
    (0.75, 3, 1, 1)
    """
    values = np.array([math.nan if score is None else score for score in scores], dtype=float)
    known, few = ~np.isnan(values), np.asarray(n_rows) < FEW_ROWS
    only_few = not np.any(known & ~few)
    if only_few:
        few = np.zeros_like(few)
    counted = values[known & ~few]
    return OverTasks(
        median=float(np.median(counted)) if len(counted) else math.nan,
        mean=float(np.mean(counted)) if len(counted) else math.nan,
        n_tasks=len(counted),
        n_few=int(few.sum()),
        n_undefined=int(np.count_nonzero(~known & ~few)),
        only_few=only_few,
    )


PLAIN_SCORES = {"r2": "R^2", "deviance_explained": "deviance explained"}  # of targets that are numbers


def heldout_headline(search: Any) -> str | None:
    """How well the held-out rows of a `SearchSummary` were predicted, in one line; None if it is not known.

    The command line and the report show the same numbers: those of ``heldout_scores_``.
    """
    table, folds = search.held_out, count(search.n_folds, "fold")
    if table is None:
        return None
    for key, name in PLAIN_SCORES.items():
        if key in table:
            return f"Held-out {name}: {_in_words(over_tasks(table[key], table['n_rows']))}; {folds}"
    accuracy, base = (over_tasks(table[name], table["n_rows"]).mean for name in ("accuracy", "base_rate"))
    return (
        f"Held-out AUC: {_in_words(over_tasks(table['auc'], table['n_rows']))}; "
        f"{'mean ' if len(table['task']) > 1 else ''}{accuracy_beside_base(accuracy, base)}; {folds}"
    )


def accuracy_beside_base(accuracy: float, base_rate: float) -> str:
    """An accuracy, and that of a model that always says the commoner class of each task."""
    return f"accuracy {accuracy:.3f} (always the commoner class: {base_rate:.3f})"


def _in_words(found: OverTasks) -> str:
    if found.n_tasks == 0:
        return "not defined"
    value = _plain_score(found.median)
    if found.n_tasks > 1:
        value = f"median {value} over {found.n_tasks} tasks (mean {_plain_score(found.mean)})"
    if found.only_few:
        value += f", fewer than {FEW_ROWS} held-out rows {'each' if found.n_tasks > 1 else 'only'}"
    if found.n_few:
        value += f", {count(found.n_few, 'task')} with fewer than {FEW_ROWS} held-out rows apart"
    if found.n_undefined:
        value += f", {count(found.n_undefined, 'task')} without a score apart"
    return value


def search_headline(summary: ModelSummary) -> str | None:
    """The held-out score of the search in one sentence, for a report without a table."""
    search = summary.search
    if search is None:
        return None
    headline = heldout_headline(search)
    if headline is not None:
        return headline.replace("R^2", "R²").replace(" -", " −") + "."
    line = f"In the search, the score on held-out rows was {number(search.best_score)} ({search.score_name})"
    without = search.score_without_features
    if without is not None and without < 0 and search.best_score < 0:
        saved = 1 - search.best_score / without
        line += f": the loss is {saved:.0%} smaller than without any feature"
    return line + "."


def calibration(curve: dict[str, np.ndarray]) -> str:
    """How far off a classifier's probabilities are on held-out rows, from its reliability curve."""
    off = float(np.average(np.abs(curve["probability"] - curve["share"]), weights=curve["n_rows"]))
    n_bins = count(len(curve["share"]), "bin")
    return f"On held-out rows the probability is off by {off:.3f} on average over {n_bins}."


def choice_title(summary: ModelSummary) -> str:
    """The question that `how_chosen` answers."""
    if summary.member is None:
        return "How were the strengths chosen?"
    return "How were alpha and (p, k) chosen?" if _chose_member(summary) else "How was alpha chosen?"


def _chose_member(summary: ModelSummary) -> bool:
    """Whether the search had several members to choose from; one strength per task has a curve per task."""
    by_task = any(isinstance(value, list) for value in summary.strengths.values())
    return summary.search is not None and len(summary.search.curves) > 1 and not by_task


def how_chosen(summary: ModelSummary) -> str:
    """How the strength, and (p, k), came about."""
    strengths = ", ".join(
        f"{name} from {number(min(value))} to {number(max(value))} (each task has its own)"
        if isinstance(value, list)
        else f"{name} = {number(value)}"
        for name, value in summary.strengths.items()
    )
    search = summary.search
    if search is None:
        return f"The strength was given, not chosen: {strengths}."
    folds = f"{search.n_folds}-fold cross-validation over {search.n_candidates} candidates"
    member = ""
    if summary.member is not None and _chose_member(summary):
        member = f"(p, k) = {pair(summary.member)} and "
    rule = "the best mean score"
    if search.selection == "one_se":
        rule = "the strongest penalty within one standard error of the best mean score"
    return f"By {folds}, {member}{strengths} had {rule} on held-out rows."


def pair(member: tuple[float, float | str]) -> str:
    """(p, k) as it is written."""
    words = [value if isinstance(value, str) else f"{value:g}".replace("inf", "∞") for value in member]
    return f"({', '.join(words)})"
