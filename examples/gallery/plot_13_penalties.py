"""
The penalty of one feature in two tasks
=======================================

Each picture shows what one feature costs when task 1 has the coefficient on the horizontal axis and task 2 the one on the vertical
axis. All points on a line cost the same. Where the lines have corners on the axes (p = 1), one task can leave the feature out while the other
keeps it. Where the lines are close together near the centre (small k), the first step away from zero is expensive and further steps are cheap: the fit
drops a feature entirely, or keeps it with little shrinkage.
"""

import matplotlib.pyplot as plt
import numpy as np

inf = float("inf")
members = {
    (2, 2): "rows kept or dropped; convex",
    (2, 1): "few rows, shrunk less",
    (1, 1): "few rows, tasks choose",
    (1, 2): "more rows, tasks choose",
    (inf, 1): "largest coefficient counts",
    (1, inf): "one lasso per task",
}
grid = np.linspace(-1, 1, 201)
first, second = np.meshgrid(grid, grid)

fig, axes = plt.subplots(2, 3, figsize=(9, 6.2), sharex=True, sharey=True, layout="constrained")
for ax, ((p, k), words) in zip(axes.flat, members.items(), strict=True):
    r = 1 / (1 / p + 1 / k)
    cost = np.linalg.norm([first.ravel(), second.ravel()], ord=p, axis=0).reshape(first.shape) ** r
    ax.contour(first, second, cost, levels=np.arange(0.2, 1.5, 0.2), cmap="cividis")
    ax.set_aspect("equal")
    ax.set_title(f"p = {p:g}, k = {k:g}\n{words}", fontsize=10)
for ax in axes[-1]:
    ax.set_xlabel("coefficient in task 1")
for ax in axes[:, 0]:
    ax.set_ylabel("coefficient in task 2")
