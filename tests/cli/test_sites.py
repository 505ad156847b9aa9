"""Three hospitals that keep their rows: agree, summarise, cv, fit, inspect, report, finish."""

import json

import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mmtfl
from mmtfl.cli.main import main
from mmtfl.datasets import make_hospitals
from mmtfl.tables.agreement import Agreement

SITES = {"one": ["Aker"], "two": ["Bern", "Delft"], "three": ["Cork"]}
FEATURES = ["age", "ward", "dose", "crp", "iron"]


def run(*words, code=0):
    assert main([str(word) for word in words]) == code


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The tables of the sites, the agreement, the summaries and the model of the centre."""
    place = tmp_path_factory.mktemp("sites")
    frame = make_hospitals(random_state=1).frame
    for name, own in SITES.items():
        frame[frame["hospital"].isin(own)].to_csv(place / f"{name}.csv", index=False)
    known = [name for own in SITES.values() for name in own]
    frame[frame["hospital"].isin(known)].to_csv(place / "all.csv", index=False)
    run(
        *("agree", place / "one.csv", "--task", "hospital", "--target", "stay", "--features", *FEATURES),
        *("--units", "age=years", "--folds", 3, "--least", 5, "-o", place / "agreed.json"),
    )
    for name in SITES:
        agreed = ["--columns", place / "agreed.json"]
        run("summarise", place / f"{name}.csv", *agreed, "-o", place / f"{name}.summary")
    options = ["--alphas", 12, "--tol", 1e-10, "-q"]
    run("cv", *sorted(place.glob("*.summary")), *options, "-o", place / "stay.mmtfl")
    return place


@pytest.fixture(scope="module")
def stacked(folder):
    """The same search on all rows in one place, in the agreed coding."""
    agreed = Agreement.load(folder / "agreed.json")
    tasks, _ = agreed.rows(pd.read_csv(folder / "all.csv"))
    X, y, task = tasks.to_rows()
    centre = mmtfl.load(folder / "stay.mmtfl")
    model = mmtfl.MMTFLRegressorCV(**centre.get_params())
    return model.fit(pd.DataFrame(X, columns=agreed.feature_names), y, task=task)


def test_the_centre_has_the_model_of_all_rows(folder, stacked):
    centre = mmtfl.load(folder / "stay.mmtfl")
    assert_allclose(centre.alpha_, stacked.alpha_, rtol=1e-8)
    assert_allclose(centre.coef_, stacked.coef_, rtol=1e-7, atol=1e-8)
    assert_allclose(centre.intercept_, stacked.intercept_, rtol=1e-8)
    here, there = stacked.effects(), centre.effects()
    assert_allclose(there["average"], here["average"], rtol=1e-7, atol=1e-8)
    assert_allclose(there["upper"], here["upper"], rtol=1e-7, atol=1e-8)


def test_show_is_plain(folder, capsys):
    run("summarise", "--show", folder / "two.summary")
    shown = capsys.readouterr().out
    assert "of 2 tasks: Bern, Delft." in shown
    assert "age: a number in years" in shown
    assert "Smallest cell: ward=" in shown
    run("summarise", "--show", folder / "two.summary", "--json")
    assert json.loads(capsys.readouterr().out)["labels"] == ["Bern", "Delft"]


def test_fit_inspect_and_report_work_on_summaries(folder, tmp_path, capsys):
    files = sorted(folder.glob("*.summary"))
    run("fit", *files, "--p", 2, "--k", 2, "-o", tmp_path / "one.mmtfl")
    assert "--alpha" in capsys.readouterr().err
    run("inspect", folder / "stay.mmtfl")
    assert "Aker" in capsys.readouterr().out
    run("report", folder / "stay.mmtfl", "-o", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_finish_gives_a_site_its_intervals_and_checks(folder, stacked, tmp_path, capsys):
    run("finish", folder / "stay.mmtfl", folder / "three.csv", "-o", tmp_path / "cork.mmtfl", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["task"] == ["Cork"]
    place = stacked.tasks_.tolist().index("Cork")
    assert_allclose(found["r2"], stacked.heldout_scores_["r2"][place], atol=1e-4)
    rows = pd.read_csv(folder / "three.csv")
    low, high = mmtfl.load(tmp_path / "cork.mmtfl").predict_interval(rows, task=rows["hospital"]).T
    inside = (rows["stay"] >= low) & (rows["stay"] <= high)
    assert 0.8 < inside.mean() < 1.0
    run("predict", tmp_path / "cork.mmtfl", folder / "three.csv", "--interval", 0.9, "-o", tmp_path / "p.csv")
    assert_allclose(pd.read_csv(tmp_path / "p.csv")["lower"], low, rtol=1e-9)
    capsys.readouterr()
    rows.iloc[30:].to_csv(tmp_path / "fewer.csv", index=False)
    run("finish", folder / "stay.mmtfl", tmp_path / "fewer.csv", "-o", tmp_path / "fewer.mmtfl")
    assert "not those of its summary" in capsys.readouterr().err


def test_a_site_may_name_its_columns_otherwise(folder, tmp_path):
    renamed = pd.read_csv(folder / "three.csv").rename(columns={"hospital": "clinic", "stay": "days"})
    renamed.to_csv(tmp_path / "own.csv", index=False)
    words = ["--columns", folder / "agreed.json", "--task", "clinic", "--target", "days"]
    run("summarise", tmp_path / "own.csv", *words, "-o", tmp_path / "own.summary")
    assert (tmp_path / "own.summary").read_bytes() == (folder / "three.summary").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("cv {}/one.summary --target stay", "--target does not go with summaries"),
        ("cv {}/one.summary --folds 5", "the sites agreed on 3"),
        ("cv {}/one.summary --loss huber", "another loss needs the rows"),
        ("cv {}/one.csv {}/two.csv --target stay", "2 tables were given"),
        ("cv {}/one.csv --task hospital", "cv needs --target"),
        ("cv {}/one.summary {}/one.csv", "is not a sound summary"),
        ("fit {}/one.summary --dask local", "--dask does not go with summaries"),
        ("finish {}/stay.mmtfl {}/one.csv --target nothing", "no column 'nothing'"),
        ("summarise {}/one.csv", "needs --columns"),
    ],
)
def test_what_does_not_go_is_refused_in_a_line(folder, tmp_path, capsys, words, said):
    run(*(word.format(folder) for word in words.split()), "-o", tmp_path / "never.mmtfl", code=2)
    assert said in capsys.readouterr().err
    assert not (tmp_path / "never.mmtfl").exists()


def test_a_second_summary_with_other_rows_is_refused(folder, capsys):
    rows = pd.read_csv(folder / "one.csv").iloc[1:]
    rows.to_csv(folder / "later.csv", index=False)
    words = ["--columns", folder / "agreed.json", "-o", folder / "later.summary"]
    run("summarise", folder / "later.csv", *words, code=2)
    assert "different summaries of task 'Aker'" in capsys.readouterr().err
    assert not (folder / "later.summary").exists()


def test_codes_of_missing_cells_are_agreed_on(folder, tmp_path):
    rows = pd.read_csv(folder / "one.csv")
    gaps = rows.assign(iron=rows["iron"].where(rows.index % 9 > 0))
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    gaps.fillna({"iron": -999}).to_csv(tmp_path / "coded.csv", index=False)
    words = ["--task", "hospital", "--target", "stay", "--features", *FEATURES, "--folds", 2]
    run("agree", tmp_path / "coded.csv", *words, "--missing", -999, "-o", tmp_path / "agreed.json")
    for name in ("gaps", "coded"):
        (tmp_path / name).mkdir()
        agreed = ["--columns", tmp_path / "agreed.json", "-o", tmp_path / name / "aker.summary"]
        run("summarise", tmp_path / f"{name}.csv", *agreed)
    found = [(tmp_path / name / "aker.summary").read_bytes() for name in ("gaps", "coded")]
    assert found[0] == found[1]


def test_too_few_rows_leave_no_file(folder, tmp_path, capsys):
    pd.read_csv(folder / "one.csv").head(30).to_csv(tmp_path / "few.csv", index=False)
    words = ["--columns", folder / "agreed.json", "-o", tmp_path / "few.summary"]
    run("summarise", tmp_path / "few.csv", *words, code=2)
    assert "Task 'Aker' has" in capsys.readouterr().err
    assert not (tmp_path / "few.summary").exists()


def test_agree_takes_as_many_folds_as_its_table_allows(folder, tmp_path):
    words = ["--task", "hospital", "--target", "stay", "--features", "age", "dose"]
    pd.read_csv(folder / "one.csv").head(25).to_csv(tmp_path / "few.csv", index=False)
    run("agree", tmp_path / "few.csv", *words, "-o", tmp_path / "agreed.json")
    assert Agreement.load(tmp_path / "agreed.json").folds == 2
    run("agree", folder / "one.csv", *words, "-o", tmp_path / "more.json")
    assert Agreement.load(tmp_path / "more.json").folds == 5
