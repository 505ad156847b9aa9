"""
Targets of several kinds
========================

Days of stay are a number, death is yes or no, and later visits are a count. These are different targets of the same patients, and the same
few measurements may matter to all of them. With a **loss per task** they are fitted together: each target has its own kind of model, and the targets share
which features matter.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_hospitals

# %%
# Three targets, one X
# --------------------
# A two-dimensional y has one column per task. Empty cells mean that the target was not observed.
table = make_hospitals(random_state=0).frame
features = ["age", "bmi", "pulse", "crp", "sodium", "dose"]
X, Y = table[features], table[["stay", "died", "visits"]].astype(float)
Y.loc[::7, "died"] = np.nan  # not known for every patient

# %%
# One fit
# -------
# The losses are brought to one scale, so that no kind of target dominates the others (:doc:`/targets`).
kinds = {"stay": "squared", "died": "logistic", "visits": "poisson"}
model = MMTFLRegressorCV(loss=kinds, standardize=True, alphas=30).fit(X, Y)
predicted = pd.DataFrame(model.predict(X.head(4)), columns=Y.columns)
print("days, a probability, and a count:")
predicted.round(2)

# %%
# What they share
# ---------------
# Each kind of target has its own unit: days, log odds, and the logarithm of the rate.
effects = pd.DataFrame(model.coef_ * X.std().to_numpy(), index=model.tasks_, columns=features).T
fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), sharey=True, layout="constrained")
units = {"stay": "days", "died": "log odds", "visits": "log rate"}
for ax, name in zip(axes, Y.columns, strict=True):
    ax.barh(features, effects[name], color="#0072b2")
    ax.axvline(0, color="k", lw=0.8)
    ax.set(title=name, xlabel=f"{units[name]} per standard deviation")
axes[0].invert_yaxis()

# %%
# Age and CRP matter to all three, as in the simulation.
effects.round(2)
