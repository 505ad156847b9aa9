"""
What the search saw
===================

Scores on held-out rows with their standard errors, for every member and strength that was tried, and the choice.
"""

import matplotlib.pyplot as plt

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.plots import SearchDisplay

data = make_tasks(8, 50, 40, pattern="partial", n_informative=8, random_state=0)
model = MMTFLRegressorCV(search="full", poolings=(0,), alphas=30, cv=5).fit(data.X, data.y, task=data.task)
SearchDisplay.from_estimator(model)
plt.show()
