"""The verdict between models on cases with a known answer, and the sentences it is told in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm, wilcoxon
from sklearn.metrics import f1_score, roc_auc_score

from mmtfl.report.evaluation import Evaluation, TaskScores
from mmtfl.report.paired_tests import (
    HeldOutErrors,
    class_errors,
    errors_by_task,
    f1_errors,
    relative_errors,
    task_spread,
)
from mmtfl.report.sentences import clear_winner, verdict


def evaluation(own, pooled, separate, *, n_rows=20, metric="R²", strength="tuned", seen=True, **more):
    """An evaluation with these scores by task."""
    columns = [np.asarray(column, dtype=float) for column in (own, pooled, separate)]
    names = ("own", "pooled", "separate")
    sizes = np.broadcast_to(n_rows, columns[0].shape)
    measure = "r2" if metric == "R²" else "auc"
    errors = HeldOutErrors(
        measure, {who: 1.0 - column for who, column in zip(names, columns, strict=True)}, sizes, **more
    )
    tasks = [TaskScores(f"t{i}", int(n), None) for i, n in enumerate(sizes)]
    return Evaluation(metric, "", tasks, int(sizes.sum()), 3, None, seen, strength, errors)


def rows_of(n_rows, gains, seed=0):
    """Row errors of two tasks: the first model has an error of 1, the others more by these gains."""
    rng = np.random.default_rng(seed)
    size = 1.0 + rng.random(2 * n_rows)
    rows = {who: size + gain for who, gain in gains.items()}
    return {"rows": rows, "observation_task": np.repeat([0, 1], n_rows)}


LEVEL = np.linspace(0.5, 0.8, 12)


# -- sentences -----------------------------------------------------------------------------------------------


def test_42_wins_of_42_are_a_win_whatever_the_mean_is():
    """Errors of the pooled model explode in some patients, so that its mean R² is -159."""
    own = np.full(42, 0.66)
    pooled = np.full(42, -1.0)
    pooled[:3] = -159.0 * 14 + 13.0  # the mean over tasks is -159
    assert pooled.mean() == pytest.approx(-159)
    found = evaluation(own, pooled, np.full(42, 0.5))
    lines = verdict(found)
    assert lines[0] == (
        "On held-out rows this model predicts better than one pooled model and separate models: median R² "
        "0.66 over 42 tasks, against −1.00 for one pooled model and 0.50 for separate models."
    )
    assert lines[1] == (
        "Beside one pooled model its squared error is 83 % smaller in the typical task, and smaller in 42 "
        "of 42 tasks (signed-rank test over tasks, p < 0.001)."
    )
    assert clear_winner(found) == "own"
    assert not any("−159" in line or "chance" in line for line in lines)


def test_level_models_are_called_so_only_where_the_interval_says_so():
    noise = 0.004 * np.where(np.arange(12) % 2, 1.0, -1.0)
    level = verdict(evaluation(LEVEL, LEVEL + noise, LEVEL))
    assert level[0].startswith(
        "On held-out rows this model predicts about as well as one pooled model and predicts the same as "
        "separate models: median R² 0.65 over 12 tasks"
    )
    assert level[1].endswith("Whatever difference there is, it is small.")
    assert level[2] == "Beside separate models there is no difference."
    wide = verdict(evaluation(LEVEL, LEVEL + 25 * noise, LEVEL + 30 * noise))
    assert "cannot be told apart from one pooled model and separate models" in wide[0]
    assert "in 6 of 12 tasks" in wide[1] and wide[1].endswith("This is within what chance gives.")
    assert clear_winner(evaluation(LEVEL, LEVEL + noise, LEVEL)) is None


@pytest.mark.parametrize("who", ["own", "other"])
def test_one_huge_outlier_changes_nothing(who):
    own, other = LEVEL + 0.1, LEVEL.copy()
    (own if who == "own" else other)[0] = -1e6
    found = evaluation(own, other, other)
    n_better = 11 if who == "own" else 12
    line = verdict(found)
    assert line[0].startswith("On held-out rows this model predicts better than one pooled model")
    assert f"smaller in {n_better} of 12 tasks" in line[1]


def test_a_loss_is_called_a_loss_first():
    found = evaluation(LEVEL, LEVEL + 0.1, LEVEL - 0.2)
    assert verdict(found)[0].startswith(
        "On held-out rows this model predicts worse than one pooled model and predicts better than separate "
        "models: median R² 0.65 over 12 tasks, against 0.75 for one pooled model and 0.45"
    )
    assert "its squared error is 42 % larger" in verdict(evaluation([0.5] * 8, [0.6479] * 8, [0] * 8))[1]
    assert clear_winner(found) == "pooled"


def test_a_difference_that_is_clear_but_small_is_called_small():
    found = evaluation(LEVEL + 0.003, LEVEL, LEVEL - 0.3)
    lines = verdict(found)
    assert "predicts slightly better than one pooled model" in lines[0]
    assert lines[1].endswith("The difference is small, but more than chance gives.")
    assert "slightly worse than one pooled model" in verdict(evaluation(LEVEL - 0.003, LEVEL, LEVEL))[0]
    assert clear_winner(found) is None


def test_two_tasks_are_judged_by_their_rows():
    more = rows_of(30, {"own": 0.0, "pooled": 0.3, "separate": 0.0})
    lines = verdict(evaluation([0.7, 0.6], [0.4, 0.3], [0.7, 0.6], **more))
    assert lines[0].startswith(
        "On held-out rows this model predicts better than one pooled model and predicts"
    )
    assert "over 2 tasks, against 0.35" in lines[0]
    assert "smaller in 2 of 2 tasks (judged by the 60 rows, as 6 tasks or more are needed" in lines[1]
    assert lines[2] == "Beside separate models there is no difference."


def test_two_tasks_whose_rows_disagree_cannot_be_told_apart():
    either = 0.3 * np.where(np.arange(60) % 2, 1.0, -1.0)
    more = rows_of(30, {"own": 0.0, "pooled": either, "separate": -either})
    lines = verdict(evaluation([0.7, 0.6], [0.65, 0.62], [0.5, 0.5], **more))
    assert "cannot be told apart from one pooled model and separate models" in lines[0]
    assert "about" not in lines[0]


def test_one_task_has_no_median():
    more = rows_of(10, {"own": 0.0, "pooled": 0.3, "separate": 0.3})
    more["observation_task"][:] = 0
    lines = verdict(evaluation([0.7], [0.4], [0.4], **more))
    assert lines[0].endswith(": R² 0.70, against 0.40 for one pooled model and 0.40 for separate models.")
    assert "typical" not in lines[1] and "tasks, and" not in lines[1]
    assert "of 1 task" not in lines[1]


def test_a_test_of_rows_that_contradicts_the_scores_is_no_win():
    """Most rows are closer, but the squares are worse: neither is claimed."""
    more = rows_of(30, {"own": 0.0, "pooled": 0.3, "separate": 0.3})
    assert "cannot be told apart" in verdict(evaluation([0.4, 0.3], [0.7, 0.6], [0.7, 0.6], **more))[0]


def test_tasks_without_a_score_are_counted_and_named_apart():
    n_rows = np.full(10, 20)
    n_rows[[2, 5]] = 1, 4
    own, other = np.full(10, 0.7), np.full(10, 0.4)
    own[2] = other[2] = np.nan
    other[5] = 0.99  # of four rows: has no say
    own[8] = other[8] = np.nan  # a constant target
    lines = verdict(evaluation(own, other, other, n_rows=n_rows))
    assert "over 7 tasks" in lines[0] and "in 7 of 7 tasks" in lines[1]
    assert lines[-1] == (
        "Left out of this comparison: 2 tasks with fewer than 5 held-out rows (t2, t5) and 1 task whose "
        "target does not vary (t8)."
    )
    assert not any(line.startswith("Left out") for line in verdict(evaluation(LEVEL, LEVEL, LEVEL)))


def test_where_all_tasks_are_tiny_nothing_is_compared():
    found = evaluation(LEVEL, LEVEL - 0.5, LEVEL, n_rows=4)
    assert verdict(found) == [
        "No task has 5 held-out rows or more whose target varies: models are not compared."
    ]
    assert found.median("own") is None
    assert clear_winner(found) is None


@pytest.mark.parametrize(
    ("strength", "seen", "words"),
    [
        ("tuned", True, "this model predicts better"),
        ("given", True, "this model, at the strength it was given, predicts better"),
        ("kept", True, "chosen with these rows too, which favours it, predicts better"),
        ("kept", None, "may have been chosen with these rows too, which favours it, predicts better"),
        ("kept", False, "this model, at the strength that was chosen for it on other rows, predicts better"),
    ],
)
def test_what_favours_the_model_stands_in_the_headline(strength, seen, words):
    found = evaluation(LEVEL, LEVEL - 0.3, LEVEL - 0.3, strength=strength, seen=seen)
    assert words in verdict(found)[0]


def test_classes_are_told_by_the_area_and_beside_the_base_rate():
    found = evaluation(LEVEL + 0.1, LEVEL, LEVEL, metric="AUC")
    found = Evaluation(**{**vars(found), "accuracy": 0.9458, "base_rate": 0.939})
    lines = verdict(found)
    assert lines[1].startswith(
        "Beside one pooled model its AUC is larger by 0.10 in the typical task, and larger"
    )
    assert lines[3] == (
        "It gets 94.6 % of the held-out rows right; saying the commoner class of each task always gets "
        "93.9 % right."
    )


# -- the rule ------------------------------------------------------------------------------------------------


def test_the_test_over_tasks_is_wilcoxons_of_log_ratios():
    rng = np.random.default_rng(0)
    own, other = np.exp(rng.normal(size=(2, 15)))
    found = HeldOutErrors("r2", {"a": own, "b": other}, np.full(15, 9)).beside("a", "b")
    assert found.p_value == pytest.approx(wilcoxon(np.log(other / own)).pvalue)
    assert found.change == pytest.approx(np.median(own / other) - 1)
    assert (found.unit, found.n_units, found.n_better) == ("task", 15, (own < other).sum())


def test_a_model_beside_another_is_the_other_beside_it():
    errors = HeldOutErrors("r2", {"a": 1 - LEVEL, "b": 1.2 - LEVEL}, np.full(12, 9))
    one, other = errors.beside("a", "b"), errors.beside("b", "a")
    assert (one.outcome, other.outcome) == ("better", "worse")
    assert one.p_value == other.p_value and one.gain == -other.gain


@pytest.mark.parametrize(("n_tasks", "outcome"), [(6, "better"), (5, "cannot be told apart")])
def test_six_tasks_are_the_fewest_to_judge_by(n_tasks, outcome):
    errors = HeldOutErrors(
        "r2", {"a": np.full(n_tasks, 0.2), "b": np.full(n_tasks, 0.4)}, np.full(n_tasks, 9)
    )
    assert errors.beside("a", "b").outcome == outcome


def test_perfect_predictions_have_an_error_of_nothing():
    errors = HeldOutErrors("r2", {"a": np.zeros(7), "b": np.full(7, 0.1), "c": np.zeros(7)}, np.full(7, 9))
    assert errors.beside("a", "b").outcome == "better"
    assert errors.beside("a", "c").outcome == "the same"


def test_areas_of_few_tasks_are_judged_by_delongs_test():
    rng = np.random.default_rng(0)
    y = np.repeat([True, False], [25, 60])
    task = np.zeros(85, dtype=int)
    z = {"a": rng.normal(size=85) + 2.0 * y, "b": rng.normal(size=85) + 0.3 * y}
    rows = {who: class_errors(y, value, task) for who, value in z.items()}
    tasks = {who: errors_by_task(value, task, 1, y) for who, value in rows.items()}
    found = HeldOutErrors("auc", tasks, np.array([85]), rows, task, y).beside("a", "b")
    # written out: the covariances of the two sides' shares, as in DeLong, DeLong and Clarke-Pearson (1988)
    v10 = np.array([[np.mean((p > n) + 0.5 * (p == n)) for p in v[y] for n in [v[~y]]] for v in z.values()])
    v01 = np.array([[np.mean((p > n) + 0.5 * (p == n)) for n in v[~y] for p in [v[y]]] for v in z.values()])
    S = np.cov(v10) / 25 + np.cov(v01) / 60
    area = v10.mean(axis=1)
    assert_allclose(area, [roc_auc_score(y, value) for value in z.values()])
    deviate = (area[0] - area[1]) / np.sqrt(S[0, 0] + S[1, 1] - 2 * S[0, 1])
    assert found.p_value == pytest.approx(2 * norm.sf(abs(deviate)))
    assert found.outcome == "better" and found.unit == "row"


def test_one_lucky_row_of_a_rare_class_wins_nothing():
    """A single positive that is ranked higher moves every negative's share, and is one row all the same."""
    rng = np.random.default_rng(0)
    y = np.repeat([True, False], [6, 500])
    z = rng.normal(size=506)
    other = z.copy()
    other[0] += 3.0
    task = np.zeros(506, dtype=int)
    rows = {"a": class_errors(y, other, task), "b": class_errors(y, z, task)}
    tasks = {who: errors_by_task(value, task, 1, y) for who, value in rows.items()}
    assert HeldOutErrors("auc", tasks, np.array([506]), rows, task, y).beside("a", "b").outcome == (
        "cannot be told apart"
    )


# -- errors --------------------------------------------------------------------------------------------------


def test_task_errors_are_one_minus_the_usual_scores():
    rng = np.random.default_rng(0)
    y, task = rng.random(60) < 0.4, rng.integers(0, 3, 60)
    z = np.round(rng.normal(size=60) + y, 1)  # with ties
    mine = [task == t for t in range(3)]
    areas = errors_by_task(class_errors(y, z, task), task, 3, y)
    assert_allclose(areas, [1 - roc_auc_score(y[rows], z[rows]) for rows in mine])
    assert_allclose(f1_errors(y, z, task, 3), [1 - f1_score(y[rows], z[rows] > 0) for rows in mine])
    target = rng.normal(size=60) * 10.0**task
    squares = errors_by_task(relative_errors(target, z, task, task_spread(target, task)), task, 3)
    expected = [np.mean((target[rows] - z[rows]) ** 2) / np.var(target[rows]) for rows in mine]
    assert_allclose(squares, expected)


def test_a_constant_target_and_a_single_class_have_no_error():
    y, task = np.array([3.0, 3.0, 3.0, 1.0, 2.0]), np.array([0, 0, 0, 1, 1])
    squares = errors_by_task(relative_errors(y, y + 0.5, task, task_spread(y, task)), task, 2)
    assert np.isnan(squares[0]) and squares[1] == pytest.approx(1.0)
    one = np.array([True, True, True, True, False])
    assert np.isnan(class_errors(one, y, task)).tolist() == [True, True, True, False, False]
    assert np.isnan(errors_by_task(class_errors(one, y, task), task, 2, one)).tolist() == [True, False]
    assert np.isnan(f1_errors(one, y, task, 2)).tolist() == [True, False]
