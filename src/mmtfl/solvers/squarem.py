"""Leaps of c between the passes of Algorithm 1, by SQUAREM; docs/model.md section 4."""

import numpy as np

_LONGEST_LEAP = 16.0
_LARGEST_LOG = 500.0  # whose exponential is still a float


def _size(v: np.ndarray) -> float:
    return float(np.sqrt(v @ v))


class Squarem:
    """Squared extrapolation (SQUAREM) of every two passes, in the logarithm of the weights, so of c.

    The passes crawl where a row is slow to vanish or to appear. A leap in the direction of the last two, as
    long as their change of pace allows, crosses that; Anderson mixing, which looks for a fixed point, does
    not: it turns back to the one that the passes are about to leave.
    """

    def __init__(self, logs: list[np.ndarray] | None = None) -> None:
        self.logs: list[np.ndarray] = logs or []

    def next(self, given: np.ndarray, got: np.ndarray) -> tuple[np.ndarray, bool]:
        """Weights for the next pass from the last one's and what it made of them; whether that is a leap."""
        with np.errstate(divide="ignore"):
            self.logs = [*(self.logs or [np.log(given)]), np.log(got)]
        if len(self.logs) < 3:
            return got, False
        kept = np.all(np.isfinite(self.logs), axis=0)
        first, second, third = (logs[kept] for logs in self.logs)
        self.logs = []
        step = second - first
        bend = (third - second) - step
        length = min(_size(step) / max(_size(bend), 1e-300), _LONGEST_LEAP)
        if length <= 1.0:  # no farther than the two passes went
            return got, False
        out = got.copy()
        log = first + 2.0 * length * step + length**2 * bend
        out[kept] = np.exp(np.clip(log, -_LARGEST_LOG, _LARGEST_LOG))
        return out, True
