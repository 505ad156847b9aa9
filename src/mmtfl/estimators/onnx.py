"""A fitted model as an ONNX graph: the linear predictor of each row's task, built by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from mmtfl.errors import require

__all__ = ["onnx_bytes"]

# old enough for every runtime of the last years, new enough for float64 throughout
OPSET, ML_OPSET, IR_VERSION = 15, 2, 8
MOST_BYTES = 1 << 31  # of one protobuf message


@dataclass
class _Graph:
    """Nodes and constants in the order they are added; a name is given once and used after."""

    dtype: Any
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def constant(self, name: str, values: Any) -> str:
        """Keep an array; its name."""
        values = np.asarray(values)
        if values.dtype.kind in "UO":
            helper, TensorProto = require("onnx.helper", "onnx"), require("onnx", "onnx").TensorProto
            text = [str(value).encode() for value in values.ravel()]
            tensor = helper.make_tensor(name, TensorProto.STRING, values.shape, text)
        else:
            tensor = require("onnx.numpy_helper", "onnx").from_array(np.ascontiguousarray(values), name)
        self.constants.append(tensor)
        return name

    def add(self, operator: str, *inputs: str, name: str, domain: str = "", **attributes: Any) -> str:
        """Add an operation; the name of its output."""
        make = require("onnx.helper", "onnx").make_node
        self.nodes.append(make(operator, list(inputs), [name], name=name, domain=domain, **attributes))
        return name


def onnx_bytes(model: Any, dtype: str = "float64") -> bytes:
    """A fitted model as the bytes of an ONNX file.

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
    onnx, helper = require("onnx", "onnx"), require("onnx.helper", "onnx")
    if model.coef_.nbytes >= MOST_BYTES:
        raise ValueError(f"coef_ has {model.coef_.nbytes} bytes, and an ONNX file holds less than 2 GB.")
    graph = _Graph(np.dtype(dtype))
    number = helper.np_dtype_to_tensor_dtype(graph.dtype)
    T, d = model.coef_.shape
    inputs = [helper.make_tensor_value_info("X", number, ["rows", d])]
    shape: list[Any] = ["rows", T] if model._predicts_matrix else ["rows"]
    if model._predicts_matrix:
        z = _same_for_all_rows(graph, model.coef_.T, model.intercept_)
    elif T == 1:  # with one task, labels have nothing to tell
        z = _same_for_all_rows(graph, model.coef_[0], model.intercept_[0])
    else:
        kind = onnx.TensorProto.STRING if model.tasks_.dtype.kind == "U" else onnx.TensorProto.INT64
        inputs.append(helper.make_tensor_value_info("task", kind, ["rows"]))
        z = _own_task(graph, model)
    outputs = _outputs(graph, model, z, shape, number)
    made = helper.make_graph(graph.nodes, type(model).__name__, inputs, outputs, graph.constants)
    sets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    proto = helper.make_model(made, opset_imports=sets, ir_version=IR_VERSION, producer_name="mmtfl")
    helper.set_model_props(proto, _properties(model))
    onnx.checker.check_model(proto)
    return proto.SerializeToString(deterministic=True)


# -- the linear predictor ------------------------------------------------------------------------------------


def _same_for_all_rows(graph: _Graph, coef: np.ndarray, intercept: np.ndarray) -> str:
    product = graph.add("MatMul", "X", graph.constant("coef", coef.astype(graph.dtype)), name="product")
    return graph.add("Add", product, graph.constant("intercept", intercept.astype(graph.dtype)), name="z")


def _own_task(graph: _Graph, model: Any) -> str:
    """Each row with the coefficients of its own task: X times rows of coef, summed."""
    coef, intercept = model.coef_, model.intercept_
    if model.unknown_task == "mean":
        fitted = model._has_part()
        coef = np.vstack([coef, coef[fitted].mean(axis=0)])
        intercept = np.append(intercept, intercept[fitted].mean())
    # without that row, an unknown task has an index past the end, at which a runtime stops
    index = _task_index(graph, model.tasks_)
    coef = graph.constant("coef", coef.astype(graph.dtype))
    intercept = graph.constant("intercept", intercept.astype(graph.dtype))
    rows = graph.add("Gather", coef, index, name="coef_of_row", axis=0)
    axis = graph.constant("feature_axis", np.array([1], dtype=np.int64))
    product = graph.add("Mul", "X", rows, name="terms")
    total = graph.add("ReduceSum", product, axis, name="product", keepdims=0)
    own = graph.add("Gather", intercept, index, name="intercept_of_row", axis=0)
    return graph.add("Add", total, own, name="z")


def _task_index(graph: _Graph, tasks: np.ndarray) -> str:
    keys = {"keys_strings" if tasks.dtype.kind == "U" else "keys_int64s": tasks.tolist()}
    return graph.add(
        "LabelEncoder",
        "task",
        name="task_index",
        domain="ai.onnx.ml",
        **keys,
        values_int64s=list(range(len(tasks))),
        default_int64=len(tasks),
    )


# -- what comes out ------------------------------------------------------------------------------------------


def _outputs(graph: _Graph, model: Any, z: str, shape: list[Any], number: int) -> list[Any]:
    helper = require("onnx.helper", "onnx")
    if not is_classifier(model):
        graph.add("Identity", z, name="prediction")
        return [helper.make_tensor_value_info("prediction", number, shape)]
    classes = _plain_classes(model.classes_)
    zero = graph.constant("zero", np.zeros((), dtype=graph.dtype))
    second = graph.add("Greater", z, zero, name="is_second_class")
    code = graph.add("Cast", second, name="class_code", to=require("onnx", "onnx").TensorProto.INT64)
    graph.add("Gather", graph.constant("classes", classes), code, name="prediction", axis=0)
    if model._predicts_matrix:
        graph.add("Sigmoid", z, name="probability")
        columns = shape
    else:
        axis = graph.constant("class_axis", np.array([1], dtype=np.int64))
        # of minus z, not one minus the other: small probabilities keep their digits
        parts = [
            graph.add("Unsqueeze", graph.add("Sigmoid", value, name=f"share_{i}"), axis, name=f"column_{i}")
            for i, value in enumerate([graph.add("Neg", z, name="minus_z"), z])
        ]
        graph.add("Concat", *parts, name="probability", axis=1)
        columns = ["rows", 2]
    kind = require("onnx", "onnx").TensorProto.STRING
    if classes.dtype.kind not in "UO":
        kind = helper.np_dtype_to_tensor_dtype(classes.dtype)
    return [
        helper.make_tensor_value_info("prediction", kind, shape),
        helper.make_tensor_value_info("probability", number, columns),
    ]


def _plain_classes(classes: np.ndarray) -> np.ndarray:
    """Classes in the kinds that every runtime has: strings, booleans, int64 and float64."""
    wider = {"i": np.int64, "u": np.int64, "f": np.float64}.get(classes.dtype.kind)
    return classes if wider is None else classes.astype(wider)


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
