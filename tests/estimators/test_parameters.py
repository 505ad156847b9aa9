"""Parameters that are declared once: signatures, checks and docstrings follow from the declarations."""

import ast
import inspect
from pathlib import Path

import pytest
from sklearn.utils._param_validation import (
    validate_parameter_constraints,
)

import mmtfl
from mmtfl.estimators import base
from mmtfl.estimators.parameters import Declared

PUBLIC = [getattr(mmtfl, name) for name in mmtfl.__all__]
ESTIMATORS = [value for value in PUBLIC if inspect.isclass(value) and issubclass(value, Declared)]


# -- the estimators ------------------------------------------------------------------------------------------


def test_no_estimator_repeats_its_parameters_in_an_init():
    sources = list(Path(base.__file__).parent.glob("*.py"))
    assert len(sources) > 10
    public = {Model.__name__ for Model in ESTIMATORS}
    classes = [
        node
        for path in sources
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    ]
    estimators = [node for node in classes if node.name in public]
    assert {node.name for node in estimators} == public
    written = [item.name for node in estimators for item in node.body if isinstance(item, ast.FunctionDef)]
    assert "fit" in written
    assert "__init__" not in written


@pytest.mark.parametrize("Model", ESTIMATORS)
def test_every_default_is_a_valid_value(Model):
    assert set(Model._parameters) == set(inspect.signature(Model).parameters)
    defaults = {name: found.default for name, found in Model._parameters.items() if name != "estimator"}
    validate_parameter_constraints(Model._parameter_constraints, defaults, Model.__name__)
