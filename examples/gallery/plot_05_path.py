"""
From strong to weak penalties
=============================

The sizes of features along the path of strengths, and how many there are. The dashed line is the choice of the search.
"""

import matplotlib.pyplot as plt

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.plots import PathDisplay

data = make_tasks(6, 60, 25, pattern="shared", n_informative=6, random_state=0)
model = MMTFLRegressorCV(pk=(2, 2), poolings=(0,), alphas=40, cv=3).fit(data.X, data.y, task=data.task)
PathDisplay.from_estimator(model)
plt.show()
