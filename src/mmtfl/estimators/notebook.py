"""What a fitted model shows in a notebook: scikit-learn's diagram, and below it what the tasks share."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from mmtfl.data.words import count

__all__ = ["ShowsSharing"]

TOP = 10
LONGEST = 60  # characters of a name that are shown; the rest is in its tooltip
MEANING = {
    "shared": "shared by all tasks",
    "partial": "used by some tasks",
    "single": "used by one task",
    "none": "not used",
}


class ShowsSharing:
    """Adds what a fitted model has found to scikit-learn's own representation, which stays as it is."""

    def _html_repr(self) -> str:
        fitted = vars(self).get("best_estimator_", self)
        return super()._html_repr() + (sharing_html(fitted) if hasattr(fitted, "coef_") else "")  # type: ignore[misc]


def sharing_html(model: Any) -> str:
    """How many features are shared, and the largest ones, as a piece of HTML; all names are escaped."""
    n_tasks, kinds = model._kinds()
    counts = {kind: int(np.count_nonzero(kinds == kind)) for kind in MEANING}
    told = ", ".join(f"{counts[kind]} {words}" for kind, words in MEANING.items() if counts[kind])
    T, d = model.coef_.shape
    head = f"{count(T, 'task')}, {count(d, 'feature')}: {told}."
    return f'<div class="mmtfl-sharing"><p>{head}</p>{_top_features(model, n_tasks, kinds)}</div>'


def _top_features(model: Any, n_tasks: np.ndarray, kinds: np.ndarray) -> str:
    name, size = next(iter(model._sizes().items()))
    order = np.argsort(-size, kind="stable")[:TOP]
    order = order[n_tasks[order] > 0]
    if not len(order):
        return ""
    names = model._feature_names()
    rows = "".join(
        f'<tr><th style="text-align:left">{_name(names[j])}</th>'
        f"<td>{size[j]:.4g}</td><td>{n_tasks[j]}</td><td>{kinds[j]}</td></tr>"
        for j in order
    )
    columns = "".join(f"<th>{escape(column)}</th>" for column in ("feature", name, "tasks", "kind"))
    return (
        f"<details><summary>Largest features</summary><table><thead><tr>{columns}</tr></thead>"
        f"<tbody>{rows}</tbody></table></details>"
    )


def _name(name: str) -> str:
    if len(name) <= LONGEST:
        return f"<bdi>{escape(name)}</bdi>"
    return f'<bdi title="{escape(name)}">{escape(name[:LONGEST])}…</bdi>'
