"""Parameters that are declared once: signatures, checks and docstrings follow from the declarations."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import (
    InvalidParameterError,
    StrOptions,
    validate_parameter_constraints,
)

import mmtfl
from mmtfl.estimators import base
from mmtfl.estimators.parameters import COUNT, POSITIVE, Declared, parameter

PUBLIC = [getattr(mmtfl, name) for name in mmtfl.__all__]
ESTIMATORS = [value for value in PUBLIC if inspect.isclass(value) and issubclass(value, Declared)]


class Early(Declared):
    """Earlier.

    Parameters
    ----------
    model : bool
        What to fit.
    quick : bool
        Whether it is quick.
    strength : float > 0
        How strong it is.
    """

    model: object = parameter("boolean", kw_only=False)
    quick: bool = parameter("boolean", default=False)
    strength: float = parameter(POSITIVE, default=1.0, remedy="Use 1.", kw_only=False)


class Late(Declared):
    """Later.

    Parameters
    ----------
    mode : {"a", "b"}
        How it is done.
    n : int
        How many.

    Attributes
    ----------
    n_ : int
        How many.
    both_ : int
        What the later one says.
    """

    mode: str = parameter(StrOptions({"a", "b"}), default="a")
    n: int | None = parameter(COUNT, default=None, kw_only=False)


class Example(Late, Early, BaseEstimator):
    """An example.

    Parameters
    ----------
    quick : bool
        Whether the nearest one is quick.

    Attributes
    ----------
    both_ : int
        What the nearest one says.

    Examples
    --------
    >>> 1 + 1
    2
    """

    strength: float = parameter(default=0.5, kw_only=False)


class Stronger(Example):
    strength: float = parameter(default=2.0, kw_only=False)


def test_signatures_are_in_the_order_of_dataclasses():
    plain = "(model, strength=0.5, n=None, *, quick=False, mode='a')"
    assert str(inspect.signature(Example)) == plain
    assert str(inspect.signature(Stronger)) == plain.replace("0.5", "2.0")
    assert inspect.signature(Early).parameters["strength"].default == 1.0  # as it was


def test_arguments_are_stored_untouched():
    model, n = object(), np.array([3])
    made = Example(model, 4, n, mode="b")
    assert (made.model, made.strength, made.quick, made.mode) == (model, 4, False, "b")
    assert made.n is n
    assert vars(made).keys() == {"model", "strength", "n", "quick", "mode"}
    assert not any(hasattr(Example, name) for name in vars(made))


@pytest.mark.parametrize(("Model", "remedy"), [(Example, "Use 1."), (Stronger, "Use 1.")])
def test_errors_end_in_the_remedy_of_the_declaration(Model, remedy):
    Model(True, n=None)._check_parameters()
    with pytest.raises(
        InvalidParameterError, match=rf"'strength' parameter of {Model.__name__} .* {remedy}$"
    ):
        Model(True, -1.0)._check_parameters()


def test_docstrings_name_parameters_and_attributes_before_the_examples():
    assert Example.__doc__ == inspect.cleandoc(
        """
        An example.

        Parameters
        ----------
        model : bool
            What to fit.
        strength : float > 0, default=0.5
            How strong it is.
        n : int, optional
            How many.
        quick : bool, default=False
            Whether the nearest one is quick.
        mode : {"a", "b"}, default="a"
            How it is done.

        Attributes
        ----------
        both_ : int
            What the nearest one says.
        n_ : int
            How many.

        Examples
        --------
        >>> 1 + 1
        2
        """
    )


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


# -- a loss with a parameter ---------------------------------------------------------------------------------
