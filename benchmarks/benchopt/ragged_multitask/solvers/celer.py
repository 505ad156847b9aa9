"""celer: a group lasso on the block design, whose columns are the features of single tasks."""

import warnings
from typing import ClassVar

import numpy as np
from benchopt import BaseSolver
from celer.homotopy import celer_path

from mmtfl_lab.bench.libraries import block_columns


class Solver(BaseSolver):
    """Working sets by dual extrapolation."""

    name = "celer"
    sampling_strategy = "run_once"
    parameters: ClassVar = {"tolerance": [1e-2, 1e-4, 1e-6, 1e-8]}

    def set_objective(self, data, alpha):
        """Make the block design; its loss is a mean over all rows, ours over those of a task."""
        self.data, self.X, self.alpha = data, block_columns(data), alpha / data.n_tasks

    def run(self, _):
        """Fit at the tolerance of this solver."""
        options = {"pb": "grouplasso", "groups": self.data.n_tasks, "alphas": np.array([self.alpha])}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.coef = celer_path(self.X, self.data.y, tol=self.tolerance, **options)[1][:, -1]

    def get_result(self):
        """The coefficients, features by tasks."""
        return {"A": self.coef.reshape(-1, self.data.n_tasks)}
