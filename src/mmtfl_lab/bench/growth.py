"""How our time grows with rows, features, tasks and active rows: curves and their exponents."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

import mmtfl
from mmtfl_lab.bench import judge
from mmtfl_lab.bench.problems import RaggedTasks, make_ragged
from mmtfl_lab.bench.timing import timed

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
    base = sizes["base"]
    for size in ("n", "d", "T"):
        fixed = ", ".join(f"{name} = {value}" for name, value in base.items() if name != size)
        problems = ((value, _SHARE, _tasks(**{**base, size: value})) for value in sizes[size])
        yield _curve(size, f"{fixed}, {_SHARE:g} of alpha_max", problems, repeats)
    yield _active_rows(base, sizes["shares"], repeats)
    each = sizes["each"]
    problems = ((T, _SHARE, _tasks(T=T, **each)) for T in sizes["tasks"])
    fixed = ", ".join(f"{name} = {value}" for name, value in each.items())
    yield _curve("many T", f"{fixed}, {_SHARE:g} of alpha_max", problems, repeats)


def _tasks(*, n: int, d: int, T: int) -> RaggedTasks:
    return make_ragged(n_tasks=T, least=n, most=n, n_features=d, n_true=max(2, int(_TRUE_SHARE * d)))


def _curve(size: str, title: str, problems: Iterable, repeats: int) -> Curve:
    values, seconds, gaps = [], [], []
    for value, share, data in problems:
        spent, _, gap = _fit(data, share, repeats)
        values.append(float(value))
        seconds.append(spent)
        gaps.append(gap)
        del data
        gc.collect()  # the largest tables do not fit beside each other on a small machine
    return Curve(size, title, values, seconds, max(gaps))


def _active_rows(base: dict, shares: Iterable[float], repeats: int) -> Curve:
    data = _tasks(**base)
    points = [_fit(data, share, repeats) for share in shares]
    title = ", ".join(f"{name} = {value}" for name, value in base.items())
    return Curve(
        "active rows",
        title,
        [float(kept) for _, kept, _ in points],
        [spent for spent, _, _ in points],
        max(gap for _, _, gap in points),
    )


def _fit(data: RaggedTasks, share: float, repeats: int) -> tuple[float, int, float]:
    """Least seconds of a fit, the rows kept, and the gap."""
    alpha = share * judge.largest_alpha(data)
    model = mmtfl.MMTFLRegressor(2, 2, alpha, fit_intercept=False, tol=TOL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent = min(timed(lambda: model.fit(data.X, data.y, data.task))[0] for _ in range(repeats))
    gap = judge.relative_gap(data, model.coef_.T, model.intercept_, alpha=alpha)
    return spent, int(np.count_nonzero(model.c_)), gap
