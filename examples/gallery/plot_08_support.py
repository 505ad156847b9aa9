"""
What the rows support
=====================

How often half samples of the rows keep a feature in a task, and where an effect is supported. A p = 2 model *uses* every kept feature
in all tasks; the rows *support* the second one in two tasks only.
"""

import matplotlib.pyplot as plt
import numpy as np

from mmtfl import MMTFLRegressorCV
from mmtfl.plots import SupportDisplay

rng = np.random.default_rng(0)
site = np.repeat(["north", "south", "east", "west"], 100)
X = rng.normal(size=(400, 8))
y = 1.5 * X[:, 0] + np.where(np.isin(site, ["north", "east"]), 1.5 * X[:, 1], 0.0) + rng.normal(size=400)
model = MMTFLRegressorCV(alphas=20, cv=3, stability=25).fit(X, y, task=site)
SupportDisplay.from_estimator(model)
plt.show()
