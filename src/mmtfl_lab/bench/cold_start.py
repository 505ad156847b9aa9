"""What the first fit ever costs, and the first of a later process, each in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass

_FITS = """
import json, time, warnings
import numpy as np
from mmtfl import MMTFLClassifier, MMTFLRegressor
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
X, task = rng.normal(size=(200, 30)), np.repeat(np.arange(4), 50)
y = X[:, 0] + rng.normal(size=200)
def seconds(model, y):
    begin = time.perf_counter()
    model.fit(X, y, task)
    return time.perf_counter() - begin
model = {model}
print(json.dumps([seconds(model, {target}) for _ in range(5)]))
"""
MODELS = {
    "squared (2,2)": ("MMTFLRegressor(2, 2, alpha=0.1)", "y"),
    "squared (2,1)": ("MMTFLRegressor(2, 1, alpha=0.1)", "y"),
    "squared (1,2)": ("MMTFLRegressor(1, 2, alpha=0.1)", "y"),
    "logistic (2,2)": ("MMTFLClassifier(2, 2, alpha=0.01)", "y > 0"),
}
_IMPORT = (
    "import time; begin = time.perf_counter(); from {module} import *; print(time.perf_counter() - begin)"
)


@dataclass(frozen=True)
class ColdStart:
    """Seconds of one model: the first fit ever, the first of a later process, and a fit after others."""

    model: str
    ever: float
    later: float
    steady: float


@dataclass(frozen=True)
class ImportTime:
    """Least seconds of importing a module in a fresh process."""

    module: str
    seconds: float


def cold_starts(names: Iterable[str]) -> list[ColdStart]:
    """The named models, each with a compiler cache of its own, empty at first."""
    found = []
    for name in names:
        model, target = MODELS[name]
        code = _FITS.format(model=model, target=target)
        with tempfile.TemporaryDirectory() as cache:
            first, again = (json.loads(_run(code, NUMBA_CACHE_DIR=cache)) for _ in range(2))
        found.append(ColdStart(name, first[0], again[0], min(first[1:] + again[1:])))
    return found


def import_times(repeats: int) -> list[ImportTime]:
    """All names of mmtfl beside those of scikit-learn's linear models, alternated."""
    modules = ("mmtfl", "sklearn.linear_model")
    best = dict.fromkeys(modules, float("inf"))
    for _ in range(repeats):
        for module in modules:
            best[module] = min(best[module], float(_run(_IMPORT.format(module=module))))
    return [ImportTime(module, seconds) for module, seconds in best.items()]


def _run(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"A process of the cold start failed: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout
