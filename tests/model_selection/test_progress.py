"""Progress: silent unless asked for, on stderr, and not too often."""

import io
import re
import sys
from types import SimpleNamespace

import pytest

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import progress
from mmtfl.model_selection.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(scope="module")
def rows():
    data = make_tasks(3, 30, 8, n_informative=3, noise=0.7, random_state=0)
    return data.X, data.y, data.task


def test_lines_are_a_second_apart_and_the_last_one_always_comes(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Progress("search", 10, "paths", shown=True) as shown:
        for key, seconds in enumerate((0.5, 0.6, 0.3, 0.3, 2.0, 0.1, 0.1, 0.1, 0.1, 0.1)):
            shown.reach(key, 0.5)
            now[0] += seconds
            shown.finish(key)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "[search] 2 of 10 paths", "[search] 5 of 10 paths", "[search] 10 of 10 paths, done in 4.2 s",
    ]  # fmt: skip


def test_a_terminal_has_a_bar_that_an_error_ends(monkeypatch):
    pytest.importorskip("rich")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with pytest.raises(KeyError), Progress("search", 2, "paths", shown=True) as shown:
        shown.reach(0, 0.5)
        shown.finish(0)
        shown.finish(1)
        raise KeyError
    assert re.search(r"search.*2/2.*paths", screen.getvalue())
    assert not shown._bar.live.is_started


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_search_counts_the_paths_of_all_folds_and_members(rows, capsys, monkeypatch, n_jobs):
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    X, y, task = rows
    MMTFLRegressorCV(((2, 2), (2, 1)), alphas=3, cv=3, poolings=(0,), n_jobs=n_jobs, verbose=2).fit(
        X, y, task
    )
    out, err = capsys.readouterr()
    MMTFLRegressorCV((2, 2), alphas=3, cv=3).fit(X, y, task)  # silent by default
    assert out == "" and capsys.readouterr() == ("", "")
    *told, last, fit = err.splitlines()
    assert any(re.fullmatch(r"\[cross-validation\] 6 of 6 paths, done in .*", line) for line in told)
    assert re.fullmatch(r"\[all rows\] 1 of 1 paths, done in .*", last)
    assert fit.startswith("[MMTFLRegressorCV] ")
