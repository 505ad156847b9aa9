"""The effects of a model as the page shows them: the table of averages, sentences, and forests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mmtfl.inference.words import READING
from mmtfl.plots.figures import columns_of
from mmtfl.report.sentences import MISSING, few, number, p_value, with_interval
from mmtfl.report.summary import Noun

COVERAGE = 0.9
MOST_NUMBERS = 40_000  # effects of single tasks that a page keeps for its forests
RATIOS = {"odds_ratio": "Odds ratio", "rate_ratio": "Rate ratio"}


@dataclass(frozen=True, eq=False)
class EffectPage:
    """The frame of ``model.effects()`` as arrays, largest evidence first.

    Attributes
    ----------
    columns : dict of ndarray
        By name.
    ratio : str or None
        "odds_ratio" or "rate_ratio", where effects are read as ratios.
    tasks : dict of str to dict of ndarray
        ``task_effects`` of the first features.
    references : dict of str to str
        The level that the levels of each column of words are compared with.
    """

    columns: dict[str, np.ndarray]
    ratio: str | None
    tasks: dict[str, dict[str, np.ndarray]]
    references: dict[str, str]

    @classmethod
    def of(cls, model: Any) -> EffectPage | None:
        """The effects of a fitted model; None where it was fitted without them."""
        if getattr(model, "effects_", None) is None:
            return None
        columns = columns_of(model.effects(COVERAGE))
        ratio = next((name for name in RATIOS if name in columns), None)
        most = max(MOST_NUMBERS // (4 * len(model.tasks_)), 1)
        known = columns["feature"][np.isfinite(columns["average"]) | (columns["n_tasks"] > 0)][:most]
        tasks = {name: columns_of(model.task_effects(name, COVERAGE)) for name in known.tolist()}
        codes = getattr(getattr(model, "encoder_", None), "codes_", ())
        references = {code.name: code.reference for code in codes if code.kind == "word"}
        return cls(columns, ratio, tasks, references)

    def __len__(self) -> int:
        return len(self.columns["feature"])

    # -- the table -----------------------------------------------------------------------------------------

    def rows(self, most: int) -> list[dict[str, Any]]:
        """What the table says of each feature."""
        return [self._row(j) for j in range(min(len(self), most))]

    def _row(self, j: int) -> dict[str, Any]:
        at = {name: column[j] for name, column in self.columns.items()}
        return {
            "name": str(at["feature"]),
            "average": self._interval(at["average"], at["lower"], at["upper"]),
            "quartiles": self._interval(at["quartiles"], at["quartiles_lower"], at["quartiles_upper"]),
            "spread": number(float(at["spread"]), 2),
            "p": p_value(float(at["p"])),
            "word": str(at["word"]),
            "kind": str(at["word"]).replace(" ", "-"),
            "note": str(at["note"]),
        }

    def _interval(self, value: float, low: float, high: float) -> str:
        if np.isnan(value):
            return MISSING
        return with_interval(*(float(self.shown(part)) for part in (value, low, high)))

    def shown(self, effect: Any) -> Any:
        """An effect, or the ratio that it is."""
        return np.exp(np.clip(effect, -50.0, 50.0)) if self.ratio else effect

    def title(self) -> str:
        """What the column of averages is called."""
        return RATIOS.get(self.ratio or "", "Average effect")

    def reading(self, target: str | None) -> str:
        """One line on how to read the numbers."""
        if self.ratio is not None:
            return READING[self.ratio]
        what = target or "the target"
        return f"An effect is the change of {what} for each unit of the feature, the others held."

    def compared_with(self) -> str:
        """What levels are compared with; not of columns whose levels are of one task each."""
        varies = set(self.columns["column"][self.columns["n_tasks"] > 1].tolist())
        named = [f"{name} {level}" for name, level in self.references.items() if name in varies]
        return f"Levels are compared with: {few(named)}." if named else ""

    # -- what the script draws -------------------------------------------------------------------------------

    def embedded(self, noun: Noun) -> dict[str, Any]:
        """Numbers of the forests, on the scale of the linear predictor, and the facts of each card."""
        return {
            "isRatio": self.ratio is not None,
            "title": self.title(),
            "features": [
                {
                    "name": str(name),
                    "facts": self._facts(j, noun),
                    **({} if str(name) not in self.tasks else self._forest(j)),
                }
                for j, name in enumerate(self.columns["feature"].tolist())
                if j < MOST_NUMBERS // 20
            ],
        }

    def _forest(self, j: int) -> dict[str, Any]:
        own = self.tasks[str(self.columns["feature"][j])]
        known = np.isfinite(own["effect"])
        at = {name: self.columns[name][j] for name in ("average", "lower", "upper")}
        return {
            "tasks": np.flatnonzero(known).tolist(),
            "rows": own["n_rows"][known].tolist(),
            **{name: _short(own[name][known]) for name in ("effect", "lower", "upper", "shrunk")},
            "average": _short(np.array(list(at.values()))),
            "new": _short(np.array([self.columns[f"new_task_{end}"][j] for end in ("lower", "upper")])),
        }

    def _facts(self, j: int, noun: Noun) -> list[tuple[str, str]]:
        """Everything else that is known of a feature, as name and value."""
        at = {name: column[j] for name, column in self.columns.items()}
        ends = (at["spread_lower"], at["spread_upper"])
        spread = number(float(at["spread"]), 2)
        if np.isfinite(ends).all():
            spread += f" ({number(float(ends[0]), 2)} to {number(float(ends[1]), 2)})"
        facts = [
            (f"{self.title()} per unit", self._interval(at["average"], at["lower"], at["upper"])),
            (
                "From lower to upper quartile",
                self._interval(at["quartiles"], at["quartiles_lower"], at["quartiles_upper"]),
            ),
            ("Per standard deviation", number(float(self.shown(at["per_sd"])))),
            (f"A new {noun[0]}", self._range(at["new_task_lower"], at["new_task_upper"])),
            (f"Spread between {noun[1]}" + (", log scale" if self.ratio else ""), spread),
            (f"{noun[1].capitalize()} with the same direction", _percent(float(at["same_direction"]))),
            (f"{noun[1].capitalize()} in which it varies", number(int(at["n_tasks"]))),
            ("p, and q over features", f"{p_value(float(at['p']))}, {p_value(float(at['q']))}"),
        ]
        if at["column"] in self.references:
            facts.append(("Compared with", self.references[at["column"]]))
        if at["column"] != at["feature"]:
            facts.append((f"All of {at['column']}, p", p_value(float(at["p_column"]))))
        return [*facts, *([("In a word", f"{at['word']}: {at['note']}")] if at["note"] else [])]

    def _range(self, low: float, high: float) -> str:
        if not np.isfinite([low, high]).all():
            return MISSING
        return f"{number(float(self.shown(low)), 2)} to {number(float(self.shown(high)), 2)}"


def _percent(share: float) -> str:
    return MISSING if np.isnan(share) else f"{100.0 * share:.0f} %"


def _short(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(f"{value:.4g}") for value in values.tolist()]
