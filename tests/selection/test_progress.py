"""Progress: silent unless asked for, on stderr, not too often, and right about what is left."""

import io
import re
import sys

import numpy as np
import pytest

from mmtfl import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.selection import progress
from mmtfl.selection.progress import Progress


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
    return clock


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def rows():
    data = make_tasks(3, 30, 8, n_informative=3, noise=0.7, random_state=0)
    return data.X, data.y, data.task


def test_lines_are_a_second_apart_and_the_last_one_always_comes(clock, capsys):
    with Progress("search", 10, "paths", shown=True) as shown:
        for seconds in (0.5, 0.6, 0.3, 0.3, 2.0, 0.1, 0.1, 0.1, 0.1, 0.1):
            clock.now += seconds
            shown.advance()
    out, err = capsys.readouterr()
    assert out == ""
    assert [int(line.split()[1]) for line in err.splitlines()] == [2, 5, 10]


def test_time_left_is_what_the_steps_so_far_took(clock, capsys):
    with Progress("search", 5, "paths", shown=True) as shown:
        for _ in range(5):
            clock.now += 90.0
            shown.advance()
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "[search] 1 of 5 paths, about 6 min left"
    assert lines[3] == "[search] 4 of 5 paths, about 2 min left"
    assert lines[4] == "[search] 5 of 5 paths, done in 8 min"


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
    with Progress("search", 2, "paths", shown=False) as quiet:
        quiet.advance()
    assert capsys.readouterr() == ("", "")


def test_a_terminal_has_a_bar(monkeypatch):
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress("search", 2, "paths", shown=True) as shown:
        shown.advance()
        shown.advance()
    assert "search" in screen.getvalue()
    assert re.search(r"2/2.*paths", screen.getvalue())


def test_a_terminal_without_rich_has_lines(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(progress.importlib.util, "find_spec", lambda name: None)
    with Progress("search", 1, "paths", shown=True) as shown:
        shown.advance()
    assert screen.getvalue() == "[search] 1 of 1 paths, done in 0.0 s\n"


def test_an_error_ends_the_bar_and_is_not_swallowed(monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(KeyError), Progress("search", 2, "paths", shown=True) as shown:
        raise KeyError
    assert not shown._bar.live.is_started


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_counts_the_paths_of_all_folds_and_members(rows, capsys, n_jobs):
    X, y, task = rows
    MMTFLRegressorCV(((2, 2), (2, 1)), alphas=3, cv=3, n_jobs=n_jobs, verbose=1).fit(X, y, task)
    out, err = capsys.readouterr()
    assert out == ""
    *told, fit = err.splitlines()
    assert re.fullmatch(r"\[cross-validation\] 6 of 6 paths, done in .*", told[-1])
    assert fit.startswith("[MMTFLRegressorCV] ")


def test_a_search_is_silent_by_default(rows, capsys):
    X, y, task = rows
    MMTFLClassifierCV((2, 2), alphas=3, cv=3).fit(X, np.sign(y), task)
    assert capsys.readouterr() == ("", "")
