"""With `scale_targets` nothing depends on the unit of y, not even where a task has no spread of its own."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mmtfl import (
    MMTFLRegressor,
    Tasks,
)

pytestmark = pytest.mark.filterwarnings("ignore::mmtfl.SmallTaskWarning")


def with_a_task_of_two_rows():
    """Four tasks of 30 rows, and one of two: every fold trains that one on a single row."""
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(122, 6)), np.append(np.repeat(np.arange(4), 30), [4, 4])
    return X, 2 * X[:, 0] + rng.normal(size=122), task


@pytest.mark.parametrize("unit", [1e3, 1e6])
def test_a_constant_task_has_the_median_spread_of_the_others(unit, tmp_path):
    X, y, task = with_a_task_of_two_rows()
    y[task == 4], y[task == 3] = 7.0, 10 * y[task == 3]
    model = MMTFLRegressor(alpha=0.1, scale_targets=True).fit(X, unit * y, task=task)
    spread = [np.std(unit * y[task == t]) for t in range(4)]
    assert_allclose(model.target_scale_, [*spread, np.median(spread)])
    pd = pytest.importorskip("pandas")
    pd.DataFrame(X, columns=list("abcdef")).assign(y=unit * y, task=task).to_parquet(tmp_path / "t.parquet")
    stored = Tasks.from_parquet(tmp_path / "t.parquet", task="task", target="y")
    assert_allclose(
        model.target_scale_, MMTFLRegressor(alpha=0.1, scale_targets=True).fit(stored).target_scale_
    )


def test_a_new_task_of_one_row_follows_the_unit_of_y():
    X, y, task = with_a_task_of_two_rows()
    models = [
        MMTFLRegressor(alpha=0.1, scale_targets=True, pooling=0.5)
        .fit(X[:120], y[:120] * unit, task=task[:120])
        .add_task(X[120:121], y[120:121] * unit, task=9)
        for unit in (1.0, 1e6)
    ]
    assert_allclose(models[1].coef_ / 1e6, models[0].coef_, rtol=1e-6, atol=1e-9)
    assert_allclose(models[1].intercept_ / 1e6, models[0].intercept_, rtol=1e-6)
