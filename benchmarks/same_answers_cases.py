"""The public calls whose answers `same_answers.py` records: small data, one function per kind of call.

A case is a function of a scratch folder that returns what came out, by name. Fits are asked for far more
accuracy than the default (tol=1e-12), so that equality to 1e-10 does not hang on the order of a sum: a convex
minimum, and a concave local minimum found from the same starts, is then known to about 1e-12. Where a case
cannot be that accurate its tolerance is given with it, and the reason with the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Bunch

import mmtfl
from mmtfl.datasets import make_d1, make_d2, make_tasks

Outcome = dict[str, Any]
Run = Callable[[Path], Outcome]
INF = math.inf
EXACT: dict[str, Any] = {"tol": 1e-12, "max_iter": 2000}

# strengths at which some features are kept and some are dropped, for squared and for logistic loss
MEMBERS: dict[tuple[float, float | str], tuple[float, float]] = {
    (2, 2): (0.43, 0.04),
    (1, 1): (0.30, 0.03),
    (2, 1): (0.39, 0.03),
    (1, 2): (0.25, 0.025),
    (3, 1.5): (0.53, 0.05),
    (INF, 1): (0.87, 0.07),
    (1, INF): (0.29, 0.03),
    (2, INF): (0.61, 0.16),
    (2, "log"): (0.0061, 0.003),
    (1.5, 0.7): (0.40, 0.025),
}
FEW = ((2, 2), (1, 1), (2, 1), (1.5, 0.7))
SOLVERS = ("auto", "alternating", "block")
TWO_STRENGTHS = ("Dirty", "Robust", "LowRank", "Capped")
KINDS = ("Regressor", "Classifier")
# names that say how the solver went, rather than what it found
ON_THE_WAY = {"history_", "n_iter_", "violation_", "dual_gap_"}


@dataclass(frozen=True)
class Case:
    """One call, and how closely its answer is to be met, relative to the largest entry of each array."""

    run: Run
    tolerance: float = 1e-10


Cases = Iterator[tuple[str, Case]]


# -- data ----------------------------------------------------------------------------------------------------

_nudge = 0  # seed of changes in the last bit; 0: none


def nudge_data(seed: int) -> None:
    """Change the last bit of the data from here on: as much as another order of a sum would."""
    global _nudge
    _nudge = seed


def _nudged(array: np.ndarray) -> np.ndarray:
    if not _nudge:
        return array
    return array * (1.0 + np.random.default_rng(_nudge).choice([-1.0, 0.0, 1.0], array.shape) * 2.0**-52)


def regression(n_features: int = 20) -> Bunch:
    """Five tasks of 30 to 50 rows, six features of interest."""
    data = make_tasks(5, [30, 35, 40, 45, 50], n_features, n_informative=6, noise=0.5, random_state=0)
    return Bunch(X=_nudged(data.X), y=_nudged(data.y), task=data.task, names=data.feature_names)


def classes() -> Bunch:
    """Four tasks of 50 to 80 rows, five features of interest."""
    data = make_tasks(
        4, [50, 60, 70, 80], 15, n_informative=5, noise=0.5, classification=True, random_state=1
    )
    return Bunch(X=_nudged(data.X), y=data.y, task=data.task, names=data.feature_names)


def data_for(kind: str) -> Bunch:
    """The data of regressors or of classifiers."""
    return regression() if kind.startswith("Regressor") else classes()


def weights(n_rows: int) -> np.ndarray:
    """Weights between 0 and 2, some of them 0."""
    return np.random.default_rng(3).integers(0, 5, n_rows) / 2.0


def frame(data: Bunch, library: str = "pandas", **more: Any) -> Any:
    """Features and labels in one frame."""
    columns = {**dict(zip(data.names, data.X.T, strict=True)), "site": labels(data), **more}
    return __import__(library).DataFrame(columns)


def labels(data: Bunch) -> np.ndarray:
    """Labels as text."""
    return np.array([f"site {t}" for t in data.task])


def targets(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """One X and a column of targets per task, some of them not observed."""
    rng = np.random.default_rng(5)
    X = _nudged(rng.normal(size=(60, 8)))
    Y = X[:, :3] @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(60, 4))
    Y = Y if kind == "Regressor" else (Y > 0).astype(float)
    Y[rng.random(Y.shape) < 0.15] = np.nan
    return X, Y


# -- what came out -------------------------------------------------------------------------------------------


def learned(model: Any, *rows: Any) -> Outcome:
    """What a fit has found, its predictions for the rows, its summary and the names of its attributes."""
    names = [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    out: Outcome = {"attributes": names}
    for name in names:
        if name not in ON_THE_WAY:
            out.update(flat(name, getattr(model, name)))
    if rows:
        out.update(predicted(model, *rows))
    table = model.summary()
    return out | {
        f"summary.{name}": np.array(table[name]) for name in ("feature", "c", "n_tasks") if name in table
    }


def predicted(model: Any, *rows: Any) -> Outcome:
    """Predictions, probabilities where there are some, and numbers of shared and other features."""
    from mmtfl.report.summary import describe

    out: Outcome = {"predict": model.predict(*rows), "counts": dict(describe(model).counts)}
    if hasattr(model, "predict_proba"):
        out["predict_proba"] = model.predict_proba(*rows)
    return out


def flat(name: str, value: Any) -> Outcome:
    """Arrays and plain values out of whatever an attribute holds."""
    if isinstance(value, BaseEstimator):
        return {f"{name}.{key}": part for key, part in learned(value).items()}
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in flat(f"{name}.{key}", part).items()}
    if isinstance(value, list | tuple) and not all(isinstance(part, str | int | float) for part in value):
        return {k: v for i, part in enumerate(value) for k, v in flat(f"{name}.{i}", part).items()}
    if hasattr(value, "n_kept"):  # a path
        coef = np.array([value.coef(i) for i in range(len(value.alphas))])
        return flat(name, {"alphas": value.alphas, "coef": coef, "intercepts": value.intercepts})
    return {name: value.toarray() if hasattr(value, "toarray") else value}


def fitted(model: Any, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> Outcome:
    """Fit, and what came out of it."""
    model.fit(X, y, task, sample_weight)
    return learned(model, *((X,) if task is None else (X, task)))


# -- one strength --------------------------------------------------------------------------------------------


def member(kind: str, pk: tuple[float, float | str], **options: Any) -> Any:
    """A model of the family at its strength."""
    alpha = MEMBERS[pk][KINDS.index(kind)]
    return getattr(mmtfl, f"MMTFL{kind}")(*pk, alpha, **(EXACT | options))


def two_strengths(name: str, **options: Any) -> Any:
    """A model with two strengths."""
    return getattr(mmtfl, name)(**(EXACT | options))


def stored_as(X: np.ndarray, how: str) -> Any:
    """The same numbers in another kind of matrix."""
    import scipy.sparse as sparse

    if how == "float32":
        return X.astype(np.float32)
    sparse_X = np.where(np.abs(X) > 0.8, X, 0.0)
    return X if how == "float64" else getattr(sparse, f"{how}_array")(sparse_X)


def fits() -> Cases:
    """Every member, loss, solver and kind of matrix."""

    def run(folder: Path, kind: str, pk: Any, solver: str, how: str) -> Outcome:
        data = data_for(kind)
        return fitted(member(kind, pk, solver=solver), stored_as(data.X, how), data.y, data.task)

    for kind in KINDS:
        for pk in MEMBERS:
            hows = ("float32", "csr", "csc") if pk in FEW else ()
            for solver, how in [*((s, "float64") for s in SOLVERS), *(("auto", h) for h in hows)]:
                call = partial(run, kind=kind, pk=pk, solver=solver, how=how)
                yield f"fit/{kind}/{pk}/{solver}/{how}", Case(call)
        for how in ("float32", "csr"):
            call = partial(run, kind=kind, pk=(2, 1), solver="alternating", how=how)
            yield f"fit/{kind}/(2, 1)/alternating/{how}", Case(call)


def options_of(kind: str) -> dict[str, dict[str, Any]]:
    """Options by name; `weights` and `again` are for the call rather than the model."""
    found: dict[str, dict[str, Any]] = {
        "weights": {"weights": True},
        "standardize": {"standardize": True},
        "no intercept": {"fit_intercept": False},
        "all of these": {"weights": True, "standardize": True, "fit_intercept": False},
        "warm start": {"warm_start": True, "again": True},
    }
    if kind == "Regressor":
        found["scale targets"] = {"scale_targets": True}
        found["both scales"] = {"scale_targets": True, "standardize": True, "weights": True}
    return found


def fit_with_options(folder: Path, make: Callable[..., Any], kind: str, options: dict[str, Any]) -> Outcome:
    """Fit with some options; a warm start goes on from a fit to half of the targets."""
    data, options = data_for(kind), dict(options)
    weight = weights(len(data.y)) if options.pop("weights", False) else None
    again, model = options.pop("again", False), make(**options)
    if again:
        model.fit(data.X, data.y if kind == "Classifier" else 0.5 * data.y, data.task)
    return fitted(model, data.X * np.linspace(0.5, 2.0, data.X.shape[1]), data.y, data.task, weight)


def options() -> Cases:
    """Weights, scales, no intercepts, warm starts; for the family and the models with two strengths."""
    for kind in KINDS:
        makers = {f"{pk}": partial(member, kind, pk) for pk in [(2, 2), (2, 1), (1, 2), (2, INF)]}
        makers |= {f"{name}": partial(two_strengths, f"{name}{kind}") for name in TWO_STRENGTHS}
        for name, make in makers.items():
            for title, chosen in options_of(kind).items():
                call = partial(fit_with_options, make=make, kind=kind, options=chosen)
                yield f"options/{kind}/{name}/{title}", Case(call)


def doors() -> Cases:
    """The ways in which tasks enter."""

    def by_column(folder: Path, make: Callable[..., Any], kind: str, library: str) -> Outcome:
        data = data_for(kind)
        return fitted(make(task_column="site"), frame(data, library), data.y)

    def by_targets(folder: Path, make: Callable[..., Any], kind: str) -> Outcome:
        return fitted(make(), *targets(kind))

    def one_task(folder: Path, make: Callable[..., Any], kind: str) -> Outcome:
        data = data_for(kind)
        return fitted(make(), data.X[:60], data.y[:60])

    def stacked(folder: Path, make: Callable[..., Any], kind: str, how: str) -> Outcome:
        data = data_for(kind)
        order = np.random.default_rng(7).permutation(len(data.y))  # tasks need not come in runs
        return fitted(make(), stored_as(data.X, how)[order], data.y[order], labels(data)[order])

    def strangers(folder: Path, make: Callable[..., Any], kind: str) -> Outcome:
        data = data_for(kind)
        model = make(unknown_task="mean").fit(data.X, data.y, data.task)
        return predicted(model, data.X, np.where(data.task == 1, 99, data.task))

    for kind in KINDS:
        makers = {f"MMTFL{kind}": partial(member, kind, (2, 1))}
        makers |= {name + kind: partial(two_strengths, name + kind) for name in TWO_STRENGTHS}
        for name, make in makers.items():
            chosen = {"make": make, "kind": kind}
            for library in ("pandas", "polars"):
                yield f"doors/{name}/{library}", Case(partial(by_column, **chosen, library=library))
            yield f"doors/{name}/2-D y", Case(partial(by_targets, **chosen))
            yield f"doors/{name}/one task", Case(partial(one_task, **chosen))
            for how in ("float64", "csr", "float32"):
                yield f"doors/{name}/labels as text, {how}", Case(partial(stacked, **chosen, how=how))
            yield f"doors/{name}/unknown task", Case(partial(strangers, **chosen))


def paths() -> Cases:
    """Whole paths, and the strengths of the product form."""

    def path(folder: Path, kind: str, pk: Any) -> Outcome:
        data, loss = data_for(kind), "squared" if kind == "Regressor" else "logistic"
        return flat(
            "path", mmtfl.path(data.X, data.y, data.task, p=pk[0], k=pk[1], alphas=4, loss=loss, **EXACT)
        )

    def gammas(folder: Path, p: float, k: float) -> Outcome:
        pairs = [mmtfl.gammas_from_alpha(0.3, p=p, k=k, ratio=ratio) for ratio in (0.5, 1.0, 3.0)]
        how = ("exact",) if math.isinf(p) else ("exact", "paper")
        back = [[mmtfl.alpha_from_gammas(*pair, p=p, k=k, constants=c) for c in how] for pair in pairs]
        return {"gammas": np.array(pairs), "alpha": np.array(back)}

    for pk in MEMBERS:
        for kind in KINDS:
            yield f"path/{kind}/{pk}", Case(partial(path, kind=kind, pk=pk))
        if pk[1] != "log":  # the log penalty has no product form
            yield f"gammas/{pk}", Case(partial(gammas, p=pk[0], k=pk[1]))


# -- containers and datasets ------------------------------------------------------------------------------


def containers() -> Cases:
    """Converters of Tasks, there and back."""

    def rows_of(tasks: Any) -> Outcome:
        return flat("tasks", {"rows": tasks.to_rows(), "labels": tasks.labels})

    def by_rows(folder: Path, how: str) -> Outcome:
        data = regression()
        order = np.random.default_rng(7).permutation(len(data.y))
        weight = weights(len(data.y))
        tasks = mmtfl.Tasks.from_rows(
            stored_as(data.X, how)[order], data.y[order], labels(data)[order], weight
        )
        return rows_of(tasks) | flat("selected", tasks.select(np.arange(0, 150, 3)).to_rows())

    def by_list(folder: Path) -> Outcome:
        data = regression()
        pairs = [(data.X[data.task == t], data.y[data.task == t]) for t in range(5)]
        return rows_of(mmtfl.Tasks.from_list(pairs, labels=list("edcba")))

    def by_shared(folder: Path) -> Outcome:
        tasks = mmtfl.Tasks.from_shared(*targets("Regressor"))
        return rows_of(tasks)

    def by_frame(folder: Path, library: str) -> Outcome:
        data = regression()
        tasks = mmtfl.Tasks.from_frame(frame(data, library, y=data.y), task="site", target="y")
        return rows_of(tasks)

    for how in ("float64", "float32", "csr", "csc"):
        yield f"tasks/rows/{how}", Case(partial(by_rows, how=how))
    yield "tasks/list", Case(by_list)
    yield "tasks/shared", Case(by_shared)
    for library in ("pandas", "polars"):
        yield f"tasks/frame/{library}", Case(partial(by_frame, library=library))


def made() -> Cases:
    """Simulated datasets."""

    def run(folder: Path, make: Callable[..., Bunch], **options: Any) -> Outcome:
        data = make(random_state=2, **options)
        return flat("data", {name: data[name] for name in ("X", "y", "task", "coef", "support")})

    calls: dict[str, Callable[..., Outcome]] = {
        "d1": partial(run, make=make_d1, n_samples=8),
        "d1, less noise": partial(run, make=make_d1, n_samples=8, noise=0.3),
        "d2": partial(run, make=make_d2, n_samples=8),
    }
    for pattern in ("shared", "partial", "staircase", "outlier"):
        calls[pattern] = partial(run, make=make_tasks, n_samples=9, pattern=pattern)
    calls["correlated"] = partial(run, make=make_tasks, n_samples=9, noise=0.5, correlation=0.4)
    calls["classes"] = partial(run, make=make_tasks, n_samples=9, classification=True)
    for title, call in calls.items():
        yield f"datasets/{title}", Case(call)
