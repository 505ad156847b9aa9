"""Words of effects: every rule on numbers whose word is known, null tables, and sentences for people."""

import numpy as np
import pytest

from mmtfl.inference.meta_analysis import MetaAnalysis
from mmtfl.inference.words import in_sentences, judge, levels_in_words

CLEAR = 0.04  # variance of an effect that is 1 and clear


def one(theta, variance=CLEAR, others=0, apart=False):
    """The word of a feature with these effects, beside other features without effect."""
    theta = np.array(theta, dtype=float)[:, None]
    rng = np.random.default_rng(0)
    rest = 0.05 * rng.choice([-1.0, 1.0], size=(len(theta), others))
    theta = np.hstack([theta, rest])
    found = MetaAnalysis(theta, np.full(theta.shape, variance), np.full(len(theta), np.inf))
    return judge(found, np.arange(theta.shape[1]) < int(apart))


@pytest.mark.parametrize(
    ("theta", "word"),
    [
        ([1.0, 1.1, 0.9, 1.0, 1.05, 0.95], "everywhere"),
        ([-1.0, -1.1, -0.9, -1.0, -1.05, -0.95], "everywhere"),
        ([0.9, 2.8, 1.5, 1.0, 2.5, 1.4], "differs"),
        ([0.6, 0.1, 0.4, 0.2, 0.5, 0.3], "on average"),
        ([3.0, 0.0, 0.1, -0.1, 0.1, 0.0], "only in some"),
        ([2.0, -2.0, 1.9, -2.1, 2.0, -1.9], "only in some"),
        ([0.1, -0.1, 0.05, 0.0, -0.05, 0.1], "not found"),
        ([0.1, np.nan, np.nan, np.nan, np.nan, np.nan], "too few tasks"),
        ([2.0, np.nan, np.nan, np.nan, np.nan, np.nan], "only in some"),
        ([1.0, 1.1, 0.9, 1.0, np.nan, np.nan], "on average"),  # it varies in two tasks of three only
        ([np.nan] * 6, "too few tasks"),
    ],
)
def test_the_first_rule_that_holds_decides(theta, word):
    assert one(theta, others=4).word[0] == word


def test_what_cannot_be_told_apart_comes_first():
    assert one([1.0, 1.0, 1.0], apart=True).word[0] == "cannot be told apart"


def test_a_task_is_named_for_what_its_own_rows_show():
    assert one([3.0, 0.0, 0.1, -0.1, 0.1, 0.5]).clear[:, 0].tolist() == [True] + [False] * 5


def test_null_tables_are_left_alone():
    rng = np.random.default_rng(1)
    said, tables = 0, 300
    for _ in range(tables):
        error = rng.uniform(0.5, 2.0, size=(10, 20))
        found = MetaAnalysis(error * rng.normal(size=error.shape), error**2, np.full(10, np.inf))
        said += np.any(judge(found, np.zeros(20, dtype=bool)).word != "not found")
    assert said / tables < 0.2  # two false discovery rates of 0.1


def test_words_are_right_where_the_truth_is_known():
    rng = np.random.default_rng(2)
    wrong = said = 0
    for _ in range(100):
        kind = rng.integers(0, 4, size=20)
        mu, tau = np.where(kind % 2 == 1, 1.0, 0.0), np.where(kind >= 2, 0.5, 0.0)
        theta = mu + tau * rng.normal(size=(12, 20)) + 0.3 * rng.normal(size=(12, 20))
        word = judge(MetaAnalysis(theta, np.full((12, 20), 0.09), np.full(12, np.inf)), kind < 0).word
        wrong += np.sum(
            (np.isin(word, ("everywhere", "on average")) & (mu == 0.0)) | ((word == "differs") & (tau == 0.0))
        )
        wrong += np.sum((word == "only in some") & (kind == 0))
        said += np.sum(word != "not found")
        assert set(word[kind == 1]) <= {"everywhere", "on average", "differs"}
    assert said > 1000 and wrong / said < 0.05


def row(feature, word, **more):
    numbers = {
        "average": 0.5,
        "lower": 0.4,
        "upper": 0.6,
        "new_task_lower": 0.1,
        "new_task_upper": 0.9,
        "per_sd": 1.0,
    }
    return {"feature": feature, "column": feature, "word": word, "note": "", **numbers, **more}


def test_three_sentences_say_what_holds_what_differs_and_what_is_ruled_out():
    rows = [
        row("age", "everywhere"),
        row("dose", "differs"),
        row("iron", "on average"),
        row("site", "only in some", note="clear in 'Bern'"),
        row("pulse", "not found", average=0.05, lower=-0.1, upper=0.2, per_sd=0.1),
        row("rare", "too few tasks", n_tasks=1),
        row("beds", "too few tasks", n_tasks=0),
        row("sum", "cannot be told apart", average=np.nan, note="from `a`, `b`"),
    ]
    first, second, third = in_sentences(rows, "hospital")
    assert first == "Holds in every hospital: age 0.5 (0.4 to 0.6)."
    assert "Differs between hospitals: dose 0.5 (0.4 to 0.6), in a new hospital 0.1 to 0.9." in second
    assert "whether in every hospital: iron" in second and second.endswith(
        "Only in some hospitals: site (clear in 'Bern')."
    )
    assert third.startswith(
        "Not found: pulse. For each of these an average effect above 0.4 per s.d. is ruled out."
    )
    assert "Varies in one hospital only: rare. " in third
    assert "The same in all rows of each hospital, and so told by its level only: beds. " in third
    assert third.endswith("sum (from `a`, `b`).")


ODDS = {"odds_ratio": 1.65, "lower": np.log(1.5), "upper": np.log(1.8)}
NEW = {"odds_ratio": 1.65, "odds_ratio_lower": 1.5, "odds_ratio_upper": 1.8}
CURVE = {"note": "a curve, from 2 to 6", "quartiles": 2.0, "quartiles_lower": 1.6, "quartiles_upper": 2.4}
WHOLE = {"note": "a curve, from 2 to 6, clear as a whole, not between these"}
COUNTRIES = [row(f"country=c{i}", "only in some", column="country", note="clear in 'a'") for i in range(9)]
WARDS = [row(f"ward={w}", "cannot be told apart", column="ward", note="from `x`") for w in "abc"]
INK = [row("ink=red", "not found", column="ink"), row("ink=blue", "differs", column="ink")]
FAR = row("far", "not found", lower=-60.0, upper=80.0)
HEAT, BEND = row("heat", "differs", **CURVE), row("age", "on average", **WHOLE)
TOLD = [
    ([row(f"f{j}", "everywhere", **ODDS) for j in range(9)], 0, "f5 odds x 1.65 (1.5 to 1.8), and 3 more."),
    ([row("age", "everywhere")], 1, "Nothing was found to differ between tasks."),
    ([row("age", "everywhere")], 2, "Every feature was found to matter."),
    ([row("resp", "everywhere", average=23.0, odds_ratio=1e10)], 0, "resp odds x over 10000"),
    ([row("sham", "everywhere", average=-20.0, odds_ratio=2e-9)], 0, "sham odds x below 1 / 10000"),
    ([row("age", "differs", **NEW)], 1, "in a new task 1.11 to 2.46."),
    ([HEAT], 1, "heat 2 (1.6 to 2.4; a curve, from 2 to 6), in a new task 0.4 to 3.6."),
    ([BEND], 1, "Acts by a curve that is clear as a whole, not from quartile to quartile: age."),
    ([row("sex", "only in some", note="clear in each")], 1, "Clear in each task by itself, with too few of"),
    (COUNTRIES + INK, 1, "Only in some tasks: country (all 9 levels, such as country=c0)."),
    (WARDS + INK, 2, "other columns: ward."),
    (WARDS + INK, 2, "Not found: ink=red."),
    ([row("near", "not found"), FAR], 2, "For 1 of these an average effect above 1.2 per s.d. is ruled out."),
    ([FAR], 2, "Not found: far. The rows do not rule out even a large effect of these."),
    (
        [row("near", "not found", odds_ratio=1.6)],
        2,
        "odds ratio above 3.32, or below 0.301, per s.d. is ruled",
    ),
]


@pytest.mark.parametrize(("rows", "which", "said"), TOLD, ids=[said[:30] for *_, said in TOLD])
def test_each_sentence_says_what_the_numbers_do(rows, which, said):
    assert said in in_sentences(rows, largest=2.0)[which]


def test_levels_in_words_have_a_sentence_for_each_case():
    assert levels_in_words([], None, ("site", "sites")).startswith("Sites are not found to differ")
    assert levels_in_words([], 1.0, ("site", "sites")) == "Sites scatter by 1 in their level."
    both = [("beds is larger", 0.2, " per unit"), ("sector is private", -1.0, "")]
    said = levels_in_words(both, None, ("site", "sites"), "odds")
    assert said == (
        "Sites are higher where beds is larger (odds x 1.22 per unit), and lower where sector is private "
        "(odds x 0.368); beyond that they are not found to differ."
    )
