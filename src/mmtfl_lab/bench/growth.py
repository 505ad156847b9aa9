"""How the time of a fit grows with rows, features, tasks and active rows."""

import gc
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

import mmtfl
from mmtfl_lab.bench.comparison import timed
from mmtfl_lab.bench.judged_problems import RaggedTasks, largest_alpha, make_ragged, relative_gap

TOL = 1e-6
_SHARE = 0.1  # of alpha_max, where the number of active rows is not the question
_TRUE_SHARE = 0.03  # of the features


@dataclass(frozen=True)
class Curve:
    """Seconds of a (2, 2) fit against one size, with the exponent of the fitted power law.

    Attributes
    ----------
    size : str
        What varies.
    title : str
        What does not.
    values, seconds : list of float
        The points.
    gap : float
        The largest relative duality gap among the fits.
    """

    size: str
    title: str
    values: list[float]
    seconds: list[float]
    gap: float

    @property
    def exponent(self) -> float:
        """Slope of log seconds against log size, by least squares.

        Examples
        --------
        >>> from mmtfl_lab.bench.growth import Curve
        >>> round(Curve("d", "", [1.0, 2.0, 4.0], [3.0, 12.0, 48.0], 0.0).exponent, 6)
        2.0
        """
        return float(np.polyfit(np.log(self.values), np.log(self.seconds), 1)[0])


def growth_curves(sizes: dict, repeats: int) -> Iterator[Curve]:
    """A curve for each of n, d, T and the number of active rows, and the step in T of the last comparison."""
    base, each = sizes["base"], sizes["each"]
    for size in ("n", "d", "T"):
        fixed = {name: value for name, value in base.items() if name != size}
        fits = ((v, *_fit(_tasks(**{**base, size: v}), _SHARE, repeats)) for v in sizes[size])
        yield _curve(size, _title(fixed, _SHARE), fits)
    table = _tasks(**base)
    found = [_fit(table, share, repeats) for share in sizes["shares"]]
    yield _curve("active rows", _title(base), ((kept, seconds, kept, gap) for seconds, kept, gap in found))
    del table
    many = ((T, *_fit(_tasks(T=T, **each), _SHARE, repeats)) for T in sizes["tasks"])
    yield _curve("many T", _title(each, _SHARE), many)


def _title(fixed: dict[str, int], share: float | None = None) -> str:
    sizes = ", ".join(f"{name} = {value}" for name, value in fixed.items())
    return sizes if share is None else f"{sizes}, {share:g} of alpha_max"


def _tasks(*, n: int, d: int, T: int) -> RaggedTasks:
    gc.collect()  # the largest tables do not fit beside each other on a small machine
    return make_ragged(n_tasks=T, least=n, most=n, n_features=d, n_true=max(2, int(_TRUE_SHARE * d)))


def _curve(size: str, title: str, fits: Iterable[tuple[float, float, int, float]]) -> Curve:
    """The curve of fits as (value, seconds, rows kept, gap)."""
    values, seconds, _, gaps = zip(*fits, strict=True)
    return Curve(size, title, [float(value) for value in values], list(seconds), max(gaps))


def _fit(data: RaggedTasks, share: float, repeats: int) -> tuple[float, int, float]:
    """Least seconds of a fit, the rows kept, and the gap."""
    alpha = share * largest_alpha(data)
    model = mmtfl.MMTFLRegressor(2, 2, alpha, fit_intercept=False, tol=TOL)
    with warnings.catch_warnings(action="ignore"):
        spent = min(timed(lambda: model.fit(data.X, data.y, data.task))[0] for _ in range(repeats))
    gap = relative_gap(data, model.coef_.T, model.intercept_, alpha=alpha)
    return spent, int(np.count_nonzero(model.c_)), gap
