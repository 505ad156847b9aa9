"""The page of tables as people have them: words, dates, empty cells, curves, classes, counts."""

import numpy as np
import pandas as pd
import pytest

from mmtfl.cli.main import main


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 360
    frame = pd.DataFrame({"school": rng.choice(list("abcdef"), n), "age": rng.uniform(20, 80, n).round(1)})
    frame["livch"] = rng.choice(["0", "1", "2", "3+"], n)
    frame["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    frame["income"] = np.where(rng.uniform(size=n) < 0.1, np.nan, rng.lognormal(size=n).round(2))
    z = ((frame["age"] - 50) / 15) ** 2 + (frame["livch"] == "3+")
    frame["score"] = (z + 0.5 * rng.normal(size=n)).round(3)
    frame["passed"] = np.where(z + rng.logistic(size=n) > 1.5, "yes", "no")
    frame["visits"] = rng.poisson(np.exp(0.3 * z))
    frame.loc[frame["school"] == "f", ["passed", "visits"]] = "no", 0  # one class, and nothing but zeros
    return frame


KINDS = {
    "score": (["--curves", "yes"], "of all differences in score between rows are explained"),
    "passed": ([], "chance that a row with passed = yes is ranked above one without it"),
    "visits": (["--loss", "poisson"], "of all differences in visits between rows are explained"),
}


@pytest.mark.parametrize("target", KINDS)
def test_a_raw_table_makes_a_page_without_raw_warnings(rows, target, tmp_path, capfd):
    table, model, page = (tmp_path / name for name in ("t.csv", "m.mmtfl", "r.html"))
    rows.drop(columns=[name for name in KINDS if name != target]).to_csv(table, index=False)
    options, figure = KINDS[target]
    words = ["--task", "school", "--target", target, *options, "-o", str(model)]
    assert main(["cv", str(table), *words]) == 0
    assert main(["report", str(model), str(table), "-o", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert figure in text and ("within a school are" in text or "two rows of one school" in text)
    assert "best of 3 rivals" in text and "could not be refitted" not in text
    assert "Levels are compared with: livch" in text
    assert target != "score" or "Effect of age against its values" in text
    err = capfd.readouterr().err
    assert "Warning" not in err and "Traceback" not in err
