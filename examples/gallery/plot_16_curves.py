"""
A curve for each task
=====================

The effect of age is not a straight line. A spline turns the column into several features, and ``feature_groups`` keeps or drops them
together. ``mmtfl cv --splines age`` does the same from a table.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import SplineTransformer

from mmtfl import MMTFLRegressorCV

rng = np.random.default_rng(0)
names = np.array(["Aker", "Bern", "Cork"])
hospital = np.repeat(names, [150, 100, 60])
age, other = rng.uniform(20, 90, 310), rng.normal(size=(310, 5))
level = {"Aker": 5.0, "Bern": 6.0, "Cork": 4.0}
stay = np.array([level[h] for h in hospital]) + ((age - 55) / 18) ** 2 + 0.8 * rng.normal(size=310)

spline = SplineTransformer(n_knots=5, include_bias=False).fit(age[:, None])
X = np.column_stack([spline.transform(age[:, None]), other])
n = spline.n_features_out_
model = MMTFLRegressorCV(feature_groups=[list(range(n))], standardize=True, alphas=30, cv=3)
model.fit(X, stay, task=hospital)

at = np.linspace(20, 90, 100)
basis = np.column_stack([spline.transform(at[:, None]), np.zeros((100, 5))])
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True, layout="constrained")
for ax, name in zip(axes, names, strict=True):
    here = hospital == name
    ax.plot(age[here], stay[here], ".", color="#999999", ms=4)
    ax.plot(at, model.predict(basis, task=np.full(100, name)), color="#0072b2", label="learned")
    ax.plot(at, level[name] + ((at - 55) / 18) ** 2, "k--", lw=1, label="truth")
    ax.set(title=f"{name}, {here.sum()} rows", xlabel="age")
axes[0].set_ylabel("days of stay")
axes[0].legend()
