"""The command line on tables: from a file to a model, to predictions, to what it says about them."""

import io
import json

import numpy as np
import pandas as pd
import pytest

import mmtfl
from cli.site_table import fit, make_frame
from cli.typed import refusal, run
from mmtfl import MMTFLRegressor

# -- fit and cv --------------------------------------------------------------------------------------------


def test_columns_come_back_as_they_were(folder, tmp_path, capsys):
    data = tmp_path / "new.csv"
    data.write_text(
        '\ufeff"",site,note,age,dose,noise,colour\r\n'
        '1,Bern,"=cmd(), ""x""\n2",50.50,1e0,00.10,red\r\n'
        "2,Cork,NA,+40,-1,0,blue\r\n",
        encoding="utf-8",
        newline="",
    )
    out, err = run(["predict", folder / "model.mmtfl", data, "-q"], capsys)
    assert err == ""
    found = pd.read_csv(io.StringIO(out), dtype=str, keep_default_na=False)
    assert out.splitlines()[0] == ",site,note,age,dose,noise,colour,prediction"
    assert found.iloc[0, :7].tolist() == ["1", "Bern", '=cmd(), "x"\n2', "50.50", "1e0", "00.10", "red"]
    assert found.iloc[1, :4].tolist() == ["2", "Cork", "NA", "+40"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".feather"])
def test_predictions_by_suffix(folder, tmp_path, capsys, suffix):
    from mmtfl.tables.reading import read_table

    data, output = tmp_path / "data.parquet", tmp_path / f"out{suffix}"
    frame = make_frame(20, seed=1).drop(columns="y")
    frame.to_parquet(data)
    out, err = run(["predict", folder / "model.mmtfl", data, "-o", output], capsys)
    assert out == "" and "20 rows, prediction" in err
    found = read_table(output)
    pd.testing.assert_frame_equal(found[frame.columns], frame, check_dtype=False)
    model = mmtfl.load(folder / "model.mmtfl")
    expected = model.predict(frame)
    np.testing.assert_array_equal(found["prediction"], expected)


def test_a_target_of_zeros_and_ones_is_two_classes_unless_told(tmp_path, capsys):
    frame = make_frame()
    frame["y"] = (frame["y"] > frame["y"].median()).astype(int)
    frame.to_csv(tmp_path / "a.csv", index=False)
    _, err = run(fit(tmp_path / "a.csv", tmp_path / "a.mmtfl", "--alpha", "0.05"), capsys)
    assert "note: target 'y' has the values 0 and 1 only: taken for two classes (--regress" in err
    assert mmtfl.load(tmp_path / "a.mmtfl").classes_.tolist() == [0, 1]
    run(fit(tmp_path / "a.csv", tmp_path / "b.mmtfl", "--alpha", "0.05", "--regress"), capsys)
    assert not hasattr(mmtfl.load(tmp_path / "b.mmtfl"), "classes_")


@pytest.mark.parametrize("name", ["auc", "neg_log_loss"])
def test_classes_are_searched_by_the_score_asked_for(folder, tmp_path, capsys, name):
    free = f"--pk 2,2 --folds 3 --alphas 3 --levels free --scoring {name}"
    out, _ = run(fit(folder / "classes.csv", tmp_path / "a.mmtfl", free, command="cv"), capsys)
    model = mmtfl.load(tmp_path / "a.mmtfl")
    table = model.heldout_scores_
    # with free levels, one row of a class is never held out
    assert np.isnan(table["auc"][table["task"] == "Bern"])
    assert " over all pairs within 2 sites; mean accuracy " in out
    base = f"(always the commoner class: {table['base_rate'].mean():.3f})"
    assert f"mean accuracy {table['accuracy'].mean():.3f} {base}" in out
    assert f"Held-out score ({name}): {model.best_score_:.4g}, mean of 3 folds" in out
    assert model.scoring == name


def test_classes_of_several_targets_keep_their_names(tmp_path, capsys):
    frame = make_frame().drop(columns=["site", "colour"])
    frame["ill"] = np.where(frame["y"] > 10, "yes", "no")
    frame["old"] = np.where(frame["age"] > 50, "yes", "no")
    frame["tall"] = np.where(frame["dose"] > 0, "tall", "short")
    frame["size"] = np.where(frame["noise"] > 1, "large", frame["tall"])
    frame.to_csv(tmp_path / "a.csv", index=False)
    words = ["fit", tmp_path / "a.csv", "--features age dose --target ill --force -o", tmp_path / "m.mmtfl"]
    run([*words, "--target old --alpha 0.01"], capsys)
    assert "speak for 'yes' against 'no'" in run(["inspect", tmp_path / "m.mmtfl"], capsys).out
    found = pd.read_csv(io.StringIO(run(["predict", tmp_path / "m.mmtfl", tmp_path / "a.csv"], capsys).out))
    assert (found["prediction_old"] == frame["old"]).mean() > 0.9
    assert ((found["probability_old"] > 0.5) == (found["prediction_old"] == "yes")).all()
    assert "Targets 'ill', 'tall' have different classes" in refusal([*words, "--target tall"], capsys)
    assert "Target 'size' has 3 classes" in refusal([*words, "--target size"], capsys)


def test_empty_cells_are_filled_or_refused_and_rows_without_a_target_left_out(tmp_path, capsys):
    frame = make_frame()
    frame.loc[[1, 2], "y"] = np.nan
    frame.loc[[3], "site"] = None
    frame.loc[[4, 5], "age"] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False)
    tokens = fit(tmp_path / "a.csv", tmp_path / "a.mmtfl", "--alpha", "0.1")
    err = refusal([*tokens, "--impute", "error"], capsys)
    assert "'age' has 2 missing cells" in err and "--impute median" in err
    out, err = run(tokens, capsys)
    assert "note: 3 rows without 'y', 'site' left out" in err
    assert "Missing numbers are filled with the median: 'age' (2 cells)." in out
    model = mmtfl.load(tmp_path / "a.mmtfl")
    assert model.provenance_["rows"] == 117
    kept = frame[frame["y"].notna() & frame["site"].notna()]
    filled = kept.assign(age=kept["age"].fillna(kept.groupby("site")["age"].transform("median")))
    np.testing.assert_allclose(model.predict(kept), model.predict(filled))
    page = ["report", tmp_path / "a.mmtfl", tmp_path / "a.csv", "-o", tmp_path / "a.html"]
    assert "note: 3 rows without 'y', 'site' left out" in run(page, capsys).err


def test_codes_of_missing_cells_are_remembered_by_the_model(tmp_path, capsys):
    frame = make_frame()
    frame.loc[3:20, "age"] = -999
    frame.to_csv(tmp_path / "a.csv", index=False)
    run(fit(tmp_path / "a.csv", tmp_path / "a.mmtfl", "--alpha", "0.1", "--missing", "-999"), capsys)
    out, _ = run(["predict", tmp_path / "a.mmtfl", tmp_path / "a.csv"], capsys)
    frame["age"] = frame["age"].replace(-999, np.nan)
    found = pd.read_csv(io.StringIO(out))["prediction"]
    np.testing.assert_allclose(found, mmtfl.load(tmp_path / "a.mmtfl").predict(frame))
    assert found.max() - found.min() < 40


def test_a_table_without_a_task_and_a_copy_of_the_target_are_told(tmp_path, capsys):
    frame = make_frame().assign(score=lambda table: 3.0 * table["y"] + 1.0)
    frame.to_csv(tmp_path / "a.csv", index=False)
    tokens = ["fit", tmp_path / "a.csv", "--target", "y", "-o", tmp_path / "a.mmtfl"]
    err = run(tokens, capsys).err
    places = "Columns that look like places or people: site (3), colour (3)."
    assert f"No --task: one model for all rows. {places}" in err
    assert "'score' tells 'y' nearly exactly (R^2 1 within tasks): likely a copy" in err


def test_cv_says_what_it_did_in_twelve_lines(tmp_path, capsys):
    frame = make_frame(200).assign(
        patient=range(200),
        country="CH",
        seen=pd.date_range("2024-01-01", periods=200).strftime("%d.%m.%Y"),
        town=[f"town {i % 40}" for i in range(200)],
        sex=np.where(np.arange(200) % 9 == 0, "?", "f"),
    )
    frame["dose"] = [f"{x:.3f}" for x in frame["dose"]]
    frame.loc[7, "dose"] = "x5"
    frame.loc[:30, "noise"] = np.nan
    frame.to_csv(tmp_path / "a.csv", index=False, sep=";")
    tokens = fit(tmp_path / "a.csv", tmp_path / "m.mmtfl", "--alphas", "5", "--folds", "3", command="cv")
    out, err = run(tokens, capsys)
    assert len(out.splitlines()) <= 12
    assert out.startswith("Read a.csv: 200 rows of 3 sites, 6 columns to predict y.\n")
    for words in ("'patient' (whole", "'country' (one value", "'town' (no level has 10 rows)", "'x5' in row"):
        assert words in out
    assert "Next: mmtfl report" in out.splitlines()[-1]
    assert "Warning" not in err


def test_the_strength_is_chosen_and_told_where_it_is_not_given(folder, tmp_path, capsys):
    _, err = run(fit(folder / "data.csv", tmp_path / "a.mmtfl"), capsys)
    assert "a tenth of what drops every feature" in err
    assert np.count_nonzero(mmtfl.load(tmp_path / "a.mmtfl").c_) > 0


def test_a_fit_that_did_not_converge_is_saved_and_exit_code_3(folder, tmp_path, capsys):
    more = ["--alpha", "0.01", "--max-iter", "1", "--tol", "1e-12", "-q"]
    _, err = run(fit(folder / "data.csv", tmp_path / "a.mmtfl", *more), capsys, code=3)
    assert len(err.splitlines()) == 1
    assert "raise --max-iter (now 1), or loosen --tol" in err
    assert not mmtfl.load(tmp_path / "a.mmtfl").converged_
    assert "Did not converge" in run(["inspect", tmp_path / "a.mmtfl"], capsys).out


def test_what_was_run_is_kept(folder):
    import hashlib

    model = mmtfl.load(folder / "model.mmtfl")
    kept = model.provenance_
    assert kept["command"] == "mmtfl fit data.csv --task site --target y -o model.mmtfl --alpha 0.1 -q"
    assert kept["data"] == "data.csv" and (kept["rows"], kept["columns"]) == (120, 6)
    assert kept["sha256"] == hashlib.sha256((folder / "data.csv").read_bytes()).hexdigest()
    assert kept["versions"]["mmtfl"] == mmtfl.__version__
    assert kept["time"].endswith("+00:00")
    assert str(folder) not in json.dumps(kept)
    assert model.verbose == 0


# -- inspect, report, datasets -----------------------------------------------------------------------------


def test_inspect_tells_what_is_shared(folder, capsys):
    out, err = run(["inspect", folder / "model.mmtfl"], capsys)
    assert err == "" and "\x1b" not in out
    assert "Regression of 3 sites on 5 features: (p, k) = (2, 1), alpha 0.1" in out
    line = next(line for line in out.splitlines() if line.strip().startswith("age"))
    assert "all 3 sites" in line and "100%" in line
    learned = mmtfl.load(folder / "model.mmtfl")
    slopes = learned.coef_[:, learned.feature_names_in_.tolist().index("age")]
    assert f" {slopes.mean():.4g} ({slopes.min():.4g} to {slopes.max():.4g}) " in line
    assert "With p = 2 a kept feature is used by every site by construction" in out
    assert any(line.strip().startswith("Århus") for line in out.splitlines())


def test_inspect_shows_the_coefficients_of_a_task(folder, capsys):
    out, _ = run(["inspect", folder / "model.mmtfl", "--task", "Bern", "--json"], capsys)
    found = json.loads(out)["coefficients"]
    assert {row["task"] for row in found} == {"Bern"}
    out, _ = run(["inspect", folder / "model.mmtfl", "--task", "Bern", "--top", "1"], capsys)
    assert "Site Bern" in out and "1 of" in out


def test_the_report_is_titled_as_asked_or_by_target_and_task(folder, tmp_path, capsys):
    page, model = tmp_path / "page.html", folder / "model.mmtfl"
    run(["report", model, "-o", page, "--title", "<b>Mine</b>"], capsys)
    assert "<title>&lt;b&gt;Mine&lt;/b&gt;</title>" in page.read_text(encoding="utf-8")
    run(["report", model, "-o", page, "--force"], capsys)
    recipe = mmtfl.load(model).recipe_
    expected = f"<title>{recipe.target_columns[0]}, by {recipe.task_column}</title>"
    assert expected in page.read_text(encoding="utf-8")


def test_a_task_column_with_too_many_labels_is_told(folder, tmp_path, capsys):
    tokens = ["fit", folder / "data.csv", "--task", "age", "--target", "y", "-o", tmp_path / "a.mmtfl"]
    assert "labels in 120 rows: is it the task column?" in run(tokens, capsys).err


def test_datasets_are_listed_and_written(tmp_path, capsys):
    out, _ = run(["datasets"], capsys)
    assert "d1" in out and "hospitals" in out
    sizes = {entry["name"]: entry for entry in json.loads(run(["datasets", "--json"], capsys).out)}
    for name in ("d1", "d2", "tasks"):
        run(["datasets", name, "-o", tmp_path / f"{name}.csv", "--seed", "3"], capsys)
        frame = pd.read_csv(tmp_path / f"{name}.csv")
        found = (len(frame), frame["task"].nunique(), frame.shape[1] - 2)
        assert found == tuple(sizes[name][size] for size in ("rows", "tasks", "features"))
    expected = mmtfl.datasets.make_d1(random_state=3)
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "d1.csv")["y"], expected.y)


def test_json_of_every_command(folder, tmp_path, capsys):
    found = json.loads(run(fit(folder / "data.csv", tmp_path / "a.mmtfl", "--json", "-q"), capsys).out)
    assert found["output"].endswith("a.mmtfl") and found["n_tasks"] == 3
    found = json.loads(run(["predict", folder / "model.mmtfl", folder / "data.csv", "--json"], capsys).out)
    assert found["rows"] == len(found["prediction"]) == 120
    tokens = ["predict", folder / "model.mmtfl", folder / "data.csv", "--json", "-o", tmp_path / "p.csv"]
    assert json.loads(run(tokens, capsys).out)["columns"] == ["prediction"]
    found = json.loads(run(["datasets", "d1", "-o", tmp_path / "d1.csv", "--json"], capsys).out)
    assert found["targets"] == ["y"]


@pytest.mark.parametrize("command", ["fit", "cv", "predict", "inspect", "report", "datasets"])
def test_every_command_has_an_example_that_runs(command, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, _ = run([command, "--help"], capsys)
    lines = [line.split() for line in out.splitlines() if line.startswith("  mmtfl ")]
    assert any(words[1] == command for words in lines)
    for words in lines:
        run(words[1:], capsys)


def test_help_has_two_lengths(capsys):
    short, whole = (run(["cv", word], capsys).out for word in ("--help", "--help-all"))
    assert len(short.splitlines()) < 60 < 100 < len(whole.splitlines())
    assert "--help-all lists every option" in short
    for option in ("--task", "--reference", "--output"):
        assert option in short and option in whole
    assert "--penalty-weight" in whole and "--penalty-weight" not in short


# -- models made in Python -----------------------------------------------------------------------------------


def test_a_model_made_in_python_predicts_tables(tmp_path, capsys):
    frame = make_frame().drop(columns="colour")
    X, y, task = frame[["age", "dose", "noise"]], frame["y"], frame["site"]
    model = MMTFLRegressor(alpha=0.1).fit(X, y, task=task.to_numpy())
    model.save(tmp_path / "m.mmtfl")
    frame.to_csv(tmp_path / "a.csv", index=False)
    tokens = ["predict", tmp_path / "m.mmtfl", tmp_path / "a.csv"]
    assert "name their column by --task" in refusal(tokens, capsys)
    out, _ = run([*tokens, "--task", "site"], capsys)
    np.testing.assert_allclose(
        pd.read_csv(io.StringIO(out))["prediction"], model.predict(X, task=task.to_numpy())
    )
    named = MMTFLRegressor(alpha=0.1, task_column="site").fit(frame.drop(columns="y"), y)
    named.save(tmp_path / "m.mmtfl")
    assert "Sites (" in run(["inspect", tmp_path / "m.mmtfl"], capsys).out
    found = pd.read_csv(io.StringIO(run(tokens, capsys).out))["prediction"]
    np.testing.assert_allclose(found, named.predict(frame.drop(columns="y")))
    Y = frame[["y", "age"]].rename(columns={"age": "z"})
    several = MMTFLRegressor(alpha=0.1).fit(X, Y)
    several.save(tmp_path / "m.mmtfl")
    found = pd.read_csv(io.StringIO(run(tokens, capsys).out))[["prediction_y", "prediction_z"]]
    np.testing.assert_allclose(found, several.predict(X))
    MMTFLRegressor(alpha=0.1).fit(X.to_numpy(), y).save(tmp_path / "array.mmtfl")
    assert "array without names" in refusal(["predict", tmp_path / "array.mmtfl", tmp_path / "a.csv"], capsys)
    tokens = ["report", tmp_path / "m.mmtfl", tmp_path / "a.csv", "-o", tmp_path / "r.html"]
    assert "does not know its target" in refusal(tokens, capsys)


@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_carriage_return_in_a_cell_is_no_end_of_a_row(separator):
    from mmtfl.cli.output import _as_csv

    frame = pd.DataFrame({"name": ["a\rb", "c\r\nd", 'e"f', ""], "y": [1.5, -2.0, 0.0, 4.0]})
    read = pd.read_csv(
        io.StringIO(_as_csv(frame, separator), newline=""), sep=separator, keep_default_na=False
    )
    pd.testing.assert_frame_equal(read, frame)
