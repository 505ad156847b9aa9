"""Saved models: equal after loading, to the last bit; everything else refused with a ValueError."""

import contextlib
import hashlib
import json
import re
import struct
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mmtfl
from mmtfl.cli import inspect as inspect_command
from mmtfl.cli.training import headlines
from mmtfl.datasets import make_tasks
from mmtfl.engines.threads import Threads
from mmtfl.estimators.loading import ESTIMATORS
from mmtfl.model_selection import TaskKFold, task_scorer
from mmtfl.persistence.archive import ModelFileError, read_archive, write_archive
from mmtfl.report.summary import describe
from mmtfl.solvers.path import Path

HEAD = struct.Struct("<8sIIQ")
SEARCH = {"alphas": 4, "cv": 2}


def numbers(classification=False):
    sizes = {"n_tasks": 3, "n_samples": 40, "n_features": 5, "n_informative": 3}
    data = make_tasks(**sizes, noise=0.5, classification=classification, random_state=0)
    data.task = np.array(["berlin", "kairo", "łódź"])[np.unique(data.task, return_inverse=True)[1]]
    return data


REGRESSION, CLASSIFICATION = numbers(), numbers(classification=True)

REGRESSORS = {
    "family": mmtfl.MMTFLRegressor(alpha=0.1, standardize=True, scale_targets=True),
    "log edge": mmtfl.MMTFLRegressor(k="log", alpha=0.1),
    "row maxima": mmtfl.MMTFLRegressor(p=np.inf, k=1, alpha=np.float32(0.1)),
    "single task": mmtfl.MMTFLRegressor(p=1, k=np.inf, alpha=0.1),
    "search": mmtfl.MMTFLRegressorCV(pk=((2, 1), (1, "log")), **SEARCH),
    "search with folds": mmtfl.MMTFLRegressorCV(
        pk=np.array([[2, 2]]), alphas=np.array([1.0, 0.1]), cv=TaskKFold(3, random_state=1), scoring="r2"
    ),
    "dirty": mmtfl.DirtyRegressor(),
    "robust": mmtfl.RobustRegressor(),
    "low rank": mmtfl.LowRankRegressor(),
    "capped": mmtfl.CappedRegressor(),
    "two strengths": mmtfl.TwoStrengthCV(mmtfl.RobustRegressor(standardize=True), strengths=(3, [1.0]), cv=2),
    "two strengths capped": mmtfl.TwoStrengthCV(mmtfl.CappedRegressor(), strengths=2, cv=2),
    "separate": mmtfl.SingleTaskRegressorCV(**SEARCH),
    "separate strengths": mmtfl.SingleTaskRegressorCV(p=1, per_task=True, **SEARCH),
}
CLASSIFIERS = {
    "family": mmtfl.MMTFLClassifier(alpha=0.01),
    "search": mmtfl.MMTFLClassifierCV(pk=(2, 1), **SEARCH),
    "dirty": mmtfl.DirtyClassifier(),
    "robust": mmtfl.RobustClassifier(),
    "low rank": mmtfl.LowRankClassifier(),
    "capped": mmtfl.CappedClassifier(),
    "two strengths": mmtfl.TwoStrengthCV(mmtfl.DirtyClassifier(), strengths=2, cv=2),
    "separate": mmtfl.SingleTaskClassifierCV(**SEARCH),
    "separate strengths": mmtfl.SingleTaskClassifierCV(per_task=True, **SEARCH),
}
MODELS = [("regressor", name) for name in REGRESSORS] + [("classifier", name) for name in CLASSIFIERS]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.mmtfl"


@pytest.fixture(scope="module")
def fitted():
    """Each model fitted once, when it is asked for."""
    found = {}

    def get(kind, name):
        if (kind, name) not in found:
            model = clone((REGRESSORS if kind == "regressor" else CLASSIFIERS)[name])
            data = data_of(kind)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # tiny data: whether it converges does not matter here
                found[kind, name] = model.fit(data.X, data.y, task=data.task)
        return found[kind, name]

    return get


@pytest.fixture
def no_sync(monkeypatch):
    """Hundreds of files need not survive a power cut."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)


def data_of(kind):
    return REGRESSION if kind == "regressor" else CLASSIFICATION


def round_trip(model, path):
    model.save(path)
    return mmtfl.load(path)


def same(a, b):
    """Equal in value, kind and layout, all the way down; NaN equals NaN."""
    assert type(a) is type(b) or (isinstance(a, np.generic) and a.item() == b)
    if isinstance(a, np.ndarray):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
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
    elif isinstance(a, Path | TaskKFold):
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
def test_a_loaded_model_is_the_model(kind, name, fitted, path):
    model, data = fitted(kind, name), data_of(kind)
    loaded = round_trip(model, path)
    assert type(loaded) is type(model)
    same(model, loaded)
    for X in (data.X, data.X.astype(np.float32), sparse.csr_matrix(data.X)):
        same_predictions(model, loaded, X, data.task)
    assert loaded.score(data.X, data.y, task=data.task) == model.score(data.X, data.y, task=data.task)
    pd.testing.assert_frame_equal(loaded.summary(), model.summary())


@pytest.mark.parametrize(("kind", "name"), MODELS)
def test_saving_again_gives_the_same_bytes(kind, name, fitted, path, tmp_path):
    round_trip(fitted(kind, name), path).save(tmp_path / "again.mmtfl")
    assert path.read_bytes() == (tmp_path / "again.mmtfl").read_bytes()


@pytest.mark.parametrize("name", ["family", "search", "dirty", "two strengths"])
def test_a_loaded_model_can_be_cloned_and_fitted_again(name, fitted, path):
    model, data = fitted("regressor", name), REGRESSION
    loaded = round_trip(model, path)
    assert repr(loaded) == repr(model)
    again = clone(loaded).fit(data.X, data.y, task=data.task)
    assert np.array_equal(again.coef_, model.coef_)


def test_a_warm_start_begins_where_the_saved_model_was(path):
    data = REGRESSION
    model = mmtfl.MMTFLRegressor(p=2, k=2, alpha=0.05, warm_start=True).fit(data.X, data.y, task=data.task)
    loaded = round_trip(model, path)
    assert loaded.fit(data.X, data.y, task=data.task).n_iter_ < model.n_iter_


@pytest.mark.parametrize("labels", [[10, 20, 30], [-(2**62), 0, 2**62]])
def test_integer_labels_stay_integers(labels, path):
    task = np.array(labels)[np.unique(REGRESSION.task, return_inverse=True)[1]]
    model = mmtfl.MMTFLRegressor(alpha=0.1).fit(REGRESSION.X, REGRESSION.y, task=task)
    loaded = round_trip(model, path)
    same(model, loaded)
    same_predictions(model, loaded, REGRESSION.X, task)
    with pytest.raises(TypeError, match="labels are strings"):
        loaded.predict(REGRESSION.X, task=task.astype(str))


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([-1.0, 2.0], dtype=np.float32),
        np.array([3, 200], dtype=np.uint8),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_classes_keep_their_kind(classes, path):
    data = CLASSIFICATION
    y = classes[(data.y == np.unique(data.y)[1]).astype(int)]
    model = mmtfl.MMTFLClassifier(alpha=0.01).fit(data.X, y, task=data.task)
    loaded = round_trip(model, path)
    same(model.classes_, loaded.classes_)
    same_predictions(model, loaded, data.X, data.task)


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


def test_one_task_without_a_label_and_tasks_as_columns_of_y(path):
    X = REGRESSION.X[:40]
    Y = pd.DataFrame({"height": X[:, 0], "weight": X[:, 1] - X[:, 0]}).where(X[:, :2] < 1.5)
    one = mmtfl.MMTFLRegressor(alpha=0.1).fit(X, X[:, 0])
    several = mmtfl.MMTFLRegressor(alpha=0.01).fit(X, Y)
    for model in (one, several):
        loaded = round_trip(model, path)
        same(model, loaded)
        same_predictions(model, loaded, X)
    assert loaded.tasks_.tolist() == ["height", "weight"]
    assert loaded.predict(X).shape == (40, 2)


def test_a_recipe_and_a_provenance_come_along(path, tmp_path):
    from mmtfl.tables.recipe import TableRecipe

    frame = pd.DataFrame({"site": REGRESSION.task, "age": REGRESSION.X[:, 0], "score": REGRESSION.y})
    frame["colour"] = np.array(["red", "blue", "green"])[np.arange(len(frame)) % 3]
    frame.loc[3, "age"] = np.nan
    recipe = TableRecipe.learn(frame, task="site", target="score", impute="mean")
    model = mmtfl.MMTFLRegressor(alpha=0.1)
    model.fit(recipe.matrix(frame), recipe.targets(frame), task=recipe.labels(frame))
    model.recipe_ = recipe
    model.provenance_ = {"command": "mmtfl fit", "shape": [120, 4], "versions": {"numpy": "2"}, "rate": 0.1}
    loaded = round_trip(model, path)
    assert loaded.recipe_ == recipe
    assert loaded.provenance_ == model.provenance_
    X = loaded.recipe_.matrix(frame)
    same_predictions(model, loaded, X, recipe.labels(frame))
    loaded.save(tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_the_json_can_be_read_by_people(fitted, path):
    fitted("regressor", "family").save(path)
    about = parse(path)[0]["content"]["about"]
    assert about["class"] == "MMTFLRegressor"
    assert (about["p"], about["k"], about["alpha"]) == (2, 1, 0.1)
    assert about["tasks"] == ["berlin", "kairo", "łódź"]
    assert about["training"]["n_iter"] == fitted("regressor", "family").n_iter_


def test_the_file_is_about_the_arrays(path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2000))
    model = mmtfl.MMTFLRegressor(alpha=0.5, max_iter=2000).fit(X, X[:, 0], task=np.repeat([0, 1, 2], 20))
    model.save(path)
    arrays = sum(v.nbytes for v in vars(model).values() if isinstance(v, np.ndarray))
    assert arrays <= path.stat().st_size < arrays + 3000


# -- what is refused, and what is left out -------------------------------------------------------------------


def test_an_unfitted_model_is_not_saved(path):
    with pytest.raises(NotFittedError):
        mmtfl.MMTFLRegressor().save(path)
    with pytest.raises(NotFittedError):
        mmtfl.TwoStrengthCV(mmtfl.DirtyRegressor()).save(path)
    assert not path.exists()


def test_overwriting_can_be_refused(fitted, path):
    model = fitted("regressor", "family")
    model.save(path, overwrite=False)
    with pytest.raises(FileExistsError, match="exists"):
        model.save(path, overwrite=False)
    model.save(path)


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


def test_a_learned_attribute_that_cannot_be_saved_is_named(fitted, path):
    model = clone(REGRESSORS["family"]).fit(REGRESSION.X, REGRESSION.y, task=REGRESSION.task)
    model.provenance_ = {"when": object()}
    with pytest.raises(TypeError, match="provenance_ holds a object"):
        model.save(path)
    assert not path.exists()


class Mine(mmtfl.DirtyRegressor):
    pass


class Folds(TaskKFold):
    pass


def test_classes_of_ones_own_are_refused_while_the_model_is_there(path):
    data = REGRESSION
    for model in (Mine(), mmtfl.TwoStrengthCV(Mine(), strengths=2, cv=2)):
        model.fit(data.X, data.y, task=data.task)
        with pytest.raises(TypeError, match="Mine is not an estimator of mmtfl"):
            model.save(path)
    assert not path.exists()
    model = mmtfl.MMTFLRegressorCV(pk=(2, 1), alphas=3, cv=Folds(2)).fit(data.X, data.y, task=data.task)
    with pytest.warns(UserWarning, match="cv"):
        model.save(path)
    assert mmtfl.load(path).cv is None


def test_any_real_number_will_do_as_a_parameter(path):
    model = mmtfl.MMTFLRegressor(p=np.float32(1.5), alpha=np.longdouble(0.125), max_iter=np.int32(500))
    model.fit(REGRESSION.X, REGRESSION.y, task=REGRESSION.task)
    loaded = round_trip(model, path)
    assert (loaded.p, loaded.alpha, loaded.max_iter) == (1.5, 0.125, 500)


def test_parameters_that_could_not_be_loaded_are_refused_on_saving(path):
    model = clone(REGRESSORS["family"]).fit(REGRESSION.X, REGRESSION.y, task=REGRESSION.task)
    model.set_params(alpha=-1.0)
    with pytest.raises(ValueError, match="alpha"):
        model.save(path)
    assert not path.exists()


# -- forged files --------------------------------------------------------------------------------------------


def parse(path):
    data = path.read_bytes()
    n_text = HEAD.unpack(data[: HEAD.size])[3]
    return json.loads(data[HEAD.size : HEAD.size + n_text]), data[HEAD.size + n_text : -32]


def seal(path, header, payload):
    """A file with a right checksum."""
    text = json.dumps(header, separators=(",", ":")).encode()
    body = HEAD.pack(b"\x89MMTFL\r\n", 1, 0, len(text)) + text + payload
    path.write_bytes(body + hashlib.sha256(body).digest())


def try_to_use(path, X, task):
    """Load a forged file: refused with ValueError, or a model that works in every way. True if refused."""
    try:
        model = mmtfl.load(path)
    except ModelFileError as error:
        assert "\n" not in str(error)
        return True
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method in ("predict", "predict_proba"):
            if hasattr(model, method):
                with contextlib.suppress(ValueError):  # a label or a name may be another one now
                    getattr(model, method)(X, task=task)
        model.summary()
        repr(model)
        clone(model)
        summary = describe(model)
        json.dumps(summary.as_dict(), allow_nan=False)
        headlines(summary), inspect_command._task_scores(summary)
        inspect_command._closing(summary, verbose=True)
        model.save(path)
        mmtfl.load(path)
    return False


def test_every_changed_byte_and_every_cut_is_refused(fitted, path):
    fitted("classifier", "family").save(path)
    sound = path.read_bytes()
    with open(path, "r+b", buffering=0) as file:
        for i, byte in enumerate(sound):
            for changed in (byte ^ 0x55, byte):
                file.seek(i)
                file.write(bytes([changed]))
                if changed != byte:
                    with pytest.raises(ModelFileError):
                        mmtfl.load(path)
        assert path.read_bytes() == sound
        for n in reversed(range(len(sound))):
            file.truncate(n)
            with pytest.raises(ModelFileError):
                mmtfl.load(path)


@pytest.mark.parametrize(("kind", "name"), [("classifier", "search"), ("regressor", "two strengths")])
def test_changed_bytes_under_a_new_checksum_never_do_harm(kind, name, fitted, path, no_sync):
    data = data_of(kind)
    fitted(kind, name).save(path)
    body = path.read_bytes()[:-32]
    refused = 0
    for i in range(0, len(body), 7):
        changed = body[:i] + bytes([body[i] ^ 0x15]) + body[i + 1 :]
        path.write_bytes(changed + hashlib.sha256(changed).digest())
        refused += try_to_use(path, data.X, data.task)
    assert 0.3 < refused / (len(body) / 7) < 0.95  # names and sizes are refused, other numbers are not


def places(value, at=()):
    """Every place in a tree of JSON."""
    yield at
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*at, key))


def changed_at(value, at, new):
    """The tree with one place changed; ... deletes it."""
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(at) > 1:
        copy[at[0]] = changed_at(value[at[0]], at[1:], new)
    elif new is ...:
        del copy[at[0]]
    else:
        copy[at[0]] = new
    return copy


JUNK = [..., None, -1, 1.5, "x", [], {}, {"array": 0}, {"float": "inf"}, {"object": {}}, [[1]], True, 2**70]


@pytest.mark.parametrize(
    ("kind", "name"), [("regressor", "separate strengths"), ("classifier", "two strengths")]
)
def test_no_change_of_the_json_under_a_new_checksum_does_harm(kind, name, fitted, path, no_sync):
    data = data_of(kind)
    fitted(kind, name).save(path)
    header, payload = parse(path)
    model = header["content"]["model"]
    refused = tried = 0
    spots = [at for at in places(model) if at]
    assert len(spots) > 80
    for i, at in enumerate(spots):
        for junk in JUNK[i % 3 :: 3]:
            content = {**header["content"], "model": changed_at(model, at, junk)}
            seal(path, {**header, "content": content}, payload)
            refused += try_to_use(path, data.X, data.task)
            tried += 1
    assert refused > 0.7 * tried


@pytest.mark.parametrize(
    ("at", "new", "message"),
    [
        (("class",), "os.system", "is not an estimator of this version"),
        (("class",), "Path", "is not an estimator"),
        (("class",), "Pipeline", "is not an estimator"),
        (("parameters", "alpha"), -1.0, "alpha"),
        (("parameters", "alpha"), {"dict": {}}, "alpha"),
        (("parameters", "solver"), "magic", "solver"),
        (("parameters", "engine"), {"model": {}}, "class, parameters, learned"),
        (("parameters", "colour"), "red", "no parameter 'colour' in this version"),
        (("learned", "predict"), 1, "cannot have learned 'predict'"),
        (("learned", "__class__"), 1, "cannot have learned '__class__'"),
        (("learned", "_parameter_constraints"), {"dict": {}}, "cannot have learned"),
        (("learned", "coef_"), None, "belong to nothing"),
        (("learned", "coef_"), {"array": 99}, "array 99 is missing, or used twice"),
        (("learned", "coef_"), {"array": -1}, "array -1 is missing"),
        (("learned", "intercept_"), {"objects": {"shape": [3], "values": [1, 2, 3]}}, "intercept_|belong"),
        (("learned", "tasks_"), {"tuple": ["a", "b", "c"]}, "tasks_|belong"),
        (("learned", "n_features_in_"), 4, "n_features_in_"),
        (
            ("learned", "feature_names_in_"),
            {"objects": {"shape": [2], "values": ["a", "b"]}},
            "feature_names_in_",
        ),
        (("learned", "feature_names_in_"), {"objects": {"shape": [2**40], "values": []}}, "wrong shape"),
        (("learned", "feature_names_in_"), {"objects": {"shape": [0, 2**70], "values": []}}, "wrong shape"),
        (("learned", "recipe_"), {"object": {"class": "TaskKFold", "state": {"dict": {}}}}, "sound model"),
        (("learned", "recipe_"), {"object": {"class": "TableRecipe", "state": {}}}, "recipe"),
        (("learned", "recipe_"), {"dict": {}}, "recipe_ does not say"),
        (("learned", "note_"), {"pickle": "x"}, "unknown kind 'pickle'"),
        (("learned", "note_"), {"float": "1"}, "unknown kind"),
    ],
)
def test_forgeries_are_told_apart(at, new, message, fitted, path):
    fitted("regressor", "family").save(path)
    header, payload = parse(path)
    content = {**header["content"], "model": changed_at(header["content"]["model"], at, new)}
    seal(path, {**header, "content": content}, payload)
    with pytest.raises(ModelFileError, match=message):
        mmtfl.load(path)


@pytest.mark.parametrize("left_out", ["coef_", "c_", "tasks_", "_backend", "history_"])
def test_a_model_with_a_part_missing_is_refused(left_out, fitted, path):
    model = clone(REGRESSORS["family"]).fit(REGRESSION.X, REGRESSION.y, task=REGRESSION.task)
    model.save(path)
    header, payload = parse(path)
    learned = header["content"]["model"]["learned"]
    if "array" in str(learned[left_out]):
        learned["spare_"] = learned[left_out]
    del learned[left_out]
    seal(path, header, payload)
    with pytest.raises(ModelFileError, match=left_out):
        mmtfl.load(path)


HUGE = 10**400
OBJECTS = {"objects": {"shape": [1], "values": [1.0]}}


@pytest.mark.parametrize(
    ("name", "at", "new"),
    [
        ("family", ("parameters", "alpha"), HUGE),
        ("family", ("parameters", "alpha"), -HUGE),
        ("family", ("learned", "n_iter_"), HUGE),
        (
            "search",
            ("learned", "cv_results_", "dict"),
            {"alpha": {"objects": {"shape": [1], "values": [1.0]}}},
        ),
        ("search", ("learned", "best_score_"), HUGE),
        ("two strengths", ("learned", "best_params_"), {"dict": {}}),
        ("two strengths", ("learned", "best_params_"), {"dict": {"a": 1.0, "b": 2.0}}),
        ("two strengths", ("learned", "best_index_"), 10**9),
        ("family", ("learned", "provenance_"), {"dict": {"training": "x"}}),
        ("family", ("learned", "provenance_"), {"dict": {"training": {"dict": {"scores": [1.0]}}}}),
        ("family", ("learned", "provenance_"), {"dict": {"training": {"dict": {"auc": ["x"]}}}}),
        ("family", ("learned", "provenance_"), {"dict": {"versions": "1"}}),
    ],
)
def test_what_inspect_would_die_of_is_refused(name, at, new, fitted, path):
    fitted("regressor", name).save(path)
    header, _ = parse(path)
    _, arrays = read_archive(path)
    content = {**header["content"], "model": changed_at(header["content"]["model"], at, new)}
    # arrays that nothing uses any more would be refused for that
    used = sorted(int(i) for i in re.findall(r'"array": (\d+)', json.dumps(content["model"])))
    text = re.sub(r'"array": (\d+)', lambda m: f'"array": {used.index(int(m[1]))}', json.dumps(content))
    write_archive(path, json.loads(text), [arrays[i] for i in used])
    with pytest.raises(ModelFileError):
        mmtfl.load(path)


def test_deep_nesting_is_refused(fitted, path):
    fitted("regressor", "family").save(path)
    header, payload = parse(path)
    value = []
    for _ in range(300):
        value = [value]
    header["content"]["model"]["learned"]["note_"] = value
    seal(path, header, payload)
    with pytest.raises(ModelFileError, match="nested more than"):
        mmtfl.load(path)


def test_a_newer_model_is_refused_with_a_clear_line(fitted, path):
    fitted("regressor", "family").save(path)
    data = path.read_bytes()
    path.write_bytes(data[:8] + struct.pack("<I", 2) + data[12:])
    with pytest.raises(
        ModelFileError, match=r"has format 2, and this version of mmtfl reads formats up to 1"
    ):
        mmtfl.load(path)


def test_a_search_of_a_version_without_pooling_has_no_common_part(tmp_path):
    data = make_tasks(3, 20, 4, n_informative=2, random_state=0)
    model = mmtfl.MMTFLRegressorCV((2, 2), alphas=3, cv=2, poolings=(0,)).fit(data.X, data.y, task=data.task)
    del model.best_pooling_, model.common_
    model.save(tmp_path / "old.mmtfl")
    loaded = mmtfl.load(tmp_path / "old.mmtfl")
    assert loaded.best_pooling_ == 0.0
    assert not loaded.common_.any() and loaded.common_.shape == (4,)
    assert loaded._chosen_model().pooling == 0.0


def test_a_file_that_keeps_b_is_read_and_b_is_computed(tmp_path):
    data = make_tasks(3, 20, 4, n_informative=2, random_state=0)
    model = mmtfl.MMTFLRegressor(alpha=0.1).fit(data.X, data.y, task=data.task)
    vars(model)["B_"] = np.ones((4, 3))  # as an earlier version would
    model.save(tmp_path / "old.mmtfl")
    loaded = mmtfl.load(tmp_path / "old.mmtfl")
    assert "B_" not in vars(loaded)
    np.testing.assert_allclose(loaded.c_[:, None] * loaded.B_, loaded.coef_.T, rtol=1e-14)
