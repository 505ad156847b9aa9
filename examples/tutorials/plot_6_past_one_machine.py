"""
Past one machine
================

Perhaps your rows are in files that do not fit in memory, or you have a cluster, or a fit runs longer than
the machine stays up. There is a solution for each case, and none of them changes the result: the same data give the same bits.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressor, Tasks
from mmtfl.datasets import make_tasks

# %%
# Rows in files
# -------------
# A folder of parquet files, here small ones. ``Tasks.from_parquet`` reads only the labels; a fit then holds no
# more than ``memory_limit`` in this process.
folder = Path(tempfile.mkdtemp())
data = make_tasks(20, 200, 30, pattern="shared", n_informative=5, random_state=0)
table = pd.DataFrame(data.X, columns=data.feature_names).assign(machine=data.task, y=data.y)
for part, rows in enumerate(np.array_split(np.arange(len(table)), 4)):
    table.iloc[rows].to_parquet(folder / f"part{part}.parquet")

stored = Tasks.from_parquet(folder, task="machine", target="y", memory_limit="1GB")
model = MMTFLRegressor(p=2, k=2, alpha=0.2, solver="alternating").fit(stored)
here = MMTFLRegressor(p=2, k=2, alpha=0.2, solver="alternating").fit(
    table[data.feature_names], table["y"], task=table["machine"]
)
print("largest difference to the fit in memory:", np.abs(model.coef_ - here.coef_).max())

# %%
# Other machines
# --------------
# ``DaskEngine`` sends the tasks to the workers of a cluster once. After that, only the features that are left and
# their weights are sent. ``Client()`` without an address starts workers on this machine.
from distributed import Client

from mmtfl import DaskEngine

with Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as client:
    engine = DaskEngine(client)
    far = MMTFLRegressor(p=2, k=2, alpha=0.2, solver="alternating", engine=engine).fit(
        table[data.feature_names], table["y"], task=table["machine"]
    )
    print(f"{engine.n_rounds} rounds, {engine.bytes_sent / 1e3:.0f} kB sent")
print("the same bits:", np.array_equal(far.coef_, here.coef_))

# %%
# The next restart
# ----------------
# With ``checkpoint``, a fit that was killed continues where it stopped when the same call is made again.
checkpoint = folder / "fit.checkpoint"
again = MMTFLRegressor(p=2, k=2, alpha=0.2, solver="alternating", checkpoint=checkpoint)
again.fit(table[data.feature_names], table["y"], task=table["machine"])
print("the same bits:", np.array_equal(again.coef_, here.coef_))

# %%
# What was fitted
# ---------------
from mmtfl.plots import SharingMapDisplay

SharingMapDisplay.from_estimator(model)

# %%
# :doc:`/scaling` says what is sent, what is kept in memory, and when all this is not worth it.
