"""
One feature in every task, with intervals
=========================================

A forest plot: the effect of one feature in each task, the average over tasks, and what a new task may have.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressorCV
from mmtfl.plots import ForestDisplay

rng = np.random.default_rng(0)
names = np.array(["Aker", "Bern", "Cork", "Delft", "Evora", "Fano"])
site = np.repeat(names, [120, 90, 80, 60, 50, 40])
effect = dict(zip(names, [1.0, 1.2, 0.8, 0.0, 1.1, 0.9], strict=True))
X = pd.DataFrame(rng.normal(size=(len(site), 3)), columns=["dose", "age", "pulse"])
y = np.array([effect[s] for s in site]) * X["dose"] + X["age"] + rng.normal(size=len(site))
model = MMTFLRegressorCV(task_column="site").fit(X.assign(site=site), y)
ForestDisplay.from_estimator(model, "dose")
plt.show()

# %%
# Without a feature, the averages of all of them, with the words that follow from their numbers:
ForestDisplay.from_estimator(model)
plt.show()
