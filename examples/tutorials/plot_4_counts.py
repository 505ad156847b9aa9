"""
Counts and exposure
===================

How often do patients come back? Some were followed for three months, others for two years, and a patient who is followed longer has more
time to come back. So we model the *rate* of visits: a Poisson loss, with the logarithm of the months as an **offset**.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressorCV
from mmtfl.datasets import make_hospitals

# %%
# The table
# ---------
# These are simulated patients of eight hospitals. In truth, age and CRP raise the rate of visits, equally in every hospital.
table = make_hospitals(random_state=0).frame
features = ["age", "bmi", "pulse", "crp", "sodium", "dose"]
X, hospital, visits, months = table[features], table["hospital"], table["visits"], table["months"]
table[["hospital", "months", "visits"]].groupby("hospital").mean().round(1)

# %%
# With and without exposure
# -------------------------
# The model predicts counts; with an offset it predicts counts for the given months.
settings = {"loss": "poisson", "standardize": True, "alphas": 30}
rates = MMTFLRegressorCV(**settings).fit(X, visits, task=hospital, offset=np.log(months))
counts = MMTFLRegressorCV(**settings).fit(X, visits, task=hospital)
explained = {
    "with exposure": rates.score(X, visits, task=hospital, offset=np.log(months)),
    "without": counts.score(X, visits, task=hospital),
}
pd.Series(explained, name="deviance explained").round(2).to_frame()

# %%
# Effects on the rate
# -------------------
# The link is the logarithm, so the exponential of a coefficient is a factor: it says by how much visits are multiplied per standard deviation
# of a feature.
spread = X.std().to_numpy()
factor = np.exp(rates.coef_ * spread)
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for j in range(len(features)):
    ax.plot(factor[:, j], np.full(len(factor), j), "o", mfc="none", color="#0072b2")
ax.plot(np.exp([0.4 * 0.8, 0, 0, 0.4 * 0.6, 0, 0]), range(6), "k|", ms=16, label="truth")
ax.set_yticks(range(len(features)), features)
ax.axvline(1, color="#999999", lw=0.8)
ax.set_xlabel("visits are multiplied by, per standard deviation; one circle per hospital")
ax.legend()

# %%
# Predicting for a year
# ---------------------
first = X.head(3)
year = rates.predict(first, task=hospital.head(3), offset=np.full(3, np.log(12)))
print("expected visits within twelve months:", year.round(1))

# %%
# In the shell: ``mmtfl cv patients.csv --task hospital --target visits --loss poisson --exposure months``.
