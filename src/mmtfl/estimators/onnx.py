"""A fitted model as an ONNX graph: the linear predictor of each row's task, built by hand."""

import json
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mmtfl.errors import require
from mmtfl.objective.losses import Loss

# old enough for every runtime of the last years, new enough for float64 throughout
OPSET, ML_OPSET, IR_VERSION = 15, 2, 8
MOST_BYTES = 1 << 31  # of one protobuf message


class _Graph:
    """Nodes and constants in the order they are added; a name is given once and used after."""

    def __init__(self, dtype: str):
        self.onnx, self.helper = require("onnx", "onnx"), require("onnx.helper", "onnx")
        self.dtype = np.dtype(dtype)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def kind(self, dtype: np.dtype) -> int:
        """Return the ONNX type of a numpy type."""
        is_text = dtype.kind in "UO"
        return self.onnx.TensorProto.STRING if is_text else self.helper.np_dtype_to_tensor_dtype(dtype)

    def constant(self, name: str, values: np.ndarray) -> str:
        """Add an array; return its name."""
        if values.dtype.kind in "UO":
            text = [str(value).encode() for value in values.ravel()]
            tensor = self.helper.make_tensor(name, self.kind(values.dtype), values.shape, text)
        else:
            tensor = require("onnx.numpy_helper", "onnx").from_array(np.ascontiguousarray(values), name)
        self.constants.append(tensor)
        return name

    def add(self, operator: str, *inputs: str, name: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation; return the name of its output."""
        made = self.helper.make_node(operator, list(inputs), [name], name=name, domain=domain, **attributes)
        self.nodes.append(made)
        return name

    def value(self, name: str, dtype: np.dtype, *shape: Any) -> Any:
        """Describe an input or output of the graph."""
        return self.helper.make_tensor_value_info(name, self.kind(dtype), ["rows", *shape])


def onnx_bytes(model: Any, dtype: str = "float64") -> bytes:
    """Return a fitted model as the bytes of an ONNX file.

    Parameters
    ----------
    model : estimator
        Fitted `TaskModel`.
    dtype : {"float64", "float32"}
        Precision of X and of what comes out.

    Returns
    -------
    bytes
        The same for equal models.
    """
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype={dtype!r}: use 'float64', as in Python, or 'float32'.")
    if model.coef_.nbytes >= MOST_BYTES:
        raise ValueError(f"coef_ has {model.coef_.nbytes} bytes, and an ONNX file holds less than 2 GB.")
    graph = _Graph(dtype)
    T, d = model.coef_.shape
    inputs = [graph.value("X", graph.dtype, d)]
    if model._predicts_matrix:
        z = _same_for_all_rows(graph, model.coef_.T, model.intercept_)
    elif T == 1:  # with one task, labels have nothing to tell
        z = _same_for_all_rows(graph, model.coef_[0], model.intercept_[0])
    else:
        inputs.append(graph.value("task", _plain(model.tasks_).dtype))
        z = _own_task(graph, model)
    outputs = _outputs(graph, model, z, [T] if model._predicts_matrix else [])
    helper = graph.helper
    made = helper.make_graph(graph.nodes, type(model).__name__, inputs, outputs, graph.constants)
    sets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    proto = helper.make_model(made, opset_imports=sets, ir_version=IR_VERSION, producer_name="mmtfl")
    helper.set_model_props(proto, _properties(model))
    graph.onnx.checker.check_model(proto)
    return proto.SerializeToString(deterministic=True)


# -- the linear predictor ------------------------------------------------------------------------------------


def _same_for_all_rows(graph: _Graph, coef: np.ndarray, intercept: np.ndarray) -> str:
    product = graph.add("MatMul", "X", graph.constant("coef", coef.astype(graph.dtype)), name="product")
    return graph.add("Add", product, graph.constant("intercept", intercept.astype(graph.dtype)), name="z")


def _own_task(graph: _Graph, model: Any) -> str:
    """Add the linear predictor of each row with the coefficients of its own task."""
    coef, intercept, T = model.coef_, model.intercept_, len(model.tasks_)
    if model.unknown_task != "error" and isinstance(model._loss, Loss):
        coef, intercept = model._with_unknown_task()
    # without that row, an unknown task has an index past the end, at which a runtime stops
    keys = {"keys_strings" if model.tasks_.dtype.kind == "U" else "keys_int64s": model.tasks_.tolist()}
    places = {"values_int64s": list(range(T)), "default_int64": T}
    index = graph.add("LabelEncoder", "task", name="task_index", domain="ai.onnx.ml", **keys, **places)
    coef = graph.constant("coef", coef.astype(graph.dtype))
    intercept = graph.constant("intercept", intercept.astype(graph.dtype))
    rows = graph.add("Gather", coef, index, name="coef_of_row", axis=0)
    axis = graph.constant("feature_axis", np.array([1], dtype=np.int64))
    product = graph.add("Mul", "X", rows, name="terms")
    total = graph.add("ReduceSum", product, axis, name="product", keepdims=0)
    own = graph.add("Gather", intercept, index, name="intercept_of_row", axis=0)
    return graph.add("Add", total, own, name="z")


# -- what comes out ------------------------------------------------------------------------------------------


def _outputs(graph: _Graph, model: Any, z: str, columns: list[int]) -> list[Any]:
    if not is_classifier(model):
        _means(graph, model, z)
        return [graph.value("prediction", graph.dtype, *columns)]
    classes = _plain(model.classes_)
    zero = graph.constant("zero", np.zeros((), dtype=graph.dtype))
    second = graph.add("Greater", z, zero, name="is_second_class")
    code = graph.add("Cast", second, name="class_code", to=graph.kind(np.dtype(np.int64)))
    graph.add("Gather", graph.constant("classes", classes), code, name="prediction", axis=0)
    if model._predicts_matrix:
        graph.add("Sigmoid", z, name="probability")
    else:
        axis = graph.constant("class_axis", np.array([1], dtype=np.int64))
        # of minus z, not one minus the other: small probabilities keep their digits
        parts = [
            graph.add("Unsqueeze", graph.add("Sigmoid", value, name=f"share_{i}"), axis, name=f"column_{i}")
            for i, value in enumerate([graph.add("Neg", z, name="minus_z"), z])
        ]
        graph.add("Concat", *parts, name="probability", axis=1)
    return [
        graph.value("prediction", classes.dtype, *columns),
        graph.value("probability", graph.dtype, *(columns or [2])),
    ]


def _means(graph: _Graph, model: Any, z: str) -> None:
    """Add the expected targets: the inverse link of each task's loss."""
    losses = [model._loss.for_task(label) for label in model.tasks_.tolist()]
    operators = [loss.mean_operator for loss in losses]
    if None in operators:
        raise ValueError(
            f"The mean of the {losses[operators.index(None)].name} loss has no operator in ONNX: save the "
            "model with save() and predict in Python."
        )
    kinds = sorted(set(operators))
    if len(kinds) == 1:
        graph.add(kinds[0], z, name="prediction")
        return
    found = graph.add(kinds[0], z, name="mean_0")
    for i, operator in enumerate(kinds[1:], start=1):
        mask = graph.constant(f"tasks_{i}", np.array([own == operator for own in operators]))
        if not model._predicts_matrix:
            mask = graph.add("Gather", mask, "task_index", name=f"rows_{i}", axis=0)
        own = graph.add(operator, z, name=f"mean_{i}")
        last = i == len(kinds) - 1
        found = graph.add("Where", mask, own, found, name="prediction" if last else f"means_to_{i}")


def _plain(labels: np.ndarray) -> np.ndarray:
    """Convert labels to a type that every runtime has: strings, booleans, int64 and float64."""
    wider = {"i": np.int64, "u": np.int64, "f": np.float64}.get(labels.dtype.kind)
    return labels if wider is None else labels.astype(wider)


def _properties(model: Any) -> dict[str, str]:
    import mmtfl

    names = getattr(model, "feature_names_in_", None)
    return {
        "mmtfl": mmtfl.__version__,
        "class": type(model).__name__,
        "tasks": json.dumps(model.tasks_.tolist()),
        "features": json.dumps(None if names is None else [str(name) for name in names]),
        "unknown_task": model.unknown_task,
    }
