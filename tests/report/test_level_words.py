"""Words about levels are true at their rate, on simulated tables with known truth and on null tables."""

import numpy as np
import pandas as pd
import pytest

from mmtfl import MMTFLClassifierCV, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.inference.effect_table import level_findings, level_sentence
from mmtfl.report.summary import describe

pytestmark = pytest.mark.filterwarnings(
    "ignore::mmtfl.errors.SmallTaskWarning", "ignore:.*one value.*:UserWarning"
)
QUICK = {"pk": (2, 2), "effects": False, "curves": False, "alphas": 12, "cv": 3}


def at_most(n):
    """A rate of 10 % among n, and two standard errors."""
    return 0.1 + 2 * np.sqrt(0.1 * 0.9 / n)


def fitted(seed, *, follows=0.0, scatter=1.0, classes=False, n_tasks=30):
    """A model of tables of small tasks, whose level is higher by `follows` where the last column is 1."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(6, 20, n_tasks) * (2 if classes else 1)
    site = np.repeat(np.arange(n_tasks), sizes)
    X = rng.normal(size=(len(site), 4)) + 0.3 * rng.normal(size=(n_tasks, 4))[site]
    private = rng.permutation(np.arange(n_tasks) < n_tasks // 3)[site]  # public is the most frequent
    z = X[:, 0] + scatter * rng.normal(size=n_tasks)[site] + follows * private
    table = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(
        sector=np.where(private, "private", "public"), site=site
    )
    options = {"categorical_features": "from_dtype", "task_column": "site", **QUICK}
    if classes:
        y = np.where(rng.uniform(size=len(z)) < 1.0 / (1.0 + np.exp(-z)), "yes", "no")
        return MMTFLClassifierCV(**options).fit(table, y)
    return MMTFLRegressorCV(**options).fit(table, z + 2.0 * rng.normal(size=len(z)))


@pytest.mark.parametrize(("classes", "n"), [(False, 40), (True, 8)])
def test_levels_that_follow_nothing_and_do_not_scatter_are_seldom_said_to(classes, n):
    models = [fitted(seed, scatter=0.0, classes=classes) for seed in range(n)]
    assert np.mean([bool(level_findings(model)) for model in models]) <= at_most(n)
    assert np.mean(["scatter" in level_sentence(model) for model in models]) <= at_most(n)
    assert any("Sites are not found to differ in their level" in level_sentence(model) for model in models)


@pytest.mark.parametrize(("classes", "n"), [(False, 10), (True, 4)])
def test_a_column_that_moves_levels_is_found_and_so_is_what_remains(classes, n):
    models = [fitted(seed, follows=3.0, classes=classes) for seed in range(n)]
    effect = [level_findings(model)[3] for model in models]
    # log odds are the smaller, the more of the scatter of rows is left unexplained by slopes that are shrunk
    assert np.mean(effect) == pytest.approx(3.0, abs=1.0 if classes else 0.3)
    assert np.mean([model.level_spread_ for model in models]) == pytest.approx(1.0, abs=0.25)
    assert np.mean(["what remains scatters by " in level_sentence(model) for model in models]) > 0.9


def test_the_sentence_names_the_column_its_effect_and_what_remains():
    model = fitted(0, follows=3.0)
    effect = level_findings(model)[3]
    rest = f"what remains scatters by {model.level_spread_:.2g}"
    said = f"Sites are higher where sector is private (+{effect:.2g}); {rest}."
    assert level_sentence(model) == said == describe(model).levels
    shown = model.summary().set_index("feature")["level_effect"]
    assert shown["sector=private"] == pytest.approx(effect) and shown.drop("sector=private").isna().all()
    assert said in model._html_repr()
    odds = level_sentence(fitted(0, follows=3.0, classes=True))
    assert "where sector is private (odds x " in odds and " by a factor of " in odds


def test_of_two_columns_that_say_the_same_one_is_named_and_it_is_no_less_sure():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(40), 10)
    beds = rng.normal(size=40)[task]
    ses = rng.normal(size=400)
    y = ses + beds + 0.5 * rng.normal(size=40)[task] + rng.normal(size=400)
    X = pd.DataFrame({"ses": ses, "beds": beds, "rooms": 2.0 * beds})
    once, twice = (
        MMTFLRegressor(2, 2, 0.01, levels="shrunk").fit(X[list(names)], y, task=task)
        for names in (["ses", "beds"], ["ses", "beds", "rooms"])
    )
    (named,) = level_findings(twice)
    unit = {1: 1.0, 2: 2.0}[named]
    assert unit * level_findings(twice)[named] == pytest.approx(level_findings(once)[1], rel=0.05)
    p = [model.levels_["p"][model.levels_["features"] == 1][0] for model in (once, twice)]
    assert np.log(p[1]) == pytest.approx(np.log(p[0]), rel=0.2)
