"""Columns that become curves: the basis, what the recipe keeps of it, and what the report draws."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import BSpline

import mmtfl
from cli.test_tables import refusal, run
from mmtfl.report.curved_effects import curved_effects
from mmtfl.tables.column_encoding import learn_knots, n_functions, spline_basis
from mmtfl.tables.reading import TableError
from mmtfl.tables.recipe import TableRecipe

KNOTS = (0.0, 1.0, 2.5, 4.0, 10.0)


def test_the_basis_is_that_of_cubic_splines_but_for_a_constant():
    x = np.linspace(0.0, 10.0, 41)
    basis = np.column_stack([np.ones(41), spline_basis(x, KNOTS)])
    assert basis.shape == (41, n_functions(KNOTS) + 1)
    # scikit-learn goes on with equal steps beyond the ends; any cubic spline with these knots is in the span
    ends = np.array([-3.0, -2.0, -1.0, *KNOTS, 16.0, 22.0, 28.0])
    for i in range(len(ends) - 4):
        one = BSpline.basis_element(ends[i : i + 5], extrapolate=False)(x)
        one = np.nan_to_num(one)
        rest = one - basis @ np.linalg.lstsq(basis, one, rcond=None)[0]
        assert abs(rest).max() < 1e-8


def test_the_basis_is_straight_beyond_the_knots():
    x = np.array([10.0, 12.0, 14.0, 30.0])
    steps = np.diff(spline_basis(x, KNOTS), axis=0) / np.diff(x)[:, None]
    assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), atol=1e-9)


def test_knots_are_quantiles_and_differ_also_where_values_pile_up():
    rng = np.random.default_rng(0)
    x = rng.normal(size=500)
    assert_allclose(learn_knots(x, "x"), np.quantile(x, [0, 0.25, 0.5, 0.75, 1]))
    piled = np.where(rng.uniform(size=500) < 0.9, 0.0, x)
    knots = learn_knots(piled, "x")
    assert len(knots) >= 3
    assert np.all(np.diff(knots) > 0)
    with pytest.raises(TableError, match="'x' has 2 different values, too few for a curve"):
        learn_knots(np.array([0.0, 1.0, 1.0]), "x")


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 90, 240).round(1), "sex": rng.integers(2, size=240)})
    frame["site"] = rng.choice(["a", "b"], 240)
    frame["ward"] = rng.choice(["x", "y", "z"], 240)
    frame["stay"] = (3.0 * np.sin(frame["age"] / 12) + 0.3 * rng.normal(size=240)).round(3)
    return frame


def test_all_curves_numbers_with_enough_values_and_a_column_is_a_group(table):
    recipe = TableRecipe.learn(table, task="site", target="stay", splines=["all"])
    ages = [f"age~{i}" for i in range(1, 7)]
    assert recipe.feature_names == [*ages, "sex", "ward=x", "ward=y", "ward=z"]
    assert recipe.feature_groups == [ages, ["ward=x", "ward=y", "ward=z"]]
    assert TableRecipe.from_dict(recipe.as_dict()) == recipe
    with pytest.raises(TableError, match="--splines names 'agee', which is no feature: did you mean 'age'"):
        TableRecipe.learn(table, task="site", target="stay", splines=["agee"])
    with pytest.raises(TableError, match="Column 'ward' does not hold numbers: leave it out of --splines"):
        TableRecipe.learn(table, task="site", target="stay", splines=["ward"])
    damaged = recipe.as_dict()
    damaged["features"][0]["knots"] = [3.0, 2.0, 1.0]
    with pytest.raises(TableError, match="do not rise"):
        TableRecipe.from_dict(damaged)


def test_a_curve_predicts_what_no_line_can_and_the_report_draws_it(table, tmp_path, capsys):
    table.to_csv(tmp_path / "t.csv", index=False)
    words = ["cv", tmp_path / "t.csv", "--task", "site", "--target", "stay", "--pk", "2,1", "--alphas", "10"]
    words += ["--poolings", "0", "--folds", "3", "-q"]
    run([*words, "-o", tmp_path / "line.mmtfl"], capsys)
    run([*words, "-o", tmp_path / "curve.mmtfl", "--splines", "age"], capsys)
    line, curve = (mmtfl.load(tmp_path / f"{name}.mmtfl") for name in ("line", "curve"))
    assert line.heldout_scores_["r2"].max() < 0.4
    assert curve.heldout_scores_["r2"].min() > 0.9
    (effect,) = curved_effects(curve)
    truth = 3.0 * np.sin(effect.at / 12)
    inside = slice(5, -5)
    found = effect.common - (effect.common - truth)[inside].mean()
    assert abs(found - truth)[inside].max() < 0.5
    # raw rows, in Python as on the command line
    raw = table.drop(columns="stay")
    run(["predict", tmp_path / "curve.mmtfl", tmp_path / "t.csv", "-o", tmp_path / "p.csv", "-q"], capsys)
    assert_allclose(curve.predict(raw), pd.read_csv(tmp_path / "p.csv")["prediction"], rtol=1e-6)
    run(["report", tmp_path / "curve.mmtfl", "-o", tmp_path / "r.html", "-q"], capsys)
    page = (tmp_path / "r.html").read_text()
    assert "Effect of age in 2 tasks" in page
    told = refusal([*words, "-o", tmp_path / "x.mmtfl", "--splines", "sex"], capsys)
    assert "Column 'sex' has 2 different values, too few for a curve" in told
