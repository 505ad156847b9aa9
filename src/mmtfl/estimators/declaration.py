"""Parameters of estimators as declarations: the signature, the checks and the docstring follow from them.

A class states a parameter as an annotated field, as a dataclass does::

    class Ridge(Declared, BaseEstimator):
        alpha: float = parameter(POSITIVE, "Strength of the penalty.", default=1.0)

Its subclasses inherit the parameter. Each class gets a plain ``__init__`` that stores its arguments
untouched, scikit-learn's ``_parameter_constraints``, and, if its docstring ends in examples, the sections on
parameters and attributes. A signature holds the parameters in the order of their declarations, those that may
be given by position first.
"""

import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, dataclass_transform

from sklearn.utils._param_validation import InvalidParameterError, StrOptions, validate_parameter_constraints

REQUIRED = inspect.Parameter.empty
_WIDTH = 105  # characters of a line of a description
_SOURCE = "<declared parameters>"
_EXAMPLES = "\n\nExamples\n--------\n"
_numbers = itertools.count()


class Valid(NamedTuple):
    """Valid values of a parameter: in words, for the docstring, and as constraints of scikit-learn."""

    words: str
    constraints: list[Any]


def choice(*options: str) -> Valid:
    """Allow one of some strings."""
    words = ", ".join(f'"{option}"' for option in options)
    return Valid(f"{{{words}}}", [StrOptions(set(options))])


@dataclass(frozen=True)
class Parameter:
    """One parameter of an estimator."""

    valid: Valid
    description: str
    default: Any
    remedy: str
    kw_only: bool
    number: int = field(default_factory=_numbers.__next__)

    @property
    def place(self) -> tuple[bool, int]:
        """Sort key of the signature."""
        return self.kw_only, self.number

    @property
    def constraints(self) -> list[Any]:
        """Constraints for scikit-learn; None is valid where it is the default."""
        return [*self.valid.constraints, None] if self.default is None else self.valid.constraints

    def documented(self, name: str) -> str:
        """Return the entry of a numpydoc section."""
        lines = textwrap.wrap(self.description, _WIDTH - 4, break_on_hyphens=False, break_long_words=False)
        return "\n    ".join([f"{name} : {self.valid.words}{self._shown_default()}", *lines])

    def _shown_default(self) -> str:
        if self.default is REQUIRED:
            return ""
        if self.default is None:
            return ", optional"
        return f", default={self.default!r}".replace("'", '"')


@dataclass(frozen=True)
class Restated:
    """What a class changes about a parameter that it inherits."""

    changes: dict[str, Any]


def parameter(
    valid: Valid,
    description: str,
    *,
    default: Any = REQUIRED,
    remedy: str = "",
    kw_only: bool = True,
) -> Any:
    """Declare a parameter of an estimator.

    Parameters
    ----------
    valid : Valid
        Its valid values; None need not be named where it is the default.
    description : str
        What it does.
    default : object
        Its default; without one it is required.
    remedy : str
        What to do about a value that is not valid.
    kw_only : bool
        Whether it has to be given by name.
    """
    return Parameter(valid, description, default, remedy, kw_only)


def restated(**changes: Any) -> Any:
    """Inherit a parameter with another default, description or other part of its declaration."""
    return Restated(changes)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter, restated))
class Declared:
    """A class whose parameters are declared as fields."""

    _declared: ClassVar[dict[str, Parameter | Restated]] = {}  # by the class itself
    _parameters: ClassVar[dict[str, Parameter]] = {}  # by the class and its bases
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._declared = _take_declarations(cls)
        cls._parameters = _collect(cls)
        cls._parameter_constraints = {name: found.constraints for name, found in cls._parameters.items()}
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


def _take_declarations(cls: type) -> dict[str, Parameter | Restated]:
    """Remove the declarations from the body of a class, whose instances have the values, and return them."""
    found = {name: value for name, value in vars(cls).items() if isinstance(value, Parameter | Restated)}
    for name in found:
        delattr(cls, name)
    return found


def _collect(cls: type) -> dict[str, Parameter]:
    """Return the parameters that a class and its bases declare, in the order of the signature."""
    found: dict[str, Parameter] = {}
    declared = (vars(base).get("_declared", {}) for base in reversed(cls.__mro__))
    for name, value in itertools.chain(*(names.items() for names in declared)):
        found[name] = value if isinstance(value, Parameter) else replace(found[name], **value.changes)
    return dict(sorted(found.items(), key=lambda item: item[1].place))


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
    """Add the sections on parameters and attributes to a docstring that has examples, before the examples."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "")  # python -OO drops docstrings
    head, mark, examples = text.partition(_EXAMPLES)
    if not mark or "\nParameters\n---" in head:
        return
    parameters = [found.documented(name) for name, found in cls._parameters.items()]
    learned = _learned(cls)
    head = head.partition("\n\nAttributes\n---")[0]
    cls.__doc__ = (
        head + _section("Parameters", parameters) + _section("Attributes", learned) + mark + examples
    )


def _section(title: str, entries: Iterable[str]) -> str:
    return "\n".join([f"\n\n{title}", "-" * len(title), *entries])


def _learned(cls: type[Declared]) -> Iterable[str]:
    """Collect the attributes that a class and its bases document; the nearest class has the last word."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        text = inspect.cleandoc(vars(base).get("__doc__") or "") if issubclass(base, Declared) else ""
        section = re.search(r"^Attributes\n-+\n(.*?)(?=\n\n|\Z)", text, re.S | re.M)
        for entry in re.split(r"\n(?=\S)", section[1]) if section else ():
            found.setdefault(entry.partition(" :")[0], entry)
    return found.values()
