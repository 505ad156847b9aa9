"""Parameters that are declared once: signatures, checks and docstrings follow from the declarations."""

import inspect

import pytest
from sklearn.utils._param_validation import (
    validate_parameter_constraints,
)

import mmtfl
from mmtfl.estimators.parameters import Declared

PUBLIC = [getattr(mmtfl, name) for name in mmtfl.__all__]
ESTIMATORS = [value for value in PUBLIC if inspect.isclass(value) and issubclass(value, Declared)]


# -- the estimators ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("Model", ESTIMATORS)
def test_every_default_is_a_valid_value(Model):
    assert set(Model._parameters) == set(inspect.signature(Model).parameters)
    defaults = {name: found.default for name, found in Model._parameters.items() if name != "estimator"}
    validate_parameter_constraints(Model._parameter_constraints, defaults, Model.__name__)
