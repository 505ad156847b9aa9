"""Answers do not depend on what memory held before."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks
data = make_tasks(5, 30, 15, n_informative=4, noise=1.0, random_state=0)
search = MMTFLRegressorCV(pk=((2, 1), (1, 1)), alphas=30, cv=3, poolings=(0,)).fit(data.X, data.y, data.task)
print(search.cv_results_["mean_test_score"].tobytes().hex())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc fills memory on demand")
def test_a_search_has_the_same_bits_whatever_memory_held():
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "MALLOC_PERTURB_": filled},
            capture_output=True,
            check=True,
        ).stdout
        for filled in ("1", "85", "127")
    }
    assert len(found) == 1
