"""
One table from many hospitals
=============================

Eight hospitals recorded how long their patients stayed, with age, ward, smoking and laboratory values. The
table looks like real tables do: it has words and numbers, empty cells, and one hospital that never measured albumin. We
want to know **which measurements matter everywhere and which only somewhere**, and how sure that is. We also want to predict
the stay of the next patients.

You do not need to program: the lines inside ``shell(...)`` can be typed in a terminal. The table is simulated, so that we can
compare the answer with the truth at the end.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp())


def shell(command):
    """Run a command line and show what it prints."""
    here = re.sub(r"(^|&& )mmtfl ", rf"\1{sys.executable} -m mmtfl ", command)
    env = {**os.environ, "COLUMNS": "150"}  # the width of tables
    done = subprocess.run(here, shell=True, cwd=folder, capture_output=True, text=True, env=env)
    print(done.stdout + done.stderr)
    assert done.returncode == 0


# %%
# The table
# ---------
shell("mmtfl datasets hospitals --seed 0 -o patients.csv --quiet")
shell("head -4 patients.csv")

# %%
# The model
# ---------
# ``--task`` names the column that says where a row comes from, ``--target`` the column to predict. Columns that
# would not be known when a patient arrives (``died``, ``visits``, ``months``) are dropped; the number of the
# patient is left out by itself. Empty cells are filled with the median of their hospital. (Fano never measured
# albumin; see *What is known of the features* for a model in which Fano has no such feature.)
shell(
    "mmtfl cv patients.csv --task hospital --target stay --drop died visits months --seed 0 -o stay.mmtfl --quiet"
)
shell("mmtfl inspect stay.mmtfl")

# %%
# How to read it
# --------------
# *average* is the effect of one unit of the feature, averaged over the hospitals, with its interval. It is not shrunk, whether the
# model keeps the feature or not. *spread* says how far the hospitals differ, and the word sums it up: *everywhere*, *differs*, *on
# average*, *only in some*, or *not found*, which is not the same as "does not matter".
# :doc:`/how_sure` has the rules and the error rates of these words, and :doc:`/how_it_works` explains *c*, p and k.
#
# ``report`` writes the same as a page to show, which needs no network:
shell("mmtfl report stay.mmtfl patients.csv --title 'Length of stay' -o stay.html --quiet && ls stay.html")

# %%
# New patients
# ------------
# ``predict`` adds the predictions to the columns of the table, here with intervals that should contain nine of ten stays.
shell(
    "head -4 patients.csv > new.csv && mmtfl predict stay.mmtfl new.csv --interval 0.9 -o predicted.csv --quiet"
)
shell("cut -d, -f1,15,18- predicted.csv")

# %%
# The truth
# ---------
# The saved model opens in Python, too. We draw what it learned beside the effects from which the data were simulated: age, CRP
# and albumin matter everywhere, the dose in three hospitals.
import matplotlib.pyplot as plt
import numpy as np

import mmtfl
from mmtfl.datasets import make_hospitals

model = mmtfl.load(folder / "stay.mmtfl")
truth = make_hospitals(random_state=0)
names = list(model.feature_names_in_)
learned = model.coef_[:, [names.index(name) for name in truth.feature_names]]
order = [list(truth.task_names).index(label) for label in model.tasks_]
spread = truth.X.std(axis=0)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for ax, coef, title in zip(axes, (truth.coef[order], learned), ("truth", "learned"), strict=True):
    image = ax.imshow((coef * spread).T, cmap="PuOr", vmin=-1.3, vmax=1.3, aspect="auto")
    ax.set_title(title)
    ax.set_xticks(range(len(model.tasks_)), model.tasks_, rotation=45)
axes[0].set_yticks(range(len(truth.feature_names)), truth.feature_names)
fig.colorbar(image, ax=axes, label="days per standard deviation")
print(
    "correlation of learned and true effects:",
    np.corrcoef(learned.ravel(), truth.coef[order].ravel())[0, 1].round(2),
)

# %%
# Next
# ----
# - :doc:`/which_model`: when another method than the default is worth a try; ``mmtfl compare`` tests it on your table.
# - :doc:`/cli`: every command.
# - :doc:`/report`: what the page shows.
