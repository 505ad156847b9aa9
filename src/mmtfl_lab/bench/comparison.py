"""One case solved by all libraries: a certified reference, tolerances that reach it, and times."""

import math
import os
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from mmtfl_lab.bench.judged_problems import AnyProblem, Case
from mmtfl_lab.bench.libraries import LADDER, LIBRARIES, Answer, Library

GOAL = 1e-6  # relative suboptimality
CERTIFIED = 1e-9  # relative duality gap of the reference
_REFERENCE_TOLERANCES = (1e-9, 1e-10, 1e-11, 1e-12)
_SLOW, _QUICK = 5.0, 1.0  # seconds from which one timing, and two, are enough: their scatter is small

Say = Callable[[str], None]


@dataclass(frozen=True)
class Row:
    """How one library did on one case.

    Attributes
    ----------
    library, form : str
        Who, and how it was called.
    tolerance : float or None
        The loosest tolerance that reached the goal; None if none did.
    seconds : float or None
        Time at that tolerance, data preparation included.
    passes : float or None
        The same in passes over the data.
    suboptimality : float or None
        Relative excess of the objective, the worst over the strengths, at that tolerance (or the best seen).
        For concave members the excess over Algorithm 1 run to the end; it may be negative.
    note : str
        Why there is no time, or why a looser tolerance was not tried.
    """

    library: str
    form: str
    tolerance: float | None = None
    seconds: float | None = None
    passes: float | None = None
    suboptimality: float | None = None
    note: str = ""


@dataclass
class CaseResult:
    """All rows of one case; `gap` is the certificate of the reference, None for concave members."""

    key: str
    title: str
    pass_seconds: float
    gap: float | None
    kept: int
    rows: list[Row] = field(default_factory=list)

    def best(self, name: str) -> Row | None:
        """The quickest form of a library that reached the goal, else its first row."""
        rows = [row for row in self.rows if row.library == name]
        done = [row for row in rows if row.seconds is not None]
        return min(done, key=lambda row: row.seconds or math.inf) if done else (rows[0] if rows else None)

    def ratio(self, name: str, ours: str = "mmtfl") -> float | None:
        """Time of a library over that of ours."""
        other, mine = self.best(name), self.best(ours)
        if other is None or mine is None or not other.seconds or not mine.seconds:
            return None
        return other.seconds / mine.seconds


class Trial:
    """One library on one problem: what it reached at every tolerance tried, within a budget of seconds."""

    def __init__(self, library: Library, problem: AnyProblem, patience: float):
        self.library, self.problem, self.patience = library, problem, patience
        self.seconds: dict[float, float] = {}
        self.objectives: dict[float, np.ndarray] = {}
        self.kept = 0  # rows of the last answer, at the smallest strength
        self.failure = library.declines(problem)

    def run(self, tolerance: float) -> Answer:
        with warnings.catch_warnings(action="ignore"):  # a tolerance not reached is judged by the objective
            return self.library.solve(self.problem, tolerance)

    def reached(self, tolerance: float) -> np.ndarray:
        """Objectives at a tolerance; infinite once the patience is spent or the library has failed."""
        if tolerance not in self.objectives:
            self.objectives[tolerance] = self._try(tolerance)
        return self.objectives[tolerance]

    def _try(self, tolerance: float) -> np.ndarray:
        nothing = np.full(len(self.problem.shares), np.inf)
        if self.failure:
            return nothing
        if sum(self.seconds.values()) > self.patience:
            self.failure = f"search for a tolerance ended after {self.patience:g} s"
            return nothing
        try:
            self.seconds[tolerance], answer = timed(lambda: self.run(tolerance))
        except Exception as error:  # a peer that fails is a line of the table, not the end of the run
            first = next(iter(str(error).splitlines()), "")
            self.failure = f"failed: {type(error).__name__}: {first}"
            return nothing
        found = answer()
        self.kept = self.problem.rows_kept(found)
        return self.problem.objectives(found)


def compare(
    case: Case, libraries: Sequence[Library], *, repeats: int, patience: float, say: Say = lambda line: None
) -> CaseResult:
    """Run one case; libraries that cannot solve it have no row."""
    problem = case.problem
    trials = [Trial(library, problem, patience) for library in libraries if library.takes(problem)]
    goals, base, gap, kept = (_certified if problem.is_convex else _by_own_end)(problem, trials)
    chosen: list[tuple[Trial, float | None]] = []
    for trial in trials:
        tolerance = _search(trial, goals[id(trial)])
        say(f"  {trial.library.name} ({trial.library.form}): {_spoken(trial, tolerance)}")
        chosen.append((trial, tolerance))
    seconds, pass_seconds = _times(problem, chosen, repeats)
    result = CaseResult(case.key, case.title, pass_seconds, gap, kept)
    for i, (trial, tolerance) in enumerate(chosen):
        result.rows.append(_row(trial, tolerance, seconds.get(i), pass_seconds, base))
    return result


def reference(problem: AnyProblem) -> tuple[np.ndarray, float, int]:
    """Objectives of our tightest solve, its largest relative duality gap, and the rows kept at the end."""
    best = np.full(len(problem.shares), np.inf)
    worst_gap, kept = np.inf, 0
    mine = next(library for library in LIBRARIES if library.name == "mmtfl" and library.takes(problem))
    for tolerance in _REFERENCE_TOLERANCES:
        with warnings.catch_warnings(action="ignore"):
            found = mine.solve(problem, tolerance)()
        gap = problem.relative_gap(found)
        if gap < worst_gap:
            best, worst_gap, kept = problem.objectives(found), gap, problem.rows_kept(found)
        if worst_gap < CERTIFIED:
            break
    return best, worst_gap, kept


def _certified(problem: AnyProblem, trials: list[Trial]):
    best, gap, kept = reference(problem)
    return {id(trial): best for trial in trials}, best, gap, kept


def _by_own_end(problem: AnyProblem, trials: list[Trial]):
    """Goals for concave members, which have many minima: every library's own objective when it stops."""
    ends = {id(trial): trial.reached(trial.library.ladder[-1]) for trial in trials}
    textbook = [ends[id(trial)] for trial in trials if trial.library.name == "textbook"]
    base = textbook[0] if textbook and np.all(np.isfinite(textbook[0])) else None
    return ends, base, None, trials[0].kept


def _search(trial: Trial, goal: np.ndarray) -> float | None:
    def suffices(tolerance: float) -> bool:
        return bool(np.all(trial.reached(tolerance) <= goal * (1.0 + GOAL)) and np.all(np.isfinite(goal)))

    return loosest(suffices, trial.library.ladder, trial.library.hint)


def _times(problem: AnyProblem, chosen: list[tuple[Trial, float | None]], repeats: int):
    """Least seconds of each that reached its goal (by place), and of one pass, in the same rounds."""
    data = problem.data
    calls: dict[str, Callable[[], object]] = {"pass": lambda: data.correlate(data.y)}
    best = {"pass": timed(calls["pass"])[0]}
    for i, (trial, tolerance) in enumerate(chosen):
        if tolerance is not None:
            calls[str(i)], best[str(i)] = partial(trial.run, tolerance), trial.seconds[tolerance]
    for limit, rounds in ((_SLOW, 1), (_QUICK, repeats - 1)):
        found = alternate({name: call for name, call in calls.items() if best[name] < limit}, rounds)
        best |= {name: min(best[name], seconds) for name, seconds in found.items()}
    pass_seconds = best.pop("pass")
    return {int(name): seconds for name, seconds in best.items()}, pass_seconds


def _row(
    trial: Trial, tolerance: float | None, seconds: float | None, pass_seconds: float, base: np.ndarray | None
) -> Row:
    library = trial.library
    tried = [trial.objectives[tolerance]] if tolerance is not None else list(trial.objectives.values())
    excess = None if base is None else min(float(np.max(found / base)) for found in tried) - 1.0
    if tolerance is None:
        note = trial.failure or f"not within {GOAL:g} at any tolerance"
        finite = excess is not None and np.isfinite(excess)
        return Row(library.name, library.form, suboptimality=excess if finite else None, note=note)
    assert seconds is not None
    return Row(library.name, library.form, tolerance, seconds, seconds / pass_seconds, excess, trial.failure)


def _spoken(trial: Trial, tolerance: float | None) -> str:
    if tolerance is None:
        return trial.failure or "goal not reached"
    return f"{1e3 * trial.seconds[tolerance]:.0f} ms at tolerance {tolerance:g}"


# -- timing --------------------------------------------------------------------------------------------------


def loosest(suffices: Callable[[float], bool], ladder: Sequence[float] = LADDER, hint: float | None = None):
    """The loosest tolerance that suffices, or None; the ladder runs from loose to tight.

    The search begins at `hint` (else at the loosest) and walks away from it, so that few tolerances are tried
    where the answer is about known; a tighter tolerance is taken to be at least as good.

    Examples
    --------
    >>> from mmtfl_lab.bench.comparison import loosest
    >>> loosest(lambda tolerance: tolerance < 5e-5)
    1e-05
    >>> loosest(lambda tolerance: tolerance < 5e-5, hint=1e-8)
    1e-05
    >>> loosest(lambda tolerance: False) is None
    True
    """
    place = 0 if hint is None else min(range(len(ladder)), key=lambda i: abs(ladder[i] / hint - 1.0))
    if suffices(ladder[place]):
        while place > 0 and suffices(ladder[place - 1]):
            place -= 1
        return ladder[place]
    return next((tolerance for tolerance in ladder[place + 1 :] if suffices(tolerance)), None)


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of the processor that a call takes, and what it returns."""
    begin = spent()
    value = call()
    return spent() - begin, value


def spent() -> float:
    """Seconds of the processor so far, those of processes that were started and have ended included."""
    ended = os.times()
    return time.process_time() + ended.children_user + ended.children_system


def alternate(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Least seconds of every call over rounds in which each is called once.

    One round after another, and not one call after another: a machine that slows down for a while then slows
    all of them.
    """
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            best[name] = min(best[name], timed(call)[0])
    return best
