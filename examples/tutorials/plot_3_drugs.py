"""
Many targets on one X: drug response with missing cells
=======================================================

A hundred and twenty cell lines were treated with twelve drugs, and three hundred genes were measured in each line. Not every drug was
tried on every line, so the table of responses has empty cells. Each drug is a task. All tasks share the same rows, and NaN means *not
observed*.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressorCV
from mmtfl.plots import SharingMapDisplay

# %%
# The table
# ---------
# The table is simulated: ten genes influence the response to all drugs, and three more genes influence each single drug.
rng = np.random.default_rng(1)
genes = pd.DataFrame(rng.normal(size=(120, 300)), columns=[f"gene {j}" for j in range(300)])
effects = np.zeros((300, 12))
effects[:10] = rng.normal(size=(10, 1)) + 0.3 * rng.normal(size=(10, 12))
for drug in range(12):
    effects[rng.choice(np.arange(10, 300), 3, replace=False), drug] = 0.8 * rng.choice([-1, 1], 3)
response = pd.DataFrame(
    genes.to_numpy() @ effects + rng.normal(size=(120, 12)), columns=[f"drug {t}" for t in range(12)]
)
seen = response.where(rng.random(response.shape) < 0.7)
print(f"{seen.isna().mean().mean():.0%} of the responses were not observed")

# %%
# One fit for all drugs
# ---------------------
# A two-dimensional y has one column per task, all with the same X. Nothing is filled in: a missing response is simply not used.
model = MMTFLRegressorCV(n_jobs=2).fit(genes, seen)
print(f"chosen: p = {model.best_p_:g}, k = {model.best_k_:g}")
predicted = pd.DataFrame(model.predict(genes), columns=response.columns)
hidden = seen.isna().to_numpy()

# %%
# The hidden cells
# ----------------
# We know the responses that we hid. How well does the model predict them?
truth, guess = response.to_numpy()[hidden], predicted.to_numpy()[hidden]
print(f"R^2 on the {hidden.sum()} hidden cells: {1 - np.mean((truth - guess) ** 2) / truth.var():.2f}")
fig, ax = plt.subplots(figsize=(4, 4), layout="constrained")
ax.plot(truth, guess, ".", color="#0072b2", alpha=0.5)
ax.axline((0, 0), slope=1, color="k", lw=0.8)
ax.set_xlabel("response")
ax.set_ylabel("predicted from the genes")

# %%
# Which genes influence which drugs
# ---------------------------------
SharingMapDisplay.from_estimator(model)

# %%
found = np.flatnonzero(model.coef_.any(axis=0))
print(f"{len(found)} genes are used, {np.isin(np.arange(10), found).sum()} of the ten common ones among them")
