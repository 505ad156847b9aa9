"""Hostile input: one clear error each, that names the task and the column and says what to do."""

from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from mmtfl import DirtyRegressor, MMTFLRegressorCV, SingleTaskRegressorCV, TwoStrengthCV
from mmtfl.estimators import MMTFLClassifier, MMTFLRegressor
from mmtfl.estimators.model_files import ESTIMATORS
from mmtfl.estimators.two_strengths import TwoStrengthModel

BOTH, NUMBERS, CLASSES = (MMTFLRegressor, MMTFLClassifier), (MMTFLRegressor,), (MMTFLClassifier,)
NAMES, TASK = ["age", "dose", "weight"], np.repeat(["leeds", "oslo"], 10)
DESIGN, TARGET = np.random.default_rng(0).normal(size=(20, 3)), np.tile([0, 1], 10)
TWO = np.column_stack([TARGET, 1 - TARGET]).astype(float)
ONES, BY_SITE, ROWS, INF = np.ones(20), {"task_column": "site"}, np.arange(20), np.inf
TWO_PARTS = [Model for Model in ESTIMATORS if issubclass(Model, TwoStrengthModel)]


def frame(**changes):
    return pd.DataFrame(DESIGN, columns=NAMES).assign(**changes)


def at(values, place, value):
    """A copy of the values with another one at a place."""
    values = np.array(values, dtype=object if value is None else None)
    values = values.astype(float) if isinstance(value, float) else values
    values[place] = value
    return values


def refuses(kind, words, models=BOTH, options=None, **data):
    """These models refuse to fit, in an error that has all these words."""
    for Model in models:
        with pytest.raises(kind) as caught:
            Model(**(options or {})).fit(**{"X": DESIGN, "y": TARGET, **data})
        assert [word for word in words if word not in str(caught.value)] == [], caught.value


# -- values that are not finite ----------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "name"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_what_is_not_finite_is_told_with_its_task_and_place(value, name):
    for layout in (np.asarray, sparse.csr_array, sparse.csc_array):
        X = layout(at(DESIGN, (13, 1), value))
        refuses(ValueError, [name, "column 1", "'oslo'", "Impute"], X=X, task=TASK)
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        X = make(dict(zip(NAMES, at(DESIGN, (4, 1), value).T, strict=True)))
        refuses(ValueError, [name, "'dose'", "'leeds'", "row 4"], X=X, task=TASK)
    refuses(ValueError, [name, "'oslo'", "row 15"], y=at(TARGET, 15, value), task=TASK)
    refuses(ValueError, [name, "row 15"], y=at(TARGET, 15, value))
    if np.isinf(value):  # NaN in a column of targets was not observed
        refuses(ValueError, [name, "task 1", "row 3"], y=at(TWO, (3, 1), value))
        Y = pd.DataFrame(at(TWO, (3, 1), value), columns=["torque", "angle"])
        refuses(ValueError, [name, "'angle'", "row 3"], y=Y)
    for Model in BOTH:
        model, X = Model(alpha=0.1).fit(frame(), TARGET, task=TASK), frame()
        X.loc[2, "weight"] = value
        with pytest.raises(ValueError, match=rf"{name}.*'weight' of task 'leeds'.*row 2"):
            model.predict(X, task=TASK)
        with pytest.raises(ValueError, match=rf"{name}.*'weight' of task 'leeds'.*row 2"):
            model.score(X, TARGET, task=TASK)


# -- kinds and shapes ----------------------------------------------------------------------------------------

WORDS = np.where(TARGET, "yes", "no")


def weighing(wanted):
    return {"task": TASK, "options": {"task_weight": wanted}}


def lossy(loss, **options):
    return {"task": TASK, "models": NUMBERS, "options": {"loss": loss, **options}}


MIXED = lossy({"leeds": "squared", "oslo": "logistic"})
ONE_CLASS = np.where(TASK == "oslo", 1, TARGET)
REFUSED = [
    (ValueError, ["NaN", "'oslo'", "row 12"], {"y": at(WORDS, 12, None), "task": TASK, "models": CLASSES}),
    (TypeError, ["mixes strings"], {"y": at(WORDS.astype(object), 9, 3), "models": CLASSES}),
    (TypeError, ["row 0", "'no'"], {"y": WORDS, "models": NUMBERS}),
    (ValueError, ["squares leave the range of floats"], {"y": TARGET * 1e200, "models": NUMBERS}),
    (ValueError, ["Task 1", "no observed target", "leave the column out"], {"y": TWO * [1, np.nan]}),
    # lengths
    (ValueError, ["20 rows", "y has 19"], {"y": TARGET[:-1]}),
    (ValueError, ["20 rows", "y has 19"], {"y": TARGET[:-1], "task": TASK}),
    (ValueError, ["20 rows", "task has 21"], {"task": [*TASK, "oslo"]}),
    (ValueError, ["20 rows", "sample_weight has 5"], {"sample_weight": np.ones(5)}),
    (ValueError, ["20 rows", "Y has 19"], {"y": TWO[:-1]}),
    (ValueError, ["0 feature(s)"], {"X": pd.DataFrame({"site": TASK}), "options": BY_SITE}),
    # columns
    (TypeError, ["'dose'", "encode"], {"X": frame(dose="high"), "task": TASK}),
    (TypeError, ["'dose'"], {"X": frame(dose=pd.Categorical(["low", "high"] * 10)), "task": TASK}),
    (TypeError, ["'dose'"], {"X": pl.from_pandas(frame(dose="high")), "task": TASK}),
    (TypeError, ["collect"], {"X": pl.from_pandas(frame()).lazy()}),
    (TypeError, ["collect"], {"X": pl.from_pandas(frame()).lazy(), "options": {"task_column": "age"}}),
    # labels
    (ValueError, ["missing label", "row 1"], {"task": ["leeds", None, *TASK[2:]]}),
    (TypeError, ["mixes strings and integers", "str(label)"], {"task": ["leeds"] * 10 + [7] * 10}),
    (ValueError, ["twice", "task=", "'site'"], {"X": frame(site=TASK), "task": TASK, "options": BY_SITE}),
    (ValueError, ["(20, 2)", "labels", "1-D y"], {"y": TWO, "task": TASK}),
    (ValueError, ["(20, 2)"], {"y": pd.DataFrame(TWO), "X": frame(site=TASK), "options": BY_SITE}),
    (ValueError, ["'sites'", "'site'"], {"X": frame(site=TASK), "options": {"task_column": "sites"}}),
    (ValueError, ["'hospital'", "'age', 'dose'"], {"X": frame(), "options": {"task_column": "hospital"}}),
    (TypeError, ["'site'", "ndarray", "task="], {"options": BY_SITE}),
    (TypeError, ["csr_array"], {"X": sparse.csr_array(DESIGN), "options": BY_SITE}),
    # classes
    (ValueError, ["'oslo'", "one class, 1", "leave the task out"], {"y": ONE_CLASS, "task": TASK}),
    (ValueError, ["'oslo'", "'yes'"], {"y": np.where(ONE_CLASS, "yes", "no"), "task": TASK}),
    (ValueError, ["Task 'b'", "one class"], {"y": pd.DataFrame({"a": TARGET, "b": ONES})}),
    (ValueError, ["Only binary classification is supported.", "3 classes"], {"y": np.arange(20) % 3}),
    (ValueError, ["Only binary"], {"y": np.column_stack([np.arange(20) % 3, TARGET])}),
    (ValueError, ["Only binary", "'a', 'b', 'c'"], {"y": np.array(list("abc"))[np.arange(20) % 3]}),
    # weights
    (ValueError, ["negative", "row 3"], {"sample_weight": at(ONES, 3, -1.0)}),
    (ValueError, ["NaN", "row 3"], {"sample_weight": at(ONES, 3, np.nan)}),
    (ValueError, ["zero in every row"], {"sample_weight": 0 * ONES}),
    (ValueError, ["a weight is a number of rows"], {"sample_weight": at(ONES, 3, 1e-60)}),
    (ValueError, ["a weight is a number of rows"], {"sample_weight": at(ONES, 3, 1e60)}),
    (ValueError, ["1-D"], {"sample_weight": TWO}),
    (ValueError, ["zero total weight", "'oslo'"], {"task": TASK, "sample_weight": (TASK == "leeds") * 1.0}),
    (TypeError, ["sample_weight"], {"sample_weight": ["heavy"] * 20}),
    # weights of tasks
    (
        ValueError,
        ["task 'huge', which the data do not", "'leeds', 'oslo'"],
        weighing({"huge": 2.0}),
    ),
    (ValueError, ["task_weight of task 'oslo' is 0.0, expected a positive number"], weighing({"oslo": 0.0})),
    (ValueError, ["task_weight of task 'oslo' is '2'"], weighing({"oslo": "2"})),
    (ValueError, ["'task_weight' parameter", "Use None, 'equal', or a dict"], weighing("even")),
    # losses
    (ValueError, ["there is no loss 'poison'", "Did you mean 'poisson'"], lossy("poison")),
    (ValueError, ["classes are for MMTFLClassifier"], lossy("logistic")),
    (ValueError, ["it names no task"], lossy({})),
    (ValueError, ["there is no loss 'mean'"], lossy({"a": "mean"})),
    (ValueError, ["The 'loss' parameter of MMTFLRegressor must be"], lossy(3)),
    (ValueError, ["The 'delta' parameter"], lossy("huber", delta=0.0)),
    (ValueError, ["whose targets have no unit"], lossy("poisson", scale_targets=True)),
    (ValueError, ["loss names no loss for task 'oslo'"], lossy({"leeds": "poisson"})),
    (ValueError, ["names task 'rome', which"], lossy({"leeds": "huber", "oslo": "huber", "rome": "huber"})),
    (
        ValueError,
        ["Task 'oslo' has the target -2 in its row 4, but the poisson loss needs counts"],
        {**lossy("poisson"), "y": at(TARGET, 13, -2.0)},
    ),
    (ValueError, ["Task 'oslo' has the target 2 in its row", "needs 0 or 1"], {**MIXED, "y": 2 * TARGET}),
    (ValueError, ["Task 'oslo' has the target 1 in all its rows, where the logistic"], {**MIXED, "y": ONES}),
    (ValueError, ["target 0 in all its rows, where the poisson"], {**lossy("poisson"), "y": 0 * ONES}),
    # offsets
    (ValueError, ["X has 20 rows, but offset has 3"], {"offset": np.zeros(3)}),
    (ValueError, ["NaN or infinity, first in row 0: an exposure of zero"], {"offset": np.full(20, -np.inf)}),
    (ValueError, ["offset must be 1-D"], {"offset": np.zeros((20, 2))}),
]


@pytest.mark.parametrize(("kind", "words", "data"), REFUSED)
def test_what_cannot_be_is_one_clear_error(kind, words, data):
    of_classes = any(word in " ".join(words) for word in ("one class", "binary", "'yes'"))
    refuses(kind, words, **{"models": CLASSES if of_classes else BOTH, **data})


@pytest.mark.parametrize(
    ("name", "values", "remedy"),
    [
        ("alpha", (0, -1.0, np.nan, np.inf, "strong", [0.1, 1.0]), "small positive"),
        ("p", (0.5, 0, np.nan, "2"), "p=1"),
        ("k", (0, -1, np.nan, "ln"), "'log'"),
        ("pooling", (1.0, -0.1, "much"), "Use 0 for no common part"),
        ("eps", (0,), "1e-2"),
        ("tol", (0,), "small positive"),
        ("max_iter", (0, 10.5), "1000"),
        ("solver", ("newton",), "'auto'"),
        ("unknown_task", ("ignore",), "'mean'"),
        ("task_column", (["site"], 0), "column of the frame"),
        ("n_jobs", (1.5, 0), "threads"),
        ("engine", ("dask",), "engine"),
        ("fit_intercept", ("yes",), "bool"),
    ],
)
def test_bad_parameters_are_refused_with_a_remedy(name, values, remedy):
    for value in values:
        refuses(ValueError, [repr(name), repr(value), remedy], options={name: value})


SEARCH, BOTH_STRENGTHS = MMTFLRegressorCV, partial(TwoStrengthCV, DirtyRegressor())
FOLDS = [[(ROWS,)], [(ROWS, ROWS, ROWS)], [(ROWS, [])], [(ROWS, [20])], [(ROWS, [0.5])], [([], ROWS)]]


@pytest.mark.parametrize(
    ("Model", "name", "values"),
    [
        (SEARCH, "pk", ((), 2, ((2, 1, 1),), (0.5, 1), (2, 0), (2, "lag"), ("two", 1), [(2, None)])),
        (SEARCH, "alphas", (0, [0.1, -1.0], ["a"], [[0.1, 0.2]])),
        (SEARCH, "cv", (1, [], "five", *FOLDS)),
        (SEARCH, "alpha_ratio", (1.5,)),
        (SEARCH, "selection", ("worst",)),
        (SEARCH, "scoring", (3,)),
        (SingleTaskRegressorCV, "p", (3, INF)),
        (SingleTaskRegressorCV, "per_task", ("yes",)),
        (BOTH_STRENGTHS, "strengths", (0, (3, 0), (1, 2, 3), ([], 3), ([0.1, -1.0], 3), "many", ([INF], 2))),
        *((BOTH_STRENGTHS, *bad) for bad in (("cv", ("all", 1)), ("ratio", (2.0,)), ("scoring", (3,)))),
        (TwoStrengthCV, "estimator", (MMTFLRegressor(), DirtyRegressor, DirtyRegressor(tol=-1.0), None)),
        (DirtyRegressor, "p", (1, 3, "inf", None)),
        *((Model, name, (0.0, -1.0, INF, np.nan, "much", None)) for Model in TWO_PARTS
          for name in Model.strength_names),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_named(Model, name, values):
    for value in values:
        with pytest.raises((ValueError, TypeError), match=rf"\b({name}|p|k|tol)\b"):
            Model(**{name: value}).fit(DESIGN, TARGET if "Classifier" in str(Model) else DESIGN[:, 0])


# -- prediction ----------------------------------------------------------------------------------------------


@pytest.fixture(params=BOTH)
def model(request):
    return request.param(alpha=0.1).fit(frame(), TARGET, task=TASK)


def test_labels_that_do_not_fit_the_model_are_told(model):
    with pytest.raises(ValueError, match=r"Unknown task 'paris' \(first in row 2\).*'leeds', 'oslo'.*mean"):
        model.predict(frame()[:3], task=["leeds", "oslo", "paris"])
    with pytest.raises(TypeError, match=r"integers \(such as 0\).*strings.*'leeds'.*astype\(str\)"):
        model.predict(frame(), task=np.zeros(20, dtype=int))
    with pytest.raises(ValueError, match=r"2 tasks .*'leeds', 'oslo'.*task="):
        model.predict(frame())
    with pytest.raises(ValueError, match="2 tasks"):
        model.score(frame(), TARGET)
    with pytest.raises(ValueError, match="task has 19"):
        model.predict(frame(), task=TASK[1:])
    numbered = MMTFLRegressor(alpha=0.1, unknown_task="mean").fit(DESIGN, TARGET, task=np.repeat([0, 1], 10))
    with pytest.raises(TypeError, match=r"strings.*integers \(0, 1\).*astype\(int\)"):
        numbered.predict(DESIGN, task=TARGET.astype(str))
    named = MMTFLRegressor(alpha=0.1, task_column="site").fit(frame(site=TASK), TARGET)
    with pytest.raises(ValueError, match="twice"):
        named.predict(frame(site=TASK), task=TASK)
    with pytest.raises(ValueError, match="no column 'site'"):
        named.predict(frame())


def test_columns_that_do_not_match(model):
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*mass.*now missing.*weight"):
        model.predict(frame().rename(columns={"weight": "mass"}), task=TASK)
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*site"):
        model.predict(frame(site=TASK), task=TASK)
    with pytest.raises(ValueError, match="same order"):
        model.predict(frame()[NAMES[::-1]], task=TASK)
    with pytest.warns(UserWarning, match="feature names"), pytest.raises(ValueError, match="2 features"):
        model.predict(DESIGN[:, :2], task=TASK)
    with pytest.raises(NotFittedError):
        type(model)().summary()


def test_a_refused_fit_leaves_the_model_as_it_was(model):
    before = model.coef_.copy()
    with pytest.raises(ValueError):
        model.fit(frame(dose=np.nan), TARGET, task=TASK)
    assert np.array_equal(model.coef_, before)
    assert model.predict(frame(), task=TASK).shape == (20,)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.from_pandas])
def test_the_name_of_a_column_as_task(make):
    X = make(frame(site=TASK))
    for model in (MMTFLRegressor(), MMTFLClassifier()):
        with pytest.raises(TypeError, match=r"one label per row.*task_column='site'.*drop it from X"):
            model.fit(X, TARGET, task="site")
        with pytest.raises(TypeError, match=r"X has no column 'sites': did you mean 'site'"):
            model.fit(X, TARGET, task="sites")
        with pytest.raises(TypeError, match=r"X has no column names: pass an array or list of labels"):
            model.fit(DESIGN, TARGET, task="site")
    fitted = MMTFLRegressor(task_column="site").fit(X, TARGET)
    with pytest.raises(TypeError, match="one label per row"):
        fitted.predict(X, task="site")
