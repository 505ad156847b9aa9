"""
What was true, and what was learned
===================================

D2 of the paper: twenty tasks in six groups, a staircase of features of which neighbours share some. The default search
finds the pattern from 120 rows per task.
"""

import matplotlib.pyplot as plt

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_d2

data = make_d2(n_samples=120, random_state=0)
model = MMTFLRegressorCV(alphas=30, cv=3).fit(data.X, data.y, task=data.task)

fig, axes = plt.subplots(1, 2, figsize=(9, 3), sharey=True, layout="constrained")
for ax, coef, title in zip(axes, (data.coef, model.coef_), ("truth", "learned"), strict=True):
    image = ax.imshow(coef, cmap="PuOr", vmin=-2, vmax=2, aspect="auto", interpolation="none")
    ax.set(title=title, xlabel="feature")
axes[0].set(ylabel="task", yticks=range(0, 20, 5))
fig.colorbar(image, ax=axes, label="coefficient")
