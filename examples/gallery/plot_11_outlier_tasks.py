"""
A site unlike all others
========================

Nine tasks share six features. The last task is different: it uses all features a little. The robust model puts this task into a part of its own
and names it, so that it does not disturb what the others share.
"""

import matplotlib.pyplot as plt
import numpy as np

from mmtfl import RobustRegressor, TwoStrengthCV

rng = np.random.default_rng(0)
task = np.repeat(np.arange(10), 60)
X = rng.normal(size=(600, 30))
truth = np.zeros((10, 30))
truth[:9, :6] = rng.choice([-1, 1], 6) * rng.uniform(0.7, 1.3, size=(9, 6))
truth[9] = 0.6 * rng.choice([-1, 1], 30)
y = np.einsum("ij,ij->i", X, truth[task]) + rng.normal(size=600)

search = TwoStrengthCV(RobustRegressor(), cv=3).fit(X, y, task=task)
model = search.best_estimator_
print("outlier tasks:", model.outlier_tasks_)

fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True, layout="constrained")
parts = {"truth": truth, "shared part": model.shared_, "outlier part": model.outlier_}
for ax, (title, coef) in zip(axes, parts.items(), strict=True):
    ax.imshow(coef.T, cmap="PuOr", vmin=-1.5, vmax=1.5, aspect="auto", interpolation="none")
    ax.set(title=title, xlabel="task")
axes[0].set_ylabel("feature")
