"""--task-weight: how much tasks count in a fit of the command line."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mmtfl
from cli.test_tables import by_hand, fit, make_frame, refusal, run
from mmtfl import MMTFLRegressor


@pytest.mark.parametrize(
    ("words", "weight"), [(["equal"], "equal"), (["Bern=3", "Cork=0.5"], {"Bern": 3.0, "Cork": 0.5})]
)
def test_task_weights_are_those_of_the_estimator(tmp_path, capsys, words, weight):
    frame = make_frame()
    frame.to_csv(tmp_path / "data.csv", index=False)
    run(fit(tmp_path / "data.csv", tmp_path / "m.mmtfl", "--alpha", "0.3", "--task-weight", *words), capsys)
    X, y, task = by_hand(frame)
    model = MMTFLRegressor(alpha=0.3, standardize=True, task_weight=weight)
    found = mmtfl.load(tmp_path / "m.mmtfl")
    assert_allclose(found.coef_, model.fit(X, y, task=task).coef_, atol=1e-6)
    assert found.task_weight == weight


def test_labels_that_are_numbers_are_weighted_by_their_number(tmp_path, capsys):
    frame = make_frame()
    frame["site"] = np.unique(frame["site"], return_inverse=True)[1]
    frame.to_csv(tmp_path / "data.csv", index=False)
    run(fit(tmp_path / "data.csv", tmp_path / "m.mmtfl", "--task-weight", "2=4"), capsys)
    assert mmtfl.load(tmp_path / "m.mmtfl").task_weight == {2: 4.0}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["even"], "--task-weight 'even' is neither equal nor LABEL=W"),
        (["Bern=much"], "--task-weight 'Bern=much' is neither"),
        (["Bergen=2"], "--task-weight names the task 'Bergen', which the data do not have"),
        (["Bern=0"], "--task-weight of task 'Bern' is 0.0, expected a positive number"),
    ],
)
def test_weights_that_make_no_sense_are_refused_in_one_line(tmp_path, capsys, words, told):
    make_frame().to_csv(tmp_path / "data.csv", index=False)
    tokens = fit(tmp_path / "data.csv", tmp_path / "m.mmtfl", "--alpha", "1", "-q", "--task-weight", *words)
    assert told in refusal(tokens, capsys)
