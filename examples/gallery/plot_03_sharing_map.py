"""
The sharing map
===============

One row for each feature that some task uses, one column for each task: shared features first, tasks that are alike side by side.
"""

import matplotlib.pyplot as plt

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.plots import SharingMapDisplay

data = make_tasks(12, 80, 60, pattern="staircase", n_informative=10, random_state=0)
model = MMTFLRegressorCV(pk=(1, 2), alphas=30, cv=3).fit(data.X, data.y, task=data.task)
SharingMapDisplay.from_estimator(model)
plt.show()
