"""How often intervals of effects miss, and words are wrong: simulated tables whose truth is known.

    python benchmarks/how_sure.py [--tables 40] [--only numbers] [--first-seed 11] [--folds 3]

Every table has features of five kinds: without effect; the same in all tasks; varying about an average;
varying about zero; and present in one task of eight. Of tables with few features there are more than
--tables, of those with many fewer. No choice was made with seeds from 1,000,000 on.

    python benchmarks/how_sure.py --levels [--tables 40]

has words about levels instead: what is said of columns that move no level, and of levels that do not scatter.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mmtfl import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.inference.effect_table import level_findings, level_sentence
from mmtfl.wording import markdown_table

SIZE = 0.4  # of an effect, per standard deviation
KINDS = ("none", "same", "varying", "about zero", "single")


@dataclass(frozen=True)
class Scenario:
    """A kind of table."""

    name: str
    kind: str = "numbers"
    n_tasks: int = 12
    n_rows: int = 60
    d: int = 10
    correlation: float = 0.3
    tails: bool = False  # t_3 noise
    unequal: bool = False  # noise of tasks from 0.5 to 2
    repeated: int = 1  # rows of a group that say nearly the same
    null: bool = False
    collinear: bool = False


SCENARIOS = [
    *(Scenario(f"T = {T}, n = {n}, d = {d}", n_tasks=T, n_rows=n, d=d) for T, n, d in (
        (3, 60, 10), (8, 60, 10), (20, 40, 10), (60, 20, 10), (200, 10, 6), (150, 5, 4), (12, 500, 10),
        (12, 60, 60), (10, 60, 200),
    )),
    Scenario("correlations of .8", correlation=0.8),
    Scenario("t_3 noise", tails=True),
    Scenario("unequal noise", unequal=True),
    Scenario("repeated rows, with groups", repeated=4, n_rows=120),
    Scenario("null tables", null=True),
    Scenario("collinear columns", collinear=True),
    *(Scenario(f"classes, T = {T}, n = {n}, d = {d}", "classes", n_tasks=T, n_rows=n, d=d) for T, n, d in (
        (12, 200, 10), (60, 32, 6), (10, 100, 40), (100, 12, 4),
    )),
    Scenario("classes, null tables", "classes", n_rows=100, null=True),
    *(Scenario(f"counts, T = {T}, n = {n}, d = {d}", "counts", n_tasks=T, n_rows=n, d=d) for T, n, d in (
        (12, 100, 10), (60, 20, 6),
    )),
    Scenario("counts, null tables", "counts", null=True),
]  # fmt: skip


@dataclass
class Table:
    """Rows with their truth."""

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    groups: np.ndarray | None
    effect: np.ndarray  # (n_tasks, n_features)
    mu: np.ndarray
    tau: np.ndarray
    kind: np.ndarray
    apart: set[str] = field(default_factory=set)


def draw(scenario: Scenario, seed: int) -> Table:
    """One table."""
    rng = np.random.default_rng(seed)
    T, n, d = scenario.n_tasks, scenario.n_rows, scenario.d
    distance = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    root = np.linalg.cholesky(scenario.correlation**distance)
    X = rng.normal(size=(T, n, d)) @ root.T + 0.5 * rng.normal(size=(T, 1, d))
    share = [0.5, 0.2, 0.15, 0.1, 0.05] if d > 20 else [0.3, 0.25, 0.2, 0.15, 0.1]
    kind = rng.choice(len(KINDS), size=d, p=share) * (not scenario.null)
    sign = rng.choice([-1.0, 1.0], size=d)
    mu = SIZE * sign * np.isin(kind, (1, 2))
    tau = SIZE * np.select([kind == 2, kind == 3], [0.6, 1.0], 0.0)
    effect = mu + tau * rng.normal(size=(T, d))
    effect += np.where(kind == 4, 2.0 * SIZE * sign, 0.0) * (rng.permutation(T) < max(1, T // 8))[:, None]
    z = np.einsum("tnd,td->tn", X, effect) + 0.7 * rng.normal(size=(T, 1))
    y, groups, X = _targets(scenario, rng, z, X)
    apart: set[str] = set()
    if scenario.collinear:
        X = np.concatenate([X, X[..., [0]] - X[..., [1]]], axis=-1)
        effect, apart = np.column_stack([effect, np.zeros(T)]), {"x0", "x1", f"x{d}"}
        mu, tau, kind = np.append(mu, 0.0), np.append(tau, 0.0), np.append(kind, 0)
    task = np.repeat(np.arange(T), y.shape[1])
    return Table(X.reshape(len(task), -1), y.ravel(), task, groups, effect, mu, tau, kind, apart)


def _targets(scenario: Scenario, rng: Any, z: np.ndarray, X: np.ndarray) -> tuple[Any, Any, Any]:
    if scenario.kind == "classes":
        return (rng.uniform(size=z.shape) < 1.0 / (1.0 + np.exp(-z))).astype(int), None, X
    if scenario.kind == "counts":
        return rng.poisson(np.exp(np.clip(0.5 + 0.7 * (z - z.mean()), -5.0, 4.0))), None, X
    noise = rng.standard_t(3, size=z.shape) if scenario.tails else rng.normal(size=z.shape)
    if scenario.unequal:
        noise *= np.geomspace(0.5, 2.0, len(z))[rng.permutation(len(z))][:, None]
    if scenario.repeated == 1:
        return z + noise, None, X
    k, of = scenario.repeated, np.arange(z.shape[1]) // scenario.repeated
    groups = (of + (of.max() + 1) * np.arange(len(z))[:, None]).ravel()
    own = z[:, ::k] + noise[:, ::k]
    return own[:, of] + 0.1 * rng.normal(size=z.shape), groups, X[:, ::k][:, of]


def fitted(scenario: Scenario, table: Table, folds: int | None = None) -> Any:
    """The default search on a table."""
    if scenario.kind == "classes":
        search: Any = MMTFLClassifierCV(cv=folds)
    else:
        search = MMTFLRegressorCV(loss="poisson" if scenario.kind == "counts" else "squared", cv=folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return search.fit(table.X, table.y, task=table.task, groups=table.groups)


def judge(scenario: Scenario, table: Table, model: Any, seed: int) -> Counter[str]:
    """What is covered, found and wrong in one table."""
    frame = model.effects().set_index("feature")
    names = [f"x{j}" for j in range(table.X.shape[1])]
    unit = 0.7 if scenario.kind == "counts" else 1.0
    mu, tau, effect = unit * table.mu, unit * table.tau, unit * table.effect
    new = mu + tau * np.random.default_rng(seed + 10**6).normal(size=len(mu))
    count: Counter[str] = Counter()
    for j, name in enumerate(names):
        row = frame.loc[name]
        if name in table.apart:
            count.update({"apart": 1, "apart found": int(row["word"] == "cannot be told apart")})
            continue
        if table.kind[j] != 4:
            for what, ends, truth in (
                ("average", ("lower", "upper"), mu[j]),
                ("spread", ("spread_lower", "spread_upper"), tau[j]),
                ("new task", ("new_task_lower", "new_task_upper"), new[j]),
            ):
                low, high = row[list(ends)]
                tag = f"{what} of {'none' if table.kind[j] == 0 else 'some'}"
                for key in (what, tag):
                    count.update({key: 1, f"{key} covered": int(low - 1e-12 <= truth <= high + 1e-12)})
        sites = model.task_effects(name)
        for what, ends in (("single", ("lower", "upper")), ("shrunk", ("shrunk_lower", "shrunk_upper"))):
            low, high = (sites[end].to_numpy() for end in ends)
            told = np.isfinite(low)
            held = (low <= effect[model.tasks_, j]) & (effect[model.tasks_, j] <= high)
            count.update({what: int(told.sum()), f"{what} covered": int(held[told].sum())})
        _count_words(count, row, table, j, abs(mu[j]))
    return count


def _count_words(count: Counter[str], row: Any, table: Table, j: int, size: float) -> None:
    from scipy.stats import norm

    word, kind = row["word"], table.kind[j]
    same = 1.0 if table.tau[j] == 0.0 else norm.cdf(abs(table.mu[j]) / table.tau[j])
    bound = max(abs(row["lower"]), abs(row["upper"]))  # "not found" says that a larger average is ruled out
    wrong = {
        "everywhere": table.mu[j] == 0.0 or same < 0.75,
        "differs": kind in (0, 1),
        "on average": kind in (0, 3),
        "only in some": not table.effect[:, j].any(),
        "not found": kind != 4 and size > bound,
        "cannot be told apart": True,
    }.get(word, False)
    count.update({f"said {word}": 1, f"wrong {word}": int(wrong)})
    if kind != 4:
        found = bool(row["q"] <= 0.1)
        count.update({"discoveries": int(found), "false": int(found and table.mu[j] == 0.0)})
    if kind in (1, 2):
        count.update({"there": 1, "found": int(row["q"] <= 0.1)})


def shown(scenario: Scenario, count: Counter[str]) -> list[str]:
    """A line of the table."""

    def share(what: str) -> str:
        return f"{count[f'{what} covered'] / count[what]:.3f}" if count[what] else "-"

    said, wrong = (sum(n for key, n in count.items() if key.startswith(what)) for what in ("said ", "wrong "))
    false = f"{count['false'] / max(count['discoveries'], 1):.3f} of {count['discoveries']}"
    found = f"{count['found']} of {count['there']}"
    covered = [share(what) for what in ("average", "single", "shrunk", "spread", "new task")]
    return [scenario.name, *covered, false, found, f"{wrong} of {said}"]


def levels(tables: int, first_seed: int) -> list[list[str]]:
    """Shares of searches that say something false of levels: one of five columns of tasks may move them."""
    lines = []
    for classes in (False, True):
        for k, (moved, scatter) in enumerate(((0.0, 0.0), (0.0, 0.5), (0.8, 0.0))):
            count: Counter[str] = Counter()
            for i in range(tables):
                rng = np.random.default_rng(10**6 * first_seed + 1000 * (k + 3 * classes) + i)
                T, n = ((12, 60), (30, 20), (80, 10))[i % 3]
                task, own = np.repeat(np.arange(T), n), rng.normal(size=(T, 5))
                X = np.hstack([rng.normal(size=(T * n, 4)), own[task]])
                z = X[:, 0] + 0.5 * X[:, 1] + (moved * own[:, 0] + scatter * rng.normal(size=T))[task]
                kind = "classes" if classes else "numbers"
                y, *_ = _targets(Scenario(kind, kind), rng, z[:, None], X)
                model = fitted(Scenario(kind, kind), Table(X, y.ravel(), task, None, z, z, z, z))
                named, said = level_findings(model), level_sentence(model)
                false = set(named) - ({4} if moved else set())
                count.update(false=bool(false), scatter="scatter" in said, moved=4 in named)
            shares = [f"{count[what] / tables:.2f}" for what in ("false", "moved", "scatter")]
            lines.append([kind, f"{moved:g}", f"{scatter:g}", *shares])
            print(*lines[-1], sep=" | ", flush=True)
    return lines


def main() -> None:
    """Print a line for each scenario, and the words of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--only", default="")
    parser.add_argument("--first-seed", type=int, default=11, help="in millions")
    parser.add_argument("--folds", type=int, help="of the search: fewer take half the time")
    parser.add_argument("--levels", action="store_true")
    options = parser.parse_args()
    if options.levels:
        head = [
            "target",
            "a column moves levels by",
            "scatter",
            "others named",
            "it is named",
            "scatter told",
        ]
        print(markdown_table(head, levels(options.tables, options.first_seed)))
        return
    lines, total = [], Counter()
    for k, scenario in enumerate(SCENARIOS):
        if options.only not in scenario.name and options.only != scenario.kind:
            continue
        count: Counter[str] = Counter()
        for i in range(max(10 * options.tables // scenario.d, options.tables // 4, 1)):
            seed = 10**6 * options.first_seed + 1000 * k + i
            table = draw(replace(scenario), seed)
            count += judge(scenario, table, fitted(scenario, table, options.folds), seed)
        lines.append(shown(scenario, count))
        print(
            *lines[-1],
            {k: v for k, v in count.items() if " of " in k or k.startswith("apart")},
            sep=" | ",
            flush=True,
        )
        total += count
    head = [
        "table",
        "average",
        "single",
        "shrunk",
        "spread",
        "new task",
        "false averages",
        "found",
        "words wrong",
    ]
    print(markdown_table(head, lines))
    words = [key.removeprefix("said ") for key in total if key.startswith("said ")]
    print(
        markdown_table(
            ["word", "said", "wrong"], [[w, str(total[f"said {w}"]), str(total[f"wrong {w}"])] for w in words]
        )
    )


if __name__ == "__main__":
    main()
