"""The effects of a model as the page and `mmtfl inspect` show them: averages in words, and forests."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from mmtfl.inference.effect_table import RATIOS, effect_rows, task_effect_rows
from mmtfl.inference.words import READING
from mmtfl.objective.losses import Loss
from mmtfl.report.sentences import MISSING, few, number, p_value, shortened, with_interval
from mmtfl.report.summary import Noun

MOST_NUMBERS = 40_000  # effects of single tasks that a page keeps for its forests


class EffectPage:
    """The rows of ``model.effects()``, largest evidence first, and what they are called.

    Attributes
    ----------
    rows : list of dict
        The numbers of each feature.
    ratio : str
        "odds_ratio" or "rate_ratio", where effects are read as ratios; else "".
    title : str
        What the averages are called.
    references : dict of str to str
        The level that the levels of each column of words are compared with.
    """

    def __init__(self, model: Any, coverage: float = 0.9):
        self._model, self._coverage = model, coverage
        self.rows = effect_rows(model, coverage)
        self.ratio = RATIOS.get(model._loss.name, "")
        self.title = self.ratio.replace("_", " ").capitalize() or "Average effect"
        codes = getattr(getattr(model, "encoder_", None), "codes_", ())
        self.references = {code.name: code.reference for code in codes if code.kind == "word"}

    @classmethod
    def of(cls, model: Any, coverage: float = 0.9) -> EffectPage | None:
        """The effects of a fitted model; None where it was fitted without them, or they have no average."""
        is_known = getattr(model, "effects_", None) is not None and isinstance(model._loss, Loss)
        return cls(model, coverage) if is_known else None

    # -- the table -----------------------------------------------------------------------------------------

    def table(self, most: int) -> list[dict[str, Any]]:
        """What the table says of the first features."""
        return [
            {
                "name": row["feature"],
                "average": self._interval(row, ""),
                "quartiles": self._interval(row, "quartiles"),
                "spread": number(row["spread"], 2),
                "new": self._range(row["new_task_lower"], row["new_task_upper"]),
                "p": p_value(row["p"]),
                "q": p_value(row["q"]),
                "word": row["word"],
                "kind": row["word"].replace(" ", "-"),
                "note": row["note"],
            }
            for row in self.rows[:most]
        ]

    def _interval(self, row: dict[str, Any], name: str) -> str:
        ends = (f"{name}_lower", f"{name}_upper") if name else ("lower", "upper")
        values = [float(self.shown(row[part])) for part in (name or "average", *ends)]
        return MISSING if np.isnan(values[0]) else with_interval(*values)

    def _range(self, low: float, high: float) -> str:
        ends = (number(float(self.shown(end)), 2) for end in (low, high))
        return " to ".join(ends) if np.isfinite([low, high]).all() else MISSING

    def shown(self, effect: Any) -> Any:
        """An effect, or the ratio that it is."""
        return np.exp(np.clip(effect, -50.0, 50.0)) if self.ratio else effect

    # -- what is said about it -------------------------------------------------------------------------------

    def reading(self, target: str | None) -> str:
        """One line on how to read the numbers."""
        what = target or "the target"
        usual = f"An effect is the change of {what} for each unit of the feature, the others held."
        return READING.get(self.ratio, usual)

    def compared_with(self) -> str:
        """What levels are compared with; not of columns whose levels are of one task each."""
        varies = {row["column"] for row in self.rows if row["n_tasks"] > 1}
        named = [f"{name} {level}" for name, level in self.references.items() if name in varies]
        return f"Levels are compared with: {few(named)}." if named else ""

    def notes(self, most: int, n_tasks: int, noun: Noun) -> list[str]:
        """What to know of the first features: their notes, and those that not all tasks tell of."""
        alone = Counter(
            row["column"] for row in self.rows if row["n_tasks"] < 2 and row["column"] != row["feature"]
        )
        nested = {column: n for column, n in alone.items() if n > 2}
        told = [row for row in self.rows[:most] if row["column"] not in nested or row["n_tasks"] > 1]
        telling = ("only in some", "cannot be told apart")
        notes = [
            f"{row['feature']}: {row['note']}." for row in told if row["note"] and row["word"] in telling
        ]
        fewer = [f"{row['feature']} in {row['n_tasks']}" for row in told if row["n_tasks"] < n_tasks]
        notes += [f"Not all of the {n_tasks} {noun[1]} tell: {', '.join(fewer)}."] if fewer else []
        return notes + [
            f"{column}: {n} of its levels are of one {noun[0]} each, and compared with others of it."
            for column, n in nested.items()
        ]

    # -- what the script draws -------------------------------------------------------------------------------

    def embedded(self, noun: Noun) -> dict[str, Any]:
        """Numbers of the forests, on the scale of the linear predictor, and the facts of each card."""
        most = max(MOST_NUMBERS // (4 * len(self._model.tasks_)), 1)
        known = [row for row in self.rows if np.isfinite(row["average"]) or row["n_tasks"] > 0][:most]
        forests = {row["feature"]: self._forest(row) for row in known}
        return {
            "isRatio": bool(self.ratio),
            "title": self.title,
            "features": [
                {"name": row["feature"], "facts": self._facts(row, noun), **forests.get(row["feature"], {})}
                for row in self.rows[: MOST_NUMBERS // 20]
            ],
        }

    def _forest(self, row: dict[str, Any]) -> dict[str, Any]:
        every = task_effect_rows(self._model, row["feature"], self._coverage)
        own = [(t, one) for t, one in enumerate(every) if np.isfinite(one["effect"])]
        names = ("effect", "lower", "upper", "shrunk")
        return {
            "tasks": [t for t, _ in own],
            "rows": [one["n_rows"] for _, one in own],
            **{name: [shortened(one[name]) for _, one in own] for name in names},
            "average": [shortened(row[name]) for name in ("average", "lower", "upper")],
            "new": [shortened(row[f"new_task_{end}"]) for end in ("lower", "upper")],
        }

    def _facts(self, row: dict[str, Any], noun: Noun) -> list[tuple[str, str]]:
        """Everything else that is known of a feature, as name and value."""
        spread, (one, many) = number(row["spread"], 2), (noun[0], noun[1].capitalize())
        if np.isfinite([row["spread_lower"], row["spread_upper"]]).all():
            spread += f" ({number(row['spread_lower'], 2)} to {number(row['spread_upper'], 2)})"
        share = row["same_direction"]
        facts = [
            (f"{self.title} per unit", self._interval(row, "")),
            ("From lower to upper quartile", self._interval(row, "quartiles")),
            ("Per standard deviation", number(float(self.shown(row["per_sd"])))),
            (f"A new {one}", self._range(row["new_task_lower"], row["new_task_upper"])),
            (f"Spread between {noun[1]}" + (", log scale" if self.ratio else ""), spread),
            (f"{many} with the same direction", MISSING if np.isnan(share) else f"{100.0 * share:.0f} %"),
            (f"{many} in which it varies", number(row["n_tasks"])),
            ("p, and q over features", f"{p_value(row['p'])}, {p_value(row['q'])}"),
        ]
        if row["column"] in self.references:
            facts.append(("Compared with", self.references[row["column"]]))
        if row["column"] != row["feature"]:
            facts.append((f"All of {row['column']}, p", p_value(row["p_column"])))
        return [*facts, *([("In a word", f"{row['word']}: {row['note']}")] if row["note"] else [])]
