"""How often the words of `mmtfl.stability` are wrong, on simulated problems whose truth is known.

    python benchmarks/how_sure.py [number] [--seed 10000] [--pairs 50] [--rules | --null | --oracle]
    python benchmarks/how_sure.py --coverage

Problems have 3 to 50 tasks of 20 to 200 rows, 20 to 60 features with correlations up to 0.9, and a signal of
half to five times the noise; features are used by all tasks, by some (in every second problem by all but
one), by one or by none, with effects of three laws. `--rules` compares the rule of the library with three
others on the same half samples; `--null` shuffles y within tasks; `--oracle` is a judge who knows which
features matter somewhere, and how problems are drawn. `--coverage` fits half of the rows of real
tables (MMTFL_DATA is their folder), and counts how many of the other rows are within their intervals or sets.
"""

import argparse
import warnings
from collections import Counter

import numpy as np
from scipy import stats
from scipy.special import expit, gammaln, logsumexp

from mmtfl import Tasks, stability
from mmtfl.datasets import make_d1
from mmtfl.estimators.stability import HalfSamples, fixed_model
from mmtfl.model_selection.evidence import entry_effects
from mmtfl.model_selection.half_samples import complementary_pairs
from mmtfl.objective.losses import Squared
from mmtfl_lab import datasets as lab_datasets
from mmtfl_lab.bench.how_sure import draw, judge, print_words, search, true_words

# -- other rules -------------------------------------------------------------------------------------------


def by_frequency(
    frequency: np.ndarray, selected: np.ndarray, high: float = 0.9, low: float = 0.1
) -> np.ndarray:
    """Entries that nearly all half samples keep are used, and those that nearly none keeps are not."""
    return _from_entries(frequency >= high, frequency <= low, selected)


def by_tests(
    z: np.ndarray, effect: np.ndarray, error: np.ndarray, selected: np.ndarray, level: float = 0.1
) -> np.ndarray:
    """Benjamini-Hochberg over entries of selected rows; absent: surely below a quarter of the median."""
    p = np.where(selected, 2.0 * stats.norm.sf(np.abs(z)), np.nan)
    used = _benjamini_hochberg(p, level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # rows without a used entry
        typical = np.nanmedian(np.where(used, np.abs(effect), np.nan), axis=0)
    absent = np.abs(effect) + stats.norm.isf(level / 2.0) * error < 0.25 * np.nan_to_num(typical)
    return _from_entries(used, absent, selected)


def _benjamini_hochberg(p: np.ndarray, level: float) -> np.ndarray:
    known = np.sort(p[np.isfinite(p)])
    below = np.flatnonzero(known <= level * np.arange(1, len(known) + 1) / max(len(known), 1))
    return np.nan_to_num(p, nan=1.0) <= (known[below[-1]] if below.size else -1.0)


def _from_entries(used: np.ndarray, absent: np.ndarray, selected: np.ndarray) -> np.ndarray:
    n, settled = used.sum(axis=0), (used | absent).all(axis=0)
    words = np.full(len(selected), "undecided", dtype="<U9")
    words[selected & (n == len(used))] = "all"
    words[selected & (n >= 2) & (n < len(used)) & absent.any(axis=0)] = "some"
    words[selected & (n == 1) & settled] = "one"
    words[~selected & absent.all(axis=0)] = "none"
    return words


def split_tests(model, X, y, task, n_pairs: int, seed: int):
    """z values of rows selected on one half and tested on the other, and the median over all half samples."""
    tasks = Tasks.from_rows(X, y, task)
    pairs = list(complementary_pairs(tasks, n_pairs, np.random.RandomState(seed), with_classes=False))
    fits = HalfSamples(fixed_model(model, X, y, task, None, None))
    usable, found = np.ones((tasks.n_tasks, tasks.n_features), dtype=bool), []
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            kept = fits.signs_of(tasks.select(one)).any(axis=0)
            tests = entry_effects(tasks.select(other), kept, usable, Squared())
            z = tests.effect / tests.normal_error
            found.append(np.where(kept, [z, tests.effect, tests.normal_error], np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # entries that were never tested
        z, effect, error = np.nanmedian(np.array(found), axis=0)
    # p = 2 * median (Meinshausen, Meier and Buehlmann 2009), as a z value of that p
    z = np.sign(z) * stats.norm.isf(np.minimum(2.0 * stats.norm.sf(np.abs(z)), 0.5))
    return np.nan_to_num(z), np.nan_to_num(effect), np.nan_to_num(error, nan=np.inf)


def compare(n_problems: int, seed: int, n_pairs: int) -> None:
    """Print the table of words of four rules, on the same rows."""
    said = {
        name: Counter()
        for name in ("evidence", "tests on all rows", "tests on other halves", "p = 1 frequency")
    }
    for i in range(seed, seed + n_problems):
        X, y, task, used = draw(i)
        model = search(X, y, task)
        options = {"n_pairs": n_pairs, "random_state": i}
        found = stability(model, X, y, task, **options)
        sparse = search(X, y, task, pk=((1, 1), (1, 2)))
        entries = stability(sparse, X, y, task, **options).entry_frequency_
        error = np.nan_to_num(found.effect_error_, nan=np.inf)
        effect = np.nan_to_num(found.effect_)
        words = {
            "evidence": found.supported_,
            "tests on all rows": by_tests(effect / error, effect, error, found.selected_),
            "tests on other halves": by_tests(*split_tests(model, X, y, task, n_pairs, i), found.selected_),
            "p = 1 frequency": by_frequency(entries, found.selected_),
        }
        for name, of_rule in words.items():
            said[name].update(zip(of_rule.tolist(), true_words(used).tolist(), strict=True))
    for name, counts in said.items():
        print(f"\n{name}")
        print_words(counts)


# -- what could be found at all ------------------------------------------------------------------------------


def oracle(n_problems: int, seed: int, level: float) -> None:
    """Print the words of a judge who knows which features matter somewhere, and how problems are drawn."""
    said: Counter = Counter()
    for i in range(seed, seed + n_problems):
        X, y, task, used = draw(i)
        somewhere = used.any(axis=0)
        tests = entry_effects(Tasks.from_rows(X, y, task), somewhere, np.ones_like(used), Squared())
        kinds = _known_laws(tests.effect[:, somewhere], tests.normal_error[:, somewhere])
        several = kinds[:, 1] + kinds[:, 2] >= 1.0 - level
        cases = [kinds[:, k] >= 1.0 - level for k in range(3)]
        words = np.select([*cases, several], ["one", "some", "all", "several"], "undecided")
        said.update(zip(words.tolist(), true_words(used)[somewhere].tolist(), strict=True))
    print_words(said)


def _known_laws(effect: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Probabilities of one, some and all, by Bayes with the laws and the frequencies of `draw`."""
    n = len(effect)
    of_count = np.zeros((3, n + 1))  # one; from two to all but one; all but one
    of_count[0, 1], of_count[1, 2:n], of_count[2, n - 1] = 1.0, 1.0 / (n - 2), 1.0
    total, kinds = [], []
    for ratio in _ratios(effect, error):
        log_sets = np.array([_mean_over_sets(ratio[:, j]) for j in range(effect.shape[1])])  # (d, n + 1, m)
        log_sets -= np.log(log_sets.shape[2])  # the mean effect of a feature is one of m
        for some in (1, 2):
            parts = of_count[0], of_count[some], np.arange(n + 1) == n
            joint = np.array([logsumexp(log_sets, axis=(1, 2), b=part[None, :, None]) for part in parts]).T
            joint += np.log([0.2, 0.4, 0.4])  # 1.5, 3 and 3 of them on average
            total.append(logsumexp(joint, axis=1).sum())
            kinds.append(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))
    weight = np.exp(np.array(total) - logsumexp(total))
    return np.einsum("l,ljk->jk", weight, np.array(kinds))


def _ratios(effect: np.ndarray, error: np.ndarray):
    """Log likelihood ratios of effects, (n_tasks, n_features, m), under each of the three laws."""
    none = stats.norm.logpdf(effect, 0.0, error)
    yield (stats.norm.logpdf(effect, 0.0, np.hypot(1.0, error)) - none)[..., None]
    ends = np.array([0.5, 1.5, -1.5, -0.5])[:, None, None]
    below = stats.norm.cdf((ends - effect) / error)
    inside = 0.5 * (below[1] - below[0] + below[3] - below[2])
    yield (np.log(np.maximum(inside, 1e-300)) - none)[..., None]
    means = np.concatenate([np.linspace(0.5, 1.5, 21), -np.linspace(0.5, 1.5, 21)])
    law = stats.norm.logpdf(effect[..., None], means, np.hypot(0.3, error)[..., None])
    yield law - none[..., None]


def _mean_over_sets(ratio: np.ndarray) -> np.ndarray:
    """Log of the mean, over all sets of c tasks, of the product of their ratios; (n + 1, m)."""
    n, c = len(ratio), np.arange(len(ratio) + 1)
    chance = np.zeros((n + 1, ratio.shape[1]))
    chance[0] = 1.0
    for p in expit(ratio):
        chance[1:] = chance[1:] * (1.0 - p) + chance[:-1] * p
        chance[0] *= 1.0 - p
    n_sets = gammaln(n + 1) - gammaln(c + 1) - gammaln(n - c + 1)
    with np.errstate(divide="ignore"):
        return np.log(chance) - n_sets[:, None] + np.logaddexp(0.0, ratio).sum(axis=0)


# -- intervals -----------------------------------------------------------------------------------------------


def coverage(nominal: float = 0.9) -> None:
    """Print the share of new rows within their intervals."""
    names = ("school", "computer_survey", "parkinsons", "sarcos")
    tables = {name: getattr(lab_datasets, f"load_{name}") for name in names}
    tables["D1, 60 rows per task"] = lambda: make_d1(n_samples=60, random_state=0)
    for name, load in tables.items():
        X, y, task = _stacked(load())
        train = _half(task)
        model = search(X[train], y[train], task[train])
        ends = model.predict_interval(X[~train], task=task[~train], coverage=nominal)
        inside = (ends[:, 0] <= y[~train]) & (y[~train] <= ends[:, 1])
        _print_covered(name, inside, task[~train], nominal, model)


def _print_covered(name: str, inside: np.ndarray, task: np.ndarray, nominal: float, model) -> None:
    _, place, n = np.unique(task, return_inverse=True, return_counts=True)
    share = np.bincount(place, inside) / n
    # both the rows of the interval and the new ones are a sample
    off = np.abs(share - nominal) / np.sqrt(nominal * (1.0 - nominal) * 2.0 / n)
    print(
        f"{name:22s}{len(n):4d} tasks of {n.min()} to {n.max()} new rows: covered {inside.mean():.3f}, "
        f"mean of the tasks {share.mean():.3f}, within two standard errors {np.mean(off <= 2.0):.0%}, "
        f"borrowing {len(model.borrowing_tasks_)}"
    )


def _stacked(data, most: int = 2000):
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y, dtype=float)
    if y.ndim == 1:
        return X, y, np.asarray(data.task)
    rows = np.random.default_rng(0).permutation(len(y))[:most]
    n_tasks = y.shape[1]
    return np.repeat(X[rows], n_tasks, axis=0), y[rows].ravel(), np.tile(np.arange(n_tasks), len(rows))


def _half(task: np.ndarray) -> np.ndarray:
    rng, train = np.random.default_rng(1), np.zeros(len(task), dtype=bool)
    for label in np.unique(task):
        rows = np.flatnonzero(task == label)
        train[rng.permutation(rows)[: max(len(rows) // 2, 3)]] = True
    return train


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("n_problems", type=int, nargs="?", default=40)
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--rules", action="store_true")
    parser.add_argument("--null", action="store_true")
    parser.add_argument("--oracle", action="store_true")
    parser.add_argument("--coverage", action="store_true")
    given = parser.parse_args()
    if given.coverage:
        coverage()
    elif given.oracle:
        oracle(given.n_problems, given.seed, level=0.2)
    elif given.rules:
        compare(given.n_problems, given.seed, given.pairs)
    else:
        judge(given.n_problems, given.seed, given.pairs, null=given.null)


if __name__ == "__main__":
    main()
