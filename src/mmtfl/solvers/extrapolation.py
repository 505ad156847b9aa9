"""Extrapolation of the passes of Algorithm 1: quasi-Newton steps of its weights."""

from itertools import pairwise

import numpy as np

_PAIRS = 8  # passes behind one leap of the weights
_LONGEST_LEAP = 4.0  # of the logarithm of a weight
_SHORTER, _LONGER = 0.5, 2.0  # a leap after one that failed, and after others
_LONGEST_SCALE = 16.0  # of a leap before its pairs correct it, in units of a pass
_LEAST_BEND = 1e-8  # of a pair that counts, as a share of what its lengths allow
_LARGEST_LOG = 500.0  # whose exponential is still a float


class WeightSteps:
    """Quasi-Newton steps (L-BFGS) of the passes, in the logarithm of the weights, so of c.

    With the best A for given weights w, the objective is a function of log w. To first order its gradient is
    w_j S_j, the size of a row's penalty, times the step that a pass makes: a pass is steepest descent in
    units of these sizes. Steps that point uphill to the memory of the last ones are left out of it, so that
    no leap turns back to the plateau that the passes are about to leave.
    """

    def __init__(self) -> None:
        self.places: list[np.ndarray] = []  # log weights given and the step of the pass; inf: gone
        self.reach, self.last = _LONGEST_LEAP, 0.0  # of the next leap, and length of the last one

    @property
    def state(self) -> tuple[list[np.ndarray], float, float]:
        """What a checkpoint keeps."""
        return [row for place in self.places for row in place], self.reach, self.last

    @state.setter
    def state(self, known: tuple[list[np.ndarray], float, float]) -> None:
        rows, self.reach, self.last = known
        self.places = [np.array(pair) for pair in zip(rows[::2], rows[1::2], strict=False)]

    def failed(self) -> None:
        """The last leap led uphill: the next one is shorter."""
        self.reach = _SHORTER * self.last

    def next(self, given: np.ndarray, got: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, bool]:
        """Weights for the next pass from the last one's and what it made of them; whether that is a leap."""
        kept = np.isfinite(given) & np.isfinite(got)
        place = np.full((2, len(given)), np.inf)
        place[:, kept] = np.log(given[kept]), np.log(got[kept]) - np.log(given[kept])
        self.places = [*self.places, place][-1 - _PAIRS :]
        if len(self.places) <= _PAIRS:  # early passes say little of where the later ones lead
            return got, False
        moves = [_move(*places, kept) for places in pairwise(self.places)]
        step = _two_loops(moves, place[1, kept], size[kept])
        if step is None:
            return got, False
        length = float(np.abs(step).max(initial=0.0))
        step *= min(1.0, self.reach / length) if length > 0.0 else 1.0
        self.last, self.reach = min(length, self.reach), min(_LONGER * self.reach, _LONGEST_LEAP)
        out = got.copy()
        out[kept] = np.exp(np.clip(place[0, kept] + step, -_LARGEST_LOG, _LARGEST_LOG))
        return out, True


def _move(one: np.ndarray, other: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """From one place to another: the move, and the change of the pass; 0 for a row that was gone."""
    with np.errstate(invalid="ignore"):
        out = other[:, kept] - one[:, kept]
    out[~np.isfinite(out)] = 0.0
    return out


def _two_loops(moves: list[np.ndarray], step: np.ndarray, size: np.ndarray) -> np.ndarray | None:
    """The L-BFGS step from past moves and the changes of the step along them; None if it is the plain one.

    All products are in units of `size`, and `step` is minus the slope in those units.
    """
    pairs, shares = [], []
    for move, change in moves:
        bend = -change
        product, length = float(size @ (move * bend)), float(size @ move**2) * float(size @ bend**2)
        if product > _LEAST_BEND * np.sqrt(length):
            pairs.append((move, bend, product))
    if not pairs:
        return None
    out = step
    for move, bend, product in reversed(pairs):
        shares.append(float(size @ (move * out)) / product)
        out = out - shares[-1] * bend
    out = out * min(max(1.0, pairs[-1][2] / float(size @ pairs[-1][1] ** 2)), _LONGEST_SCALE)
    for move, bend, product in pairs:
        out = out + (shares.pop() - float(size @ (bend * out)) / product) * move
    return out if float(size @ (out * step)) > 0.0 else None
