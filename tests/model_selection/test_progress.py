"""Progress: silent unless asked for, on stderr, not too often, and right about what is left."""

import io
import re
import sys
import time

import numpy as np
import pytest

from mmtfl import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import progress
from mmtfl.model_selection.progress import Progress


class Clock:
    """Seconds that pass only when told."""

    def __init__(self):
        self.now = 100.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    monkeypatch.setattr(progress.Thread, "start", lambda ticker: None)  # it would follow the true clock
    monkeypatch.setattr(progress.Thread, "join", lambda ticker: None)
    return clock


def alike(n):
    return dict.fromkeys(range(n))


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def rows():
    data = make_tasks(3, 30, 8, n_informative=3, noise=0.7, random_state=0)
    return data.X, data.y, data.task


def test_lines_are_a_second_apart_and_the_last_one_always_comes(clock, capsys):
    with Progress("search", alike(10), "paths", shown=True) as shown:
        for key, seconds in enumerate((0.5, 0.6, 0.3, 0.3, 2.0, 0.1, 0.1, 0.1, 0.1, 0.1)):
            shown.begin(key)
            clock.now += seconds
            shown.finish(key)
    out, err = capsys.readouterr()
    assert out == ""
    assert [int(line.split()[1]) for line in err.splitlines()] == [2, 5, 10]


def test_time_left_is_what_the_steps_so_far_took(clock, capsys):
    with Progress("search", alike(5), "paths", shown=True) as shown:
        for key in range(5):
            shown.begin(key)
            clock.now += 90.0
            shown.finish(key)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[search] 1 of 5 paths, about 6 min left"
    assert lines[3] == "[search] 4 of 5 paths, about 2 min left"
    assert lines[4] == "[search] 5 of 5 paths, done in 8 min"


def run_folds(capsys, clock, seconds, *, n_folds=5, n_slots=1, known=()):
    """Lines told while members run on folds, each with the true time left and how many members are known."""
    every = [(fold, member) for fold in range(n_folds) for member in seconds]
    left, at_work, finished, lines = [path for path in every if path not in known], {}, set(), []
    steps = {path: path[1] for path in every}
    with Progress("cv", steps, "paths", shown=True, n_slots=n_slots) as shown:
        for path in known:
            shown.finish(path)
        while left or at_work:
            for path in left[: n_slots - len(at_work)]:
                shown.begin(path)
                at_work[path] = clock.now + seconds[path[1]]
            left = [path for path in left if path not in at_work]
            path = min(at_work, key=at_work.get)
            clock.now = at_work.pop(path)
            shown.finish(path, seconds[path[1]])
            finished.add(path[1])
            lines += [(clock.now, len(finished), line) for line in capsys.readouterr().err.splitlines()]
    return [(clock.now - at, n_known, line) for at, n_known, line in lines]


def told_seconds(line):
    number, unit = re.search(r"(?:about|at least) ([\d.]+) (s|min)", line).groups()
    return float(number) * (60.0 if unit == "min" else 1.0)


@pytest.mark.parametrize("n_slots", [1, 2, 3])
def test_members_that_differ_thirtyfold_are_promised_nothing_before_and_within_a_factor_two_after(
    clock, capsys, n_slots
):
    seconds = {"quick": 20.0, "slow": 600.0, "middling": 90.0}
    lines = run_folds(capsys, clock, seconds, n_slots=n_slots)
    *lines, (_, _, last) = lines
    assert re.fullmatch(r"\[cv\] 15 of 15 paths, done in .*", last)
    assert {n_known for _, n_known, _ in lines} == {1, 2, 3}
    for left, n_known, line in lines:
        if n_known == 3:
            assert "about" in line
            assert 0.5 * left <= told_seconds(line) <= 2.0 * left, line
        elif "at least" in line:
            assert told_seconds(line) <= left, line
        else:
            assert line.endswith("time left not known yet")


def test_no_estimate_is_made_of_a_member_that_has_not_finished_a_fold(clock, capsys):
    steps = {(fold, member): member for fold in range(2) for member in ("quick", "slow")}
    with Progress("cv", steps, "paths", shown=True) as shown:
        shown.begin((0, "quick"))
        clock.now += 3.0
        shown.finish((0, "quick"))
        shown.begin((0, "slow"))
        clock.now += 40.0
        shown.reach((0, "slow"), 0.9)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[cv] 1 of 4 paths, at least 3.0 s left"
    # the other slow path will last 40 s at least, and the quick one 3 s
    assert lines[1] == "[cv] 1 of 4 paths, 1 at work (90 %), at least 43 s left"


def test_a_path_under_way_is_measured_by_where_another_fold_spent_its_time(clock, capsys):
    with Progress("cv", {0: "member", 1: "member"}, "paths", shown=True) as shown:
        shown.begin(0)
        for share, seconds in ((0.5, 90.0), (1.0, 10.0)):  # most of the time goes into the first half
            clock.now += seconds
            shown.reach(0, share)
        shown.finish(0)
        capsys.readouterr()
        shown.begin(1)
        clock.now += 45.0
        shown.reach(1, 0.25)
        clock.now += 45.0
        shown.reach(1, 0.5)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(", ")[-1] for line in lines] == ["about 55 s left", "about 10 s left"]


def test_paths_known_from_before_are_counted_and_teach_nothing(clock, capsys):
    seconds = {"quick": 20.0, "slow": 600.0}
    lines = run_folds(capsys, clock, seconds, n_folds=3, known=[(0, "quick"), (0, "slow")])
    assert lines[0][-1] == "[cv] 3 of 6 paths, at least 20 s left"
    assert lines[1][-1] == "[cv] 4 of 6 paths, about 10 min left"


def test_lines_in_a_pipe_are_never_more_than_five_seconds_apart_though_nothing_gets_on(clock, capsys):
    with Progress("cv", alike(2), "paths", shown=True) as shown:
        shown.begin(0)
        times = []
        for _ in range(1000):
            clock.now += 1.0
            shown._tell(clock.now)
            times += [clock.now] * len(capsys.readouterr().err.splitlines())
    assert len(times) > 1000 / 6
    assert max(np.diff(times)) <= 5.0


def test_a_line_comes_by_itself_where_nothing_gets_on(monkeypatch, capsys):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.01)
    with Progress("cv", alike(2), "paths", shown=True) as shown:
        shown.begin(0)
        for _ in range(500):
            time.sleep(0.01)
            if err := capsys.readouterr().err:
                break
    assert err.startswith("[cv] 0 of 2 paths, 1 at work (0 %), time left not known yet\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (3.21, "3.2 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (89.0, "1 min"),
        (5400.0, "1 h 30 min"),
    ],
)
def test_durations_are_as_exact_as_they_are_useful(seconds, text):
    assert progress._duration(seconds) == text


def test_nothing_is_said_unless_asked_for(capsys):
    with Progress("search", alike(2), "paths", shown=False) as quiet:
        quiet.begin(0)
        quiet.finish(0)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar(monkeypatch):
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress("search", alike(2), "paths", shown=True) as shown:
        shown.finish(0)
        shown.finish(1)
    assert "search" in screen.getvalue()
    assert re.search(r"2 of 2.*paths", screen.getvalue())


def test_a_terminal_without_rich_has_lines(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    with Progress("search", alike(1), "paths", shown=True) as shown:
        shown.finish(0)
    assert screen.getvalue() == "[search] 1 of 1 paths, done in 0.0 s\n"


def test_an_error_ends_the_bar_and_is_not_swallowed(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(KeyError), Progress("search", alike(2), "paths", shown=True) as shown:
        raise KeyError
    assert not shown._bar.live.is_started


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_counts_the_paths_of_all_folds_and_members(rows, capsys, n_jobs):
    X, y, task = rows
    MMTFLRegressorCV(((2, 2), (2, 1)), alphas=3, cv=3, poolings=(0,), n_jobs=n_jobs, verbose=1).fit(
        X, y, task
    )
    out, err = capsys.readouterr()
    assert out == ""
    *told, last, fit = err.splitlines()
    assert re.fullmatch(r"\[cross-validation\] 6 of 6 paths, done in .*", told[-1])
    assert re.fullmatch(r"\[all rows\] 1 of 1 paths, done in .*", last)
    assert fit.startswith("[MMTFLRegressorCV] ")


def test_a_search_is_silent_by_default(rows, capsys):
    X, y, task = rows
    MMTFLClassifierCV((2, 2), alphas=3, cv=3, poolings=(0,)).fit(X, np.sign(y), task)
    assert capsys.readouterr() == ("", "")
