"""
Predicted and observed, task by task
====================================

On rows that the model has not seen.
"""

import matplotlib.pyplot as plt

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_tasks
from mmtfl.model_selection import tasks_train_test_split
from mmtfl.plots import PredictionDisplay

data = make_tasks(6, (40, 120), 30, snr=3, random_state=0)
parts = tasks_train_test_split(data.X, data.y, data.task, train_size=0.6, random_state=0)
X_train, X_test, y_train, y_test, task_train, task_test = parts
model = MMTFLRegressorCV(alphas=30, cv=3).fit(X_train, y_train, task=task_train)
PredictionDisplay.from_estimator(model, X_test, y_test, task=task_test)
plt.show()
