"""
How a fit went
==============

The objective after every pass over the data, for the paper's Algorithm 1 and for row descent. Both end in the same minimum, because
(2, 2) is convex.
"""

import matplotlib.pyplot as plt

from mmtfl import MMTFLRegressor
from mmtfl.datasets import make_tasks
from mmtfl.plots import HistoryDisplay

data = make_tasks(8, 60, 100, pattern="shared", n_informative=8, correlation=0.7, random_state=0)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for ax, solver in zip(axes, ("alternating", "block"), strict=True):
    model = MMTFLRegressor(p=2, k=2, alpha=0.1, solver=solver).fit(data.X, data.y, task=data.task)
    HistoryDisplay.from_estimator(model, ax=ax)
    ax.set_xlabel(f"pass over the data, solver={solver!r}")
plt.show()
