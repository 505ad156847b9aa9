"""Parameters of estimators as declarations: the signature, the checks and the docstring follow from them.

A class states a parameter as an annotated field, as a dataclass does, and describes it in its docstring::

    class Ridge(Declared, BaseEstimator):
        '''Least squares with a penalty.

Parameters
----------
        alpha : float > 0
            Strength of the penalty.
        '''

        alpha: float = parameter(POSITIVE, default=1.0, remedy="Use a small number, such as 1e-3.")

Its subclasses inherit the parameter. Each class gets a plain ``__init__`` that stores its arguments
untouched, scikit-learn's ``_parameter_constraints``, and, if its docstring ends in examples, the sections on
parameters and attributes. The order is that of dataclasses: the bases first, the last one named before the
others.
"""

import inspect
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, dataclass_transform

from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    InvalidParameterError,
    StrOptions,
    validate_parameter_constraints,
)

REQUIRED = inspect.Parameter.empty
_SOURCE = "<declared parameters>"
_EXAMPLES = "\n\nExamples\n--------\n"


@dataclass(frozen=True)
class Parameter:
    """One parameter of an estimator."""

    constraints: tuple[Any, ...]
    default: Any
    remedy: str
    kw_only: bool


def parameter(*constraints: Any, default: Any = REQUIRED, remedy: str = "", kw_only: bool = True) -> Any:
    """Declare a parameter of an estimator, or give one that is inherited another default.

    Parameters
    ----------
    constraints : objects
        Constraints of scikit-learn, of which one has to hold; None is valid where it is the default. Without
        any the parameter is inherited, and only its default is another; the docstring may describe it anew.
    default : object
        Its default; without one it is required.
    remedy : str
        What to do about a value that is not valid.
    kw_only : bool
        Whether it has to be given by name.
    """
    return Parameter(constraints, default, remedy, kw_only)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter,))
class Declared:
    """A class whose parameters are declared as fields."""

    _declared: ClassVar[dict[str, Parameter]] = {}  # by the class itself
    _parameters: ClassVar[dict[str, Parameter]] = {}  # by the class and its bases
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._declared = {name: value for name, value in vars(cls).items() if isinstance(value, Parameter)}
        for name in cls._declared:
            delattr(cls, name)  # instances have the values
        cls._parameters = _collect(cls)
        cls._parameter_constraints = {
            name: [*found.constraints, None] if found.default is None else [*found.constraints]
            for name, found in cls._parameters.items()
        }
        if cls._parameters and not _is_written(cls.__init__):
            cls.__init__ = _make_init(cls)  # type: ignore[method-assign]
        _document(cls)

    def _check_parameters(self: Any) -> Any:
        """Check one parameter after the other, so that the error can end in its remedy."""
        for name, value in self.get_params(deep=False).items():
            try:
                validate_parameter_constraints(
                    self._parameter_constraints, {name: value}, type(self).__name__
                )
            except InvalidParameterError as error:
                raise InvalidParameterError(f"{error} {self._parameters[name].remedy}".rstrip()) from None


def choice(words: tuple[str, ...], remedy: str = "") -> Any:
    """Declare one of some words; the first is the default."""
    return parameter(StrOptions(set(words)), default=words[0], remedy=remedy)


def strength(default: float, remedy: str) -> Any:
    """Declare a positive strength, which may be given by position."""
    return parameter(POSITIVE, default=default, remedy=remedy, kw_only=False)


def _collect(cls: type) -> dict[str, Parameter]:
    """Return the parameters that a class and its bases declare, in the order of the signature."""
    found: dict[str, Parameter] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).get("_declared", {}).items():
            inherited = not value.constraints
            found[name] = replace(found[name], default=value.default) if inherited else value
    return dict(sorted(found.items(), key=lambda item: item[1].kw_only))


def _make_init(cls: type[Declared]) -> Callable[..., None]:
    """Compile an ``__init__`` with a plain signature, as dataclasses do."""
    arguments = ["self"]
    for name, found in cls._parameters.items():
        if found.kw_only and "*" not in arguments:
            arguments.append("*")
        arguments.append(name if found.default is REQUIRED else f"{name}={name}")
    body = "".join(f"    self.{name} = {name}\n" for name in cls._parameters)
    space = {name: found.default for name, found in cls._parameters.items()}
    exec(compile(f"def __init__({', '.join(arguments)}):\n{body}", _SOURCE, "exec"), space)
    init = space["__init__"]
    init.__qualname__, init.__module__ = f"{cls.__qualname__}.__init__", cls.__module__
    return init


def _is_written(init: Any) -> bool:
    """Tell whether an ``__init__`` is written by hand, neither made here nor that of `object`."""
    return inspect.isfunction(init) and init.__code__.co_filename != _SOURCE


# -- docstrings ----------------------------------------------------------------------------------------------


def _document(cls: type[Declared]) -> None:
    """Write the sections on parameters and attributes into a docstring that has examples, before these."""
    head, mark, examples = inspect.cleandoc(vars(cls).get("__doc__") or "").partition(_EXAMPLES)
    if not mark:  # python -OO drops docstrings
        return
    entries, attributes = _entries(cls, "Parameters"), _entries(cls, "Attributes")
    parameters = [_with_default(entries[name], found.default) for name, found in cls._parameters.items()]
    head = re.split(r"\n\n(?:Parameters|Attributes)\n-", head)[0]
    sections = [_section("Parameters", parameters), _section("Attributes", attributes.values())]
    cls.__doc__ = "".join([head, *sections, mark, examples])


def _entries(cls: type, title: str) -> dict[str, str]:
    """Collect what a class and its bases say in one section of their docstrings, the nearest class first."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        text = inspect.cleandoc(vars(base).get("__doc__") or "") if issubclass(base, Declared) else ""
        section = re.search(rf"^{title}\n-+\n(.*?)(?=\n\n|\Z)", text, re.S | re.M)
        for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
            found.setdefault(entry.partition(" :")[0], entry)
    return found


def _with_default(entry: str, default: Any) -> str:
    """The entry of a parameter with its default behind the type."""
    head, line, text = entry.partition("\n")
    if default is REQUIRED or ", default=" in head or head.endswith(", optional"):
        return entry
    shown = ", optional" if default is None else f", default={default!r}".replace("'", '"')
    return f"{head}{shown}{line}{text}"


def _section(title: str, entries: Iterable[str]) -> str:
    return "\n".join([f"\n\n{title}", "-" * len(title), *entries])


# -- parameters of several kinds of models -------------------------------------------------------------------

COUNT = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, math.inf, closed="neither")
RATIO = Interval(Real, 0, 1, closed="neither")
THREADS = (COUNT, Interval(Integral, None, -1, closed="right"))
LEVELS = choice(
    ("free", "shrunk"), "Use 'shrunk' to let tasks borrow their level, or 'free' for plain intercepts."
)


class CommonParameters(Declared):
    """Parameters of all models.

    Parameters
    ----------
    fit_intercept : bool
        Whether each task has an intercept, which is not penalised.
    standardize : bool
        Whether the penalty sees features divided by their standard deviation over all tasks. Coefficients
        come back on the original scale.
    levels : {"shrunk", "free"}
        Whether each task's level is estimated from its own rows alone ("free"), or shrunk towards what the
        levels have in common ("shrunk"): b_0 + w . gamma, where w are the means of the task's columns. The
        fewer rows, the more it is shrunk. How far levels scatter is estimated, not tuned; see
        ``level_spread_`` and ``level_effects_``. Numbers that are columns of y, and tasks with losses of
        their own, have free levels.
    curves : bool or "auto"
        Whether a numeric feature may act by a curve: its line is then joined by a block of natural splines
        that the penalty keeps or drops as a whole; see ``curve`` and docs/curves.md. Columns with fewer than
        six values, sparse X, and features with a sign, a weight of zero or a group keep lines. "auto" is for
        searches, whose folds decide; in a single fit it is True.
    effects : bool
        Whether `fit` also estimates unshrunk effects of all features, with errors, for the methods `effects`
        and `task_effects`.
    task_column : str
        The column of the frame X that holds the task labels, for tools that cannot pass ``task``. It is not
        a feature.
    unknown_task : {"error", "mean", "common"}
        What `predict` does with a label not seen in `fit`: refuse, use the mean of all tasks' coefficients,
        or the common part of a model with ``pooling``. A missing label is always refused.
    task_weight : "equal" or dict of label to float
        Factors on the weights of the tasks' rows in the fit. None: every row counts alike, so that a task
        counts by its rows and a large one may drown the others. "equal" gives every task the same total
        weight. A dict gives the rows of a task its factor, 1 for tasks it does not name. The sum of all
        weights, and with it the meaning of alpha, stays what it was. Scores of held-out rows do not change:
        there a row counts by its own weight.
    categorical_features : "from_dtype"
        What `fit` does with the columns of a frame that hold categories, text or dates (pandas, polars,
        pyarrow): refuse them, or encode the table as `mmtfl.TableEncoder` does, missing cells included.
        Levels become indicators such as ``diet=fish``, those of one column a group; the encoder is kept in
        ``encoder_``, so that `predict` takes the raw table.
    absent_features : {"error", "allow"}
        What `fit` does with a column that is missing (NaN) in all rows of a task: refuse, or take it for a
        feature that the task does not have. Its coefficient is then zero there, what `predict` gets for it
        is ignored, and what is shared is learned from the tasks that have it. Scattered missing values are
        always refused.
    max_iter : int
        Most passes over the data.
    tol : float > 0
        Stop when the distance to stationarity, relative to the largest gradient at zero, is below.
    verbose : int
        Whether to tell on stderr how the fit went, in one line, and the passes of Algorithm 1; with 1
        searches show how far they are, with 2 that line too.
    """

    fit_intercept: bool = parameter("boolean", default=True)
    standardize: bool = parameter("boolean", default=False)
    levels: str = LEVELS
    curves: bool | str = parameter(
        "boolean",
        StrOptions({"auto"}),
        default=False,
        remedy="Use False for lines, True for curves, or 'auto' in a search.",
    )
    effects: bool = parameter("boolean", default=False)
    task_column: str | None = parameter(
        str,
        default=None,
        remedy="Name a column of the frame; labels of an array are passed as task= instead.",
    )
    unknown_task: str = choice(
        ("error", "mean", "common"),
        "Use 'error' to be told of new tasks, 'mean' to predict them by the mean over tasks, 'common' "
        "to predict them by what the tasks scatter about.",
    )
    task_weight: Any = parameter(
        StrOptions({"equal"}),
        dict,
        default=None,
        remedy="Use None, 'equal', or a dict such as {'Bern': 2.0}.",
    )
    categorical_features: str | None = parameter(
        StrOptions({"from_dtype"}),
        default=None,
        remedy="Use None, or 'from_dtype' to encode columns of categories, text and dates.",
    )
    absent_features: str = choice(
        ("error", "allow"),
        "Use 'error' to be told of missing columns, 'allow' for features that some tasks do not have.",
    )
    max_iter: int = parameter(COUNT, default=1000, remedy="Use a positive number of passes, such as 1000.")
    tol: float = parameter(POSITIVE, default=1e-7, remedy="Use a small positive number, such as 1e-7.")
    verbose: int = parameter("verbose", default=0)


class FeatureParameters(Declared):
    """What is known of single features.

    Parameters
    ----------
    penalty_weight : array-like of shape (n_features,), or dict
        How strongly each feature is penalised, 1 for those not named: 0 is never penalised, inf is left out.
        A weight multiplies what the feature would cost; see docs/features.md. A dict or a Series has the
        features by name.
    positive : bool, or array-like of bool or of names
        Whether coefficients must not be negative: all of them, or those of some features.
    """

    penalty_weight: Any = parameter(
        object, default=None, remedy="Give a number per feature, such as {'age': 0}."
    )
    positive: Any = parameter(
        "boolean",
        "array-like",
        default=False,
        remedy="Use True, or a list of the features whose coefficients must not be negative.",
    )


class FamilyParameters(FeatureParameters):
    """Parameters of the members of the family, and of searches over them.

    Parameters
    ----------
    feature_groups : list of lists of names or positions, or dict of them
        Features that are kept or dropped together, in all tasks, such as the levels of a category or the
        basis of a spline: they share one c. Features not named are groups of one. See docs/features.md.
    eps : float > 0
        Only for k="log": the penalty is alpha log(1 + S / eps).
    solver : {"auto", "alternating", "block"}
        "alternating" is Algorithm 1 of the paper, "block" descends on rows of coefficients, "auto" picks.
    n_jobs : int
        Threads over tasks, or over the folds of a search; -1 for all processors. The result is the same for
        any number.
    engine : engine
        Where the tasks are kept and worked on, such as ``DaskEngine(client)``; None for this process.
        Elsewhere "auto" is "alternating".
    checkpoint : str or path
        A file in which the fit keeps what it has reached: passes of Algorithm 1, finished parts of a search,
        and the solution. The same fit on the same data goes on from it and ends with the same bits; another
        one refuses it.
    """

    feature_groups: Any = parameter(
        "array-like",
        dict,
        default=None,
        remedy="Give lists of features, such as [['red', 'green'], ['spline_1', 'spline_2']].",
    )
    eps: float = parameter(POSITIVE, default=1e-2, remedy="Use a small positive number, such as 1e-2.")
    solver: str = choice(("auto", "alternating", "block"), "Use 'auto' unless you compare solvers.")
    n_jobs: int | None = parameter(
        *THREADS, default=None, remedy="Use None, a number of threads, or -1 for all processors."
    )
    engine: Any = parameter(
        HasMethods(["place", "map"]), default=None, remedy="Use None to run here, or DaskEngine(client)."
    )
    checkpoint: str | os.PathLike[str] | None = parameter(
        str, os.PathLike, default=None, remedy="Name a file, such as 'fit.checkpoint', or use None."
    )
