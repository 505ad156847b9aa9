"""Fits in several threads, in forked children, and in processes that share a cache of compiled code."""

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mmtfl import DirtyRegressor, MMTFLRegressor, MMTFLRegressorCV

DATA = """
import numpy as np
from mmtfl import MMTFLRegressor
rng = np.random.default_rng(0)
X, task = rng.normal(size=(60, 5)), np.repeat([0, 1, 2], 20)
y = X[:, 0] + rng.normal(size=60)
"""


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_fits_in_several_threads_leave_blas_as_it_was():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(60, 5)), np.repeat([0, 1, 2], 20)
    y = X[:, 0] + rng.normal(size=60)
    models = [
        MMTFLRegressor(alpha=0.05),
        MMTFLRegressor(alpha=0.05, solver="alternating", n_jobs=2),
        MMTFLRegressorCV(pk=(2, 2), alphas=4, cv=2, n_jobs=2),
        DirtyRegressor(),
    ]
    expected = [model.fit(X, y, task=task).coef_ for model in models]
    found = {}

    def work(i):
        for j in (i, (i + 1) % len(models)):  # they begin and end at different times
            found[i, j] = type(models[j])(**models[j].get_params()).fit(X, y, task=task).coef_

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(models))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert blas_threads() == before and 2 in before  # one that has a single thread may be loaded
    assert len(found) == 2 * len(models)
    for (_, j), coef in found.items():
        np.testing.assert_array_equal(coef, expected[j])


def python(code, **variables):
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
    )  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_after_a_fit_and_one_in_the_middle_of_another_can_fit():
    code = (
        DATA
        + """
import os, sys, threading
from mmtfl.engines.threads import one_blas_thread

def fit():
    return MMTFLRegressor(alpha=0.05, solver="alternating").fit(X, y, task=task).coef_

def child(answer):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if np.array_equal(fit(), answer) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

answer, inside, go_on = fit(), threading.Event(), threading.Event()
codes = [child(answer)]

def hold():
    with one_blas_thread():
        inside.set()
        go_on.wait(60)

thread = threading.Thread(target=hold)
thread.start()
inside.wait(60)
from mmtfl.engines import threads
with threads._lock:  # as if another thread were just entering
    codes.append(child(answer))
go_on.set()
thread.join()
print(codes)
"""
    )
    process = python(code)
    try:
        out, err = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # its child holds the pipes
        process.communicate()
        pytest.fail("the child hangs")
    assert (process.returncode, out.strip()) == (0, "[0, 0]"), err
