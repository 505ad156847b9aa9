"""Columns of categories as indicators of their levels, for frames of pandas, polars and pyarrow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from mmtfl.wording import abbreviate, count


@dataclass(frozen=True)
class Levels:
    """The levels of a column, each of which has an indicator.

    Of two levels only the second has one, because that of the first would be redundant.

    Examples
    --------
    >>> import numpy as np
    >>> from mmtfl.tasks.categories import Levels
    >>> Levels("diet", ("fish", "meat", "none")).features
    ['diet=fish', 'diet=meat', 'diet=none']
    >>> Levels("smoker", ("no", "yes")).indicators(np.array([0, 1, 1]), ["yes", "no"]).ravel()
    array([1., 0., 0.])
    """

    name: str
    levels: tuple[str, ...]

    @property
    def coded(self) -> tuple[str, ...]:
        """The levels that have an indicator."""
        return self.levels[1:] if len(self.levels) == 2 else self.levels

    @property
    def features(self) -> list[str]:
        """Names of the indicators."""
        return [f"{self.name}={level}" for level in self.coded]

    def unknown(self, codes: np.ndarray, found: Sequence[str]) -> tuple[str, int, int] | None:
        """The first unknown level, how many rows have such ones, and the first; None if all are known.

        `codes` are positions in the texts `found`, -1 where a value is missing.
        """
        new = [i for i, value in enumerate(found) if value not in self.levels]
        if not new:
            return None
        rows = np.isin(codes, new)
        first = int(rows.argmax())
        return found[int(codes[first])], int(rows.sum()), first

    def indicators(self, codes: np.ndarray, found: Sequence[str], fill: str | None = None) -> np.ndarray:
        """Indicators of the levels, (n_rows, n_indicators); zeros for unknown levels, `fill` for missing."""
        place = {level: i for i, level in enumerate(self.coded)}
        missing = -1 if fill is None else place.get(fill, -1)
        places = np.array([*(place.get(value, -1) for value in found), missing])[codes]
        return (places[:, None] == np.arange(len(place))).astype(np.float64)


def learn_categories(X: Any) -> dict[str, list[str]]:
    """Levels of the columns of a frame that hold categories or text, by name.

    Those of pandas' categories and of an Enum are all that the type declares, in their order; of others those
    that occur, sorted.

    Examples
    --------
    >>> import pandas as pd
    >>> from mmtfl.tasks.categories import learn_categories
    >>> learn_categories(pd.DataFrame({"age": [41, 52], "diet": pd.Categorical(["meat", "fish"])}))
    {'diet': ['fish', 'meat']}
    """
    frame = nw.from_native(X, eager_only=True)
    found = {}
    for column in frame.iter_columns():
        if column.dtype in (nw.Categorical, nw.Enum, nw.String):
            declared = _declared(column)
            found[column.name] = _texts(column)[1] if declared is None else [_text(v) for v in declared]
    return found


def _declared(column: Any) -> Sequence[Any] | None:
    """The levels that the type of a column declares; None if it declares none."""
    if column.implementation.is_pandas_like():  # categories of polars are those of all columns of the process
        of_pandas = getattr(column.to_native().dtype, "categories", None)
        return None if of_pandas is None else list(of_pandas)
    return list(column.dtype.categories) if column.dtype == nw.Enum else None


def encode_categories(X: Any, categories: Mapping[str, Sequence[str]]) -> dict[str, np.ndarray]:
    """The columns of a frame by name, with indicators in the place of those that hold categories.

    Examples
    --------
    >>> import pandas as pd
    >>> from mmtfl.tasks.categories import encode_categories
    >>> frame = pd.DataFrame({"age": [41, 52], "smoker": ["yes", "no"]})
    >>> encode_categories(frame, {"smoker": ["no", "yes"]})
    {'age': array([41, 52]), 'smoker=yes': array([1., 0.])}
    """
    frame = nw.from_native(X, eager_only=True)
    absent = [name for name in categories if name not in frame.columns]
    if absent:
        raise ValueError(f"X has no column {absent[0]!r}, whose categories fit has learned: add it.")
    out: dict[str, np.ndarray] = {}
    for column in frame.iter_columns():
        own = {column.name: column.to_numpy()}
        if column.name in categories:
            own = _encoded(column, Levels(column.name, tuple(categories[column.name])))
        twice = [name for name in own if name in out]
        if twice:
            raise ValueError(f"Two features would be called {twice[0]!r}: rename a column of X.")
        out |= own
    return out


def _encoded(column: Any, levels: Levels) -> dict[str, np.ndarray]:
    codes, found = _texts(column)
    missing = codes < 0
    if missing.any():
        raise ValueError(
            f"Input X contains missing values: column {column.name!r} of categories has "
            f"{count(missing.sum(), 'row')} without a level, the first is row {missing.argmax()}. "
            "Fill them in (a level of their own will do), or drop those rows."
        )
    unknown = levels.unknown(codes, found)
    if unknown is not None:
        level, n_rows, first = unknown
        raise ValueError(
            f"Column {column.name!r} has the level {level!r}, which fit has not seen ({count(n_rows, 'row')} "
            f"with new levels, the first is row {first}): its levels are {abbreviate(levels.levels)}. "
            "Correct it, or leave these rows out."
        )
    return dict(zip(levels.features, levels.indicators(codes, found).T, strict=True))


def _texts(column: Any) -> tuple[np.ndarray, list[str]]:
    """Values as positions in a list of distinct texts, -1 where one is missing."""
    missing = column.is_null().to_numpy()
    texts = np.array(["" if gap else _text(v) for v, gap in zip(column.to_list(), missing, strict=True)])
    found, codes = np.unique(texts[~missing], return_inverse=True)
    out = np.full(len(missing), -1)
    out[~missing] = codes
    return out, found.tolist()


def _text(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value)
