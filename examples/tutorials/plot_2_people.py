"""
One person per task: a survey, and a new person with five answers
=================================================================

Sixty people rate twelve computers each. Every person has a taste of their own, but the tastes are similar: nearly all people dislike a high
price. One model for all ignores the differences between people. One model per person has only twelve rows for eight features.
:doc:`Pooling </pooling>` lies between the two: every person's taste scatters about a common taste, which is learned too.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressorCV, SingleTaskRegressorCV

# %%
# The survey
# ----------
# The survey is simulated, so that the truth is known. Four features matter to the common taste, people scatter about it, and the last
# eight people have not been asked yet.
rng = np.random.default_rng(0)
features = ["price", "memory", "speed", "screen", "colour", "brand", "weight", "warranty"]
common = np.array([-2.0, 1.0, 1.0, 0.5, 0.0, 0.0, 0.0, 0.0])
taste = common + 0.8 * rng.normal(size=(68, 8)) * (common != 0)


def answers(people, n_answers):
    """Rated computers: one row per answer."""
    person = np.repeat(people, n_answers)
    X = pd.DataFrame(rng.normal(size=(len(person), 8)), columns=features)
    y = np.einsum("ij,ij->i", X, taste[person]) + 5.0 + 1.0 * rng.normal(size=len(person))
    return X, y, np.array([f"person {i}" for i in person])


X, y, person = answers(np.arange(60), 12)
X_test, y_test, person_test = answers(np.arange(60), 40)

# %%
# Three models
# ------------
# ``MMTFLRegressorCV`` tries pooling by default. We compare it with one model per person, and with the common taste for everybody.
together = MMTFLRegressorCV().fit(X, y, task=person)
alone = SingleTaskRegressorCV().fit(X, y, task=person)
print(f"chosen: p = {together.best_p_:g}, k = {together.best_k_:g}, pooling = {together.best_pooling_:g}")

rows = {"together": together, "one model per person": alone}
errors = {
    name: np.mean((model.predict(X_test, task=person_test) - y_test) ** 2) for name, model in rows.items()
}
everybody = X_test.to_numpy() @ together.common_ + np.mean(y - X.to_numpy() @ together.common_)
errors["the common taste for all"] = np.mean((everybody - y_test) ** 2)
pd.Series(errors, name="mean squared error on new answers").round(2).to_frame()

# %%
# The common taste
# ----------------
table = together.summary()[["feature", "common", "scatter"]].set_index("feature").loc[features]
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
for j in range(8):
    ax.plot(together.coef_[:, j], np.full(60, j) + rng.uniform(-0.2, 0.2, 60), ".", color="#999999", ms=4)
ax.plot(table["common"], range(8), "D", color="#0072b2", label="common part")
ax.plot(common, range(8), "k|", ms=16, label="truth")
ax.set_yticks(range(8), features)
ax.invert_yaxis()
ax.set_xlabel("effect on the rating")
ax.legend()

# %%
# A new person
# ------------
# A new person answers five questions. ``add_task`` fits this person alone and keeps the shared parts fixed, so the
# coefficients of the others do not change. Before any answer, we predict with the common taste.
new = np.arange(60, 68)
mistakes = []
for i in new:
    X_new, y_new, name = answers(np.array([i]), 5)
    X_later, y_later, name_later = answers(np.array([i]), 40)
    model = together.add_task(X_new, y_new, task=name[0])
    by_common = X_later.to_numpy() @ together.common_ + together.common_intercept_
    mistakes.append(
        [
            np.mean((by_common - y_later) ** 2),
            np.mean((model.predict(X_later, task=name_later) - y_later) ** 2),
        ]
    )
pd.DataFrame(mistakes, index=[f"person {i}" for i in new], columns=["no answer", "five answers"]).round(2)

# %%
# On average over these eight people:
pd.Series(np.mean(mistakes, axis=0), ["no answer", "five answers"], name="mean squared error").round(
    2
).to_frame()
