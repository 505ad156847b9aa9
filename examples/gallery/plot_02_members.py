"""
Four members of the family on the same tasks
============================================

The same rows, four pairs (p, k). With p = 2 a kept feature is used by every task; with p = 1 tasks may leave it out. Small k keeps
fewer features and shrinks them less. Strengths are chosen by cross-validation.
"""

import matplotlib.pyplot as plt

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks

data = make_tasks(8, 60, 40, pattern="partial", n_informative=8, random_state=1)
fig, axes = plt.subplots(1, 5, figsize=(12, 3.2), sharey=True, layout="constrained")
axes[0].imshow(data.coef.T, cmap="PuOr", vmin=-2, vmax=2, aspect="auto", interpolation="none")
axes[0].set(title="truth", ylabel="feature")
for ax, (p, k) in zip(axes[1:], [(2, 2), (2, 1), (1, 2), (1, 1)], strict=True):
    model = MMTFLRegressorCV(pk=(p, k), poolings=(0,), alphas=30, cv=3).fit(data.X, data.y, task=data.task)
    ax.imshow(model.coef_.T, cmap="PuOr", vmin=-2, vmax=2, aspect="auto", interpolation="none")
    ax.set(title=f"p = {p}, k = {k}", xlabel="task")
