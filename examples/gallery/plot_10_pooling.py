"""
Between one model for all and one model each
============================================

Thirty sites whose effects scatter about a common value, fifteen rows each. One model per site is noise, one model for all ignores
what is particular; pooling is drawn to a common part that is learned too.
"""

import matplotlib.pyplot as plt
import numpy as np

from mmtfl import MMTFLRegressor, MMTFLRegressorCV

rng = np.random.default_rng(0)
site = np.repeat(np.arange(30), 15)
X = rng.normal(size=(450, 5))
own = np.array([1.0, -0.5, 0.0, 0.0, 0.0]) + np.array([0.6, 0.3, 0, 0, 0]) * rng.normal(size=(30, 5))
y = np.einsum("ij,ij->i", X, own[site]) + 1.5 * rng.normal(size=450)
alone = MMTFLRegressor(p=2, k=float("inf"), alpha=1e-6).fit(X, y, task=site)
together = MMTFLRegressorCV(pk=(2, 2), poolings=(0, 0.9, 0.99)).fit(X, y, task=site)

order = np.argsort(own[:, 0])
fig, ax = plt.subplots(figsize=(8, 3.4), layout="constrained")
ax.plot(own[order, 0], "k_", ms=9, label="truth")
ax.plot(alone.coef_[order, 0], "o", mfc="none", color="#d55e00", label="each site alone")
ax.plot(together.coef_[order, 0], "o", color="#0072b2", label=f"pooling = {together.best_pooling_:g}")
ax.axhline(together.common_[0], color="#0072b2", lw=0.8, ls="--", label="common part")
ax.set(xlabel="site, by its true effect", ylabel="effect of the first feature")
ax.legend(ncols=2)
