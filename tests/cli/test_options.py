"""Options of fit and cv: the model is the estimator with them on the encoded table, also in the report."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mmtfl
from cli.site_table import make_frame
from cli.typed import refusal, run

INF = np.inf
COLUMNS = ["age", "dose", "noise", "colour"]
COUNTS = "--target visits --loss poisson"


@pytest.fixture(scope="module")
def frame():
    """Three sites with numbers y, counts of visits in some years, and who is ill."""
    frame, rng = make_frame(150), np.random.default_rng(1)
    z = frame["dose"] + (frame["site"] == "Bern")
    frame = frame.assign(years=rng.uniform(0.5, 8.0, 150).round(2), w=rng.integers(1, 3, 150))
    frame["visits"] = rng.poisson(np.exp(0.5 * z) * frame["years"])
    return frame.assign(ill=(rng.random(150) < 1.0 / (1.0 + np.exp(-2.0 * z))).astype(int))


def encoded(frame):
    """The features without our encoder: the most frequent colour is the reference."""
    X = pd.get_dummies(frame[COLUMNS], prefix_sep="=", dtype=float)
    return X.drop(columns=f"colour={frame['colour'].mode()[0]}")


def typed(folder, frame, words, command="fit", talk="-q"):
    frame.to_csv(folder / "t.csv", index=False)
    features = "" if "--features" in words else f"--features {' '.join(COLUMNS)}"
    return [command, folder / "t.csv", features, talk, "--force -o", folder / "m.mmtfl", words]


def fitted(folder, frame, words, command="fit"):
    run(typed(folder, frame, words, command))
    return mmtfl.load(folder / "m.mmtfl")


def predicted(folder, more="", model="m"):
    run(["predict", folder / f"{model}.mmtfl", folder / "t.csv", "-q --force -o", folder / "p.csv", more])
    return pd.read_csv(folder / "p.csv")


KNOWN = "--penalty-weight noise=0 colour=inf --positive dose --task-weight Bern=3 Cork=0.5"
WEIGHTS = {"noise": 0.0, **dict.fromkeys(("colour=green", "colour=red"), INF)}
CASES = {
    "plain": ("--target y", {"p": 2, "k": 1, "standardize": True, "levels": "shrunk"}, {}),
    "member": ("--target y --p 1 --k log", {"p": 1, "k": "log"}, {}),
    "pooling": ("--target y --k 2 --pooling 0.9 --levels free", {"pooling": 0.9, "levels": "free"}, {}),
    "known": (f"--target y {KNOWN}", {"positive": ["dose"], "task_weight": {"Bern": 3.0, "Cork": 0.5}}, {}),
    "huber": ("--target y --loss huber --delta 0.5", {"loss": "huber", "delta": 0.5}, {}),
    "weights": ("--target y --weights w --no-standardize", {"standardize": False}, {"sample_weight": "w"}),
    "search": ("--target y --pk 2,2 2,1 --folds 3 --alphas 8 --seed 4", {"pk": [(2.0, 2.0), (2.0, 1.0)]}, {}),
    "folds": ("--target y --pk 2,2 --folds 3 --alphas 8", {"cv": 3}, {}),
    "exposure": (f"{COUNTS} --exposure years", {"loss": "poisson"}, {"offset": "years"}),
    "offset": (f"{COUNTS} --offset logged", {"loss": "poisson"}, {"offset": "years"}),
}


@pytest.mark.parametrize(("words", "expected", "beside"), CASES.values(), ids=CASES)
def test_options_reach_the_estimator_on_the_encoded_table(words, expected, beside, frame, tmp_path):
    frame = frame.assign(logged=np.log(frame["years"]))
    fit = ("cv", "") if "--folds" in words else ("fit", "--alpha 0.1")
    model = fitted(tmp_path, frame, f"--task site {fit[1]} {words}", fit[0])
    params, X, target = model.get_params(), encoded(frame), words.split()[1]
    assert {name: params[name] for name in expected} == expected
    assert "known" not in words or params["penalty_weight"] == WEIGHTS
    known = {name: np.log(frame[of]) if name == "offset" else frame[of] for name, of in beside.items()}
    by_hand = type(model)(**params).fit(X, frame[target], task=frame["site"], **known)
    assert by_hand.coef_.any() and model.columns_ == [name.partition("=")[0] for name in X]
    assert_allclose(model.coef_, by_hand.coef_, atol=1e-6)
    assert fit[0] == "fit" or model.best_score_ == pytest.approx(by_hand.best_score_)
    known.pop("sample_weight", None)
    expected = by_hand.predict(X, task=frame["site"], **known)
    assert_allclose(predicted(tmp_path)["prediction"], expected, rtol=1e-4)


# -- what is known of columns and tasks ----------------------------------------------------------------------


@pytest.mark.parametrize("command", ["fit", "cv"])
def test_the_levels_of_a_column_come_in_or_stay_out_together(frame, tmp_path, command):
    own = "--alpha 0.15" if command == "fit" else "--alphas 8 --folds 3"
    model = fitted(tmp_path, frame, f"--task site --target y {own}", command)
    kept = {name for name, c in zip(model.feature_names_in_, model.c_, strict=True) if c > 0}
    levels = {name for name in model.feature_names_in_ if name.startswith("colour")}
    assert len(levels) == 2 and kept & levels in (set(), levels)
    assert command == "fit" or {0.0, 0.9, 0.99} < set(model.cv_results_["pooling"])  # pooled groups too


def test_a_column_that_a_task_lacks_is_no_feature_of_it_on_request(frame, tmp_path):
    site, words = frame["site"], "--task site --target y --alpha 0.1 --absent-features allow"
    gaps = frame.assign(
        noise=frame["noise"].where(site != "Cork"), colour=frame["colour"].where(site != "Bern")
    )
    model = fitted(tmp_path, gaps, f"{words} --penalty-weight noise=0")
    names = model.feature_names_in_.tolist()
    assert (model.coef_[:, names.index("noise")] != 0).tolist() == [True, False, True]
    assert not model.coef_[0, [j for j, name in enumerate(names) if name.startswith("colour")]].any()
    assert predicted(tmp_path)["prediction"].notna().all()
    gaps.loc[3, "age"] = np.nan
    fitted(tmp_path, gaps, words)  # single cells are filled


def test_labels_that_are_numbers_are_weighted_by_their_number(frame, tmp_path):
    numbered = frame.assign(site=frame["site"].map({"Bern": 0, "Cork": 1, "Århus": 2}))
    model = fitted(tmp_path, numbered, "--task site --target y --alpha 0.1 --task-weight 2=4")
    assert model.task_weight == {2: 4.0}


# -- counts, exposures, and targets of several kinds ---------------------------------------------------------


def test_counts_and_their_exposure_go_from_the_search_to_the_report_and_to_new_tasks(frame, tmp_path, capsys):
    words = f"--task site {COUNTS} --exposure years --pk 2,1 --alphas 6 --folds 3 --poolings 0"
    out = run(typed(tmp_path, frame, words, "cv", talk=""), capsys).out
    assert "Held-out deviance explained" in out
    model = mmtfl.load(tmp_path / "m.mmtfl")
    assert_allclose(model.coef_[:, 1], 0.5, atol=0.1)  # the effect on the rate
    assert model.loss == "poisson" and not model.scale_targets and "years" not in model.feature_names_in_
    found = predicted(tmp_path, "--interval 0.9")
    assert 0.85 <= found["visits"].between(found["lower"], found["upper"]).mean() <= 0.99
    assert (found["upper"] - found["lower"]).corr(found["prediction"]) > 0.5  # wider where more is expected
    run(["report", tmp_path / "m.mmtfl", tmp_path / "t.csv", "-o", tmp_path / "page.html"], capsys)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "eviance" in page and "R²" not in page
    assert "90 % of new counts are expected within the intervals" in page
    new = frame[frame["site"] == "Bern"].assign(site="Oslo", visits=lambda rows: rows["visits"] // 2)
    new.to_csv(tmp_path / "t.csv", index=False)
    run(["add-task", tmp_path / "m.mmtfl", tmp_path / "t.csv", "-q -o", tmp_path / "more.mmtfl"], capsys)
    own = model.add_task(encoded(new), new["visits"], task="Oslo", offset=np.log(new["years"].to_numpy()))
    assert_allclose(mmtfl.load(tmp_path / "more.mmtfl").coef_, own.coef_, rtol=1e-6)
    frame.drop(columns="years").to_csv(tmp_path / "t.csv", index=False)
    told = refusal(["predict", tmp_path / "m.mmtfl", tmp_path / "t.csv"], capsys)
    assert "no column 'years'" in told


KINDS = {"y": "squared", "visits": "poisson", "ill": "logistic"}


def test_a_loss_for_each_target_and_for_each_task_give_the_same(frame, tmp_path):
    by_kind = " ".join(f"{name}={kind}" for name, kind in KINDS.items())
    losses = f"--features age dose noise --alpha 0.2 --loss {by_kind}"
    one = fitted(tmp_path, frame, f"--target {' '.join(KINDS)} {losses}")
    rows = pd.concat([frame[["age", "dose", "noise"]].assign(kind=name, y=frame[name]) for name in KINDS])
    other = fitted(tmp_path, rows, f"--task kind --target y {losses}")
    assert dict(one.loss) == dict(other.loss) == KINDS
    by_label = [dict(zip(model.tasks_.tolist(), model.coef_, strict=True)) for model in (one, other)]
    for name in KINDS:
        assert_allclose(by_label[0][name], by_label[1][name], atol=1e-5)
    said = predicted(tmp_path).query("kind == 'ill'")["prediction"]
    assert ((said > 0.0) & (said < 1.0)).all()


def test_targets_of_two_kinds_are_found_from_their_columns(frame, tmp_path, capsys):
    words = "--target y ill --features age dose noise --alpha 0.05"
    fit = typed(tmp_path, frame, words, talk="")
    assert "'ill' has the values 0 and 1 only: fitted with the logistic loss" in run(fit, capsys).err
    assert mmtfl.load(tmp_path / "m.mmtfl").loss == {"ill": "logistic", "y": "squared"}
    chance = predicted(tmp_path)["prediction_ill"]
    assert chance.between(0.0, 1.0).all()
    assert chance[frame["ill"] == 1].mean() > chance[frame["ill"] == 0].mean() + 0.2
    assert run([*fit, "--regress -q"], capsys).err == ""
    assert mmtfl.load(tmp_path / "m.mmtfl").loss == "squared"
    worded = typed(tmp_path, frame.replace({"ill": {0: "no", 1: "yes"}}), words)
    assert "write the classes as 0 and 1" in refusal(worded, capsys)


def test_the_default_strength_is_that_of_the_loss(frame, tmp_path):
    model = fitted(tmp_path, frame, f"--task site {COUNTS} --features age dose")
    options = {"loss": "poisson", "standardize": True, "alphas": 2}
    top = mmtfl.path(frame[["age", "dose"]], frame["visits"], frame["site"], **options).alphas[0]
    assert_allclose(model.alpha, 0.1 * top, rtol=0.01)
