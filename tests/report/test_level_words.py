"""Words about levels are true at their rate, on simulated tables with known truth and on null tables."""

import numpy as np
import pytest

from mmtfl import MMTFLRegressor
from mmtfl.report.sentences import level_sentences

SITE = ("site", "sites")


def words(seed, effect, n_tasks=30):
    """What is said of tables of small tasks whose level is higher by `effect` where the last column is 1."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), rng.integers(6, 20, n_tasks))
    X = rng.normal(size=(len(task), 4)) + 0.3 * rng.normal(size=(n_tasks, 4))[task]
    X[:, 3] = rng.integers(0, 2, n_tasks)[task]
    level = rng.normal(size=n_tasks)[task] + effect * X[:, 3]
    y = X[:, 0] + level + 2.0 * rng.normal(size=len(task))
    model = MMTFLRegressor(2, 2, 0.05, pooling=0.9, levels="shrunk").fit(X, y, task=task)
    return " ".join(level_sentences(model, SITE))


@pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
def test_columns_that_move_no_level_are_seldom_said_to():
    said = [" follows " in words(seed, 0.0) for seed in range(60)]
    assert np.mean(said) <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / len(said))


@pytest.mark.filterwarnings("ignore::mmtfl.errors.SmallTaskWarning")
def test_a_column_that_moves_levels_is_found_and_others_are_not_named_with_it():
    said = [words(seed, 3.0) for seed in range(20)]
    assert np.mean(["x3 (" in one for one in said]) > 0.9
    others = np.mean([any(f"x{j} (" in one for j in range(3)) for one in said])
    assert others <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / len(said))
