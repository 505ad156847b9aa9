"""What a fitted model shows in a notebook: scikit-learn's diagram, and below it which tasks use what."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from mmtfl.estimators.usage import FeatureUse, feature_use, used_by, used_by_how_many
from mmtfl.tasks.wording import count

__all__ = ["ShowsSharing"]

TOP = 10
LONGEST = 60  # characters of a name that are shown; the rest is in its tooltip


class ShowsSharing:
    """Adds what a fitted model has found to scikit-learn's own representation, which stays as it is."""

    def _html_repr(self) -> str:
        fitted = vars(self).get("best_estimator_", self)
        return super()._html_repr() + (sharing_html(fitted) if hasattr(fitted, "coef_") else "")  # type: ignore[misc]


def sharing_html(model: Any) -> str:
    """How many features are used by how many tasks, and the largest ones, as HTML; all names are escaped."""
    use = feature_use(model)
    T, d = model.coef_.shape
    n_used = int(np.count_nonzero(use.n_tasks))
    told = f"{n_used} used" + (f": {used_by_how_many(use)}" if n_used and use.n_counted > 1 else "")
    head = f"{count(T, 'task')}, {count(d, 'feature')}, {told}."
    return f'<div class="mmtfl-sharing"><p>{head}</p>{_top_features(model, use)}</div>'


def _top_features(model: Any, use: FeatureUse) -> str:
    name, size = next(iter(model._sizes().items()))
    order = np.argsort(-size, kind="stable")[:TOP]
    order = order[use.n_tasks[order] > 0]
    if not len(order):
        return ""
    names, coef, per_sd = model._feature_names(), use.coef, use.per_sd
    rows = "".join(
        f'<tr><th style="text-align:left">{_name(names[j])}</th><td>{_name(used_by(use, j))}</td>'
        f"<td>{size[j]:.4g}</td><td>{coef.mean[j]:.4g}</td><td>{coef.low[j]:.4g} to {coef.high[j]:.4g}</td>"
        f"<td>{'' if per_sd is None else f'{per_sd.mean[j]:.4g}'}</td></tr>"
        for j in order
    )
    heads = ("feature", "used by", name, "mean coefficient", "range over tasks", "mean per s.d.")
    columns = "".join(f"<th>{escape(column)}</th>" for column in heads)
    return (
        f"<details><summary>Largest features</summary><table><thead><tr>{columns}</tr></thead>"
        f"<tbody>{rows}</tbody></table></details>"
    )


def _name(name: str) -> str:
    if len(name) <= LONGEST:
        return f"<bdi>{escape(name)}</bdi>"
    return f'<bdi title="{escape(name)}">{escape(name[:LONGEST])}…</bdi>'
