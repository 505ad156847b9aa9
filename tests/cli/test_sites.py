"""Three hospitals that keep their rows: agree, summarise, cv, fit, inspect, report, finish."""

import json

import pandas as pd
import pytest
from numpy.testing import assert_allclose

import mmtfl
from cli.typed import refusal, run
from mmtfl.datasets import make_hospitals
from mmtfl.tables.agreement import Agreement

SITES = {"one": ["Aker"], "two": ["Bern", "Delft"], "three": ["Cork"]}
AGREE = "--task hospital --target stay --features age ward dose crp iron"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The tables of the sites, the agreement, the summaries and the model of the centre."""
    place = tmp_path_factory.mktemp("sites")
    frame = make_hospitals(random_state=1).frame
    for name, own in SITES.items():
        frame[frame["hospital"].isin(own)].to_csv(place / f"{name}.csv", index=False)
    run(
        ["agree", place / "one.csv", AGREE, "--units age=years --folds 3 --least 5 -o", place / "agreed.json"]
    )
    for name in SITES:
        run(summarise(place, place / f"{name}.csv", place / f"{name}.summary"))
    run(["cv", *sorted(place.glob("*.summary")), "--alphas 12 --tol 1e-10 -q -o", place / "stay.mmtfl"])
    return place


def summarise(folder, table, output):
    return ["summarise", table, "--columns", folder / "agreed.json", "-o", output]


def test_show_is_plain(folder, capsys):
    shown = run(["summarise --show", folder / "two.summary"], capsys).out
    assert "of 2 tasks: Bern, Delft." in shown
    assert "age: a number in years" in shown
    assert "Smallest cell: ward=" in shown
    shown = run(["summarise --show", folder / "two.summary", "--json"], capsys).out
    assert json.loads(shown)["labels"] == ["Bern", "Delft"]


def test_fit_inspect_and_report_work_on_summaries(folder, tmp_path, capsys):
    files = sorted(folder.glob("*.summary"))
    assert "--alpha" in run(["fit", *files, "--p 2 --k 2 -o", tmp_path / "one.mmtfl"], capsys).err
    assert "Aker" in run(["inspect", folder / "stay.mmtfl"], capsys).out
    run(["report", folder / "stay.mmtfl", "-o", tmp_path / "page.html"], capsys)
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_finish_gives_a_site_its_intervals_and_checks(folder, tmp_path, capsys):
    finish = ["finish", folder / "stay.mmtfl"]
    out = run([*finish, folder / "three.csv", "-o", tmp_path / "cork.mmtfl", "--json"], capsys).out
    found, centre = json.loads(out), mmtfl.load(folder / "stay.mmtfl")
    assert found["task"] == ["Cork"]
    assert_allclose(found["r2"], centre.heldout_scores_["r2"][centre.tasks_ == "Cork"], atol=1e-4)
    rows = pd.read_csv(folder / "three.csv")
    low, high = mmtfl.load(tmp_path / "cork.mmtfl").predict_interval(rows, task=rows["hospital"]).T
    assert 0.8 < rows["stay"].between(low, high).mean() < 1.0
    predict = [
        "predict",
        tmp_path / "cork.mmtfl",
        folder / "three.csv",
        "--interval 0.9 -o",
        tmp_path / "p.csv",
    ]
    run(predict, capsys)
    assert_allclose(pd.read_csv(tmp_path / "p.csv")["lower"], low, rtol=1e-9)
    rows.iloc[30:].to_csv(tmp_path / "fewer.csv", index=False)
    told = run([*finish, tmp_path / "fewer.csv", "-o", tmp_path / "fewer.mmtfl"], capsys).err
    assert "not those of its summary" in told


def test_a_site_may_name_its_columns_otherwise(folder, tmp_path):
    renamed = pd.read_csv(folder / "three.csv").rename(columns={"hospital": "clinic", "stay": "days"})
    renamed.to_csv(tmp_path / "own.csv", index=False)
    own = summarise(folder, tmp_path / "own.csv", tmp_path / "own.summary")
    run([*own, "--task clinic --target days"])
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
        ("summarise {}/few.csv --columns {}/agreed.json", "Task 'Aker' has"),
        ("summarise {}/later.csv --columns {}/agreed.json", "different summaries of task 'Aker'"),
    ],
)
def test_what_does_not_go_is_refused_in_a_line(folder, capsys, words, said):
    rows = pd.read_csv(folder / "one.csv")
    rows.head(30).to_csv(folder / "few.csv", index=False)
    rows.iloc[1:].to_csv(folder / "later.csv", index=False)
    assert said in refusal([words.replace("{}", str(folder)), "-o", folder / "never.summary"], capsys)
    assert not (folder / "never.summary").exists()


def test_codes_of_missing_cells_are_agreed_on(folder, tmp_path):
    rows = pd.read_csv(folder / "one.csv")
    gaps = rows.assign(iron=rows["iron"].where(rows.index % 9 > 0))
    gaps.to_csv(tmp_path / "gaps.csv", index=False)
    gaps.fillna({"iron": -999}).to_csv(tmp_path / "coded.csv", index=False)
    run(["agree", tmp_path / "coded.csv", AGREE, "--folds 2 --missing -999 -o", tmp_path / "agreed.json"])
    for name in ("gaps", "coded"):
        (tmp_path / name).mkdir()
        run(summarise(tmp_path, tmp_path / f"{name}.csv", tmp_path / name / "aker.summary"))
    found = [(tmp_path / name / "aker.summary").read_bytes() for name in ("gaps", "coded")]
    assert found[0] == found[1]


def test_agree_takes_as_many_folds_as_its_table_allows(folder, tmp_path):
    pd.read_csv(folder / "one.csv").head(25).to_csv(tmp_path / "few.csv", index=False)
    for table, folds in ((tmp_path / "few.csv", 2), (folder / "one.csv", 5)):
        words = "--task hospital --target stay --features age dose --force -o"
        run(["agree", table, words, tmp_path / "agreed.json"])
        assert Agreement.load(tmp_path / "agreed.json").folds == folds
