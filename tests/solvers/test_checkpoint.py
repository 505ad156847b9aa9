"""Checkpoints: a run that was killed goes on and ends with the same bits; another problem's is refused."""

import os
import signal
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from mmtfl import MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV
from mmtfl.objective.penalties import make_penalty
from mmtfl.persistence.archive import read_archive, write_archive
from mmtfl.persistence.content_hash import fingerprint
from mmtfl.solvers.checkpoint import Checkpoint, FitCheckpoint
from mmtfl.solvers.solve import Reporter
from oracles import largest_null_slope, make_problem

FIT = """
import os, signal, sys
import numpy as np
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers.checkpoint import FitCheckpoint, Checkpoint
from oracles import make_problem

def report(n_passes, *_):
    if n_passes == 20 and len(sys.argv) > 2:
        os.kill(os.getpid(), getattr(signal, sys.argv[2]))

problem = make_problem(3, loss="logistic", sizes=(14, 9, 21, 30), d=16)
solution = problem.solve(make_penalty(2, 1, 0.03), solver="alternating",
                 checkpoint=FitCheckpoint(Checkpoint(sys.argv[1], "a fit")), report=report)
np.save(sys.argv[1] + ".npy", solution.A)
"""


def run(code, *arguments):
    paths = os.pathsep.join(filter(None, [os.path.dirname(os.path.dirname(__file__)), *sys.path]))
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


def kept_in(path):
    return FitCheckpoint(Checkpoint(path, "a fit"))


def same(one, other):
    for name in ("A", "history", "objective", "violation", "dual_gap"):
        assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_killed_fit_goes_on_and_ends_with_the_same_bits(how, tmp_path):
    path, told = str(tmp_path / "fit.checkpoint"), []
    dead = run(FIT, path, how)
    assert dead.returncode in (-getattr(signal, how), 1), dead.stderr  # SIGINT may be told as an exception
    assert len(kept_in(path).passes()["history"]) == 16  # the last one saved
    assert os.listdir(tmp_path) == ["fit.checkpoint"]  # nothing half written beside it
    problem = make_problem(3, loss="logistic", sizes=(14, 9, 21, 30), d=16)
    options = {"solver": "alternating", "report": lambda n, *_: told.append(n)}
    rest = problem.solve(make_penalty(2, 1, 0.03), checkpoint=kept_in(path), **options)
    assert told[0] == 17  # it did go on
    whole = problem.solve(make_penalty(2, 1, 0.03), solver="alternating")
    assert whole.n_iter > 20 and whole.A.any()
    same(rest, whole)
    assert run(FIT, path).returncode == 0  # and another process finds the end there
    assert_array_equal(np.load(path + ".npy"), whole.A)


@pytest.mark.parametrize(("p", "k"), [(2, 1), (1, 1), (2, 2), (1.5, 1), (2, float("inf")), (1, "log")])
def test_going_on_from_any_pass_ends_with_the_same_bits(p, k, tmp_path, monkeypatch):
    monkeypatch.setattr("mmtfl.solvers.algorithm1._KEEP_PASSES", 1)
    problem, n_passes = make_problem(3, sizes=(14, 9, 21, 30), d=16), []
    penalty = make_penalty(p, k, (0.02 if k == "log" else 0.2) * largest_null_slope(problem))

    class Stop(Exception):
        pass

    whole = problem.solve(penalty, solver="alternating", report=lambda n, *_: n_passes.append(n))
    for stop in range(1, len(n_passes) + 1, max(1, len(n_passes) // 6)):

        def report(n, *_, stop=stop):
            if n == stop + 1:
                raise Stop

        path = tmp_path / f"{stop}.checkpoint"
        try:
            problem.solve(penalty, solver="alternating", report=report, checkpoint=kept_in(path))
        except Stop:
            assert len(kept_in(path).passes()["history"]) == stop
        same(problem.solve(penalty, solver="alternating", checkpoint=kept_in(path)), whole)


# -- through the estimators ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows():
    return make_problem(3, sizes=(14, 19, 21, 30), d=8).tasks.to_rows()


def test_the_checkpoint_of_another_fit_is_refused(rows, tmp_path, monkeypatch):
    X, y, task = rows
    path = tmp_path / "fit.checkpoint"
    MMTFLRegressor(2, 1, 0.2, checkpoint=path).fit(X, y, task)
    written = path.read_bytes()
    others = [
        (MMTFLRegressor(2, 1, 0.3, checkpoint=path), (X, y, task)),
        (MMTFLRegressor(2, 2, 0.2, checkpoint=path), (X, y, task)),
        (MMTFLRegressor(2, 1, 0.2, tol=1e-6, checkpoint=path), (X, y, task)),
        (MMTFLRegressor(2, 1, 0.2, standardize=True, checkpoint=path), (X, y, task)),
        (MMTFLRegressor(2, 1, 0.2, checkpoint=path), (X, y + 1e-9, task)),
        (MMTFLRegressor(2, 1, 0.2, checkpoint=path), (X * (1 + 1e-15), y, task)),
        (MMTFLRegressor(2, 1, 0.2, checkpoint=path), (X, y, task, np.full(len(y), 2.0))),
        (MMTFLClassifier(2, 1, 0.2, checkpoint=path), (X, y > 0, task)),
        (MMTFLRegressorCV((2, 1), 5, 3, checkpoint=path), (X, y, task)),
    ]
    for model, data in others:
        with pytest.raises(ValueError, match="checkpoint of another fit"):
            model.fit(*data)
    with monkeypatch.context() as patch:
        patch.setattr("mmtfl.__version__", "99.0")
        with pytest.raises(ValueError, match=r"another version of mmtfl.*remove it"):
            MMTFLRegressor(2, 1, 0.2, checkpoint=path).fit(X, y, task)
    assert path.read_bytes() == written
    # what does not change the answer may differ
    MMTFLRegressor(2, 1, 0.2, n_jobs=2, unknown_task="mean", checkpoint=str(path)).fit(
        np.asfortranarray(X), y, task
    )


def forged(path, change):
    """Write a checkpoint anew, with a right checksum, after `change(content)`."""
    content = read_archive(path)
    change(content)
    write_archive(path, content)


def put(name, make, step=""):
    def change(content):
        (arrays,) = [found for at, found in content["steps"].items() if name in found and step in at]
        arrays[name] = make(arrays[name])

    return change


FORGERIES = {
    "no steps": lambda content: content.pop("steps"),
    "steps without arrays": lambda content: content["steps"].update({"fit-solution": 3}),
    "nothing left of the answer": lambda content: content["steps"]["fit-solution"].popitem(),
    "a wrong shape": put("A", lambda A: A[:, :-1].copy()),
    "a matrix for a vector": put("intercept", lambda b: b[:, None].copy()),
    "NaN": put("A", lambda A: A * np.nan),
    "infinity": put("intercept", lambda b: b + np.inf),
    "text": put("A", lambda A: A.astype(str)),
}


@pytest.mark.parametrize("change", FORGERIES.values(), ids=FORGERIES)
def test_a_forged_answer_is_refused(change, rows, tmp_path):
    path = tmp_path / "fit.checkpoint"
    MMTFLRegressor(2, 1, 0.2, checkpoint=path).fit(*rows)
    forged(path, change)
    with pytest.raises(ValueError, match=r"fit\.checkpoint' is not a sound checkpoint.*Remove it"):
        MMTFLRegressor(2, 1, 0.2, checkpoint=path).fit(*rows)


def test_forged_passes_and_scores_are_refused(rows, tmp_path):
    path = tmp_path / "fit.checkpoint"
    run(FIT, str(path), "SIGKILL")
    written = path.read_bytes()
    assert kept_in(path).passes(16, 4) is not None
    for name in ("A", "intercept", "weights", "norms", "effect", "history", "numbers"):
        path.write_bytes(written)
        forged(path, put(name, lambda array: array * np.nan))
        with pytest.raises(ValueError, match="not a sound checkpoint"):
            kept_in(path).passes(16, 4)
    search = MMTFLRegressorCV((2, 2), 3, 3, search="full", checkpoint=tmp_path / "search").fit(*rows)
    forged(tmp_path / "search", put("scores", lambda scores: scores[:-1].copy(), "fold-1-member-0"))
    with pytest.raises(ValueError, match="not a sound checkpoint"):
        search.fit(*rows)


def test_a_place_that_takes_no_checkpoint_is_known_before_the_work(rows, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError("Permission denied")

    monkeypatch.setattr("mmtfl.solvers.checkpoint.write_archive", refuse)
    monkeypatch.setattr("mmtfl.estimators.family.solve", lambda *_, **__: pytest.fail("it has begun"))
    with pytest.raises(PermissionError):
        MMTFLRegressor(2, 1, 0.2, checkpoint=tmp_path / "fit.checkpoint").fit(*rows)


def test_a_saved_model_and_damaged_files_are_refused_and_left(rows, tmp_path):
    path = tmp_path / "model.mmtfl"
    MMTFLRegressor(2, 1, 0.2).fit(*rows).save(path)
    whole = path.read_bytes()
    for content, told in ((whole, "is not a checkpoint"), (whole[:-100], "checkpoint: remove it"),
                          (b"not a checkpoint", "checkpoint: remove it")):  # fmt: skip
        path.write_bytes(content)
        with pytest.raises(ValueError, match=rf"model\.mmtfl' .*{told}"):
            MMTFLRegressor(2, 1, 0.2, checkpoint=path).fit(*rows)
        assert path.read_bytes() == content


def test_a_search_that_was_stopped_goes_on_and_ends_with_the_same_bits(rows, tmp_path, monkeypatch):
    path, written, write = tmp_path / "search.checkpoint", [], Checkpoint.write
    search = MMTFLRegressorCV(((2, 2), (1, 1)), 5, 3, checkpoint=path)

    def watch(self, step, *arguments, **options):
        write(self, step, *arguments, **options)
        written.append(step)
        if written == ["fold-0-member-0", "fold-0-member-1", "fold-1-member-0"]:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", watch)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*rows)
    assert search.fit(*rows) and len(set(written)) == len(written) > 6  # nothing twice
    plain = MMTFLRegressorCV(((2, 2), (1, 1)), 5, 3).fit(*rows)
    assert_array_equal(search.coef_, plain.coef_)
    for name, column in plain.cv_results_.items():
        assert_array_equal(search.cv_results_[name], column)
    assert_array_equal(search.heldout_scores_["r2"], plain.heldout_scores_["r2"])


# -- fingerprints --------------------------------------------------------------------------------------------


def test_fingerprints_tell_apart_what_a_fit_can_tell_apart():
    X = np.arange(6.0).reshape(2, 3)
    kinds = [X.astype(np.float32), X.view(np.int64), X.reshape(3, 2)]  # the second has the same bytes
    things = [X, *kinds, X + 1e-15, [X], {"a": X}, "X", 1, 1.0, True, None]
    prints = [fingerprint(thing) for thing in things]
    assert len(set(prints)) == len(things)
    assert fingerprint("a", "bc") != fingerprint("ab", "c")
    assert fingerprint(make_penalty(2, 1, 0.1)) != fingerprint(make_penalty(2, 1, 0.2))

    def of_power(power):
        return lambda y, z: -np.mean(np.abs(y - z) ** power)

    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)  # holds itself

    functions = [of_power(1), of_power(2), partial(pow, 2), partial(pow, 3), np.mean, np.median, factorial]
    functions += ["a".join, "b".join, range(3), range(1, 4), b"ab", b"ac"]
    assert len({fingerprint(thing) for thing in functions}) == len(functions)
    assert fingerprint(of_power(1)) == fingerprint(of_power(1))


def test_passes_are_told_on_stderr(rows, capsys, monkeypatch):
    monkeypatch.setattr(Reporter, "seconds", 0.0)
    model = MMTFLRegressor(2, 1, 0.2, solver="alternating", verbose=1).fit(*rows)
    told = capsys.readouterr().err.splitlines()
    # threads that earlier tests have left, such as those of a cluster, write to the same stderr
    lines = [line for line in told if line.startswith("[MMTFLRegressor] ")]
    assert lines[0].startswith("[MMTFLRegressor] pass 1: objective ")
    assert "violation" in lines[-1] and 2 < len(lines) <= model.n_iter_
