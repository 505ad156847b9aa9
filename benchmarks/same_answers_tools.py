"""More calls whose answers `same_answers.py` records: searches, stored rows, Dask, files, commands."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from same_answers_cases import (
    EXACT,
    INF,
    KINDS,
    TWO_STRENGTHS,
    Case,
    Cases,
    Outcome,
    classes,
    data_for,
    fitted,
    flat,
    frame,
    labels,
    learned,
    member,
    stored_as,
    targets,
    two_strengths,
    weights,
)
from sklearn.utils import Bunch

import mmtfl
from mmtfl.model_selection import TaskKFold, per_task_scores, task_scorer, tasks_train_test_split

ALL_MEMBERS = ((2, 2), (1, 1), (2, 1), (1, 2), (3, 1.5), (1, INF), (2, INF), (2, "log"))


# -- searches ------------------------------------------------------------------------------------------------


def search(name: str, **options: Any) -> Any:
    """A search on a short grid; the winner is fitted to tol=1e-12, the paths as closely as searches do.

    Models with two strengths keep their default tol: their whole grid is solved to it, at 1e-12 for minutes.
    """
    if name.startswith("TwoStrength"):
        found = getattr(mmtfl, name.removeprefix("TwoStrength"))()
        return mmtfl.TwoStrengthCV(found, **({"strengths": 3, "cv": 2} | options))
    return getattr(mmtfl, f"{name}CV")(**({"alphas": 6, "cv": 2} | EXACT | options))


def search_options(kind: str) -> dict[str, dict[str, Any]]:
    """Options of searches by name."""
    third = np.arange(200) % 3
    cut = [(np.flatnonzero(third != i), np.flatnonzero(third == i)) for i in range(3)]
    found: dict[str, dict[str, Any]] = {
        "default": {},
        "two threads": {"n_jobs": 2},
        "one standard error": {"selection": "one_se"},
        "other members": {"pk": ALL_MEMBERS, "alphas": 5},
        "alternating": {"solver": "alternating", "pk": (2, 1)},
        "strengths given": {"alphas": [0.01, 0.1, 0.5], "pk": ((2, 2), (2, 1))},
        "ratio": {"alpha_ratio": 0.05, "pk": (1, 1)},
        "splitter": {"cv": TaskKFold(4, random_state=7), "pk": (2, 2)},
        "pooled score": {"scoring": task_scorer("neg_mean_squared_error", average="pooled")},
        "standardize": {"standardize": True},
    }
    if kind == "Regressor":
        found |= {"r2": {"scoring": "r2"}, "both scales": {"standardize": True, "scale_targets": True}}
        found["given folds"] = {"cv": cut, "pk": (2, 2)}
    return found


def searches() -> Cases:
    """Choices of searches, and what the winner is."""

    def plain(folder: Path, name: str, kind: str, **options: Any) -> Outcome:
        data = data_for(kind)
        return fitted(search(name, **options), data.X, data.y, data.task)

    def weighted(folder: Path, name: str, kind: str) -> Outcome:
        data = data_for(kind)
        return fitted(search(name), data.X, data.y, labels(data), weights(len(data.y)))

    def sparse(folder: Path, name: str, kind: str) -> Outcome:
        data = data_for(kind)
        return fitted(search(name), stored_as(data.X, "csr"), data.y, data.task)

    def by_targets(folder: Path, name: str, kind: str) -> Outcome:
        return fitted(search(name), *targets(kind))

    for kind in KINDS:
        names = [f"MMTFL{kind}", f"SingleTask{kind}", *(f"TwoStrength{n}{kind}" for n in TWO_STRENGTHS)]
        for name in names:
            for how in (
                (plain, weighted, by_targets) if "Two" in name else (plain, weighted, sparse, by_targets)
            ):
                title = how.__name__.replace("_", " ")
                yield f"search/{name}/{title}", Case(partial(how, name=name, kind=kind))
        for name in names[1:3]:
            yield f"search/{name}/two threads", Case(partial(plain, name=name, kind=kind, n_jobs=2))
        for title, chosen in search_options(kind).items():
            yield f"search/MMTFL{kind}/{title}", Case(partial(plain, name=names[0], kind=kind, **chosen))
        for p in (1, 2):
            for per_task in (False, True):
                call = partial(plain, name=names[1], kind=kind, p=p, per_task=per_task)
                yield f"search/{names[1]}/p={p}, per_task={per_task}", Case(call)


# -- rows elsewhere ------------------------------------------------------------------------------------------


def stored_tasks(folder: Path, data: Bunch, **options: Any) -> Any:
    """The rows in two parquet files of several row groups."""
    table = frame(data, y=data.y, w=weights(len(data.y)) + 0.5)
    (folder / "rows").mkdir(exist_ok=True)
    table[:90].to_parquet(folder / "rows" / "a.parquet", row_group_size=40)
    table[90:].to_parquet(folder / "rows" / "b.parquet", row_group_size=40)
    where: dict[str, Any] = {
        "task": "site",
        "target": "y",
        "features": list(data.names),
        "memory_limit": "1GB",
    }
    return mmtfl.Tasks.from_parquet(folder / "rows", **(where | options))


@contextlib.contextmanager
def dask_client(n_workers: int) -> Iterator[Any]:
    """Workers in this process."""
    import logging

    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


class Stopped(Exception):
    """Raised in place of a power failure."""


def stopping_engine(client: Any, path: Path) -> Any:
    """An engine that is lost as soon as there is a checkpoint."""

    class Stopping(mmtfl.DaskEngine):
        def map(self, *arguments: Any, **options: Any) -> list:
            if path.exists():
                raise Stopped
            return super().map(*arguments, **options)

    return Stopping(client)


def elsewhere() -> Cases:
    """Stored tasks, Dask, and fits that go on from a checkpoint."""

    def stored(folder: Path, kind: str, make: Callable[[], Any], **options: Any) -> Outcome:
        data = data_for(kind)
        return learned(make().fit(stored_tasks(folder, data, **options)), data.X, labels(data))

    def on_dask(folder: Path, kind: str, n_workers: int, is_stored: bool) -> Outcome:
        data = data_for(kind)
        with dask_client(n_workers) as client:
            model = member(kind, (2, 1), engine=mmtfl.DaskEngine(client))
            rows = (stored_tasks(folder, data),) if is_stored else (data.X, data.y, labels(data))
            return learned(model.fit(*rows), data.X, labels(data))

    def read_again(folder: Path, kind: str, make: Callable[..., Any]) -> Outcome:
        data = data_for(kind)
        for _ in range(2):  # the second fit finds the first one's answer
            out = fitted(make(checkpoint=folder / "fit.checkpoint"), data.X, data.y, data.task)
        return out

    def resumed(folder: Path, kind: str) -> Outcome:
        data, path = data_for(kind), folder / "fit.checkpoint"
        with dask_client(1) as client:
            # a member whose passes are many enough for a checkpoint on the way
            make = partial(member, kind, (2, "log"), solver="alternating", checkpoint=path)
            try:
                make(engine=stopping_engine(client, path)).fit(data.X, data.y, data.task)
                raise RuntimeError("The fit ended before it was stopped.")
            except Stopped:
                pass
            return fitted(make(engine=mmtfl.DaskEngine(client)), data.X, data.y, data.task)

    for kind in KINDS:
        for pk in ((2, 2), (2, 1), (1, 2), (1.5, 0.7)):
            for title, options in {"plain": {}, "weights": {"weight": "w"}}.items():
                call = partial(stored, kind=kind, make=partial(member, kind, pk), **options)
                yield f"stored/{kind}/{pk}/{title}", Case(call)
        scaled = partial(member, kind, (2, 1), standardize=True)
        yield f"stored/{kind}/standardize", Case(partial(stored, kind=kind, make=scaled))
        for n_workers in (1, 2):
            for is_stored in (False, True):
                call = partial(on_dask, kind=kind, n_workers=n_workers, is_stored=is_stored)
                yield f"dask/{kind}/{n_workers} workers{', stored' * is_stored}", Case(call)
        for solver in ("auto", "alternating"):
            make = partial(member, kind, (2, 1), solver=solver)
            yield f"checkpoint/{kind}/{solver}", Case(partial(read_again, kind=kind, make=make))
        make = partial(search, f"MMTFL{kind}")
        yield f"checkpoint/{kind}/search", Case(partial(read_again, kind=kind, make=make))
        yield f"checkpoint/{kind}/resumed", Case(partial(resumed, kind=kind))
    for title, chosen in {"default": {}, "scaled": {"standardize": True, "scale_targets": True}}.items():
        make = partial(search, "MMTFLRegressor", **chosen)
        yield f"stored/search/{title}", Case(partial(stored, kind="Regressor", make=make))


# -- scores --------------------------------------------------------------------------------------------------


def scores() -> Cases:
    """Splits and scores."""

    def split(folder: Path, **options: Any) -> Outcome:
        data = classes()
        folds = TaskKFold(4, **options).split(data.X, data.y, data.task)
        return {
            f"{part}.{i}": rows for i, fold in enumerate(folds) for part, rows in zip("ab", fold, strict=True)
        }

    def holdout(folder: Path, stratify: bool) -> Outcome:
        data = classes()
        options: dict[str, Any] = {"test_size": 0.3, "stratify": stratify, "random_state": 4}
        return flat("part", tasks_train_test_split(data.X, data.y, labels(data), **options))

    def scored(folder: Path, kind: str, metric: str) -> Outcome:
        data = data_for(kind)
        model = member(kind, (2, 1)).fit(data.X, data.y, data.task)
        rows = (data.X, data.y, data.task)
        y_pred = model.predict(data.X, data.task)
        pooled = {
            a: task_scorer(metric, average=a)(model, *rows[:2], task=rows[2]) for a in ("macro", "pooled")
        }
        parts = {str(t): score for t, score in per_task_scores(data.y, y_pred, data.task, metric).items()}
        return {"score": model.score(*rows), **flat("average", pooled), **flat("task", parts)}

    yield "scores/folds", Case(partial(split, random_state=3))
    yield "scores/folds, stratified", Case(partial(split, random_state=3, stratify=True))
    yield "scores/folds in order", Case(partial(split, shuffle=False))
    for stratify in (False, True):
        yield f"scores/holdout, stratify={stratify}", Case(partial(holdout, stratify=stratify))
    for kind, metrics in (
        ("Regressor", ("r2", "neg_mean_absolute_error")),
        ("Classifier", ("accuracy", "f1")),
    ):
        for metric in metrics:
            yield f"scores/{kind}/{metric}", Case(partial(scored, kind=kind, metric=metric))


# -- files and commands --------------------------------------------------------------------------------------


def every_estimator() -> dict[str, tuple[str, Any]]:
    """One model of each class, by name, with the kind of its data."""
    found: dict[str, tuple[str, Any]] = {}
    for kind in KINDS:
        found[f"MMTFL{kind}"] = kind, member(kind, (2, 1))
        for name in TWO_STRENGTHS:
            found[name + kind] = kind, two_strengths(name + kind)
            found[f"TwoStrengthCV {name}{kind}"] = kind, search(f"TwoStrength{name}{kind}", strengths=3)
        for name in ("MMTFL", "SingleTask"):
            found[f"{name}{kind}CV"] = kind, search(name + kind, alphas=5)
        found[f"SingleTask{kind}CV per task"] = kind, search(f"SingleTask{kind}", alphas=5, per_task=True)
    return found


def files(kept: Path) -> Cases:
    """Saved models; those of the day of the record stay in a folder and are loaded ever after."""

    def old(folder: Path, path: Path, kind: str, model: Any) -> Outcome:
        data = data_for(kind)
        if not path.exists():
            model.fit(frame(data).drop(columns="site"), data.y, labels(data)).save(path)
        return learned(mmtfl.load(path), frame(data).drop(columns="site"), labels(data))

    def new(folder: Path, kind: str, model: Any) -> Outcome:
        data = data_for(kind)
        model.fit(data.X, data.y, data.task).save(folder / "new.mmtfl")
        return learned(mmtfl.load(folder / "new.mmtfl"), data.X, data.task)

    for name, (kind, model) in every_estimator().items():
        path = kept / f"{name.replace(' ', '_')}.mmtfl"
        yield f"file/of the record/{name}", Case(partial(old, path=path, kind=kind, model=model))
        yield f"file/{name}", Case(partial(new, kind=kind, model=model))


def command(*words: Any) -> str:
    """What a command prints on stdout."""
    from mmtfl.cli.main import main

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as told:
        code = main([str(word) for word in words])
    if code:
        raise RuntimeError(f"exit code {code}: {told.getvalue()}")
    out.seek(0)
    return out.read()


def commands(kept: Path) -> Cases:
    """The command line: coefficients and predictions, rather than words."""

    def told(folder: Path, model: Path, table: Path) -> Outcome:
        import pandas as pd

        found = json.loads(command("inspect", model, "--json"))
        command("predict", model, table, "-o", folder / "out.csv", "--force", "-q")
        out = pd.read_csv(folder / "out.csv")
        new = [name for name in out if name.startswith(("prediction", "probability"))]
        sizes = [[feature[key] for key in ("size", "n_tasks")] for feature in found["features"]]
        chosen = {key: found[key] for key in ("member", "strengths", "counts")}
        coefficients = flat("coefficients", found["coefficients"])
        columns = {f"column.{name}": np.array(out[name]) for name in new}
        return {"sizes": np.array(sizes, dtype=float), **flat("found", chosen), **coefficients, **columns}

    def run(folder: Path, kind: str, words: list[str], model: Path | None = None) -> Outcome:
        data = data_for(kind)
        level = np.array(["low", "high"])[(data.X[:, 0] > 0).astype(int)]
        table = frame(data, y=data.y, level=level, w=weights(len(data.y)) + 0.5)
        path = folder / ("t.parquet" if "--memory-limit" in words else "t.csv")
        table = table.drop(columns="level") if "--memory-limit" in words else table
        table.to_parquet(path) if path.suffix == ".parquet" else table.to_csv(path, index=False)
        model = model or folder / "m.mmtfl"
        if not model.exists():
            command(*words[:1], path, "--task", "site", "--target", "y", *words[1:], "-o", model, "-q")
        return told(folder, model, path)

    calls = {
        "fit": "fit --tol 1e-12 --drop w",
        "fit, weights": "fit --weights w --p 1 --k 2 --alpha 0.02 --tol 1e-12",
        "fit, raw": "fit --no-standardize --k log --p 2 --alpha 0.003 --tol 1e-12 --drop w",
        "fit, stored": "fit --memory-limit 1GB --alpha 0.03 --tol 1e-12 --drop w",
        "cv": "cv --folds 3 --alphas 8 --tol 1e-12 --drop w",
        "cv, one member": "cv --folds 3 --alphas 8 --pk 2,1 --one-se --seed 3 --tol 1e-12 --weights w",
    }
    for kind in KINDS:
        for title, line in calls.items():
            yield f"command/{kind}/{title}", Case(partial(run, kind=kind, words=line.split()))
        keep = partial(run, kind=kind, words=calls["cv"].split(), model=kept / f"command_cv_{kind}.mmtfl")
        yield f"command/{kind}/model of the record", Case(keep)
