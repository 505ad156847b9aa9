"""Averages, spreads and effects of all features together, as in a mixed model: docs/model.md, (22) to (25).

The effects of a feature scatter about their average independently of those of the others, so that residuals
of a task have the covariance V_t = sigma_t^2 I + X_t D X_t'. A pass over the tasks gives each task's effects,
and what the restricted likelihood says of averages, spreads and noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from mmtfl.inference.row_moments import Pooled, TaskMoments, Totals, inverse_scatter
from mmtfl.inference.unshrunk_effects import CONSTANT, Effects, Steps, TaskStep

_RIDGE = 1e-6  # on the scale of correlations, for averages that the rows do not tell apart
_ROUNDING = 1e-20  # share of what the effects explain below which the noise is rounding error
_FLAT = 1e-6  # least variance between tasks, in units of the squared error of the average
_LEFT = 1e-8  # least share of a feature that the others leave within a task that tells its effect
_FAR = 1.0  # longest step of the logarithm of the noise: no parabola tells more
_EM_STEPS = 20
_PER_STEP = 0.1  # what a step leaves of a variance at least


@dataclass(frozen=True, eq=False)
class MixedModel:
    """Averages, spreads and noise, with which every task's effects are estimated.

    Variances are in units of the noise and of the features.

    Attributes
    ----------
    unit : ndarray of shape (d,)
        The spread of features within tasks.
    mean : ndarray of shape (d,)
        Averages mu, in units of the data.
    noise : float
        The usual residual variance.
    square : ndarray of shape (d,)
        Variances of effects between tasks, the diagonal of D.
    sampling : ndarray of shape (d, d)
        Covariance of the averages' errors.
    joint : tuple of tuples of int
        Sets of features whose correlations are wanted.
    """

    unit: np.ndarray
    mean: np.ndarray
    noise: float
    square: np.ndarray
    sampling: np.ndarray
    joint: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def of(
        cls, totals: Totals, found: Effects, joint: Iterable[tuple[int, ...]] = (), *, spreads: bool = True
    ) -> MixedModel:
        """Begin with averages of effects that were found one by one, and their spreads, or all alike."""
        pooled, analysis = Pooled.of(totals), found.over_tasks
        mean, square = np.nan_to_num(analysis.average), (np.nan_to_num(analysis.spread) * pooled.unit) ** 2
        noise = max(found.usual_noise, _ROUNDING * float(np.sum((mean * pooled.unit) ** 2 + square))) or 1.0
        square = square if spreads else np.full(len(mean), noise / max(int(pooled.varies.sum()), 1))
        sampling = _inverse(pooled.correlation * totals.weight)
        sampling += np.diag(square / noise / len(found.effect))
        return cls(pooled.unit, mean, noise, square / noise, sampling, tuple(joint))

    # -- tasks -----------------------------------------------------------------------------------------------

    def steps(self, own: Sequence[TaskMoments], a: np.ndarray, noise: np.ndarray) -> Iterator[TaskStep]:
        """The effects of tasks whose rows are seen at coefficients a: eqs. (22) and (23)."""
        d, share, to_mean = a.shape[1], noise / self.noise, a - self.mean
        score, at_mean, scatter = (np.array(part) for part in zip(*map(_seen, own, to_mean), strict=True))
        S = scatter / (self.unit * self.unit[:, None] * share[:, None, None])
        s = at_mean / (self.unit * share[:, None])
        alone = self._from_rows(own[0], to_mean[0], share[0]) if len(own) == 1 else None
        rest, W, u, by_noise, known = alone or self._from_scatter(S, s)
        diagonal = np.einsum("tjj->tj", W)
        weight = np.array([one.weight for one in own])
        by_curvature = np.array([one.per_curvature for one in own])
        taken = np.where(weight > 0.0, 1.0 + np.einsum("tjj->t", known), 0.0)
        fitted = np.where(weight > 0.0, taken + d - np.einsum("tjj->t", rest), 0.0)
        squares = np.array([one.squares for one in own]) + by_curvature * _dots(score + at_mean, to_mean)
        squares -= by_curvature * share * _dots(s, self.square * u)
        tells = np.einsum("tjj->tj", scatter) / self.unit**2 > CONSTANT * weight[:, None]
        tells &= (diagonal > _LEFT * np.einsum("tjj->tj", S)) & (weight > 0.0)[:, None]
        size = np.where(tells, diagonal, 1.0)
        others, shared = self._beside(W, known, size)
        effect, nothing = self.mean + u / (size * self.unit), np.where(tells, 0.0, np.nan)
        scale = self.noise / self.unit**2
        variance = np.maximum(by_noise, 0.0) / size**2 * scale / noise[:, None]
        lost, score = (known * W).sum(axis=2), u / np.sqrt(self.noise)
        together = [_correlations(W[:, own][:, :, own]) for own in map(list, self.joint)]
        for t in range(len(own)):
            yield TaskStep(
                effect=effect[t] + nothing[t],
                variance=variance[t] + nothing[t],
                others=others[t] * scale,
                shared=shared[t] * scale,
                squares=max(float(squares[t]), 0.0),
                taken=float(taken[t]),
                fitted=float(fitted[t]),
                vectors=partial(self._vectors, rest[t], size[t] * share[t]),
                correlation=[own[t] for own in together],
                score=score[t],
                lost=lost[t],
                curvature=W[t],
            )

    def _vectors(self, rest: np.ndarray, size: np.ndarray) -> np.ndarray:
        """See `TaskStep`."""
        return rest.T / (size * self.unit * self.unit[:, None])

    def _from_scatter(self, S: np.ndarray, s: np.ndarray) -> tuple[np.ndarray, ...]:
        """(I + S D)^-1, W and u of tasks, the variance of u by noise alone, and W E."""
        rest = _inverted(np.eye(S.shape[1]) + S * self.square)
        W = rest @ S
        return rest, W, (rest @ s[:, :, None])[:, :, 0], (W * rest).sum(axis=2), W @ self.sampling

    def _from_rows(
        self, own: TaskMoments, to_mean: np.ndarray, share: float
    ) -> tuple[np.ndarray, ...] | None:
        """The same of one task with fewer rows than features, by the covariance of its rows."""
        if own.rows is None:
            return None
        X, residual = own.rows[0] / (self.unit * np.sqrt(share)), own.rows[1] + own.rows[0] @ to_mean
        inverse = _inverted(np.eye(len(X)) + (X * self.square) @ X.T)
        half = inverse @ X
        W = X.T @ half
        u = half.T @ residual / np.sqrt(share)
        parts = np.eye(len(W)) - W * self.square, W, u, (half**2).sum(axis=0), X.T @ (half @ self.sampling)
        return tuple(part[None] for part in parts)

    def _beside(self, W: np.ndarray, known: np.ndarray, size: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Variances of each effect by the others: by their spreads, and by the errors of their averages."""
        leak = W / size[:, :, None] - np.eye(size.shape[1])
        of_averages = ((known / size[:, :, None] - self.sampling) * leak).sum(axis=2)
        together = (known * leak).sum(axis=2)  # the averages have errors in common with the task's own rows
        return leak**2 @ self.square, of_averages - 2.0 * (1.0 / size - self.square) * together

    def drawn(self, steps: Steps) -> np.ndarray:
        """Each task's effects, drawn to the averages: the best linear predictor."""
        return self.mean + self.square * steps.likelihood.score * np.sqrt(self.noise) / self.unit

    # -- all tasks -------------------------------------------------------------------------------------------

    def over_tasks(self, steps: Steps) -> dict[str, Any]:
        """What it does to an average that those of the other features are estimated, too: eq. (24).

        How much larger its variance is, and how many degrees of freedom the averages take of its effects.
        The errors of averages are those after the step of `updated`.
        """
        own = steps.likelihood
        H, share = own.curvature.sum(axis=0), np.zeros_like(own.size)
        np.divide(own.lost, own.size, out=share, where=own.size > 0.0)
        inflation = np.maximum(np.diag(H) * np.diag(self.sampling), 1.0)
        return {"inflation": inflation, "taken": np.clip(share.sum(axis=0), 1.0, 0.5 * (len(share) + 1.0))}

    def updated(self, steps: Steps, noise: float | None, least: float = 0.0) -> tuple[MixedModel, float]:
        """A step of Fisher scoring, eq. (25), and by how much it may raise the restricted log-likelihood.

        Parameters
        ----------
        steps : Steps
            Of all tasks.
        noise : float, optional
            The residual variance, where the likelihood does not tell it.
        least : float
            The least residual variance.
        """
        own = steps.likelihood
        H, slope = own.curvature.sum(axis=0), own.score.sum(axis=0)
        sampling = _inverse(H)
        several = np.count_nonzero(own.size, axis=0) > 1
        score, information = self._scoring(steps, several)
        free = np.append(several & ((self.square > 0.0) | (score[:-1] > 0.0)), noise is None)
        if self.noise <= least and score[-1] < 0.0:
            free[-1] = False
        change = np.zeros(len(score))
        change[free] = _solved(information[np.ix_(free, free)], score[free])
        mean = self.mean + sampling @ slope * np.sqrt(self.noise) / self.unit
        size = self._likeliest_size(steps, least) if noise is None else 1.0
        if abs(np.log(size)) > _FAR:
            return replace(self, mean=mean, noise=size * self.noise, sampling=sampling), np.inf
        change *= _FAR / max(_FAR, abs(change[-1]))
        square = self.square + change[:-1]
        square = np.where(square > 0.0, square, _PER_STEP * self.square)
        square = np.where(square > _FLAT * np.diag(sampling), square, 0.0)
        rise = 0.5 * float(score @ np.append(square - self.square, change[-1]) + slope @ sampling @ slope)
        if noise is None:
            noise = max(self.noise * np.exp(change[-1]), least)
        square *= self.noise / noise
        return replace(self, mean=mean, noise=noise, square=square, sampling=sampling), rise

    def _likeliest_size(self, steps: Steps, least: float) -> float:
        """By what V is multiplied best, its parts as they are to each other; 1 where rows leave nothing."""
        n, squares, taken = steps.residual.T
        size = float(np.sum(squares / steps.noise) / np.sum(n - taken))
        return max(size, least / self.noise, _PER_STEP) if size > 0.0 else 1.0

    def _scoring(self, steps: Steps, several: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes and information for the variances between tasks, and last the logarithm of the noise.

        Those of the noise follow, as V is linear in all of them: the slope along V is known.
        """
        own, (n, squares, taken) = steps.likelihood, steps.residual.T
        size = own.size.sum(axis=0)
        lost = np.minimum(own.lost, own.size).sum(axis=0)  # the averages' errors are those of the last pass
        score = 0.5 * ((own.score**2).sum(axis=0) - size + lost)
        information = 0.5 * own.squared_curvature.sum(axis=0)
        of_noise = 0.5 * float(np.sum(squares / steps.noise - n + taken)) - score @ self.square
        across = 0.5 * size - information @ self.square
        corner = 0.5 * float(np.sum(n - 1.0)) - (across + 0.5 * size) @ self.square
        mean, width = _prior(self.square[several], np.diag(information)[several])
        score = np.append(score - several * (self.square - mean) / width, of_noise)
        # where effects lie farther apart than their variance says, the likelihood bends more than expected
        more = np.maximum(np.sum((own.score**2 - own.size) * own.size, axis=0), 0.0)
        information = information + np.diag(several / width + more)
        return score, np.block([[information, across[:, None]], [across, np.array(corner)]])


def _seen(own: TaskMoments, to_mean: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores at the coefficients and at the averages, and the scatter."""
    return own.score, own.score + own.scatter @ to_mean, own.scatter


def _dots(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Products of the rows of two matrices."""
    return np.einsum("tj,tj->t", first, second)


def _prior(square: np.ndarray, information: np.ndarray) -> tuple[float, float]:
    """Mean and variance of the features' variances between tasks, by the EM algorithm.

    Where tasks are few for the features, each variance tells little by itself.
    """
    if not square.size:
        return 1.0, 1.0
    mean = max(float(np.mean(square)), 0.1 / np.sqrt(max(float(information.sum()), 1e-300)))
    width = mean**2
    for _ in range(_EM_STEPS):
        width = max(float(np.mean((square - mean) ** 2 + 1.0 / (information + 1.0 / width))), mean**2)
    return mean, width


def _correlations(W: np.ndarray) -> np.ndarray:
    """Correlations of errors with these covariances, task by task."""
    size = np.sqrt(np.einsum("tjj->tj", W))
    both = size[:, :, None] * size[:, None, :]
    return np.divide(W, both, out=np.full_like(W, np.nan), where=both > 0.0)


def _inverse(H: np.ndarray) -> np.ndarray:
    """Inverse of a curvature; features without any have a variance of one."""
    size = np.sqrt(np.where(np.diag(H) > 0.0, np.diag(H), 1.0))
    scaled = H / size / size[:, None] + np.diag(np.where(np.diag(H) > 0.0, _RIDGE, 1.0))
    return inverse_scatter(scaled) / size / size[:, None]


def _inverted(matrices: np.ndarray) -> np.ndarray:
    """Inverses; pseudoinverses where noise is so small that the unit matrix is lost in rounding."""
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(np.nan_to_num(matrices))


def _solved(information: np.ndarray, score: np.ndarray) -> np.ndarray:
    """The step of Fisher scoring, with parameters on one scale."""
    size = np.sqrt(np.maximum(np.diag(information), 1e-300))
    scaled: Any = information / size / size[:, None] + _RIDGE * np.eye(len(size))
    try:
        return np.linalg.solve(scaled, score / size) / size
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(scaled, score / size, rcond=1e-10)[0] / size
