"""celer: a group lasso on the block design, whose columns are the features of single tasks."""

import warnings

import numpy as np
from benchopt import BaseSolver
from celer.homotopy import celer_path

from mmtfl_lab.bench.libraries import block_columns


class Solver(BaseSolver):
    """Working sets by dual extrapolation."""

    name = "celer"
    sampling_strategy = "tolerance"

    def set_objective(self, data, alpha):
        """Make the block design; its loss is a mean over all rows, ours over those of a task."""
        self.data, self.X, self.alpha = data, block_columns(data), alpha / data.n_tasks

    def run(self, tolerance):
        """Fit at one tolerance."""
        options = {"pb": "grouplasso", "groups": self.data.n_tasks, "alphas": np.array([self.alpha])}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.coef = celer_path(self.X, self.data.y, tol=tolerance, **options)[1][:, -1]

    def get_result(self):
        """The coefficients, features by tasks."""
        return {"A": self.coef.reshape(-1, self.data.n_tasks)}
