"""Hostile input: one clear error each, that names the task and the column and says what to do."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor

MODELS = [MMTFLRegressor, MMTFLClassifier]
NAMES = ["age", "dose", "weight"]
TASK = np.repeat(["leeds", "oslo"], 10)


def design(seed=0):
    return np.random.default_rng(seed).normal(size=(20, 3))


def target():
    return np.tile([0, 1], 10)


def frame(**changes):
    return pd.DataFrame(design(), columns=NAMES).assign(**changes)


def refuses(kind, *words, **arguments):
    """Both models refuse to fit, in an error that has all these words."""
    options = arguments.pop("options", {})
    data = {"X": design(), "y": target(), **arguments}
    for Model in arguments.pop("models", MODELS):
        data.pop("models", None)
        with pytest.raises(kind) as caught:
            Model(**{"alpha": 0.1, **options}).fit(**data)
        for word in words:
            assert word in str(caught.value), f"{word!r} is not in: {caught.value}"


# -- values that are not finite ----------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_a_feature_that_is_not_finite(value, name, layout):
    X = design()
    X[13, 1] = value
    refuses(ValueError, name, "column 1", "'oslo'", "Impute", X=layout(X), task=TASK)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_missing_value_in_a_named_column(make):
    columns = {name: column.copy() for name, column in zip(NAMES, design().T, strict=True)}
    columns["dose"][4] = np.nan
    refuses(ValueError, "NaN", "'dose'", "'leeds'", "row 4", X=make(columns), task=TASK)


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_a_target_that_is_not_finite(value, name):
    y = target().astype(float)
    y[15] = value
    refuses(ValueError, name, "'oslo'", "row 15", y=y, task=TASK)
    refuses(ValueError, name, "row 15", y=y)


def test_a_missing_class():
    y = np.where(target(), "yes", "no").astype(object)
    y[12] = None
    refuses(ValueError, "NaN", "'oslo'", "row 12", y=y, task=TASK, models=[MMTFLClassifier])
    y[12] = 3
    refuses(TypeError, "mixes strings", y=y, task=TASK, models=[MMTFLClassifier])


def test_an_infinite_entry_of_a_matrix_of_targets():
    Y = np.column_stack([target(), 1 - target()]).astype(float)
    Y[3, 1] = np.inf
    refuses(ValueError, "infinity", "task 1", "row 3", y=Y)
    Y = pd.DataFrame(Y, columns=["torque", "angle"])
    refuses(ValueError, "infinity", "'angle'", "row 3", y=Y)


def test_a_column_of_targets_that_was_never_observed():
    Y = np.column_stack([target(), np.full(20, np.nan)])
    refuses(ValueError, "Task 1", "no observed target", "leave the column out", y=Y)


@pytest.mark.parametrize("Model", MODELS)
def test_rows_to_predict_that_are_not_finite(Model):
    model = Model(alpha=0.1).fit(frame(), target(), task=TASK)
    X = frame()
    X.loc[2, "weight"] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*'weight' of task 'leeds'.*row 2"):
        model.predict(X, task=TASK)
    with pytest.raises(ValueError, match=r"NaN.*'weight'"):
        model.score(X, target(), task=TASK)


# -- shapes and kinds ----------------------------------------------------------------------------------------


def test_lengths_that_differ():
    refuses(ValueError, "20 rows", "y has 19", y=target()[:-1])
    refuses(ValueError, "20 rows", "y has 19", y=target()[:-1], task=TASK)
    refuses(ValueError, "20 rows", "task has 21", task=[*TASK, "oslo"])
    refuses(ValueError, "20 rows", "sample_weight has 5", sample_weight=np.ones(5))
    refuses(ValueError, "20 rows", "Y has 19", y=np.column_stack([target(), target()])[:-1])


def test_no_rows_or_no_columns():
    refuses(ValueError, "0 sample(s)", X=np.empty((0, 3)), y=[])
    refuses(ValueError, "0 feature(s)", X=np.empty((20, 0)))
    refuses(ValueError, "0 feature(s)", X=pd.DataFrame({"site": TASK}), options={"task_column": "site"})


def test_a_column_of_text():
    refuses(TypeError, "'dose'", "encode", X=frame(dose="high"), task=TASK)
    refuses(TypeError, "'dose'", X=frame(dose=pd.Categorical(["low", "high"] * 10)), task=TASK)
    refuses(TypeError, "'dose'", X=pl.from_pandas(frame()).with_columns(dose=pl.lit("high")), task=TASK)


def test_a_lazy_frame():
    lazy = pl.DataFrame(design(), schema=NAMES).lazy()
    refuses(TypeError, "collect", X=lazy)
    refuses(TypeError, "collect", X=lazy, options={"task_column": "age"})


def test_text_as_a_regression_target():
    y = np.where(target(), "yes", "no")
    refuses(TypeError, "row 0", "'no'", y=y, models=[MMTFLRegressor])


# -- task labels ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_a_missing_label(missing):
    refuses(ValueError, "missing label", "row 1", task=["leeds", missing, *TASK[2:]])


def test_both_task_sources():
    X, options = frame(site=TASK), {"task_column": "site"}
    refuses(ValueError, "twice", "task=", "'site'", X=X, task=TASK, options=options)
    model = MMTFLRegressor(alpha=0.1, task_column="site").fit(X, target())
    for call in (lambda: model.predict(X, task=TASK), lambda: model.score(X, target(), task=TASK)):
        with pytest.raises(ValueError, match="twice"):
            call()


def test_labels_and_a_matrix_of_targets():
    Y = np.column_stack([target(), target()])
    refuses(ValueError, "(20, 2)", "labels", "1-D y", y=Y, task=TASK)
    refuses(ValueError, "(20, 2)", y=pd.DataFrame(Y), X=frame(site=TASK), options={"task_column": "site"})


def test_a_task_column_that_is_not_there():
    refuses(ValueError, "'sites'", "'site'", X=frame(site=TASK), options={"task_column": "sites"})
    refuses(ValueError, "'hospital'", "'age', 'dose'", X=frame(), options={"task_column": "hospital"})
    model = MMTFLRegressor(alpha=0.1, task_column="site").fit(frame(site=TASK), target())
    with pytest.raises(ValueError, match="no column 'site'"):
        model.predict(frame())


def test_a_task_column_of_something_without_names():
    refuses(TypeError, "'site'", "ndarray", "task=", options={"task_column": "site"})
    refuses(TypeError, "csr_array", X=sparse.csr_array(design()), options={"task_column": "site"})
    refuses(TypeError, "task_column", "task=", options={"task_column": 0})


# -- classes -------------------------------------------------------------------------------------------------


def test_a_task_with_one_class():
    y = np.where(TASK == "oslo", 1, target())
    refuses(
        ValueError, "'oslo'", "one class, 1", "leave the task out", y=y, task=TASK, models=[MMTFLClassifier]
    )
    names = np.where(y, "yes", "no")
    refuses(ValueError, "'oslo'", "'yes'", y=names, task=TASK, models=[MMTFLClassifier])
    Y = pd.DataFrame({"a": target(), "b": np.ones(20)})
    refuses(ValueError, "Task 'b'", "one class", y=Y, models=[MMTFLClassifier])


def test_more_than_two_classes():
    y = np.arange(20) % 3
    refuses(
        ValueError, "Only binary classification is supported.", "3 classes", y=y, models=[MMTFLClassifier]
    )
    refuses(ValueError, "Only binary", y=np.column_stack([y, target()]), models=[MMTFLClassifier])
    refuses(ValueError, "Only binary", "'a', 'b', 'c'", y=np.array(list("abc"))[y], models=[MMTFLClassifier])


# -- weights -------------------------------------------------------------------------------------------------


def test_bad_weights():
    one = np.ones(20)
    refuses(ValueError, "negative", "row 3", sample_weight=np.where(np.arange(20) == 3, -1, 1))
    refuses(ValueError, "NaN", "row 3", sample_weight=np.where(np.arange(20) == 3, np.nan, 1))
    refuses(ValueError, "zero in every row", sample_weight=0 * one)
    for wild in (1e-60, 1e60):
        refuses(
            ValueError, "a weight is a number of rows", sample_weight=np.where(np.arange(20) == 3, wild, 1)
        )
    refuses(ValueError, "1-D", sample_weight=np.column_stack([one, one]))
    refuses(ValueError, "zero total weight", "'oslo'", task=TASK, sample_weight=(TASK == "leeds") * 1.0)
    refuses(TypeError, "sample_weight", sample_weight=["heavy"] * 20)


# -- parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("alpha", 0, "small positive"),
        ("alpha", -1.0, "small positive"),
        ("alpha", np.nan, "small positive"),
        ("alpha", np.inf, "small positive"),
        ("alpha", "strong", "small positive"),
        ("alpha", [0.1, 1.0], "small positive"),
        ("p", 0.5, "p=1"),
        ("p", 0, "p=1"),
        ("p", np.nan, "p=1"),
        ("p", "2", "p=1"),
        ("k", 0, "'log'"),
        ("k", -1, "'log'"),
        ("k", np.nan, "'log'"),
        ("k", "ln", "'log'"),
        ("eps", 0, "1e-2"),
        ("tol", 0, "small positive"),
        ("max_iter", 0, "1000"),
        ("max_iter", 10.5, "1000"),
        ("solver", "newton", "'auto'"),
        ("unknown_task", "ignore", "'mean'"),
        ("task_column", ["site"], "column of the frame"),
        ("n_jobs", 1.5, "threads"),
        ("n_jobs", 0, "threads"),
        ("engine", "dask", "engine"),
        ("fit_intercept", "yes", "bool"),
    ],
)
def test_bad_parameters_are_refused_with_a_remedy(name, value, remedy):
    refuses(ValueError, repr(name), repr(value), remedy, options={name: value})


# -- prediction ----------------------------------------------------------------------------------------------


@pytest.fixture(params=MODELS)
def model(request):
    return request.param(alpha=0.1).fit(frame(), target(), task=TASK)


def test_an_unknown_task(model):
    with pytest.raises(ValueError, match=r"Unknown task 'paris' \(first in row 2\).*'leeds', 'oslo'.*mean"):
        model.predict(frame()[:3], task=["leeds", "oslo", "paris"])


def test_labels_of_another_type(model):
    with pytest.raises(TypeError, match=r"integers \(such as 0\).*strings.*'leeds'.*astype\(str\)"):
        model.predict(frame(), task=np.zeros(20, dtype=int))
    numbered = MMTFLRegressor(alpha=0.1, unknown_task="mean").fit(
        design(), target(), task=np.repeat([0, 1], 10)
    )
    with pytest.raises(TypeError, match=r"strings.*integers \(0, 1\).*astype\(int\)"):
        numbered.predict(design(), task=target().astype(str))


def test_labels_that_are_missing(model):
    with pytest.raises(ValueError, match=r"2 tasks .*'leeds', 'oslo'.*task="):
        model.predict(frame())
    with pytest.raises(ValueError, match="2 tasks"):
        model.score(frame(), target())
    with pytest.raises(ValueError, match="task has 19"):
        model.predict(frame(), task=TASK[1:])


def test_columns_that_do_not_match(model):
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*mass.*now missing.*weight"):
        model.predict(frame().rename(columns={"weight": "mass"}), task=TASK)
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*site"):
        model.predict(frame(site=TASK), task=TASK)
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame()[NAMES[::-1]], task=TASK)
    with pytest.warns(UserWarning, match="feature names"), pytest.raises(ValueError, match="2 features"):
        model.predict(design()[:, :2], task=TASK)


def test_a_refused_fit_leaves_the_model_as_it_was(model):
    before = model.coef_.copy()
    with pytest.raises(ValueError):
        model.fit(frame(dose=np.nan), target(), task=TASK)
    assert np.array_equal(model.coef_, before)
    assert model.predict(frame(), task=TASK).shape == (20,)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas])
def test_the_name_of_a_column_as_task(make):
    X = make(frame(site=TASK))
    for model in (MMTFLRegressor(), MMTFLClassifier()):
        with pytest.raises(TypeError, match=r"one label per row.*task_column='site'.*drop it from X"):
            model.fit(X, target(), task="site")
        with pytest.raises(TypeError, match=r"X has no column 'sites': did you mean 'site'"):
            model.fit(X, target(), task="sites")
        with pytest.raises(TypeError, match=r"X has no column names: pass an array or list of labels"):
            model.fit(design(), target(), task="site")
    fitted = MMTFLRegressor(task_column="site").fit(X, target())
    with pytest.raises(TypeError, match="one label per row"):
        fitted.predict(X, task="site")
