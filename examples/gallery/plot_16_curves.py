"""
A curve for each task
=====================

The effect of age is not a straight line. With curves, each feature has a line or a curve, whichever the rows ask for.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressorCV
from mmtfl.plots import CurveDisplay

rng = np.random.default_rng(0)
names = np.array(["Aker", "Bern", "Cork"])
hospital = np.repeat(names, [150, 100, 60])
X = pd.DataFrame(rng.normal(size=(310, 3)), columns=["pulse", "bmi", "crp"]).assign(
    age=rng.uniform(20, 90, 310)
)
level = {"Aker": 5.0, "Bern": 6.0, "Cork": 4.0}
stay = np.array([level[h] for h in hospital]) + ((X["age"] - 55) / 18) ** 2 + 0.8 * rng.normal(size=310)
model = MMTFLRegressorCV(standardize=True, curves=True).fit(X, stay, task=hospital)
CurveDisplay.from_estimator(model, "age")
plt.show()
