"""
Models of two parts beside the product form
===========================================

Ten tasks share six features, and four tasks have one more feature each. The dirty model puts such exceptions into a part of their
own. The robust and the low-rank model look for whole tasks that differ, which is not the case here.
"""

import matplotlib.pyplot as plt
import numpy as np

from mmtfl import DirtyRegressor, LowRankRegressor, MMTFLRegressorCV, RobustRegressor, TwoStrengthCV

rng = np.random.default_rng(0)
task = np.repeat(np.arange(10), 60)
X = rng.normal(size=(600, 30))
truth = np.zeros((10, 30))
truth[:, :6] = rng.choice([-1, 1], 6) * rng.uniform(0.7, 1.3, size=(10, 6))
truth[[1, 4, 6, 9], [12, 17, 22, 27]] = 1.5
y = np.einsum("ij,ij->i", X, truth[task]) + rng.normal(size=600)

models = {
    "product form": MMTFLRegressorCV(alphas=20, cv=3),
    "dirty": TwoStrengthCV(DirtyRegressor(), strengths=6, cv=3),
    "robust": TwoStrengthCV(RobustRegressor(), strengths=6, cv=3),
    "low rank": TwoStrengthCV(LowRankRegressor(), strengths=6, cv=3),
}
learned = {name: model.fit(X, y, task=task).coef_ for name, model in models.items()}

fig, axes = plt.subplots(1, 5, figsize=(12, 3.6), sharey=True, layout="constrained")
for ax, (name, coef) in zip(axes, {"truth": truth, **learned}.items(), strict=True):
    ax.imshow(coef.T, cmap="PuOr", vmin=-2, vmax=2, aspect="auto", interpolation="none")
    error = np.linalg.norm(coef - truth) / np.linalg.norm(truth)
    ax.set(title=name if name == "truth" else f"{name}\nerror {error:.2f}", xlabel="task")
axes[0].set_ylabel("feature")
