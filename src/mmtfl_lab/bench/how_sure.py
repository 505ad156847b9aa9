"""How often the words of `mmtfl.stability` are wrong, on simulated problems whose truth is known.

Problems have 3 to 50 tasks of 20 to 200 rows, 20 to 60 features with correlations up to 0.9, and a signal of
half to five times the noise; features are used by all tasks, by some (in every second problem by all but
one), by one or by none, with effects of three laws.
"""

import time
import warnings
from collections import Counter
from typing import Any

import numpy as np

from mmtfl import MMTFLRegressorCV, stability

TRUTHS = ("all", "some", "one", "none")
MEANT = {word: (word,) for word in TRUTHS} | {
    "several": ("all", "some")
}  # what is true where the word is right
WORDS = ("all", "some", "several", "one", "none", "undecided")
FEW_MEMBERS: dict[str, Any] = {"alphas": 15, "cv": 3, "standardize": True}


def draw(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets, task labels, and which task uses which feature."""
    rng = np.random.default_rng(seed)
    n_tasks, size = (round(np.exp(rng.uniform(*np.log(limits)))) for limits in ((3, 50), (20, 200)))
    sizes = rng.integers(max(20, int(0.7 * size)), min(200, int(1.3 * size)) + 1, size=n_tasks)
    n_features, correlation = int(rng.integers(20, 61)), rng.uniform(0.0, 0.9)
    used = _support(rng, n_tasks, n_features, almost_all=seed % 2 == 1)
    coef = np.where(used, _effects(rng, used.shape), 0.0)
    task = np.repeat(np.arange(n_tasks), sizes)
    X = rng.standard_normal((len(task), n_features))
    for j in range(1, n_features):
        X[:, j] = correlation * X[:, j - 1] + np.sqrt(1.0 - correlation**2) * X[:, j]
    signal = np.einsum("ij,ij->i", X, coef[task])
    power = np.bincount(task, signal**2) / sizes
    noise = np.sqrt(np.where(power > 0.0, power / np.exp(rng.uniform(*np.log((0.5, 5.0)))), 1.0))
    return X, signal + noise[task] * rng.standard_normal(len(task)), task, used


def _support(rng: Any, n_tasks: int, n_features: int, *, almost_all: bool) -> np.ndarray:
    used, order = np.zeros((n_tasks, n_features), dtype=bool), iter(rng.permutation(n_features))
    for _ in range(rng.integers(1, 6)):
        used[:, next(order)] = True
    for _ in range(rng.integers(1, 6)):
        n_users = n_tasks - 1 if almost_all else int(rng.integers(2, n_tasks))
        used[rng.permutation(n_tasks)[:n_users], next(order)] = True
    for _ in range(rng.integers(0, 4)):
        used[rng.integers(n_tasks), next(order)] = True
    return used


def _effects(rng: Any, shape: tuple[int, int]) -> np.ndarray:
    law, signs = int(rng.integers(3)), rng.choice([-1.0, 1.0], shape)
    if law == 0:
        return rng.standard_normal(shape)
    if law == 1:
        return signs * rng.uniform(0.5, 1.5, shape)
    return signs[:1] * rng.uniform(0.5, 1.5, shape[1]) + 0.3 * rng.standard_normal(shape)


def true_words(used: np.ndarray) -> np.ndarray:
    """What is true of each feature, in the words of the table."""
    n = used.sum(axis=0)
    return np.select([n == 0, n == len(used), n == 1], ["none", "all", "one"], "some")


def search(X: Any, y: Any, task: Any, **options: Any) -> MMTFLRegressorCV:
    """The search of the study: few strengths, three folds."""
    with warnings.catch_warnings(action="ignore"):
        return MMTFLRegressorCV(**FEW_MEMBERS, **options).fit(X, y, task=task)


def judge(n_problems: int, seed: int, n_pairs: int, *, null: bool) -> None:
    """Print how often each word was wrong, and the false rows against their bound."""
    said: Counter = Counter()
    listed: Counter = Counter()
    rows: list[Any] = []
    seconds = np.zeros(2)
    for i in range(seed, seed + n_problems):
        X, y, task, used = draw(i)
        if null:
            y, used = shuffled(y, task, i), np.zeros_like(used)
        began = time.process_time()
        model = search(X, y, task)
        middle = time.process_time()
        found = stability(model, X, y, task, n_pairs=n_pairs, random_state=i)
        seconds += middle - began, time.process_time() - middle
        said.update(zip(found.supported_.tolist(), true_words(used).tolist(), strict=True))
        for j in np.flatnonzero(np.isin(found.supported_, ("some", "several"))):
            named = np.isin(found.tasks_, found.supporting_tasks(int(j)))
            listed.update(true=int((named & used[:, j]).sum()), false=int((named & ~used[:, j]).sum()))
        false = int((found.selected_ & ~used.any(axis=0)).sum())
        rows.append(
            (false, found.bound_, found.promises_, int(found.selected_.sum()), int(used.any(axis=0).sum()))
        )
    print_words(said)
    print_rows(np.array(rows, dtype=float))
    print(
        f"tasks named where the word is 'some' or 'several': {listed['true']} true, {listed['false']} false"
    )
    print(f"CPU seconds: {seconds[0]:.0f} for the searches, {seconds[1]:.0f} for {n_pairs} pairs")


def shuffled(y: np.ndarray, task: np.ndarray, seed: int) -> np.ndarray:
    """Targets in random order within each task: nothing is left to be found."""
    rng, y = np.random.default_rng([seed, 1]), y.copy()
    for t in np.unique(task):
        y[task == t] = rng.permutation(y[task == t])
    return y


def print_words(said: Counter) -> None:
    """Print how often each word was said, of what, and how often it was wrong."""
    print(
        f"{'supported in':14s}{'said':>6s}"
        + "".join(f"{'true: ' + word:>12s}" for word in TRUTHS)
        + "   wrong   power"
    )
    for word in WORDS:
        counts = [said[word, truth] for truth in TRUTHS]
        line = "".join(f"{count:12d}" for count in counts)
        print(f"{word:14s}{sum(counts):6d}{line}" + _right_and_found(said, (word,), MEANT.get(word, ())))
    several = ("all", "some", "several")
    n_said = sum(said[word, truth] for word in several for truth in TRUTHS)
    print(f"{'any of these 3':14s}{n_said:6d}{'':48s}" + _right_and_found(said, several, MEANT["several"]))


def _right_and_found(said: Counter, words: tuple[str, ...], meant: tuple[str, ...]) -> str:
    """Share of what was said that is wrong, and share of what is true that was found."""
    if not meant:
        return ""
    right = sum(said[word, truth] for word in words for truth in meant)
    total = sum(said[word, truth] for word in words for truth in TRUTHS)
    true = sum(said[word, truth] for word in WORDS for truth in meant)
    return f"{1.0 - right / total if total else 0.0:8.3f}{right / true if true else np.nan:8.2f}"


def print_rows(rows: np.ndarray) -> None:
    """Print the selected rows, and the false ones against their bound."""
    false, bound, promised, selected, used = rows.T
    kept = false[promised > 0]
    print(
        f"selected rows: {selected.sum():.0f}, of which false {false.sum():.0f}; truly used {used.sum():.0f}"
    )
    print(
        f"false rows per problem, where there is a bound of 1 ({len(kept)} of {len(rows)}): "
        f"mean {kept.mean():.3f}, most {kept.max(initial=0):.0f}; mean bound {bound[promised > 0].mean():.2f}"
    )
