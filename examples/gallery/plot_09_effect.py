"""
One feature in every task, with intervals
=========================================

A forest plot: the effect of one feature in each task, refitted without shrinkage, with its interval.
"""

import matplotlib.pyplot as plt
import numpy as np

from mmtfl import MMTFLRegressorCV
from mmtfl.plots import EffectDisplay

rng = np.random.default_rng(0)
names = np.array(["Aker", "Bern", "Cork", "Delft", "Evora", "Fano"])
site = np.repeat(names, [120, 90, 80, 60, 50, 40])
effect = dict(zip(names, [1.0, 1.2, 0.8, 0.0, 1.1, 0.9], strict=True))
X = rng.normal(size=(len(site), 6))
y = np.array([effect[s] for s in site]) * X[:, 0] + X[:, 1] + rng.normal(size=len(site))
model = MMTFLRegressorCV(alphas=20, cv=3, stability=25).fit(X, y, task=site)
EffectDisplay.from_estimator(model, "x0")
plt.show()
