"""Extrapolation: where sweeps of row descent lead (Anderson), and passes of Algorithm 1."""

from itertools import pairwise

import numpy as np

from mmtfl.objective.penalties import RowPenalty

MEMORY = 5  # sweeps behind one extrapolation
_RIDGE = 1e-12
_FARTHEST = 1e7
_PAIRS = 8  # passes behind one leap of the weights
_LONGEST_LEAP = 4.0  # of the logarithm of a weight
_SHORTER, _LONGER = 0.5, 2.0  # a leap after one that failed, and after others
_LONGEST_SCALE = 16.0  # of a leap before its pairs correct it, in units of a pass
_LEAST_BEND = 1e-8  # of a pair that counts, as a share of what its lengths allow
_SQUARABLE = 1e70  # steps and places up to this size can be squared, weighted and summed
_LARGEST_LOG = 500.0  # whose exponential is still a float


def mixing_weights(steps: np.ndarray) -> np.ndarray | None:
    """Weights of sum one that minimise the norm of the mixed steps (one per row); None if there are none.

    Examples
    --------
    >>> mixing_weights(np.array([[1.0, 0.0], [0.5, 0.0]])).round(6)      # halving steps end at 2
    array([-1.,  2.])
    """
    products = steps @ steps.T
    products.flat[:: len(products) + 1] += _RIDGE * products.trace()
    try:
        weights = np.linalg.solve(products, np.ones(len(products)))
    except np.linalg.LinAlgError:
        return None
    total = weights.sum()
    return weights / total if abs(total) > 1e-14 and np.isfinite(total) else None


class Track:
    """The iterates of some sweeps over `rows` of a least-squares model, and the model's state at each.

    The state (residuals or slopes, see `kernels`) is affine in A, so the state of any mix of iterates is the
    mix of their states, and costs no sweep.

    Parameters
    ----------
    A : ndarray (m, n_tasks)
        The present iterate; changed in place.
    state : ndarray
        The model's state at A; changed in place.
    rows : ndarray
        The rows that are swept.
    penalty : RowPenalty
        Penalty of those rows.
    h : ndarray
        Weights of a weighted model, else empty.
    use_gram : bool
        Whether the state holds slopes; task t's begin at `begin[t]`.
    """

    def __init__(
        self, A: np.ndarray, state: np.ndarray, rows: np.ndarray, penalty: RowPenalty, h: np.ndarray,
        use_gram: bool, begin: np.ndarray,
    ):  # fmt: skip
        self.A, self.state, self.rows, self.penalty = A, state, rows, penalty
        self.h, self.use_gram = h, use_gram
        self.iterates = np.empty((MEMORY + 1, len(rows) * A.shape[1]))
        self.states = np.empty((MEMORY + 1, len(state)))
        self.moves = np.empty(MEMORY)  # largest move of a slope in each sweep
        if use_gram:
            self._place = (begin + rows[:, None]).ravel()
            self._origin, self._slope = A[rows].ravel(), state[self._place]

    def keep(self) -> None:
        """Make the present iterate the last one."""
        self.iterates[-1], self.states[-1] = self.A[self.rows].ravel(), self.state

    def extrapolate(self) -> None:
        """Move A and state to where the last sweeps lead, if the model is lower there."""
        steps = self.iterates[1:] - self.iterates[:-1]
        if not 1.0 / _SQUARABLE < float(np.abs(steps).max(initial=0.0)) < _SQUARABLE:
            return
        value = self._value(self.iterates[-1], self.state)
        weights = mixing_weights(steps)
        if weights is not None and self._move_if_lower(
            weights @ self.iterates[1:], weights @ self.states[1:], value
        ):
            return
        # A steady drift has nothing to extrapolate (all its steps are equal): follow it while it goes down.
        drift, drift_state = self.iterates[-1] - self.iterates[0], self.states[-1] - self.states[0]
        reach = 10.0
        while reach < _FARTHEST and (
            lower := self._move_if_lower(
                self.iterates[-1] + reach * drift, self.states[-1] + reach * drift_state, value
            )
        ):
            value, reach = lower, 10.0 * reach

    def _move_if_lower(self, place: np.ndarray, state: np.ndarray, value: float) -> float | None:
        if not max(np.abs(place).max(initial=0.0), np.abs(state).max(initial=0.0)) < _SQUARABLE:
            return None
        there = self._value(place, state)
        if not there < value:
            return None
        self.A[self.rows] = place.reshape(len(self.rows), -1)
        self.state[:] = state
        return there

    def _value(self, place: np.ndarray, state: np.ndarray) -> float:
        """The model up to a constant."""
        if self.use_gram:
            fit = -0.5 * float((place - self._origin) @ (self._slope + state[self._place]))
        elif self.h.size:
            fit = 0.5 * float((state / self.h) @ state)
        else:
            fit = 0.5 * float(state @ state)
        return fit + self.penalty.value(place.reshape(len(self.rows), -1))


class Squarem:
    """Squared extrapolation (SQUAREM) of every two passes, in the logarithm of the weights, so of c.

    The passes crawl where a row is slow to vanish or to appear. A leap in the direction of the last two, as
    long as their change of pace allows, crosses that; Anderson mixing, which looks for a fixed point, does
    not: it turns back to the one that the passes are about to leave.
    """

    def __init__(self) -> None:
        self.logs: list[np.ndarray] = []

    def failed(self) -> None:
        """The last leap led uphill: nothing is known of the next."""

    @property
    def state(self) -> tuple[list[np.ndarray], float, float]:
        """What a checkpoint keeps."""
        return self.logs, 0.0, 0.0

    @state.setter
    def state(self, known: tuple[list[np.ndarray], float, float]) -> None:
        self.logs = known[0][:2]

    def next(self, given: np.ndarray, got: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, bool]:
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
        length = min(float(np.sqrt(step @ step)) / max(float(np.sqrt(bend @ bend)), 1e-300), _LONGEST_SCALE)
        if length <= 1.0:  # no farther than the two passes went
            return got, False
        out = got.copy()
        log = first + 2.0 * length * step + length**2 * bend
        out[kept] = np.exp(np.clip(log, -_LARGEST_LOG, _LARGEST_LOG))
        return out, True


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
