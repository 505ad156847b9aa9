"""The main job in a minute: tune, fit, say which features are shared, compare, and draw the coefficients.

D1 and D2 of the paper, where the truth is known, and the diabetes study that comes with scikit-learn: four
groups of patients by sex and age are the tasks, nine measurements, their squares and products the features.
"""

from __future__ import annotations

import sys
import time
from itertools import combinations_with_replacement
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator
from sklearn.datasets import load_diabetes

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_d1, make_d2
from mmtfl.model_selection import per_task_scores, tasks_train_test_split

PICTURE = Path("demo-output") / "coefficients.png"
PER_TASK = ((2, float("inf")), (1, float("inf")))  # ridge or lasso, whichever cross-validation likes
WORDS = {
    "shared": "used by all tasks",
    "partial": "used by some tasks",
    "single": "used by one task",
    "none": "not used",
}
OPTIONS = {"alphas": 30, "cv": 3, "n_jobs": 2}


def diabetes_by_group():
    """Rows of the diabetes study with squares and products of the measurements, and each patient's group."""
    data = load_diabetes(scaled=False, as_frame=True)
    raw = data.data
    group = np.where(raw["sex"] == 1, "F", "M") + np.where(raw["age"] < 49, " under 49", " 49 and over")
    z = raw.drop(columns="sex")
    z = (z - z.mean()) / z.std()
    products = {f"{a} x {b}": z[a] * z[b] for a, b in combinations_with_replacement(z.columns, 2)}
    X = pd.concat([z, pd.DataFrame(products)], axis=1)
    return (X - X.mean()) / X.std(), data.target.to_numpy(), np.asarray(group, dtype=str)


def fit_three(X, y, task, train_size: float, seed: int):
    """The family, one model per task, and one pooled model: the first one, and the test scores of all."""
    parts = tasks_train_test_split(X, y, task, train_size=train_size, random_state=seed)
    X_train, X_test, y_train, y_test, task_train, task_test = parts
    family = MMTFLRegressorCV(**OPTIONS).fit(X_train, y_train, task=task_train)
    separate = MMTFLRegressorCV(pk=PER_TASK, **OPTIONS).fit(X_train, y_train, task=task_train)
    # one vector of coefficients and an intercept per task: rows about the means of their task
    centre = [_group_means(part, task_train) for part in (X_train, y_train)]
    pooled = MMTFLRegressorCV(pk=PER_TASK, **OPTIONS).fit(*_about(centre, X_train, y_train, task_train))
    predicted = (
        pooled.predict(_about(centre, X_test, y_test, task_test)[0]) + centre[1].loc[task_test].to_numpy()
    )
    scores = family.score(X_test, y_test, task_test), separate.score(X_test, y_test, task_test)
    return family, np.array([*scores, np.mean(list(per_task_scores(y_test, predicted, task_test).values()))])


def _group_means(values, task):
    return pd.DataFrame(np.asarray(values)).groupby(np.asarray(task)).mean().squeeze(axis=1)


def _about(centre, X, y, task):
    return np.asarray(X) - centre[0].loc[task].to_numpy(), np.asarray(y) - centre[1].loc[task].to_numpy()


def compare(name: str, X, y, task, *, train_size: float, repeats: int):
    """Print test scores and what is shared; the model of the first split is returned."""
    start = time.perf_counter()
    sizes = f"{len(np.unique(task))} tasks, {X.shape[1]} features, {len(y)} rows, {train_size:.0%} to train"
    print(f"\n{name}: {sizes}")
    runs = []
    for seed in range(repeats):
        say(f"  split {seed + 1} of {repeats}: tuning the family, one model per task and one pooled model")
        runs.append(fit_three(X, y, task, train_size, seed))
    say("")
    family, scores = runs[0][0], np.array([run[1] for run in runs])
    splits = "one random split" if repeats == 1 else f"mean and sd of {repeats} random splits"
    print(f"  test R^2 (mean over tasks; {splits})")
    chosen = sorted({f"({run[0].best_p_:g},{run[0].best_k_:g})" for run in runs})
    member = f"MMTFL, cross-validation chose {' and '.join(chosen)}"
    for model, column in zip(
        (member, "one model per task", "one pooled model, own intercepts"), scores.T, strict=True
    ):
        spread = f"  +- {column.std():.3f}" if repeats > 1 else ""
        print(f"    {model:44}{column.mean():6.3f}{spread}")
    summary = family.summary()
    for kind, words in WORDS.items():
        names = list(summary["feature"][summary["kind"] == kind])
        shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
        print(f"  {words:20}{len(names):4} features   {shown}".rstrip())
    print(f"  {time.perf_counter() - start:.1f} s")
    return family


def say(line: str) -> None:
    """Progress on stderr: one line that is written over on a terminal."""
    on_terminal = sys.stderr.isatty()
    if line or on_terminal:
        print(
            f"\r{line:90}" if on_terminal else line,
            end="\r" if on_terminal else "\n",
            file=sys.stderr,
            flush=True,
        )


def draw_matrix(ax, title: str, coef: np.ndarray) -> None:
    """Coefficients, tasks by features: blue is negative, red positive, white zero."""
    limit = np.quantile(np.abs(coef[coef != 0.0]), 0.98)
    image = ax.imshow(coef, cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="none")
    ax.set_title(title, loc="left", fontsize=10)
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    ax.figure.colorbar(image, ax=ax, pad=0.015, aspect=12)


def draw(truths, models, diabetes, path: Path) -> None:
    """Truth beside what was learned, and the patients' groups below."""
    figure = plt.figure(figsize=(11, 8), layout="constrained")
    axes = figure.subplot_mosaic([["D1", "D1 learned"], ["D2", "D2 learned"], ["diabetes", "diabetes"]])
    for name, truth in truths.items():
        model = models[name]
        draw_matrix(axes[name], f"{name}: truth", truth)
        learned = f"{name}: learned by MMTFL({model.best_p_:g},{model.best_k_:g})"
        draw_matrix(axes[f"{name} learned"], learned, model.coef_)
        axes[name].set_ylabel("task")
        for ax in (axes[name], axes[f"{name} learned"]):
            ax.set_xlabel("feature")
    kept = np.flatnonzero(diabetes.c_)
    ax = axes["diabetes"]
    title = f"Diabetes: the {len(kept)} of {len(diabetes.c_)} features that any group uses"
    draw_matrix(ax, title, diabetes.coef_[:, kept])
    ax.set_xticks(range(len(kept)), diabetes.feature_names_in_[kept], rotation=45, ha="right", fontsize=8)
    ax.set_yticks(range(len(diabetes.tasks_)), diabetes.tasks_)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run the three problems and draw them."""
    print("Three multitask problems.", flush=True)
    d1, d2 = make_d1(random_state=0), make_d2(random_state=0)
    models = {
        "D1": compare("D1", d1.X, d1.y, d1.task, train_size=0.5, repeats=1),
        "D2": compare("D2", d2.X, d2.y, d2.task, train_size=0.5, repeats=1),
    }
    X, y, group = diabetes_by_group()
    diabetes = compare("Diabetes by sex and age", X, y, group, train_size=0.5, repeats=5)
    draw({"D1": d1.coef, "D2": d2.coef}, models, diabetes, PICTURE)
    print(f"\nCoefficient matrices drawn in {PICTURE}")


if __name__ == "__main__":
    main()
