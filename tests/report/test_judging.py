"""The verdict between models on cases with a known answer, and the sentences it is told in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import wilcoxon
from sklearn.metrics import log_loss, mean_poisson_deviance, r2_score, roc_auc_score

from mmtfl.report.evaluation import Evaluation
from mmtfl.report.judging import HeldOut, row_losses
from mmtfl.report.sentences import figures, verdict

CITY = ("city", "cities")


def heldout(ratios, *, n_tasks=12, n_rows=20, kind="numbers", seed=0):
    """Rows of tasks in which a rival's mean squared error is so many times that of the model."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    y, error = rng.normal(size=len(task)), 0.5 * rng.normal(size=len(task))
    means = {"own": y + error}
    for who, ratio in ratios.items():
        means[who] = y + error * np.sqrt(np.broadcast_to(ratio, n_tasks))[task]
    return HeldOut(kind, y, task, means, n_tasks)


def evaluation(found, **more):
    labels = [f"t{i}" for i in range(found.n_tasks)]
    options = {"strength": "tuned", "seen": True, **more}
    return Evaluation(found.kind, labels, np.bincount(found.task), found, **options)


def outcome(ratio, **more):
    return heldout({"other": ratio}, **more).beside("own", "other").outcome


# -- losses and scores ---------------------------------------------------------------------------------------


def test_losses_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y, p, mu = rng.integers(2, size=50), rng.uniform(0.05, 0.95, 50), rng.gamma(2.0, size=50)
    counts = rng.poisson(2.0, 50).astype(float)
    assert_allclose(row_losses("classes", y, p).mean(), log_loss(y, p))
    assert_allclose(row_losses("counts", counts, mu).mean(), mean_poisson_deviance(counts, mu))
    assert np.isfinite(row_losses("classes", np.array([1.0]), np.array([0.0]))).all()


def test_all_differences_and_those_within_tasks_are_told_apart():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 30)
    level, y = 10.0 * task, rng.normal(size=180)
    found = HeldOut("numbers", level + y, task, {"own": level + 0.5 * y, "levels": level + 0.0}, 6)
    assert_allclose(found.explained("own"), r2_score(level + y, level + 0.5 * y))
    by_hand = [r2_score(y[task == t], 0.5 * y[task == t]) for t in range(6)]
    assert_allclose(found.score_by_task("own"), by_hand)
    assert found.explained("levels") > 0.99 and found.explained_within("levels") < 0.01
    all_of_it, within = figures(evaluation(found), CITY, "rent")
    assert all_of_it.clause == "of all differences in rent between rows are explained"
    assert within.clause == "of the differences in rent within a city are explained"
    assert within.value == f"{100 * found.explained_within('own'):.0f} %"


def test_concordance_is_that_of_pairs_within_tasks_and_folds():
    rng = np.random.default_rng(0)
    task, fold = np.repeat(np.arange(3), 40), np.tile([0, 1], 60)
    y, z = rng.integers(2, size=120), rng.normal(size=120)
    found = HeldOut("classes", y, task, {"own": z}, 3, fold)
    right, pairs = 0.0, 0
    for cell in {*zip(task, fold, strict=True)}:
        mine = (task == cell[0]) & (fold == cell[1])
        n = int(y[mine].sum() * (1 - y[mine]).sum())
        right, pairs = right + n * roc_auc_score(y[mine], z[mine]), pairs + n
    assert_allclose(found.concordance("own")[0], right / pairs)
    assert_allclose(found.concordance_overall("own"), roc_auc_score(y, z))


def test_the_error_of_the_concordance_is_its_spread():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(10), 12)
    draws = []
    for _ in range(300):
        z = rng.normal(size=120)
        y = rng.uniform(size=120) < 1.0 / (1.0 + np.exp(1.5 - z))
        draws.append(HeldOut("classes", y.astype(float), task, {"own": z}, 10).concordance("own"))
    share, error = np.transpose(draws)
    assert_allclose(error.mean(), share.std(), rtol=0.15)


def test_tasks_with_few_events_do_not_count_by_themselves():
    task = np.repeat([0, 1, 2], [40, 40, 3])
    y = np.r_[np.arange(40) < 4, np.arange(40) < 5, [1, 0, 1]].astype(float)
    found = HeldOut("classes", y, task, {"own": np.linspace(0, 1, 83)}, 3)
    assert found.counted.tolist() == [False, True, False]
    assert np.isnan(found.score_by_task("own")).tolist() == [True, False, True]
    assert 0.0 < found.concordance("own")[0] < 1.0  # pairs of all tasks


# -- the verdict ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.3, "better"),
        (1 / 1.3, "worse"),
        (1.005, "slightly better"),
        (0.995, "slightly worse"),
        (1.0, "the same"),
    ],
)
def test_a_steady_difference_is_told_by_its_size(ratio, expected):
    assert outcome(ratio) == expected


def test_level_models_are_called_so_only_where_the_interval_says_so():
    wave = np.where(np.arange(12) % 2, 1.0, -1.0)
    assert outcome(1.0 + 0.02 * wave) == "about equally well"
    assert outcome(np.exp(0.5 * wave)) == "cannot be told apart"


@pytest.mark.parametrize("outlier", [1e-6, 1e6])
def test_one_huge_outlier_does_not_turn_the_verdict(outlier):
    ratio = np.full(12, 1.3)
    ratio[0] = outlier
    assert outcome(ratio) == "better"
    ratio = np.full(12, 1 / 1.3)
    ratio[0] = outlier
    # the typical task says worse; where all rows together disagree, nobody wins
    assert outcome(ratio) == ("worse" if outlier < 1.0 else "cannot be told apart")


def test_fewer_than_six_tasks_are_judged_by_their_rows():
    found = heldout({"other": 1.3}, n_tasks=5, n_rows=30)
    beside = found.beside("own", "other")
    gains = found.losses["other"] - found.losses["own"]
    assert beside.unit == "row" and beside.n_units == 150
    assert_allclose(beside.p_value, wilcoxon(gains).pvalue)
    again = HeldOut(found.kind, *(np.tile(part, 2) for part in (found.y, found.task)),
                    {who: np.tile(mean, 2) for who, mean in found.means.items()}, 5,
                    np.repeat([0, 1], 150), np.tile(np.arange(150), 2))  # fmt: skip
    assert_allclose(again.beside("own", "other").p_value, beside.p_value)  # a row held out twice is one row


def test_the_error_rate_is_that_of_the_level():
    rng = np.random.default_rng(0)
    said = []
    for _ in range(200):
        task, y = np.repeat(np.arange(8), 15), rng.normal(size=120)
        means = {who: y + rng.normal(size=120) for who in ("own", "other")}
        said.append(HeldOut("numbers", y, task, means, 8).beside("own", "other").outcome)
    assert np.mean([word in ("better", "worse") for word in said]) < 0.08


# -- sentences -----------------------------------------------------------------------------------------------


def test_the_headline_is_about_the_best_rival():
    found = evaluation(heldout({"separate": 3.0, "pooled": 1.0 / 1.2, "boosting": 2.0}))
    assert found.best_rival == "pooled"
    line = verdict(found, CITY)[0]
    assert line.startswith(
        "On held-out rows this model predicts worse than one linear model for all rows, the best of 3 rivals"
        ": its squared error is 20 % larger in the typical city, and smaller in 0 of 12 (p < 0.001"
    )
    assert line.endswith("signed-rank test over cities).")
    table = found.standings
    assert [row.method for row in table] == ["pooled", "own", "boosting", "separate"]
    assert [row.verdict for row in table] == ["better", "", "worse", "worse"]


def test_a_strength_that_was_chosen_with_these_rows_is_said_in_the_headline():
    found = heldout({"separate": 2.0})
    for seen, words in ((True, "was chosen"), (None, "may have been chosen")):
        assert (
            f"at a strength that {words} with these rows too"
            in verdict(evaluation(found, strength="kept", seen=seen), CITY)[0]
        )
    assert "strength" not in verdict(evaluation(found, strength="kept", seen=False), CITY)[0]


def test_tasks_that_do_not_count_are_named():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(8), [20, 20, 20, 20, 20, 20, 20, 2])
    y = rng.normal(size=142)
    y[task == 1] = 3.0
    found = evaluation(HeldOut("numbers", y, task, {"own": y + 0.1, "separate": y + 0.2}, 8))
    assert verdict(found, CITY)[-1] == (
        "2 cities with fewer than 5 held-out rows, or whose target does not vary, do not count by "
        "themselves: t1, t7."
    )


def test_accuracy_stands_beside_that_of_the_commoner_class():
    task, y = np.repeat([0, 1], 20), np.tile(np.repeat([1.0, 0.0], [5, 15]), 2)
    p = np.where(np.arange(40) % 20 < 2, 0.9, 0.1)  # 2 of 5 events found, nothing else wrong
    found = evaluation(HeldOut("classes", y, task, {"own": p, "separate": np.full(40, 0.25)}, 2))
    assert any(
        line
        == "It gets 85.0 % of the held-out rows right; saying the commoner class of each city always gets "
        "75.0 % right."
        for line in verdict(found, CITY)
    )
