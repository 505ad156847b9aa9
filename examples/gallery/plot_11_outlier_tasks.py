"""
A site unlike all others
========================

Ten tasks share their features; the last one has others. The robust model sets it apart instead of letting it spoil what is shared.
"""

import matplotlib.pyplot as plt

from mmtfl import RobustRegressor, TwoStrengthCV
from mmtfl.datasets import make_tasks

data = make_tasks(10, 100, 30, pattern="outlier", n_informative=6, random_state=1)
search = TwoStrengthCV(RobustRegressor(), cv=3).fit(data.X, data.y, task=data.task)
model = search.best_estimator_

fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
parts = {"truth": data.coef, "shared part": model.shared_, "outlier part": model.outlier_}
for ax, (title, coef) in zip(axes, parts.items(), strict=True):
    ax.imshow(coef.T, cmap="PuOr", vmin=-2, vmax=2, aspect="auto", interpolation="none")
    ax.set(title=title, xlabel="task")
axes[0].set_ylabel("feature")
