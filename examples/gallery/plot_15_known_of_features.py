"""
What you know of the features changes the answer
================================================

Four hospitals. The dose cannot shorten a stay, so its coefficient must not be negative; age is a confounder that must stay in the
model; Cork never measures lactate. The left picture shows a fit without this knowledge (Cork's lactate filled with zero), the right one with it.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressor

rng = np.random.default_rng(4)
hospital = np.repeat(["Aker", "Bern", "Cork", "Dijon"], [30, 40, 20, 25])
X = pd.DataFrame(rng.normal(size=(115, 5)), columns=["age", "dose", "lactate", "pulse", "salt"])
stay = 0.25 * X["age"] + 0.1 * X["dose"] + 0.8 * X["lactate"] + 0.7 * X["pulse"] + rng.normal(size=115)
measured = X.assign(lactate=X["lactate"].where(hospital != "Cork"))

plain = MMTFLRegressor(p=1, k=2, alpha=0.15).fit(measured.fillna(0), stay, task=hospital)
known = MMTFLRegressor(
    p=1, k=2, alpha=0.15, penalty_weight={"age": 0}, positive=["dose"], absent_features="allow"
).fit(measured, stay, task=hospital)

fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for ax, model, title in zip(
    axes, (plain, known), ("nothing is known", "age, dose and lactate are known"), strict=True
):
    image = ax.imshow(model.coef_.T, cmap="PuOr", vmin=-1.2, vmax=1.2, aspect="auto")
    for (t, j), value in np.ndenumerate(model.coef_):
        text = "absent" if model is known and model.absent_[t, j] else f"{value:.2f}"
        ax.text(
            t, j, text, ha="center", va="center", fontsize=8, color="white" if abs(value) > 0.75 else "black"
        )
    ax.set_title(title)
    ax.set_xticks(range(4), model.tasks_)
axes[0].set_yticks(range(5), X.columns)
fig.colorbar(image, ax=axes, label="coefficient")
