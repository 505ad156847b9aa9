"""Exported graphs, run by onnxruntime, against the predictions in Python."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import mmtfl
from mmtfl.datasets import make_tasks

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

LABELS = {"strings": np.array(["berlin", "kairo", "łódź"]), "integers": np.array([7, -2, 2**40])}


def simulated(labels="strings", classification=False):
    data = make_tasks(
        n_tasks=3, n_samples=50, n_features=6, n_informative=3, classification=classification, random_state=1
    )
    data.task = LABELS[labels][np.unique(data.task, return_inverse=True)[1]]
    order = np.random.default_rng(0).permutation(len(data.y))
    data.X, data.y, data.task = data.X[order], data.y[order], data.task[order]
    return data


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def run(path, X, task=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # a refused run is told by its exception
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    if task is not None:
        task = np.asarray(task, dtype=object if np.asarray(task).dtype.kind == "U" else np.int64)
    inputs = {"X": X} if task is None else {"X": X, "task": task}
    return dict(zip(names, session.run(None, inputs), strict=True))


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-5)])
def test_regression(labels, dtype, tolerance, path):
    data = simulated(labels)
    model = mmtfl.MMTFLRegressor(alpha=0.1, standardize=True).fit(data.X, data.y, task=data.task)
    model.export_onnx(path, dtype=dtype)
    found = run(path, data.X.astype(dtype), data.task)
    assert list(found) == ["prediction"]
    assert found["prediction"].dtype == dtype
    expected = model.predict(data.X, task=data.task)
    assert found["prediction"].shape == expected.shape
    np.testing.assert_allclose(found["prediction"], expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["no", "yes"]),
        np.array(["no", "yes"], dtype=object),
        np.array([False, True]),
        np.array([2, 5]),
    ],
    ids=lambda classes: str(classes.dtype),
)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-5)])
def test_classification(classes, dtype, tolerance, path):
    data = simulated(classification=True)
    y = classes[(data.y == np.unique(data.y)[1]).astype(int)]
    model = mmtfl.MMTFLClassifier(alpha=0.01).fit(data.X, y, task=data.task)
    model.export_onnx(path, dtype=dtype)
    found = run(path, data.X.astype(dtype), data.task)
    expected = model.predict_proba(data.X, task=data.task)
    np.testing.assert_allclose(found["probability"], expected, rtol=0, atol=tolerance)
    clear = np.abs(expected[:, 0] - 0.5) > 1e-4
    assert clear.sum() > 100
    assert found["prediction"][clear].tolist() == model.predict(data.X, task=data.task)[clear].tolist()
    assert set(found["prediction"].tolist()) == set(classes.tolist())


@pytest.mark.parametrize(
    "model",
    [
        mmtfl.MMTFLRegressorCV(pk=(2, 1), alphas=4, cv=2),
        mmtfl.RobustRegressor(),
        mmtfl.CappedRegressor(),
        mmtfl.SingleTaskRegressorCV(alphas=4, cv=2),
        mmtfl.TwoStrengthCV(mmtfl.DirtyRegressor(), strengths=2, cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_every_kind_of_model(model, path):
    data = simulated()
    model = clone(model).fit(data.X, data.y, task=data.task)
    model.export_onnx(path)
    found = run(path, data.X, data.task)["prediction"]
    np.testing.assert_allclose(found, model.predict(data.X, task=data.task), rtol=1e-12, atol=1e-12)


def test_one_task_needs_no_label(path):
    data = simulated()
    model = mmtfl.MMTFLRegressor(alpha=0.1).fit(data.X, data.y)
    model.export_onnx(path)
    np.testing.assert_allclose(run(path, data.X)["prediction"], model.predict(data.X), rtol=1e-12)


def test_tasks_as_columns_of_y(path):
    data = simulated()
    Y = pd.DataFrame({"a": data.X[:, 0], "b": data.X[:, 1] - data.X[:, 0], "c": data.X[:, 3]})
    model = mmtfl.MMTFLRegressor(alpha=0.01).fit(data.X, Y)
    model.export_onnx(path)
    np.testing.assert_allclose(run(path, data.X)["prediction"], model.predict(data.X), rtol=1e-12, atol=1e-12)
    model = mmtfl.MMTFLClassifier(alpha=0.01).fit(data.X, (Y > 0).astype(int))
    model.export_onnx(path)
    found = run(path, data.X)
    np.testing.assert_allclose(found["probability"], model.predict_proba(data.X), rtol=1e-12, atol=1e-12)
    assert np.array_equal(found["prediction"], model.predict(data.X))


@pytest.mark.parametrize("labels", LABELS)
def test_unknown_tasks_stop_the_run(labels, path):
    data = simulated(labels, classification=True)
    model = mmtfl.MMTFLClassifier(alpha=0.01).fit(data.X, data.y, task=data.task)
    model.export_onnx(path)
    unknown = np.array(["rome"]) if labels == "strings" else np.array([8])
    with pytest.raises(Exception, match="out of data bounds"):
        run(path, data.X[:1], unknown)


@pytest.mark.parametrize("labels", LABELS)
def test_unknown_tasks_are_the_mean_of_all_if_asked(labels, path):
    data = simulated(labels)
    model = mmtfl.MMTFLRegressor(alpha=0.1, unknown_task="mean").fit(data.X, data.y, task=data.task)
    model.export_onnx(path)
    unknown = np.array(["rome", "berlin"]) if labels == "strings" else np.array([8, 7])
    found = run(path, data.X[:2], unknown)["prediction"]
    np.testing.assert_allclose(found, model.predict(data.X[:2], task=unknown), rtol=1e-12)
    assert abs(found[0] - data.X[0] @ model.coef_.mean(axis=0) - model.intercept_.mean()) < 1e-12


def test_names_are_told_and_equal_models_give_equal_files(path, tmp_path):
    data = simulated()
    frame = pd.DataFrame(data.X, columns=list("uvwxyz"))
    model = mmtfl.MMTFLRegressor(alpha=0.1).fit(frame, data.y, task=data.task)
    model.export_onnx(path)
    told = {item.key: item.value for item in onnx.load(path).metadata_props}
    assert json.loads(told["tasks"]) == ["berlin", "kairo", "łódź"]
    assert json.loads(told["features"]) == list("uvwxyz")
    model.save(tmp_path / "model.mmtfl")
    mmtfl.load(tmp_path / "model.mmtfl").export_onnx(tmp_path / "again.onnx")
    assert path.read_bytes() == (tmp_path / "again.onnx").read_bytes()


def test_what_is_refused(path, monkeypatch):
    model = mmtfl.MMTFLRegressor()
    with pytest.raises(ValueError, match="not fitted"):
        model.export_onnx(path)
    data = simulated()
    model.fit(data.X, data.y, task=data.task)
    with pytest.raises(ValueError, match="use 'float64', as in Python, or 'float32'"):
        model.export_onnx(path, dtype="int8")
    path.write_bytes(b"older")
    with pytest.raises(FileExistsError, match="overwrite"):
        model.export_onnx(path, overwrite=False)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[onnx\]'"):
        model.export_onnx(path)
    assert path.read_bytes() == b"older"


def test_an_unknown_task_is_predicted_by_the_common_part(path):
    data = simulated()
    model = mmtfl.MMTFLRegressor(p=2, k=2, alpha=0.1, pooling=0.9, unknown_task="common")
    model.fit(data.X, data.y, task=data.task).export_onnx(path)
    task = np.where(np.arange(len(data.X)) % 2, "elsewhere", data.task)
    expected = model.predict(data.X, task=task)
    np.testing.assert_allclose(run(path, data.X, task)["prediction"], expected, rtol=1e-12, atol=1e-12)
