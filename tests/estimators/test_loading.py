"""Saved models: equal after loading, to the last bit; everything else refused with a ValueError."""

import dataclasses
import json
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from safetensors.numpy import save
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mmtfl
from mmtfl.engines.threads import Threads
from mmtfl.estimators.model_files import ESTIMATORS
from mmtfl.model_selection import TaskKFold, task_scorer
from mmtfl.persistence.archive import VERSION, ModelFileError, _digest, _read, write_archive
from mmtfl.solvers.path import Path
from models import CLASSIFICATION, CLASSIFIERS, MODELS, REGRESSION, REGRESSORS, data_of, fitted


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.mmtfl"


def round_trip(model, path):
    model.save(path)
    return mmtfl.load(path)


def same(a, b):
    """Equal in value, kind and layout, all the way down; NaN equals NaN."""
    assert type(a) is type(b) or (isinstance(a, np.generic) and a.item() == b)
    if isinstance(a, np.ndarray):
        assert a.shape == b.shape and (a.dtype == b.dtype or (a.size == 0 and a.dtype.kind == "U"))
        assert a.dtype.kind == "O" or a.tobytes() == b.tobytes()
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, Path | TaskKFold) or dataclasses.is_dataclass(a):
        same(vars(a), vars(b))
    elif hasattr(a, "get_params"):
        assert vars(a).keys() == vars(b).keys()
        for name in vars(a):
            same(vars(a)[name], vars(b)[name])
    else:
        assert a == b or (a != a and b != b)


def same_predictions(model, loaded, X, task=None):
    labels = {} if task is None else {"task": task}
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        if hasattr(model, method):
            before, after = getattr(model, method)(X, **labels), getattr(loaded, method)(X, **labels)
            assert before.dtype == after.dtype
            assert before.tobytes() == after.tobytes() or before.dtype.kind == "O"
            assert np.array_equal(before, after)


# -- equal, to the last bit ----------------------------------------------------------------------------------


def test_every_public_estimator_is_here():
    public = {name for name in mmtfl.__all__ if name.endswith(("Regressor", "Classifier", "CV"))}
    tried = {type(model).__name__ for model in [*REGRESSORS.values(), *CLASSIFIERS.values()]}
    assert public == tried == {cls.__name__ for cls in ESTIMATORS}


@pytest.mark.parametrize(("kind", "name"), MODELS)
def test_a_loaded_model_is_the_model(kind, name, path):
    model, data = fitted(kind, name), data_of(kind)
    loaded = round_trip(model, path)
    assert type(loaded) is type(model)
    same(model, loaded)
    for X in (data.X, data.X.astype(np.float32), sparse.csr_matrix(data.X)):
        same_predictions(model, loaded, X, data.task)
    assert loaded.score(data.X, data.y, task=data.task) == model.score(data.X, data.y, task=data.task)
    pd.testing.assert_frame_equal(loaded.summary(), model.summary())
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="exists"):
        loaded.save(path, overwrite=False)
    loaded.save(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_with_a_task_column(make, path):
    names = ["plain", "with space", "<script>", "ärger \U0001f600", "=cmd()"]
    frame = make({**{n: REGRESSION.X[:, j] for j, n in enumerate(names)}, "site": REGRESSION.task.tolist()})
    model = mmtfl.MMTFLRegressor(alpha=0.1, task_column="site", unknown_task="mean").fit(frame, REGRESSION.y)
    loaded = round_trip(model, path)
    same(model, loaded)
    assert loaded.feature_names_in_.tolist() == names
    same_predictions(model, loaded, frame)
    assert type(loaded.summary()) is type(frame)


CLASSES = [
    np.array(["no", "yes"], dtype=object),
    np.array([False, True]),
    np.array([-1.0, 2.0], dtype=np.float32),
    np.array([3, 200], dtype=np.uint8),
]


def test_labels_and_classes_keep_their_kind(path):
    place = np.unique(REGRESSION.task, return_inverse=True)[1]
    for labels in ([10, 20, 30], [-(2**62), 0, 2**62]):
        task = np.array(labels)[place]
        model = mmtfl.MMTFLRegressor(alpha=0.1).fit(REGRESSION.X, REGRESSION.y, task=task)
        loaded = round_trip(model, path)
        same(model, loaded)
        same_predictions(model, loaded, REGRESSION.X, task)
    data = CLASSIFICATION
    for classes in CLASSES:
        y = classes[(data.y == np.unique(data.y)[1]).astype(int)]
        model = mmtfl.MMTFLClassifier(alpha=0.01).fit(data.X, y, task=data.task)
        loaded = round_trip(model, path)
        same(model.classes_, loaded.classes_)
        same_predictions(model, loaded, data.X, data.task)
    X = REGRESSION.X[:40]
    Y = pd.DataFrame({"height": X[:, 0], "weight": X[:, 1] - X[:, 0]}).where(X[:, :2] < 1.5)
    for y, shape in ((X[:, 0], (40,)), (Y, (40, 2))):  # one task without a label, and tasks as columns
        model = mmtfl.MMTFLRegressor(alpha=0.01).fit(X, y)
        loaded = round_trip(model, path)
        same(model, loaded)
        same_predictions(model, loaded, X)
        assert loaded.predict(X).shape == shape


# -- what is refused, and what is left out -------------------------------------------------------------------


def test_what_could_not_be_loaded_is_not_saved(path):
    for model in (mmtfl.MMTFLRegressor(), mmtfl.TwoStrengthCV(mmtfl.DirtyRegressor())):
        with pytest.raises(NotFittedError):
            model.save(path)
    model = clone(REGRESSORS["family"]).fit(REGRESSION.X, REGRESSION.y, task=REGRESSION.task)
    model.provenance_ = {"when": object()}
    with pytest.raises(TypeError, match="provenance_ holds a object"):
        model.save(path)
    model.set_params(alpha=-1.0)
    with pytest.raises(ValueError, match="alpha"):
        model.save(path)
    assert not path.exists()


def test_what_a_file_has_no_place_for_is_left_out_and_told(path, tmp_path):
    data = REGRESSION
    folds = TaskKFold(2, random_state=np.random.RandomState(0))
    model = mmtfl.MMTFLRegressorCV(
        pk=(2, 1), alphas=3, cv=folds, engine=Threads(1), scoring=task_scorer("r2")
    ).fit(data.X, data.y, task=data.task)
    model.note = "mine"
    with pytest.warns(UserWarning, match=r"Not kept in .*model\.mmtfl.*cv, engine, scoring") as caught:
        model.save(path)
    assert "note" in str(caught[0].message)
    assert caught[0].filename == __file__
    loaded = mmtfl.load(path)
    assert (loaded.cv, loaded.engine, loaded.scoring) == (None, None, None)
    same_predictions(model, loaded, data.X, data.task)
    loaded.save(tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


class Mine(mmtfl.DirtyRegressor):
    pass


class Folds(TaskKFold):
    pass


def test_classes_of_ones_own_are_refused_while_the_model_is_there(path):
    data = REGRESSION
    for model in (Mine(), mmtfl.TwoStrengthCV(Mine(), strengths=2, cv=2)):
        model.fit(data.X, data.y, task=data.task)
        with pytest.raises(TypeError, match="a Mine, which is no class that a file may name"):
            model.save(path)
    assert not path.exists()
    model = mmtfl.MMTFLRegressorCV(pk=(2, 1), alphas=3, cv=Folds(2)).fit(data.X, data.y, task=data.task)
    with pytest.warns(UserWarning, match="cv"):
        model.save(path)
    assert mmtfl.load(path).cv is None


# -- new kinds of learned attributes -------------------------------------------------------------------------


def test_frames_series_and_dicts_with_numbers_for_keys_come_back(path):
    model = clone(REGRESSORS["family"]).fit(REGRESSION.X, REGRESSION.y, task=REGRESSION.task)
    model.levels_ = {3: np.arange(3.0), ("a", 1): [None, -np.inf]}
    model.effects_ = pd.DataFrame({"feature": ["a", "b"], "average": [0.5, np.nan]})
    model.spread_ = pd.Series([1.0, 2.0], index=["age", "dose"], name="spread")
    loaded = round_trip(model, path)
    same(loaded.levels_, model.levels_)
    pd.testing.assert_frame_equal(loaded.effects_, model.effects_)
    pd.testing.assert_series_equal(loaded.spread_, model.spread_)
    model.effects_ = pl.DataFrame({"feature": ["a", "b"]})
    assert round_trip(model, path).effects_.equals(model.effects_)


# -- files that are not what was written ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "new", "message"),
    [
        (("object", 0), "os.system", "is no class of this version"),
        (("object", 0), "Pipeline", "is no class of this version"),
        (("parameters", "alpha"), -1.0, "alpha"),
        (("parameters", "solver"), "magic", "solver"),
        (("parameters", "colour"), "red", "no parameter 'colour' in this version"),
        (("learned", "predict"), 1, "cannot have learned 'predict'"),
        (("learned", "__class__"), 1, "cannot have learned '__class__'"),
        (("learned", "borrowing_tasks_"), 1, "cannot have learned 'borrowing_tasks_'"),  # a property
        (("learned", "coef_"), {"array": "99"}, "no known kind"),
        (("learned", "n_features_in_"), 4, "n_features_in_"),
        (("learned", "feature_names_in_"), {"values": ["O", [2], ["a", "b"]]}, "feature_names_in_"),
        (("learned", "note_"), {"values": ["O", [2**40], []]}, "reshape|size"),
        (("learned", "note_"), {"pickle": "x"}, "no known kind"),
        (("learned", "note_"), {"object": ["TableRecipe", 1]}, "sound model"),
    ],
)
def test_forgeries_under_a_right_checksum_are_refused(at, new, message, path):
    fitted("regressor", "family").save(path)
    reseal(path, lambda content: put(model_of(content), at, new))
    with pytest.raises(ModelFileError, match=message):
        mmtfl.load(path)


def test_a_bomb_of_json_is_refused_before_it_is_parsed(path):
    fitted("regressor", "family").save(path)
    reseal(path, lambda content: None, text="[" + "[]," * 10_000_000 + "0]")
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="more names and values than any model"):
            mmtfl.load(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 5 * path.stat().st_size


def test_a_newer_model_and_a_file_without_one_are_refused_with_a_clear_line(path):
    fitted("regressor", "family").save(path)
    reseal(path, lambda content: None, version=VERSION + 1)
    with pytest.raises(ModelFileError, match=rf"has format {VERSION + 1}.*upgrade mmtfl"):
        mmtfl.load(path)
    write_archive(path, {"model": [1, 2]})
    with pytest.raises(ModelFileError, match="holds no model"):
        mmtfl.load(path)


def reseal(path, change, version=VERSION, text=None):
    """Write a file anew, with a right checksum, after `change(content)`."""
    _, found, arrays = _read(path)
    content = json.loads(found)
    change(content)
    text = json.dumps(content) if text is None else text
    path.write_bytes(save(arrays, {"mmtfl": f"{version} {_digest(text, arrays)} {text}"}))


def model_of(content):
    """The JSON of the model: {"object": [class, {"dict": [["parameters", ...], ["learned", ...]]}]}."""
    return next(value for key, value in content["dict"] if key == "model")


def put(model, at, new):
    if at[0] == "object":
        model["object"][at[1]] = new
        return
    items = next(value for key, value in model["object"][1]["dict"] if key == at[0])["dict"]
    items[:] = [pair for pair in items if pair[0] != at[1]] + [[at[1], new]]
