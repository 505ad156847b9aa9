"""Tasks with rows of their own: the squared loss of each, and a norm of every row of the coefficients."""

from typing import ClassVar

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    """1/n sum_t 1/2 ||y_t - X_t a_t||^2 + alpha sum_j ||A_j||, n the mean size; docs/model.md eq. (2)."""

    name = "Ragged multitask"
    parameters: ClassVar = {"share": [0.3, 0.1, 0.05]}  # of the smallest alpha at which A is zero
    min_benchopt_version = "1.6"

    def set_data(self, data):
        """Take tasks as `mmtfl_lab.bench.judged_problems` makes them."""
        self.data = data
        slopes = data.correlate(data.y) / data.mean_size
        self.alpha = self.share * float(np.linalg.norm(slopes, axis=1).max())

    def evaluate_result(self, A):
        """The objective, computed from the coefficients alone, and the rows kept."""
        rest = self.data.y - self.data.predict(A, np.zeros(self.data.n_tasks))
        norms = np.linalg.norm(A, axis=1)
        value = 0.5 * float(rest @ rest) / self.data.mean_size + self.alpha * float(norms.sum())
        return {"value": value, "rows kept": int(np.count_nonzero(norms))}

    def get_one_result(self):
        """Zero, for benchopt's own tests."""
        return {"A": np.zeros((self.data.X.shape[1], self.data.n_tasks))}

    def get_objective(self):
        """What a solver is given."""
        return {"data": self.data, "alpha": self.alpha}
