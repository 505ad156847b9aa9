"""Read numbers from arrays and frames of any kind; frames are read through narwhals."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from mmtfl.errors import install_hint, require
from mmtfl.wording import abbreviate, suggest

FLOATS = (np.dtype(np.float64), np.dtype(np.float32))


def as_float(values: Any, name: str) -> np.ndarray:
    """Read numbers as float64; float32 and float64 come back as they are, missing values as NaN."""
    if isinstance(values, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(values), np.nan, as_float(values.data, name))
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} cannot be read as an array: {error}") from None
    if array.dtype in FLOATS:
        return array if array.flags.aligned else array.copy()  # compiled loops need whole words
    kind = array.dtype.kind
    if kind in "fiub":
        # a long double beyond float64 becomes infinity, which later checks report
        with np.errstate(over="ignore"):
            return array.astype(np.float64)
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} is of type {array.dtype}.")
    if kind in "OUST":
        numbers = np.empty(array.shape, dtype=np.float64)
        # the original values are read: numpy has turned the numbers of [1, "a"] into strings
        for place, value in np.ndenumerate(np.asarray(values, dtype=object)):
            numbers[place] = np.nan if is_missing(value) else _number(value, place, name)
        return numbers
    raise TypeError(f"{name} must hold numbers, but is of type {array.dtype}: convert it first.")


def _number(value: Any, place: tuple[int, ...], name: str) -> float:
    where = name + "".join(f", {axis} {i}" for axis, i in zip(("row", "column"), place, strict=False))
    if isinstance(value, str | bytes):
        raise TypeError(f"{where}: found the string {value!r}, expected a number: encode it or leave it out.")
    if isinstance(value, complex | np.complexfloating):
        raise ValueError(f"Complex data not supported: {where} is {value!r}.")
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{where}: not a number, {error}.") from None
    except OverflowError as error:
        raise ValueError(f"{where}: does not fit in float64, {error}.") from None


def is_missing(value: Any) -> bool:
    """Whether a single value is missing: None, NaN, NaT or pandas.NA."""
    try:
        return value is None or bool(value != value)  # NaN and NaT differ from themselves
    except TypeError:
        return True  # pandas.NA refuses to be true or false
    except ValueError:
        return False  # an array inside an array is wrong, but not missing


# -- frames of pandas, polars and pyarrow --------------------------------------------------------------------

FRAME_MAKERS = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


def is_frame(X: Any) -> bool:
    """Tell whether X is a pandas, polars or pyarrow table."""
    return nw.dependencies.is_into_dataframe(X)


def frame_backend(X: Any) -> str:
    """Name the library of a frame."""
    return nw.get_native_namespace(X).__name__.partition(".")[0]


def make_frame(columns: dict[str, Any], backend: str | None) -> Any:
    """Make a table with the given library, or with the first one that is installed."""
    for name in dict.fromkeys([backend, *FRAME_MAKERS]):
        if name not in FRAME_MAKERS:
            continue
        try:
            return getattr(require(name), FRAME_MAKERS[name])(columns)
        except ImportError:
            continue
    raise ImportError(
        "A table needs pandas, polars or pyarrow, and none is installed: for pandas, "
        + install_hint("frames")
    )


def check_not_lazy(values: Any, name: str) -> None:
    """Refuse lazy frames and columns, whose values are not known yet."""
    if hasattr(values, "collect"):
        raise TypeError(f"{name} is lazy ({type(values).__name__}): call .collect() first.")


def open_frame(X: Any, name: str) -> nw.DataFrame[Any] | None:
    """Open a frame in memory; None if X is something else."""
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if not isinstance(frame, nw.DataFrame):
            return None
        frame.schema  # noqa: B018  (reading the schema finds repeated names)
    except ValueError as error:
        raise ValueError(f"{name} has repeated column names; rename or drop them. {error}") from None
    return frame


def frame_design(frame: nw.DataFrame[Any], name: str) -> np.ndarray:
    """Read a frame of numbers as one array; an error names a column that does not hold numbers."""
    kinds = set(frame.schema.values())
    if len(kinds) == 1 and kinds <= {nw.Float64(), nw.Float32()}:
        return as_float(frame.to_numpy(), name)  # without a copy where the frame allows it
    X = np.empty(frame.shape, dtype=np.float64, order="F")
    for j, column in enumerate(frame.iter_columns()):
        kind, where = column.dtype, f"Column {column.name!r} of {name}"
        if not (kind.is_numeric() or kind in (nw.Boolean, nw.Object, nw.Unknown)):
            raise TypeError(
                f"{where} is of type {kind}, expected numbers: encode the column (estimators do, with "
                "categorical_features='from_dtype'), or leave it out."
            )
        X[:, j] = as_float(column.to_numpy(), where)
    return X


def pick_columns(frame: nw.DataFrame[Any], names: Sequence[Any]) -> Any:
    """Select some columns, as a frame of the library that was passed in."""
    # by position, because pandas columns may be called 0, 1, ..., which narwhals does not accept as names
    position = {name: j for j, name in enumerate(frame.columns)}
    return frame[:, [position[name] for name in names]].to_native()


def feature_columns(
    columns: Sequence[str], special: Sequence[str], features: Sequence[str] | None
) -> list[str]:
    """Choose the feature columns: those asked for, or all that are not task, target or weight."""
    if isinstance(features, str):
        raise TypeError(f"features must be a list of column names, not the string {features!r}.")
    chosen = [name for name in columns if name not in special] if features is None else list(features)
    present = set(columns)
    for name, uses in Counter([*special, *chosen]).items():
        if name not in present:
            raise ValueError(f"The frame has no column {name!r}{suggest(name, columns)}")
        if uses > 1:
            raise ValueError(f"Column {name!r} is used twice, as task, target, weight or feature: pick one.")
    if not chosen:
        raise ValueError(f"No feature columns are left: the frame has only {abbreviate(columns)}.")
    return chosen
