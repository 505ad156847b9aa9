"""
The shared part c
=================

Every coefficient is a product of a part c that all tasks share and a part of the task's own. A feature with c = 0 is gone for
everybody.
"""

import matplotlib.pyplot as plt

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.plots import SharedPartDisplay

data = make_tasks(10, 80, 40, pattern="partial", n_informative=10, random_state=0)
model = MMTFLRegressorCV(pk=(1, 1), alphas=30, cv=3).fit(data.X, data.y, task=data.task)
SharedPartDisplay.from_estimator(model)
plt.show()
