"""The Dask engine: the bits of one machine, through lost workers, and clear words if the cluster is gone."""

import logging
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_allclose
from sklearn.base import clone

from mmtfl import DaskEngine, MMTFLClassifier, MMTFLRegressor, MMTFLRegressorCV, Tasks
from mmtfl.engines import EngineLostError
from mmtfl.objective.penalties import make_penalty
from mmtfl.solvers.checkpoint import Checkpoint, FitCheckpoint
from oracles import LOSSES, frame_of, largest_null_slope, make_problem

SIZES = (14, 9, 21, 30, 12, 17, 8)
MEMBERS = [(2, 1, 0), (1, 1, 0), (2, 2, 0), (1.5, 1, 0), (2, float("inf"), 0), (1, "log", 0), (2, 2, 0.9)]


@pytest.fixture(scope="module")
def client():
    workers = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(**workers, silence_logs=logging.CRITICAL) as cluster, Client(cluster) as client:
        yield client


def same(one, other):
    assert_allclose(one.A, other.A, rtol=1e-9, atol=1e-9)
    assert_allclose(one.intercept, other.intercept, rtol=1e-9, atol=1e-9)
    assert_allclose(one.history, other.history, rtol=1e-9, atol=1e-9)
    assert (one.objective, one.violation, one.dual_gap) == (other.objective, other.violation, other.dual_gap)
    assert one.converged and one.solver == other.solver == "alternating"


def a_fit(p, k, loss, pooling=0.0, **options):
    problem = make_problem(3, loss=loss, sizes=SIZES, d=16)
    alpha = largest_null_slope(problem) * (0.02 if k == "log" else 0.2)
    penalty = make_penalty(p, k, alpha, pooling=pooling)
    return problem.solve(penalty, solver="alternating", **options)


# -- the same bits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", LOSSES)
def test_one_and_two_workers_have_the_bits_of_this_process(client, loss):
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as single:
        engines = DaskEngine(client), DaskEngine(single)
        assert [engine.n_slots for engine in engines] == [2, 1]
        for p, k, pooling in MEMBERS:
            here = a_fit(p, k, loss, pooling)
            assert np.any(here.A)
            for engine in engines:
                same(a_fit(p, k, loss, pooling, engine=engine), here)


SEARCH = {"pk": ((2, 2), (2, 1)), "alphas": 6, "cv": 3}


@pytest.mark.parametrize(
    "model",
    [
        MMTFLRegressor(2, 1, 0.2, standardize=True),
        MMTFLClassifier(1, 1, 0.05),
        MMTFLRegressor(np.inf, 1, 2.0),  # rows are worked on here, where Algorithm 1 stands still
        MMTFLRegressorCV(**SEARCH),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_take_the_engine_and_auto_means_algorithm_1(client, model):
    X, y, task = make_problem(3, sizes=SIZES, d=16).tasks.to_rows()
    y = np.where(y > 1.0, "high", "low") if isinstance(model, MMTFLClassifier) else y
    there = clone(model).set_params(engine=DaskEngine(client)).fit(X, y, task)
    solver = "auto" if getattr(model, "p", 2) == np.inf else "alternating"
    here = clone(model).set_params(solver=solver).fit(X, y, task)
    assert there.coef_.any()
    assert_allclose(there.coef_, here.coef_, rtol=1e-9, atol=1e-9)
    for name, column in getattr(here, "cv_results_", {}).items():
        assert_allclose(there.cv_results_[name], column, rtol=1e-9, atol=1e-9)


def test_stored_tasks_are_read_by_the_workers(client, tmp_path):
    frame = frame_of(make_problem(3, sizes=SIZES, d=5).tasks)
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=20)
    stored = Tasks.from_parquet(tmp_path, task="task", target="y")
    for p, k in ((2, 1), (1, 1)):
        options = {"p": p, "k": k, "alpha": 0.2, "scale_targets": True, "effects": True}
        there = MMTFLRegressor(**options, engine=DaskEngine(client)).fit(stored)
        here = MMTFLRegressor(**options).fit(stored)
        for name in ("effect", "error"):
            assert_allclose(there.effects_[name], here.effects_[name], rtol=1e-6, atol=1e-9)
        assert_allclose(there.coef_, here.coef_, rtol=1e-9, atol=1e-9)
        assert_allclose(there.history_, here.history_, rtol=1e-9, atol=1e-9)
        assert there.coef_.any()


# -- what goes over the wire ---------------------------------------------------------------------------------


def test_a_pass_sends_the_features_left_and_brings_row_norms(client):
    class Counting(DaskEngine):
        log: list = []  # noqa: RUF012

        def map(self, function, *columns, keep=False, name="map"):
            before = self.bytes_sent, self.bytes_received
            out = super().map(function, *columns, keep=keep, name=name)
            self.log.append((name, self.bytes_sent - before[0], self.bytes_received - before[1]))
            return out

    problem = make_problem(3, sizes=(40,) * 32, d=24)
    penalty = make_penalty(2, 1, 0.3 * largest_null_slope(problem))
    engine = Counting(client)
    found = problem.solve(penalty, engine=engine)
    sent = [sent for name, sent, _ in engine.log if name.startswith("pass-")]
    back = [back for name, _, back in engine.log if name.startswith("reply-")]
    assert len(sent) == len(back) > 5 and not any("load" in name for name, *_ in engine.log)
    # index and weight of a feature go out, to two shards
    assert sent[0] <= 2 * (24 * 12 + 64) and sent[-1] <= 2 * (found.A.any(axis=1).sum() * 12 + 64)
    # one loss per task, one row of norms per shard and the rows' effects: not A, which has 32 columns
    assert max(back) <= 8 * 32 + 2 * 8 * (24 * 3 + 8) < 24 * 32 * 8


# -- faults --------------------------------------------------------------------------------------------------


def test_a_worker_killed_in_mid_fit_changes_nothing(client):
    killed = []

    def kill_one(n_passes, *_):
        if n_passes == 4 and not killed:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    there = a_fit(1.5, 1, "squared", engine=DaskEngine(client), report=kill_one)
    assert killed and there.n_iter > 5
    same(there, a_fit(1.5, 1, "squared"))
    client.wait_for_workers(2, timeout=60)


def test_a_lost_scheduler_is_told_and_the_checkpoint_goes_on(tmp_path):
    path, here = tmp_path / "fit.checkpoint", a_fit(2, 1, "logistic")
    assert here.n_iter > 20
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    scheduler += ["--no-dashboard", "--scheduler-file", str(tmp_path / "scheduler.json")]
    with subprocess.Popen(scheduler, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        client = Client(scheduler_file=str(tmp_path / "scheduler.json"), timeout="30s")
        client._timeout = 1.0  # how long it waits for a scheduler to come back
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1"]
        worker += ["--no-dashboard", "--death-timeout", "1", client.scheduler.address]
        with subprocess.Popen(worker, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as working:

            def lose(n_passes, *_):
                if n_passes == 18:
                    process.kill()

            try:
                client.wait_for_workers(1, timeout=60)
                with pytest.raises(EngineLostError, match=r"scheduler was lost in .*checkpoint"):
                    checkpoint = FitCheckpoint(Checkpoint(path, "mine"))
                    a_fit(2, 1, "logistic", engine=DaskEngine(client), report=lose, checkpoint=checkpoint)
            finally:
                client.close(timeout=1)
                working.kill()
                process.kill()
    checkpoint = FitCheckpoint(Checkpoint(path, "mine"))
    assert len(checkpoint.passes()["history"]) == 16
    same(a_fit(2, 1, "logistic", checkpoint=checkpoint), here)


# -- what would go wrong silently ----------------------------------------------------------------------------


def test_what_is_no_sound_cluster_is_told(client, monkeypatch):
    with pytest.raises(TypeError, match=r"needs a distributed.Client, got str"):
        DaskEngine("tcp://scheduler:8786")
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as alone,
        pytest.warns(UserWarning, match="has no workers"),
    ):
        DaskEngine(alone)
    monkeypatch.setattr("mmtfl.__version__", "99.0")
    with pytest.raises(ValueError, match=r"has version .* of mmtfl, and this process has 99\.0"):
        DaskEngine(client)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"\.\[dask\]"):
        DaskEngine(None)


def test_a_file_that_changes_after_it_was_indexed_is_noticed(client, tmp_path):
    frame = frame_of(make_problem(3, sizes=SIZES, d=5).tasks)
    frame.to_parquet(tmp_path / "a.parquet")
    stored = Tasks.from_parquet(tmp_path, task="task", target="y")
    frame.assign(x0=frame["x0"] + 1.0).to_parquet(tmp_path / "a.parquet")
    for engine in (None, DaskEngine(client)):
        with pytest.raises(ValueError, match=r"has changed since it was opened"):
            MMTFLRegressor(alpha=0.05, engine=engine).fit(stored)
