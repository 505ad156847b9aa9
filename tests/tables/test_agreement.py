"""Agreements of sites: nothing of a row in them, one coding everywhere, and refusals where few rows show."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mmtfl import Tasks
from mmtfl.model_selection import TaskKFold
from mmtfl.tables.agreement import Agreement, describe

N = 120


def table(names=("Aker", "Bern"), n=N, seed=0):
    """Rows of some hospitals with numbers, gaps, words and dates."""
    rng = np.random.default_rng(seed)
    rows = n * len(names)
    age = rng.normal(60, 10, size=rows)
    frame = pd.DataFrame(
        {
            "hospital": rng.permutation(np.repeat(names, n)),
            "age": np.where(rng.random(rows) < 0.1, np.nan, age),
            "ward": np.array(["medicine", "surgery", "intensive"])[rng.choice(3, rows, p=[0.5, 0.3, 0.2])],
            "admitted": pd.Timestamp("2023-03-07") + pd.to_timedelta(rng.integers(0, 300, rows), "D"),
        }
    )
    return frame.assign(stay=0.1 * age + (frame["ward"] == "surgery") + rng.normal(size=rows))


def agreement(frame, **options):
    given = {"task": "hospital", "target": "stay", "folds": 3, "least_rows": 3, **options}
    return Agreement.propose(frame, **given)


def test_an_agreement_survives_its_file_and_explains_every_field(tmp_path):
    agreed = agreement(table(), units={"age": "years"}, missing=[-999])
    agreed.save(tmp_path / "agreed.json")
    assert Agreement.load(tmp_path / "agreed.json") == agreed
    saved = json.loads((tmp_path / "agreed.json").read_text())
    fields = {*saved, *(name for column in saved["columns"] for name in column)}
    assert fields - {"format", "explained", "name", "kind"} <= set(saved["explained"])


@pytest.mark.parametrize("spoilt", ["", "[]", '{"format": "mmtfl agreement 1"}', '{"format": "x"}'])
def test_a_file_that_is_no_agreement_is_refused(tmp_path, spoilt):
    (tmp_path / "agreed.json").write_text(spoilt)
    with pytest.raises(ValueError, match="is not an agreement of sites"):
        Agreement.load(tmp_path / "agreed.json")


def test_an_agreement_has_no_value_of_a_row(tmp_path):
    frame = table()
    agreement(frame).save(tmp_path / "agreed.json")
    content = (tmp_path / "agreed.json").read_text()
    for value in [*frame["age"].dropna(), *frame["stay"]]:
        assert repr(float(value)) not in content
    first = (frame["admitted"].min() - pd.Timestamp("1970-01-01")).days
    assert str(first) not in content
    assert "2023-03" not in content


def test_a_site_codes_its_table_by_the_agreement_with_its_own_medians():
    agreed, other = agreement(table()), table(["Cork"], seed=5)
    tasks, fold = agreed.rows(other)
    assert tasks.feature_names == ("age", "ward=intensive", "ward=surgery", "admitted")
    median = np.nanmedian(other["age"])
    assert_allclose(tasks.X[:, 0], other["age"].fillna(median))
    assert_allclose(tasks.X[:, 2], other["ward"] == "surgery")
    assert_allclose(tasks.X[:, 3], (other["admitted"] - pd.Timestamp("2023-01-01")).dt.days)
    assert_array_equal(np.bincount(fold), [40, 40, 40])
    again, _ = agreed.rows(pl.from_pandas(other))
    assert_array_equal(again.X, tasks.X)


def test_sites_cut_their_rows_as_a_search_on_all_rows_would():
    names = ("Aker", "Bern", "Cork")
    frame = table(names)
    agreed = agreement(frame, seed=7)
    splitter = TaskKFold(3, random_state=7)
    expected = np.empty(len(frame), dtype=int)
    for k, (_, test) in enumerate(splitter.split(frame, task=frame["hospital"])):
        expected[test] = k
    for name in names:
        own = np.flatnonzero(frame["hospital"] == name)
        assert_array_equal(agreed.rows(frame.iloc[own])[1], expected[own])


def test_labels_that_are_numbers_stay_numbers():
    frame = table().assign(hospital=lambda f: np.where(f["hospital"] == "Aker", "12", "7"))
    agreed = agreement(frame)
    assert agreed.summarise(frame).labels == [7, 12]
    with pytest.raises(ValueError, match="is 'x' in data row 1, but tasks are known by whole numbers"):
        agreed.summarise(frame.assign(hospital="x"))
    assert Tasks.from_summaries([agreed.summarise(frame)]).labels.tolist() == [7, 12]


# -- refusals ------------------------------------------------------------------------------------------------


ROWS = np.arange(N)
RARE = [  # columns of a site in which single rows could be told apart
    ({}, 29, 10, "Task 'Cork' has 9 rows in a fold, and the agreement asks for at least 10"),
    ({"ward": np.where(ROWS < 6, "surgery", "medicine")}, N, 5, "differ from the rest in 'ward=surgery'"),
    # the reference too
    ({"ward": np.select([ROWS < 6, ROWS % 2 == 1], ["medicine", "surgery"], "intensive")}, N, 5,
     "rows differ from the rest in 'ward=medicine'"),
    # sums over such a column are those of the one row that differs
    ({"age": np.where(ROWS == 9, 81.0, 0.0)}, N, 3, "only 1 of 40 rows differ from the rest in 'age'"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "n", "least_rows", "told"), RARE)
def test_what_would_tell_single_rows_apart_is_refused(columns, n, least_rows, told):
    with pytest.raises(ValueError, match=told):
        agreement(table(), least_rows=least_rows).summarise(table(["Cork"], n=n).assign(**columns))


def test_numbers_that_hardly_repeat_are_no_cells():
    agreed, frame = agreement(table(), least_rows=10, features=["age", "admitted"]), table(["Cork"], n=30)
    assert agreed.summarise(frame.assign(age=np.arange(30.0) // 2)).n_rows.tolist() == [[10, 10, 10]]


def test_an_analyst_cannot_slip_a_column_in(tmp_path):
    frame = table()
    agreement(frame).save(tmp_path / "agreed.json")
    saved = json.loads((tmp_path / "agreed.json").read_text())
    saved["columns"].append({"name": "age == 81", "kind": "number", "fill": 0.0, "indicated": False})
    (tmp_path / "changed.json").write_text(json.dumps(saved))
    with pytest.raises(ValueError, match="no column 'age == 81'"):
        Agreement.load(tmp_path / "changed.json").summarise(frame)


# -- in words ------------------------------------------------------------------------------------------------


def test_the_words_tell_counts_columns_and_the_smallest_cell():
    frame = table(["Aker"])
    summary = agreement(frame, units={"age": "years"}).summarise(frame.assign(admitted="2023-05-01"))
    text = "\n".join(describe(summary))
    tasks, fold = agreement(frame).rows(frame)
    smallest = min(int(tasks.X[fold == k, j].sum()) for k in range(3) for j in (1, 2))
    assert f"({smallest} rows)" in text
    assert "age: a number in years" in text
    assert "120 rows of 1 task: Aker" in text
    assert "the value of every row is known: admitted in task 'Aker'" in text


def test_knots_are_rounded_and_refused_where_few_rows_are_between_them():
    frame = table(n=300)
    agreed = agreement(frame, curves=["age"], least_rows=10)
    at = agreed.knots["age"]
    assert len(at) == 4
    assert not np.isin(at, frame["age"]).any()
    assert all(value == round(value) for value in at)
    summary = agreed.summarise(frame)
    assert summary.columns[-3:] == ("curve 1 of age", "curve 2 of age", "stay")
    assert "age, as a curve: 2 columns more" in "\n".join(describe(summary))
    old = frame.assign(age=np.where(np.arange(len(frame)) % 40 == 0, 90.0, 40.0 + np.arange(len(frame)) % 13))
    with pytest.raises(ValueError, match="of 'age' beyond the knot"):
        agreed.summarise(old)
