"""A model of several sites, finished at one of them: its own errors, from rows that stay there."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mmtfl.inference.heldout_errors import half_widths, sorted_errors
from mmtfl.tables.agreement import Agreement
from mmtfl.tasks.container import Tasks
from mmtfl.wording import abbreviate


def finish(model: Any, frame: Any) -> Any:
    """Give a model of summaries the errors of a site's own rows, and with them intervals.

    Every row is predicted by the fit that has not seen its fold, as in a search on all rows in one place. The
    model keeps the site's medians too, with which it fills missing numbers. Neither leaves the site.

    Parameters
    ----------
    model : MMTFLRegressorCV
        Searched on summaries of sites.
    frame : frame
        The table of one of the sites.

    Returns
    -------
    model : estimator
        A copy with ``predict_interval``.

    Examples
    --------
    >>> from mmtfl import MMTFLRegressorCV, Tasks
    >>> from mmtfl.datasets import make_hospitals
    >>> from mmtfl.estimators.sites import finish
    >>> from mmtfl.tables.agreement import Agreement
    >>> table = make_hospitals(random_state=0).frame
    >>> sites = [table[table["hospital"] == name] for name in ("Aker", "Bern")]
    >>> known = {"task": "hospital", "target": "stay", "features": ["age", "dose", "crp"]}
    >>> agreed = Agreement.propose(sites[0], **known)
    >>> centre = MMTFLRegressorCV(pk=(2, 2), alphas=10)
    >>> centre = centre.fit(Tasks.from_summaries([agreed.summarise(site) for site in sites]))
    >>> at_aker = finish(centre, sites[0])
    >>> at_aker.predict_interval(sites[0].head(2), task=["Aker", "Aker"]).shape
    (2, 2)
    """
    agreed = agreement_of(model)
    tasks, fold = agreed.rows(frame)
    place = _places(model, tasks)
    z = heldout_predictions(model, tasks, fold, place)
    finished = copy.copy(model)
    finished.heldout_errors_ = sorted_errors(model._loss, tasks.y, z, place, model.tasks_)
    finished.encoder_ = agreed.own_encoder(frame)
    return finished


def checks(model: Any, frame: Any) -> dict[str, np.ndarray]:
    """Residual checks of a finished model on the rows of its site, one row per task.

    Returns
    -------
    table : dict of ndarrays
        task and n_rows; r2 of rows that were held out, and r2_of_summary, which is the same where the rows
        are those of the summary; mean_error, which is far from zero where the model is off as a whole;
        typical_error, the median of the sizes; and half_width of the 90 % interval.
    """
    tasks, fold = agreement_of(model).rows(frame)
    place = _places(model, tasks)
    error = tasks.y - heldout_predictions(model, tasks, fold, place)
    own, T = tasks.observation_task, tasks.n_tasks
    at = place[tasks.offsets[:-1]]
    centred = tasks.y - (np.bincount(own, tasks.y) / tasks.sizes)[own]
    squares, total = np.bincount(own, error**2), np.bincount(own, centred**2)
    return {
        "task": tasks.labels,
        "n_rows": tasks.sizes,
        "r2": 1.0 - squares / total,
        "r2_of_summary": model.heldout_scores_["r2"][at],
        "mean_error": np.bincount(own, error) / tasks.sizes,
        "typical_error": np.array([np.median(np.abs(error[own == t])) for t in range(T)]),
        "half_width": half_widths(model.heldout_errors_, 0.9)[at],
    }


def heldout_predictions(model: Any, tasks: Tasks, fold: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Predict every row by the fit without its fold."""
    X, curves = tasks.X, model.curves_
    X = X if curves is None else curves.basis.widened(X)
    coef, intercept = model.fold_models_["coef"], model.fold_models_["intercept"]
    return np.einsum("ij,ij->i", X, coef[fold, place]) + intercept[fold, place]


def agreement_of(model: Any) -> Agreement:
    """What the sites of a model agreed on; only a search on summaries can be finished."""
    if "fold_models_" not in vars(model):
        raise ValueError(
            "Only a search on summaries of sites can be finished at a site: it knows the fits without each "
            "fold, which tell how far off rows are that were not fitted. Use MMTFLRegressorCV (mmtfl cv) on "
            "summaries."
        )
    return Agreement.from_dict(model.agreement_)


def _places(model: Any, tasks: Tasks) -> np.ndarray:
    """The position of each observation's task in the model."""
    known = {label: t for t, label in enumerate(model.tasks_.tolist())}
    strange = [label for label in tasks.labels.tolist() if label not in known]
    if strange:
        raise ValueError(
            f"The model has no task {abbreviate(strange)}: it was fitted to {abbreviate(model.tasks_)}. Give "
            "the table of a site whose summary had a part in it."
        )
    return np.array([known[label] for label in tasks.labels.tolist()])[tasks.observation_task]
